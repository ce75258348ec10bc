"""Every change of `place` is proved, and planned once more: an editor or a plan that lies changes no file."""

from __future__ import annotations

from typing import Any

import pytest

from arc_toolkit.edit.code.editor import Changes
from arc_toolkit.edit.files.edits import Edit
from arc_toolkit.edit.yaml.editor import YamlEditor
from arc_toolkit.findings import FileResult
from arc_toolkit.placement.code.code_editor import CodeEditor
from arc_toolkit.placement.code.code_plan import make_code_plan
from arc_toolkit.placement.decisions import place_objects
from arc_toolkit.placement.place_files import ManifestPlan, PlaceFiles
from arc_toolkit.placement.place_plan import PlaceSettings
from arc_toolkit.placement.spot import SpotPolicy
from tests.placement.support import place, pod


def test_a_lying_editor(monkeypatch: pytest.MonkeyPatch) -> None:
    true = YamlEditor.edits
    at = pod().index("busybox")
    monkeypatch.setattr(
        YamlEditor, "edits", lambda editor: [*true(editor), Edit(at, at + 7, "other")]
    )
    result = place(pod())
    assert result.after is None
    assert "not asked for" in str(result.refused)


def test_a_plan_that_would_change_its_result_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def lying(plan: ManifestPlan, *, check_keys: bool) -> None:
        place_objects(plan, check_keys=check_keys)
        if "tolerations" in plan.source.text:
            plan.editor.set((0, "metadata", "name"), "again")

    monkeypatch.setattr("arc_toolkit.placement.place_files.place_objects", lying)
    result = place(pod())
    assert result.after is None
    assert result.refused == "not stable: a second run would change the file again"


CODE = """\
from kubernetes import client

other = 1
pod = client.V1Pod(
    api_version="v1",
    kind="Pod",
    metadata=client.V1ObjectMeta(name="p"),
    spec=client.V1PodSpec(containers=[client.V1Container(name="c", image="busybox")]),
)
"""


def place_code() -> FileResult:
    settings = PlaceSettings(spot=SpotPolicy.REQUIRE)
    return PlaceFiles(settings).process("x.py", CODE.encode(), in_folder=False)


def test_code_is_changed_without_a_lie() -> None:
    result = place_code()
    assert result.refused is None
    assert result.changed


@pytest.mark.parametrize(("old", "new"), [("other = 1", "other = 2"), ('name="p"', 'name="q"')])
def test_a_lying_editor_of_code(old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    true, at = Changes.edits, CODE.index(old)

    def lie(changes: Changes) -> Any:
        return {
            key: (source, [*edits, Edit(at, at + len(old), new)])
            for key, (source, edits) in true(changes).items()
        }

    monkeypatch.setattr(Changes, "edits", lie)
    result = place_code()
    assert result.after is None
    assert result.refused is not None


def test_a_plan_of_code_that_asks_for_more_than_it_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CodeEditor, "expected", lambda editor: [])
    result = place_code()
    assert result.after is None
    assert "not asked for" in str(result.refused)


def test_a_plan_of_code_that_would_change_its_result_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def plan(path: str, code: Any, settings: Any) -> Any:
        made = make_code_plan(path, code, settings)
        if "V1Toleration" in code.sources[0].text:
            made.editor.set((0, "metadata", "name"), "again")
        return made

    monkeypatch.setattr("arc_toolkit.placement.code.code_plan.make_code_plan", plan)
    result = place_code()
    assert result.after is None
    assert result.refused == "not stable: a second run would change the file again"


def test_an_edit_that_cannot_be_proved_does_not_take_the_other_workloads_with_it() -> None:
    shared = "x-shared: &mine\n  - {key: a, operator: Exists}\n" + pod("  tolerations: *mine\n")
    result = place(f"{shared}---\n{pod()}")
    assert result.refused is None
    assert result.after is not None
    first, second = result.after.decode().split("---\n")
    assert first == shared
    assert "tolerations" in second
    assert "not asked for" in result.findings[0].reason
    assert place(shared).after is None
    assert "not asked for" in str(place(shared).refused)
