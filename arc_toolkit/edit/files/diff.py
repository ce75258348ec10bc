"""Unified diffs that `git apply` takes: CRLF and missing final newlines as they are.

`difflib` alone takes quadratic time on long files with repeated lines. Edits are local: where two
texts part, they meet again a few lines later, and only if they do not is `difflib` asked about the
rest.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator

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
