"""A finding as text, with its source line. Pure."""

from __future__ import annotations

from collections.abc import Callable

from arc_toolkit.output.run_report import ReportedFinding
from arc_toolkit.output.safe import printable

Style = Callable[..., str]
_COLORS = {"error": "red", "warning": "yellow", "note": "blue"}


def finding_text(row: ReportedFinding, source: str, style: Style) -> str:
    """`path:line:column: severity: message [rule]`, the source line, the reason, and what fixes it."""
    finding = row.finding
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
    if row.fixed:
        lines.append("    fixed")
    elif finding.fixable:
        unsafe = "" if finding.fixable == "safe" else " --unsafe-fixes"
        lines.append(f"    `arc-toolkit patch --write{unsafe}` fixes it")
    return "\n".join(lines)


def source_line(source: str, number: int) -> str | None:
    """One line of a text, shortened; None if there is none."""
    if number <= 0:
        return None
    lines = source.split("\n", number)
    if number > len(lines):
        return None
    line = lines[number - 1].rstrip("\r").replace("\t", " ")
    return line if len(line) <= 160 else line[:157] + "..."
