"""Make arc_toolkit/data/vm_sizes.csv anew from what `az vm list-skus` prints.

    az vm list-skus -r virtualMachines --all -o json > skus.json
    .venv/bin/python -m scripts.refresh_vm_sizes skus.json

The GPU vendor is not in that JSON, and a share of a card is listed as 1 GPU: both are kept from the old table, and
sizes that are new with a GPU are named on standard error for a person to look at.
"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterable, Mapping
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

from arc_toolkit.file_io import write_atomic
from arc_toolkit.inputs import load
from arc_toolkit.resources import data_file
from arc_toolkit.sizing.vm_sizes import FIELDS, VmSize, table

_ARCHITECTURES = {"x64": "amd64", "arm64": "arm64"}


def read_skus(
    skus: Iterable[Mapping[str, Any]], old: Mapping[str, VmSize]
) -> tuple[list[VmSize], list[str]]:
    """Sizes in the order of names, and what a person should look at."""
    sizes: dict[str, VmSize] = {}
    remarks: list[str] = []
    for sku in skus:
        if sku.get("resourceType") != "virtualMachines":
            continue
        name = str(sku["name"])
        facts = {row["name"]: row["value"] for row in sku.get("capabilities") or ()}
        if "vCPUs" not in facts or "MemoryGB" not in facts:
            remarks.append(f"{name}: no vCPUs or MemoryGB, left out")
            continue
        before = old.get(name.lower())
        gpus, vendor = Fraction(facts.get("GPUs", "0")), ""
        if gpus and before and before.gpus:
            gpus = before.gpus if before.gpus < 1 else gpus
            vendor = before.gpu_vendor
        elif gpus:
            vendor = "amd" if "MI300" in name or "V710" in name else "nvidia"
            remarks.append(
                f"{name}: new with {gpus} GPU, taken as {vendor}; is it a share of a card?"
            )
        sizes[name] = VmSize(
            name,
            int(facts["vCPUs"]),
            int(facts.get("vCPUsAvailable", facts["vCPUs"])),
            Fraction(facts["MemoryGB"]),
            gpus,
            vendor,
            _ARCHITECTURES.get(str(facts.get("CpuArchitectureType", "x64")).lower(), "amd64"),
        )
    gone = sorted(row.name for key, row in old.items() if row.name not in sizes)
    remarks += [f"{name}: no longer listed" for name in gone]
    return sorted(sizes.values(), key=lambda size: size.name), remarks


def write_csv(sizes: Iterable[VmSize], day: str) -> str:
    """The text of the table."""
    out = io.StringIO()
    out.write(
        f"# Azure VM sizes, {day}. Columns: vcpus_available differs from vcpus for constrained sizes; gpus may be a\n"
    )
    out.write("# share of one card (1/6). Refresh: see scripts/refresh_vm_sizes.py\n")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(FIELDS)
    for size in sizes:
        memory = f"{float(size.memory_gib):g}" if size.memory_gib < 10**5 else str(size.memory_gib)
        writer.writerow(
            [
                size.name,
                size.vcpus,
                size.vcpus_available,
                memory,
                size.gpus,
                size.gpu_vendor,
                size.architecture,
            ]
        )
    return out.getvalue()


def main(source: str, target: Path) -> None:
    sizes, remarks = read_skus(load(source), table())
    for remark in remarks:
        print(remark, file=sys.stderr)
    write_atomic(target, write_csv(sizes, date.today().strftime("%Y-%m")))
    print(f"wrote {len(sizes)} sizes to {target.name}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "-", data_file("vm_sizes.csv"))
