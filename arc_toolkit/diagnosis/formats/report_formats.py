"""The report as JSON v1, as CSV with one row per attempt, and as Markdown. Pure."""

from __future__ import annotations

import re
from typing import Any

from arc_toolkit.diagnosis import times
from arc_toolkit.diagnosis.formats.report_text import (
    JOB_COLUMNS,
    NODE_COLUMNS,
    RESTART_COLUMNS,
    evidence_text,
    incident_text,
    interval_text,
    job_cells,
    job_rows,
    levels_text,
    restart_row,
    retried_text,
)
from arc_toolkit.diagnosis.job_card import GroupedJobs, JobCard, job_cards, job_groups
from arc_toolkit.diagnosis.model import (
    Attempt,
    Cause,
    DiagnosisReport,
    Evidence,
    Incident,
    RecordingGap,
    Restart,
    RunOutcome,
    SkippedFile,
    Stats,
    Verdict,
    Waiting,
)
from arc_toolkit.diagnosis.report import NAMED_LEVELS, attempts_by_job, levels
from arc_toolkit.output import json_document
from arc_toolkit.text import printable

# The fields of a record in JSON, in order. Within v1, fields are only added.
FIELDS = {
    Attempt: "number rank node node_truncated pool spot vm_instance start end pod pod_uid "
    "outcome cause waiting "
    "sources notes",
    Cause: "kind confidence blames_node evidence",
    Waiting: "kind evidence",
    Incident: "start end kind pool pool_size nodes reason",
    Evidence: "source reason message time",
    JobCard: "happened fault confidence step advice log",
    GroupedJobs: "name is_family outcomes causes",
    RecordingGap: "start end complete",
    Restart: "run time kind last_step first_step lost_steps lost_seconds gap_seconds keys "
    "confidence source",
    SkippedFile: "path reason",
    Stats: "files_seen files_read bytes_read seconds pods nodes events prs_files metric_runs "
    "metric_points",
}
_NAMES = {record: tuple(names.split()) for record, names in FIELDS.items()}
TIMES = ("time", "start", "end")
COLUMNS = (
    "job run_id attempt rank node node_truncated pool spot vm_instance start end pod pod_uid "
    "outcome waiting_for "
    "cause confidence evidence sources notes"
)


def to_json(report: DiagnosisReport) -> str:
    """Everything, including every skipped file."""
    grouped, cards, groups = attempts_by_job(report), job_cards(report), job_groups(report)
    group_of = {job.name: group.name for group in groups for job in group.jobs}
    return json_document.document(
        "diagnose",
        {
            "summary": {
                **_data(report.stats),
                "attempts": len(report.attempts),
                "jobs": len(report.jobs),
                "jobs_retried": sum(job.retried for job in report.jobs),
                "jobs_failed": sum(job.outcome is RunOutcome.FAILED for job in report.jobs),
                "verdicts": levels(report),
                "skipped": report.stats.skipped,
            },
            "jobs": [
                {
                    "name": job.name,
                    "run_id": job.run_id,
                    "outcome": job.outcome,
                    "retried": job.retried,
                    "attempt_count": job.attempts,
                    "nodes": job.nodes,
                    "causes": job.causes,
                    "since": times.iso(job.since),
                    "fails_everywhere": job.fails_everywhere,
                    "notes": job.notes,
                    "group": group_of.get(job.name),
                    "card": {
                        **_data(cards[job.name]),
                        "nodes": {node.node: node.level for node in cards[job.name].nodes},
                    },
                    "attempts": _data(grouped.get(job.name, [])),
                }
                for job in report.jobs
            ],
            "groups": [{**_data(group), "jobs": len(group.jobs)} for group in groups],
            "nodes": [_verdict(verdict) for verdict in report.verdicts],
            "incidents": _data(report.incidents),
            "restarts": _data(report.restarts),
            "findings": [
                {
                    "path": finding.path,
                    "node": finding.node,
                    "speaks_for": finding.kind,
                    "evidence": _data(finding.evidence),
                }
                for finding in report.prs_evidence
            ],
            "skipped": _data(report.skipped),
            "gaps": _data(report.gaps),
            "notes": report.notes,
        },
    )


def _data(value: Any, name: str = "") -> Any:
    """A record as the fields above, with times in ISO 8601 and durations to the millisecond."""
    if value is None or isinstance(value, (str, bool)):  # most fields: a fleet has many attempts
        return value
    if name in TIMES:
        return times.iso(value)
    if isinstance(value, float):
        return round(value, 3)
    if isinstance(value, list | tuple):
        return [_data(item) for item in value]
    fields = _NAMES.get(type(value))
    return {field: _data(getattr(value, field), field) for field in fields} if fields else value


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "node": verdict.node,
        "verdict": verdict.level,
        "pool": verdict.pool,
        "spot": verdict.spot,
        "vm_instance": verdict.vm_instance,
        "failures": verdict.failures,
        "attempts": verdict.attempts,
        "interval_95": [round(end, 4) for end in verdict.interval] if verdict.interval else None,
        "pool_rate": round(verdict.pool_rate, 6) if verdict.pool_rate is not None else None,
        "p_value": verdict.p_value,
        "history_since": times.iso(verdict.since),
        "reason": verdict.reason,
        "evidence": _data(verdict.evidence),
        "suggestions": [item.text for item in verdict.suggestions],
    }


def to_csv(report: DiagnosisReport) -> str:
    """One row per attempt, for a spreadsheet."""
    import csv
    import io

    runs = {job.name: job.run_id for job in report.jobs}
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    columns = COLUMNS.split()
    writer.writerow(columns)
    for attempt in report.attempts:
        cause = attempt.cause
        values: dict[str, str | int | None] = {
            "run_id": runs.get(attempt.job),
            "attempt": attempt.number,
            "start": times.iso(attempt.start),
            "end": times.iso(attempt.end),
            "cause": cause.kind if cause else None,
            "confidence": cause.confidence if cause else None,
            "waiting_for": attempt.waiting.kind if attempt.waiting else None,
            "evidence": "; ".join(evidence_text(item) for item in cause.evidence) if cause else "",
            "sources": "; ".join(attempt.sources),
            "notes": "; ".join(attempt.notes),
        }
        writer.writerow(
            [_cell(values[name] if name in values else getattr(attempt, name)) for name in columns]
        )
    return out.getvalue().rstrip("\n")


def _cell(value: str | float | None) -> str:
    """No control characters, and nothing that a spreadsheet would take for a formula."""
    if value is None:
        return ""
    text = str(value).lower() if isinstance(value, bool) else printable(str(value))
    return f"'{text}" if text[:1] in ("=", "+", "-", "@") else text


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
    listed = job_rows(report)
    rows = []
    for item in listed[:MOST_ROWS]:
        name, attempts, outcome, route, causes, since = job_cells(item, grouped, _code, "→")
        rows.append([name, attempts, outcome, route, _md(causes), since])
    parts = ["## Jobs and their nodes"]
    parts += [
        f"{retried_text(report)}; nodes: {levels_text(report) or 'none known'}.",
        _md_table(JOB_COLUMNS, rows, (1,)),
    ]
    if len(listed) > len(rows):
        parts.append(f"... and {len(listed) - len(rows)} more rows.")
    return "\n\n".join(parts)


def _md_nodes(report: DiagnosisReport) -> str:
    listed = [verdict for verdict in report.verdicts if verdict.level in NAMED_LEVELS][:MOST_ROWS]
    if not listed:
        return ""
    rows = [
        [_code(item.node), item.level, interval_text(item), _md(item.pool or "-"), _md(item.reason)]
        for item in listed
    ]
    parts = [_md_table(NODE_COLUMNS, rows)]
    for verdict in listed:
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
