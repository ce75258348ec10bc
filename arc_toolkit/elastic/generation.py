"""One set of ranks from start to stop, and the agreement on the step after which they stop.

Its unexpected end is the fault of the script, or of a lost node: see FailureBudget.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from arc_toolkit.elastic.agent_server import SILENCE_SECONDS
from arc_toolkit.elastic.rank_placement import Placement
from arc_toolkit.elastic.timeline import Timeline
from arc_toolkit.notices.sources.notice_file import ProgressRecord

# Ranks go on for so long before they stop: by then all have read of the step.
_AGREEMENT_SECONDS = 0.6
_SETTLE_SECONDS = 0.3  # ranks that stop after the same step end within this time of the first one


class Agreement:
    """The step after which all ranks stop.

    It is proposed first. A rank that has read of a proposal waits at its step until that is final;
    one that had already passed it makes another proposal necessary. So ranks never stop after
    different steps, however slow this machine is.
    """

    def __init__(self, progress: Collection[ProgressRecord], steps_per_second: float) -> None:
        self.is_final = False
        self._ahead = 0
        self.step = -1  # before anything is known of the ranks, the one before the first
        if progress:
            self._propose(progress, steps_per_second)

    def update(
        self,
        progress: Mapping[int, ProgressRecord],
        running: Collection[int],
        steps_per_second: float,
    ) -> bool:
        """Whether there is something new for the ranks."""
        if self.is_final:
            return False
        records = [record for rank, record in progress.items() if rank in running]
        for record in records:
            is_waiting = record.step == self.step and record.proposal == self.step
            if record.step >= self.step and not is_waiting:
                self._propose(records, steps_per_second)
                return True
        if records and len(records) == len(running):
            self.is_final = all(record.proposal == self.step for record in records)
        return self.is_final

    def _propose(self, progress: Collection[ProgressRecord], steps_per_second: float) -> None:
        """A step that no rank has passed; each further proposal is farther ahead."""
        ahead = max(self._ahead, math.ceil(steps_per_second * _AGREEMENT_SECONDS))
        self.step = max(record.step for record in progress) + 1 + ahead
        self._ahead = 2 * ahead + 1


@dataclass
class StopRequest:
    """Why a generation stops, and until when (monotonic clock, except `deadline`)."""

    reason: str
    until: float
    copy_until: float
    deadline: float
    agreement: Agreement


@dataclass
class Generation:
    """The ranks that run now."""

    number: int
    placement: Placement
    began: float  # as of the monotonic clock
    takes_part: bool = False  # the script reports its steps
    is_ready: bool = False  # standbys for the next one are warm on all nodes
    progress: dict[int, ProgressRecord] = field(default_factory=dict)
    exits: dict[int, int] = field(default_factory=dict)
    stop: StopRequest | None = None

    @property
    def size(self) -> int:
        return self.placement.size

    @property
    def step(self) -> int | None:
        """Of the first rank, which saves."""
        record = self.progress.get(0)
        return record.step if record is not None else None

    @property
    def running(self) -> list[int]:
        return [rank for rank in range(self.size) if rank not in self.exits]

    @property
    def is_done(self) -> bool:
        """All ranks have ended, and none with an error."""
        return not self.running and not any(self.exits.values())

    def note_exit(self, rank: int, code: int, now: float) -> None:
        # Without the library each rank may have something to save, and takes the time it needs.
        if not self.exits and self.stop is not None and self.takes_part:
            self.stop.until = min(self.stop.until, now + _SETTLE_SECONDS)
        self.exits[rank] = code

    def has_left(self, node: str) -> bool:
        """It was to go, and its ranks had stopped."""
        return self.stop is not None and set(self.placement.ranks_of(node)) <= set(self.exits)


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
