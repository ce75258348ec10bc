"""A file that is named has to be readable, whatever it is about; one below a folder may be anything."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import Result

COMMANDS = {
    "patch": ["patch", "--instance-type", "gpu"],
    "check": ["check"],
    "validate": ["validate"],
    "place": ["place", "--spot", "require"],
}
BROKEN = {
    "no word that any command looks for": "a: [1\nb: }\n",
    "in its second document": "a: 1\n---\nb: {\n",
    "a word that only manifests have, inside": "x: {apiVersion: v1, kind: Pod\n",
    "a template": "{{- if .Values.on }}\na: 1\n{{ end }}\n",
}
JOB = "command: python t.py\nenvironment: e\ncompute: azureml:aks\nresources: {instance_type: gpu, instance_count: 1}\n"
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i}]}\n"


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_a_broken_file_that_is_named_is_exit_2(
    arc: Callable[..., Result], tmp_path: Path, command: str, text: str
) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(text)
    result = arc(*COMMANDS[command], str(path))
    assert result.code == 2
    assert str(path) in result.err
    assert "broken YAML" in result.err or "template" in result.err
    assert path.read_text() == text


@pytest.mark.parametrize("command", ["patch", "check", "place"])
def test_a_broken_standard_input_is_exit_2(
    arc: Callable[..., Result], command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a: [1\nb: }\n")))
    result = arc(*COMMANDS[command], "-")
    assert result.code == 2
    assert "broken YAML" in result.err


@pytest.mark.parametrize("command", ["patch", "check", "place"])
@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_the_same_file_below_a_folder_is_skipped(
    arc: Callable[..., Result], tmp_path: Path, command: str, text: str
) -> None:
    (tmp_path / "file.yaml").write_text(text)
    (tmp_path / "good.yaml").write_text(POD if command == "place" else JOB)
    result = arc(*COMMANDS[command], str(tmp_path))
    assert result.code in (0, 1)
    assert "1 skipped" in result.err


@pytest.mark.parametrize("command", ["patch", "check", "place"])
@pytest.mark.parametrize(
    ("name", "text"),
    [("valid.yaml", "a: 1\n"), ("empty.yaml", ""), ("code.py", "print({'a': 1})\n")],
)
def test_a_readable_file_that_is_about_something_else_is_fine(
    arc: Callable[..., Result], tmp_path: Path, command: str, name: str, text: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert arc(*COMMANDS[command], str(path)).code == 0
