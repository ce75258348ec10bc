"""Which pod belongs to which log of a job, and which attempt is which.

Pods are matched to logs by UID, otherwise by node and time. AzureML may write the log of a retry
over the log of the attempt before it, so one log and two pods are normal: the attempts are those of
the pods, in the order of time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from arc_toolkit.diagnosis.model import FileEvidence, RunOutcome, Waiting
from arc_toolkit.diagnosis.read.cluster_index import ClusterIndex
from arc_toolkit.diagnosis.read.pod_states import PodState
from arc_toolkit.diagnosis.read.volcano import GangState


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
    digest: int = 0
    uid: str | None = None
    failure: tuple[str, str] | None = None
    pod: PodState | None = None
    sources: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    outcome: RunOutcome = RunOutcome.UNKNOWN  # at first only what a supervisor wrote
    waiting: Waiting | None = None
    folder: int | None = None  # the number in the path of its log
    gang: GangState | None = None  # for a gang that has no pods yet
    # of this attempt only, from a log of `arc-toolkit run`
    own_evidence: tuple[FileEvidence, ...] = ()


@dataclass(slots=True)
class JobGroup:
    """One job while it is assembled."""

    root: str
    name: str
    run_id: str | None
    drafts: list[AttemptDraft] = field(default_factory=list)
    file_evidence: tuple[tuple[int, FileEvidence], ...] = ()  # with the number in their path
    notes: tuple[str, ...] = ()
    missing: int = 0  # attempts before the last without any data


BURST_SECONDS = 60  # Volcano creates the pods of a gang at once
# a rank that still runs so long after another was replaced was not stopped with it
GOES_ON_SECONDS = 600


def pod_generations(pods: list[PodState]) -> list[list[PodState]]:
    """The pods of one run as attempts, oldest first.

    Counting pods per rank would mix attempts as soon as one pod is gone. A gang is created within
    seconds, so pods that are created together belong together. They are another attempt if one of
    their ranks exists already, if they belong to another Volcano job, or if all pods before them
    have ended. A rank that is replaced while others go on (Volcano's RestartPod and RestartTask)
    stays in its attempt. The API server's creationTimestamp decides the order, because start and
    end come from the clocks of many nodes.
    """
    result: list[list[PodState]] = []
    for burst in _bursts(pods):
        if result and _joins(result[-1], burst):
            result[-1] += burst
        else:
            result.append(burst)
    return result


def begin(pod: PodState) -> float:
    """When it came into being; a pod without any time is taken for an old one."""
    return pod.created or pod.start or 0.0


def _bursts(pods: list[PodState]) -> list[list[PodState]]:
    result: list[list[PodState]] = []
    for pod in sorted(pods, key=lambda pod: (begin(pod), pod.start or 0.0, pod.name, pod.uid)):
        burst = result[-1] if result else []
        if (
            burst
            and begin(pod) - begin(burst[-1]) <= BURST_SECONDS
            and pod.rank not in {other.rank for other in burst}
            and _is_same_gang(burst[0], pod)
        ):
            burst.append(pod)
        else:
            result.append([pod])
    return result


def _joins(former: list[PodState], burst: list[PodState]) -> bool:
    """Ranks of a gang that were created late, for example again after the loss of a node."""
    if not _is_same_gang(former[0], burst[0]):
        return False
    ranks = {pod.rank for pod in burst}
    if not {pod.rank for pod in former} & ranks:
        return not _all_ended_before(former, begin(burst[0]))
    return _all_ended_before(
        [pod for pod in former if pod.rank in ranks], begin(burst[0])
    ) and not _all_ended_before(
        [pod for pod in former if pod.rank not in ranks], begin(burst[0]) + GOES_ON_SECONDS
    )


def _is_same_gang(first: PodState, other: PodState) -> bool:
    return first.gang is None or other.gang is None or first.gang == other.gang


def _all_ended_before(pods: list[PodState], moment: float) -> bool:
    ends = [end(pod) for pod in pods]
    return all(finish is not None and finish <= moment for finish in ends)


def end(pod: PodState) -> float | None:
    """When it ended; None while it runs or waits. A refused pod has no container that ended."""
    if pod.phase in ("Succeeded", "Failed") or pod.deleted is not None:
        return pod.end if pod.end is not None else begin(pod)
    return None


CLOCK_TOLERANCE_SECONDS = 600
# from the start of a pod to the start of its log: the image is pulled in between
SAME_START_SECONDS = 1800


def join_pods(groups: list[JobGroup], cluster: ClusterIndex) -> None:
    waiting: dict[str, list[PodState]] = {}
    for pod in cluster.pods:
        waiting.setdefault(pod.run_id or "", []).append(pod)
    by_uid = {pod.uid: pod for pod in cluster.pods if pod.uid}
    # If two folders have the same name, the pods belong to the one whose nodes they were on.
    for group in sorted(groups, key=lambda group: -_agreement(group, waiting)):
        run_id = group.run_id or group.name
        if run_id not in waiting:
            run_id = (
                next(
                    (by_uid[draft.uid].run_id for draft in group.drafts if draft.uid in by_uid),
                    None,
                )
                or ""
            )
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
    return sum(
        any(_fits(draft, pod) or draft.uid == pod.uid for pod in pods) for draft in group.drafts
    )


def _match(group: JobGroup, pods: list[PodState]) -> None:
    """Match each pod to an attempt by UID, otherwise by node, time and rank, or make a new one."""
    by_uid = {draft.uid: draft for draft in group.drafts if draft.uid}
    unmatched: list[PodState] = []
    for pod in sorted(pods, key=lambda pod: (begin(pod), pod.uid)):
        draft = by_uid.pop(pod.uid, None)
        if draft is None:
            unmatched.append(pod)
        else:
            _take_pod(draft, pod)
    if group.drafts and unmatched:
        unmatched = _match_by_node(group, unmatched)
    for draft in sorted(group.drafts, key=lambda draft: -draft.number):
        if draft.node is None and draft.pod is None and (last := _pod_by_start(draft, unmatched)):
            unmatched.remove(last)
            _take_pod(draft, last)
    for pod in unmatched:
        draft = AttemptDraft(0, pod.rank, pod.node)
        _take_pod(draft, pod)
        group.drafts.append(draft)
    _number(group, pod_generations(pods))


def _pod_by_start(draft: AttemptDraft, pods: list[PodState]) -> PodState | None:
    """The pod of a log without a node line: the one that started with it, otherwise the last."""
    fitting = [pod for pod in pods if draft.rank is not None and draft.rank == pod.rank]
    fitting = fitting or [pod for pod in pods if draft.rank is None or pod.rank is None]
    gaps = {id(pod): gap for pod in fitting if (gap := _gap(draft, pod)) is not None}
    if not gaps:
        return fitting[-1] if fitting else None
    nearest = min((pod for pod in fitting if id(pod) in gaps), key=lambda pod: gaps[id(pod)])
    return nearest if len(fitting) == 1 or gaps[id(nearest)] <= SAME_START_SECONDS else None


def _match_by_node(group: JobGroup, pods: list[PodState]) -> list[PodState]:
    """Match by node: close start times first, then from the end. Returns the unmatched pods.

    Without times the last pod belongs to the last attempt, because the oldest pods are deleted
    first.
    """
    by_node: dict[str, list[AttemptDraft]] = {}
    for draft in group.drafts:
        if draft.node and not draft.truncated:
            by_node.setdefault(draft.node, []).append(draft)
    cut = [draft for draft in group.drafts if draft.truncated]
    fitting = [
        [draft for draft in (*by_node.get(pod.node or "", ()), *cut) if _fits(draft, pod)]
        for pod in pods
    ]
    near = [
        (_rank_mismatch(draft, pod), gap, index, place)
        for index, pod in enumerate(pods)
        for place, draft in enumerate(fitting[index])
        if (gap := _gap(draft, pod)) is not None and gap <= SAME_START_SECONDS
    ]
    joined: set[int] = set()
    for _, _, index, place in sorted(near):
        draft = fitting[index][place]
        if index not in joined and draft.pod is None:
            _take_pod(draft, pods[index])
            joined.add(index)
    for index in reversed(range(len(pods))):
        pod = pods[index]
        free = [draft for draft in fitting[index] if draft.pod is None]
        if index in joined or not free:
            continue
        gaps = [_gap(draft, pod) for draft in free]
        timed = None not in gaps
        best = min(
            free,
            key=lambda draft: (
                _rank_mismatch(draft, pod),
                _gap(draft, pod) if timed else -draft.number,
            ),
        )
        _take_pod(best, pod)
        joined.add(index)
    return [pod for index, pod in enumerate(pods) if index not in joined]


def _gap(draft: AttemptDraft, pod: PodState) -> float | None:
    return None if draft.start is None or pod.start is None else abs(draft.start - pod.start)


def _fits(draft: AttemptDraft, pod: PodState) -> bool:
    """The node is the same and the ranks agree: `worker-0` may be `rank-0`, not `worker-1`."""
    if draft.pod is not None or draft.node is None or pod.node is None or (draft.uid and pod.uid):
        return False
    same_node = pod.node.startswith(draft.node) if draft.truncated else pod.node == draft.node
    if not same_node or draft.rank is None or pod.rank is None or draft.rank == pod.rank:
        return same_node
    role = draft.rank.rpartition("-")[0]
    return not role or role != pod.rank.rpartition("-")[0]


def _rank_mismatch(draft: AttemptDraft, pod: PodState) -> int:
    """How different the names of two ranks are; folders, addresses and pods number differently."""
    if draft.rank == pod.rank:
        return 0
    if draft.rank is None or pod.rank is None:
        return 1
    return 1 if draft.rank.rpartition("-")[2] == pod.rank.rpartition("-")[2] else 2


@dataclass(slots=True)
class _Slot:
    """One attempt while its place in the order is looked for."""

    drafts: list[AttemptDraft]
    start: float | None  # the earliest

    @property
    def folder(self) -> int | None:
        return max(
            (draft.folder for draft in self.drafts if draft.folder is not None), default=None
        )


def _number(group: JobGroup, pods: list[list[PodState]]) -> None:
    """Number the attempts: pods by time, logs without a pod by folder, otherwise by time."""
    place = {id(pod): index for index, members in enumerate(pods) for pod in members}
    slots = [_Slot([], min(map(begin, members))) for members in pods]
    unmatched: dict[int, list[AttemptDraft]] = {}
    for draft in group.drafts:
        if draft.pod is not None:
            slots[place[id(draft.pod)]].drafts.append(draft)
        else:
            unmatched.setdefault(draft.folder or 0, []).append(draft)
    for folder, drafts in sorted(unmatched.items()):
        slot = _Slot(
            drafts, min((draft.start for draft in drafts if draft.start is not None), default=None)
        )
        gang = next(
            (other for other in slots if _is_one_gang(other, slot, slots.index(other))), None
        )
        if gang is not None:
            gang.drafts += drafts
        else:
            slots.insert(_position(slots, slot, folder), slot)
    number = -1
    for slot in slots:
        number = max(number + 1, slot.folder or 0)
        named = {draft.pod.rank for draft in slot.drafts if draft.pod}
        for draft in slot.drafts:
            draft.number = number
            if draft.pod is not None and (draft.pod.rank or draft.rank in named):
                # the name in Kubernetes; the log may have only an address
                draft.rank = draft.pod.rank


def _is_one_gang(slot: _Slot, candidate: _Slot, index: int) -> bool:
    """Logs without a pod are further ranks of an attempt if folder, time or order agree."""
    ranks = {draft.rank for draft in slot.drafts} | {
        draft.pod.rank for draft in slot.drafts if draft.pod
    }
    new_ranks = {draft.rank for draft in candidate.drafts}
    if None in new_ranks or ranks & new_ranks or ranks <= {None}:
        return False
    if slot.folder is not None or candidate.start is None or slot.start is None:
        return (index if slot.folder is None else slot.folder) == candidate.folder
    return abs(slot.start - candidate.start) <= SAME_START_SECONDS


def _position(slots: list[_Slot], slot: _Slot, folder: int) -> int:
    """After the logs of lower folders and before those of higher ones; then by time, or early."""
    lower = [
        index + 1
        for index, other in enumerate(slots)
        if other.folder is not None and other.folder < folder
    ]
    higher = [
        index
        for index, other in enumerate(slots)
        if other.folder is not None and other.folder > folder
    ]
    low = max(lower, default=0)
    high = max(min(higher, default=len(slots)), low)
    if slot.start is not None:
        for index in range(low, high):
            start = slots[index].start
            if start is not None and start > slot.start:
                return index
        return high
    return low


def _match_by_time(
    group: JobGroup, waiting: dict[str, list[PodState]], on_node: dict[str, list[PodState]]
) -> None:
    """For a folder not named after its run: exactly one run had a pod on that node at that time."""
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
            group.notes += ("the run id was found by node and time",)
            _match(group, waiting.pop(group.run_id))
            return


def _take_pod(draft: AttemptDraft, pod: PodState) -> None:
    draft.pod, draft.uid = pod, pod.uid or draft.uid
    if draft.start_exact and pod.start is not None and abs((draft.start or 0.0) - pod.start) > 3600:
        draft.notes += (
            "the clocks of the log and of the cluster disagree; the time of the cluster is used",
        )
    draft.start = pod.start or draft.start
    draft.end = pod.end
    if draft.node is None or draft.truncated:
        draft.node, draft.truncated = pod.node or draft.node, draft.truncated and pod.node is None
