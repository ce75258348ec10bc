"""Kubernetes quantities, exact: `100m`, `1.5Gi`, `2e3`, `12582912Ki` and every other legal form.

CPU is counted in whole milli-cores and memory in whole bytes; what a pod asks for is rounded up to
those units and what a node offers down, so that rounding never makes a fit out of a misfit.
GPUs and parts of GPUs are devices, as device plugins name them in the capacity of a node.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from types import MappingProxyType
from typing import Any

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


# Whole GPUs. https://github.com/NVIDIA/k8s-device-plugin, https://github.com/ROCm/k8s-device-plugin
GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu")
# MIG slices (`mig-1g.10gb`, `.me`: media engines), shared GPUs of NVIDIA, parts of AMD's.
_PARTS = re.compile(
    r"nvidia\.com/(?:gpu\.shared|mig-[0-9]+g\.[0-9]+gb[a-z0-9.]*)|amd\.com/[a-z]px_nps[0-9]",
    re.ASCII,
)


NO_DEVICES: Mapping[str, int] = MappingProxyType({})


def is_device(resource: str) -> bool:
    """Whether a resource is a GPU or a part of one. Others, such as `rdma/hca`, are not shared."""
    return resource in GPU_RESOURCES or _PARTS.fullmatch(resource) is not None


def devices_in(amounts: Mapping[str, Any]) -> dict[str, int]:
    """The devices of a capacity or a list of requests, without those of which there are none."""
    counts = {
        key: bytes_offered(str(value))
        for key, value in amounts.items()
        if "/" in key and is_device(key)
    }
    return {key: count for key, count in sorted(counts.items(), key=_order) if count > 0}


def _order(row: tuple[str, int]) -> tuple[bool, str]:
    """Whole GPUs first."""
    return row[0] not in GPU_RESOURCES, row[0]


def device_name(resource: str) -> str:
    """`gpu`, `mig-1g.10gb`: what it is called in the name of a type."""
    return resource.partition("/")[2].replace("_", "-")


def devices_text(devices: Mapping[str, int]) -> str:
    """`2 x nvidia.com/gpu, 4 x nvidia.com/mig-1g.10gb`."""
    return ", ".join(f"{count} x {resource}" for resource, count in devices.items())
