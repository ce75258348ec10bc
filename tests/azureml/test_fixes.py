"""A fix is data: its edits alone, applied to the file's text, fix the finding."""

from __future__ import annotations

import json

import pytest

from arc_toolkit.azureml.python.python_plan import patch_notebook, patch_source
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.edit.files.edits import apply_edits
from arc_toolkit.findings import FileResult, Finding
from tests.azureml.support import COMMAND_JOB, COMPONENT, patch

JOB = "command: x\nenvironment: e\ncompute: azureml:c\n"
TWO_NODES = """\
from azure.ai.ml import dsl, load_component
train = load_component("train.yml")

@dsl.pipeline
def pipeline():
    first = train()
    first.set_resources(instance_type="a")
    second = train()
    second.set_resources(instance_type="b")
"""
SWEEP = """\
from azure.ai.ml import command
job = command(command="x", environment="e", compute="aks")
sweep = job.sweep(instance_type="a", primary_metric="m", goal="maximize")
"""


def applied(result: FileResult, finding: Finding) -> str:
    assert finding.fix is not None
    return apply_edits(result.text, finding.fix.edits)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            JOB + "environment_variables: {AMLARC_RESTEP: x}\n",
            JOB + "environment_variables: {AMLARC_PRESTEP: x}\n",
        ),
        (
            COMPONENT + "resorces: {instance_type: x}\n",
            COMPONENT + "resources: {instance_type: x}\n",
        ),
        (JOB + "instance_type: x\n", JOB + "resources:\n  instance_type: x\n"),
        (JOB + "instance_type: x", JOB + "resources:\n  instance_type: x"),
        ("# é\n" + JOB + "instance_type: x", "# é\n" + JOB + "resources:\n  instance_type: x"),
    ],
)
@pytest.mark.parametrize("unsafe", [False, True])
def test_the_edits_of_a_yaml_fix_are_the_fix(before: str, after: str, unsafe: bool) -> None:
    for text, fixed in (
        (before, after),
        (before.replace("\n", "\r\n"), after.replace("\n", "\r\n")),
    ):
        for mark in ("", "\ufeff"):
            result = patch(mark + text, unsafe_fixes=unsafe)
            [finding] = [finding for finding in result.findings if finding.fix is not None]
            assert applied(result, finding) == fixed
            assert finding.applied == (unsafe or finding.fixable == "safe")


def test_every_fix_of_a_file_is_complete_alone() -> None:
    text = JOB + "environment_variables:\n  A: AMLARC_RESTEP\n  B: AMLARC_RESTEP\n"
    result = patch(text)
    assert [applied(result, finding) for finding in result.findings] == [
        text.replace("A: AMLARC_RESTEP", "A: AMLARC_PRESTEP"),
        text.replace("B: AMLARC_RESTEP", "B: AMLARC_PRESTEP"),
    ]


def test_a_fix_that_cannot_be_proved_is_left_out() -> None:
    shared = "type: pipeline\njobs:\n  a: &a\n    type: command\n    command: x\n    instance_type: y\n  b: *a\n"
    findings = [finding for finding in patch(shared).findings if finding.rule == "misplaced-key"]
    assert findings
    for finding in findings:
        assert finding.fix is None
        assert "would change something that was not asked for" in finding.reason


def test_python_fixes_bring_their_import() -> None:
    result = patch_source("p.py", TWO_NODES.encode(), Settings())
    assert [finding.column for finding in result.findings] == [5, 5]
    fixed = [applied(result, finding) for finding in result.findings]
    for text, other in zip(fixed, ("second", "first"), strict=True):
        assert "import JobResourceConfiguration\n" in text
        assert text.count("JobResourceConfiguration(") == 1
        assert f"{other}.set_resources(" in text


def test_the_argument_of_a_sweep_moves_with_its_fix() -> None:
    result = patch_source("p.py", SWEEP.encode(), Settings())
    [finding] = result.findings
    assert result.after is not None
    assert applied(result, finding) == result.after.decode()


def test_a_finding_counts_characters() -> None:
    code = 'import azure.ai.ml\nx = {"é": 1, "AMLARC_RESTEP": 2}\n'
    [finding] = patch_source("p.py", code.encode(), Settings()).findings
    assert (finding.line, finding.column) == (2, 14)


def test_fixes_in_other_encodings() -> None:
    code = '# coding: latin-1\nimport azure.ai.ml\nx = {"é": 1, "AMLARC_RESTEP": 2}\n'
    result = patch_source("p.py", code.encode("latin-1"), Settings())
    assert applied(result, result.findings[0]) == code.replace("RESTEP", "PRESTEP")


def test_fixes_in_notebooks_are_edits_of_the_notebook() -> None:
    source = ["import azure.ai.ml\n", 'x = {"é\\"": 1, "AMLARC_RESTEP": 2}\n', "y = 1"]
    notebook = {"cells": [{"cell_type": "code", "source": source, "outputs": []}], "nbformat": 4}
    result = patch_notebook("n.ipynb", json.dumps(notebook).encode(), Settings())
    [finding] = result.findings
    assert result.after is not None
    assert applied(result, finding) == result.after.decode()
    assert "AMLARC_PRESTEP" in applied(result, finding)


def test_a_refused_file_offers_no_fix() -> None:
    text = "type: pipeline\njobs:\n  a:\n    type: command\n    comput: azureml:x\n"
    result = patch(text, compute="b", unsafe_fixes=True)
    assert result.refused is not None
    assert [finding.fix for finding in result.findings if finding.rule == "misspelt-key"] == [None]


def test_a_setting_may_fix_a_finding_too() -> None:
    text = COMMAND_JOB + "environment_variables: {OMP_NUM_THREADS: AMLARC_RESTEP}\n"
    result = patch(text, threads="lightgbm", manual=True, cores=8)
    [finding] = [finding for finding in result.findings if finding.rule == "amlarc-restep"]
    assert (finding.applied, finding.fixable, finding.reason) == (True, "safe", "")
    assert applied(result, finding) == text.replace("RESTEP", "PRESTEP")


def test_a_note_about_a_setting_is_not_a_fix() -> None:
    [note] = [
        finding
        for finding in patch(COMMAND_JOB, threads="auto").findings
        if finding.rule == "threads"
    ]
    assert (note.applied, note.fixable) == (True, False)
