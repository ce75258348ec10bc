"""An edit replaces a span of text, and the two ways in which reading or changing a text can fail.

Offsets count characters of the decoded text, not bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the characters [start, end) by `text`; an insertion has start == end."""

    start: int
    end: int
    text: str


class SkipCause(Enum):
    """Why a file is skipped, or its text `Unreadable`."""

    BROKEN = "broken"  # not valid text of its language, or beyond the limits of this package
    FOREIGN = "foreign"  # valid, and not what the reader looks for
    IGNORED = "ignored"  # by .gitignore
    NOT_A_FILE = "not a file"  # a link to a folder or to nowhere, a device
    TOO_LARGE = "too large"
    UNREADABLE = "unreadable"  # the file system does not give it

    @property
    def harmless(self) -> bool:
        """Whether it is fine to name such a file; anything else is an error then."""
        return self in (SkipCause.FOREIGN, SkipCause.IGNORED)

    @property
    def damaged(self) -> bool:
        """Whether it may be a file to work on that cannot be read: reported also below folders."""
        return self in (SkipCause.BROKEN, SkipCause.TOO_LARGE)


class Unreadable(Exception):
    """Text that cannot be read: `reason` has no place in it.

    Line and column count from 1, and 0 means unknown.
    """

    def __init__(
        self, reason: str, line: int = 0, column: int = 0, *, cause: SkipCause = SkipCause.BROKEN
    ) -> None:
        super().__init__(reason)
        self.reason, self.line, self.column, self.cause = reason, line, column, cause


class Refused(Exception):
    """A change that was asked for and cannot be made, or proved, safely: nothing is written.

    `reason` is a sentence without its place. `path` is given where it is about another file than
    the changed one.
    """

    def __init__(self, reason: str, path: str = "", line: int = 0) -> None:
        super().__init__(reason)
        self.reason, self.path, self.line = reason, path, line

    def sentence(self, path: str) -> str:
        """The reason with its place, for a reader who sees the name of the file `path` anyway."""
        if self.path in ("", path):
            return f"line {self.line}: {self.reason}" if self.line else self.reason
        return (
            f"{self.path}:{self.line}: {self.reason}"
            if self.line
            else f"{self.path}: {self.reason}"
        )


def byte_position(data: bytes, offset: int) -> tuple[int, int]:
    """Line and column of a byte, from 1."""
    return data.count(b"\n", 0, offset) + 1, offset - data.rfind(b"\n", 0, offset)


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """The text with all edits made.

    Edits that insert at the same place keep the order in which they were given. Overlaps are
    refused.
    """
    pieces: list[str] = []
    end = 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        if not 0 <= edit.start <= edit.end <= len(text):
            raise Refused(f"an edit at {edit.start}..{edit.end} is outside of the text")
        if edit.start < end:
            raise Refused(f"two edits overlap at character {edit.start}")
        pieces += (text[end : edit.start], edit.text)
        end = edit.end
    return "".join(pieces) + text[end:]
