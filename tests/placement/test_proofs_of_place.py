"""Every change of `place` is proved, and planned once more: an editor or a plan that lies changes no file."""

from __future__ import annotations

from typing import Any

import pytest

from arc_toolkit.edit.edits import Edit
from arc_toolkit.edit.yaml_editor import Editor
from arc_toolkit.placement.place_plan import PlacePlan, make_place_plan
from tests.placement.support import place, pod


def test_a_lying_editor(monkeypatch: pytest.MonkeyPatch) -> None:
    true = Editor.edits
    at = pod().index("busybox")
    monkeypatch.setattr(Editor, "edits", lambda editor: [*true(editor), Edit(at, at + 7, "other")])
    result = place(pod())
    assert result.after is None
    assert "not asked for" in str(result.refused)


def test_a_plan_that_would_change_its_result_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def plan(path: str, source: Any, settings: Any) -> PlacePlan:
        made = make_place_plan(path, source, settings)
        if "tolerations" in source.text:
            made.editor.set((0, "metadata", "name"), "again")
        return made

    monkeypatch.setattr("arc_toolkit.placement.place_files.make_place_plan", plan)
    result = place(pod())
    assert result.after is None
    assert result.refused == "a second run would change it again"
