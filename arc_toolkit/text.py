"""Small helpers for messages."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(name: str, names: Iterable[str], cutoff: float = 0.6) -> str:
    """The most similar of `names`, for "did you mean"; empty if none is similar.

    `cutoff` is the least similarity, from 0 to 1: `source` and `resources` are 0.8 alike.
    """
    import difflib

    matches = difflib.get_close_matches(name, names, n=1, cutoff=cutoff)
    return matches[0] if matches else ""
