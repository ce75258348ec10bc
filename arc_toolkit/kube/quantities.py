"""Kubernetes quantities, exact: `100m`, `1.5Gi`, `2e3`, `12582912Ki` and every other legal form.

CPU is counted in whole milli-cores and memory in whole bytes; what a pod asks for is rounded up to
those units and what a node offers down, so that rounding never makes a fit out of a misfit.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import cache

KI = 1024
MI = 1024 * KI
GI = 1024 * MI

# https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
_SUFFIXES = {
    "": Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    **{letter: Fraction(10 ** (3 * power)) for power, letter in enumerate("kMGTPE", 1)},
    **{letter + "i": Fraction(1024**power) for power, letter in enumerate("KMGTPE", 1)},
}
_FORM = re.compile(
    r"([+-]?)([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE]([+-]?[0-9]{1,3})|([numkMGTPE]|[KMGTPE]i)?)",
    re.ASCII,
)


class QuantityError(ValueError):
    """Text that is not a Kubernetes quantity."""


@cache
def parse(text: str) -> Fraction:
    """The exact value. Cached: a cluster repeats a few dozen texts in thousands of pods."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise QuantityError(f"{text!r} is not a Kubernetes quantity (such as 500m, 4 or 16Gi)")
    sign, digits, exponent, suffix = match.groups()
    value = Fraction("0" + digits if digits.startswith(".") else digits.rstrip("."))
    value *= Fraction(10) ** int(exponent) if exponent else _SUFFIXES[suffix or ""]
    return -value if sign == "-" else value


@cache
def cpu_requested(text: str) -> int:
    """Milli-cores that a request takes."""
    return -(-parse(text) * 1000 // 1)


@cache
def cpu_offered(text: str) -> int:
    """Milli-cores that a node offers."""
    return parse(text) * 1000 // 1


@cache
def bytes_requested(text: str) -> int:
    """Bytes that a request takes."""
    return -(-parse(text) // 1)


@cache
def bytes_offered(text: str) -> int:
    """Bytes that a node offers."""
    return parse(text) // 1


def cpu_text(milli: int) -> str:
    """`31500m`, or `32` for whole cores."""
    return str(milli // 1000) if milli % 1000 == 0 else f"{milli}m"


def memory_text(size: int) -> str:
    """Bytes in the largest unit that is exact: `128Gi`, `117000Mi`, `3500452Ki`."""
    for unit, factor in (("Gi", GI), ("Mi", MI), ("Ki", KI)):
        if size % factor == 0:
            return f"{size // factor}{unit}"
    return str(size)
