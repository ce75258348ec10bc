"""The report for a terminal: an overview, or one job in detail. Pure: a DiagnosisReport in, text out."""

from __future__ import annotations

from collections.abc import Callable

from arc_toolkit.diagnosis import times
from arc_toolkit.diagnosis.model import (
    Attempt,
    Cause,
    CauseKind,
    DiagnosisReport,
    Evidence,
    Job,
    Level,
    Restart,
    RunOutcome,
    Verdict,
)
from arc_toolkit.diagnosis.report import attempts_by_job, levels, troubled
from arc_toolkit.diagnosis.signals import KINDS
from arc_toolkit.diagnosis.suggestions import anti_affinity
from arc_toolkit.diagnosis.times import plural
from arc_toolkit.output.safe import printable
from arc_toolkit.output.table import table

MOST_ROWS = 50
MOST_NODES = 3
Style = Callable[..., str]

_COLORS = {
    Level.BAD: ("red", "bold"),
    Level.SUSPECT: ("yellow",),
    Level.NOT_ENOUGH_DATA: ("dim",),
    Level.OK: ("green",),
}
_ENDS = {
    RunOutcome.FAILED: ("red",),
    RunOutcome.SUCCEEDED: ("green",),
    RunOutcome.RUNNING: ("blue",),
    RunOutcome.UNKNOWN: ("dim",),
}


def plain(text: str, *_: str) -> str:
    return text


def overview(report: DiagnosisReport, style: Style = plain) -> str:
    """Jobs, nodes by verdict, suggestions, and what was not used."""
    parts = [_headline(report, style), _jobs(report, style), _restarts(report.restarts), _nodes(report, style)]
    parts += [_suggestions(report, style), _findings(report), _rest(report)]
    return "\n\n".join(part for part in parts if part) or "nothing to report: no jobs and no nodes"


def detail(report: DiagnosisReport, style: Style = plain) -> str:
    """Every attempt of the report's jobs with its evidence."""
    grouped = attempts_by_job(report)
    parts = [_job_detail(job, grouped[job.name], style) for job in report.jobs]
    return "\n\n".join(
        [*parts, *filter(None, [_restarts(report.restarts), _nodes(report, style), _findings(report)])]
    )


def summary(report: DiagnosisReport) -> str:
    """One line: what was read, and the result."""
    stats = report.stats
    retried = sum(job.retried for job in report.jobs)
    read = f"{plural(stats.files_read, 'log')} read ({size(stats.bytes_read)})"
    cluster = (
        f", {stats.pods} pods, {stats.nodes} nodes, {stats.events} events"
        if stats.pods + stats.nodes + stats.events
        else ""
    )
    metrics = (
        f", {plural(stats.metric_points, 'point')} of {plural(stats.metric_runs, 'run')}"
        if stats.metric_runs
        else ""
    )
    return (
        f"{read}{cluster}{metrics}: {plural(len(report.attempts), 'attempt')} of {plural(len(report.jobs), 'job')}, "
        f"{retried} retried, in {times.duration(stats.seconds)}"
    )


def size(count: float) -> str:
    """`12 B`, `3.4 MB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def node_text(node: str | None, truncated: bool = False) -> str:
    return (printable(node) + ("..." if truncated else "")) if node else "?"


def cause_text(cause: Cause | None) -> str:
    if cause is None:
        return "-"
    label = KINDS[cause.kind].label
    if cause.confidence == "high" or cause.kind is CauseKind.UNKNOWN:
        return label
    return f"{label} ({cause.confidence} confidence)"


def attempts_text(job: Job) -> str:
    return f"{job.attempts} of {job.attempts + job.missing}" if job.missing else str(job.attempts)


def causes_text(job: Job) -> str:
    """A cause with only weak evidence has a question mark."""
    words = ", ".join(KINDS[kind].label + "?" * (kind in job.unsure) for kind in job.causes) or "-"
    return f"{words}; fails everywhere" if job.fails_everywhere else words


def interval_text(verdict: Verdict) -> str:
    if not verdict.attempts or verdict.interval is None:
        return "-"
    low, high = verdict.interval
    return f"{verdict.failures} of {verdict.attempts} ({100 * low:.0f}-{100 * high:.0f} %)"


def nodes_text(nodes: tuple[str, ...]) -> str:
    shown = [printable(node) for node in nodes[:MOST_NODES]]
    more = len(nodes) - len(shown)
    return " -> ".join(shown) + (f" +{more}" if more else "") if shown else "?"


def _headline(report: DiagnosisReport, style: Style) -> str:
    if not report.jobs:
        return ""
    count = levels(report)
    retried = sum(job.retried for job in report.jobs)
    failed = sum(job.outcome is RunOutcome.FAILED for job in report.jobs)
    words = [f"{retried} of {plural(len(report.jobs), 'job')} retried"]
    if failed:
        words.append(f"{failed} failed for good")
    if report.verdicts:
        words.append(f"{plural(count[Level.BAD], 'bad node')} of {len(report.verdicts)}")
    return style(", ".join(words), "bold")


def _jobs(report: DiagnosisReport, style: Style) -> str:
    if not report.jobs:
        return ""
    order = sorted(
        report.jobs, key=lambda job: (not troubled(job), job.outcome is not RunOutcome.FAILED, -job.attempts)
    )
    rows = [
        [
            printable(job.name),
            attempts_text(job),
            style(job.outcome.value, *_ENDS[job.outcome]),
            nodes_text(job.nodes),
            causes_text(job),
            times.short(job.since),
        ]
        for job in order[:MOST_ROWS]
    ]
    text = table(["JOB", "ATTEMPTS", "ENDED", "NODES", "CAUSE", "SINCE (UTC)"], rows, right=[1])
    hidden = len(order) - len(rows)
    return text + (f"\n... and {plural(hidden, 'more job')} (--format csv has them all)" if hidden else "")


def _nodes(report: DiagnosisReport, style: Style) -> str:
    if not report.verdicts:
        return ""
    count = levels(report)
    shown = [verdict for verdict in report.verdicts if verdict.level in (Level.BAD, Level.SUSPECT)][:MOST_ROWS]
    shown += report.verdicts[len(shown) :][: max(0, 10 - len(shown))] if len(report.verdicts) <= MOST_ROWS else ()
    rows = [
        [
            printable(verdict.node),
            style(verdict.level.value, *_COLORS[verdict.level]),
            interval_text(verdict),
            printable(verdict.pool or "-") + (" (spot)" if verdict.spot else ""),
            printable(verdict.reason),
        ]
        for verdict in shown
    ]
    words = ", ".join(f"{number} {level.value}" for level, number in count.items() if number)
    text = f"Nodes: {words}"
    if rows:
        text += "\n" + table(["NODE", "VERDICT", "FAILED (95 %)", "POOL", "WHY"], rows)
    return text


def _suggestions(report: DiagnosisReport, style: Style) -> str:
    bad = [verdict for verdict in report.verdicts if verdict.level is Level.BAD]
    parts = []
    for verdict in bad[:5]:
        lines = "\n".join(f"  {item.text}" for item in verdict.suggestions)
        parts.append(f"{style(printable(verdict.node), 'bold')}\n{lines}")
    if len(bad) > 5:
        parts.append(f"... and {len(bad) - 5} more bad nodes (--format json has their suggestions)")
    existing = [verdict for verdict in bad if not verdict.gone]
    if existing:
        snippet = "".join(
            f"  {line}\n" for line in anti_affinity([verdict.node for verdict in existing[:20]]).splitlines()
        )
        parts.append(f"To prefer other nodes for a pod, without excluding these:\n{snippet.rstrip()}")
    return "\n\n".join(parts)


def _restarts(restarts: tuple[Restart, ...]) -> str:
    if not restarts:
        return ""
    rows = [
        [
            printable(restart.run),
            times.short(restart.time),
            restart.kind,
            f"{restart.last_step} -> {restart.first_step}",
            str(restart.lost_steps),
            times.duration(restart.lost_seconds),
        ]
        for restart in restarts[:MOST_ROWS]
    ]
    return "Restarts seen in metrics\n" + table(
        ["RUN", "TIME (UTC)", "KIND", "STEP", "LOST STEPS", "LOST TIME"], rows
    )


def _findings(report: DiagnosisReport) -> str:
    if not report.prs_evidence:
        return ""
    lines = [
        f"  {printable(finding.path)}: {printable(finding.evidence.message or finding.evidence.reason)}"
        for finding in report.prs_evidence[:MOST_ROWS]
    ]
    return "\n".join(["In the jobs' own files", *lines])


def _rest(report: DiagnosisReport) -> str:
    lines = [
        f"{count} {reason}" for reason, count in sorted(report.stats.skipped.items(), key=lambda item: -item[1])
    ]
    parts = []
    if lines:
        parts.append(
            "Not used, or only partly (--format json lists the files)\n" + "\n".join(f"  {line}" for line in lines)
        )
    parts += [printable(note) for note in report.notes]
    return "\n".join(parts)


def _job_detail(job: Job, attempts: list[Attempt], style: Style) -> str:
    lines = [style(printable(job.name), "bold")]
    lines.append(f"  {plural(job.attempts, 'attempt')}, ended: {job.outcome.value}, cause: {causes_text(job)}")
    if job.run_id and job.run_id != job.name:
        lines.append(f"  run id: {printable(job.run_id)}")
    lines += [f"  note: {printable(note)}" for note in job.notes]
    for attempt in attempts:
        lines += ["", *_attempt_detail(attempt, style)]
    return "\n".join(lines)


def _attempt_detail(attempt: Attempt, style: Style) -> list[str]:
    rank = f", {printable(attempt.rank)}" if attempt.rank else ""
    title = f"attempt {attempt.number}{rank}: {node_text(attempt.node, attempt.node_truncated)}"
    lines = [f"  {style(title, 'bold')}  {attempt.outcome.value}"]
    facts = [f"pool {printable(attempt.pool)}"] if attempt.pool else []
    if attempt.spot is not None:
        facts.append("spot" if attempt.spot else "not spot")
    if attempt.vm_instance is not None:
        facts.append(f"VM instance {attempt.vm_instance}")
    if facts:
        lines.append("    node: " + ", ".join(facts))
    if attempt.start or attempt.end:
        lines.append(f"    from {times.short(attempt.start)} to {times.short(attempt.end)} (UTC)")
    if attempt.pod:
        lines.append(f"    pod: {printable(attempt.pod)} {printable(attempt.pod_uid or '')}".rstrip())
    if attempt.cause:
        lines.append(f"    cause: {cause_text(attempt.cause)}: {KINDS[attempt.cause.kind].advice}")
        lines += [f"      {evidence_text(item)}" for item in attempt.cause.evidence]
    lines += [f"    note: {printable(note)}" for note in attempt.notes]
    lines += [f"    log: {printable(source)}" for source in attempt.sources]
    return lines


def evidence_text(evidence: Evidence) -> str:
    moment = f" at {times.iso(evidence.time)}" if evidence.time is not None else ""
    words = f": {printable(evidence.message)}" if evidence.message else ""
    return f"{evidence.source} {printable(evidence.reason)}{moment}{words}"
