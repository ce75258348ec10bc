"""Edits are applied whatever their order, and overlaps are refused."""

from __future__ import annotations

import pytest

from arc_toolkit.edit.files.edits import Edit, Refused, apply_edits


def test_edits_are_applied_whatever_their_order() -> None:
    edits = [Edit(6, 11, "there"), Edit(0, 5, "Hi"), Edit(11, 11, "!")]
    assert apply_edits("hello world", edits) == "Hi there!"


def test_insertions_at_one_place_keep_their_order() -> None:
    assert apply_edits("ac", [Edit(1, 1, "b"), Edit(1, 1, "B")]) == "abBc"


@pytest.mark.parametrize(
    "edits", [[Edit(0, 3, ""), Edit(2, 4, "")], [Edit(3, 9, "")], [Edit(-1, 1, "")]]
)
def test_overlaps_and_places_outside_are_refused(edits: list[Edit]) -> None:
    with pytest.raises(Refused):
        apply_edits("abcd", edits)
