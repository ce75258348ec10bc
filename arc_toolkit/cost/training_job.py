"""The job whose price is asked for: evictions, notices, saves, restarts, missing capacity."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

from arc_toolkit.checkpoints.interval import NOTICE_WORKS, SaveSchedule, best_interval, mean_seconds
from arc_toolkit.errors import ArcError

SHORTEST_INTERVAL = 1.0
MOST_HOURS = 100_000
# Nodes of a gang that wait for one that is missing are paid until the autoscaler removes them:
# AKS, cluster autoscaler profile, scale-down-unneeded-time: 10 minutes.
IDLE_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class MissingCapacity:
    """After which share of evictions no spot capacity is available, and for how long on average."""

    share: float = 0.0
    mean_seconds: float = 0.0
    fallback_seconds: float | None = None  # on-demand after this wait; None: wait for spot

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1 or (self.share and not 0 < self.mean_seconds < math.inf):
            raise ArcError(
                "--missing: use a share from 0% to 100% and a time of more than 0, such as 10%:30m"
            )


@dataclass(frozen=True)
class TrainingJob:
    """Times in seconds. `rate`: the probability that a node is evicted within an hour."""

    work_seconds: float
    nodes: int = 1
    rate: float = 0.0
    save_seconds: float = 15.0
    restart_seconds: float = 60.0
    noticed: float = NOTICE_WORKS
    missing: MissingCapacity = MissingCapacity()
    # nodes of the job that one eviction takes, on average: evictions come in waves
    together: float = 1.0

    def __post_init__(self) -> None:
        if self.nodes < 1:
            raise ArcError(f"--nodes {self.nodes}: a job needs at least one node")
        if not 1 <= self.together <= self.nodes:
            raise ArcError(
                f"--together {self.together:g}: use 1 to {self.nodes}, the nodes of the job"
            )
        if not 1 <= self.work_seconds <= MOST_HOURS * 3600:
            raise ArcError(
                f"--hours: a job takes at least a second, and at most {MOST_HOURS:,} hours"
            )
        if not 0 <= self.rate < 1:
            raise ArcError(f"--eviction-rate {self.rate:.0%}: use 0% or more, and less than 100%")
        if self.save_seconds < 0 or self.restart_seconds < 0:
            raise ArcError("--save and --restart: a time cannot be negative")
        if not 0 <= self.noticed <= 1:
            raise ArcError("--notice-works: use 0% to 100%")

    @cached_property
    def mean(self) -> float:
        """Seconds between evictions of the job, or infinite. Nodes that go at once stop it once."""
        return mean_seconds(self.rate, self.nodes) * self.together if self.rate else math.inf

    @property
    def waiting_nodes(self) -> float:
        """Those that an eviction leaves, which wait for the others."""
        return self.nodes - self.together

    @cached_property
    def interval(self) -> float:
        """Seconds of work between saves: the optimum, and never longer than the job."""
        best = best_interval(self.save_seconds, self.mean, self.noticed)
        return min(max(best, SHORTEST_INTERVAL), self.work_seconds)

    def with_rate(self, rate: float) -> TrainingJob:
        return replace(self, rate=rate)


def notice_notes(save: float, notice: float, works: float) -> list[str]:
    """What to know about saves of `save` seconds that begin at a notice `notice` seconds ahead."""
    if save > notice:
        raise ArcError(
            f"--save {save:g}s: a save takes longer than the notice of {notice:g} s: "
            "use --no-notice, or save faster"
        )
    notes = [
        f"assumed: {100 * works:g}% of the evictions are announced in time for a save "
        "(--notice-works, --no-notice)"
    ]
    schedule = SaveSchedule(math.inf)
    schedule.note_save(0, save)
    if not schedule.fits(notice):
        notes.insert(
            0,
            f"a save of {save:g} s does not fit into a notice of {notice:g} s with the margin "
            "that the checkpoint library keeps: --no-notice shows the price without it",
        )
    return notes
