"""The statistics against exact arithmetic and published figures."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import comb, exp

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arc_toolkit.diagnosis.judge.statistics import (
    Support,
    discrete_benjamini_hochberg,
    distribution,
    distribution_of_sum,
    excluded_rate,
    poisson_tail,
    spread_of,
    tails,
    wilson,
)


def binomial_tail(successes: int, trials: int, probability: float) -> float:
    return (tails(distribution(trials, probability)) + [0.0] * (successes + 1))[successes]


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 60), st.integers(0, 60), st.integers(1, 99))
def test_the_binomial_tail_is_exact(successes: int, trials: int, percent: int) -> None:
    p = Fraction(percent, 100)
    exact = sum(
        comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(successes, trials + 1)
    )
    assert binomial_tail(successes, trials, percent / 100) == pytest.approx(
        float(exact), rel=1e-9, abs=1e-11
    )


def test_wilson_matches_the_published_example() -> None:
    # Newcombe 1998, table I: 81 of 263 gives 0.2553 to 0.3662; 0 of 20 gives 0.0000 to 0.1611.
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert wilson(0, 20) == pytest.approx((0.0, 0.1611), abs=5e-5)
    assert wilson(0, 0) == (0.0, 1.0)


def benjamini_hochberg(p_values: list[float], level: float) -> list[bool]:
    """As if every test could give every p-value."""
    return discrete_benjamini_hochberg(p_values, [[_same(sorted(p_values))]] * len(p_values), level)


def test_benjamini_hochberg_matches_the_example_of_its_paper() -> None:
    # Benjamini & Hochberg 1995, section 4: fifteen p-values, four fall at 5 %.
    p = [
        0.0001,
        0.0004,
        0.0019,
        0.0095,
        0.0201,
        0.0278,
        0.0298,
        0.0344,
        0.0459,
        0.3240,
        0.4262,
        0.5719,
        0.6528,
        0.7590,
        1.0,
    ]
    assert benjamini_hochberg(p, 0.05) == [True] * 4 + [False] * 11
    assert benjamini_hochberg(p[::-1], 0.05) == [False] * 11 + [True] * 4
    assert benjamini_hochberg([], 0.05) == []


def test_benjamini_hochberg_takes_a_larger_p_value_if_enough_others_pass() -> None:
    assert benjamini_hochberg([0.01, 0.03, 0.04, 0.045], 0.05) == [True] * 4


def test_the_beta_binomial_tail_is_uniform_if_all_rates_are_equally_likely() -> None:
    # alpha = beta = 1: a mean of one half, and a correlation of 1 / (1 + 1 + 1).
    uniform = tails(distribution(10, 0.5, 1 / 3))
    assert uniform == pytest.approx([(11 - successes) / 11 for successes in range(11)])
    for spread in (0.0, 1e-9):
        few = tails(distribution(30, 0.05, spread))
        assert few[4] == pytest.approx(binomial_tail(4, 30, 0.05), rel=1e-4)
    assert tails(distribution(30, 0.05, 0.1))[0] == pytest.approx(1.0)


def test_more_spread_makes_many_failures_less_surprising() -> None:
    values = [tails(distribution(30, 0.05, spread))[6] for spread in (0.0, 0.02, 0.1, 0.3)]
    assert values == sorted(values)
    assert values[-1] > 20 * values[0]


def test_the_poisson_tail() -> None:
    assert poisson_tail(0, 3.0) == 1.0
    assert poisson_tail(1, 3.0) == pytest.approx(1 - exp(-3))
    assert poisson_tail(2, 3.0) == pytest.approx(1 - 4 * exp(-3))
    assert poisson_tail(1, 0.0) == 0.0


def test_the_spread_is_zero_unless_nodes_differ_more_than_by_chance() -> None:
    counts = (1, 0, 2, 0, 1, 1)
    assert spread_of([(failures, 30, 5 / 6) for failures in counts]) == 0.0
    assert spread_of([(0, 20, 5), (10, 20, 5)] * 10) == pytest.approx(1 / 3, abs=0.05)
    for useless in ([], [(0, 1, 0.1)], [(10, 10, 10)], [(0, 10, 0)]):
        assert spread_of(useless) == 0.0


def test_the_excluded_rate_is_the_exact_bound() -> None:
    # Without failures it is known in closed form: (1 - rate) ** trials = 0.05.
    assert excluded_rate(0, 9) == pytest.approx(1 - 0.05 ** (1 / 9))
    # Clopper and Pearson 1934: at the bound, 2 or fewer of 40 have a probability of 5 %.
    assert 1 - binomial_tail(3, 40, excluded_rate(2, 40)) == pytest.approx(0.05)
    assert excluded_rate(0, 0) == excluded_rate(3, 3) == 1.0


def _same(p_values: Sequence[float]) -> Support:
    return [(p_value, p_value) for p_value in p_values]


def test_discrete_tests_that_cannot_give_a_small_p_value_do_not_cost_power() -> None:
    strong = _same(tails(distribution(20, 0.02))[:0:-1])
    small, _ = strong[-3]
    p_values, possible = [small, *[1.0] * 99], [[strong], *[[_same([0.5])]] * 99]
    assert 0.05 / 100 < small < 0.05
    assert not any(benjamini_hochberg(p_values, 0.05))
    assert discrete_benjamini_hochberg(p_values, possible, 0.05) == [True] + [False] * 99
    assert not any(discrete_benjamini_hochberg(p_values, [[strong]] * 100, 0.05))


def test_all_tests_of_a_hypothesis_are_corrected_for() -> None:
    support = _same([0.03])
    assert discrete_benjamini_hochberg([0.03], [[support]], 0.05) == [True]
    assert discrete_benjamini_hochberg([0.03], [[support, support]], 0.05) == [False]
    # A test whose p-values are given four times as large is as rarely wrong as before.
    assert discrete_benjamini_hochberg([0.03], [[support, [(0.03, 0.03 / 4)]]], 0.05) == [True]
    assert discrete_benjamini_hochberg([], [], 0.05) == []


def test_a_distribution_ends_when_it_no_longer_matters() -> None:
    assert len(distribution(10_000, 1e-4)) < 20
    # Far below the mean a single probability is less than the smallest number, but the tail is not.
    assert tails(distribution(100_000, 0.5))[0] == pytest.approx(1.0)


def test_the_sum_of_counts_with_one_probability_is_one_count() -> None:
    parts = [distribution(trials, 0.3) for trials in (4, 7, 1)]
    assert distribution_of_sum(parts) == pytest.approx(distribution(12, 0.3))
    assert distribution_of_sum([]) == [1.0]


def test_the_sum_of_counts_weighs_each_by_its_own_probability() -> None:
    total = distribution_of_sum([distribution(1, 0.2), distribution(1, 0.5)])
    assert total == pytest.approx([0.4, 0.5, 0.1])
