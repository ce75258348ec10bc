"""The engine and the base of plans, with a small language: `key` of every document of a YAML file becomes a value."""

from __future__ import annotations

from functools import partial

import pytest

from arc_toolkit.edit.files.edits import SkipCause, Unreadable
from arc_toolkit.edit.files.engine import FileTask, process_file
from arc_toolkit.edit.files.plan import FailedGroups, FilePlan, find_ignores
from arc_toolkit.edit.yaml.editor import YamlEditor
from arc_toolkit.edit.yaml.nodes import YamlText, read
from arc_toolkit.findings import FileResult


class KeyPlan(FilePlan[YamlEditor]):
    proves_groups = True

    def __init__(self, path: str, text: YamlText, failed_groups: FailedGroups) -> None:
        super().__init__(path, find_ignores(text.text), failed_groups)
        self.text = text
        self.is_closed = False

    def new_editor(self) -> YamlEditor:
        return YamlEditor(self.text)

    @property
    def is_empty(self) -> bool:
        return self.editor.empty

    def prove(self, text: YamlText) -> YamlText:
        after, documents = self.editor.finish()
        return YamlText(after, text.bom, documents)

    def close(self) -> None:
        self.is_closed = True


class KeyTask(FileTask[YamlText, KeyPlan]):
    def __init__(self, *paths: tuple[str, ...], value: str = "new") -> None:
        self.paths = paths
        self.value = value
        self.plans: list[KeyPlan] = []

    def read(self, path: str, data: bytes) -> YamlText:
        if b"foreign" in data:
            raise Unreadable("not mine", cause=SkipCause.FOREIGN)
        return read(data)

    def set(self, editor: YamlEditor, number: int) -> None:
        for path in self.paths:
            editor.set((number, *path), self.value)

    def plan(self, text: YamlText, before: KeyPlan | None, failed_groups: FailedGroups) -> KeyPlan:
        plan = KeyPlan("a.yml", text, failed_groups)
        self.plans.append(plan)
        for number, node in enumerate(text.documents):
            assert node is not None
            done = plan.attempt(
                "set", f"not set in {number}", node, partial(self.set, number=number)
            )
            if done:
                plan.add_finding("set", "note", f"set in {number}", node, applied=True)
        return plan

    def why_unchanged(self, plan: KeyPlan) -> str:
        return "already so"


def run(text: str, *tasks: KeyTask) -> FileResult:
    return process_file("a.yml", text.encode(), *tasks)


def messages(result: FileResult) -> list[str]:
    return [finding.message for finding in result.findings]


def test_a_file_is_changed_planned_again_and_every_plan_is_closed() -> None:
    task = KeyTask(("key",))
    result = run("key: old\n---\nother: 1\n", task)
    assert result.after == b"key: new\n---\nother: 1\nkey: new\n"
    assert messages(result) == ["set in 0", "set in 1"]
    assert [plan.is_closed for plan in task.plans] == [True, True]


def test_nothing_to_change() -> None:
    result = run("key: new\n", KeyTask(("key",)))
    assert result.after is None
    assert result.refused is None
    assert result.unchanged == "already so"


def test_a_foreign_and_a_broken_file_are_skipped() -> None:
    foreign, broken = run("foreign: 1\n", KeyTask()).skipped, run("a: [\n", KeyTask()).skipped
    assert foreign is not None
    assert foreign.cause is SkipCause.FOREIGN
    assert broken is not None
    assert broken.cause is SkipCause.BROKEN


def test_a_group_is_made_whole_or_not_at_all() -> None:
    result = run("key: old\nlist: []\n---\nkey: old\n---\nkey: old\n", KeyTask(("key",), ("list",)))
    assert (
        result.after == b"key: old\nlist: []\n---\nkey: new\nlist: new\n---\nkey: new\nlist: new\n"
    )
    assert messages(result) == ["not set in 0", "set in 1", "set in 2"]
    assert result.findings[0].reason == "`list` is not a single value"


def test_a_group_that_cannot_be_proved_does_not_take_the_others_with_it() -> None:
    shared = "key: &a old\nother: *a\n"
    result = run(f"{shared}---\nkey: old\n", KeyTask(("key",)))
    assert result.after == f"{shared}---\nkey: new\n".encode()
    assert messages(result) == ["not set in 0", "set in 1"]
    assert "not asked for" in result.findings[0].reason


def test_a_file_whose_only_group_cannot_be_proved_is_refused() -> None:
    result = run("key: &a old\nother: *a\n", KeyTask(("key",)))
    assert result.after is None
    assert "not asked for" in str(result.refused)
    assert messages(result) == ["not set in 0"]


def test_a_plan_that_never_ends_is_refused() -> None:
    class Restless(KeyTask):
        def set(self, editor: YamlEditor, number: int) -> None:
            editor.set((number, "key"), str(len(self.plans)))

    result = run("key: old\n", Restless())
    assert result.after is None
    assert result.refused == "not stable: a second run would change the file again"
    assert messages(result) == []


def test_an_ignored_group_is_neither_made_nor_reported() -> None:
    result = run("# arc-toolkit: ignore[set] it stays\nkey: old\n", KeyTask(("key",)))
    assert result.after is None
    assert result.refused is None
    assert result.findings == ()


@pytest.mark.parametrize("value", ["old", "older"])
def test_tasks_work_on_the_text_of_those_before_them(value: str) -> None:
    result = run("key: old\n", KeyTask(("key",), value=value), KeyTask(("next",)))
    assert result.after == f"key: {value}\nnext: new\n".encode()
    assert messages(result) == ["set in 0", "set in 0"]
