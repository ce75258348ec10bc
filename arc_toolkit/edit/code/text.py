"""New Python expressions as text: on one line where they fit, else one item a line, as formatters
write them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from arc_toolkit.edit.code.source import Source

_WIDTH = 88
_STEP = "    "


@dataclass(frozen=True, slots=True)
class Bracketed:
    """A call, list or dictionary: its items each have a beginning, such as `key=`."""

    opening: str
    items: Sequence[tuple[str, str | Bracketed]]
    closing: str

    def line(self) -> str:
        return (
            self.opening + ", ".join(head + _line(item) for head, item in self.items) + self.closing
        )


def written(value: str | Bracketed, source: Source, indent: str, before: int) -> str:
    """The text of a value that begins after `before` characters of a line with this indent."""
    return _written(value, indent, before).replace("\n", source.newline)


def _line(value: str | Bracketed) -> str:
    return value if isinstance(value, str) else value.line()


def _written(value: str | Bracketed, indent: str, before: int) -> str:
    line = _line(value)
    if isinstance(value, str) or not value.items or before + len(line) < _WIDTH:
        return line
    inner = indent + _STEP
    items = [
        f"{inner}{head}{_written(item, inner, len(inner + head))},\n" for head, item in value.items
    ]
    return f"{value.opening}\n{''.join(items)}{indent}{value.closing}"
