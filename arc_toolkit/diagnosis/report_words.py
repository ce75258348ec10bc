"""The words of the report that every format for people shares: names, causes, what a pod waits for, counts. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from arc_toolkit.diagnosis import times
from arc_toolkit.diagnosis.model import (
    Attempt,
    Cause,
    CauseKind,
    DiagnosisReport,
    Evidence,
    Incident,
    Job,
    Restart,
    RunOutcome,
    Verdict,
    Waiting,
    WaitingFor,
)
from arc_toolkit.diagnosis.report import levels
from arc_toolkit.diagnosis.signals import KINDS
from arc_toolkit.text import plural, printable

JOB_COLUMNS = ["Job", "Attempts", "Ended", "Nodes", "Cause", "Since (UTC)"]
NODE_COLUMNS = ["Node", "Verdict", "Failed (95 %)", "Pool", "Why"]
RESTART_COLUMNS = ["Run", "Time (UTC)", "Kind", "Step", "Lost steps", "Lost time"]
MOST_AVOIDED = 20  # bad nodes in a soft anti-affinity: a pod still needs a place
MOST_STEPS = 3  # attempts whose nodes are named in one cell of a table
LONGEST_DETAIL = (
    120  # characters of what Kubernetes says about a pod that waits, in one cell of a table
)


@dataclass(frozen=True, slots=True)
class WaitingTraits:
    """What a pod waits for, in words, and what to check."""

    label: str
    advice: str


WAITING: dict[WaitingFor, WaitingTraits] = {
    WaitingFor.UNSCHEDULABLE: WaitingTraits(
        "waits for a node that fits",
        "compare what the instance type requests with what the nodes have free",
    ),
    WaitingFor.POD_GROUP: WaitingTraits(
        "waits until its whole gang fits",
        "Volcano starts all pods of a job together: look at its PodGroup",
    ),
    WaitingFor.QUOTA: WaitingTraits(
        "waits for quota",
        "look at the resource quota of the namespace and the capacity of the queue",
    ),
    WaitingFor.ADMISSION: WaitingTraits(
        "waits: its pod was refused",
        "the API server or a webhook refused the pod: its message says why",
    ),
    WaitingFor.IMAGE: WaitingTraits(
        "waits for its image", "check the name of the image, the registry, and the pull secret"
    ),
    WaitingFor.MOUNT: WaitingTraits(
        "waits for a volume",
        "check the volumes and secrets of the pod, and the driver that mounts them",
    ),
    WaitingFor.SANDBOX: WaitingTraits(
        "waits for its sandbox", "check the network plugin and the container runtime of the node"
    ),
    WaitingFor.CONTAINER: WaitingTraits(
        "waits for a container to start",
        "an init container has not ended, or a container cannot be created",
    ),
    WaitingFor.UNKNOWN: WaitingTraits("waits, reason unknown", "look at the events of the pod"),
}


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
        f"{', '.join(parts)}: {plural(len(report.attempts), 'attempt')} of {plural(len(report.jobs), 'job')}, "
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
    """The causes, and what the job waits for. A cause with only weak evidence has a question mark."""
    causes = ", ".join(KINDS[kind].label + "?" * (kind in job.unsure) for kind in job.causes)
    words = [causes, waits_text(job, attempts), "fails everywhere" if job.fails_everywhere else ""]
    return "; ".join(filter(None, words))


def waits_text(job: Job, attempts: Sequence[Attempt]) -> str:
    """What the last attempt of a job, or a part of its gang, waits for, with what Kubernetes says about it."""
    if job.outcome not in (RunOutcome.WAITING, RunOutcome.RUNNING):
        return ""
    number = max((attempt.number for attempt in attempts), default=0)
    last = [attempt for attempt in attempts if attempt.number == number]
    waits = [attempt.waiting for attempt in last if attempt.waiting]
    labels = dict.fromkeys(WAITING[waiting.kind].label for waiting in waits)
    details = [detail for waiting in waits if (detail := waiting_detail(waiting))]
    part = f"{len(waits)} of {len(last)} pods: " if 0 < len(waits) < len(last) else ""
    return part + " and ".join(labels) + (f" ({details[0]})" if details else "")


def waiting_detail(waiting: Waiting) -> str:
    """The first evidence in a few words."""
    if not waiting.evidence:
        return ""
    text = printable(waiting.evidence[0].message or waiting.evidence[0].reason)
    return text if len(text) <= LONGEST_DETAIL else text[:LONGEST_DETAIL].rsplit(" ", 1)[0] + " ..."


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
    return f"{count} {word} of {f'pool {printable(incident.pool)}' if incident.pool else 'several pools'}"


def incident_text(incident: Incident) -> str:
    when, label = span_text(incident.start, incident.end), KINDS[incident.kind].label
    words = f": {printable(incident.reason)}" if incident.reason else ""
    return f"{when}, {incident_where(incident)}, {label}{words}"


def interval_text(verdict: Verdict) -> str:
    if not verdict.attempts or verdict.interval is None:
        return "-"
    low, high = verdict.interval
    return f"{verdict.failures} of {verdict.attempts} ({100 * low:.0f}-{100 * high:.0f} %)"


@dataclass(frozen=True, slots=True)
class RouteStep:
    """The nodes of one attempt, or of several in a row: the names to show, and what is left to say about them."""

    nodes: list[str]
    note: str = ""


def route(attempts: Sequence[Attempt], ranks: int) -> tuple[list[RouteStep], int]:
    """The nodes of each attempt in turn, at most `ranks` of a gang, and how many steps were left out.

    The rank that failed first comes before those that it took down; pods that have not started have no node yet.
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
        steps.append(RouteStep(nodes[:ranks], ", ".join(notes)))
    return steps, len(runs) - len(steps)


def route_text(
    attempts: Sequence[Attempt], arrow: str = "->", style: Callable[[str], str] = printable
) -> str:
    """`a -> b (2 times) -> c (+3 nodes)`."""
    steps, left_out = route(attempts, 1)
    words = [
        ", ".join(map(style, step.nodes)) + (f" ({step.note})" if step.note else "")
        for step in steps
    ]
    return f" {arrow} ".join(words) + (f" +{left_out}" if left_out else "") or "-"


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
