"""Edits as lines and columns, for readers that do not count characters from the start of the file."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from arc_toolkit.edit.edits import Edit

NEWLINES = ("\r\n", "\n", "\r")
_NEWLINE = re.compile("|".join(NEWLINES))


@dataclass(frozen=True, slots=True)
class Replacement:
    """Text in place of a region; lines and columns count characters from 1, and the end is not part of the region."""

    line: int
    column: int
    end_line: int
    end_column: int
    text: str


@lru_cache(maxsize=1)  # a file has many findings
def _line_starts(text: str) -> list[int]:
    return [0, *(match.end() for match in _NEWLINE.finditer(text))]


def replacements(text: str, edits: Iterable[Edit]) -> tuple[Replacement, ...]:
    """The edits of a text, in its order."""
    starts = _line_starts(text)

    def position(offset: int) -> tuple[int, int]:
        line = bisect_right(starts, offset)
        return line, offset - starts[line - 1] + 1

    ordered = sorted(edits, key=lambda edit: (edit.start, edit.end))
    return tuple(Replacement(*position(edit.start), *position(edit.end), edit.text) for edit in ordered)
