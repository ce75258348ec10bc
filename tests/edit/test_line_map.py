"""Places of a text in the one that replaced it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from arc_toolkit.edit.files.diff import LineMap, line_starts
from arc_toolkit.edit.files.edits import Edit, apply_edits

BEFORE = """\
type: command
variables: {OLD: x}
compute: a
gone: 1
last: 2
"""
AFTER = """\
type: command
resources:
  instance_count: 2
variables: {NEW: x}
compute: azureml:a
last: 2
"""


def test_lines_that_did_not_change_move() -> None:
    lines = LineMap(BEFORE, AFTER)
    assert lines.position(1, 7) == (1, 7)
    assert lines.position(5, 3) == (6, 3)


def test_a_changed_line_is_the_one_most_like_it() -> None:
    lines = LineMap(BEFORE, AFTER)
    assert lines.position(2, 1) == (4, 1)
    assert lines.position(2, 13) == (4, 13)  # OLD, which is NEW now
    assert lines.position(2, 18) == (4, 18)  # x
    assert lines.position(3, 10) == (5, 10)


def test_what_was_removed_is_where_it_was() -> None:
    assert LineMap("a\nb\nc\n", "a\nc\n").position(2, 1) == (2, 1)
    assert LineMap("a\nb\n", "a\n").position(2, 1) == (1, 1)


def test_an_edit_moves_if_its_surroundings_are_as_before() -> None:
    before, after = "a: 1\nb: 2\nc: 3\nd: 4\n", "new: 0\na: 1\nb: 2\nc: 3\nd: 4\n"
    moved = LineMap(before, after).edits([Edit(15, 19, "D: 4"), Edit(20, 20, "e: 5\n")])
    assert apply_edits(after, moved) == "new: 0\na: 1\nb: 2\nc: 3\nD: 4\ne: 5\n"


def test_an_edit_beside_a_change_is_not_known_any_more() -> None:
    lines = LineMap("a:\n  b: 2\nc: 3\n", "a:\n  b: 2\nx:\n  y: 1\nc: 3\n")
    assert lines.edits([Edit(10, 10, "  d: 4\n")]) == ()  # it would go into `x`
    assert lines.edits([Edit(0, 1, "A")]) != ()


TEXTS = st.lists(st.sampled_from(["a", "b", "c", "dd", ""]), max_size=12).map("\n".join)


@given(TEXTS, TEXTS, st.data())
def test_every_place_has_one_and_moved_edits_say_the_same(
    before: str, after: str, data: st.DataObject
) -> None:
    lines = LineMap(before, after)
    starts = line_starts(before)
    row = data.draw(st.integers(1, len(starts)))
    line, column = lines.position(row, 1)
    assert 1 <= line <= len(line_starts(after))
    assert column >= 1
    start = data.draw(st.integers(0, len(before)))
    edit = Edit(start, data.draw(st.integers(start, len(before))), "!")
    for moved in lines.edits([edit]):
        assert after[moved.start : moved.end] == before[edit.start : edit.end]
