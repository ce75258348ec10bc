"""A simulated fleet: how often does `diagnose` name the right nodes, and how often a wrong one?

Random placement, single-node jobs, retried up to five times; bad nodes fail 35 % of what runs on them, others 3 %;
twelve jobs fail 85 % of the time anywhere. The naive rules are in the same table, on the same attempts.
Needs no cluster and no clock: a seed gives the same figures everywhere.

    scripts/bench fleet            the table, and exit 1 if a threshold does not hold
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from dataclasses import dataclass

from arc_toolkit.diagnosis.causes import UNKNOWN
from arc_toolkit.diagnosis.cluster_index import ClusterIndex
from arc_toolkit.diagnosis.model import Attempt, Level, RunOutcome
from arc_toolkit.diagnosis.statistics import wilson
from arc_toolkit.diagnosis.verdicts import judge

BAD_RATE, GOOD_RATE, BROKEN_JOB_RATE = 0.35, 0.03, 0.85
BROKEN_JOBS, MOST_TRIES = 12, 6


Rule = Callable[[list[Attempt]], set[str]]  # the nodes that it calls bad


@dataclass(frozen=True)
class Fleet:
    name: str
    nodes: int
    jobs: int
    bad: int


FLEETS = (
    Fleet("600 jobs", 100, 600, 4),
    Fleet("100 jobs", 100, 100, 4),
    Fleet("3000 jobs", 100, 3000, 4),
    Fleet("20 nodes, 200 jobs", 20, 200, 1),
    Fleet("no bad node, 600 jobs", 100, 600, 0),
    Fleet("no bad node, 3000 jobs", 100, 3000, 0),
)


def simulate(fleet: Fleet, seed: int) -> tuple[list[Attempt], set[str]]:
    """The attempts of one fleet, and its truly bad nodes."""
    chance = random.Random(f"{fleet.name}/{seed}")
    names = [f"aks-gpu-12345678-vmss{number:06d}" for number in range(fleet.nodes)]
    bad = set(chance.sample(names, fleet.bad))
    attempts = []
    for job in range(fleet.jobs):
        for number in range(MOST_TRIES):
            node = chance.choice(names)
            rate = BROKEN_JOB_RATE if job < BROKEN_JOBS else BAD_RATE if node in bad else GOOD_RATE
            failed = chance.random() < rate
            outcome = RunOutcome.FAILED if failed else RunOutcome.SUCCEEDED
            attempts.append(
                Attempt(f"job-{job}", number, node, pool="gpu", outcome=outcome, cause=UNKNOWN if failed else None)
            )
            if not failed:
                break
    return attempts, bad


def counts(attempts: list[Attempt]) -> dict[str, tuple[int, int]]:
    """Failures and attempts by node, as naive rules see them."""
    found: dict[str, list[int]] = {}
    for attempt in attempts:
        entry = found.setdefault(attempt.node or "", [0, 0])
        entry[0] += attempt.cause is not None
        entry[1] += 1
    return {node: (failures, total) for node, (failures, total) in found.items()}


def two_failures(attempts: list[Attempt]) -> set[str]:
    return {node for node, (failures, _) in counts(attempts).items() if failures >= 2}


def raw_rate(attempts: list[Attempt]) -> set[str]:
    return {node for node, (failures, total) in counts(attempts).items() if failures / total >= 0.3}


def wilson_bound(attempts: list[Attempt]) -> set[str]:
    by_node = counts(attempts)
    failures, total = (sum(pair[index] for pair in by_node.values()) for index in (0, 1))
    named = set()
    for node, (own_failures, own_total) in by_node.items():
        rest = (failures - own_failures) / max(total - own_total, 1)
        if wilson(own_failures, own_total)[0] > rest:
            named.add(node)
    return named


def ours(attempts: list[Attempt]) -> set[str]:
    verdicts, _, _ = judge(attempts, ClusterIndex())
    return {verdict.node for verdict in verdicts if verdict.level is Level.BAD}


RULES: dict[str, Rule] = {
    "two or more failures": two_failures,
    "failure rate of 30 % or more": raw_rate,
    "Wilson bound above the rest": wilson_bound,
    "arc-toolkit diagnose": ours,
}


@dataclass
class Score:
    """Over all seeds of one fleet."""

    right: int = 0
    wrong: int = 0
    missed: int = 0
    reports: int = 0

    @property
    def precision(self) -> float | None:
        named = self.right + self.wrong
        return self.right / named if named else None

    @property
    def recall(self) -> float | None:
        bad = self.right + self.missed
        return self.right / bad if bad else None

    @property
    def wrong_per_report(self) -> float:
        return self.wrong / self.reports


def score(fleet: Fleet, rules: dict[str, Rule], seeds: range) -> dict[str, Score]:
    """Every rule on the same attempts."""
    totals = {name: Score() for name in rules}
    for seed in seeds:
        attempts, bad = simulate(fleet, seed)
        for name, rule in rules.items():
            named, total = rule(attempts), totals[name]
            total.right += len(named & bad)
            total.wrong += len(named - bad)
            total.missed += len(bad - named)
            total.reports += 1
    return totals


def broken(fleet: Fleet, result: Score) -> list[str]:
    """Which thresholds our rule misses on a fleet."""
    misses = []
    if fleet.bad and result.precision is not None and result.precision < 0.95:
        misses.append(f"{fleet.name}: precision {result.precision:.2f} < 0.95")
    if fleet.jobs >= 3000 and fleet.bad and (result.recall or 0) < 0.9:
        misses.append(f"{fleet.name}: recall {result.recall or 0:.2f} < 0.90")
    if not fleet.bad and result.wrong_per_report > 0.05:
        misses.append(f"{fleet.name}: {result.wrong_per_report:.3f} wrong per report > 0.05")
    return misses


def main() -> int:
    seeds = range(200)
    misses: list[str] = []
    print(f"Simulated fleets, {len(seeds)} seeds each: precision / recall / wrong verdicts per report")
    for fleet in FLEETS:
        print(f"\n  {fleet.name}: {fleet.nodes} nodes, {fleet.bad} bad")
        for name, result in score(fleet, RULES, seeds).items():
            figures = [f"{value:.2f}" if value is not None else "-" for value in (result.precision, result.recall)]
            print(f"    {name:<32} {figures[0]:>5} / {figures[1]:>5} / {result.wrong_per_report:7.3f}")
            if RULES[name] is ours:
                misses += broken(fleet, result)
    print("\n" + ("\n".join(f"FAILED {miss}" for miss in misses) or "All thresholds hold."))
    return 1 if misses else 0


if __name__ == "__main__":
    sys.exit(main())
