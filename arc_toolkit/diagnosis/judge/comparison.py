"""Compares each node with the rest of its pool, by votes and episodes, corrected for many nodes.

Votes are compared within strata (`node_votes.py`): the rate elsewhere is only known as well as its
votes allow (beta-binomial), and the sum over all strata is compared with the failures that the node
has. Episodes of each kind have an exact test of rates. The p-value of a node is the smallest of its
tests; the Benjamini-Hochberg procedure for discrete tests keeps the share of wrong names small.

Bad nodes make the rest look worse and more uneven than it is, and so hide each other. Therefore, if
the nodes of a pool surely differ, the pool's rate is at first estimated without the group that
fails most, cut off where two rates explain the votes best; then without the nodes that stand out,
again and again until these are the same. If the rest still differs, the test allows for as much.
If more than a third of a pool stands out, nobody can say which nodes are normal: no node is bad by
comparison, and the pool is reported as uneven.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from math import log

from arc_toolkit.diagnosis.judge.node_votes import Count
from arc_toolkit.diagnosis.judge.statistics import (
    NEGLIGIBLE,
    Support,
    discrete_benjamini_hochberg,
    distribution,
    distribution_of_sum,
    spread_of,
    tails,
)
from arc_toolkit.diagnosis.model import CauseKind, UnevenPool

ANY_BAD_LEVEL = 0.003  # how often chance may make any node bad in a report without bad nodes
BAD_LEVEL = 0.02  # the expected share of wrong names among those called bad
SUSPECT_LEVEL = 0.10
MAX_ROUNDS = 10
LEAST_BAD_FAILURES = 3  # failed votes of a bad node
LEAST_BAD_FACTOR = 5.0  # by which its odds of failing exceed those elsewhere
LEAST_WITNESSES = 2
LEAST_ELSEWHERE = 5  # votes on the rest of the pool; with fewer, nodes are not compared
LEAST_FAILURES = 2  # one failure may be chance
# Votes show every kind of bad node, so episodes get the smaller part of the allowed errors.
EPISODE_FACTOR = 4
NO_VOTES = Count(0, 0)
UNEVEN_SHARE = 1 / 3  # of a pool that stands out


@dataclass(slots=True)
class NodeCounts:
    """The compared figures: votes, episodes by kind, and all attempts, the exposure to episodes."""

    pool: str | None
    strata: Mapping[str, Count] = field(default_factory=dict)
    attempts: int = 0
    episodes: Mapping[CauseKind, int] = field(default_factory=dict)
    witnesses: int = LEAST_WITNESSES  # families of the failed jobs, and the node if it has episodes


@dataclass(slots=True)
class Comparison:
    """The result for one node. `kind`: the episodes that decided, or None if it was the votes."""

    p_value: float = 1.0
    rate: float | None = None  # of the votes of the rest of its pool
    expected: float = 0.0  # failed votes, if the node were like the rest
    kind: CauseKind | None = None
    bad: bool = False
    suspect: bool = False
    in_worse_group: bool = False  # of an uneven pool
    possible: list[Support] = field(default_factory=list)


@dataclass(slots=True)
class PoolBaseline:
    """The sums over a pool, without the nodes that stand out."""

    nodes: int
    strata: Mapping[str, Count]
    votes: Count
    attempts: int
    episodes: Counter[CauseKind]
    spread: float = 0.0  # between nodes, beyond chance


def compare(records: Mapping[str, NodeCounts]) -> tuple[dict[str, Comparison], list[UnevenPool]]:
    """A comparison for each node that has something to be compared with; pools that are uneven."""
    pools: dict[str | None, dict[str, NodeCounts]] = {}
    for name, record in records.items():
        pools.setdefault(record.pool, {})[name] = record
    # Bad nodes hide each other, so those that fail most are left out at first.
    excluded = frozenset(
        name
        for pool in pools.values()
        if _baseline(pool, ()).spread
        for name in _worse_group(_votes(pool))
    )
    for _ in range(MAX_ROUNDS):
        results = _test_all(pools.values(), excluded)
        suspect = _significant(results, SUSPECT_LEVEL)
        if suspect == excluded:
            break
        excluded = suspect
    uneven = [groups for pool in pools.values() if (groups := _uneven(pool, suspect))]
    worse = frozenset(name for pool in uneven for name in pool.worse)
    mostly_worse = {pool.pool for pool in uneven if len(pool.worse) > len(pool.better)}
    any_bad = _significant(results, ANY_BAD_LEVEL)
    bad = _significant(results, BAD_LEVEL) if any_bad else frozenset()
    for name, result in results.items():
        result.in_worse_group = name in worse
        result.suspect = name in suspect and records[name].pool not in mostly_worse
        result.bad = name in bad - worse and _is_large(records[name], result)
    return results, uneven


def _is_large(record: NodeCounts, result: Comparison) -> bool:
    """Whether the difference matters, besides not being chance."""
    if result.kind is not None or result.rate is None:
        return True
    failures, trials = _sum(record.strata.values())
    # In odds, with half a failure and half a success more, as for the rates elsewhere.
    odds = (failures + 0.5) / (trials - failures + 0.5)
    odds_elsewhere = result.expected / max(trials - result.expected, 0.5)
    return (
        failures >= LEAST_BAD_FAILURES
        and odds >= LEAST_BAD_FACTOR * odds_elsewhere
        and record.witnesses >= LEAST_WITNESSES
    )


def _significant(results: Mapping[str, Comparison], level: float) -> frozenset[str]:
    tested = [name for name, result in results.items() if result.possible]
    passed = discrete_benjamini_hochberg(
        [results[name].p_value for name in tested],
        [results[name].possible for name in tested],
        level,
    )
    return frozenset(name for name, fell in zip(tested, passed, strict=True) if fell)


def _test_all(
    pools: Iterable[Mapping[str, NodeCounts]], excluded: Collection[str]
) -> dict[str, Comparison]:
    """Each node against the nodes of its pool that are not excluded, and not against itself."""
    results: dict[str, Comparison] = {}
    for pool in pools:
        baseline = _baseline(pool, excluded)
        for name, record in pool.items():
            included = record if name not in excluded else NodeCounts(record.pool)
            result = results[name] = Comparison()
            _test_votes(result, record, included, baseline)
            _test_episodes(result, record, included, baseline)
    return results


def _baseline(pool: Mapping[str, NodeCounts], excluded: Collection[str]) -> PoolBaseline:
    inside = [record for name, record in pool.items() if name not in excluded]
    failures, trials, episodes = Counter[str](), Counter[str](), Counter[CauseKind]()
    for record in inside:
        episodes.update(record.episodes)
        for stratum, count in record.strata.items():
            failures[stratum] += count.failures
            trials[stratum] += count.trials
    strata = {stratum: Count(failures[stratum], trials[stratum]) for stratum in trials}
    spread = spread_of(
        (
            *_sum(record.strata.values()),
            sum(count.trials * _rate(strata[name]) for name, count in record.strata.items()),
        )
        for record in inside
    )
    return PoolBaseline(
        len(inside),
        strata,
        Count(failures.total(), trials.total()),
        sum(record.attempts for record in inside),
        episodes,
        spread,
    )


def _test_votes(
    result: Comparison, record: NodeCounts, included: NodeCounts, baseline: PoolBaseline
) -> None:
    """`included`: the part of the record that the baseline has."""
    failures, trials = _minus(baseline.votes, _sum(included.strata.values()))
    if trials < LEAST_ELSEWHERE or not record.strata:
        return
    result.rate = (failures + 0.5) / (trials + 1)
    chances = []
    for stratum, count in record.strata.items():
        elsewhere = _minus(baseline.strata.get(stratum, NO_VOTES), included.strata.get(stratum))
        # Half a failure more than observed: without failures so far there may still be some.
        rate = (elsewhere.failures + 0.5) / (elsewhere.trials + 1)
        spread = baseline.spread + 1 / (elsewhere.trials + 2)
        chances.append(distribution(count.trials, rate, spread))
        result.expected += count.trials * rate
    p_values = [max(value, NEGLIGIBLE) for value in tails(distribution_of_sum(chances))]
    result.possible.append([(value, value) for value in reversed(p_values[LEAST_FAILURES:])])
    failed = _sum(record.strata.values()).failures
    if failed >= LEAST_FAILURES:
        result.p_value = p_values[failed] if failed < len(p_values) else NEGLIGIBLE


def _test_episodes(
    result: Comparison, record: NodeCounts, included: NodeCounts, baseline: PoolBaseline
) -> None:
    other_nodes = baseline.nodes - (included is record)
    if not other_nodes:
        return
    exposed = baseline.attempts - included.attempts
    share = record.attempts / (exposed + record.attempts) if exposed else 0.0
    share = max(1 / (other_nodes + 1), share)
    for kind in sorted({*baseline.episodes, *record.episodes}):
        episodes = record.episodes.get(kind, 0)
        total = episodes + baseline.episodes[kind] - included.episodes.get(kind, 0)
        chances = tails(distribution(total, share))
        p_values = [(EPISODE_FACTOR * chance, chance) for chance in chances[LEAST_FAILURES:]]
        result.possible.append(p_values[::-1])
        if episodes >= LEAST_FAILURES:
            p_value = EPISODE_FACTOR * (
                chances[episodes] if episodes < len(chances) else NEGLIGIBLE
            )
            if p_value < result.p_value:
                result.p_value, result.kind = p_value, kind


def _votes(pool: Mapping[str, NodeCounts]) -> dict[str, Count]:
    return {name: _sum(record.strata.values()) for name, record in pool.items() if record.strata}


def _uneven(pool: Mapping[str, NodeCounts], suspect: Collection[str]) -> UnevenPool | None:
    """The pool's two groups, if too many of its nodes stand out for a verdict about one."""
    votes = _votes(pool)
    worse = [name for name in votes if name in suspect]
    better = [name for name in votes if name not in suspect]
    if len(worse) < 2 or not better or len(worse) <= UNEVEN_SHARE * len(votes):
        return None
    worse_rate, better_rate = (
        _rate(_sum(votes[name] for name in names)) for names in (worse, better)
    )
    reason = (
        f"{len(worse)} of {len(votes)} nodes fail {100 * worse_rate:.0f} % of their jobs, the "
        f"others {100 * better_rate:.0f} %: compare the two groups (zone, image, driver, VM size) "
        "before blaming a node"
    )
    name = next(iter(pool.values())).pool
    return UnevenPool(name, tuple(worse), tuple(better), worse_rate, better_rate, reason)


def _worse_group(votes: Mapping[str, Count]) -> list[str]:
    """The nodes that fail most, cut off where two rates explain the votes best.

    >>> _worse_group({"a": Count(9, 30), "b": Count(1, 30), "c": Count(8, 30)})
    ['a', 'c']
    """
    order = sorted(votes, key=lambda name: -_rate(votes[name]))
    total = _sum(votes.values())
    best, size, head = float("-inf"), 0, NO_VOTES
    for place, name in enumerate(order[:-1], 1):
        head = _sum((head, votes[name]))
        likelihood = _log_likelihood(head) + _log_likelihood(_minus(total, head))
        if likelihood > best:
            best, size = likelihood, place
    return order[:size]


def _log_likelihood(count: Count) -> float:
    """Of the votes, at the rate that they show."""
    parts = (count.failures, count.trials - count.failures)
    return sum(part * log(part / count.trials) for part in parts if part)


def _sum(counts: Iterable[Count]) -> Count:
    failures = trials = 0
    for count in counts:
        failures += count.failures
        trials += count.trials
    return Count(failures, trials)


def _rate(count: Count) -> float:
    return count.failures / count.trials


def _minus(total: Count, part: Count | None) -> Count:
    return Count(total.failures - part.failures, total.trials - part.trials) if part else total
