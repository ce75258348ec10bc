"""Where the places of a text are after it was rewritten, by the lines that both texts have."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

from arc_toolkit.edit.files.diff import Opcode, opcodes
from arc_toolkit.edit.files.edits import Edit

NEWLINES = ("\r\n", "\n", "\r")
_NEWLINE = re.compile("|".join(NEWLINES))


def line_starts(text: str) -> list[int]:
    return [0, *(match.end() for match in _NEWLINE.finditer(text))]


class LineMap:
    """From a text to the one that replaced it. Lines and columns count characters from 1."""

    def __init__(self, before: str, after: str) -> None:
        self._starts = line_starts(before), line_starts(after)
        self._lines = _lines(before, self._starts[0]), _lines(after, self._starts[1])
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
        row = max(range(j1, j2), key=lambda row: _alike(text, new[row]))
        start, end = _shared(text, new[row])
        # Characters that both lines begin or end with keep their place from there.
        if column - 1 > start:
            column = len(new[row]) - (len(text) - column) if column > len(text) - end else start + 1
        return row + 1, column

    def edits(self, edits: Sequence[Edit]) -> tuple[Edit, ...]:
        """Edits of the old text as edits of the new one; none if one of their lines, or the one before, has changed."""
        moved = []
        for edit in edits:
            # The line before counts as well: what was added after it may belong to another block than the edit.
            first = max(0, bisect_right(self._starts[0], edit.start) - 2)
            last = bisect_right(self._starts[0], edit.end) - 1
            tag, i1, i2, j1, _ = self._opcode(first)
            if tag != "equal" or last >= i2:
                return ()
            shift = self._starts[1][j1] - self._starts[0][i1]
            moved.append(Edit(edit.start + shift, edit.end + shift, edit.text))
        return tuple(moved)

    def _opcode(self, row: int) -> Opcode:
        """The one that has a line of the old text, counted from 0; of a place after the last, the last one."""
        return self._opcodes[min(bisect_right(self._ends, row), len(self._opcodes) - 1)]


def _lines(text: str, starts: Sequence[int]) -> list[str]:
    """All lines, with their ends; the last one may be empty, and is a place as well."""
    return [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]


def _shared(old: str, new: str) -> tuple[int, int]:
    """How many characters two lines have in common from the start and, of the rest, from the end."""
    start = _prefix(old, new)
    return start, _prefix(old[start:][::-1], new[start:][::-1])


def _prefix(old: str, new: str) -> int:
    pairs = enumerate(zip(old, new, strict=False))
    return next((at for at, (left, right) in pairs if left != right), min(len(old), len(new)))


def _alike(old: str, new: str) -> int:
    """How many characters two lines have in common, whatever their indentation."""
    return sum(_shared(old.strip(), new.strip()))
