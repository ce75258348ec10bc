"""The little statistics that verdicts need, in plain Python."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from math import exp, lgamma, log, log1p, sqrt

Z_95 = 1.959963984540054
NEGLIGIBLE = 1e-12
SURE = 3.0  # standard deviations
ROUNDING = 1 + 1e-9  # p-values that differ by less are equal

# The p-values that a test can give, in rising order, each with the probability of one as small.
Support = list[tuple[float, float]]


@lru_cache(maxsize=10_000)  # many nodes have the same counts
def distribution(trials: int, probability: float, spread: float = 0.0) -> Sequence[float]:
    """P(X = 0), P(X = 1), ..., while it matters, for a beta-binomial X.

    `spread` correlates the trials: 0 is a binomial, and with 1 / (n + 2) the probability is known
    from n other trials.

    >>> distribution(2, 0.5)
    [0.25, 0.5, 0.25]
    """
    values = []
    for count, value in enumerate(_probabilities(trials, probability, spread)):
        values.append(value)
        if count > trials * probability and value < NEGLIGIBLE:
            break
    return values


def _probabilities(trials: int, probability: float, spread: float) -> Iterator[float]:
    """P(X = count) for each count, by ratios of logarithms, without underflow."""
    if spread > 0.0:
        size = 1 / min(spread, 0.99) - 1
        alpha, beta = probability * size, (1 - probability) * size
        value = lgamma(size) - lgamma(size + trials) + lgamma(beta + trials) - lgamma(beta)
    else:
        value = trials * log1p(-probability)
        odds = probability / (1 - probability)
    for count in range(trials):
        yield exp(value)
        success = (alpha + count) / (beta + trials - count - 1) if spread > 0.0 else odds
        value += log((trials - count) / (count + 1) * success)
    yield exp(value)


def distribution_of_sum(parts: Iterable[Sequence[float]]) -> Sequence[float]:
    """Of independent counts.

    >>> distribution_of_sum([[0.5, 0.5], [0.5, 0.5]])
    [0.25, 0.5, 0.25]
    """
    total: Sequence[float] = [1.0]
    for part in parts:
        result = [0.0] * (len(total) + len(part) - 1)
        for count, chance in enumerate(part):
            for other, other_chance in enumerate(total):
                result[count + other] += chance * other_chance
        while result[-1] < NEGLIGIBLE:
            result.pop()
        total = result
    return total


def tails(chances: Sequence[float]) -> list[float]:
    """P(X >= 0), P(X >= 1), ... of a distribution.

    >>> tails([0.25, 0.5, 0.25])
    [1.0, 0.75, 0.25]
    """
    return [min(value, 1.0) for value in accumulate(reversed(chances))][::-1]


def poisson_tail(events: int, expected: float) -> float:
    """P(X >= events) for X ~ Poisson(expected)."""
    if events <= 0:
        return 1.0
    if expected <= 0.0:
        return 0.0
    value = exp(-expected)
    below = 0.0
    for count in range(events):
        below += value
        value *= expected / (count + 1)
    return max(0.0, 1.0 - below)


def spread_of(counts: Iterable[tuple[int, int, float]]) -> float:
    """How much more nodes differ than by chance, as correlation within nodes; 0.0 if not surely.

    `counts`: failures, trials and expected failures of each node. By the method of moments
    (Williams 1982). With few failures Pearson's statistic is itself uncertain, so an excess counts
    only above three standard deviations.

    >>> spread_of([(0, 20, 5), (10, 20, 5)] * 10)  # half of the nodes fail every second time
    0.29...
    """
    excess = uncertainty = pairs = 0.0
    for failures, trials, expected in counts:
        rate = expected / trials if trials else 0.0
        if 0.0 < rate < 1.0:
            variance = rate * (1 - rate)
            excess += (failures - expected) ** 2 / (trials * variance) - 1
            uncertainty += 2 + (1 / variance - 6) / trials
            pairs += trials - 1
    is_sure = uncertainty > 0 and excess > SURE * sqrt(uncertainty)
    return excess / pairs if pairs and is_sure else 0.0


def wilson(successes: int, trials: int, z: float = Z_95) -> tuple[float, float]:
    """The Wilson interval of a proportion: sensible also for few trials and for none at all."""
    if trials <= 0:
        return 0.0, 1.0
    rate = successes / trials
    scale = 1 + z * z / trials
    middle = (rate + z * z / (2 * trials)) / scale
    half = z * sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials)) / scale
    return max(0.0, middle - half), min(1.0, middle + half)


@lru_cache(maxsize=10_000)  # many nodes have the same counts
def excluded_rate(failures: int, trials: int, level: float = 0.05) -> float:
    """The rate above which so few failures are less likely than `level` (Clopper and Pearson)."""
    if failures >= trials:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(30):
        rate = (low + high) / 2
        below = sum(distribution(trials, rate)[: failures + 1])
        low, high = (rate, high) if below > level else (low, rate)
    return high


def discrete_benjamini_hochberg(
    p_values: Sequence[float], possible: Sequence[Sequence[Support]], level: float
) -> list[bool]:
    """Which hypotheses fall when at most `level` of them may be wrong, for counts (Heyse 2011).

    Few trials cannot give a small p-value, so fewer false ones are to be expected than Benjamini
    and Hochberg assume. `possible` has for every hypothesis the p-values that each of its tests can
    give.
    """
    # Where the expected number of false ones rises, and by how much.
    steps = sorted(
        (p_value, chance - before)
        for tests in possible
        for support in tests
        for (p_value, chance), before in zip(
            support, (0.0, *(chance for _, chance in support)), strict=False
        )
        if p_value <= level * ROUNDING
    )
    places = [p_value for p_value, _ in steps]
    sums = [0.0, *accumulate(rise for _, rise in steps)]
    worst = 0.0
    for place, p_value in enumerate(sorted(p_values), 1):
        expected = sums[bisect_right(places, p_value * ROUNDING)]
        if p_value <= level and expected <= level * place:
            worst = p_value
    return [p_value <= worst for p_value in p_values]
