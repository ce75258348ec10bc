"""SARIF 2.1.0, against its own schema."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from arc_toolkit.azureml.rules import all_rules
from arc_toolkit.findings import Finding
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
    validate(sarif([], []))


def test_findings_of_all_rules_and_settings_are_valid(arc: Callable[..., Result], tmp_path: Path) -> None:
    for name, (wrong, _, _) in CASES.items():
        (tmp_path / f"{name} ä.yml").write_text(wrong)
    for command in (("check",), ("patch", "--instance-type", "x", "--threads", "auto")):
        result = arc(command[0], tmp_path, *command[1:], "--format", "sarif")
        log = validate(result.out)
        assert len(log["runs"][0]["results"]) >= 10


def test_a_finding_points_to_its_line_and_rule() -> None:
    rules = list(all_rules().values())
    findings = [Finding("amlarc-restep", "error", "m", "a b.yml", 3, 5), Finding("threads", "note", "n", "c.yml")]
    log = json.loads(sarif(findings, rules))
    first, second = log["runs"][0]["results"]
    place = first["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "a%20b.yml"}, "region": {"startLine": 3, "startColumn": 5}}
    assert "region" not in second["locations"][0]["physicalLocation"]
    described = log["runs"][0]["tool"]["driver"]["rules"]
    assert [described[entry["ruleIndex"]]["id"] for entry in (first, second)] == ["amlarc-restep", "threads"]


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
