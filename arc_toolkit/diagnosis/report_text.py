"""The report for a terminal: an overview, or one job in detail. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from arc_toolkit.diagnosis import times
from arc_toolkit.diagnosis.model import Attempt, DiagnosisReport, Job, Level, Restart, RunOutcome
from arc_toolkit.diagnosis.report import NAMED_LEVELS, attempts_by_job, levels, troubled
from arc_toolkit.diagnosis.report_words import (
    JOB_COLUMNS,
    MOST_AVOIDED,
    NODE_COLUMNS,
    RESTART_COLUMNS,
    WAITING,
    attempts_text,
    cause_text,
    causes_text,
    evidence_text,
    incident_text,
    interval_text,
    levels_text,
    node_text,
    restart_row,
    retried_text,
    route_text,
)
from arc_toolkit.diagnosis.signals import KINDS
from arc_toolkit.diagnosis.suggestions import anti_affinity
from arc_toolkit.output.table import table
from arc_toolkit.text import plural, printable

MOST_ROWS = 50
MOST_OTHER_NODES = 10
Style = Callable[..., str]

_COLORS: dict[Level | RunOutcome, tuple[str, ...]] = {
    Level.BAD: ("red", "bold"),
    Level.SUSPECT: ("yellow",),
    Level.RECOVERED: ("cyan",),
    Level.NOT_ENOUGH_DATA: ("dim",),
    Level.OK: ("green",),
    RunOutcome.FAILED: ("red",),
    RunOutcome.SUCCEEDED: ("green",),
    RunOutcome.RUNNING: ("blue",),
    RunOutcome.WAITING: ("yellow",),
    RunOutcome.UNKNOWN: ("dim",),
}


def plain(text: str, *_: str) -> str:
    return text


def overview(report: DiagnosisReport, style: Style = plain) -> str:
    """Jobs, incidents, nodes by verdict, suggestions, and what was not used."""
    parts = [
        _headline(report, style),
        _jobs(report, style),
        _restarts(report.restarts),
        _incidents(report),
    ]
    parts += [_nodes(report, style), _suggestions(report, style), _findings(report), _rest(report)]
    return "\n\n".join(filter(None, parts)) or "nothing to report: no jobs and no nodes"


def detail(report: DiagnosisReport, style: Style = plain) -> str:
    """Every attempt of the report's jobs with its evidence."""
    grouped = attempts_by_job(report)
    parts = [_job_detail(job, grouped[job.name], style) for job in report.jobs]
    parts += [
        _restarts(report.restarts),
        _incidents(report),
        _nodes(report, style),
        _findings(report),
    ]
    return "\n\n".join(filter(None, parts))


def _table(columns: list[str], rows: list[list[str]], right: tuple[int, ...] = ()) -> str:
    return table([name.upper() for name in columns], rows, right)


def _headline(report: DiagnosisReport, style: Style) -> str:
    if not report.jobs:
        return ""
    outcomes = Counter(job.outcome for job in report.jobs)
    words = [retried_text(report)]
    if outcomes[RunOutcome.FAILED]:
        words.append(f"{outcomes[RunOutcome.FAILED]} failed for good")
    if outcomes[RunOutcome.WAITING]:
        words.append(f"{outcomes[RunOutcome.WAITING]} waiting")
    if report.verdicts:
        words.append(f"{plural(levels(report)[Level.BAD], 'bad node')} of {len(report.verdicts)}")
    if report.incidents:
        words.append(plural(len(report.incidents), "incident"))
    return style(", ".join(words), "bold")


def _jobs(report: DiagnosisReport, style: Style) -> str:
    if not report.jobs:
        return ""
    order = sorted(
        report.jobs,
        key=lambda job: (not troubled(job), job.outcome is not RunOutcome.FAILED, -job.attempts),
    )
    grouped = attempts_by_job(report)
    rows = [
        [
            printable(job.name),
            attempts_text(job),
            style(job.outcome, *_COLORS[job.outcome]),
            route_text(grouped.get(job.name, [])),
            causes_text(job, grouped.get(job.name, [])) or "-",
            times.short(job.since),
        ]
        for job in order[:MOST_ROWS]
    ]
    text = _table(JOB_COLUMNS, rows, right=(1,))
    hidden = len(order) - len(rows)
    return text + (
        f"\n... and {plural(hidden, 'more job')} (--format csv has them all)" if hidden else ""
    )


def _nodes(report: DiagnosisReport, style: Style) -> str:
    if not report.verdicts:
        return ""
    shown = [verdict for verdict in report.verdicts if verdict.level in NAMED_LEVELS][:MOST_ROWS]
    others = [verdict for verdict in report.verdicts if verdict.level not in NAMED_LEVELS]
    if len(report.verdicts) <= MOST_ROWS:
        shown += others[: max(0, MOST_OTHER_NODES - len(shown))]
    rows = [
        [
            printable(verdict.node),
            style(verdict.level, *_COLORS[verdict.level]),
            interval_text(verdict),
            printable(verdict.pool or "-") + (" (spot)" if verdict.spot else ""),
            printable(verdict.reason),
        ]
        for verdict in shown
    ]
    return f"Nodes: {levels_text(report)}" + ("\n" + _table(NODE_COLUMNS, rows) if rows else "")


def _incidents(report: DiagnosisReport) -> str:
    lines = [f"  {incident_text(incident)}" for incident in report.incidents[:MOST_ROWS]]
    return (
        "\n".join(["Incidents: many nodes at the same time, so no node is blamed", *lines])
        if lines
        else ""
    )


def _suggestions(report: DiagnosisReport, style: Style) -> str:
    bad = [verdict for verdict in report.verdicts if verdict.level is Level.BAD]
    advised = [verdict for verdict in report.verdicts if verdict.suggestions]
    parts = []
    for verdict in advised[:5]:
        lines = "\n".join(f"  {item.text}" for item in verdict.suggestions)
        parts.append(f"{style(printable(verdict.node), 'bold')}\n{lines}")
    if len(advised) > 5:
        parts.append(f"... and {len(advised) - 5} more nodes (--format json has their suggestions)")
    existing = [verdict for verdict in bad if not verdict.gone]
    if existing:
        snippet = "".join(
            f"  {line}\n"
            for line in anti_affinity(
                [verdict.node for verdict in existing[:MOST_AVOIDED]]
            ).splitlines()
        )
        parts.append(
            f"To prefer other nodes for a pod, without excluding these:\n{snippet.rstrip()}"
        )
    return "\n\n".join(parts)


def _restarts(restarts: tuple[Restart, ...]) -> str:
    rows = [restart_row(restart, printable(restart.run), "->") for restart in restarts[:MOST_ROWS]]
    return f"Restarts seen in metrics\n{_table(RESTART_COLUMNS, rows)}" if rows else ""


def _findings(report: DiagnosisReport) -> str:
    lines = [
        f"  {printable(finding.path)}: {printable(finding.evidence.message or finding.evidence.reason)}"
        for finding in report.prs_evidence[:MOST_ROWS]
    ]
    return "\n".join(["In the jobs' own files", *lines]) if lines else ""


def _rest(report: DiagnosisReport) -> str:
    lines = [f"  {count} {reason}" for reason, count in Counter(report.stats.skipped).most_common()]
    if lines:
        lines.insert(0, "Not used, or only partly (--format json lists the files)")
    return "\n".join([*lines, *map(printable, report.notes)])


def _job_detail(job: Job, attempts: list[Attempt], style: Style) -> str:
    lines = [style(printable(job.name), "bold")]
    causes = causes_text(job, attempts) or "-"
    end = (
        causes
        if job.outcome is RunOutcome.WAITING
        else f"ended: {job.outcome.value}, cause: {causes}"
    )
    lines.append(f"  {plural(job.attempts, 'attempt')}, {end}")
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
        lines.append(
            f"    pod: {printable(attempt.pod)} {printable(attempt.pod_uid or '')}".rstrip()
        )
    if attempt.cause:
        lines.append(f"    cause: {cause_text(attempt.cause)}: {KINDS[attempt.cause.kind].advice}")
        lines += [f"      {evidence_text(item)}" for item in attempt.cause.evidence]
    if attempt.waiting:
        traits = WAITING[attempt.waiting.kind]
        lines.append(f"    {traits.label}: {traits.advice}")
        lines += [f"      {evidence_text(item)}" for item in attempt.waiting.evidence]
    lines += [f"    note: {printable(note)}" for note in attempt.notes]
    lines += [f"    log: {printable(source)}" for source in attempt.sources]
    return lines
