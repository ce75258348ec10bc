"""Edits as lines and columns say the same as edits in characters."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from arc_toolkit.edit.files.edits import Edit, apply_edits
from arc_toolkit.output.run_report import replacements


@given(st.text("aé\U0001f600\r\n "), st.data())
def test_replacements_are_the_edits(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    edit = Edit(start, data.draw(st.integers(start, len(text))), "x\ny")
    [found] = replacements(text, [edit])
    lines = re.split(r"(?<=\n)|(?<=\r)(?!\n)", text)
    before = "".join(lines[: found.line - 1]) + lines[found.line - 1][: found.column - 1]
    after = lines[found.end_line - 1][found.end_column - 1 :] + "".join(lines[found.end_line :])
    assert before + found.text + after == apply_edits(text, [edit])


def test_they_come_in_the_order_of_the_text() -> None:
    found = replacements("a\nb\n", [Edit(2, 3, "2"), Edit(0, 0, "1")])
    assert [(entry.line, entry.column, entry.text) for entry in found] == [(1, 1, "1"), (2, 1, "2")]
