"""docs/python.md shows what the command really does."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.azureml.python.support import COMPONENT
from tests.support import ROOT, Result

PAGE = (ROOT / "docs/python.md").read_text()


def block(after: str) -> str:
    """The code block that begins after these words."""
    found = re.search(re.escape(after) + r".*?```\w+[^\n]*\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1]


def test_the_example_is_what_is_written(
    tmp_path: Path, arc: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pipeline.py").write_text(block("## An example"))
    for name in ("prepare.yml", "train.yml"):
        (tmp_path / name).write_bytes(COMPONENT)
    command, _, diff = PAGE[PAGE.index("$ arc-toolkit") + 2 :].partition("\n")
    result = arc(*command.split()[1:])
    assert result.code == 2  # a step is not changed
    assert diff.startswith(result.out)
    assert result.err == block("In addition to the diff it prints:")


def test_bad_input_is_said_as_shown(
    tmp_path: Path, arc: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old.py").write_text("from azure.ai.ml import command\nprint 'x'\n")
    result = arc("patch", "--instance-type", "32cpu128g", "old.py")
    assert result.code == 2
    assert block("## What cannot be used").endswith(result.err)


def test_every_rule_for_python_is_on_the_page() -> None:
    from arc_toolkit.azureml.rules import all_rules

    for name, rule in all_rules().items():
        assert (f"| `{name}` |" in PAGE) == ("python" in rule.language), name
