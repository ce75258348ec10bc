"""Counts, suggestions and names in messages."""

from __future__ import annotations

import pytest

from arc_toolkit.text import nearest, plural


@pytest.mark.parametrize(("count", "text"), [(0, "0 jobs"), (1, "1 job"), (2, "2 jobs")])
def test_only_one_is_singular(count: int, text: str) -> None:
    assert plural(count, "job") == text


def test_the_nearest_name_is_suggested_and_a_distant_one_is_not() -> None:
    names = ["resources", "compute"]
    assert nearest("resorces", names) == "resources"
    assert nearest("source", names, cutoff=0.85) == ""
    assert nearest("x", names) == nearest("x", []) == ""
