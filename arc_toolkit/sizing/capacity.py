"""What the guest kernel leaves of a size's nominal memory, where no node can be asked.

An estimate that is too high makes a job fail at once ("Code 9"), so it errs on the low side.
"""

from __future__ import annotations

import csv
from fractions import Fraction
from functools import cache

from arc_toolkit.kube.quantities import GI, MI
from arc_toolkit.resources import data_file
from arc_toolkit.sizing.reservations import Reservation

# The same size differs by 12 to 28 Mi between kernels and images; small nodes showed the small end.
DRIFT_MIB = 28
DRIFT_SMALL_MIB = 12
SMALL_BELOW_GIB = 8
# Windows shows nearly all of it: 460 Ki less, on both nodes that were seen.
WINDOWS_LOSS_MIB = 1
# Every loss that was seen is nominal/64 and 100 to 290 Mi; less 28 Mi for drift.
LEAST_BEYOND_64TH_MIB = 72


@cache
def observed_losses() -> dict[Fraction, int]:
    """Largest loss seen, MiB, by nominal GiB."""
    with open(data_file("observed_losses.csv"), encoding="utf-8", newline="") as stream:
        rows = csv.DictReader(line for line in stream if not line.startswith("#"))
        return {Fraction(row["memory_gib"]): int(row["most_mib"]) for row in rows}


def kernel_loss(nominal: int, windows: bool = False) -> Reservation:
    """Bytes of nominal memory that the node will not show as capacity: seen, or else bounded."""
    drift = DRIFT_SMALL_MIB if nominal < SMALL_BELOW_GIB * GI else DRIFT_MIB
    if windows:
        return Reservation(
            (WINDOWS_LOSS_MIB + drift) * MI, f"less than 1Mi seen on Windows, + {drift}Mi for safety"
        )
    seen = observed_losses().get(Fraction(nominal, GI))
    if seen is not None:
        return Reservation((seen + drift) * MI, f"most seen on real nodes ({seen}Mi) + {drift}Mi between images")
    return Reservation(
        bound(nominal) + drift * MI, f"bound: nominal/64 + 160Mi + 1Mi per GiB, + {drift}Mi between images"
    )


def bound(nominal: int) -> int:
    """Held for 24 of 24 real nodes, up to 220 GiB, amd64."""
    return -(-nominal // 64 // MI) * MI + 160 * MI + -(-nominal // GI) * MI


def nominal_from_capacity(capacity: int) -> int:
    """The nominal memory behind a capacity, for a node whose size is unknown.

    The smallest memory of any Azure size whose loss would be as losses are: at least nominal/64 and some 100Mi, at
    most the bound, or if none is, at most a tenth. Else the next whole GiB.
    """
    from arc_toolkit.sizing.vm_sizes import table

    sizes = sorted({size.memory for size in table().values()})
    likely = [nominal for nominal in sizes if nominal - capacity >= nominal // 64 + LEAST_BEYOND_64TH_MIB * MI]
    for nominal in likely:
        if nominal - capacity <= bound(nominal) + DRIFT_MIB * MI:
            return nominal
    if likely and likely[0] - capacity <= likely[0] // 10:
        return likely[0]
    return -(-capacity // GI) * GI
