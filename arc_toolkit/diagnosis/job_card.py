"""One job as a card: what happened, whose fault it was, and what to do next; and groups of jobs.

Pure: a report in, cards out. What to do is a table, data/next_steps.csv: the first row that fits
the outcome, the cause (or what the job waits for), a reason of its evidence, the node and whether
the job fails everywhere. An empty cell fits everything, and `a|b` fits both. The fault is that of
the first fitting row that names one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, lru_cache

from arc_toolkit.diagnosis.model import (
    Attempt,
    CauseKind,
    Confidence,
    DiagnosisReport,
    Evidence,
    EvidenceSource,
    Job,
    RunOutcome,
    Verdict,
    Waiting,
    WaitingFor,
)
from arc_toolkit.diagnosis.report import attempts_by_job
from arc_toolkit.diagnosis.signals import KINDS
from arc_toolkit.resources import data_file
from arc_toolkit.text import printable

GONE = "gone"  # instead of a verdict, of a node that no longer exists
MORE_MEMORY = 1.25  # of the limit that was exceeded: how much is needed is not known
SMALLEST_FAMILY = 3  # jobs of a sweep or pipeline that share a row
SMALLEST_CAUSE = 5  # other jobs that ended in the same way and share a row
LONGEST_DETAIL = 120  # characters of what Kubernetes says about a pod that waits

WAITING = {
    WaitingFor.UNSCHEDULABLE: "waits for a node that fits",
    WaitingFor.POD_GROUP: "waits until its whole gang fits",
    WaitingFor.QUOTA: "waits for quota",
    WaitingFor.ADMISSION: "waits: its pod was refused",
    WaitingFor.IMAGE: "waits for its image",
    WaitingFor.MOUNT: "waits for a volume",
    WaitingFor.SANDBOX: "waits for its sandbox",
    WaitingFor.CONTAINER: "waits for a container to start",
    WaitingFor.UNKNOWN: "waits, reason unknown",
}


class Fault(StrEnum):
    """Whose fault it was."""

    JOB = "job"
    NODE = "node"
    SETUP = "setup"  # image, secret, instance type, extension
    CLUSTER = "cluster"  # drained, scaled down, preempted, full
    AZURE = "azure"
    NOBODY = "nobody"
    UNKNOWN = "unknown"


FAULTS = {
    Fault.JOB: "the job's own",
    Fault.NODE: "the node's",
    Fault.SETUP: "the set-up's: image, secret, instance type or extension",
    Fault.CLUSTER: "the cluster's: no room, or the node was needed for something else",
    Fault.AZURE: "Azure's: spot VMs can be evicted at any time",
    Fault.NOBODY: "nobody's",
    Fault.UNKNOWN: "not known",
}


class NextStep(StrEnum):
    """What the person whose job it is can do."""

    ANOTHER_TYPE = "another-instance-type"
    FIX_CODE = "fix-code"
    FIX_COMMAND = "fix-command"  # the command, the limits or the inputs of the job
    FIX_SETUP = "fix-setup"
    AVOID_NODE = "avoid-node"
    RESUBMIT = "resubmit"
    ASK_OWNER = "ask-owner"  # of the cluster
    WAIT = "wait"
    FIND_EVIDENCE = "find-evidence"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class StepRow:
    """A row of data/next_steps.csv."""

    outcome: str
    cause: str
    reason: str
    node: str
    everywhere: str
    fault: str
    step: str
    text: str


@cache
def step_rows() -> tuple[StepRow, ...]:
    import csv

    with data_file("next_steps.csv").open(encoding="utf-8", newline="") as stream:
        return tuple(StepRow(**row) for row in csv.DictReader(stream))


@lru_cache(1 << 10)  # a fleet has many jobs and few situations
def _fitting_rows(
    outcome: str, cause: str, reasons: frozenset[str], node: str, everywhere: bool
) -> list[StepRow]:
    return [
        row
        for row in step_rows()
        if _fits(row.outcome, {outcome})
        and _fits(row.cause, {cause})
        and _fits(row.reason, reasons)
        and _fits(row.node, {node})
        and (everywhere or not row.everywhere)
    ]


def _fits(cell: str, values: Set[str]) -> bool:
    return not cell or not values.isdisjoint(cell.split("|"))


@dataclass(frozen=True, slots=True)
class JobCard:
    """The answer for the person whose job it is."""

    happened: str  # one sentence
    nodes: tuple[Verdict, ...]  # the nodes of its failed attempts, otherwise all of its nodes
    fault: Fault
    confidence: Confidence
    step: NextStep
    advice: str  # the step as a sentence
    log: str | None  # the file to open


@dataclass(frozen=True, slots=True)
class GroupedJobs:
    """Jobs that are one row: a sweep or pipeline, or jobs that ended in the same way."""

    name: str
    jobs: tuple[Job, ...]
    is_family: bool

    @property
    def outcomes(self) -> dict[RunOutcome, int]:
        return dict(Counter(job.outcome for job in self.jobs))

    @property
    def causes(self) -> dict[CauseKind, int]:
        """The most frequent first."""
        kinds = Counter(kind for job in self.jobs for kind in job.causes)
        return dict(kinds.most_common())


def job_cards(report: DiagnosisReport) -> dict[str, JobCard]:
    """The card of each job, by its name."""
    grouped = attempts_by_job(report)
    verdicts = {verdict.node: verdict for verdict in report.verdicts}
    return {job.name: job_card(job, grouped.get(job.name, []), verdicts) for job in report.jobs}


def job_card(job: Job, attempts: Sequence[Attempt], verdicts: dict[str, Verdict]) -> JobCard:
    """The card: `OOMKilled` in the last attempt of a failed job is the fault of the job, and the
    next step is another instance type."""
    decisive = _decisive(job, attempts)
    cause = decisive.cause if decisive else None
    waiting = decisive.waiting if decisive and job.outcome is RunOutcome.WAITING else None
    reason = waiting or cause
    evidence: tuple[Evidence, ...] = reason.evidence if reason else ()
    verdict = verdicts.get(decisive.node or "") if decisive else None
    kind = reason.kind if reason else ""
    level = (GONE if verdict.gone else verdict.level) if verdict else ""
    reasons = frozenset(item.reason for item in evidence)
    rows = _fitting_rows(job.outcome, kind, reasons, level, job.fails_everywhere)
    log = _log(decisive)
    advice = rows[0].text.format(
        node=(decisive.node if decisive else None) or "its node",
        memory=_memory(decisive),
        log=log or "user_logs/std_log.txt of the job (`az ml job download --all`)",
        progress="it runs" if job.outcome is RunOutcome.RUNNING else "it succeeded",
    )
    if reason is None and job.outcome in (RunOutcome.SUCCEEDED, RunOutcome.RUNNING):
        fault = Fault.NOBODY
    else:
        fault = Fault(next(row.fault for row in rows if row.fault))
    failed_on = [item.node for item in attempts if item.outcome is RunOutcome.FAILED]
    names = dict.fromkeys(node for node in failed_on or job.nodes if node)
    return JobCard(
        happened=_happened(job, decisive),
        nodes=tuple(verdicts[node] for node in names if node in verdicts),
        fault=fault,
        confidence=cause.confidence if cause else "high" if evidence or not kind else "low",
        step=NextStep(rows[0].step),
        advice=advice,
        log=log,
    )


def _decisive(job: Job, attempts: Sequence[Attempt]) -> Attempt | None:
    """The attempt that decides: of the last failure the rank that failed first, or a pod that waits."""
    if job.outcome is RunOutcome.WAITING:
        return next((item for item in reversed(attempts) if item.waiting), None)
    failed = [item for item in attempts if item.cause]
    if not failed:
        return attempts[-1] if attempts else None
    last = max(item.number for item in failed)
    return min(
        (item for item in failed if item.number == last),
        key=lambda item: (
            item.cause is not None and item.cause.kind is CauseKind.GANG,
            item.end if item.end is not None else float("inf"),
        ),
    )


def _happened(job: Job, decisive: Attempt | None) -> str:
    number = "its only attempt" if job.attempts == 1 else f"attempt {job.attempts}"
    if job.missing:
        number = f"attempt {job.attempts + job.missing}"
    cause = decisive.cause if decisive else None
    meaning = KINDS[cause.kind].advice if cause else ""
    place = f" on {decisive.node}" if decisive and decisive.node else ""
    if job.outcome is RunOutcome.WAITING:
        waits = waits_for(decisive.waiting) if decisive and decisive.waiting else ""
        return f"It has not started{': it ' * bool(waits)}{waits}."
    if job.outcome is RunOutcome.FAILED:
        return f"It failed in {number}{place}: {meaning or 'the reason is not known'}."
    words = {
        RunOutcome.SUCCEEDED: f"It succeeded in {number}",
        RunOutcome.RUNNING: f"It runs, in {number}",
    }.get(job.outcome, f"How it ended is not known; {number} is the last one here")
    return words + (f"; before that, it failed{place}: {meaning}." if cause else ".")


def waits_for(waiting: Waiting) -> str:
    """What it waits for, and the first evidence in a few words."""
    detail = waiting_detail(waiting)
    return WAITING[waiting.kind] + (f" ({detail})" if detail else "")


def waiting_detail(waiting: Waiting) -> str:
    if not waiting.evidence:
        return ""
    text = printable(waiting.evidence[0].message or waiting.evidence[0].reason)
    return text if len(text) <= LONGEST_DETAIL else text[:LONGEST_DETAIL].rsplit(" ", 1)[0] + " ..."


def _memory(attempt: Attempt | None) -> str:
    if attempt is None or not attempt.memory_limit:
        return "more memory"
    limit = attempt.memory_limit / 2**30
    return f"at least {MORE_MEMORY * limit:.1f} GiB of memory (its limit was {limit:.1f} GiB)"


def _log(decisive: Attempt | None) -> str | None:
    """What the program printed at its end, otherwise a log of the attempt."""
    if decisive is None:
        return None
    if decisive.cause:
        for item in decisive.cause.evidence:
            if item.source is EvidenceSource.LOG and item.path:
                return item.path
    return next(iter(decisive.sources), None)


def job_groups(report: DiagnosisReport) -> list[GroupedJobs]:
    """The jobs that share a row, in the order of the report; jobs in no group have a row each."""
    families: dict[str, list[Job]] = {}
    of_job = {attempt.job: attempt.family for attempt in report.attempts}
    waits = {item.job: item.waiting.kind for item in report.attempts if item.waiting}
    for job in report.jobs:
        families.setdefault(of_job.get(job.name) or job.name, []).append(job)
    groups = []
    endings: dict[str, list[Job]] = {}
    for family, members in families.items():
        if len(members) >= SMALLEST_FAMILY:
            groups.append(GroupedJobs(family, tuple(members), is_family=True))
            continue
        for job in members:
            name = f"{job.outcome}{', retried' * job.retried}"
            causes = [KINDS[kind].label for kind in job.causes]
            if job.outcome is RunOutcome.WAITING and job.name in waits:
                causes.append(WAITING[waits[job.name]])
            endings.setdefault(": ".join(filter(None, [name, ", ".join(causes)])), []).append(job)
    for name, members in endings.items():
        if len(members) >= SMALLEST_CAUSE:
            groups.append(GroupedJobs(name, tuple(members), is_family=False))
    return groups
