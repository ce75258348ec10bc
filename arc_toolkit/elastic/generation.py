"""One set of ranks from start to stop, and the agreement on the step after which they stop."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from arc_toolkit.elastic.rank_placement import Placement
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
