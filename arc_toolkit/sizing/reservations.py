"""What the guest kernel and AKS keep of a node, as tables.

Source: "Node resource reservations"
(https://learn.microsoft.com/azure/aks/node-resource-reservations), checked against real nodes
(data/observed_nodes.csv; tests/sizing/test_reservations.py). Where the page and the nodes disagree,
the nodes win: the page says MB where nodes show Mi, and the quarter is of the size's nominal
memory.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from arc_toolkit.errors import ArcError
from arc_toolkit.kube.quantities import GI, MI
from arc_toolkit.resources import data_rows
from arc_toolkit.sizing.vm_sizes import table

Version = tuple[int, int]

# (cores, milli-cores reserved for each of them); further cores follow the last row.
CPU_STEPS = ((1, 60), (1, 40), (2, 20))
CPU_BEYOND_M = 10

# Kubernetes before 1.29: (GiB, per cent) of nominal memory; above it the last figure counts.
MEMORY_BRACKETS = ((4, 25), (4, 20), (8, 10), (112, 6))
MEMORY_BEYOND_PERCENT = 2
EVICTION_BEFORE_1_29_MIB = 750

# Kubernetes 1.29 and later: the smaller of 20 Mi a pod + 50 Mi and a quarter of nominal memory.
PODS_REGIME_SINCE: Version = (1, 29)
MEMORY_PER_POD_MIB = 20
MEMORY_BASE_MIB = 50
EVICTION_MIB = 100

# Windows nodes: the brackets and this, with no eviction threshold (seen on 1.28 only).
WINDOWS_EXTRA_MIB = 2048

# Defaults of maxPods by network plugin. 30 instead of 250 moves allocatable by 4400 Mi.
MAX_PODS = {"overlay": 250, "pod-subnet": 110, "kubenet": 110, "azure": 30}
MAX_PODS_RANGE = (10, 250)

# What the guest kernel leaves of a size's nominal memory, where no node can be asked. An estimate
# that is too high makes a job fail at once ("Code 9"), so it errs on the low side.
# The same size differs by 12 to 28 Mi between kernels and images; small nodes showed the small end.
DRIFT_MIB = 28
DRIFT_SMALL_MIB = 12
SMALL_BELOW_GIB = 8
# Windows shows nearly all of it: 460 Ki less, on both nodes that were seen.
WINDOWS_LOSS_MIB = 1
# Every loss that was seen is nominal/64 and 100 to 290 Mi; less 28 Mi for drift.
LEAST_BEYOND_64TH_MIB = 72


@dataclass(frozen=True, slots=True)
class Reservation:
    """An amount and how it came about."""

    amount: int
    rule: str


def parse_version(text: str) -> Version:
    """`1.33`, `v1.33.2` -> (1, 33)."""
    match = re.fullmatch(r"v?(\d{1,3})\.(\d{1,3})(?:[.+-][0-9A-Za-z.+-]*)?", text.strip())
    if match is None:
        raise ArcError(f"{text!r} is not a Kubernetes version: write it like 1.33 or 1.33.2")
    return int(match[1]), int(match[2])


@cache
def kube_reserved_cpu(cores: int) -> Reservation:
    """Milli-cores kept on a node of that many cores (all versions)."""
    remaining, amount, terms = cores, 0, []
    for count, each in (*CPU_STEPS, (cores, CPU_BEYOND_M)):
        if part := min(remaining, count):
            amount, remaining = amount + part * each, remaining - part
            terms.append(f"{part} x {each}m" if part > 1 else f"{each}m")
    return Reservation(amount, " + ".join(terms))


def kube_reserved_memory(
    nominal: int, version: Version, max_pods: int, windows: bool = False
) -> Reservation:
    """Bytes kept on a node whose size has that nominal memory (bytes)."""
    if windows:
        brackets = _brackets_mib(nominal)
        return Reservation(
            (brackets + WINDOWS_EXTRA_MIB) * MI,
            f"brackets ({brackets}Mi) + {WINDOWS_EXTRA_MIB}Mi on Windows",
        )
    if version < PODS_REGIME_SINCE:
        return Reservation(
            _brackets_mib(nominal) * MI,
            "25% of 4 GiB, 20% of the next 4, 10% of 8, 6% of 112, 2% above",
        )
    by_pods = MEMORY_PER_POD_MIB * max_pods + MEMORY_BASE_MIB
    quarter = nominal // MI // 4
    if quarter < by_pods:
        return Reservation(
            quarter * MI, f"a quarter of nominal memory (less than 20Mi x {max_pods} + 50Mi)"
        )
    return Reservation(by_pods * MI, f"20Mi x {max_pods} pods + 50Mi")


def eviction(version: Version, windows: bool = False) -> Reservation:
    """The hard eviction threshold, bytes."""
    if windows:
        return Reservation(0, "none on Windows")
    if version < PODS_REGIME_SINCE:
        return Reservation(EVICTION_BEFORE_1_29_MIB * MI, "memory.available < 750Mi (before 1.29)")
    return Reservation(EVICTION_MIB * MI, "memory.available < 100Mi (from 1.29)")


def _brackets_mib(nominal: int) -> int:
    remaining = Fraction(nominal, MI)
    amount = Fraction(0)
    for gib, percent in MEMORY_BRACKETS:
        part = min(remaining, Fraction(gib * 1024))
        amount, remaining = amount + part * percent / 100, remaining - part
    return int(amount + remaining * MEMORY_BEYOND_PERCENT / 100)


@cache
def observed_losses() -> dict[Fraction, int]:
    """Largest loss seen, MiB, by nominal GiB."""
    return {
        Fraction(row["memory_gib"]): int(row["most_mib"])
        for row in data_rows("observed_losses.csv")
    }


def kernel_loss(nominal: int, windows: bool = False) -> Reservation:
    """Bytes of nominal memory that the node will not show as capacity: seen, or else bounded."""
    drift = DRIFT_SMALL_MIB if nominal < SMALL_BELOW_GIB * GI else DRIFT_MIB
    if windows:
        return Reservation(
            (WINDOWS_LOSS_MIB + drift) * MI,
            f"less than 1Mi seen on Windows, + {drift}Mi for safety",
        )
    loss = observed_losses().get(Fraction(nominal, GI))
    if loss is not None:
        return Reservation(
            (loss + drift) * MI, f"most seen on real nodes ({loss}Mi) + {drift}Mi between images"
        )
    return Reservation(
        loss_bound(nominal) + drift * MI,
        f"bound: nominal/64 + 160Mi + 1Mi per GiB, + {drift}Mi between images",
    )


def loss_bound(nominal: int) -> int:
    """Held for 24 of 24 real nodes, up to 220 GiB, amd64."""
    return -(-nominal // 64 // MI) * MI + 160 * MI + -(-nominal // GI) * MI


def nominal_from_capacity(capacity: int) -> int:
    """The nominal memory behind a capacity, for a node whose size is unknown.

    The smallest memory of any Azure size whose loss would be as losses are: at least nominal/64 and
    some 100Mi, at most the bound, or if none is, at most a tenth. Else the next whole GiB.
    """
    sizes = sorted({size.memory for size in table().values()})
    likely = [
        nominal
        for nominal in sizes
        if nominal - capacity >= nominal // 64 + LEAST_BEYOND_64TH_MIB * MI
    ]
    for nominal in likely:
        if nominal - capacity <= loss_bound(nominal) + DRIFT_MIB * MI:
            return nominal
    if likely and likely[0] - capacity <= likely[0] // 10:
        return likely[0]
    return -(-capacity // GI) * GI
