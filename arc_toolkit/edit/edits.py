"""An edit replaces a span of text. Offsets count characters of the decoded text, not bytes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the characters [start, end) by `text`; an insertion has start == end."""

    start: int
    end: int
    text: str


class OverlapError(ValueError):
    """Two edits want the same characters: the caller refuses the file."""


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """The text with all edits made, right to left, so that offsets stay true.

    Edits that insert at the same place keep the order in which they were given. Overlaps are refused.
    """
    ordered = sorted(enumerate(edits), key=lambda pair: (pair[1].start, pair[1].end, pair[0]))
    end = 0
    for _, edit in ordered:
        if not 0 <= edit.start <= edit.end <= len(text):
            raise OverlapError(f"an edit at {edit.start}..{edit.end} is outside of the text")
        if edit.start < end:
            raise OverlapError(f"two edits overlap at character {edit.start}")
        end = edit.end
    for _, edit in reversed(ordered):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text
