"""scripts/corpora over ../shared/corpus: nothing that must hold is broken, and the output is the reviewed one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from scripts import corpora
from tests.support import needs_corpus


@pytest.mark.slow
@needs_corpus
def test_nothing_is_broken_and_the_output_is_the_reviewed_one() -> None:
    text, faults = corpora.corpora(corpora.own_corpus())
    assert faults == []
    # After a review: python -m scripts.corpora --update
    assert text == corpora.SNAPSHOT.read_text()


def ran(code: int = 0, **report: object) -> corpora.Ran:
    empty: dict[str, object] = {"files": [], "findings": [], "skipped": [], "problems": []}
    return corpora.Ran(code, json.dumps({**empty, **report}), "")


def test_a_crash_another_exit_code_and_a_second_change_are_faults(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text("a: 1\n")
    changed = ran(files=[{"path": "a.yml", "status": "changed", "diff": "x"}])
    assert corpora.faults_of("settings", [changed, ran()], tmp_path, tmp_path) == []
    assert corpora.faults_of("settings", [changed, changed], tmp_path, tmp_path) == [
        "a.yml is changed by a second run"
    ]
    assert corpora.faults_of("settings", [ran(), ran(2)], tmp_path, tmp_path) == ["exit 0, then 2"]
    [crash] = corpora.faults_of("check", [corpora.Ran(3, "", "Traceback")], tmp_path, tmp_path)
    assert crash == "crashed with 3: Traceback"


def test_a_file_that_a_parser_reads_is_not_unreadable(tmp_path: Path) -> None:
    (tmp_path / "good.yml").write_text("a: 1\n")
    (tmp_path / "bad.yml").write_text("a: 1\na: 2\n")
    (tmp_path / "template.yml").write_text("a: {{ name }}\n")
    names = ("good.yml", "bad.yml", "template.yml")
    skipped = [{"path": name, "cause": "unreadable", "reason": "r"} for name in names]
    assert corpora.faults_of("check", [ran(skipped=skipped)], tmp_path, tmp_path) == [
        "good.yml is called unreadable (r), and a parser reads it"
    ]


@pytest.mark.parametrize(
    ("after", "faults"),
    [
        ("type: command\nresources: {instance_type: t}\ntags: {a: 1}\n", []),
        ("type: command\ntags: {a: '1'}\n", ["tags.a differs"]),
        ("type: command\n", ["tags differs"]),
        ("type: [\n", ["cannot be read any more"]),
    ],
)
def test_only_what_was_asked_for_may_differ(tmp_path: Path, after: str, faults: list[str]) -> None:
    old, new = tmp_path / "old.yml", tmp_path / "new.yml"
    old.write_text("type: command\ntags: {a: 1}\n")
    new.write_text(after)
    assert corpora.changes_of("settings", old, new) == faults


def test_a_diff_that_does_not_apply_or_differs_from_what_is_written_is_a_fault(
    tmp_path: Path,
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder, text in ((first, "a: 1\n"), (second, "a: 2\n")):
        folder.mkdir()
        (folder / "x.yml").write_text(text)
    diff = "--- a/x.yml\n+++ b/x.yml\n@@ -1 +1 @@\n-a: {}\n+a: {}\n"
    [fault] = corpora.apply_diff(corpora.Ran(0, diff.format(7, 2), ""), first, second)
    assert fault.startswith("the printed diff does not apply")
    [fault] = corpora.apply_diff(corpora.Ran(0, diff.format(1, 3), ""), first, second)
    assert fault == "x.yml: --write gives another text than the diff"
    (first / "x.yml").write_text("a: 1\n")
    assert corpora.apply_diff(corpora.Ran(0, diff.format(1, 2), ""), first, second) == []


def test_lists_of_different_length_differ() -> None:
    one, other = (yaml.compose(text, yaml.CSafeLoader) for text in ("a: [1]", "a: [1, 2]"))
    assert list(corpora.differences(one, other)) == [("a",)]


def test_a_repository_at_another_commit_is_not_used(tmp_path: Path) -> None:
    repository = corpora.REPOSITORIES[0]
    assert "check out Azure/azureml-examples at 085cd6e" in str(
        corpora.checked_out(tmp_path, repository)
    )
    (tmp_path / repository.name).mkdir()
    assert "not 085cd6ea" in str(corpora.checked_out(tmp_path, repository))
