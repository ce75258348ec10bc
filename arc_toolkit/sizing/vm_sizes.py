"""The shipped table of Azure VM sizes: what the size's page promises, not what a node gives."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from arc_toolkit.errors import ArcError
from arc_toolkit.kube.quantities import GI
from arc_toolkit.resources import data_file

FIELDS = ("size", "vcpus", "vcpus_available", "memory_gib", "gpus", "gpu_vendor", "architecture")
_GPU_RESOURCES = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu"}


@dataclass(frozen=True, slots=True)
class VmSize:
    """One row. `vcpus` counts before constraining: E64-16s_v3 has 64, of which 16 are available."""

    name: str
    vcpus: int
    vcpus_available: int
    memory_gib: Fraction
    gpus: Fraction
    gpu_vendor: str
    architecture: str

    @property
    def memory(self) -> int:
        """Nominal bytes."""
        return int(self.memory_gib * GI)

    @property
    def node_gpus(self) -> int:
        """What the node shows: a share of a card (1/6) is one device."""
        return -(-self.gpus.numerator // self.gpus.denominator)

    @property
    def gpu_resource(self) -> str | None:
        return _GPU_RESOURCES.get(self.gpu_vendor.lower()) if self.gpus else None

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a reader of this size's numbers should know."""
        notes = []
        if self.vcpus_available != self.vcpus:
            notes.append(
                f"{self.name} is a constrained size: "
                f"{self.vcpus_available} of {self.vcpus} vCPUs are available"
            )
        if self.gpus.denominator != 1:
            notes.append(
                f"{self.name} has {self.gpus} of a GPU card, which the node shows as one GPU"
            )
        if self.gpus and self.gpu_resource is None:
            notes.append(
                f"{self.name} has {self.gpu_vendor} accelerators, "
                "for which no device plugin name is known"
            )
        if self.architecture != "amd64":
            notes.append(f"{self.name} is {self.architecture}: its capacity bound is unproven")
        return tuple(notes)


def read_table(lines: Iterable[str]) -> dict[str, VmSize]:
    """The rows of the CSV by lower-case name; lines that begin with # tell date and source."""
    rows = csv.reader(line for line in lines if not line.startswith("#"))
    if tuple(next(rows)) != FIELDS:
        raise ValueError(f"the VM size table must have the columns {', '.join(FIELDS)}")
    return {
        row[0].lower(): VmSize(
            row[0], int(row[1]), int(row[2]), Fraction(row[3]), Fraction(row[4]), row[5], row[6]
        )
        for row in rows
    }


@cache
def table() -> dict[str, VmSize]:
    """The shipped table, by lower-case name."""
    with open(data_file("vm_sizes.csv"), encoding="utf-8", newline="") as stream:
        return read_table(stream)


@cache
def table_date() -> str:
    """`2026-08`, from the first line of the table."""
    with open(data_file("vm_sizes.csv"), encoding="utf-8") as stream:
        return stream.readline().removeprefix("# Azure VM sizes, ").partition(".")[0]


def find(name: str) -> VmSize | None:
    """A size without regard to case; `D64s_v5` finds `Standard_D64s_v5`."""
    key = name.strip().lower()
    return table().get(key) or table().get("standard_" + key)


def lookup(name: str) -> VmSize:
    """As `find`, but an unknown size is an error that names the nearest ones."""
    size = find(name)
    if size is None:
        import difflib

        key = name.strip().lower()
        key = key if key.startswith(("standard_", "basic_")) else "standard_" + key
        near = difflib.get_close_matches(key, table(), n=3, cutoff=0.6)
        names = ", ".join(table()[match].name for match in near)
        hint = f"did you mean {names}?" if names else "see `az vm list-skus`"
        raise ArcError(f"no VM size {name!r} in the shipped table: {hint}")
    return size
