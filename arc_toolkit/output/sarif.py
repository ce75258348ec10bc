"""Findings as SARIF 2.1.0, for code scanning.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from arc_toolkit import __version__
from arc_toolkit.edit.files.diff import NEWLINES
from arc_toolkit.edit.files.discover import Problem
from arc_toolkit.findings import Fix, Rule
from arc_toolkit.output.rule_pages import read_page

if TYPE_CHECKING:
    from arc_toolkit.output.run_report import Replacement, ReportedFinding

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)


def sarif(
    results: Sequence[ReportedFinding],
    rules: Mapping[str, Rule],
    problems: Sequence[Problem] = (),
    *,
    command: str = "check",
    docs_url: str = "",
) -> str:
    """One run: the rules with findings, in their order, and the files that cannot be used.

    `docs_url` is the address of the published folder `docs`. Without it a rule has no `helpUri`;
    its page is the `help` in any case.
    """
    ids = list(dict.fromkeys(row.finding.rule for row in results))
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
                        "rules": [_rule(name, rules.get(name), command, docs_url) for name in ids],
                    }
                },
                "invocations": [
                    {
                        "executionSuccessful": not problems,
                        "toolExecutionNotifications": [
                            _notification(problem) for problem in problems
                        ],
                    }
                ],
                "columnKind": "unicodeCodePoints",
                "newlineSequences": list(NEWLINES),
                "results": [_result(row, index[row.finding.rule]) for row in results],
            }
        ],
    }
    return json.dumps(log, indent=2, ensure_ascii=False)


def _rule(name: str, rule: Rule | None, command: str, docs_url: str) -> dict[str, Any]:
    location = f"rules/{name}.md" if rule else f"{command}.md"
    uri = {"helpUri": f"{docs_url}/{location}"} if docs_url else {}
    if rule is None:  # a setting that was asked for, and could not be set
        return {"id": name, "shortDescription": {"text": f"the setting {name}"}, **uri}
    page = read_page(name)
    return {
        "id": name,
        "shortDescription": {"text": page.summary},
        "fullDescription": {"text": " ".join(page.why.split())},
        "help": {"text": page.why, "markdown": page.text},
        **uri,
        "defaultConfiguration": {"level": rule.severity},
        "properties": {"fix": rule.fix},
    }


def _result(row: ReportedFinding, index: int) -> dict[str, Any]:
    finding = row.finding
    text = f"{finding.message} ({finding.details})" if finding.details else finding.message
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": finding.severity,
        "message": {"text": text},
        "locations": [_location(finding.path, finding.line, finding.column)],
    }
    if finding.fix is not None and row.replacements:
        result["fixes"] = [_fix(finding.path, finding.fix, row.replacements)]
    return result


def _fix(path: str, fix: Fix, replacements: Sequence[Replacement]) -> dict[str, Any]:
    changes = [
        {
            "deletedRegion": {
                "startLine": entry.line,
                "startColumn": entry.column,
                "endLine": entry.end_line,
                "endColumn": entry.end_column,
            },
            "insertedContent": {"text": entry.text},
        }
        for entry in replacements
    ]
    return {
        "description": {"text": fix.title},
        "artifactChanges": [{"artifactLocation": _artifact(path), "replacements": changes}],
        "properties": {"safe": fix.safe},
    }


def _notification(problem: Problem) -> dict[str, Any]:
    notification: dict[str, Any] = {"level": "error", "message": {"text": problem.message}}
    if problem.path:
        notification["locations"] = [_location(problem.path, problem.line, 1)]
    return notification


def _location(path: str, line: int, column: int) -> dict[str, Any]:
    location: dict[str, Any] = {"artifactLocation": _artifact(path)}
    if line:
        location["region"] = {"startLine": line, "startColumn": max(1, column)}
    return {"physicalLocation": location}


def _artifact(path: str) -> dict[str, str]:
    return {"uri": quote(PurePath(path).as_posix())}
