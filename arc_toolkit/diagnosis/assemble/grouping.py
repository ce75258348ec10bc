"""Which logs and pods belong to one job, and to one attempt of it.

Logs have job, attempt number and node name; pods have times, containers and the AzureML run id.
They are matched by run id and pod UID, otherwise by node and time. A log or pod without a match is
an attempt of its own.

A log of `arc-toolkit run` outside a job's folder (standard error, `kubectl logs`) is a job of its
own: the supervisor writes where and when each process started and how it ended, so every start is
an attempt, and its cause needs nothing else.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from arc_toolkit.diagnosis import signals
from arc_toolkit.diagnosis.assemble.log_evidence import (
    NOTICED,
    evidence_in_log,
    notice_evidence,
    steps_lost,
)
from arc_toolkit.diagnosis.assemble.matching import AttemptDraft, JobGroup, end, join_pods
from arc_toolkit.diagnosis.identities import PIPE, LogIdentity, locate
from arc_toolkit.diagnosis.model import (
    LOG_NAME,
    CauseKind,
    Evidence,
    EvidenceSource,
    FileEvidence,
    RunOutcome,
)
from arc_toolkit.diagnosis.read.cluster_index import ClusterIndex
from arc_toolkit.diagnosis.read.log_endings import LogEndingKind
from arc_toolkit.diagnosis.read.scan import LogScan
from arc_toolkit.diagnosis.read.volcano import GangState
from arc_toolkit.notices.run_log import RunRecord

APART_SECONDS = 300
APPENDED = "the logs of several attempts are in one file"
SEVERAL = "several nodes in one log: attempts appended to one file, or ranks merged into it"


def group(
    scans: Iterable[LogScan],
    cluster: ClusterIndex,
    gangs: Sequence[GangState] = (),
    file_evidence: Sequence[FileEvidence] = (),
) -> dict[str, JobGroup]:
    """The jobs by their unique names, each with its attempts."""
    groups = _merge(_group_by_root(sorted(scans, key=lambda scan: scan.path)))
    _attach_prs_evidence(groups, file_evidence)
    if cluster.pods:
        join_pods(groups, cluster)
    _add_gangs(groups, gangs)
    _mark_cut_names(groups, cluster)
    return _unique_names(groups)


def _group_by_root(scans: Iterable[LogScan]) -> dict[str, JobGroup]:
    groups: dict[str, JobGroup] = {}
    # logs with several attempts, if the job has no other log
    single_logs: dict[str, tuple[LogScan, LogIdentity]] = {}
    for scan in scans:
        if is_run_log(scan):
            place = locate_run_log(scan.path)
            groups[place.root] = JobGroup(
                place.root, place.job, scan.run_id, drafts_of_run_log(scan)
            )
            continue
        place = locate(scan.path)
        group = groups.get(place.root)
        # jobs in folders named like ranks
        if group and scan.run_id and group.run_id not in (None, scan.run_id):
            place = replace(place, root=f"{place.root}/{scan.run_id}", job=scan.run_id)
            group = groups.get(place.root)
        if group is None:
            group = groups[place.root] = JobGroup(place.root, place.job, None)
            if _is_appended(scan):
                single_logs[place.root] = scan, place
        else:
            single_logs.pop(place.root, None)
        group.run_id = group.run_id or scan.run_id
        group.drafts += _drafts(scan, place)
    for root, (scan, place) in single_logs.items():
        groups[root].drafts = _appended_attempts(scan, place)
    return groups


def _is_appended(scan: LogScan) -> bool:
    """Each name follows a date of its own, further apart than the starts of a gang's ranks."""
    starts = [scan.start, *scan.later_starts]
    dated = [start for start in starts if start is not None]
    if len(dated) < 2 or len(dated) != len(scan.nodes) or not scan.start_exact:
        return False
    return all(later - start >= APART_SECONDS for start, later in pairwise(dated))


def _appended_attempts(scan: LogScan, place: LogIdentity) -> list[AttemptDraft]:
    """Attempts appended to one file; the ids are of the first, the failure is of the last."""
    drafts = _drafts(scan, place)
    for index, (draft, start) in enumerate(
        zip(drafts, (scan.start, *scan.later_starts), strict=True)
    ):
        draft.number = draft.folder = place.number + index
        draft.rank, draft.start = place.rank, start
        draft.uid = draft.uid if not index else None
        draft.failure = draft.failure if index == len(drafts) - 1 else None
        draft.notes = (*draft.notes[:-1], APPENDED)
    return drafts


def _drafts(scan: LogScan, place: LogIdentity) -> list[AttemptDraft]:
    notes: tuple[str, ...] = (scan.note,) if scan.note else ()
    if len(scan.nodes) > 1:
        notes += (SEVERAL,)
    return [
        AttemptDraft(
            number=place.number,
            folder=place.number,
            rank=place.rank if len(scan.nodes) < 2 else f"{place.rank or 'part'}-{index + 1}",
            node=node,
            truncated=scan.truncated and index == len(scan.nodes) - 1,
            start=scan.start,
            start_exact=scan.start_exact,
            size=scan.size,
            digest=scan.digest,
            uid=scan.pod_uid,
            failure=scan.failure,
            sources=(scan.path,),
            notes=notes,
        )
        for index, node in enumerate(scan.nodes or [None])
    ]


def _merge(groups: dict[str, JobGroup]) -> list[JobGroup]:
    """Copies of a log are one. Two folders with the same name are two jobs unless they have the
    same run id, or logs of the same attempt that are copies."""
    by_name: dict[str, list[JobGroup]] = {}
    for group in groups.values():
        group.drafts = _drop_copies(group.drafts)
        _fold(by_name.setdefault(group.name, []), group)
    return [group for namesakes in by_name.values() for group in namesakes]


def _fold(namesakes: list[JobGroup], group: JobGroup) -> None:
    for namesake in namesakes:
        if namesake.run_id and group.run_id and namesake.run_id != group.run_id:
            continue
        places = {(draft.number, draft.rank): draft for draft in namesake.drafts}
        shared = [(places.get((draft.number, draft.rank)), draft) for draft in group.drafts]
        same_run = namesake.run_id is not None and namesake.run_id == group.run_id
        if not same_run and not any(old for old, _ in shared):
            continue
        if all(old is None or _is_copy(old, new) for old, new in shared):
            namesake.drafts = _drop_copies(namesake.drafts + group.drafts)
            namesake.run_id = namesake.run_id or group.run_id
            return
    namesakes.append(group)


def _is_copy(first: AttemptDraft, other: AttemptDraft) -> bool:
    def facts(draft: AttemptDraft) -> tuple[object, ...]:
        return draft.node, draft.size, draft.digest, draft.start, draft.uid

    return facts(first) == facts(other)


def _drop_copies(drafts: list[AttemptDraft]) -> list[AttemptDraft]:
    if len(drafts) == 1:
        return drafts
    unique: dict[tuple[int, str | None, str | None], AttemptDraft] = {}
    for draft in drafts:
        key = (draft.number, draft.rank, draft.node)
        old = unique.get(key)
        if old is None:
            unique[key] = draft
        else:
            old.sources += draft.sources
            old.start, old.uid = old.start or draft.start, old.uid or draft.uid
            old.failure = old.failure or draft.failure
    # A log without a node line adds nothing to one of the same attempt that has it.
    named = {(draft.number, draft.rank) for draft in unique.values() if draft.node}
    return [
        draft for draft in unique.values() if draft.node or (draft.number, draft.rank) not in named
    ]


def _attach_prs_evidence(groups: list[JobGroup], file_evidence: Sequence[FileEvidence]) -> None:
    by_root = {group.root: group for group in groups}
    for item in file_evidence:
        place = locate(item.path)
        group = by_root.get(place.root)
        if group is None:
            group = by_root[place.root] = JobGroup(place.root, place.job, None)
            groups.append(group)
        group.file_evidence += ((place.number, item),)


def _add_gangs(groups: list[JobGroup], gangs: Sequence[GangState]) -> None:
    """A gang that waits for its pods is a job, or the next attempt of one whose pods have ended."""
    by_run = {group.run_id or group.name: group for group in groups}
    for gang in gangs:
        group = by_run.get(gang.run_id or gang.name)
        if not gang.waits or (group is not None and not _goes_on(group, gang)):
            continue
        if group is None:
            if gang.run_id is None and not gang.job_id:
                continue  # not of AzureML
            group = by_run[gang.run_id or gang.name] = JobGroup(
                f"cluster/{gang.name}", gang.run_id or gang.name, gang.run_id
            )
            groups.append(group)
        number = max((draft.number for draft in group.drafts), default=-1) + 1
        group.drafts.append(AttemptDraft(number, None, None, start=gang.created, gang=gang))


def _goes_on(group: JobGroup, gang: GangState) -> bool:
    """The pods of the job have ended, and its gang was put back to waiting after that."""
    pods = [draft.pod for draft in group.drafts if draft.pod]
    ends = [end(pod) for pod in pods]
    since = gang.changed or gang.created
    return (
        bool(pods)
        and since is not None
        and all(finish is not None and finish < since for finish in ends)
    )


def _mark_cut_names(groups: list[JobGroup], cluster: ClusterIndex) -> None:
    """Mark names that are only the beginning of a listed node's. The node is noted, not guessed."""
    listed = sorted(cluster.nodes)
    node_names = sorted(cluster.nodes.keys() | {pod.node for pod in cluster.pods if pod.node})
    for draft in (
        draft for group in groups for draft in group.drafts if draft.node and draft.pod is None
    ):
        name = draft.node or ""
        if listed and not draft.truncated:
            draft.truncated = name not in cluster.nodes and len(_beginning_with(name, listed)) > 0
        if draft.truncated:
            fitting = _beginning_with(name, node_names)
            only = f"; the only known node that fits is {fitting[0]}" if len(fitting) == 1 else ""
            draft.notes += (f"the node name is cut in the log{only}",)


def _beginning_with(prefix: str, names: list[str]) -> list[str]:
    """At most two of the sorted names."""
    at = bisect_left(names, prefix)
    return [name for name in names[at : at + 2] if name.startswith(prefix)]


def _unique_names(groups: list[JobGroup]) -> dict[str, JobGroup]:
    """The folder's name, with more of its path if two jobs have the same name."""
    count = Counter(group.name for group in groups)
    named: dict[str, JobGroup] = {}
    for group in groups:
        name = group.name
        if count[name] > 1:
            parent = "/".join(group.root.split("/")[-3:-1])
            name = f"{name} ({parent})" if parent else name
            group.notes += (f"{count[group.name]} jobs have the name {group.name}",)
        base, number = name, 2
        while name in named:
            name, number = f"{base} #{number}", number + 1
        named[name] = group
    return named


_SUFFIXES = (".gz", ".log", ".txt", ".err")
INTERRUPTED = "interrupted"


def is_run_log(scan: LogScan) -> bool:
    """Has lines of `run` and no node line; a bootstrap log belongs to the job of its folder."""
    return bool(scan.runs) and not scan.path.rpartition("/")[2].startswith(LOG_NAME)


def locate_run_log(path: str) -> LogIdentity:
    """The job is the file, without the usual endings of its name."""
    name = path.rpartition("/")[2]
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix) or name
    return LogIdentity(path, path if path.startswith(PIPE) else name, 0, None)


def drafts_of_run_log(scan: LogScan) -> list[AttemptDraft]:
    """One per start; several pods in one log are ranks."""
    writers = scan.runs or {}
    drafts = []
    for pod, records in writers.items():
        for number, record in enumerate(records):
            is_last = number == len(records) - 1
            printed = evidence_in_log(scan) if is_last and len(writers) == 1 else []
            drafts.append(
                AttemptDraft(
                    number=number,
                    rank=pod or None,
                    node=record.node,
                    start=record.start,
                    start_exact=True,
                    end=record.end
                    if record.end is not None or not record.is_evicted
                    else record.notice_time,
                    size=scan.size,
                    digest=scan.digest,
                    failure=scan.failure if is_last else None,
                    sources=(scan.path,),
                    notes=(scan.note,) if scan.note else (),
                    outcome=_outcome(record),
                    own_evidence=(
                        *_record_evidence(record, scan.path),
                        *_unexplained_evidence(printed, record),
                    ),
                )
            )
    return drafts


def _outcome(record: RunRecord) -> RunOutcome:
    """Without an end and a notice the process may still run, or its machine was lost."""
    if record.reason == "finished":
        return RunOutcome.SUCCEEDED
    return RunOutcome.FAILED if record.end is not None or record.is_evicted else RunOutcome.UNKNOWN


def _record_evidence(record: RunRecord, path: str) -> list[FileEvidence]:
    if notice := notice_evidence(record, path):
        return [notice]
    if record.end is None or record.reason == "finished":
        return []
    if record.reason == INTERRUPTED:
        text = f"`run` was interrupted (SIGINT){steps_lost(record)}"
        evidence = Evidence(EvidenceSource.LOG, INTERRUPTED, text, record.end)
        return [FileEvidence(path, evidence, kind=CauseKind.CANCELLED)]
    if record.reason == "evicted":
        text = (
            "`run` ended the process for a notice whose line is not in this log"
            f"{steps_lost(record)}"
        )
        return [FileEvidence(path, Evidence(EvidenceSource.LOG, NOTICED, text, record.end))]
    signal = signals.table().get((EvidenceSource.EXIT_CODE, str(record.code)))
    text = signal.message if signal else "the process ended with an error of its own"
    kind = signal.kind if signal else CauseKind.USER
    evidence = Evidence(
        EvidenceSource.EXIT_CODE, str(record.code), text + steps_lost(record), record.end
    )
    return [FileEvidence(path, evidence, kind=kind if record.code is not None else None)]


def _unexplained_evidence(printed: list[FileEvidence], record: RunRecord) -> list[FileEvidence]:
    """The end of the program's own log, unless the exit code says the same."""
    return [
        item
        for item in printed
        if record.code is None or item.evidence.reason != LogEndingKind.OWN_ERROR
    ]
