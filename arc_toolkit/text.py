"""Text for messages: counts, suggestions, and names without control characters."""

from __future__ import annotations

import re
from collections.abc import Iterable

# Terminal controls, line breaks of every kind, and marks that change the direction of writing, with
# which a name can pretend to be another.
_CONTROL = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)
_NAMED = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


def plural(count: int, word: str) -> str:
    """`1 job`, `2 jobs`."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def nearest(name: str, names: Iterable[str], cutoff: float = 0.6) -> str:
    """The most similar of `names`, for "did you mean"; empty if none is similar.

    `cutoff` is the least similarity, from 0 to 1: `source` and `resources` are 0.8 alike.
    """
    import difflib  # not imported at start-up

    matches = difflib.get_close_matches(name, list(names), n=1, cutoff=cutoff)
    return matches[0] if matches else ""


def printable(text: str) -> str:
    """Control characters as visible escapes: a job can have any name."""
    return _CONTROL.sub(lambda match: _NAMED.get(match[0]) or _escaped(ord(match[0])), text)


def _escaped(code: int) -> str:
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
