"""The report for people: for a terminal (an overview, or one job in detail) and as Markdown. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

from arc_toolkit.diagnosis import times
from arc_toolkit.diagnosis.model import (
    Attempt,
    Cause,
    CauseKind,
    DiagnosisReport,
    Evidence,
    Incident,
    Job,
    Level,
    Restart,
    RunOutcome,
    Verdict,
)
from arc_toolkit.diagnosis.report import attempts_by_job, levels, troubled
from arc_toolkit.diagnosis.signals import KINDS
from arc_toolkit.diagnosis.suggestions import anti_affinity
from arc_toolkit.output.safe import printable
from arc_toolkit.output.table import plural, table

MOST_ROWS = 50
MOST_NODES = 3
MOST_MARKDOWN_ROWS = 200  # an issue is read by people
JOB_COLUMNS = ["Job", "Attempts", "Ended", "Nodes", "Cause", "Since (UTC)"]
NODE_COLUMNS = ["Node", "Verdict", "Failed (95 %)", "Pool", "Why"]
RESTART_COLUMNS = ["Run", "Time (UTC)", "Kind", "Step", "Lost steps", "Lost time"]
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
    """Jobs, nodes by verdict, suggestions, and what was not used."""
    parts = [_headline(report, style), _jobs(report, style), _restarts(report.restarts), _nodes(report, style)]
    parts += [_incidents(report), _suggestions(report, style), _findings(report), _rest(report)]
    return "\n\n".join(filter(None, parts)) or "nothing to report: no jobs and no nodes"


def detail(report: DiagnosisReport, style: Style = plain) -> str:
    """Every attempt of the report's jobs with its evidence."""
    grouped = attempts_by_job(report)
    parts = [_job_detail(job, grouped[job.name], style) for job in report.jobs]
    parts += [_restarts(report.restarts), _nodes(report, style), _findings(report)]
    return "\n\n".join(filter(None, parts))


def summary(report: DiagnosisReport) -> str:
    """One line: what was read, and the result."""
    stats = report.stats
    retried = sum(job.retried for job in report.jobs)
    text = f"{plural(stats.files_read, 'log')} read ({size(stats.bytes_read)})"
    if stats.pods + stats.nodes + stats.events:
        text += f", {stats.pods} pods, {stats.nodes} nodes, {stats.events} events"
    if stats.metric_runs:
        text += f", {plural(stats.metric_points, 'point')} of {plural(stats.metric_runs, 'run')}"
    return (
        f"{text}: {plural(len(report.attempts), 'attempt')} of {plural(len(report.jobs), 'job')}, "
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


def cause_text(cause: Cause) -> str:
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


def levels_text(report: DiagnosisReport) -> str:
    """`1 bad, 3 ok`: the number of nodes with each verdict."""
    return ", ".join(f"{number} {level}" for level, number in levels(report).items() if number)


def _retried(report: DiagnosisReport) -> str:
    return f"{sum(job.retried for job in report.jobs)} of {plural(len(report.jobs), 'job')} retried"


def _table(columns: list[str], rows: list[list[str]], right: tuple[int, ...] = ()) -> str:
    return table([name.upper() for name in columns], rows, right)


def _headline(report: DiagnosisReport, style: Style) -> str:
    if not report.jobs:
        return ""
    failed = sum(job.outcome is RunOutcome.FAILED for job in report.jobs)
    words = [_retried(report)]
    if failed:
        words.append(f"{failed} failed for good")
    if report.verdicts:
        words.append(f"{plural(levels(report)[Level.BAD], 'bad node')} of {len(report.verdicts)}")
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
            style(job.outcome, *_COLORS[job.outcome]),
            nodes_text(job.nodes),
            causes_text(job),
            times.short(job.since),
        ]
        for job in order[:MOST_ROWS]
    ]
    text = _table(JOB_COLUMNS, rows, right=(1,))
    hidden = len(order) - len(rows)
    return text + (f"\n... and {plural(hidden, 'more job')} (--format csv has them all)" if hidden else "")


def _nodes(report: DiagnosisReport, style: Style) -> str:
    if not report.verdicts:
        return ""
    shown = [verdict for verdict in report.verdicts if verdict.level in (Level.BAD, Level.SUSPECT)][:MOST_ROWS]
    shown += report.verdicts[len(shown) :][: max(0, 10 - len(shown))] if len(report.verdicts) <= MOST_ROWS else ()
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
    lines = [f"  {_incident_text(incident)}" for incident in report.incidents[:MOST_ROWS]]
    return "\n".join(["Incidents of many nodes at once", *lines]) if lines else ""


def _incident_text(incident: Incident) -> str:
    where = f"pool {printable(incident.pool)}" if incident.pool else "several pools"
    many = f"{len(incident.nodes)} of {incident.pool_size} nodes" if incident.pool_size else "many nodes"
    return f"{times.short(incident.start)}, {where}: {many}, {KINDS[incident.kind].label}: {printable(incident.reason)}"


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


def _restart_row(restart: Restart, name: str, arrow: str) -> list[str]:
    steps = f"{restart.last_step} {arrow} {restart.first_step}"
    lost = times.duration(restart.lost_seconds)
    return [name, times.short(restart.time), restart.kind, steps, str(restart.lost_steps), lost]


def _restarts(restarts: tuple[Restart, ...]) -> str:
    rows = [_restart_row(restart, printable(restart.run), "->") for restart in restarts[:MOST_ROWS]]
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
    if attempt.waiting:
        lines.append(f"    waits for: {attempt.waiting.kind}")
        lines += [f"      {evidence_text(item)}" for item in attempt.waiting.evidence]
    lines += [f"    note: {printable(note)}" for note in attempt.notes]
    lines += [f"    log: {printable(source)}" for source in attempt.sources]
    return lines


def evidence_text(evidence: Evidence) -> str:
    moment = f" at {times.iso(evidence.time)}" if evidence.time is not None else ""
    words = f": {printable(evidence.message)}" if evidence.message else ""
    return f"{evidence.source} {printable(evidence.reason)}{moment}{words}"


# --- Markdown ---------------------------------------------------------------------------------------------------


def to_markdown(report: DiagnosisReport) -> str:
    """For an issue or a pull request."""
    parts = [
        _md_jobs(report),
        _md_nodes(report),
        _md_incidents(report),
        _md_restarts(report),
        _md_findings(report),
        _md_rest(report),
    ]
    return "\n\n".join(filter(None, parts)) or "Nothing to report: no jobs and no nodes."


def _md_table(columns: list[str], rows: list[list[str]], right: tuple[int, ...] = ()) -> str:
    align = "|".join("---:" if index in right else "---" for index in range(len(columns)))
    return "\n".join([f"| {' | '.join(columns)} |", f"|{align}|", *[f"| {' | '.join(row)} |" for row in rows]])


def _md_jobs(report: DiagnosisReport) -> str:
    if not report.jobs:
        return ""
    rows = [
        [
            _code(job.name),
            attempts_text(job),
            job.outcome,
            " → ".join(_code(node) for node in job.nodes) or "?",
            _md(causes_text(job)),
            times.short(job.since),
        ]
        for job in sorted(report.jobs, key=lambda job: not troubled(job))[:MOST_MARKDOWN_ROWS]
    ]
    parts = ["## Retried jobs and their nodes"]
    parts += [
        f"{_retried(report)}; nodes: {levels_text(report) or 'none known'}.",
        _md_table(JOB_COLUMNS, rows, (1,)),
    ]
    if len(report.jobs) > len(rows):
        parts.append(f"... and {len(report.jobs) - len(rows)} more jobs.")
    return "\n\n".join(parts)


def _md_nodes(report: DiagnosisReport) -> str:
    shown = [verdict for verdict in report.verdicts if verdict.level in (Level.BAD, Level.SUSPECT)]
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
    lines = [f"- {_md(_incident_text(incident))}" for incident in report.incidents[:MOST_MARKDOWN_ROWS]]
    return "\n".join(["Incidents of many nodes at once:", "", *lines]) if lines else ""


def _md_restarts(report: DiagnosisReport) -> str:
    rows = [_restart_row(item, _code(item.run), "→") for item in report.restarts[:MOST_MARKDOWN_ROWS]]
    return f"## Restarts seen in metrics\n\n{_md_table(RESTART_COLUMNS, rows, (4, 5))}" if rows else ""


def _md_findings(report: DiagnosisReport) -> str:
    lines = [
        f"- {_code(finding.path)}: {_md(finding.evidence.message or finding.evidence.reason)}"
        for finding in report.prs_evidence[:MOST_MARKDOWN_ROWS]
    ]
    return "\n".join(["In the jobs' own files:", "", *lines]) if lines else ""


def _md_rest(report: DiagnosisReport) -> str:
    skipped = [f"- {number} {_md(reason)}" for reason, number in sorted(report.stats.skipped.items())]
    parts = ["\n".join(["Not used:", "", *skipped])] if skipped else []
    return "\n\n".join([*parts, *map(_md, report.notes)])


_MARKUP = re.compile(r"([\\`*_{}\[\]<>|#~])")


def _md(value: str) -> str:
    return _MARKUP.sub(r"\\\1", printable(value))


def _code(value: str) -> str:
    """In backticks if that is safe in a table; escaped otherwise."""
    value = printable(value)
    return _md(value) if "`" in value or "|" in value else f"`{value}`"
