"""Options of `place` that contradict each other are one sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import Result


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--spot", "avoid", "--retries", "3"], "--retries is for workloads on spot nodes"),
        (["--spot", "require", "--retries", "-1"], "--retries: must be at least 0"),
        (["--spot", "require", "--grace", "soon"], "--grace"),
        (["--spot", "require", "--label", "a"], "--label a: write KEY=VALUE"),
        ([], "say what to set"),
    ],
)
def test_options_that_make_no_sense(
    arc: Callable[..., Result], tmp_path: Path, options: list[str], sentence: str
) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i}]}\n"
    )
    result = arc("place", str(path), *options)
    assert result.code == 2
    assert sentence in result.err
