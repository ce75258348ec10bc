"""Which logs and pods belong to one job, and to one attempt of it.

Logs have job, attempt number and node name; pods have times, containers and the AzureML run id. They are matched by
run id and pod UID, otherwise by node and time. A log or pod without a match is an attempt of its own.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from arc_toolkit.diagnosis.cluster_index import ClusterIndex, PodState
from arc_toolkit.diagnosis.log_paths import LogIdentity, locate
from arc_toolkit.diagnosis.model import Cause, PrsEvidence, RunOutcome
from arc_toolkit.diagnosis.scan import LogScan

CLOCK_TOLERANCE_SECONDS = 600
SAME_START_SECONDS = 1800  # from the start of a pod to the start of its log: the image is pulled in between
SEVERAL = "several nodes in one log: attempts appended to one file, or ranks merged into it"


@dataclass(slots=True)
class AttemptDraft:
    """One rank of one attempt while it is assembled."""

    number: int
    rank: str | None
    node: str | None
    truncated: bool = False
    start: float | None = None
    start_exact: bool = False  # otherwise when the line was collected, some time later
    end: float | None = None
    size: int = 0
    uid: str | None = None
    failure: tuple[str, str] | None = None
    pod: PodState | None = None
    sources: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    outcome: RunOutcome = RunOutcome.UNKNOWN
    cause: Cause | None = None


@dataclass(slots=True)
class JobGroup:
    """One job while it is assembled."""

    root: str
    name: str
    run_id: str | None
    drafts: list[AttemptDraft] = field(default_factory=list)
    prs_evidence: list[tuple[int, PrsEvidence]] = field(default_factory=list)  # with the number of their attempt
    notes: list[str] = field(default_factory=list)
    missing: int = 0  # attempts before the last without any data


def group(
    scans: Iterable[LogScan], cluster: ClusterIndex, prs_evidence: Sequence[PrsEvidence] = ()
) -> dict[str, JobGroup]:
    """The jobs by their unique names, each with its attempts."""
    groups = _merge(_by_root(sorted(scans, key=lambda scan: scan.path)))
    _attach_prs_evidence(groups, prs_evidence)
    if cluster.pods:
        _join_pods(groups, cluster)
    _complete_names(groups, cluster)
    return _unique_names(groups)


def _by_root(scans: Iterable[LogScan]) -> dict[str, JobGroup]:
    groups: dict[str, JobGroup] = {}
    for scan in scans:
        place = locate(scan.path)
        group = groups.get(place.root)
        if group is None:
            group = groups[place.root] = JobGroup(place.root, place.job, None)
        group.run_id = group.run_id or scan.run_id
        group.drafts += _drafts(scan, place)
    return groups


def _drafts(scan: LogScan, place: LogIdentity) -> list[AttemptDraft]:
    notes: tuple[str, ...] = (scan.note,) if scan.note else ()
    if len(scan.nodes) > 1:
        notes += (SEVERAL,)
    return [
        AttemptDraft(
            number=place.number,
            rank=place.rank if len(scan.nodes) < 2 else f"{place.rank or 'part'}-{index + 1}",
            node=node,
            truncated=scan.truncated and index == len(scan.nodes) - 1,
            start=scan.start,
            start_exact=scan.start_exact,
            size=scan.size,
            uid=scan.pod_uid,
            failure=scan.failure,
            sources=(scan.path,),
            notes=notes,
        )
        for index, node in enumerate(scan.nodes or [None])
    ]


def _merge(groups: dict[str, JobGroup]) -> list[JobGroup]:
    """Copies of a log are one; two folders with the same name are one job unless they contradict each other."""
    by_name: dict[str, list[JobGroup]] = {}
    for group in groups.values():
        group.drafts = _without_copies(group.drafts)
        _fold(by_name.setdefault(group.name, []), group)
    return [group for same in by_name.values() for group in same]


def _fold(same: list[JobGroup], group: JobGroup) -> None:
    for known in same:
        if known.run_id and group.run_id and known.run_id != group.run_id:
            continue
        places = {(draft.number, draft.rank): draft for draft in known.drafts}
        shared = [(places.get((draft.number, draft.rank)), draft) for draft in group.drafts]
        if all(old is None or _is_copy(old, new) for old, new in shared):
            known.drafts = _without_copies(known.drafts + group.drafts)
            known.run_id = known.run_id or group.run_id
            return
    same.append(group)


def _is_copy(first: AttemptDraft, other: AttemptDraft) -> bool:
    return (first.node, first.size, first.start, first.uid) == (other.node, other.size, other.start, other.uid)


def _without_copies(drafts: list[AttemptDraft]) -> list[AttemptDraft]:
    if len(drafts) == 1:
        return drafts
    kept: dict[tuple[int, str | None, str | None], AttemptDraft] = {}
    for draft in drafts:
        key = (draft.number, draft.rank, draft.node)
        old = kept.get(key)
        if old is None:
            kept[key] = draft
        else:
            old.sources += draft.sources
            old.start, old.uid = old.start or draft.start, old.uid or draft.uid
            old.failure = old.failure or draft.failure
    # A log without a node line adds nothing to one of the same attempt that has it.
    named = {(draft.number, draft.rank) for draft in kept.values() if draft.node}
    return [draft for draft in kept.values() if draft.node or (draft.number, draft.rank) not in named]


def _attach_prs_evidence(groups: list[JobGroup], prs_evidence: Sequence[PrsEvidence]) -> None:
    by_root = {group.root: group for group in groups}
    for item in prs_evidence:
        place = locate(item.path)
        group = by_root.get(place.root)
        if group is None:
            group = by_root[place.root] = JobGroup(place.root, place.job, None)
            groups.append(group)
        group.prs_evidence.append((place.number, item))


def _join_pods(groups: list[JobGroup], cluster: ClusterIndex) -> None:
    waiting: dict[str, list[PodState]] = {}
    for pod in cluster.pods:
        waiting.setdefault(pod.run_id or "", []).append(pod)
    by_uid = {pod.uid: pod for pod in cluster.pods if pod.uid}
    # If two folders have the same name, the pods belong to the one whose nodes they were on.
    for group in sorted(groups, key=lambda group: -_agreement(group, waiting)):
        run_id = group.run_id or group.name
        if run_id not in waiting:
            run_id = next((by_uid[draft.uid].run_id for draft in group.drafts if draft.uid in by_uid), None) or ""
        if run_id in waiting:
            group.run_id = run_id
            _match(group, waiting.pop(run_id))
    on_node: dict[str, list[PodState]] = {}
    for pod in cluster.pods:
        on_node.setdefault(pod.node or "", []).append(pod)
    for group in groups:
        if group.run_id is None and waiting:
            _match_by_time(group, waiting, on_node)
    for run_id, pods in waiting.items():
        group = JobGroup(f"cluster/{run_id}", run_id, run_id)
        _match(group, pods)
        groups.append(group)


def _agreement(group: JobGroup, waiting: dict[str, list[PodState]]) -> int:
    pods = waiting.get(group.run_id or group.name)
    if not pods:
        return 0
    return sum(any(_fits(draft, pod) or draft.uid == pod.uid for pod in pods) for draft in group.drafts)


def _match(group: JobGroup, pods: list[PodState]) -> None:
    """Match each pod to an attempt by UID, otherwise by node, time and rank; the rest are attempts without a log."""
    by_uid = {draft.uid: draft for draft in group.drafts if draft.uid}
    unmatched: list[PodState] = []
    for pod in sorted(pods, key=lambda pod: (pod.start or 0.0, pod.uid)):
        draft = by_uid.pop(pod.uid, None)
        if draft is None:
            unmatched.append(pod)
        else:
            _take_pod(group, draft, pod)
    if group.drafts and unmatched:
        unmatched = _match_by_node(group, unmatched)
    for draft in group.drafts:  # a log without a node line: if only one pod is left, it belongs to this log
        if draft.node is None and draft.pod is None and len(unmatched) == 1:
            _take_pod(group, draft, unmatched.pop())
    counted: Counter[str | None] = Counter()
    has_logs = any(draft.sources for draft in group.drafts)
    for pod in unmatched:
        number = _free_number(group, pod) if has_logs else counted[pod.rank]
        counted[pod.rank] += 1
        draft = AttemptDraft(number, pod.rank, pod.node)
        _take_pod(group, draft, pod)
        group.drafts.append(draft)


def _match_by_node(group: JobGroup, pods: list[PodState]) -> list[PodState]:
    """Match pods and attempts by node: those with close start times first, the others from the end. Returns the rest.

    Without times the last pod belongs to the last attempt, because the oldest pods are deleted first.
    """
    whole: dict[str, list[AttemptDraft]] = {}
    for draft in group.drafts:
        if draft.node and not draft.truncated:
            whole.setdefault(draft.node, []).append(draft)
    cut = [draft for draft in group.drafts if draft.truncated]
    fitting = [[draft for draft in (*whole.get(pod.node or "", ()), *cut) if _fits(draft, pod)] for pod in pods]
    near = [
        (_strangeness(draft, pod), gap, index, place)
        for index, pod in enumerate(pods)
        for place, draft in enumerate(fitting[index])
        if (gap := _gap(draft, pod)) is not None and gap <= SAME_START_SECONDS
    ]
    joined: set[int] = set()
    for _, _, index, place in sorted(near):
        draft = fitting[index][place]
        if index not in joined and draft.pod is None:
            _take_pod(group, draft, pods[index])
            joined.add(index)
    for index in reversed(range(len(pods))):
        pod = pods[index]
        free = [draft for draft in fitting[index] if draft.pod is None]
        if index in joined or not free:
            continue
        gaps = [_gap(draft, pod) for draft in free]
        timed = None not in gaps
        best = min(
            free, key=lambda draft: (_strangeness(draft, pod), _gap(draft, pod) if timed else -draft.number)
        )
        _take_pod(group, best, pod)
        joined.add(index)
    return [pod for index, pod in enumerate(pods) if index not in joined]


def _gap(draft: AttemptDraft, pod: PodState) -> float | None:
    return None if draft.start is None or pod.start is None else abs(draft.start - pod.start)


def _fits(draft: AttemptDraft, pod: PodState) -> bool:
    """The node is the same, and the ranks do not contradict: `worker-0` cannot be `worker-1`, but may be `rank-0`."""
    if draft.pod is not None or draft.node is None or pod.node is None or (draft.uid and pod.uid):
        return False
    same_node = pod.node.startswith(draft.node) if draft.truncated else pod.node == draft.node
    if not same_node or draft.rank is None or pod.rank is None or draft.rank == pod.rank:
        return same_node
    role = draft.rank.rpartition("-")[0]
    return not role or role != pod.rank.rpartition("-")[0]


def _strangeness(draft: AttemptDraft, pod: PodState) -> int:
    """How different the names of two ranks are; folders, addresses and pods number them in different ways."""
    if draft.rank == pod.rank:
        return 0
    if draft.rank is None or pod.rank is None:
        return 1
    return 1 if draft.rank.rpartition("-")[2] == pod.rank.rpartition("-")[2] else 2


def _free_number(group: JobGroup, pod: PodState) -> int:
    """A free number before the first attempt that started later, otherwise the number after the last."""
    taken = {draft.number for draft in group.drafts if draft.rank == pod.rank or draft.rank is None}
    later = [
        draft.number
        for draft in group.drafts
        if draft.start is not None and pod.start is not None and draft.start > pod.start
    ]
    free = [number for number in range(min(later, default=0)) if number not in taken]
    return free[0] if free else max(taken, default=-1) + 1


def _match_by_time(
    group: JobGroup, waiting: dict[str, list[PodState]], on_node: dict[str, list[PodState]]
) -> None:
    """For a folder that is not named after its run: exactly one run had a pod on that node at that time."""
    for draft in group.drafts:
        if draft.start is None or not draft.start_exact or draft.node is None:
            continue
        near = {
            pod.run_id
            for pod in on_node.get(draft.node, [])
            if pod.run_id in waiting
            and _fits(draft, pod)
            and abs((pod.start or 0.0) - draft.start) <= CLOCK_TOLERANCE_SECONDS
        }
        if len(near) == 1:
            group.run_id = near.pop() or ""
            group.notes.append("the run id was found by node and time")
            _match(group, waiting.pop(group.run_id))
            return


def _take_pod(group: JobGroup, draft: AttemptDraft, pod: PodState) -> None:
    draft.pod, draft.uid = pod, pod.uid or draft.uid
    if draft.start_exact and pod.start is not None and abs((draft.start or 0.0) - pod.start) > 3600:
        draft.notes += ("the clocks of the log and of the cluster disagree; the time of the cluster is used",)
    draft.start = pod.start or draft.start
    draft.end = pod.end
    if pod.rank and not any(other.number == draft.number and other.rank == pod.rank for other in group.drafts):
        draft.rank = pod.rank  # the name in Kubernetes; the log may have only an address
    if draft.node is None or draft.truncated:
        draft.node, draft.truncated = pod.node or draft.node, draft.truncated and pod.node is None


def _complete_names(groups: list[JobGroup], cluster: ClusterIndex) -> None:
    """A name that was truncated at the end of a file is completed if exactly one known node fits."""
    cut = [draft for group in groups for draft in group.drafts if draft.truncated]
    if not cut:
        return
    known = set(cluster.nodes) | {pod.node for pod in cluster.pods if pod.node}
    known |= {draft.node for group in groups for draft in group.drafts if draft.node and not draft.truncated}
    names = sorted(known)
    for draft in cut:
        prefix = draft.node or ""
        at = bisect_left(names, prefix)
        fitting = [name for name in names[at : at + 2] if name.startswith(prefix)]
        if len(fitting) == 1:
            draft.node, draft.truncated = fitting[0], False
            draft.notes += (
                "the node name is truncated in the log and was completed, because exactly one known node fits",
            )
        else:
            draft.notes += ("the node name is truncated at the end of the log",)


def _unique_names(groups: list[JobGroup]) -> dict[str, JobGroup]:
    """The folder's name, with more of its path if two jobs have the same name."""
    count = Counter(group.name for group in groups)
    named: dict[str, JobGroup] = {}
    for group in groups:
        name = group.name
        if count[name] > 1:
            parent = "/".join(group.root.split("/")[-3:-1])
            name = f"{name} ({parent})" if parent else name
            group.notes.append(f"{count[group.name]} jobs have the name {group.name}")
        base, number = name, 2
        while name in named:
            name, number = f"{base} #{number}", number + 1
        named[name] = group
    return named
