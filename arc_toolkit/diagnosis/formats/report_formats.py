"""The report as JSON v1, as CSV with one row per attempt, and as Markdown. Pure."""

from __future__ import annotations

import re
from typing import Any

from arc_toolkit import resources
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
    uneven_text,
)
from arc_toolkit.diagnosis.job_card import GroupedJobs, JobCard, job_cards, job_groups
from arc_toolkit.diagnosis.model import (
    Attempt,
    Cause,
    DiagnosisReport,
    Evidence,
    FileEvidence,
    Incident,
    Job,
    RecordingGap,
    Restart,
    RunOutcome,
    SkippedFile,
    Stats,
    Suggestion,
    Verdict,
    Waiting,
)
from arc_toolkit.diagnosis.report import NAMED_LEVELS, attempts_by_job, levels
from arc_toolkit.output import json_document
from arc_toolkit.text import printable

# The fields of a record in JSON, in order; `a=b` is the attribute b, called a there. Within v1,
# fields are only added.
FIELDS = {
    Job: "name run_id outcome retried attempt_count=attempts nodes causes since fails_everywhere "
    "notes",
    Verdict: "node verdict=level pool spot vm_instance failures attempts interval_95=interval "
    "pool_rate p_value history_since=since reason evidence suggestions",
    FileEvidence: "path node speaks_for=kind evidence",
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
_NAMES = {
    record: [(name.partition("=")[0], name.rpartition("=")[2]) for name in names.split()]
    for record, names in FIELDS.items()
}
TIMES = ("time", "start", "end", "since")
DIGITS = {"interval": 4, "pool_rate": 6, "p_value": 300}  # after the decimal point; others have 3
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
                    **_data(job),
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
            "nodes": _data(report.verdicts),
            "incidents": _data(report.incidents),
            "uneven_pools": _data(report.uneven_pools),
            "restarts": _data(report.restarts),
            "findings": _data(report.prs_evidence),
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
        return round(value, DIGITS.get(name, 3))
    if isinstance(value, list | tuple):
        return [_data(item, name) for item in value]
    if isinstance(value, Suggestion):
        return value.text
    fields = _NAMES.get(type(value))
    return {key: _data(getattr(value, field), field) for key, field in fields} if fields else value


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
    grouped = attempts_by_job(report)
    cells = [job_cells(row, grouped, _code, "→") for row in job_rows(report)]
    text = resources.render(
        "report.md.j2",
        report=report,
        headline=f"{retried_text(report)}; nodes: {levels_text(report) or 'none known'}",
        jobs=[[*row[:4], _md(row[4]), row[5]] for row in cells],
        nodes=[node for node in report.verdicts if node.level in NAMED_LEVELS][:MOST_ROWS],
        most=MOST_ROWS,
        job_columns=JOB_COLUMNS,
        node_columns=NODE_COLUMNS,
        restart_columns=RESTART_COLUMNS,
        md=_md,
        code=_code,
        incident_text=incident_text,
        interval_text=interval_text,
        restart_row=restart_row,
        uneven_text=uneven_text,
    )
    text = re.sub(r"\n{3,}", "\n\n", text).strip()
    return text or "Nothing to report: no jobs and no nodes."


_MARKUP = re.compile(r"([\\`*_{}\[\]<>|#~])")


def _md(value: str) -> str:
    return _MARKUP.sub(r"\\\1", printable(value))


def _code(value: str) -> str:
    """In backticks if that is safe in a table; escaped otherwise."""
    value = printable(value)
    return _md(value) if "`" in value or "|" in value else f"`{value}`"
