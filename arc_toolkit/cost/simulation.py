"""Many runs of a job, one eviction after the other: the distribution of its time and price.

Plain Python: about one microsecond per eviction, and no package to install. The model is that of
`formulas`, plus what has no closed form: the fallback to on-demand, in which the whole gang moves,
because a job has one instance type.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, log

from arc_toolkit.cost.training_job import IDLE_SECONDS, TrainingJob
from arc_toolkit.errors import ArcError

MOST_EVICTIONS = 100_000  # of one run
MOST_RUNS = 1_000_000


@dataclass(frozen=True, slots=True)
class Runs:
    """Seconds per run: from start to end, of the gang on spot and on demand, of idle nodes."""

    elapsed: Sequence[float]
    spot: Sequence[float]
    on_demand: Sequence[float]
    idle: Sequence[float]
    evictions: Sequence[int]

    def prices(self, spot: float, on_demand: float | None, nodes: int) -> list[float]:
        """The price of each run, from prices per node and hour."""
        dear = on_demand or 0.0
        return [
            (nodes * (spot * cheap + dear * full) + spot * waiting) / 3600
            for cheap, full, waiting in zip(self.spot, self.on_demand, self.idle, strict=True)
        ]


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which that share of them is, between the two nearest."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def mean_of(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def simulate(job: TrainingJob, runs: int, seed: int = 0) -> Runs:
    """`runs` jobs; the same seed gives the same ones."""
    uniform = random.Random(seed).random  # noqa: S311 (a simulation, not a secret)
    rows = [_run(job, uniform) for _ in range(runs)]
    elapsed, spot, on_demand, idle, evictions = zip(*rows, strict=True)
    return Runs(elapsed, spot, on_demand, idle, evictions)


def _run(job: TrainingJob, uniform: Callable[[], float]) -> tuple[float, float, float, float, int]:
    """One job. Locals instead of attributes: this loop decides how many runs a second has."""
    mean, save, interval, noticed, restart = (
        job.mean,
        job.save_seconds,
        job.interval,
        job.noticed,
        job.restart_seconds,
    )
    if math.isinf(mean):
        return job.work_seconds, job.work_seconds, 0.0, 0.0, 0
    missing, span, waiting_nodes = job.missing.share, interval + save, job.waiting_nodes
    work_left, spot, on_demand, waits, idle = job.work_seconds, 0.0, 0.0, 0.0, 0.0
    starting = 0.0  # the first start is the same on dedicated nodes
    for evictions in range(MOST_EVICTIONS):
        until = -log(1.0 - uniform()) * mean
        needed = starting + work_left + save * (ceil(work_left / interval) - 1)
        if until >= needed:
            spot += needed
            return spot + on_demand + waits, spot, on_demand, idle, evictions
        spot += until
        worked = until - starting
        if worked > 0:
            saved = worked // span
            work_left -= saved * interval
            if noticed and uniform() < noticed:
                work_left -= min(worked - saved * span, interval)
                spot += save
        starting = restart
        if missing and uniform() < missing:
            wait, dear, work_left = _outage(
                job, work_left, -log(1.0 - uniform()) * job.missing.mean_seconds
            )
            waits += wait
            on_demand += dear
            idle += waiting_nodes * min(wait, IDLE_SECONDS)
            if work_left <= 0:
                return spot + on_demand + waits, spot, on_demand, idle, evictions + 1
    raise ArcError(
        f"after {MOST_EVICTIONS:,} evictions the job is not at its end: "
        "at this rate it hardly makes progress"
    )


def _outage(job: TrainingJob, work_left: float, lasts: float) -> tuple[float, float, float]:
    """No spot capacity for so long: the wait, the time on demand, and the work that is left.

    On demand it restarts, works until spot is back, and saves before it moves.
    """
    after = job.missing.fallback_seconds
    if after is None or lasts <= after:
        return lasts, 0.0, work_left
    most = lasts - after
    if job.restart_seconds + work_left <= most:
        return after, job.restart_seconds + work_left, 0.0
    worked = max(0.0, most - job.restart_seconds - job.save_seconds)
    return after, most, work_left - worked
