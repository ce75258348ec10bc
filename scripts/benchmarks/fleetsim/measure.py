"""Verdicts against the truth, over many seeds of one scenario."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median

from scripts.benchmarks.fleetsim import rules, tool
from scripts.benchmarks.fleetsim.scenarios import GPU_STYLES, Scenario, Style
from scripts.benchmarks.fleetsim.workload import Blame
from scripts.benchmarks.fleetsim.world import Snapshot, World


@dataclass(slots=True)
class Score:
    """Names that were given, added up over all reports."""

    reports: int = 0
    right: int = 0
    wrong: int = 0
    bad: int = 0  # that exist
    right_gpu: int = 0
    bad_gpu: int = 0
    by_style: Counter[Style] = field(default_factory=Counter)

    def add(self, named: Iterable[str], truth: dict[str, Style]) -> None:
        named = set(named)
        gpu = {node for node, style in truth.items() if style in GPU_STYLES}
        self.reports += 1
        self.right += len(named & truth.keys())
        self.wrong += len(named - truth.keys())
        self.bad += len(truth)
        self.right_gpu += len(named & gpu)
        self.bad_gpu += len(gpu)
        self.by_style.update(truth[node] for node in named & truth.keys())

    @property
    def precision(self) -> float | None:
        named = self.right + self.wrong
        return self.right / named if named and self.bad else None

    @property
    def recall(self) -> float | None:
        return self.right / self.bad if self.bad else None

    @property
    def recall_gpu(self) -> float | None:
        return self.right_gpu / self.bad_gpu if self.bad_gpu else None

    @property
    def wrong_per_report(self) -> float:
        return self.wrong / max(1, self.reports)


@dataclass(slots=True)
class Sanity:
    """What the simulated clusters look like, so that a reader can judge whether they are like real ones."""

    pods: int = 0
    events: int = 0
    ended: int = 0
    failed: int = 0
    gang_pods: int = 0
    blames: Counter[Blame] = field(default_factory=Counter)
    ordinary_not_ready: int = (
        0  # ordinary failures with a NodeNotReady of their node within ten minutes
    )
    votes: list[int] = field(default_factory=list)
    votes_bad: list[int] = field(default_factory=list)

    def add(self, snapshot: Snapshot) -> None:
        self.pods += len(snapshot.pods)
        self.events += len(snapshot.events)
        for rank, job in snapshot.ranks:
            self.blames[rank.blame] += 1
            self.gang_pods += job.ranks > 1
            self.ended += rank.blame is not Blame.OPEN
            self.failed += rank.blame not in (Blame.OPEN, Blame.NONE)
            if rank.blame is Blame.ORDINARY and rank.flapped:
                self.ordinary_not_ready += 1
        self.votes += rules.exposure(snapshot, snapshot.pool_of)
        self.votes_bad += rules.exposure(snapshot, snapshot.bad)

    def lines(self, reports: int) -> list[str]:
        shares = ", ".join(
            f"{blame} {count / self.pods:.1%}" for blame, count in self.blames.most_common()
        )
        ordinary = max(1, self.blames[Blame.ORDINARY])
        tried = ordinary + self.blames[Blame.NONE] + self.blames[Blame.BAD_NODE]
        bad = f"{min(self.votes_bad)}-{max(self.votes_bad)}" if self.votes_bad else "none"
        return [
            f"pods {self.pods / reports:.0f}, events {self.events / reports:.0f} per report; failed "
            f"{self.failed / max(1, self.ended):.1%} of ended pods; pods of gangs {self.gang_pods / self.pods:.1%}",
            f"true ends: {shares}",
            f"ordinary failures {ordinary / tried:.1%} of attempts that tell, "
            f"{self.ordinary_not_ready / ordinary:.0%} of them with NotReady; "
            f"votes per node {min(self.votes)}-{max(self.votes)}, median {median(self.votes):.0f}; bad nodes {bad}",
        ]


@dataclass(slots=True)
class Result:
    scenario: Scenario
    bad: Score = field(default_factory=Score)
    suspect: Score = field(default_factory=Score)  # suspect alone
    either: Score = field(default_factory=Score)  # bad or suspect
    plain: Score = field(default_factory=Score)
    knowing: Score = field(default_factory=Score)
    uneven: int = 0  # reports that call a pool uneven
    called_ok: int = 0  # bad nodes that are said to be good
    cordon: int = 0
    most_cordoned: float = 0.0  # the largest share of a pool in any report
    sanity: Sanity = field(default_factory=Sanity)
    exist: Counter[Style] = field(default_factory=Counter)
    seconds_made: float = 0.0
    seconds_judged: float = 0.0

    @property
    def full_size(self) -> bool:
        return sum(pool.size for pool in self.scenario.pools) >= 100 and self.scenario.jobs >= 3000

    def shortfalls(self) -> list[str]:
        """Which of the demanded figures do not hold."""
        name, found = self.scenario.name, list[str]()
        if self.scenario.vary:
            for what, got, wanted in (
                ("named", self.bad.recall, 0.6),
                ("named or suspect", self.either.recall, 0.85),
            ):
                if got is not None and got < wanted:
                    found.append(f"{name}: {got:.2f} of the bad nodes are {what}, not {wanted}")
            if self.bad.wrong_per_report > 0.1:
                found.append(f"{name}: {self.bad.wrong_per_report:.2f} wrong names per report")
        if not self.full_size:
            return found
        if self.bad.precision is not None and self.bad.precision < 0.9:
            found.append(
                f"{name}: precision of bad is {self.bad.precision:.2f}, at least 0.9 is demanded"
            )
        if self.bad.wrong_per_report > 0.5:
            found.append(
                f"{name}: {self.bad.wrong_per_report:.2f} wrong names per report, at most 0.5 are allowed"
            )
        if self.scenario.blip_at is not None and not self.scenario.bad and self.bad.wrong:
            found.append(f"{name}: {self.bad.wrong} nodes are called bad, none is")
        for what, got, reach in (
            ("bad nodes", self.bad.recall, self.knowing.recall),
            ("bad GPU nodes", self.bad.recall_gpu, self.knowing.recall_gpu),
        ):
            if got is None or reach is None:
                continue
            wanted = min(
                0.5, 0.9 * reach
            )  # where even full knowledge of all causes finds fewer, not more than it
            if got < wanted:
                found.append(
                    f"{name}: recall of {what} is {got:.2f}, at least {wanted:.2f} is demanded"
                )
        return found


def measure(scenario: Scenario, seeds: Iterable[int], with_tool: bool = True) -> Result:
    result = Result(scenario)
    for seed in seeds:
        began = time.perf_counter()
        snapshot = World(scenario, seed).run()
        made = time.perf_counter()
        answer = tool.diagnose(snapshot) if with_tool else tool.NOTHING
        result.seconds_made += made - began
        result.seconds_judged += time.perf_counter() - made
        truth = snapshot.bad
        result.bad.add(answer.bad, truth)
        result.suspect.add(answer.suspect, truth)
        result.either.add(answer.bad | answer.suspect, truth)
        result.plain.add(rules.plain(snapshot), truth)
        result.knowing.add(rules.knowing(snapshot), truth)
        result.exist.update(truth.values())
        result.called_ok += len(answer.ok & truth.keys())
        result.cordon += len(answer.cordon)
        result.uneven += answer.uneven
        sizes = Counter(snapshot.pool_of.values())
        cordoned = Counter(
            snapshot.pool_of[node] for node in answer.cordon if node in snapshot.pool_of
        )
        for pool, count in cordoned.items():
            result.most_cordoned = max(result.most_cordoned, count / sizes[pool])
        result.sanity.add(snapshot)
    return result
