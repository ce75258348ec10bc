"""Findings as annotations of GitHub Actions (workflow commands).

https://docs.github.com/actions/reference/workflow-commands-for-github-actions
"""

from __future__ import annotations

from collections.abc import Iterable

from arc_toolkit.patching.model import Finding

_LEVELS = {"error": "error", "warning": "warning", "note": "notice"}


def workflow_commands(findings: Iterable[Finding]) -> str:
    """One line per finding, for the runner to read."""
    return "\n".join(map(_line, findings))


def _line(finding: Finding) -> str:
    fields = [("file", finding.path), ("line", finding.line), ("col", finding.column), ("title", finding.rule)]
    given = ",".join(f"{name}={_property(str(value))}" for name, value in fields if value)
    text = f"{finding.message} ({finding.reason})" if finding.reason else finding.message
    return f"::{_LEVELS[finding.severity]} {given}::{_data(text)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
