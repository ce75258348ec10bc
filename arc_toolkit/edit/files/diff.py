"""Unified diffs that `git apply` takes, CRLF and missing final newlines as they are; and where the
places of a text are after it was rewritten.

`difflib` alone takes quadratic time on long files with repeated lines. Edits are local: where two
texts part, they meet again a few lines later, and only if they do not is `difflib` asked about the
rest.
"""

from __future__ import annotations

import difflib
import os
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from arc_toolkit.edit.files.edits import Edit

_NO_NEWLINE = "\\ No newline at end of file\n"
# How many lines away the texts may meet again, and how many equal lines show that they do.
_REACH, _MEETING = 64, 3
Opcode = tuple[str, int, int, int, int]


def unified(path: str, before: bytes | None, after: bytes) -> str:
    """The diff of one file; `before` is None for a new one."""
    name = shown(path)
    # A tab ends a name that has blanks in it.
    end = "\t\n" if " " in name else "\n"
    old, new = _lines(before or b""), _lines(after)
    matcher: difflib.SequenceMatcher[str] = difflib.SequenceMatcher()
    # What get_grouped_opcodes() works on.
    matcher.opcodes = list(opcodes(old, new))  # type: ignore[attr-defined]
    pieces = [f"--- {'/dev/null' if before is None else f'a/{name}'}{end}+++ b/{name}{end}"]
    for group in matcher.get_grouped_opcodes(3):
        (_, i1, _, j1, _), (_, _, i2, _, j2) = group[0], group[-1]
        pieces.append(f"@@ -{_span(i1, i2)} +{_span(j1, j2)} @@\n")
        for tag, a1, a2, b1, b2 in group:
            if tag == "equal":
                pieces += [_line(" ", line) for line in old[a1:a2]]
            else:
                pieces += [_line("-", line) for line in old[a1:a2]]
                pieces += [_line("+", line) for line in new[b1:b2]]
    return "".join(pieces) if len(pieces) > 1 else ""


def opcodes(old: list[str], new: list[str]) -> Iterator[Opcode]:
    """The lines that are equal and those that are not, as `difflib` names them."""
    i = j = 0
    while i < len(old) or j < len(new):
        start = i
        while i < len(old) and j < len(new) and old[i] == new[j]:
            i, j = i + 1, j + 1
        if i > start:
            yield "equal", start, i, j - (i - start), j
        if i == len(old) and j == len(new):
            return
        meeting = _meeting(old, new, i, j) or _near(old, new, i, j)
        ends = (len(old), len(new)) if meeting is None else (i + meeting[0], j + meeting[1])
        if i == ends[0] or j == ends[1]:
            yield "replace", i, ends[0], j, ends[1]
        else:  # single lines in between may be equal
            part = difflib.SequenceMatcher(None, old[i : ends[0]], new[j : ends[1]])
            yield from ((tag, i + a, i + b, j + c, j + d) for tag, a, b, c, d in part.get_opcodes())
        i, j = ends


def _meeting(old: list[str], new: list[str], i: int, j: int) -> tuple[int, int] | None:
    """How many lines of each text come before they are equal again.

    None if they are too many to look for.
    """
    for distance in range(1, _REACH):
        for skipped in range(distance + 1):
            here, there = i + skipped, j + distance - skipped
            if here > len(old) or there > len(new):
                continue
            if old[here : here + _MEETING] == new[there : there + _MEETING]:
                return here - i, there - j
    return None


def _near(old: list[str], new: list[str], i: int, j: int) -> tuple[int, int] | None:
    """The same where every second or third line has changed: up to the last equal lines of a part
    that has many.
    """
    part = difflib.SequenceMatcher(None, old[i : i + _REACH], new[j : j + _REACH], autojunk=False)
    *blocks, _ = part.get_matching_blocks()
    if sum(block.size for block in blocks) * 4 < min(_REACH, len(old) - i, len(new) - j):
        return None  # the texts are far apart
    return (blocks[-1].a, blocks[-1].b) if blocks else None


def _span(start: int, end: int) -> str:
    """`12,3` of a hunk's head; an empty one names the line before it."""
    return (
        f"{start + 1}"
        if end - start == 1
        else f"{start + 1 if end > start else start},{end - start}"
    )


def _line(mark: str, line: str) -> str:
    return f"{mark}{line}" if line.endswith("\n") else f"{mark}{line}\n{_NO_NEWLINE}"


def shown(path: str) -> str:
    """A path as a diff names it: below the current folder, or else from the root, where `git apply`
    takes it.
    """
    relative = os.path.relpath(path)
    name = os.path.abspath(path) if relative.startswith("..") else relative
    return name.replace(os.sep, "/").lstrip("/")


def _lines(data: bytes) -> list[str]:
    lines = data.decode("utf-8", errors="surrogateescape").split("\n")
    return [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


# --- places ---

NEWLINES = ("\r\n", "\n", "\r")
_NEWLINE = re.compile("|".join(NEWLINES))


def line_starts(text: str) -> list[int]:
    return [0, *(match.end() for match in _NEWLINE.finditer(text))]


class LineMap:
    """From a text to the one that replaced it. Lines and columns count characters from 1."""

    def __init__(self, before: str, after: str) -> None:
        self._starts = line_starts(before), line_starts(after)
        self._lines = _lines_at(before, self._starts[0]), _lines_at(after, self._starts[1])
        self._opcodes = list(opcodes(*self._lines))
        self._ends = [opcode[2] for opcode in self._opcodes]

    def position(self, line: int, column: int) -> tuple[int, int]:
        """The place that a place became; of what was removed, the place where it was."""
        tag, i1, _, j1, j2 = self._opcode(line - 1)
        old, new = self._lines
        if tag == "equal":
            return line - i1 + j1, column
        if j1 == j2 or line > len(old):
            return j1 + 1 if j1 < len(new) and new[j1] else max(j1, 1), 1
        text = old[line - 1]
        row = max(range(j1, j2), key=lambda row: sum(_shared(text.strip(), new[row].strip())))
        start, end = _shared(text, new[row])
        # Characters that both lines begin or end with keep their place from there.
        if column - 1 > start:
            column = len(new[row]) - (len(text) - column) if column > len(text) - end else start + 1
        return row + 1, column

    def edits(self, edits: Sequence[Edit]) -> tuple[Edit, ...]:
        """Edits of the old text as edits of the new one; none if one of their lines, or the one
        before, has changed.
        """
        moved = []
        for edit in edits:
            # The line before counts too: an addition after it may belong to another block.
            first = max(0, bisect_right(self._starts[0], edit.start) - 2)
            last = bisect_right(self._starts[0], edit.end) - 1
            tag, i1, i2, j1, _ = self._opcode(first)
            if tag != "equal" or last >= i2:
                return ()
            shift = self._starts[1][j1] - self._starts[0][i1]
            moved.append(Edit(edit.start + shift, edit.end + shift, edit.text))
        return tuple(moved)

    def _opcode(self, row: int) -> Opcode:
        """The opcode of a line of the old text, from 0; after the last line, the last one."""
        return self._opcodes[min(bisect_right(self._ends, row), len(self._opcodes) - 1)]


def _lines_at(text: str, starts: Sequence[int]) -> list[str]:
    """All lines, with their ends; the last one may be empty, and is a place as well."""
    return [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]


def _shared(old: str, new: str) -> tuple[int, int]:
    """How many characters two lines share from the start and, of the rest, from the end."""
    start = _prefix(old, new)
    return start, _prefix(old[start:][::-1], new[start:][::-1])


def _prefix(old: str, new: str) -> int:
    pairs = enumerate(zip(old, new, strict=False))
    return next((at for at, (left, right) in pairs if left != right), min(len(old), len(new)))
