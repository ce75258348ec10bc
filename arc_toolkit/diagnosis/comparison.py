"""Compares each node with the rest of its pool: failed votes, and episodes of each kind, corrected for many nodes.

1. The votes against the rest of the pool, whose rate is only known as well as its votes allow (beta-binomial). If the
   rest differs more between its nodes than by chance, the test allows for as much.
2. The episodes of each kind by an exact test of rates: given how many the pool had, does this node have too many?
3. The p-value of a node is the smallest of its tests; the Benjamini-Hochberg procedure for discrete tests, over all
   tests of all nodes, keeps the expected share of wrong names under the level.
4. A node that runs very much may differ significantly by little, and one that runs very little by two failures: it is
   bad only with three failed votes, and odds of failing five times those of the rest; otherwise it is suspect.
A pool with several bad nodes looks worse and more uneven than it is and hides them. So at first the most unusual nodes,
at most a tenth of the pool, are set aside when the rest is estimated, and those that are not even suspect when compared
with it come back. The other way, to begin with all and set aside what stands out, fails with five bad nodes in sixty.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from arc_toolkit.diagnosis.model import CauseKind
from arc_toolkit.diagnosis.statistics import (
    Support,
    beta_binomial_tail,
    binomial_tail,
    discrete_benjamini_hochberg,
    spread_of,
    tails,
)

ANY_BAD_LEVEL = 0.005  # how often chance may make any node bad in a report without bad nodes
BAD_LEVEL = 0.02  # the expected share of wrong names among those called bad
SUSPECT_LEVEL = 0.10
LEAST_BAD_FAILURES = 3  # failed votes of a bad node
LEAST_BAD_ODDS = 5.0  # its odds of failing against those of the rest
LEAST_ELSEWHERE = 5  # votes on the rest of the pool; with fewer, nodes are not compared
LEAST_FAILURES = 2  # one failure may be chance
MOST_SET_ASIDE = 0.1  # of a pool
ROUNDS = 4
EPISODE_FACTOR = 4  # votes tell of every kind of bad node, so episodes get the smaller part of the allowed errors


@dataclass(slots=True)
class Record:
    """What is compared: votes, episodes by kind, and all attempts, which are the exposure to episodes."""

    pool: str | None
    failures: int = 0
    votes: int = 0
    attempts: int = 0
    episodes: Mapping[CauseKind, int] = field(default_factory=dict)
    # Failed votes without evidence against the node.
    by_kind: Mapping[CauseKind, int] = field(default_factory=dict)


@dataclass(slots=True)
class Comparison:
    """The result for one node. `kind`: the episodes that decided, or None if it was the votes."""

    p_value: float = 1.0
    rate: float | None = None  # of the votes of the rest of its pool
    kind: CauseKind | None = None
    bad: bool = False
    suspect: bool = False
    possible: list[Support] = field(default_factory=list)


def compare(records: Mapping[str, Record]) -> dict[str, Comparison]:
    """A comparison for each node that has something to be compared with."""
    results = _round(records, frozenset(), allow_spread=False)
    aside = _set_aside(records, results, frozenset(name for name, result in results.items() if result.p_value < 1))
    for _ in range(ROUNDS):
        results = _round(records, aside, allow_spread=True)
        kept = aside & _pass(results, SUSPECT_LEVEL)
        if kept == aside:
            break
        aside = kept
    else:
        results = _round(records, aside, allow_spread=True)
    bad = _pass(results, BAD_LEVEL) if _pass(results, ANY_BAD_LEVEL) else frozenset[str]()
    suspect = _pass(results, SUSPECT_LEVEL)
    for name, result in results.items():
        result.bad = name in bad and _is_large(records[name], result)
        result.suspect = name in suspect
    return results


def _is_large(record: Record, result: Comparison) -> bool:
    """Whether the difference matters, besides not being chance."""
    if result.kind is not None or result.rate is None:
        return True
    # Half a failure and half a success more, as for the rate of the rest.
    odds = (record.failures + 0.5) / (record.votes - record.failures + 0.5)
    return record.failures >= LEAST_BAD_FAILURES and odds >= LEAST_BAD_ODDS * result.rate / (1 - result.rate)


def _pass(results: Mapping[str, Comparison], level: float) -> frozenset[str]:
    tested = [name for name, result in results.items() if result.possible]
    passed = discrete_benjamini_hochberg(
        [results[name].p_value for name in tested], [results[name].possible for name in tested], level
    )
    return frozenset(name for name, fell in zip(tested, passed, strict=True) if fell)


def _set_aside(
    records: Mapping[str, Record], results: Mapping[str, Comparison], passed: frozenset[str]
) -> frozenset[str]:
    """The worst of those that passed, at most a tenth of each pool."""
    pools: dict[str | None, list[str]] = {}
    for name, record in records.items():
        pools.setdefault(record.pool, []).append(name)
    chosen: list[str] = []
    for names in pools.values():
        worst = sorted((name for name in names if name in passed), key=lambda name: results[name].p_value)
        chosen += worst[: max(1, int(MOST_SET_ASIDE * len(names)))]
    return frozenset(chosen)


def _round(records: Mapping[str, Record], aside: frozenset[str], *, allow_spread: bool) -> dict[str, Comparison]:
    pools: dict[str | None, list[str]] = {}
    for name, record in records.items():
        pools.setdefault(record.pool, []).append(name)
    result: dict[str, Comparison] = {}
    for names in pools.values():
        result.update(_compare_pool({name: records[name] for name in names}, aside, allow_spread))
    return result


def _compare_pool(
    records: Mapping[str, Record], aside: frozenset[str], allow_spread: bool
) -> dict[str, Comparison]:
    rest = {name: record for name, record in records.items() if name not in aside}
    failures = sum(record.failures for record in rest.values())
    votes = sum(record.votes for record in rest.values())
    attempts = sum(record.attempts for record in rest.values())
    kinds = sorted({kind for record in records.values() for kind in record.episodes})
    episodes = {kind: sum(record.episodes.get(kind, 0) for record in rest.values()) for kind in kinds}
    counts = [(record.failures, record.votes) for record in rest.values()]
    by_kind = {
        kind: sum(record.by_kind.get(kind, 0) for record in rest.values())
        for kind in sorted({kind for record in records.values() for kind in record.by_kind})
    }
    spread = spread_of(counts, (failures + 0.5) / (votes + 1)) if allow_spread else 0.0
    result = {}
    for name, record in records.items():
        inside = name in rest
        comparison = Comparison()
        own_votes, own_failures = (record.votes, record.failures) if inside else (0, 0)
        others = len(rest) - inside
        if votes - own_votes >= LEAST_ELSEWHERE:
            # Half a failure more than observed, because a pool without failures so far may still have some.
            comparison.rate = (failures - own_failures + 0.5) / (votes - own_votes + 1)
            if record.votes:
                spread_here = spread + 1 / (votes - own_votes + 2)
                _test_votes(comparison, record.failures, record.votes, comparison.rate, spread_here)
                for kind, total in by_kind.items():
                    own = record.by_kind.get(kind, 0)
                    rate = (total - (own if inside else 0) + 0.5) / (votes - own_votes + 1)
                    _test_votes(comparison, own, record.votes, rate, spread_here)
        for kind in kinds if others else ():
            elsewhere = episodes[kind] - (record.episodes.get(kind, 0) if inside else 0)
            exposed = attempts - (record.attempts if inside else 0)
            share = max(1 / (others + 1), record.attempts / (exposed + record.attempts) if exposed else 0.0)
            _test_episodes(comparison, kind, record.episodes.get(kind, 0), elsewhere, share)
        result[name] = comparison
    return result


def _test_votes(comparison: Comparison, failures: int, votes: int, rate: float, spread: float) -> None:
    comparison.possible.append([(p_value, p_value) for p_value in tails(LEAST_FAILURES, votes, rate, spread)])
    if failures >= LEAST_FAILURES:
        comparison.p_value = min(comparison.p_value, beta_binomial_tail(failures, votes, rate, spread))


def _test_episodes(comparison: Comparison, kind: CauseKind, own: int, elsewhere: int, share: float) -> None:
    possible = tails(LEAST_FAILURES, own + elsewhere, share)
    comparison.possible.append([(EPISODE_FACTOR * p_value, p_value) for p_value in possible])
    if own >= LEAST_FAILURES:
        p_value = EPISODE_FACTOR * binomial_tail(own, own + elsewhere, share)
        if p_value < comparison.p_value:
            comparison.p_value, comparison.kind = p_value, kind
