"""Quantities are exact, and agree with the Kubernetes client's own parser wherever that one is right."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_toolkit.kube import quantities as q

numbers = st.from_regex(r"\A[+-]?(?:[0-9]{1,12}(?:\.[0-9]{0,6})?|\.[0-9]{1,6})\Z")
suffixes = st.sampled_from(
    ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]
)
exponents = st.integers(-9, 12).flatmap(lambda n: st.sampled_from([f"e{n}", f"E{n}", f"e{n:+d}"]))


@given(numbers, suffixes | exponents)
def test_every_legal_form_agrees_with_the_kubernetes_client(number: str, suffix: str) -> None:
    from kubernetes.utils.quantity import parse_quantity

    oracle = parse_quantity(number + suffix)
    assert isinstance(oracle, Decimal)
    ours = q.parse(number + suffix)
    # Decimal keeps 28 digits; the exact value must be within that of it.
    assert abs(ours - Fraction(oracle)) <= abs(ours) / 10**26


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("100m", Fraction(1, 10)),
        ("1.5Gi", Fraction(3 * 2**29)),
        ("12582912Ki", 12582912 * 1024),
        ("2e3", 2000),
        ("2E3", 2000),
        ("2E", 2 * 10**18),
        ("1Ei", 2**60),
        ("1500000n", Fraction(15, 10000)),
        ("5.", 5),
        (".5", Fraction(1, 2)),
        ("-1", -1),
        ("+1k", 1000),
        ("0.1", Fraction(1, 10)),
    ],
)
def test_known_values(text: str, value: Fraction | int) -> None:
    assert q.parse(text) == value


@pytest.mark.parametrize(
    "text",
    ["", " 1", "1 ", "1K", "1KiB", "1ki", "1e", "1e3Mi", "abc", "1,5", "--1", "1mm", ".", "٣"],
)
def test_what_kubernetes_refuses_is_refused(text: str) -> None:
    with pytest.raises(q.QuantityError):
        q.parse(text)


def test_requests_round_up_and_offers_round_down() -> None:
    assert q.cpu_requested("1500001n") == 2
    assert q.cpu_offered("1500001n") == 1
    assert q.bytes_requested("1m") == 1
    assert q.bytes_offered("1999m") == 1


@given(st.integers(0, 10**6), st.integers(0, 2**40))
def test_written_quantities_read_back(milli: int, size: int) -> None:
    assert q.cpu_requested(q.cpu_text(milli)) == milli
    assert q.bytes_requested(q.memory_text(size)) == size
