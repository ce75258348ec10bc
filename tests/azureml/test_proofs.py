"""Every change of `patch` is proved, and planned once more: an editor or a plan that lies changes no file."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from arc_toolkit.azureml import azureml_files
from arc_toolkit.azureml.python import python_plan
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.edit.code import notebook
from arc_toolkit.edit.code.editor import Changes
from arc_toolkit.edit.files.edits import Edit
from arc_toolkit.edit.yaml.editor import YamlEditor
from arc_toolkit.findings import FileResult
from tests.azureml.python import support as python
from tests.azureml.support import patch

YAML = "type: command\ncommand: x\ncompute: azureml:a\nresources:\n  instance_count: 1\n"
PYTHON = (
    python.V2 + "other = 1\n\n\n@dsl.pipeline()\ndef p(x):\n    node = train(x=x)\n    return {}\n"
)


def patch_yaml() -> FileResult:
    return patch(YAML, compute="b")


def patch_python() -> FileResult:
    return python.patch(PYTHON, python.TYPE)


def patch_cells() -> FileResult:
    return python.patch_cells(python.notebook(PYTHON), python.TYPE)


RUNS: list[Callable[[], FileResult]] = [patch_yaml, patch_python, patch_cells]


def refused(result: FileResult, reason: str) -> None:
    assert result.refused is not None
    assert reason in result.refused
    assert result.after is None
    assert result.new_files == ()


@pytest.mark.parametrize("run", RUNS)
def test_the_files_are_changed_without_a_lie(run: Callable[[], FileResult]) -> None:
    result = run()
    assert result.refused is None
    assert result.changed


def lie_about(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, change: Callable[[Any], Any]
) -> None:
    """What the function gives is changed by another one."""
    true = getattr(owner, name)
    monkeypatch.setattr(owner, name, lambda *args, **more: change(true(*args, **more)))


def test_a_lying_yaml_editor(monkeypatch: pytest.MonkeyPatch) -> None:
    start = YAML.index("command: x")
    lie_about(
        monkeypatch, YamlEditor, "edits", lambda edits: (*edits, Edit(start + 9, start + 10, "y"))
    )
    refused(patch_yaml(), "not asked for")


@pytest.mark.parametrize(
    ("old", "new"), [("other = 1", "other = 2"), ("other = 1\n", ""), ("x=x", "x=y")]
)
@pytest.mark.parametrize("run", [patch_python, patch_cells])
def test_a_lying_python_editor(
    run: Callable[[], FileResult], old: str, new: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = PYTHON.index(old)

    def lie(found: dict[int, Any]) -> dict[int, Any]:
        return {
            key: (source, [*edits, Edit(start, start + len(old), new)])
            for key, (source, edits) in found.items()
        }

    lie_about(monkeypatch, Changes, "edits", lie)
    result = run()
    assert result.refused is not None
    assert result.after is None


def test_a_lying_notebook_editor(monkeypatch: pytest.MonkeyPatch) -> None:
    text = python.notebook(PYTHON).decode()
    start = text.index('"nbformat": 4')
    assert json.loads(text)
    lie_about(
        monkeypatch, notebook, "splice", lambda edits: [*edits, Edit(start, start, '"extra": 1, ')]
    )
    refused(patch_cells(), "not asked for")


def test_a_yaml_plan_that_would_change_its_result_again(monkeypatch: pytest.MonkeyPatch) -> None:
    true = azureml_files.YamlTask.plan

    def plan(task: Any, text: Any, before: Any, failed_groups: Any) -> Any:
        work = true(task, text, before, failed_groups)
        if work.is_second:
            work.editor.set((0, "command"), "again")
        return work

    monkeypatch.setattr(azureml_files.YamlTask, "plan", plan)
    result = patch(YAML, compute="b", threads="lightgbm")
    refused(result, "not stable: a second run would change the file again")


@pytest.mark.parametrize("run", [patch_python, patch_cells])
def test_a_python_plan_that_would_change_its_result_again(
    run: Callable[[], FileResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    true = python_plan.make_plan

    def plan(*arguments: Any) -> Any:
        # The second plan is the first one again, with its changes.
        first = arguments[4]
        return true(*arguments) if first is None else first

    monkeypatch.setattr("arc_toolkit.azureml.python.python_plan.make_plan", plan)
    refused(run(), "not stable: a second run would change the file again")


def test_a_step_without_a_safe_place_does_not_keep_the_others_from_changing() -> None:
    text = """\
from azure.ai.ml import command

a = command(command="x", instance_type="s"); b = 1
c = command(command="y", environment_variables={"AMLARC_RESTEP": "z"})
a.resources.shm_size = "1g"; print(a)
"""
    after = text.replace('"}', '"}, instance_count=2').replace("RESTEP", "PRESTEP")
    result = python_plan.patch_source("p.py", text.encode(), Settings(instance_count=2))
    assert result.after == after.encode()
    assert [
        (item.line, item.reason) for item in result.findings if item.rule == "instance-count"
    ] == [(3, "it shares its line with another statement")]
