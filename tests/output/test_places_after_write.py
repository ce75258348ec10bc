"""Findings of a run that wrote a file are about the file as it is now."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import Result

JOB = """\
type: command
command: python train.py
environment: azureml:sklearn:1
compute: azureml:aks
environment_variables: {AMLARC_RESTEP: x}
description: a job
tags: {a: b}
display_name: job
instance_type: 8cpu32g
"""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "job.yml"
    path.write_text(JOB)
    return path


def test_the_new_line_is_quoted(arc: Callable[..., Result], job: Path) -> None:
    result = arc("patch", "job.yml", "--write", "--instance-count", "2")
    lines = job.read_text().splitlines()
    row = lines.index("environment_variables: {AMLARC_PRESTEP: x}") + 1
    assert row != 5
    assert f"job.yml:{row}:25: error: AMLARC_RESTEP" in result.err
    assert f"  {row} | environment_variables: {{AMLARC_PRESTEP: x}}\n" in result.err
    row = lines.index("instance_type: 8cpu32g") + 1
    assert f"  {row} | instance_type: 8cpu32g\n" in result.err


def test_a_diff_leaves_the_file_and_its_lines(arc: Callable[..., Result], job: Path) -> None:
    result = arc("patch", "job.yml", "--instance-count", "2")
    assert "  5 | environment_variables: {AMLARC_RESTEP: x}\n" in result.err
    assert "  9 | instance_type: 8cpu32g\n" in result.err


@pytest.mark.parametrize("form", ["json", "sarif", "github"])
def test_other_formats_name_the_new_line(arc: Callable[..., Result], job: Path, form: str) -> None:
    text = arc("patch", "job.yml", "--write", "--instance-count", "2", "--format", form).out
    row = job.read_text().splitlines().index("instance_type: 8cpu32g") + 1
    if form == "github":
        assert f"file=job.yml,line={row},col=1,title=misplaced-key" in text
    elif form == "json":
        [line] = [
            entry["line"]
            for entry in json.loads(text)["findings"]
            if entry["rule"] == "misplaced-key"
        ]
        assert line == row
    else:
        [place] = [
            entry["locations"][0]["physicalLocation"]["region"]["startLine"]
            for entry in json.loads(text)["runs"][0]["results"]
            if entry["ruleId"] == "misplaced-key"
        ]
        assert place == row


def test_edits_that_were_not_made_apply_to_the_new_text(
    arc: Callable[..., Result], job: Path
) -> None:
    job.write_text(
        JOB.replace("command: python", "\n\ncommand: python").replace(
            "AMLARC_RESTEP", "AMLARC_PRESTEP"
        )
    )
    document = json.loads(
        arc("patch", "job.yml", "--write", "--compute", "k8s", "--format", "json").out
    )
    [finding] = [entry for entry in document["findings"] if entry["rule"] == "misplaced-key"]
    text = job.read_text()
    assert "azureml:k8s" in text
    # The first edit is beside the line of `compute` that was written.
    assert finding["fix"]["edits"] == []
    assert not finding["fixed"]
    job.write_text(text)
    [fixed] = json.loads(
        arc("check", "job.yml", "--format", "json", "--only", "misplaced-key").out
    )["findings"]
    assert fixed["fix"]["edits"]
