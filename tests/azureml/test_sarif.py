"""SARIF 2.1.0, against its own schema."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arc_toolkit.azureml.rules import all_rules
from arc_toolkit.findings import Finding
from arc_toolkit.output.run_report import ReportedFinding
from arc_toolkit.output.sarif import sarif
from tests.azureml.test_rules import CASES
from tests.support import Result, real_module

SCHEMA = json.loads((Path(__file__).parent / "data" / "sarif-schema-2.1.0.json").read_text())


def validate(text: str) -> Any:
    jsonschema = real_module("jsonschema")
    log = json.loads(text)
    errors = list(jsonschema.Draft4Validator(SCHEMA).iter_errors(log))
    assert not errors, errors[:3]
    return log


def test_the_schema_can_say_no() -> None:
    jsonschema = real_module("jsonschema")
    assert list(jsonschema.Draft4Validator(SCHEMA).iter_errors({"version": "2.1.0", "runs": [{}]}))


def test_no_finding_is_a_valid_log() -> None:
    validate(sarif([], {}))


def test_findings_of_all_rules_and_settings_are_valid(
    arc: Callable[..., Result], tmp_path: Path
) -> None:
    for name, (wrong, _, _) in CASES.items():
        (tmp_path / f"{name} ä.yml").write_text(wrong)
    for command in (("check",), ("patch", "--instance-type", "x", "--threads", "auto")):
        result = arc(command[0], tmp_path, *command[1:], "--format", "sarif")
        log = validate(result.out)
        assert len(log["runs"][0]["results"]) >= 10


def test_a_finding_points_to_its_line_and_rule() -> None:
    findings = [
        Finding("amlarc-restep", "error", "m", "a b.yml", 3, 5),
        Finding("threads", "note", "n", "c.yml"),
    ]
    log = json.loads(
        sarif(
            [ReportedFinding(finding, False) for finding in findings],
            all_rules(),
            command="patch",
            docs_url="https://example.org/docs",
        )
    )
    first, second = log["runs"][0]["results"]
    place = first["locations"][0]["physicalLocation"]
    assert place == {
        "artifactLocation": {"uri": "a%20b.yml"},
        "region": {"startLine": 3, "startColumn": 5},
    }
    assert "region" not in second["locations"][0]["physicalLocation"]
    described = log["runs"][0]["tool"]["driver"]["rules"]
    assert [described[entry["ruleIndex"]]["id"] for entry in (first, second)] == [
        "amlarc-restep",
        "threads",
    ]
    assert [entry["helpUri"] for entry in described] == [
        "https://example.org/docs/rules/amlarc-restep.md",
        "https://example.org/docs/patch.md",
    ]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_fixes_in_the_log_fix_the_file(
    arc: Callable[..., Result], tmp_path: Path, newline: str, mark: str
) -> None:
    text = (
        "command: x\nenvironment: e\ncompute: c\ntags: {é: é, A: AMLARC_RESTEP}\ninstance_type: x1"
    )
    fixed = {
        "amlarc-restep": text.replace("RESTEP", "PRESTEP"),
        "misplaced-key": text.replace("\ninstance_type: x1", "").replace(
            "tags", "resources:\n  instance_type: x1\ntags"
        ),
    }
    path = tmp_path / "job.yml"
    path.write_bytes((mark + text.replace("\n", newline)).encode())
    log = validate(arc("check", path, "--format", "sarif").out)
    assert log["runs"][0]["newlineSequences"] == ["\r\n", "\n", "\r"]
    fixes = {
        result["ruleId"]: result["fixes"][0]
        for result in log["runs"][0]["results"]
        if "fixes" in result
    }
    assert {rule: fix["properties"]["safe"] for rule, fix in fixes.items()} == {
        "amlarc-restep": True,
        "misplaced-key": False,
    }
    for rule, fix in fixes.items():
        [change] = fix["artifactChanges"]
        assert change["artifactLocation"]["uri"] == str(path)
        assert replaced(text.replace("\n", newline), change["replacements"]) == fixed[rule].replace(
            "\n", newline
        )


def replaced(text: str, replacements: list[Any]) -> str:
    """As a reader of the log does it: by lines and columns, from the end; they come in the order of the text."""
    lines = text.splitlines(keepends=True)
    for entry in reversed(replacements):
        region = entry["deletedRegion"]
        first, last = region["startLine"] - 1, region["endLine"] - 1
        lines += [""] * (last + 1 - len(lines))
        head, tail = (
            lines[first][: region["startColumn"] - 1],
            lines[last][region["endColumn"] - 1 :],
        )
        lines[first : last + 1] = [head + entry["insertedContent"]["text"] + tail]
    return "".join(lines)


def test_a_fix_that_was_written_is_not_offered_again(
    arc: Callable[..., Result], tmp_path: Path
) -> None:
    path = tmp_path / "job.yml"
    path.write_text("command: x\nenvironment: e\ncompute: c\ntags: {A: AMLARC_RESTEP}\n")
    [result] = validate(arc("patch", path, "--format", "sarif").out)["runs"][0]["results"]
    assert "fixes" in result
    [result] = validate(arc("patch", path, "--write", "--format", "sarif").out)["runs"][0][
        "results"
    ]
    assert "fixes" not in result


def test_files_that_cannot_be_used_are_in_the_log_and_in_the_annotations(
    arc: Callable[..., Result], tmp_path: Path
) -> None:
    (tmp_path / "bytes.yml").write_bytes(b"type: command\ncommand: \xff\n")
    (tmp_path / "job.yml").write_text("command: x\nenvironment: e\ncompute: c\n")
    log = validate(arc("check", tmp_path, "--format", "sarif").out)
    [invocation] = log["runs"][0]["invocations"]
    assert not invocation["executionSuccessful"]
    [told] = invocation["toolExecutionNotifications"]
    assert told["locations"][0]["physicalLocation"]["region"] == {"startLine": 2, "startColumn": 1}
    named = arc("patch", tmp_path / "bytes.yml", "--format", "github")
    assert named.code == 2
    assert f"::error file={tmp_path}/bytes.yml,line=2,title=cannot be used::cannot use" in named.out
    assert "bytes.yml:2:1: not UTF-8" in named.err
