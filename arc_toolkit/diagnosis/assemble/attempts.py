"""Grouped logs and pods become attempts, with node and outcome, and a summary per job.

Why an attempt ended is decided afterwards, in passes.py.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby, islice
from typing import NamedTuple

from arc_toolkit.diagnosis import identities, signals
from arc_toolkit.diagnosis.assemble import waiting
from arc_toolkit.diagnosis.assemble.attempt_evidence import AttemptContext
from arc_toolkit.diagnosis.assemble.grouping import group
from arc_toolkit.diagnosis.assemble.log_evidence import NOTICED
from arc_toolkit.diagnosis.assemble.matching import AttemptDraft, JobGroup
from arc_toolkit.diagnosis.model import (
    Attempt,
    CauseKind,
    FileEvidence,
    Job,
    RunOutcome,
    Waiting,
)
from arc_toolkit.diagnosis.read.cluster_index import ClusterIndex, NodePlace
from arc_toolkit.diagnosis.read.log_endings import LogEndingKind
from arc_toolkit.diagnosis.read.pod_states import PodState
from arc_toolkit.diagnosis.read.scan import LogScan
from arc_toolkit.diagnosis.read.volcano import GangState, gang_of, gangs

ENDED = frozenset({*LogEndingKind, NOTICED})  # what is evidence of the end itself
# AzureML numbers the processes of a gang from the first rank on; how many a rank has is unknown.
FIRST_PROCESS = re.compile(r"_process_0+\.txt$")
FIRST_RANKS = ("master-0", "chief-0", "launcher-0", "worker-0")
_PHASES = ("Pending", "Running", "Succeeded", "Failed")
_WORST_FIRST = (
    RunOutcome.FAILED,
    RunOutcome.RUNNING,
    RunOutcome.WAITING,
    RunOutcome.UNKNOWN,
    RunOutcome.SUCCEEDED,
)


class Assembly(NamedTuple):
    """The attempts without causes, what is known of those that failed, and the jobs by name."""

    attempts: list[Attempt]  # in order of job and number
    failures: list[AttemptContext | None]  # one entry per attempt
    groups: dict[str, JobGroup]


def build(
    scans: Iterable[LogScan], cluster: ClusterIndex, file_evidence: Sequence[FileEvidence] = ()
) -> Assembly:
    gang_states = gangs(cluster)
    groups = group(scans, cluster, gang_states, file_evidence)
    assembly = Assembly([], [], groups)
    for name in sorted(groups):
        attempts, failures = _finish(name, groups[name], cluster, gang_states)
        assembly.attempts.extend(attempts)
        assembly.failures.extend(failures)
    return assembly


def jobs(
    attempts: Sequence[Attempt], groups: dict[str, JobGroup], hopeless: frozenset[str]
) -> list[Job]:
    """One record per job, from its attempts, which are in order."""
    result = []
    for name, of_job in groupby(attempts, key=lambda attempt: attempt.job):
        job_attempts = list(of_job)
        moments = [moment for attempt in job_attempts if (moment := attempt.start or attempt.end)]
        group, kinds = groups[name], _kinds(job_attempts)
        nodes = [
            attempt.node for attempt in job_attempts if attempt.node and not attempt.node_truncated
        ]
        result.append(
            Job(
                name=name,
                run_id=group.run_id,
                attempts=len({attempt.number for attempt in job_attempts}),
                outcome=_last_outcome(job_attempts),
                nodes=tuple(dict.fromkeys(nodes) if len(nodes) > 1 else nodes),
                causes=kinds,
                since=min(moments, default=None),
                fails_everywhere=name in hopeless,
                unsure=_unsure(job_attempts) if kinds else (),
                missing=group.missing,
                folder=group.name,
                notes=group.notes,
            )
        )
    return result


def _last_outcome(attempts: list[Attempt]) -> RunOutcome:
    """The worst of the ranks of the last attempt; of a replaced rank the last pod counts."""
    last = attempts[-1]
    if len(attempts) == 1:
        return last.outcome
    final = {attempt.rank: attempt.outcome for attempt in attempts if attempt.number == last.number}
    return next(outcome for outcome in _WORST_FIRST if outcome in final.values())


def _kinds(attempts: list[Attempt]) -> tuple[CauseKind, ...]:
    """Most frequent first; collateral is named only if nothing else is known."""
    kinds = [attempt.cause.kind for attempt in attempts if attempt.cause]
    if len(kinds) < 2:
        return tuple(kinds)
    count = Counter(kinds)
    if len(count) > 1:
        count.pop(CauseKind.GANG, None)
    return tuple(kind for kind, _ in count.most_common())


def _unsure(attempts: list[Attempt]) -> tuple[CauseKind, ...]:
    causes = [
        attempt.cause
        for attempt in attempts
        if attempt.cause and attempt.cause.kind is not CauseKind.UNKNOWN
    ]
    sure = {cause.kind for cause in causes if cause.confidence != "low"}
    return tuple(dict.fromkeys(cause.kind for cause in causes if cause.kind not in sure))


def _node_place(draft: AttemptDraft, cluster: ClusterIndex) -> NodePlace:
    place = cluster.node_place(draft.node) if draft.node else NodePlace()
    return place._replace(vm_instance=None) if draft.truncated else place


def _finish(
    name: str, job: JobGroup, cluster: ClusterIndex, gang_states: list[GangState]
) -> tuple[list[Attempt], list[AttemptContext | None]]:
    drafts = job.drafts
    if not drafts:
        return [], []
    if len(drafts) > 1:
        drafts.sort(key=lambda draft: (draft.number, draft.rank or "", draft.start or 0.0))
    last = drafts[-1].number
    single = len(drafts) == 1 or _one_rank(drafts)
    starts = _starts(drafts) if len(drafts) > 1 else {}
    failures: list[AttemptContext | None] = []
    for draft in drafts:
        printed = _evidence_of(draft, job) if job.file_evidence or draft.own_evidence else []
        ended = any(item.evidence.reason in ENDED for item, _ in printed)
        draft.outcome = _outcome(draft, last, cluster, ended=ended)
        if draft.outcome in (RunOutcome.RUNNING, RunOutcome.WAITING):
            draft.end = None  # a helper may have ended already
        if draft.outcome is RunOutcome.WAITING:
            draft.waiting = _waiting(draft, cluster, gang_states)
        failures.append(
            AttemptContext(
                cluster=cluster,
                node=None if draft.truncated else draft.node,
                pod=draft.pod,
                start=draft.start,
                end=draft.end,
                next_start=starts.get(draft.number + 1),
                failure=draft.failure,
                file_evidence=printed,
                gang_evidence=_gang_evidence(draft, job) if not single else (),
                single_rank=single,
            )
            if draft.outcome is RunOutcome.FAILED or _is_deleted(draft)
            else None
        )
    if len(starts) > 1 and any(
        starts[number + 1] < moment for number, moment in starts.items() if number + 1 in starts
    ):
        job.notes += (
            "clocks disagree: a later attempt seems to start earlier; "
            "the order of the folders is used",
        )
    if last:
        _note_missing(job, last)
    named = (source.parent for draft in drafts if (source := draft.pod or draft.gang))
    family = identities.family(name, job.run_id, named)
    attempts = []
    for draft in drafts:
        place = _node_place(draft, cluster)
        attempts.append(
            Attempt(
                job=name,
                number=draft.number,
                node=draft.node,
                node_truncated=draft.truncated,
                rank=None if single else draft.rank,
                start=draft.start,
                end=draft.end,
                pod=draft.pod.name if draft.pod else None,
                pod_uid=draft.uid,
                pool=place.pool,
                spot=place.spot,
                vm_instance=place.vm_instance,
                outcome=draft.outcome,
                waiting=draft.waiting,
                family=family,
                memory_limit=draft.pod.memory_limit if draft.pod else 0,
                sources=draft.sources,
                notes=draft.notes,
            )
        )
    job.drafts = []  # their memory serves the attempts of the next jobs
    return attempts, failures


def _waiting(
    draft: AttemptDraft, cluster: ClusterIndex, gang_states: list[GangState]
) -> Waiting | None:
    if draft.pod is not None:
        return waiting.pod_waiting(draft.pod, gang_of(draft.pod, gang_states), cluster)
    return waiting.gang_waiting(draft.gang) if draft.gang is not None else None


def _is_deleted(draft: AttemptDraft) -> bool:
    """Its pod was deleted while it ran: evidence may show that it failed."""
    return (
        draft.outcome is RunOutcome.UNKNOWN
        and draft.pod is not None
        and draft.pod.deleted is not None
    )


def _note_missing(job: JobGroup, last: int) -> None:
    """A download may be incomplete, or the first logs deleted."""
    numbers = {draft.number for draft in job.drafts}
    job.missing = last + 1 - len(numbers)
    if job.missing:
        listed = list(islice((number for number in range(last) if number not in numbers), 5))
        word, them = ("attempt", "it") if job.missing == 1 else ("attempts", "them")
        ellipsis = " and more" if job.missing > len(listed) else ""
        job.notes += (
            f"no data about {word} {', '.join(map(str, listed))}{ellipsis}: "
            f"the sources have no logs of {them}",
        )


def _one_rank(drafts: list[AttemptDraft]) -> bool:
    """Not a gang, so the rank is not shown. Some logs name it and others do not."""
    ranks = {draft.rank for draft in drafts}
    return len(ranks) == 1 or (
        len(ranks - {None}) == 1 and len({draft.number for draft in drafts}) == len(drafts)
    )


def _starts(drafts: list[AttemptDraft]) -> dict[int, float]:
    starts: dict[int, float] = {}
    for draft in drafts:
        if draft.start is not None:
            starts[draft.number] = min(draft.start, starts.get(draft.number, draft.start))
    return starts


def _outcome(draft: AttemptDraft, last: int, cluster: ClusterIndex, *, ended: bool) -> RunOutcome:
    """The pod's phase first; without a pod, an attempt that was followed by another one has failed.

    `ended`: its log ends with an error or a notice."""
    pod = draft.pod
    if pod is None and draft.gang is not None:
        return RunOutcome.WAITING
    phase = pod.phase if pod else ""
    if pod is None or phase not in _PHASES:
        lost = pod is not None and bool(pod.disruption or pod.reason or pod.deleted)
        failed = draft.failure or draft.number < last or lost or ended
        return (
            RunOutcome.FAILED if failed and draft.outcome is RunOutcome.UNKNOWN else draft.outcome
        )
    if phase == "Succeeded":
        return RunOutcome.SUCCEEDED
    if phase == "Failed" or pod.reason == "NodeLost" or _main_failed(pod):
        return RunOutcome.FAILED
    # From here on the phase says Running or Pending, but nobody can update it if the node is lost.
    if pod.deleted is not None:
        return RunOutcome.FAILED if pod.disruption or draft.number < last else RunOutcome.UNKNOWN
    if draft.number < last and pod.node and _is_lost(pod.node, cluster):
        return RunOutcome.FAILED
    return RunOutcome.RUNNING if phase == "Running" else RunOutcome.WAITING


def _is_lost(node: str, cluster: ClusterIndex) -> bool:
    listed = cluster.nodes.get(node)
    return cluster.is_gone(node) or (listed is not None and listed.ready is False)


def _main_failed(pod: PodState) -> bool:
    """The job's own container failed while the sidecars still run; nothing restarts it."""
    return any(
        item.name.endswith(signals.MAIN_CONTAINER)
        and ((item.state == "terminated" and item.exit_code) or item.fails_without_code)
        for item in pod.containers
    )


def _evidence_of(draft: AttemptDraft, job: JobGroup) -> list[tuple[FileEvidence, bool]]:
    """The evidence in the job's own files, each with whether it names this node or address.

    Evidence that names another rank is left out.
    """
    result = [(item, True) for item in draft.own_evidence]
    for folder, item in job.file_evidence:
        if folder == _folder(draft):
            ranks = [other for other in job.drafts if other.number == draft.number]
            named = [other for other in ranks if _is_named(item, other)]
            if not named and len(ranks) > 1 and FIRST_PROCESS.search(item.path):
                named = [other for other in ranks if other.rank in FIRST_RANKS][:1]
            if not named or any(other is draft for other in named):
                result.append((item, bool(named)))
    return result


def _gang_evidence(draft: AttemptDraft, job: JobGroup) -> tuple[FileEvidence, ...]:
    return tuple(item for folder, item in job.file_evidence if folder == _folder(draft))


def _folder(draft: AttemptDraft) -> int:
    """The number of its attempt in the paths of files."""
    return draft.number if draft.folder is None else draft.folder


def _is_named(item: FileEvidence, draft: AttemptDraft) -> bool:
    places = {
        draft.node,
        draft.rank,
        *(part for source in draft.sources for part in source.split("/")),
    }
    return item.node is not None and item.node in places
