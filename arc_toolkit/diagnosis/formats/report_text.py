"""The report for a terminal: an overview, or one job in detail, and its words. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from arc_toolkit import resources
from arc_toolkit.diagnosis import times
from arc_toolkit.diagnosis.job_card import (
    FAULTS,
    WAITING,
    Fault,
    GroupedJobs,
    JobCard,
    job_cards,
    job_groups,
    waiting_detail,
)
from arc_toolkit.diagnosis.judge.suggestions import anti_affinity
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
    UnevenPool,
    Verdict,
)
from arc_toolkit.diagnosis.report import NAMED_LEVELS, attempts_by_job, is_troubled, levels
from arc_toolkit.diagnosis.signals import KINDS
from arc_toolkit.output.table import Style, table
from arc_toolkit.text import plural, printable

JOB_COLUMNS = ["Job", "Attempts", "Ended", "Nodes", "Cause", "Since (UTC)"]
NODE_COLUMNS = ["Node", "Verdict", "Failed (95 %)", "Pool", "Why"]
RESTART_COLUMNS = ["Run", "Time (UTC)", "Kind", "Step", "Lost steps", "Lost time"]
MOST_AVOIDED = 20  # bad nodes in a soft anti-affinity: a pod still needs a place
MOST_STEPS = 3  # attempts whose nodes are named in one cell of a table


def summary(report: DiagnosisReport) -> str:
    """One line: what was read, and the result."""
    stats = report.stats
    retried = sum(job.retried for job in report.jobs)
    parts = []
    if stats.pods + stats.nodes + stats.events:
        parts.append(
            ", ".join(plural(getattr(stats, f"{word}s"), word) for word in ("pod", "node", "event"))
        )
    if stats.metric_runs:
        parts.append(
            f"{plural(stats.metric_points, 'point')} of {plural(stats.metric_runs, 'run')}"
        )
    if stats.files_read or not parts:
        parts.insert(0, f"{plural(stats.files_read, 'log')} read ({size(stats.bytes_read)})")
    return (
        f"{', '.join(parts)}: {plural(len(report.attempts), 'attempt')} "
        f"of {plural(len(report.jobs), 'job')}, "
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


def causes_text(job: Job, attempts: Sequence[Attempt] = ()) -> str:
    """The causes, and what the job waits for. Weak evidence has a question mark."""
    causes = ", ".join(KINDS[kind].label + "?" * (kind in job.unsure) for kind in job.causes)
    words = [causes, waits_text(job, attempts), "fails everywhere" if job.fails_everywhere else ""]
    return "; ".join(filter(None, words))


def waits_text(job: Job, attempts: Sequence[Attempt]) -> str:
    """What the last attempt of a job, or part of its gang, waits for, in Kubernetes' words."""
    if job.outcome not in (RunOutcome.WAITING, RunOutcome.RUNNING):
        return ""
    number = max((attempt.number for attempt in attempts), default=0)
    last = [attempt for attempt in attempts if attempt.number == number]
    waits = [attempt.waiting for attempt in last if attempt.waiting]
    labels = dict.fromkeys(WAITING[waiting.kind] for waiting in waits)
    details = [detail for waiting in waits if (detail := waiting_detail(waiting))]
    part = f"{len(waits)} of {len(last)} pods: " if 0 < len(waits) < len(last) else ""
    return part + " and ".join(labels) + (f" ({details[0]})" if details else "")


def span_text(start: float, end: float) -> str:
    """`2026-07-01 10:00 to 10:20`: the day once if both are on it."""
    first, last = times.short(start), times.short(end)
    if first == last:
        return first
    return f"{first} to {last[11:] if first[:10] == last[:10] else last}"


def incident_where(incident: Incident) -> str:
    """`40 of 100 nodes of pool gpu`."""
    count = (
        f"{len(incident.nodes)} of {incident.pool_size}"
        if incident.pool_size
        else str(len(incident.nodes))
    )
    word = "node" if count == "1" else "nodes"
    pool = f"pool {printable(incident.pool)}" if incident.pool else "several pools"
    return f"{count} {word} of {pool}"


def uneven_text(pool: UnevenPool) -> str:
    """`Pool gpu is uneven: 10 of 20 nodes ...`."""
    name = f"Pool {printable(pool.pool)}" if pool.pool else "The pool"
    return f"{name} is uneven: {printable(pool.reason)}"


def names_text(nodes: Sequence[str]) -> str:
    """The first of many nodes, and how many more there are."""
    others = f" and {len(nodes) - MOST_AVOIDED} more" if len(nodes) > MOST_AVOIDED else ""
    return ", ".join(map(printable, nodes[:MOST_AVOIDED])) + others


def incident_text(incident: Incident) -> str:
    span, label = span_text(incident.start, incident.end), KINDS[incident.kind].label
    words = f": {printable(incident.reason)}" if incident.reason else ""
    return f"{span}, {incident_where(incident)}, {label}{words}"


def interval_text(verdict: Verdict) -> str:
    if not verdict.attempts or verdict.interval is None:
        return "-"
    low, high = verdict.interval
    return f"{verdict.failures} of {verdict.attempts} ({100 * low:.0f}-{100 * high:.0f} %)"


def route_text(
    attempts: Sequence[Attempt],
    arrow: str = "->",
    style: Callable[[str], str] = printable,
    ranks: int = 1,
) -> str:
    """The nodes of each attempt in turn: `a -> b (2 times) -> c (+3 nodes)`.

    At most `ranks` of a gang are named, the rank that failed first before those that it took down.
    Pods that have not started have no node yet.
    """
    numbers: dict[int, dict[str, None]] = {}
    for attempt in sorted(attempts, key=lambda item: (item.number, is_collateral(item))):
        if attempt.node or attempt.outcome is not RunOutcome.WAITING:
            name = (attempt.node or "?") + "..." * attempt.node_truncated
            numbers.setdefault(attempt.number, {})[name] = None
    runs: list[tuple[list[str], int]] = []
    for nodes in map(list, numbers.values()):
        if runs and runs[-1][0] == nodes != ["?"]:
            runs[-1] = nodes, runs[-1][1] + 1
        else:
            runs.append((nodes, 1))
    steps = []
    for nodes, count in runs[:MOST_STEPS]:
        notes = [f"{count} times"] if count > 1 else []
        notes += [f"+{plural(len(nodes) - ranks, 'node')}"] if len(nodes) > ranks else []
        names = ", ".join(map(style, nodes[:ranks]))
        steps.append(f"{names} ({', '.join(notes)})" if notes else names)
    left_out = len(runs) - len(steps)
    return f" {arrow} ".join(steps) + (f" +{left_out}" if left_out else "") or "-"


def is_collateral(attempt: Attempt) -> bool:
    return attempt.cause is not None and attempt.cause.kind is CauseKind.GANG


def levels_text(report: DiagnosisReport) -> str:
    """`1 bad, 3 ok`: the number of nodes with each verdict."""
    return ", ".join(f"{number} {level}" for level, number in levels(report).items() if number)


def evidence_text(evidence: Evidence) -> str:
    moment = f" at {times.iso(evidence.time)}" if evidence.time is not None else ""
    words = f": {printable(evidence.message)}" if evidence.message else ""
    return f"{evidence.source} {printable(evidence.reason)}{moment}{words}"


def retried_text(report: DiagnosisReport) -> str:
    return f"{sum(job.retried for job in report.jobs)} of {plural(len(report.jobs), 'job')} retried"


def restart_row(restart: Restart, name: str, arrow: str) -> list[str]:
    steps = (
        "-" if restart.last_step is None else f"{restart.last_step} {arrow} {restart.first_step}"
    )
    lost_steps = "-" if restart.lost_steps is None else str(restart.lost_steps)
    kind = f"{restart.kind}?" if restart.confidence == "low" else restart.kind
    return [
        name,
        times.short(restart.time),
        kind,
        steps,
        lost_steps,
        times.duration(restart.lost_seconds),
    ]


MOST_ROWS = 50
MOST_OTHER_NODES = 10

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


def overview(report: DiagnosisReport, style: Style = plain, ungrouped: bool = False) -> str:
    """Jobs, incidents, nodes by verdict, suggestions, and what was not used."""
    parts = [
        _headline(report, style),
        _jobs(report, style, ungrouped),
        _restarts(report.restarts),
        _incidents(report),
        _uneven_pools(report),
    ]
    parts += [_nodes(report, style), _suggestions(report, style), _findings(report), _rest(report)]
    return "\n\n".join(filter(None, parts)) or "nothing to report: no jobs and no nodes"


def detail(report: DiagnosisReport, style: Style = plain) -> str:
    """The card of each job, and its attempts with their evidence."""
    grouped, cards = attempts_by_job(report), job_cards(report)
    jobs = []
    for job in report.jobs:
        attempts = grouped[job.name]
        jobs.append((job, card_lines(cards[job.name], route_text(attempts)), attempts))
    text = resources.render(
        "report_jobs.txt.j2",
        jobs=jobs,
        style=style,
        cause_text=cause_text,
        causes_text=causes_text,
        evidence_text=evidence_text,
        kinds=KINDS,
        node_text=node_text,
        plural=plural,
        short=times.short,
        waiting=WAITING,
    )
    parts = [
        text.rstrip("\n"),
        _restarts(report.restarts),
        _incidents(report),
        _uneven_pools(report),
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


def job_rows(report: DiagnosisReport, ungrouped: bool = False) -> list[Job | GroupedJobs]:
    """One row per sweep, pipeline, ending of many jobs, and other job; the worst first."""
    groups = [] if ungrouped else job_groups(report)
    members = {job.name for group in groups for job in group.jobs}
    rows: list[Job | GroupedJobs] = [*groups]
    rows += [job for job in report.jobs if job.name not in members]

    def trouble(row: Job | GroupedJobs) -> tuple[bool, bool, int]:
        jobs = row.jobs if isinstance(row, GroupedJobs) else (row,)
        return (
            not any(map(is_troubled, jobs)),
            all(job.outcome is not RunOutcome.FAILED for job in jobs),
            -max(job.attempts for job in jobs),
        )

    return sorted(rows, key=trouble)


def job_cells(
    row: Job | GroupedJobs,
    grouped: dict[str, list[Attempt]],
    name_style: Callable[[str], str] = printable,
    arrow: str = "->",
) -> list[str]:
    """A row of the table of jobs."""
    if isinstance(row, Job):
        attempts = grouped.get(row.name, [])
        return [
            name_style(row.name),
            attempts_text(row),
            row.outcome,
            route_text(attempts, arrow, name_style),
            causes_text(row, attempts) or "-",
            times.short(row.since),
        ]
    count = plural(len(row.jobs), "job")
    nodes = {node for job in row.jobs for node in job.nodes}
    starts = [job.since for job in row.jobs if job.since is not None]
    return [
        f"{name_style(row.name)} ({count})" if row.is_family else f"({count})",
        str(sum(job.attempts for job in row.jobs)),
        outcomes_text(row),
        plural(len(nodes), "node"),
        group_causes_text(row),
        times.short(min(starts, default=None)),
    ]


def outcomes_text(group: GroupedJobs) -> str:
    """`12 failed, 28 succeeded`."""
    outcomes = group.outcomes
    if len(outcomes) == 1:
        return next(iter(outcomes))
    return ", ".join(f"{outcomes[word]} {word}" for word in RunOutcome if word in outcomes)


def group_causes_text(group: GroupedJobs) -> str:
    if not group.is_family:
        return group.name.partition(": ")[2] or "-"
    words = [f"{KINDS[kind].label} ({count})" for kind, count in group.causes.items()]
    return ", ".join(words) or "-"


def _jobs(report: DiagnosisReport, style: Style, ungrouped: bool) -> str:
    if not report.jobs:
        return ""
    grouped = attempts_by_job(report)
    rows = job_rows(report, ungrouped)
    cells = [job_cells(row, grouped) for row in rows[:MOST_ROWS]]
    for line, row in zip(cells, rows, strict=False):
        if isinstance(row, Job):
            line[2] = style(line[2], *_COLORS[row.outcome])
    lines = [_table(JOB_COLUMNS, cells, right=(1,))]
    hidden = rows[MOST_ROWS:]
    count = sum(len(row.jobs) if isinstance(row, GroupedJobs) else 1 for row in hidden)
    if hidden:
        lines.append(f"... and {plural(count, 'more job')} (--format csv has them all)")
    if any(isinstance(row, GroupedJobs) for row in rows):
        lines.append("(--all-jobs has one row per job; --job NAME shows a job or a sweep)")
    return "\n".join(lines)


def _nodes(report: DiagnosisReport, style: Style) -> str:
    if not report.verdicts:
        return ""
    listed = [verdict for verdict in report.verdicts if verdict.level in NAMED_LEVELS][:MOST_ROWS]
    unnamed = [verdict for verdict in report.verdicts if verdict.level not in NAMED_LEVELS]
    if len(report.verdicts) <= MOST_ROWS:
        listed += unnamed[: max(0, MOST_OTHER_NODES - len(listed))]
    rows = [
        [
            printable(verdict.node),
            style(verdict.level, *_COLORS[verdict.level]),
            interval_text(verdict),
            printable(verdict.pool or "-") + (" (spot)" if verdict.spot else ""),
            printable(verdict.reason),
        ]
        for verdict in listed
    ]
    return f"Nodes: {levels_text(report)}" + ("\n" + _table(NODE_COLUMNS, rows) if rows else "")


def _incidents(report: DiagnosisReport) -> str:
    lines = [f"  {incident_text(incident)}" for incident in report.incidents[:MOST_ROWS]]
    return (
        "\n".join(["Incidents: many nodes at the same time, so no node is blamed", *lines])
        if lines
        else ""
    )


def _uneven_pools(report: DiagnosisReport) -> str:
    return "\n".join(
        f"{uneven_text(pool)}\n  fail more often: {names_text(pool.worse)}"
        for pool in report.uneven_pools[:MOST_ROWS]
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
        f"  {printable(finding.path)}: "
        f"{printable(finding.evidence.message or finding.evidence.reason)}"
        for finding in report.prs_evidence[:MOST_ROWS]
    ]
    return "\n".join(["In the jobs' own files", *lines]) if lines else ""


def _rest(report: DiagnosisReport) -> str:
    lines = [f"  {count} {reason}" for reason, count in Counter(report.stats.skipped).most_common()]
    if lines:
        lines.insert(0, "Not used, or only partly (--format json lists the files)")
    return "\n".join([*lines, *map(printable, report.notes)])


def card_lines(card: JobCard, route: str) -> list[tuple[str, str]]:
    """The card as pairs of a question and its answer."""
    sure = "" if card.fault in (Fault.NOBODY, Fault.UNKNOWN) else f" ({card.confidence} confidence)"
    return [
        ("what happened", card.happened),
        ("what to do", card.advice),
        ("whose fault", FAULTS[card.fault] + sure),
        ("is the node bad", _nodes_answer(card.nodes)),
        ("where", route),
        ("log to open", card.log or "none here"),
    ]


def _nodes_answer(verdicts: Sequence[Verdict]) -> str:
    """`yes: NODE, because ...`, for the worst of the nodes."""
    worst = min(verdicts, key=lambda verdict: list(Level).index(verdict.level), default=None)
    if worst is None:
        return "not known"
    words = {Level.BAD: "yes", Level.SUSPECT: "perhaps", Level.NOT_ENOUGH_DATA: "not known"}
    others = ""
    if len(verdicts) > 1 and worst.level not in words:
        others = f" and {plural(len(verdicts) - 1, 'other node')}"
    return f"{words.get(worst.level, 'no')}: {worst.node}{others}: {worst.reason or worst.level}"
