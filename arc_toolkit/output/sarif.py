"""Findings as SARIF 2.1.0, for code scanning.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from arc_toolkit import __version__
from arc_toolkit.edit.discover import Problem
from arc_toolkit.findings import Finding, Rule

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def sarif(findings: Iterable[Finding], rules: Sequence[Rule], problems: Sequence[Problem] = ()) -> str:
    """One run with all rules that spoke, in order of their first finding, and the files that could not be used."""
    results = list(findings)
    known = {rule.id: rule for rule in rules}
    ids = list(dict.fromkeys(finding.rule for finding in results))
    index = {name: position for position, name in enumerate(ids)}
    log = {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "arc-toolkit",
                        "version": __version__,
                        "rules": [_rule(name, known.get(name)) for name in ids],
                    }
                },
                "invocations": [
                    {
                        "executionSuccessful": not problems,
                        "toolExecutionNotifications": [_notification(problem) for problem in problems],
                    }
                ],
                "columnKind": "unicodeCodePoints",
                "results": [_result(finding, index[finding.rule]) for finding in results],
            }
        ],
    }
    return json.dumps(log, indent=2, ensure_ascii=False)


def _rule(name: str, rule: Rule | None) -> dict[str, Any]:
    if rule is None:  # a setting that was asked for, and could not be placed
        return {"id": name, "shortDescription": {"text": f"the setting {name}"}}
    return {
        "id": name,
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.why.replace("\n", " ")},
        "help": {"text": rule.why, "markdown": f"{rule.why}\n\n```\n{rule.before}```\n\n```\n{rule.after}```\n"},
        "defaultConfiguration": {"level": rule.severity},
        "properties": {"fix": rule.fix},
    }


def _result(finding: Finding, index: int) -> dict[str, Any]:
    text = f"{finding.message} ({finding.reason})" if finding.reason else finding.message
    return {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": finding.severity,
        "message": {"text": text},
        "locations": [_location(finding.path, finding.line, finding.column)],
    }


def _notification(problem: Problem) -> dict[str, Any]:
    found: dict[str, Any] = {"level": "error", "message": {"text": problem.message}}
    if problem.path:
        found["locations"] = [_location(problem.path, problem.line, 1)]
    return found


def _location(path: str, line: int, column: int) -> dict[str, Any]:
    location: dict[str, Any] = {"artifactLocation": {"uri": quote(PurePath(path).as_posix())}}
    if line:
        location["region"] = {"startLine": line, "startColumn": max(1, column)}
    return {"physicalLocation": location}
