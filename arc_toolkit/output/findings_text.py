"""Findings as text with their source line, and as data; what a run did, in one line. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from arc_toolkit.edit.discover import Skipped
from arc_toolkit.findings import Finding
from arc_toolkit.output.safe import printable

Style = Callable[..., str]
_COLORS = {"error": "red", "warning": "yellow", "note": "blue"}


def finding_text(finding: Finding, source: bytes, style: Style, *, check: bool) -> str:
    """`path:line:column: severity: message [rule]`, the source line, and the reason."""
    place = f"{finding.path}:{finding.line}:{max(1, finding.column)}:" if finding.line else f"{finding.path}:"
    lines = [
        f"{place} {style(finding.severity, _COLORS[finding.severity])}: {printable(finding.message)} [{finding.rule}]"
    ]
    line = source_line(source, finding.line)
    if line is not None:
        number = str(finding.line)
        lines.append(f"  {style(number + ' |', 'dim')} {printable(line)}")
        lines.append(f"  {' ' * len(number)} {style('|', 'dim')} {' ' * (finding.column - 1)}{style('^', 'bold')}")
    if finding.reason:
        lines.append(f"    {printable(finding.reason)}")
    if finding.applied and check:
        lines.append("    `arc-toolkit patch --write` fixes it")
    elif finding.applied and finding.severity != "note":
        lines.append("    fixed")
    elif finding.fixable == "unsafe":
        lines.append("    `arc-toolkit patch --write --unsafe-fixes` fixes it")
    return "\n".join(lines)


def source_line(source: bytes, number: int) -> str | None:
    """One line of a file, shortened; None where there is none."""
    if number <= 0:
        return None
    lines = source.decode("utf-8-sig", errors="replace").split("\n", number)
    if number > len(lines):
        return None
    line = lines[number - 1].rstrip("\r").replace("\t", " ")
    return line if len(line) <= 160 else line[:157] + "..."


def finding_data(finding: Finding, *, written: bool) -> dict[str, Any]:
    """A finding in JSON. `fixable`: a fix exists; `fixed`: this run wrote it into the file."""
    return {
        "rule": finding.rule,
        "severity": finding.severity,
        "message": finding.message,
        "path": finding.path,
        "line": finding.line,
        "column": finding.column,
        "reason": finding.reason,
        "fixable": finding.fixable,
        "fixed": written and finding.applied and finding.fix is not None,
    }


def skipped_data(skipped: Skipped) -> dict[str, Any]:
    return {
        "path": skipped.path,
        "cause": skipped.cause.value,
        "reason": skipped.reason,
        "line": skipped.line,
        "column": skipped.column,
    }


def summary(counts: Counter[str], order: Sequence[str]) -> str:
    """`3 changed, 12 unchanged, 1 skipped`: what is zero is left out, but for the first."""
    parts = [f"{counts[name]} {name}" for index, name in enumerate(order) if counts[name] or index == 0]
    return ", ".join(parts)
