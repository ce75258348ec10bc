"""The little statistics that verdicts need, exact and in plain Python."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from math import exp, lgamma, log, log1p, sqrt

Z_95 = 1.959963984540054
NEGLIGIBLE = 1e-12

# The p-values that a test can give, in rising order, each with the probability of one as small.
Support = list[tuple[float, float]]


def binomial_tail(successes: int, trials: int, probability: float) -> float:
    """P(X >= successes) for X ~ Binomial(trials, probability), summed exactly in logarithms."""
    if successes <= 0:
        return 1.0
    if successes > trials or probability <= 0.0:
        return 0.0
    if probability >= 1.0:
        return 1.0
    return _sum(lambda count: _binomial(count, trials, probability), successes, trials, trials * probability)


def _binomial(count: int, trials: int, probability: float) -> float:
    choices = lgamma(trials + 1) - lgamma(count + 1) - lgamma(trials - count + 1)
    return exp(choices + count * log(probability) + (trials - count) * log1p(-probability))


def beta_binomial_tail(successes: int, trials: int, probability: float, spread: float) -> float:
    """The same if the probability itself varies between nodes; `spread` is the correlation of two trials of a node."""
    if spread <= 0.0 or successes <= 0 or not 0.0 < probability < 1.0:
        return binomial_tail(successes, trials, probability)
    size = 1 / min(spread, 0.99) - 1
    alpha, beta = probability * size, (1 - probability) * size
    base = lgamma(trials + 1) + lgamma(size) - lgamma(size + trials) - lgamma(alpha) - lgamma(beta)

    def term(count: int) -> float:
        choices = base - lgamma(count + 1) - lgamma(trials - count + 1)
        return exp(choices + lgamma(alpha + count) + lgamma(beta + trials - count))

    return _sum(term, successes, trials, trials * probability)


def _sum(term: Callable[[int], float], first: int, last: int, mean: float) -> float:
    total = 0.0
    for count in range(first, last + 1):
        value = term(count)
        total += value
        # Past the mean the terms fall; when they no longer matter, stop.
        if count > mean and value < total * NEGLIGIBLE:
            break
    return min(total, 1.0)


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
    """How much more (failures, trials) differ between nodes than by chance: 0.0 unless that is clear.

    The correlation within nodes by the method of moments (Williams 1982). With few failures Pearson's statistic
    is itself uncertain, so an excess counts only if it is above two standard deviations.
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


def excluded_rate(failures: int, trials: int, level: float = 0.05) -> float:
    """The rate above which so few failures would have a probability under `level` (Clopper and Pearson, one side)."""
    if failures >= trials:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(30):
        rate = (low + high) / 2
        below = sum(_binomial(count, trials, rate) for count in range(failures + 1))
        low, high = (rate, high) if below > level else (low, rate)
    return high


def discrete_benjamini_hochberg(
    p_values: Sequence[float], possible: Sequence[Sequence[Support]], level: float
) -> list[bool]:
    """Which hypotheses fall when at most `level` of all that fall may be wrong, for counts (Heyse 2011).

    Few trials cannot give a small p-value, so fewer false ones are to be expected than Benjamini and Hochberg assume.
    `possible` has for every hypothesis the p-values that each of its tests can give.
    """
    supports = [support for tests in possible for support in tests]

    def expected(p_value: float) -> float:
        total = 0.0
        for support in supports:
            place = bisect_right(support, (p_value * (1 + 1e-9), 1.0))
            if place:
                total += support[place - 1][1]
        return total

    return _passed(p_values, level, expected)


def _passed(p_values: Sequence[float], level: float, expected: Callable[[float], float]) -> list[bool]:
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


def tails(least: int, trials: int, tail: Callable[[int], float]) -> list[float]:
    """The p-values that a count of at least `least` can give, in rising order."""
    values = []
    for count in range(least, trials + 1):
        values.append(tail(count))
        if values[-1] < NEGLIGIBLE:
            break
    return values[::-1]
