"""What people submit: single jobs, gangs, sweeps, pipelines; and what is wrong with some of them."""

from __future__ import annotations

import string
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from scripts.benchmarks.fleetsim import objects
from scripts.benchmarks.fleetsim.scenarios import Scenario

DAY = 86_400.0
ADJECTIVES = (
    "polite",
    "sleepy",
    "brave",
    "icy",
    "witty",
    "loyal",
    "plucky",
    "quiet",
    "salmon",
    "teal",
)
NOUNS = ("crab", "garden", "drain", "beard", "camera", "ring", "yam", "ticket", "root", "spade")
PROJECTS = ("bert_lr", "resnet50", "exp", "nightly", "ablation")


class Fate(StrEnum):
    """What is wrong with the job itself."""

    GOOD = "good"
    BUG = "bug"  # exit 1 everywhere
    FLAKY = "flaky"  # exit 1 in most tries, on any node
    MEMORY = "memory"  # OOMKilled by its own limit


class Blame(StrEnum):
    """Why a pod ended, in truth."""

    NONE = "none"  # it succeeded
    BAD_NODE = "bad-node"
    ORDINARY = "ordinary"  # could have happened anywhere
    JOB = "job"
    CLUSTER = "cluster"  # spot, drain, upgrade, preemption, blip, outage
    COLLATERAL = "collateral"  # another rank failed first
    SAME_FLAP = "same-flap"  # its node flapped, which another pod there has already voted for
    PAST = "past-machine"  # bad hardware that has been replaced since
    OPEN = "open"  # still running, cancelled


@dataclass(slots=True)
class Job:
    run: str
    family: str  # the sweep, the pipeline, or the job itself
    pool: str
    arrival: float
    duration: float
    ranks: int = 1
    fate: Fate = Fate.GOOD
    tries: int = 4
    few_nodes: int = 0  # all of the family's runs go to so many nodes; 0: anywhere
    root_run: str = ""
    sweep: bool = False
    succeeded: bool = False


def _letters(rng: Random, count: int) -> str:
    text = "".join(rng.choices(string.ascii_lowercase + string.digits, k=count - 1))
    return rng.choice(string.ascii_lowercase) + text


class Workload:
    """Makes the jobs of one simulated cluster."""

    def __init__(self, scenario: Scenario, rng: Random) -> None:
        self.scenario, self.rng = scenario, rng
        self.jobs: list[Job] = []
        self._projects = dict.fromkeys(PROJECTS, 0)

    def make(self) -> list[Job]:
        scenario, rng = self.scenario, self.rng
        for _ in range(scenario.broken_sweeps):
            self._sweep(rng.choice((40, 40, 30)), broken=True)
        for _ in range(scenario.sweeps):
            self._sweep(rng.randint(8, 24), broken=False)
        for number in range(scenario.pipelines + scenario.broken_pipelines):
            self._pipeline(broken=number < scenario.broken_pipelines)
        while len(self.jobs) < scenario.jobs:
            self._single()
        self._rush()
        return sorted(self.jobs, key=lambda job: job.arrival)

    def _single(self) -> None:
        scenario, rng = self.scenario, self.rng
        run = self._run_name()
        job = Job(
            run, run, self._pool(), self._arrival(), self._duration(), tries=rng.randint(3, 5)
        )
        draw = rng.random()
        if draw < scenario.buggy_share:
            job.fate, job.tries = Fate.BUG, rng.randint(2, 6)
        elif draw < scenario.buggy_share + scenario.flaky_share:
            job.fate, job.tries = Fate.FLAKY, 6
        elif draw < scenario.buggy_share + scenario.flaky_share + scenario.memory_share:
            job.fate, job.tries = Fate.MEMORY, rng.randint(1, 4)
        if rng.random() < scenario.gang_share:
            room = sum(pool.size for pool in scenario.pools if pool.name == job.pool)
            sizes = [size for size in (4, 4, 8, 8, 16) if size <= room // 2]
            job.ranks = rng.choice(sizes) if sizes else 1
        self.jobs.append(job)

    def _sweep(self, trials: int, broken: bool) -> None:
        rng = self.rng
        parent = f"HD_{objects.guid(rng.random())}" if rng.random() < 0.5 else self._friendly()
        pool, arrival, length = self._pool(), self._arrival(), self._duration()
        few = rng.randint(1, 4) if broken or rng.random() < 0.3 else 0
        half = broken and rng.random() < 0.3  # only some settings crash
        tries = 2 if rng.random() < 0.3 else 1
        for number in range(trials):
            job = Job(
                f"{parent}_{number}",
                parent,
                pool,
                arrival + number * rng.uniform(5, 90),
                length,
                tries=tries,
            )
            job.few_nodes, job.sweep = few, True
            if broken and (not half or rng.random() < 0.5):
                job.fate, job.duration = Fate.BUG, min(length, 1200.0)
            self.jobs.append(job)

    def _pipeline(self, broken: bool) -> None:
        """Steps are runs with names of their own; the parent is at most in an environment variable."""
        rng = self.rng
        parent, pool, at = self._friendly(), self._pool(), self._arrival()
        root = parent if rng.random() < 0.5 else ""
        few = rng.choice((0, 1)) if broken else 0
        for _ in range(rng.randint(3, 6)):
            run = objects.guid(rng.random())
            job = Job(
                run, parent, pool, at, self._duration(), tries=3, few_nodes=few, root_run=root
            )
            if broken:
                job.fate, job.tries = Fate.BUG, rng.randint(1, 3)
            self.jobs.append(job)
            at += job.duration + 120 if not broken else rng.uniform(0, 600)

    def _rush(self) -> None:
        """Half of the jobs of the days around a disturbance start in the hours before it, so that it hits many."""
        for share in (self.scenario.blip_at, self.scenario.zone_outage_at):
            if share is None:
                continue
            at = share * self.scenario.days * DAY
            for job in self.jobs:
                if abs(job.arrival - at) < DAY and self.rng.random() < 0.5:
                    job.arrival = max(60.0, at - self.rng.uniform(0, 3) * 3600)
                    job.duration = max(job.duration, self.rng.uniform(1, 6) * 3600)

    def _pool(self) -> str:
        pools = self.scenario.pools
        return self.rng.choices(
            [pool.name for pool in pools], [pool.job_share * pool.size for pool in pools]
        )[0]

    def _arrival(self) -> float:
        """More in working hours, fewer at the weekend."""
        while True:
            at = self.rng.uniform(60, (self.scenario.days - 0.3) * DAY)
            hour, weekday = at % DAY / 3600, int(at / DAY) % 7
            if self.rng.random() < (1.0 if 7 <= hour < 19 else 0.4) * (1.0 if weekday < 5 else 0.4):
                return at

    def _duration(self) -> float:
        return min(86_400.0, max(300.0, self.rng.lognormvariate(8.2, 1.0)))  # median one hour

    def _friendly(self) -> str:
        return f"{self.rng.choice(ADJECTIVES)}_{self.rng.choice(NOUNS)}_{_letters(self.rng, 10)}"

    def _run_name(self) -> str:
        draw = self.rng.random()
        if draw < 0.8:
            return self._friendly()
        if draw < 0.9:
            return objects.guid(self.rng.random())
        project = self.rng.choice(
            PROJECTS
        )  # numbered by hand: jobs of their own that look like trials of a sweep
        self._projects[project] += 1
        return f"{project}_{self._projects[project]}"
