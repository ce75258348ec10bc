"""Edits are applied right to left, overlaps are refused; edits one after the other, and the offsets before them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_toolkit.edit.files.edits import Edit, Refused, apply_edits, compose_edits, old_offsets


@st.composite
def edits_of(draw: st.DrawFn, length: int) -> list[Edit]:
    """Edits of a text of this length that do not overlap."""
    ends = sorted(draw(st.lists(st.integers(0, length), max_size=6)))
    pairs = zip(ends[::2], ends[1::2], strict=False)
    return [Edit(start, end, draw(st.text("xyz\n", max_size=3))) for start, end in pairs]


@given(data=st.data(), text=st.text("ab\n", max_size=20))
def test_composed_edits_do_what_both_do(data: st.DataObject, text: str) -> None:
    first = data.draw(edits_of(len(text)))
    between = apply_edits(text, first)
    second = data.draw(edits_of(len(between)))
    assert apply_edits(text, compose_edits(text, first, second)) == apply_edits(between, second)


@given(data=st.data(), text=st.text("abc\n", max_size=20))
def test_every_character_that_stays_has_its_old_offset(data: st.DataObject, text: str) -> None:
    edits = data.draw(edits_of(len(text)))
    after = apply_edits(
        text.lower(), [Edit(edit.start, edit.end, edit.text.upper()) for edit in edits]
    )
    offsets = old_offsets(text, edits)
    assert len(offsets) == len(after) + 1
    assert offsets == sorted(offsets)
    assert all(
        text[offset] == new for offset, new in zip(offsets, after, strict=False) if new in "abc"
    )


def test_new_text_has_the_offset_of_what_it_replaces() -> None:
    assert old_offsets("abcdef", [Edit(1, 4, "XY"), Edit(6, 6, "Z")]) == [0, 1, 1, 4, 5, 6, 6]
    assert compose_edits("abcdef", [Edit(1, 4, "XY")], [Edit(2, 3, "")]) == [Edit(1, 4, "X")]


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
