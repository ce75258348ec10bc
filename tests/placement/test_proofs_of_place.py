"""Every change of `place` is proved, and planned once more: an editor or a plan that lies changes no file."""

from __future__ import annotations

import pytest

from arc_toolkit.edit.edits import Edit
from arc_toolkit.edit.yaml_editor import Editor
from arc_toolkit.placement.place_plan import ManifestPlan, place_objects
from tests.placement.support import place, pod


def test_a_lying_editor(monkeypatch: pytest.MonkeyPatch) -> None:
    true = Editor.edits
    at = pod().index("busybox")
    monkeypatch.setattr(Editor, "edits", lambda editor: [*true(editor), Edit(at, at + 7, "other")])
    result = place(pod())
    assert result.after is None
    assert "not asked for" in str(result.refused)


def test_a_plan_that_would_change_its_result_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def lying(plan: ManifestPlan) -> None:
        place_objects(plan)
        if "tolerations" in plan.source.text:
            plan.editor.set((0, "metadata", "name"), "again")

    monkeypatch.setattr("arc_toolkit.placement.place_files.place_objects", lying)
    result = place(pod())
    assert result.after is None
    assert result.refused == "a second run would change it again"
