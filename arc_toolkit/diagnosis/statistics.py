"""The little statistics that verdicts need, exact and in plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, lgamma, log, log1p, sqrt

Z_95 = 1.959963984540054


def binomial_tail(successes: int, trials: int, probability: float) -> float:
    """P(X >= successes) for X ~ Binomial(trials, probability), summed exactly in logarithms."""
    if successes <= 0:
        return 1.0
    if successes > trials or probability <= 0.0:
        return 0.0
    if probability >= 1.0:
        return 1.0
    log_p, log_q = log(probability), log1p(-probability)
    base = lgamma(trials + 1)
    total = 0.0
    for count in range(successes, trials + 1):
        term = exp(
            base - lgamma(count + 1) - lgamma(trials - count + 1) + count * log_p + (trials - count) * log_q
        )
        total += term
        # Past the mean the terms fall; when they no longer matter, stop.
        if count > trials * probability and term < total * 1e-12:
            break
    return min(total, 1.0)


def wilson(successes: int, trials: int, z: float = Z_95) -> tuple[float, float]:
    """The Wilson interval of a proportion: sensible also for few trials and for none at all."""
    if trials <= 0:
        return 0.0, 1.0
    rate = successes / trials
    scale = 1 + z * z / trials
    middle = (rate + z * z / (2 * trials)) / scale
    half = z * sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials)) / scale
    return max(0.0, middle - half), min(1.0, middle + half)


def benjamini_hochberg(p_values: Sequence[float], level: float) -> list[bool]:
    """Which hypotheses fall when at most `level` of all that fall may be wrong."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    last = -1
    for place, index in enumerate(order):
        if p_values[index] <= level * (place + 1) / len(p_values):
            last = place
    passed = [False] * len(p_values)
    for index in order[: last + 1]:
        passed[index] = True
    return passed
