"""Findings as annotations of GitHub Actions (workflow commands).

https://docs.github.com/actions/reference/workflow-commands-for-github-actions
"""

from __future__ import annotations

from collections.abc import Iterable

from arc_toolkit.edit.files.discover import Problem
from arc_toolkit.findings import Finding

_LEVELS = {"error": "error", "warning": "warning", "note": "notice"}


def workflow_commands(findings: Iterable[Finding], problems: Iterable[Problem] = ()) -> str:
    """One line per finding, and per file that could not be used, for the runner to read."""
    return "\n".join([*map(_line, findings), *map(_problem, problems)])


def _line(finding: Finding) -> str:
    column = max(1, finding.column) if finding.line else 0
    fields = _fields(file=finding.path, line=finding.line, col=column, title=finding.rule)
    text = f"{finding.message} ({finding.details})" if finding.details else finding.message
    return f"::{_LEVELS[finding.severity]} {fields}::{_data(text)}"


def _problem(problem: Problem) -> str:
    fields = _fields(file=problem.path, line=problem.line, title="cannot be used")
    return f"::error {fields}::{_data(problem.message)}"


def _fields(**fields: str | int) -> str:
    return ",".join(f"{name}={_property(str(value))}" for name, value in fields.items() if value)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
