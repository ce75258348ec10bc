"""The report as Markdown, for an issue or a pull request. Pure."""

from __future__ import annotations

import re

from arc_toolkit.diagnosis import times
from arc_toolkit.diagnosis.model import DiagnosisReport
from arc_toolkit.diagnosis.report import NAMED_LEVELS, attempts_by_job, troubled
from arc_toolkit.diagnosis.report_words import (
    JOB_COLUMNS,
    NODE_COLUMNS,
    RESTART_COLUMNS,
    attempts_text,
    causes_text,
    incident_text,
    interval_text,
    levels_text,
    restart_row,
    retried_text,
    route_text,
)
from arc_toolkit.text import printable

MOST_ROWS = 200  # an issue is read by people


def to_markdown(report: DiagnosisReport) -> str:
    """For an issue or a pull request."""
    parts = [
        _md_jobs(report),
        _md_incidents(report),
        _md_nodes(report),
        _md_restarts(report),
        _md_findings(report),
        _md_rest(report),
    ]
    return "\n\n".join(filter(None, parts)) or "Nothing to report: no jobs and no nodes."


def _md_table(columns: list[str], rows: list[list[str]], right: tuple[int, ...] = ()) -> str:
    align = "|".join("---:" if index in right else "---" for index in range(len(columns)))
    return "\n".join(
        [f"| {' | '.join(columns)} |", f"|{align}|", *[f"| {' | '.join(row)} |" for row in rows]]
    )


def _md_jobs(report: DiagnosisReport) -> str:
    if not report.jobs:
        return ""
    grouped = attempts_by_job(report)
    rows = [
        [
            _code(job.name),
            attempts_text(job),
            job.outcome,
            route_text(grouped.get(job.name, []), arrow="→", style=_code),
            _md(causes_text(job, grouped.get(job.name, []))) or "-",
            times.short(job.since),
        ]
        for job in sorted(report.jobs, key=lambda job: not troubled(job))[:MOST_ROWS]
    ]
    parts = ["## Jobs and their nodes"]
    parts += [
        f"{retried_text(report)}; nodes: {levels_text(report) or 'none known'}.",
        _md_table(JOB_COLUMNS, rows, (1,)),
    ]
    if len(report.jobs) > len(rows):
        parts.append(f"... and {len(report.jobs) - len(rows)} more jobs.")
    return "\n\n".join(parts)


def _md_nodes(report: DiagnosisReport) -> str:
    shown = [verdict for verdict in report.verdicts if verdict.level in NAMED_LEVELS][:MOST_ROWS]
    if not shown:
        return ""
    rows = [
        [_code(item.node), item.level, interval_text(item), _md(item.pool or "-"), _md(item.reason)]
        for item in shown
    ]
    parts = [_md_table(NODE_COLUMNS, rows)]
    for verdict in shown:
        if verdict.suggestions:
            commands = "\n".join(item.text for item in verdict.suggestions if item.is_command)
            parts.append(f"**{_code(verdict.node)}**: {_md(verdict.suggestions[0].text)}")
            parts += [f"```sh\n{commands}\n```"] if commands else []
    return "\n\n".join(parts)


def _md_incidents(report: DiagnosisReport) -> str:
    lines = [f"- {_md(incident_text(incident))}" for incident in report.incidents[:MOST_ROWS]]
    return (
        "\n".join(["Incidents: many nodes at the same time, so no node is blamed.", "", *lines])
        if lines
        else ""
    )


def _md_restarts(report: DiagnosisReport) -> str:
    rows = [restart_row(item, _code(item.run), "→") for item in report.restarts[:MOST_ROWS]]
    return (
        f"## Restarts seen in metrics\n\n{_md_table(RESTART_COLUMNS, rows, (4, 5))}" if rows else ""
    )


def _md_findings(report: DiagnosisReport) -> str:
    lines = [
        f"- {_code(finding.path)}: {_md(finding.evidence.message or finding.evidence.reason)}"
        for finding in report.prs_evidence[:MOST_ROWS]
    ]
    return "\n".join(["In the jobs' own files:", "", *lines]) if lines else ""


def _md_rest(report: DiagnosisReport) -> str:
    skipped = [
        f"- {number} {_md(reason)}" for reason, number in sorted(report.stats.skipped.items())
    ]
    parts = ["\n".join(["Not used:", "", *skipped])] if skipped else []
    return "\n\n".join([*parts, *map(_md, report.notes)])


_MARKUP = re.compile(r"([\\`*_{}\[\]<>|#~])")


def _md(value: str) -> str:
    return _MARKUP.sub(r"\\\1", printable(value))


def _code(value: str) -> str:
    """In backticks if that is safe in a table; escaped otherwise."""
    value = printable(value)
    return _md(value) if "`" in value or "|" in value else f"`{value}`"
