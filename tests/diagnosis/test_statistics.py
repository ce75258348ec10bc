"""The statistics against exact arithmetic and published figures."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arc_toolkit.diagnosis.statistics import benjamini_hochberg, binomial_tail, wilson


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 60), st.integers(0, 60), st.integers(1, 99))
def test_the_binomial_tail_is_exact(successes: int, trials: int, percent: int) -> None:
    p = Fraction(percent, 100)
    exact = sum(comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(successes, trials + 1))
    assert binomial_tail(successes, trials, percent / 100) == pytest.approx(float(exact), rel=1e-9, abs=1e-300)


def test_the_binomial_tail_at_its_ends() -> None:
    assert binomial_tail(0, 10, 0.0) == 1.0
    assert binomial_tail(1, 10, 0.0) == 0.0
    assert binomial_tail(10, 10, 1.0) == 1.0
    assert binomial_tail(11, 10, 0.5) == 0.0
    assert binomial_tail(60_000, 100_000, 0.5) < 1e-300


def test_wilson_matches_the_published_example() -> None:
    # Newcombe 1998, table I: 81 of 263 gives 0.2553 to 0.3662; 0 of 20 gives 0.0000 to 0.1611.
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert wilson(0, 20) == pytest.approx((0.0, 0.1611), abs=5e-5)
    assert wilson(0, 0) == (0.0, 1.0)


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
