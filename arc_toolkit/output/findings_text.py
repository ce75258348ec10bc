"""Findings as text with their source line, and as data; what a run did, in one line. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from arc_toolkit.azureml.settings import Finding
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
    if finding.fixed and check:
        lines.append("    `arc-toolkit patch --write` mends it")
    elif finding.fixed and finding.severity != "note":
        lines.append("    mended")
    elif finding.unsafe_fix:
        lines.append("    `arc-toolkit patch --write --unsafe-fixes` mends it")
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


def finding_data(finding: Finding) -> dict[str, Any]:
    """A finding in JSON."""
    return asdict(finding)


def summary(counts: Counter[str], order: Sequence[str]) -> str:
    """`3 changed, 12 unchanged, 1 skipped`: what is zero is left out, but for the first."""
    parts = [f"{counts[name]} {name}" for index, name in enumerate(order) if counts[name] or index == 0]
    return ", ".join(parts)
