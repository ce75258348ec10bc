"""The little statistics that verdicts need, exact and in plain Python."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from math import exp, lgamma, log, log1p, sqrt

Z_95 = 1.959963984540054
NEGLIGIBLE = 1e-12
MOST_STEPS = 400
ROUNDING = 1 + 1e-9  # p-values that differ by less are equal

# The p-values that a test can give, in rising order, each with the probability of one as small.
Support = list[tuple[float, float]]


def binomial_tail(successes: int, trials: int, probability: float) -> float:
    """P(X >= successes) for X ~ Binomial(trials, probability), summed exactly in logarithms."""
    return beta_binomial_tail(successes, trials, probability, 0.0)


@lru_cache(maxsize=10_000)  # many nodes have the same counts
def beta_binomial_tail(successes: int, trials: int, probability: float, spread: float) -> float:
    """The same if the probability varies between nodes; `spread` correlates a node's trials."""
    if successes <= 0:
        return 1.0
    if successes > trials or probability <= 0.0:
        return 0.0
    if probability >= 1.0:
        return 1.0
    total = 0.0
    for count, value in enumerate(
        _probabilities(successes, trials, probability, spread), successes
    ):
        total += value
        # Past the mean the terms fall; when they no longer matter, stop.
        if count > trials * probability and value < total * NEGLIGIBLE:
            break
    return min(total, 1.0)


@lru_cache(maxsize=10_000)  # many nodes have the same counts
def tails(least: int, trials: int, probability: float, spread: float = 0.0) -> Sequence[float]:
    """The p-values that a count of at least `least` can give, in rising order, in one pass."""
    values = []
    for count, value in enumerate(_probabilities(least, trials, probability, spread), least):
        values.append(value)
        if count > trials * probability and value < NEGLIGIBLE:
            break
    return [min(value, 1.0) for value in accumulate(reversed(values))]


def _probabilities(first: int, trials: int, probability: float, spread: float) -> Iterator[float]:
    """P(X = count) for each count from `first`, by ratios of logarithms, without underflow."""
    if first > trials:
        return
    choices = lgamma(trials + 1) - lgamma(first + 1) - lgamma(trials - first + 1)
    if spread > 0.0:
        size = 1 / min(spread, 0.99) - 1
        alpha, beta = probability * size, (1 - probability) * size
        value = choices + lgamma(size) - lgamma(size + trials) - lgamma(alpha) - lgamma(beta)
        value += lgamma(alpha + first) + lgamma(beta + trials - first)
    else:
        value = choices + first * log(probability) + (trials - first) * log1p(-probability)
        odds = probability / (1 - probability)
    for count in range(first, trials):
        yield exp(value)
        success = (alpha + count) / (beta + trials - count - 1) if spread > 0.0 else odds
        value += log((trials - count) / (count + 1) * success)
    yield exp(value)


def weighted_tails(expected: Mapping[int, float], shape: float) -> list[float]:
    """P(S >= s) for s = 0, 1, ..., while it matters, for S the sum of weights of random events.

    `expected`: how many events of each weight (1 or more) are expected. Their number is Poisson
    distributed around a mean that itself varies as a gamma distribution of this shape, so it is
    negative binomial; Panjer's recursion (1981) gives the sum without any simulation.
    """
    mean = sum(expected.values())
    if mean <= 0.0:
        return [1.0]
    ratio = mean / (shape + mean)
    slope = (shape - 1) * ratio
    shares = sorted((weight, value / mean) for weight, value in expected.items())
    chances = [exp(-shape * log1p(mean / shape))]
    result = [1.0, 1.0 - chances[0]]
    while result[-1] > NEGLIGIBLE and len(result) < MOST_STEPS:
        total = len(chances)
        chance = sum(
            (ratio + slope * weight / total) * share * chances[total - weight]
            for weight, share in shares
            if weight <= total
        )
        chances.append(chance)
        result.append(max(0.0, result[-1] - chance))
    return result


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


def spread_of(counts: Sequence[tuple[int, int]], probability: float) -> float:
    """How much more (failures, trials) differ between nodes than by chance, or 0.0.

    The correlation within nodes by the method of moments (Williams 1982). With few failures
    Pearson's statistic is itself uncertain, so an excess counts only if it is above two standard
    deviations.
    """
    if not 0.0 < probability < 1.0:
        return 0.0
    variance = probability * (1 - probability)
    excess = uncertainty = pairs = 0.0
    for failures, trials in counts:
        if trials:
            excess += (failures - trials * probability) ** 2 / (trials * variance) - 1
            uncertainty += 2 + (1 / variance - 6) / trials
            pairs += trials - 1
    if pairs <= 0 or excess <= 2 * sqrt(max(uncertainty, 0.0)):
        return 0.0
    return excess / pairs


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
        below = 1 - binomial_tail(failures + 1, trials, rate)
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
    # Where the expected number rises, and by how much: all steps of all tests up to the level.
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

    def expected_count(p_value: float) -> float:
        return sums[bisect_right(places, p_value * ROUNDING)]

    return _rejections(p_values, level, expected_count)


def _rejections(
    p_values: Sequence[float], level: float, expected: Callable[[float], float]
) -> list[bool]:
    """`expected`: how many p-values as small as this one chance would give."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    last = -1
    for place, index in enumerate(order):
        p_value = p_values[index]
        if p_value > level:  # no smaller number of expected ones is possible
            break
        if expected(p_value) <= level * (place + 1):
            last = place
    passed = [False] * len(p_values)
    for index in order[: last + 1]:
        passed[index] = True
    return passed
