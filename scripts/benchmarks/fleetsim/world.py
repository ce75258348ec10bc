"""The clock of the simulated cluster: attempts start, fail and are retried; machines flap, go and come back.

Every attempt of every rank draws its own fate. What is known in truth (who was to blame for each end) is kept beside
the objects and never written into them.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from random import Random

from scripts.benchmarks.fleetsim import endings, machines, objects, workload
from scripts.benchmarks.fleetsim.endings import Diary
from scripts.benchmarks.fleetsim.machines import Machine
from scripts.benchmarks.fleetsim.objects import Ending, Object, PodFacts
from scripts.benchmarks.fleetsim.scenarios import Scenario, Style
from scripts.benchmarks.fleetsim.workload import DAY, Blame, Fate, Job

ORDINARY_SILENT = (
    ("exit1", 0.62),
    ("killed", 0.18),
    ("unknown255", 0.06),
    ("aborted", 0.07),
    ("segfault", 0.07),
)
ORDINARY_NOT_READY = (
    ("flap-short", 0.45),
    ("flap-long", 0.35),
    ("flap-beside", 0.14),
    ("system-oom", 0.06),
)
SHOWS: dict[Style, tuple[tuple[str, float], ...]] = {
    Style.FLAP: (("flap-short", 0.5), ("flap-long", 0.5)),
    Style.SYSTEM_OOM: (("system-oom", 1.0),),
    Style.GPU_EVENTS: (("gpu-refused", 0.4), ("xid", 0.4), ("gpu-hook", 0.2)),
    Style.SILENT: (("killed", 1.0),),
}
COLLATERAL = (("terminated", 0.45), ("exit1", 0.4), ("aborted", 0.15))


@dataclass(slots=True)
class Rank:
    pod: PodFacts
    machine: Machine
    blame: Blame = Blame.OPEN
    flapped: bool = False  # its node was NotReady at that moment


@dataclass(slots=True, eq=False)
class Attempt:
    job: Job
    number: int
    ranks: list[Rank]
    done: bool = False


@dataclass(slots=True)
class Snapshot:
    """What a reader of the cluster sees, and the truth beside it."""

    pods: list[Object]
    nodes: list[Object]
    events: list[Object]
    bad: dict[str, Style]
    ranks: list[tuple[Rank, Job]] = field(default_factory=list)
    pool_of: dict[str, str] = field(default_factory=dict)


class World:
    def __init__(self, scenario: Scenario, seed: int) -> None:
        self.rng = Random(f"{scenario.name}/{seed}")
        self.scenario = scenario.vary(scenario, self.rng) if scenario.vary else scenario
        scenario = self.scenario
        self.diary = Diary(self.rng)
        self.end = scenario.days * DAY
        self.now = 0.0
        self._order = count()
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self.attempts: list[Attempt] = []
        self.machines = machines.build(scenario, self.rng)
        self.by_pool: dict[str, list[Machine]] = {}
        for machine in self.machines:
            self.by_pool.setdefault(machine.facts.pool, []).append(machine)
        self._favourites: dict[str, list[Machine]] = {}  # of families that are packed on few nodes

    def at(self, when: float, what: Callable[[], None]) -> None:
        if when < self.end:
            heapq.heappush(self._agenda, (when, next(self._order), what))

    def run(self) -> Snapshot:
        for job in workload.Workload(self.scenario, self.rng).make():
            self.at(job.arrival, lambda job=job: self.launch(job, 0, frozenset()))  # type: ignore[misc]
        machines.plan(self)
        while self._agenda:
            self.now, _, what = heapq.heappop(self._agenda)
            what()
        return self._snapshot()

    # ---- attempts

    def launch(self, job: Job, number: int, avoid: frozenset[str]) -> None:
        chosen = self._choose(job, avoid)
        if chosen is None:  # nothing is free: wait
            self.at(self.now + 900, lambda: self.launch(job, number, avoid))
            return
        start = self.now + self.rng.uniform(5, 60)
        job_id = objects.digest(self.scenario.name, job.run, number)
        ranks = []
        for index, machine in enumerate(chosen):
            facts = machine.facts
            pod = PodFacts(
                job.run,
                job_id,
                index,
                job.ranks,
                facts.name,
                facts.spot,
                facts.gpu,
                self.now,
                start,
                root_run=job.root_run,
            )
            ranks.append(Rank(pod, machine))
        attempt = Attempt(job, number, ranks)
        self.attempts.append(attempt)
        for rank in ranks:
            rank.machine.running[id(rank)] = (attempt, rank)
        fates = [fate for rank in ranks if (fate := self._fate(job, rank))]
        fates += self._job_fate(job, ranks)
        if fates:
            after, rank, how, blame = min(fates, key=lambda fate: fate[0])
            self.at(start + after, lambda: self.fail(attempt, rank, how, blame))
        else:
            self.at(start + job.duration, lambda: self._succeed(attempt))

    def _choose(self, job: Job, avoid: frozenset[str]) -> list[Machine] | None:
        if job.few_nodes:
            few = self._favourites.get(job.family)
            if few is None:
                few = self._favourites[job.family] = self.rng.sample(
                    self.by_pool[job.pool], job.few_nodes
                )
            usable = [machine for machine in few if machine.up]
        else:
            usable = [machine for machine in self.by_pool[job.pool] if machine.up]
            fresh = [machine for machine in usable if machine.facts.name not in avoid]
            if len(fresh) >= job.ranks:
                usable = fresh
        if len(usable) < job.ranks:
            return None
        if job.ranks == 1:
            return self.rng.choices(usable, [machine.weight for machine in usable])
        keyed = sorted(
            usable, key=lambda machine: self.rng.random() ** (1 / machine.weight), reverse=True
        )
        return keyed[: job.ranks]

    def _fate(self, job: Job, rank: Rank) -> tuple[float, Rank, str, Blame] | None:
        """How this rank will fail, if nothing else happens before."""
        rng, machine, scenario = self.rng, rank.machine, self.scenario
        draw = rng.random()
        if draw < machine.rate:
            style = machine.style
            if style is None or draw >= machine.rate - machine.ordinary_rate:
                return rng.uniform(30, job.duration), rank, self._ordinary(), Blame.ORDINARY
            if style is Style.GPU_EXIT:
                return min(job.duration, rng.uniform(40, 900)), rank, "exit1", machine.blame
            how = self._pick(SHOWS[style])
            after = 1.0 if how in ("gpu-refused", "gpu-hook") else rng.uniform(30, job.duration)
            return after, rank, how, machine.blame
        if draw < machine.rate + scenario.pressure_rate:
            return rng.uniform(60, job.duration), rank, "pressure", Blame.JOB
        return None

    def _ordinary(self) -> str:
        if self.rng.random() < self.scenario.notready_share:
            return self._pick(ORDINARY_NOT_READY)
        return self._pick(ORDINARY_SILENT)

    def _job_fate(self, job: Job, ranks: list[Rank]) -> list[tuple[float, Rank, str, Blame]]:
        rng, rank, found = self.rng, self.rng.choice(ranks), []
        odds = {Fate.GOOD: 0.0, Fate.BUG: 1.0, Fate.FLAKY: 0.6, Fate.MEMORY: 0.85}[job.fate]
        if rng.random() < odds:
            how = "own-memory" if job.fate is Fate.MEMORY else "exit1"
            found.append((min(job.duration, rng.uniform(20, 1500)), rank, how, Blame.JOB))
        draw = rng.random()
        if draw < self.scenario.cancel_rate:
            found.append((rng.uniform(60, job.duration), rank, "cancelled", Blame.OPEN))
        elif draw < self.scenario.cancel_rate + self.scenario.preempt_rate:
            found.append((rng.uniform(60, job.duration), rank, "preempted", Blame.CLUSTER))
        return found

    def _pick(self, kinds: tuple[tuple[str, float], ...]) -> str:
        return self.rng.choices([kind for kind, _ in kinds], [share for _, share in kinds])[0]

    def _succeed(self, attempt: Attempt) -> None:
        if attempt.done:
            return
        attempt.done = attempt.job.succeeded = True
        for rank in attempt.ranks:
            self._close(rank, endings.SUCCEEDED, self.now + self.rng.uniform(0, 5), Blame.NONE)

    def fail(self, attempt: Attempt, first: Rank, how: str, blame: Blame) -> None:
        """`first` ends in this way now, and takes the other ranks with it."""
        if attempt.done:
            return
        attempt.done = True
        machine = first.machine
        fault = self.now
        if how.startswith("flap-"):
            # a healthy node that is NotReady in the very picture would be a matter of taste: there are none
            late = machine.style is None and self.end - fault < machines.HOUR
            how = "exit1" if late else machines.flap(self, machine, how)
        ending, end = endings.LEAVINGS[how](self.diary, first.pod, fault)
        self._close(first, ending, end, blame)
        first.flapped = machine.silent
        if how == "xid":
            machine.xid_at = fault
        if how == "system-oom" and self.rng.random() < 0.3 and self.end - fault > machines.HOUR:
            machines.short_flap(self, machine, fault)
        self._others(attempt, first, how, fault)
        self._retry(attempt, first, how, end)

    def _others(self, attempt: Attempt, first: Rank, how: str, fault: float) -> None:
        whole = how in (
            "cancelled",
            "preempted",
        )  # the whole gang gets it, there is no first to fail
        for rank in attempt.ranks:
            if rank is first:
                continue
            if whole:
                ending, end = endings.LEAVINGS[how](self.diary, rank.pod, fault)
                self._close(rank, ending, end, first.blame)
                continue
            way = self._pick(COLLATERAL)
            late = self.rng.uniform(0, 45) if self.rng.random() < 0.9 else 0.0
            ending, end = endings.LEAVINGS[way](
                self.diary, rank.pod, max(fault + late, rank.pod.start + 2)
            )
            self._close(rank, ending, end, Blame.COLLATERAL)

    def _retry(self, attempt: Attempt, first: Rank, how: str, end: float) -> None:
        job = attempt.job
        if (
            how == "cancelled"
            or attempt.number + 1 >= job.tries
            or self.rng.random() > self.scenario.retry_share
        ):
            return
        avoid = frozenset({first.pod.node}) if job.ranks == 1 else frozenset[str]()
        again = max(end, self.now) + self.rng.uniform(30, 300)
        self.at(again, lambda: self.launch(job, attempt.number + 1, avoid))

    def _close(self, rank: Rank, ending: Ending, end: float, blame: Blame) -> None:
        rank.pod.ending, rank.pod.end, rank.blame = ending, end, blame
        rank.machine.running.pop(id(rank), None)

    def lose(self, machine: Machine, how: str, blame: Blame, share: float = 1.0) -> None:
        """The pods that run on the machine (or a share of them) end in this way."""
        for attempt, rank in list(machine.running.values()):
            if not attempt.done and rank.pod.start <= self.now and self.rng.random() < share:
                self.fail(attempt, rank, how, blame)

    # ---- the picture at the end

    def _snapshot(self) -> Snapshot:
        for machine in self.machines:
            machines.close(machine, self.end)
        ranks = [(rank, attempt.job) for attempt in self.attempts for rank in attempt.ranks]
        for rank, _ in ranks:
            if rank.pod.end is not None and rank.pod.end > self.end:
                rank.pod.end, rank.pod.ending, rank.blame = None, None, Blame.OPEN
        kept = self.diary.events
        if self.scenario.events_kept_hours is not None:
            oldest = objects.stamp(self.end - self.scenario.events_kept_hours * 3600)
            kept = [event for event in kept if event["lastTimestamp"] >= oldest]
        now = objects.stamp(self.end)
        kept = [event for event in kept if event["lastTimestamp"] <= now]
        pods = [objects.pod(rank.pod) for rank, _ in ranks]
        self.rng.shuffle(pods)
        nodes = [
            objects.node(machine.facts, self.end) for machine in self.machines if not machine.gone
        ]
        bad = {machine.facts.name: machine.style for machine in self.machines if machine.style}
        pool_of = {machine.facts.name: machine.facts.pool for machine in self.machines}
        return Snapshot(pods, nodes, kept, bad, ranks, pool_of)
