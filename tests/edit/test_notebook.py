"""Cells of notebooks: masked lines keep their positions, and edits of a cell are edits of its JSON strings."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_toolkit.edit.code.notebook import mask, read_cells, splice
from arc_toolkit.edit.files.edits import Edit, apply_edits


@given(st.text(alphabet="ab%!?= \\#()\n\r\t'\"é", max_size=60))
def test_masking_keeps_every_position(text: str) -> None:
    masked = mask(text)
    assert len(masked) == len(text)
    assert [i for i, char in enumerate(text) if char in "\r\n"] == [
        i for i, char in enumerate(masked) if char in "\r\n"
    ]


lines = st.lists(
    st.text(alphabet='ab"\\\té日🎉\u2028\x7f', max_size=6).map(lambda text: text + "\n"), max_size=5
)


@given(lines, st.data(), st.booleans(), st.booleans())
def test_splicing_says_what_the_edits_say_and_touches_nothing_else(
    content: list[str], data: st.DataObject, as_list: bool, ascii_only: bool
) -> None:
    document = {
        "a": ["x", "é"],
        "cells": [{"cell_type": "code", "source": content if as_list else "".join(content)}],
    }
    if as_list and not content:
        return
    text = json.dumps(
        document, indent=data.draw(st.sampled_from([None, 1, 2])), ensure_ascii=ascii_only
    )
    [cell] = read_cells(text)
    size = len(cell.text)
    points = sorted(data.draw(st.lists(st.integers(0, size), max_size=4, unique=True)))
    new = data.draw(st.lists(st.text(alphabet='z"\\é\n', max_size=4), min_size=4, max_size=4))
    edits = [
        Edit(first, last, fresh)
        for first, last, fresh in zip(points[::2], points[1::2], new, strict=False)
    ]
    after = apply_edits(text, splice(text, cell, apply_edits(cell.text, edits)))
    source = json.loads(after)["cells"][0]["source"]
    assert "".join(source) == apply_edits(cell.text, edits)
    assert isinstance(source, list) == as_list
    head = text[: cell.lines[0].start] if cell.lines else ""
    assert after.startswith(head)
    assert json.loads(after)["a"] == document["a"]


@pytest.mark.parametrize("as_list", [True, False])
def test_lines_that_stay_keep_the_way_they_are_written(as_list: bool) -> None:
    written = ['a = \\"\\u00e9\\u003c\\"\\n', "b = 1\\n", 'c = \\"\\/\\\\n\\"']
    items = ",  ".join(f'"{line}"' for line in written)
    source = f"[{items}]" if as_list else f'"{"".join(written)}"'
    text = f'{{"cells": [{{"source": {source}, "cell_type": "code"}}]}}'
    [cell] = read_cells(text)
    new = cell.text.replace("b = 1\n", "b = 2\nd = 3\n")
    after = apply_edits(text, splice(text, cell, new))
    between = '",  "' if as_list else ""
    assert after == text.replace("b = 1\\n", f"b = 2\\n{between}d = 3\\n")
    assert apply_edits(text, splice(text, cell, cell.text)) == text
