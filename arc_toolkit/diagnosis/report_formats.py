"""The report for machines and for issues: JSON v1, CSV (one row per attempt) and Markdown. Pure."""

from __future__ import annotations

import re
from typing import Any

from arc_toolkit.diagnosis import report_text as text
from arc_toolkit.diagnosis import times
from arc_toolkit.diagnosis.model import (
    Attempt,
    Cause,
    DiagnosisReport,
    Evidence,
    Job,
    Level,
    Restart,
    RunOutcome,
    Verdict,
)
from arc_toolkit.diagnosis.report import attempts_by_job, levels, troubled
from arc_toolkit.diagnosis.times import plural
from arc_toolkit.output import jsonout
from arc_toolkit.output.safe import printable

MOST_JOBS = 200  # in Markdown: an issue is read by people
COLUMNS = [
    "job",
    "run_id",
    "attempt",
    "rank",
    "node",
    "node_truncated",
    "pool",
    "spot",
    "vm_instance",
    "start",
    "end",
    "pod",
    "pod_uid",
    "outcome",
    "cause",
    "confidence",
    "evidence",
    "sources",
    "notes",
]


def to_json(report: DiagnosisReport) -> str:
    """Everything, including every skipped file. Within v1, fields are only added."""
    grouped = attempts_by_job(report)
    stats = report.stats
    return jsonout.document(
        "diagnose",
        {
            "summary": {
                "files_seen": stats.files_seen,
                "files_read": stats.files_read,
                "bytes_read": stats.bytes_read,
                "seconds": round(stats.seconds, 3),
                "pods": stats.pods,
                "nodes": stats.nodes,
                "events": stats.events,
                "prs_files": stats.prs_files,
                "metric_runs": stats.metric_runs,
                "metric_points": stats.metric_points,
                "attempts": len(report.attempts),
                "jobs": len(report.jobs),
                "jobs_retried": sum(job.retried for job in report.jobs),
                "jobs_failed": sum(job.outcome is RunOutcome.FAILED for job in report.jobs),
                "verdicts": {level.value: count for level, count in levels(report).items()},
                "skipped": stats.skipped,
            },
            "jobs": [_job(job, grouped.get(job.name, [])) for job in report.jobs],
            "nodes": [_verdict(verdict) for verdict in report.verdicts],
            "restarts": [_restart(restart) for restart in report.restarts],
            "findings": [
                {
                    "path": finding.path,
                    "node": finding.node,
                    "speaks_for": finding.kind.value if finding.kind else None,
                    "evidence": _evidence(finding.evidence),
                }
                for finding in report.prs_evidence
            ],
            "skipped": [{"path": item.path, "reason": item.reason} for item in report.skipped],
            "notes": list(report.notes),
        },
    )


def _job(job: Job, attempts: list[Attempt]) -> dict[str, Any]:
    return {
        "name": job.name,
        "run_id": job.run_id,
        "outcome": job.outcome.value,
        "retried": job.retried,
        "attempt_count": job.attempts,
        "nodes": list(job.nodes),
        "causes": [kind.value for kind in job.causes],
        "since": times.iso(job.since),
        "fails_everywhere": job.fails_everywhere,
        "notes": list(job.notes),
        "attempts": [_attempt(attempt) for attempt in attempts],
    }


def _attempt(attempt: Attempt) -> dict[str, Any]:
    return {
        "number": attempt.number,
        "rank": attempt.rank,
        "node": attempt.node,
        "node_truncated": attempt.node_truncated,
        "pool": attempt.pool,
        "spot": attempt.spot,
        "vm_instance": attempt.vm_instance,
        "start": times.iso(attempt.start),
        "end": times.iso(attempt.end),
        "pod": attempt.pod,
        "pod_uid": attempt.pod_uid,
        "outcome": attempt.outcome.value,
        "cause": _cause(attempt.cause),
        "sources": list(attempt.sources),
        "notes": list(attempt.notes),
    }


def _cause(cause: Cause | None) -> dict[str, Any] | None:
    if cause is None:
        return None
    return {
        "kind": cause.kind.value,
        "confidence": cause.confidence,
        "blames_node": cause.blames_node,
        "evidence": [_evidence(item) for item in cause.evidence],
    }


def _evidence(item: Evidence) -> dict[str, Any]:
    return {"source": item.source, "reason": item.reason, "message": item.message, "time": times.iso(item.time)}


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "node": verdict.node,
        "verdict": verdict.level.value,
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
        "evidence": [_evidence(item) for item in verdict.evidence],
        "suggestions": [item.text for item in verdict.suggestions],
    }


def _restart(restart: Restart) -> dict[str, Any]:
    return {
        "run": restart.run,
        "time": times.iso(restart.time),
        "kind": restart.kind,
        "last_step": restart.last_step,
        "first_step": restart.first_step,
        "lost_steps": restart.lost_steps,
        "lost_seconds": round(restart.lost_seconds, 3),
        "gap_seconds": round(restart.gap_seconds, 3),
        "keys": list(restart.keys),
        "confidence": restart.confidence,
        "source": restart.source,
    }


def to_csv(report: DiagnosisReport) -> str:
    """One row per attempt, for a spreadsheet."""
    import csv
    import io

    runs = {job.name: job.run_id for job in report.jobs}
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for attempt in report.attempts:
        cause = attempt.cause
        row = (
            attempt.job,
            runs.get(attempt.job) or "",
            str(attempt.number),
            attempt.rank or "",
            attempt.node or "",
            str(attempt.node_truncated).lower(),
            attempt.pool or "",
            "" if attempt.spot is None else str(attempt.spot).lower(),
            "" if attempt.vm_instance is None else str(attempt.vm_instance),
            times.iso(attempt.start) or "",
            times.iso(attempt.end) or "",
            attempt.pod or "",
            attempt.pod_uid or "",
            attempt.outcome.value,
            cause.kind.value if cause else "",
            cause.confidence if cause else "",
            "; ".join(text.evidence_text(item) for item in cause.evidence) if cause else "",
            "; ".join(attempt.sources),
            "; ".join(attempt.notes),
        )
        writer.writerow([_cell(value) for value in row])
    return out.getvalue().rstrip("\n")


def _cell(value: str) -> str:
    """No control characters, and nothing that a spreadsheet would take for a formula."""
    value = printable(value)
    return f"'{value}" if value[:1] in ("=", "+", "-", "@") else value


def to_markdown(report: DiagnosisReport) -> str:
    """For an issue or a pull request."""
    parts = [_md_jobs(report), _md_nodes(report), _md_restarts(report), _md_findings(report), _md_rest(report)]
    return "\n\n".join(part for part in parts if part) or "Nothing to report: no jobs and no nodes."


def _md_table(head: str, align: str, rows: list[list[str]]) -> str:
    return "\n".join([head, align, *[f"| {' | '.join(row)} |" for row in rows]])


def _md_jobs(report: DiagnosisReport) -> str:
    if not report.jobs:
        return ""
    count = levels(report)
    retried = f"{sum(job.retried for job in report.jobs)} of {plural(len(report.jobs), 'job')} retried"
    nodes = ", ".join(f"{number} {level.value}" for level, number in count.items() if number) or "none known"
    shown = sorted(report.jobs, key=lambda job: not troubled(job))[:MOST_JOBS]
    rows = [
        [
            _code(job.name),
            text.attempts_text(job),
            job.outcome.value,
            " → ".join(_code(node) for node in job.nodes) or "?",
            _md(text.causes_text(job)),
            times.short(job.since),
        ]
        for job in shown
    ]
    head = "| Job | Attempts | Ended | Nodes | Cause | Since (UTC) |"
    parts = ["## Retried jobs and their nodes", f"{retried}; nodes: {nodes}."]
    parts.append(_md_table(head, "|---|---:|---|---|---|---|", rows))
    if len(report.jobs) > len(shown):
        parts.append(f"... and {len(report.jobs) - len(shown)} more jobs.")
    return "\n\n".join(parts)


def _md_nodes(report: DiagnosisReport) -> str:
    shown = [verdict for verdict in report.verdicts if verdict.level in (Level.BAD, Level.SUSPECT)]
    if not shown:
        return ""
    rows = [
        [
            _code(verdict.node),
            verdict.level.value,
            text.interval_text(verdict),
            _md(verdict.pool or "-"),
            _md(verdict.reason),
        ]
        for verdict in shown
    ]
    parts = [_md_table("| Node | Verdict | Failed (95 %) | Pool | Why |", "|---|---|---|---|---|", rows)]
    for verdict in shown:
        if verdict.suggestions:
            commands = "\n".join(item.text for item in verdict.suggestions if item.is_command)
            parts.append(f"**{_code(verdict.node)}**: {_md(verdict.suggestions[0].text)}")
            parts += [f"```sh\n{commands}\n```"] if commands else []
    return "\n\n".join(parts)


def _md_restarts(report: DiagnosisReport) -> str:
    if not report.restarts:
        return ""
    rows = [
        [
            _code(restart.run),
            times.short(restart.time),
            restart.kind,
            f"{restart.last_step} → {restart.first_step}",
            str(restart.lost_steps),
            times.duration(restart.lost_seconds),
        ]
        for restart in report.restarts[:MOST_JOBS]
    ]
    head = "| Run | Time (UTC) | Kind | Step | Lost steps | Lost time |"
    return "## Restarts seen in metrics\n\n" + _md_table(head, "|---|---|---|---|---:|---:|", rows)


def _md_findings(report: DiagnosisReport) -> str:
    lines = [
        f"- {_code(finding.path)}: {_md(finding.evidence.message or finding.evidence.reason)}"
        for finding in report.prs_evidence[:MOST_JOBS]
    ]
    return "\n".join(["In the jobs' own files:", "", *lines]) if lines else ""


def _md_rest(report: DiagnosisReport) -> str:
    skipped = [f"- {number} {_md(reason)}" for reason, number in sorted(report.stats.skipped.items())]
    parts = ["\n".join(["Not used:", "", *skipped])] if skipped else []
    return "\n\n".join([*parts, *[_md(note) for note in report.notes]])


_MARKUP = re.compile(r"([\\`*_{}\[\]<>|#~])")


def _md(value: str) -> str:
    return _MARKUP.sub(r"\\\1", printable(value))


def _code(value: str) -> str:
    """In backticks if that is safe in a table; escaped otherwise."""
    value = printable(value)
    return _md(value) if "`" in value or "|" in value else f"`{value}`"
