"""Whose fault the unexpected end of a generation was: the script's, or a lost node's."""

from __future__ import annotations

from collections.abc import Iterable

from arc_toolkit.elastic.agent_server import SILENCE_SECONDS
from arc_toolkit.elastic.timeline import Timeline

# Between the error of a rank and the loss of the node that its peer was on. The next generation
# starts after the first time; a run ends after the second one only, by which a silent node is lost
# as well.
_PEER_SECONDS = 0.5
_EXCUSE_SECONDS = SILENCE_SECONDS + 2.0


class FailureBudget:
    """Counts errors of the script, except those of a generation that lost a node."""

    def __init__(self, most: int, timeline: Timeline) -> None:
        self._most, self._timeline = most, timeline
        self._nodes: set[str] = set()
        self._since = 0.0
        self._failure: tuple[int, int] | None = None  # the rank and its exit code
        self._is_counted = False

    def broke(
        self, nodes: Iterable[str], now: float, failure: tuple[int, int] | None = None
    ) -> None:
        """A generation has ended without being asked to."""
        self._nodes, self._since, self._failure, self._is_counted = set(nodes), now, failure, False

    def note_loss(self, node: str, now: float) -> None:
        """A node is gone. Several may be lost at once."""
        if node not in self._nodes or now - self._since >= _EXCUSE_SECONDS:
            return
        self._timeline.evict(node)
        self._timeline.stall("lost node")
        if self._is_counted:
            self._timeline.excuse(node)
        self._failure, self._is_counted = None, False

    def is_settled(self, now: float) -> bool:
        """Whether the run may go on: an error is counted if no node was lost meanwhile."""
        if self._failure is None or self._is_counted:
            return True
        is_last = self._timeline.failures >= self._most
        if now - self._since < (_EXCUSE_SECONDS if is_last else _PEER_SECONDS):
            return False
        self._is_counted = True
        self._timeline.fail(*self._failure)
        return True

    @property
    def exit_code(self) -> int | None:
        """That of the script, once its errors are too many."""
        is_over = self._is_counted and self._timeline.failures > self._most
        return self._failure[1] if is_over and self._failure is not None else None
