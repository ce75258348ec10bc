"""A deadline: when to wait for spot and when to buy on demand, by simulated policies.

`Slack` is the time to the deadline less the work that is left. A policy waits for spot capacity
while the slack is above its threshold, and buys on demand below it until it is ahead again. The
threshold is

    max(reserve, ahead x slack at the start x work left / work)

`ahead` = 1 is the policy Uniform Progress of "Can't Be Late" (Wu et al., NSDI 2024), section 5.2.2:
idle and behind the uniform line, run on demand; take spot whenever it is available and stay until
it is evicted; stay on demand until ahead of the line by two changeovers; idle and less slack than
two changeovers, run on demand to the end. `ahead` = 0 is greedy: wait as long as possible. As in
the paper, all nodes of a job are of one kind at a time.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from arc_toolkit.cost.simulation import MOST_EVICTIONS, mean_of, quantile
from arc_toolkit.cost.training_job import IDLE_SECONDS, TrainingJob
from arc_toolkit.errors import ArcError

CERTAINTY = 0.95
MIX_RUNS = 2000
LEAST_RUNS = 200  # fewer cannot show 95 %
STEPS = (0.0, 0.25, 0.5, 0.75, 1.0)
# seconds ahead of the line before it stops on demand, however fast a changeover is
LEAST_LEAD = 60.0


@dataclass(frozen=True, slots=True)
class MixPolicy:
    """`ahead` None: spot only; math.inf: on demand only."""

    name: str
    ahead: float | None
    reserve: float = 0.0  # seconds of slack below which it is on demand to the end


@dataclass(frozen=True, slots=True)
class MixResult:
    policy: MixPolicy
    met: float  # share of runs that end in time
    cost: float
    hours: float
    late_hours: float  # 95 of 100 runs take at most that long
    on_demand: float  # share of the paid time


@dataclass(frozen=True, slots=True)
class MixReport:
    deadline: float
    best: MixResult | None
    results: Sequence[MixResult]
    peer: MixResult


class CapacityCourse(Protocol):
    """When spot nodes are available: at random, or as recorded in a trace."""

    def eviction_after(self, start: float) -> float:
        """When nodes that run at `start` are evicted."""

    def back_at(self, evicted: float) -> float:
        """When there is capacity again; the moment of the eviction itself if it never ceased."""


class RandomCapacity:
    """Evictions of `job` as in the simulation."""

    def __init__(self, job: TrainingJob, uniform: Callable[[], float]) -> None:
        self._mean, self._missing, self._uniform = job.mean, job.missing, uniform

    def eviction_after(self, start: float) -> float:
        return (
            start - math.log(1.0 - self._uniform()) * self._mean
            if self._mean < math.inf
            else math.inf
        )

    def back_at(self, evicted: float) -> float:
        if self._missing.share and self._uniform() < self._missing.share:
            return evicted - math.log(1.0 - self._uniform()) * self._missing.mean_seconds
        return evicted


@dataclass(slots=True)
class MixRun:
    """One job under a policy: clock, work left, and what is paid so far."""

    job: TrainingJob
    policy: MixPolicy
    deadline: float
    capacity: CapacityCourse
    uniform: Callable[[], float]
    clock: float = 0.0
    work_left: float = 0.0
    spot: float = 0.0
    on_demand: float = 0.0
    idle: float = 0.0
    dear_work: float = 0.0  # work done on demand, without changeovers
    available: float = 0.0  # from when spot is available

    def finish(self) -> MixRun:
        self.work_left = self.job.work_seconds
        if self.policy.ahead == math.inf:
            self._finish_on_demand(0.0)
        starting = 0.0
        for _ in range(MOST_EVICTIONS):
            if self.work_left <= 0:
                return self
            if self.policy.ahead is not None and self._slack() < self.policy.reserve:
                self._finish_on_demand(self.job.restart_seconds)
            elif self.available <= self.clock:
                self._run_on_spot(starting)
            else:
                self._wait_for_spot()
            starting = self.job.restart_seconds
        raise ArcError("the job hardly makes progress at this eviction rate")

    def _slack(self) -> float:
        return self.deadline - self.clock - self.work_left

    def _threshold(self, remaining: float) -> float:
        line = (
            (self.policy.ahead or 0.0)
            * (self.deadline - self.job.work_seconds)
            * remaining
            / self.job.work_seconds
        )
        return max(self.policy.reserve, line)

    def _run_on_spot(self, starting: float) -> None:
        """Until the end of the job or the eviction, with saves; as in the simulation."""
        job = self.job
        until = self.capacity.eviction_after(self.clock) - self.clock
        needed = (
            starting
            + self.work_left
            + job.save_seconds * (math.ceil(self.work_left / job.interval) - 1)
        )
        if until >= needed:
            self.work_left, self.clock, self.spot = 0.0, self.clock + needed, self.spot + needed
            return
        worked = until - starting
        if worked > 0:
            span = job.interval + job.save_seconds
            saved = worked // span
            self.work_left -= saved * job.interval
            if job.noticed and self.uniform() < job.noticed:
                self.work_left -= min(worked - saved * span, job.interval)
                until += job.save_seconds
        self.clock += until
        self.spot += until
        self.available = self.capacity.back_at(self.clock)

    def _wait_for_spot(self) -> None:
        """Wait while the slack allows it, then on demand until ahead of the line."""
        wait = self.available - self.clock
        if self.policy.ahead is not None:
            wait = min(wait, max(0.0, self._slack() - self._threshold(self.work_left)))
        self.clock += wait
        self.idle += self.job.waiting_nodes * min(wait, IDLE_SECONDS)
        if self.available <= self.clock:
            return
        change = self.job.restart_seconds
        slack = self.deadline - self.job.work_seconds
        ahead = self.policy.ahead or 0.0
        if self._slack() <= self.policy.reserve or ahead * slack <= 0:
            self._finish_on_demand(change)
            return
        # Work on demand until slack - 2 changes is above the line for what is left then.
        slack_then = self._slack() - change - max(2 * change, LEAST_LEAD)
        target = max(0.0, slack_then * self.job.work_seconds / (ahead * slack))
        worked = max(0.0, self.work_left - target)
        self.work_left -= worked
        self.dear_work += worked
        self.clock += change + worked
        self.on_demand += change + worked

    def _finish_on_demand(self, starting: float) -> None:
        self.clock += starting + self.work_left
        self.on_demand += starting + self.work_left
        self.dear_work += self.work_left
        self.work_left = 0.0


def policies(job: TrainingJob) -> list[MixPolicy]:
    """Pure policies, and the family with the paper's reserve or one that covers lost work."""
    paper = 2 * job.restart_seconds
    careful = paper + job.save_seconds + (job.interval if job.noticed < 1 else 0.0)
    rows = [MixPolicy("spot only", None), MixPolicy("on demand only", math.inf)]
    for ahead in STEPS:
        for reserve in (paper, careful):
            words = (
                "wait as long as possible"
                if ahead == 0
                else f"keep {ahead:.0%} of the uniform pace"
            )
            rows.append(MixPolicy(f"{words}, reserve {reserve:.0f} s", ahead, reserve))
    return rows


def uniform_progress(job: TrainingJob) -> MixPolicy:
    return MixPolicy("Uniform Progress (NSDI 2024)", 1.0, 2 * job.restart_seconds)


def evaluate(
    job: TrainingJob,
    policy: MixPolicy,
    deadline: float,
    prices: tuple[float, float],
    *,
    runs: int = MIX_RUNS,
    seed: int = 0,
    capacities: Iterable[CapacityCourse] | None = None,
) -> MixResult:
    """Simulated runs; `prices`: spot and on demand. All policies meet the same random numbers."""
    spot, dear = prices
    rows = []
    courses = list(capacities or ())
    for number in range(len(courses) or runs):
        uniform = random.Random(seed * 1_000_003 + number).random  # noqa: S311 (a simulation)
        capacity = courses[number] if courses else RandomCapacity(job, uniform)
        rows.append(MixRun(job, policy, deadline, capacity, uniform).finish())
    costs = [
        (job.nodes * (spot * row.spot + dear * row.on_demand) + spot * row.idle) / 3600
        for row in rows
    ]
    paid = math.fsum(row.spot + row.on_demand for row in rows)
    return MixResult(
        policy,
        mean_of([float(row.clock <= deadline + 1e-6) for row in rows]),
        mean_of(costs),
        mean_of([row.clock for row in rows]) / 3600,
        quantile([row.clock for row in rows], CERTAINTY) / 3600,
        math.fsum(row.on_demand for row in rows) / paid,
    )


def cheapest_mix(
    job: TrainingJob,
    deadline: float,
    prices: tuple[float, float],
    *,
    runs: int = MIX_RUNS,
    seed: int = 0,
) -> MixReport:
    """The cheapest candidate that meets the deadline with 95 %, and a margin for finite runs."""
    if deadline < job.work_seconds:
        raise ArcError(
            f"--deadline {deadline / 3600:g}h: "
            f"the work alone takes {job.work_seconds / 3600:g} h: nothing can meet it"
        )
    margin = 1.645 * math.sqrt(CERTAINTY * (1 - CERTAINTY) / runs)
    results = sorted(
        (evaluate(job, policy, deadline, prices, runs=runs, seed=seed) for policy in policies(job)),
        key=lambda result: result.cost,
    )
    best = next((result for result in results if result.met >= min(1.0, CERTAINTY + margin)), None)
    peer = evaluate(job, uniform_progress(job), deadline, prices, runs=runs, seed=seed)
    return MixReport(deadline, best, results, peer)
