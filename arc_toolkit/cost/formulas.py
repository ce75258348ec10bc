"""Expected time and price of a job in closed form, for random evictions (memoryless).

Between two saves (a renewal) the job works until the next save or an eviction, whichever is first:

    s = tau + C,   F = 1 - e^(-s/M),   R' = M (e^(R/M) - 1)
    time per renewal = M (1 - e^(-s/M)) + F (R' + q C)
    work per renewal = tau e^(-s/M) + q (M (1 - e^(-tau/M)) - tau e^(-s/M))

with C the save, R the restart (in which the job can be evicted again: R'), M the mean time between
evictions of the job, and q the share of evictions whose notice is used for a save. With q = 0 that
is Daly's exact M e^(R/M) (e^(s/M) - 1) / tau. The last renewal ends without a save.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from arc_toolkit.cost.training_job import IDLE_SECONDS, TrainingJob

HOPELESS = 1000.0  # times the work: nobody waits that long
HIGHEST_RATE = 0.999


@dataclass(frozen=True, slots=True)
class Expected:
    """The expected seconds of a job: its work, all that is added to it, and its evictions."""

    work: float
    saves: float
    restarts: float
    redone: float
    waits: float
    idle_nodes: float  # seconds of nodes that are paid while the gang waits
    evictions: float

    @property
    def elapsed(self) -> float:
        return self.work + self.saves + self.restarts + self.redone + self.waits

    @property
    def slower(self) -> float:
        """0.06: takes 6 % longer than without evictions and saves."""
        return self.elapsed / self.work - 1

    def price(self, per_node_hour: float, nodes: int) -> float:
        """Waiting for capacity is not paid, but for the nodes that wait."""
        return per_node_hour * (nodes * (self.elapsed - self.waits) + self.idle_nodes) / 3600


def expected_run(job: TrainingJob, interval: float | None = None) -> Expected | None:
    """None if the job would hardly get on: evictions come faster than it restarts and saves."""
    if math.isinf(job.mean):
        return Expected(job.work_seconds, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    if job.restart_seconds / job.mean > math.log(HOPELESS):
        return None
    tau = job.interval if interval is None else interval
    # Nothing is saved after the last part, which is as long as what the others leave.
    last = job.work_seconds - tau * (math.ceil(job.work_seconds / tau) - 1)
    parts = [
        _renewals(job, job.work_seconds - last, tau, job.save_seconds),
        _renewals(job, last, last, 0.0),
    ]
    saves, restarts, redone, evictions = (math.fsum(column) for column in zip(*parts, strict=True))
    if not saves + restarts + redone <= HOPELESS * job.work_seconds:
        return None
    return Expected(
        work=job.work_seconds,
        saves=saves,
        restarts=restarts,
        redone=redone,
        waits=evictions * _wait(job, math.inf),
        idle_nodes=job.waiting_nodes * evictions * _wait(job, IDLE_SECONDS),
        evictions=evictions,
    )


def _renewals(
    job: TrainingJob, work: float, tau: float, save: float
) -> tuple[float, float, float, float]:
    """Seconds of saves, restarts and repeated work, and the number of evictions, for some work.

    `save` is the one that ends a renewal; the one at a notice is that of the job.
    """
    if work <= 0:
        return 0.0, 0.0, 0.0, 0.0
    mean, noticed, at_notice = job.mean, job.noticed, job.save_seconds
    undisturbed = math.exp(-(tau + save) / mean)
    evicted = 1 - undisturbed
    restarts = math.exp(job.restart_seconds / mean)  # restarts per eviction during work
    useful = tau * undisturbed + noticed * (mean * -math.expm1(-tau / mean) - tau * undisturbed)
    if useful <= 0:
        return math.inf, math.inf, math.inf, math.inf
    count = work / useful
    saves = undisturbed * save + noticed * evicted * at_notice
    redone = mean * evicted - undisturbed * save - useful
    return (
        count * saves,
        count * evicted * mean * (restarts - 1),
        count * redone,
        count * evicted * restarts,
    )


def _wait(job: TrainingJob, most: float) -> float:
    """Mean wait for capacity per eviction, cut at `most` and at the fallback."""
    missing = job.missing
    most = min(most, math.inf if missing.fallback_seconds is None else missing.fallback_seconds)
    return (
        missing.share * missing.mean_seconds * -math.expm1(-most / missing.mean_seconds)
        if missing.share
        else 0.0
    )


def break_even(job: TrainingJob, dedicated: float, spot: float) -> float | None:
    """The eviction rate above which spot costs more than dedicated; None up to 99.9 % per hour."""
    limit = dedicated * job.nodes * job.work_seconds / 3600

    def pays(rate: float) -> bool:
        result = expected_run(job.with_rate(rate))
        return result is not None and result.price(spot, job.nodes) <= limit

    return None if pays(HIGHEST_RATE) else _last(pays)


def _last(holds: Callable[[float], bool]) -> float:
    """The largest rate for which it holds, which it does for all smaller ones."""
    low, high = 0.0, HIGHEST_RATE
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
