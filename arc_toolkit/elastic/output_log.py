"""The output of the ranks, for clients that come and go."""

from __future__ import annotations

from collections import deque

_KEPT = 10_000


class OutputLog:
    """The newest lines, each with its rank. A client says how many lines it has read."""

    def __init__(self, kept: int = _KEPT) -> None:
        self._lines: deque[tuple[int | None, str]] = deque(maxlen=kept)
        self.count = 0

    def add(self, rank: int | None, text: str) -> None:
        self._lines.append((rank, text))
        self.count += 1

    def since(self, count: int) -> list[tuple[int | None, str]]:
        """Lines after the first `count`, as far as they are kept."""
        lines = list(self._lines)
        return lines[max(0, len(lines) - max(0, self.count - count)) :]
