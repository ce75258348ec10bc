"""The shipped table of sizes and how it is looked up."""

from __future__ import annotations

from fractions import Fraction

import pytest

from arc_toolkit.errors import ArcError
from arc_toolkit.sizing import vm_sizes


def test_lookup_ignores_case_and_a_missing_prefix() -> None:
    assert vm_sizes.lookup("standard_d64S_V5") is vm_sizes.lookup("D64s_v5")
    assert vm_sizes.lookup("D64s_v5").vcpus_available == 64


def test_a_wrong_name_gives_the_nearest_ones() -> None:
    with pytest.raises(ArcError, match=r"did you mean .*Standard_D64s_v5"):
        vm_sizes.lookup("Standard_D64s_v55")


def test_a_share_of_a_card_is_one_device_and_said_so() -> None:
    size = next(size for size in vm_sizes.table().values() if size.gpus == Fraction(1, 6))
    assert size.node_gpus == 1
    assert any("1/6 of a GPU" in remark for remark in size.remarks)


def test_constrained_cores_count_as_available_and_are_explained() -> None:
    size = vm_sizes.lookup("Standard_E64-16s_v3")
    assert (size.vcpus, size.vcpus_available) == (64, 16)
    assert any("16 of 64" in remark for remark in size.remarks)


def test_fractions_of_a_gib_are_kept() -> None:
    assert vm_sizes.lookup("Standard_DS1_v2").memory == Fraction("3.5") * 2**30


def test_every_row_makes_sense() -> None:
    for size in vm_sizes.table().values():
        assert 0 < size.vcpus_available <= size.vcpus
        assert size.memory_gib > 0
        assert bool(size.gpus) == bool(size.gpu_vendor)
