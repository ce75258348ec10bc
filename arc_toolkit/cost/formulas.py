"""Expected time and price of a job in closed form, for evictions that come at random (exponential, memoryless).

Between two saves (a renewal) the job works until the next save or an eviction, whichever is first:

    time per renewal = M (1 - e^(-s/M)) + F (R' + q C),   s = tau + C, F = 1 - e^(-s/M), R' = M (e^(R/M) - 1)
    work per renewal = tau e^(-s/M) + q (M (1 - e^(-tau/M)) - tau e^(-s/M))

with C the save, R the restart (in which the job can be evicted again: R'), M the mean time between evictions of the
job, and q the share of evictions whose notice is used for a save. With q = 0 that is Daly's exact
M e^(R/M) (e^(s/M) - 1) / tau.
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
    """What is expected of a job, in seconds: its work, what is added to it, and how many evictions it meets."""

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


def expected(job: TrainingJob, interval: float | None = None) -> Expected | None:
    """None if the job would hardly get on: evictions come faster than it restarts and saves."""
    tau = job.interval if interval is None else interval
    if math.isinf(job.mean):
        return Expected(job.work_seconds, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    mean, save, noticed, span = job.mean, job.save_seconds, job.noticed, tau + job.save_seconds
    if job.restart_seconds / mean > math.log(HOPELESS):
        return None
    undisturbed = math.exp(-span / mean)
    evicted = 1 - undisturbed
    again = math.exp(job.restart_seconds / mean)  # restarts per eviction during work
    kept = tau * undisturbed + noticed * (mean * -math.expm1(-tau / mean) - tau * undisturbed)
    if kept <= 0:
        return None
    renewals = job.work_seconds / kept
    restarts = evicted * mean * (again - 1)
    saves = undisturbed * save + noticed * evicted * save
    passed = mean * evicted + restarts + noticed * evicted * save
    if passed * renewals > HOPELESS * job.work_seconds:
        return None
    evictions = renewals * evicted * again
    return Expected(
        work=job.work_seconds,
        saves=renewals * saves,
        restarts=renewals * restarts,
        redone=renewals * (passed - restarts - saves - kept),
        waits=evictions * _wait(job, math.inf),
        idle_nodes=(job.nodes - 1) * evictions * _wait(job, IDLE_SECONDS),
        evictions=evictions,
    )


def _wait(job: TrainingJob, most: float) -> float:
    """Mean wait for capacity per eviction, cut at `most` and at the fallback."""
    missing = job.missing
    most = min(most, math.inf if missing.fallback_seconds is None else missing.fallback_seconds)
    return (
        missing.share * missing.mean_seconds * -math.expm1(-most / missing.mean_seconds) if missing.share else 0.0
    )


def break_even(job: TrainingJob, dedicated: float, spot: float) -> float | None:
    """The eviction rate above which spot costs more than dedicated; None if it pays up to 99.9 % per hour."""
    limit = dedicated * job.nodes * job.work_seconds / 3600

    def pays(rate: float) -> bool:
        result = expected(job.at(rate))
        return result is not None and result.price(spot, job.nodes) <= limit

    return None if pays(HIGHEST_RATE) else _last(pays)


def _last(holds: Callable[[float], bool]) -> float:
    """The largest rate for which it holds, which it does for all smaller ones."""
    low, high = 0.0, HIGHEST_RATE
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
