"""Compares each node with the rest of its pool, by votes and episodes, corrected for many nodes.

1. The failed votes, all and those of each kind without evidence, against the rest of the pool,
   whose rate is only known as well as its votes allow (beta-binomial). If the rest differs more
   between its nodes than by chance, the test allows for as much. A gang in which several ranks
   failed first is a failure of each, but weighs less: by how much more likely it is if one of so
   many suspects fails ten times as often. How large the sum of weights may be by chance follows
   from the rest of the pool, for as many votes of jobs of the same size.
2. The episodes of each kind by an exact test of rates: given how many the pool had, does this node
   have too many?
3. The p-value of a node is the smallest of its tests; the Benjamini-Hochberg procedure for discrete
   tests, over all tests of all nodes, keeps the expected share of wrong names under the level.
4. A node that runs very much may differ significantly by little, and one that runs very little by
   two failures: it is bad only with three failed votes, and if it fails five times as often as the
   rest, in all or in one kind; otherwise it is suspect.
A pool with several bad nodes looks worse and more uneven than it is and hides them. So at first the
most unusual nodes, at most a tenth of the pool, are set aside when the rest is estimated, and those
that are not even suspect when compared with it come back. The other way, to begin with all and set
aside what stands out, fails with five bad nodes in sixty.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import log

from arc_toolkit.diagnosis.judge.node_votes import FailedVote
from arc_toolkit.diagnosis.judge.statistics import (
    NEGLIGIBLE,
    Support,
    beta_binomial_tail,
    binomial_tail,
    discrete_benjamini_hochberg,
    spread_of,
    tails,
    weighted_tails,
)
from arc_toolkit.diagnosis.model import CauseKind

ANY_BAD_LEVEL = 0.003  # how often chance may make any node bad in a report without bad nodes
BAD_LEVEL = 0.02  # the expected share of wrong names among those called bad
SUSPECT_LEVEL = 0.10
LEAST_BAD_FAILURES = 3  # failed votes of a bad node
LEAST_BAD_FACTOR = 5.0  # how much more often it fails than the rest, in all or in one kind
LEAST_FACTOR_OF_ALL = 2.0  # and how much more often in all, if it is one kind
LEAST_ELSEWHERE = 5  # votes on the rest of the pool; with fewer, nodes are not compared
LEAST_FAILURES = 2  # one failure may be chance
MOST_SET_ASIDE = 0.1  # of a pool
ROUNDS = 4
# Votes show every kind of bad node, so episodes get the smaller part of the allowed errors.
EPISODE_FACTOR = 4
FACTOR = 10  # how much more often a bad node is supposed to fail, for the weights
STEPS = 3  # of weights, per unit of their logarithm


@dataclass(slots=True)
class NodeCounts:
    """The compared figures: votes, episodes by kind, and all attempts, the exposure to episodes."""

    pool: str | None
    failed: tuple[FailedVote, ...] = ()
    sizes: Counter[int] = field(default_factory=Counter)  # all votes, by the size of the job
    attempts: int = 0
    episodes: Mapping[CauseKind, int] = field(default_factory=dict)

    @property
    def votes(self) -> int:
        return self.sizes.total()


@dataclass(slots=True)
class Comparison:
    """The result for one node. `kind`: the episodes that decided, or None if it was the votes."""

    p_value: float = 1.0
    rate: float | None = None  # of the votes of the rest of its pool
    # and of failures of one kind
    rates: dict[CauseKind | None, float] = field(default_factory=dict)
    kind: CauseKind | None = None
    bad: bool = False
    suspect: bool = False
    possible: list[Support] = field(default_factory=list)


def compare(records: Mapping[str, NodeCounts]) -> dict[str, Comparison]:
    """A comparison for each node that has something to be compared with."""
    results = _round(records, frozenset(), allow_spread=False)
    excluded = _most_unusual(
        records, results, frozenset(name for name, result in results.items() if result.p_value < 1)
    )
    for _ in range(ROUNDS):
        results = _round(records, excluded, allow_spread=True)
        still_excluded = excluded & _significant(results, SUSPECT_LEVEL)
        if still_excluded == excluded:
            break
        excluded = still_excluded
    else:
        results = _round(records, excluded, allow_spread=True)
    bad = (
        _significant(results, BAD_LEVEL)
        if _significant(results, ANY_BAD_LEVEL)
        else frozenset[str]()
    )
    suspect = _significant(results, SUSPECT_LEVEL)
    for name, result in results.items():
        result.bad = name in bad and _is_large(records[name], result)
        result.suspect = name in suspect
    return results


def _is_large(record: NodeCounts, result: Comparison) -> bool:
    """Whether the difference matters, besides not being chance: in all failures or in one kind."""
    if result.kind is not None or result.rate is None:
        return True
    kinds = {
        kind
        for kind, rate in result.rates.items()
        if _is_likelier(record, kind, rate, LEAST_BAD_FACTOR)
    }
    return len(record.failed) >= LEAST_BAD_FAILURES and (
        None in kinds
        or (bool(kinds) and _is_likelier(record, None, result.rate, LEAST_FACTOR_OF_ALL))
    )


def _is_likelier(record: NodeCounts, kind: CauseKind | None, rate: float, factor: float) -> bool:
    """Whether the node most likely fails so many times as often as the rest.

    If it does, one of several suspects is the cause with a probability of factor / (suspects - 1 +
    factor).
    """
    failed = [vote for vote in record.failed if kind is None or vote.kind is kind]
    caused = sum(factor / (vote.suspects - 1 + factor) for vote in failed)
    # In odds, with half a failure and half a success more, as for the rate of the rest.
    odds = (caused + 0.5) / (max(0.0, record.votes - caused) + 0.5)
    return len(failed) >= LEAST_BAD_FAILURES and odds >= factor * rate / (1 - rate)


def _significant(results: Mapping[str, Comparison], level: float) -> frozenset[str]:
    tested = [name for name, result in results.items() if result.possible]
    passed = discrete_benjamini_hochberg(
        [results[name].p_value for name in tested],
        [results[name].possible for name in tested],
        level,
    )
    return frozenset(name for name, fell in zip(tested, passed, strict=True) if fell)


def _most_unusual(
    records: Mapping[str, NodeCounts], results: Mapping[str, Comparison], passed: frozenset[str]
) -> frozenset[str]:
    """The worst of those that passed, at most a tenth of each pool."""
    pools: dict[str | None, list[str]] = {}
    for name, record in records.items():
        pools.setdefault(record.pool, []).append(name)
    chosen: list[str] = []
    for names in pools.values():
        worst = sorted(
            (name for name in names if name in passed), key=lambda name: results[name].p_value
        )
        chosen += worst[: max(1, int(MOST_SET_ASIDE * len(names)))]
    return frozenset(chosen)


def _round(
    records: Mapping[str, NodeCounts], excluded: frozenset[str], *, allow_spread: bool
) -> dict[str, Comparison]:
    pools: dict[str | None, list[str]] = {}
    for name, record in records.items():
        pools.setdefault(record.pool, []).append(name)
    result: dict[str, Comparison] = {}
    for names in pools.values():
        result.update(
            _compare_pool({name: records[name] for name in names}, excluded, allow_spread)
        )
    return result


@dataclass(slots=True)
class _PoolBaseline:
    """The votes of a pool, without the nodes that are set aside."""

    failed: Counter[FailedVote] = field(default_factory=Counter)
    sizes: Counter[int] = field(default_factory=Counter)
    spread: float = 0.0


def _baseline_of(records: Iterable[NodeCounts], allow_spread: bool) -> _PoolBaseline:
    baseline = _PoolBaseline()
    counts = []
    for record in records:
        baseline.failed.update(record.failed)
        baseline.sizes.update(record.sizes)
        counts.append((sum(vote.suspects == 1 for vote in record.failed), record.votes))
    if allow_spread:
        single = sum(failures for failures, _ in counts)
        baseline.spread = spread_of(counts, (single + 0.5) / (baseline.sizes.total() + 1))
    return baseline


def _compare_pool(
    records: Mapping[str, NodeCounts], excluded: frozenset[str], allow_spread: bool
) -> dict[str, Comparison]:
    inside = {name: record for name, record in records.items() if name not in excluded}
    baseline = _baseline_of(inside.values(), allow_spread)
    votes, blame = baseline.sizes.total(), _blame(baseline.failed.elements())
    soft = sorted({vote.kind for record in records.values() for vote in record.failed if vote.kind})
    attempts = sum(record.attempts for record in inside.values())
    kinds = sorted({kind for record in records.values() for kind in record.episodes})
    episodes = {
        kind: sum(record.episodes.get(kind, 0) for record in inside.values()) for kind in kinds
    }
    result = {}
    for name, record in records.items():
        comparison = Comparison()
        own_counts = record if name in inside else NodeCounts(record.pool)
        other_nodes = len(inside) - (name in inside)
        if votes - own_counts.votes >= LEAST_ELSEWHERE:
            # Half a failure more than observed: a pool without failures so far may still have some.
            comparison.rate = (blame - _blame(own_counts.failed) + 0.5) / (
                votes - own_counts.votes + 1
            )
            for kind in (None, *soft) if record.votes else ():
                _test_votes(comparison, record, own_counts, baseline, kind)
        for kind in kinds if other_nodes else ():
            other_episodes = episodes[kind] - own_counts.episodes.get(kind, 0)
            exposed = attempts - own_counts.attempts
            share = max(
                1 / (other_nodes + 1),
                record.attempts / (exposed + record.attempts) if exposed else 0.0,
            )
            _test_episodes(comparison, kind, record.episodes.get(kind, 0), other_episodes, share)
        result[name] = comparison
    return result


def _blame(failed: Iterable[FailedVote]) -> float:
    """The number of failures, if each is shared among its suspects."""
    return sum(1 / vote.suspects for vote in failed)


def _weight(vote: FailedVote) -> int:
    """How much more likely the failure is if this suspect fails ten times as often as others."""
    return max(1, round(STEPS * log(1 + (FACTOR - 1) / vote.suspects)))


def _test_votes(
    comparison: Comparison,
    record: NodeCounts,
    own_counts: NodeCounts,
    baseline: _PoolBaseline,
    kind: CauseKind | None,
) -> None:
    """The failures of one kind, or all. `own_counts`: the part of the record inside the rest."""
    other_failures = {
        vote: number
        for vote, number in (baseline.failed - Counter(own_counts.failed)).items()
        if kind is None or vote.kind is kind
    }
    failed = [vote for vote in record.failed if kind is None or vote.kind is kind]
    votes = baseline.sizes.total() - own_counts.votes
    blame = sum(number / vote.suspects for vote, number in other_failures.items())
    rate = comparison.rates[kind] = (blame + 0.5) / (votes + 1)
    if all(vote.suspects == 1 for vote in (*failed, *other_failures)):
        spread = baseline.spread + 1 / (votes + 2)
        possible = tails(LEAST_FAILURES, record.votes, rate, spread)
        p_value = beta_binomial_tail(len(failed), record.votes, rate, spread)
    else:
        expected = {_weight(FailedVote(kind)): 0.5 * record.votes / (votes + 1)}
        for vote, number in other_failures.items():
            other_votes = max(1, baseline.sizes[vote.size] - own_counts.sizes[vote.size])
            weight = _weight(vote)
            expected[weight] = (
                expected.get(weight, 0.0) + number * record.sizes[vote.size] / other_votes
            )
        spread = 1 / (sum(other_failures.values()) + 0.5) + baseline.spread * record.votes / sum(
            expected.values()
        )
        chances = weighted_tails(expected, 1 / spread)
        possible = sorted({max(chance, NEGLIGIBLE) for chance in chances[1:]})
        p_value = max(chances[min(sum(map(_weight, failed)), len(chances) - 1)], NEGLIGIBLE)
    comparison.possible.append([(value, value) for value in possible])
    if len(failed) >= LEAST_FAILURES:
        comparison.p_value = min(comparison.p_value, p_value)


def _test_episodes(
    comparison: Comparison, kind: CauseKind, episodes: int, other_episodes: int, share: float
) -> None:
    possible = tails(LEAST_FAILURES, episodes + other_episodes, share)
    comparison.possible.append([(EPISODE_FACTOR * p_value, p_value) for p_value in possible])
    if episodes >= LEAST_FAILURES:
        p_value = EPISODE_FACTOR * binomial_tail(episodes, episodes + other_episodes, share)
        if p_value < comparison.p_value:
            comparison.p_value, comparison.kind = p_value, kind
