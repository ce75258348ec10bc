"""Plain text: tables with aligned columns."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence

# Colours a text: `style(text, "red")`, or gives it back as it is.
Style = Callable[..., str]

_ANSI = re.compile(r"\x1b\[[0-9;]*m")


def width(text: str) -> int:
    """Columns that the text takes on a terminal: colour codes take none, wide characters two."""
    plain = _ANSI.sub("", text)
    if plain.isascii():
        return len(plain)
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in plain)


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Rows under their headers, two blanks apart; columns in `right` are aligned right."""
    lines = [list(headers), *[list(row) for row in rows]]
    widths = [max(width(line[index]) for line in lines) for index in range(len(headers))]

    def cell(text: str, index: int) -> str:
        blanks = " " * (widths[index] - width(text))
        return blanks + text if index in right else text + blanks

    return "\n".join(
        "  ".join(cell(text, index) for index, text in enumerate(line)).rstrip() for line in lines
    )
