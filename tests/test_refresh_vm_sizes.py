"""The refresh of the VM size table, on a small sample of what `az vm list-skus` prints."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from arc_toolkit.resources import data_file
from arc_toolkit.sizing.vm_sizes import VmSize, read_table, table
from scripts.refresh_vm_sizes import read_skus, write_csv


def sku(name: str, **facts: str) -> dict[str, Any]:
    return {
        "resourceType": "virtualMachines",
        "name": name,
        "family": "standardDSv5Family",
        "locations": ["westeurope"],
        "capabilities": [{"name": key, "value": value} for key, value in facts.items()],
    }


SAMPLE = [
    sku("Standard_D64s_v5", vCPUs="64", MemoryGB="256", CpuArchitectureType="x64"),
    sku(
        "Standard_D64s_v5", vCPUs="64", MemoryGB="256", CpuArchitectureType="x64"
    ),  # once for every region
    sku(
        "Standard_E64-16s_v3",
        vCPUs="64",
        vCPUsAvailable="16",
        MemoryGB="432",
        CpuArchitectureType="x64",
    ),
    sku("Standard_NV6ads_A10_v5", vCPUs="6", MemoryGB="55", GPUs="1", CpuArchitectureType="x64"),
    sku("Standard_DS1_v2", vCPUs="1", MemoryGB="3.5"),
    sku("Standard_D8ps_v6", vCPUs="8", MemoryGB="32", CpuArchitectureType="Arm64"),
    sku("Standard_NQ9_v9", vCPUs="8", MemoryGB="32", GPUs="2"),
    sku("Standard_Odd", MemoryGB="32"),
    {"resourceType": "disks", "name": "Premium_LRS"},
]


def test_sizes_are_read_once_each_with_constrained_cores_and_shares_of_a_card() -> None:
    sizes, remarks = read_skus(SAMPLE, table())
    by_name = {size.name: size for size in sizes}
    assert len(by_name) == 6
    assert by_name["Standard_E64-16s_v3"].vcpus_available == 16
    assert by_name["Standard_NV6ads_A10_v5"].gpus == Fraction(
        1, 6
    )  # the JSON says 1; the old table knows better
    assert by_name["Standard_DS1_v2"].memory_gib == Fraction(7, 2)
    assert by_name["Standard_D8ps_v6"].architecture == "arm64"
    assert any("Standard_NQ9_v9: new with 2 GPU" in remark for remark in remarks)
    assert any("Standard_Odd: no vCPUs" in remark for remark in remarks)
    assert any("no longer listed" in remark for remark in remarks)


def test_what_is_written_reads_back() -> None:
    sizes, _ = read_skus(SAMPLE, table())
    again = read_table(write_csv(sizes, "2026-11").splitlines())
    assert list(again.values()) == sizes


def test_the_shipped_table_survives_a_round_trip() -> None:
    text = data_file("vm_sizes.csv").read_text(encoding="utf-8")
    shipped: dict[str, VmSize] = read_table(text.splitlines())
    assert read_table(write_csv(shipped.values(), "2026-08").splitlines()) == shipped
