"""Which pod belongs to which log of a job, and which attempt is which.

Pods are matched to logs by UID, otherwise by node and time. AzureML may write the log of a retry over the log of the
attempt before it, so one log and two pods are normal: the attempts are those of the pods, in the order of time.
"""

from __future__ import annotations

from dataclasses import dataclass

from arc_toolkit.diagnosis.cluster_index import ClusterIndex
from arc_toolkit.diagnosis.drafts import AttemptDraft, JobGroup
from arc_toolkit.diagnosis.pod_states import PodState
from arc_toolkit.diagnosis.rounds import begin, rounds

CLOCK_TOLERANCE_SECONDS = 600
SAME_START_SECONDS = (
    1800  # from the start of a pod to the start of its log: the image is pulled in between
)


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
    """Match each pod to an attempt by UID, otherwise by node, time and rank; the rest are attempts without a log."""
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
        if draft.node is None and draft.pod is None and (last := _without_node(draft, unmatched)):
            unmatched.remove(last)
            _take_pod(draft, last)
    for pod in unmatched:
        draft = AttemptDraft(0, pod.rank, pod.node)
        _take_pod(draft, pod)
        group.drafts.append(draft)
    _number(group, rounds(pods))


def _without_node(draft: AttemptDraft, pods: list[PodState]) -> PodState | None:
    """The pod of a log without a node line: the one that started with it, otherwise the last that is left."""
    fitting = [pod for pod in pods if draft.rank is not None and draft.rank == pod.rank]
    fitting = fitting or [pod for pod in pods if draft.rank is None or pod.rank is None]
    gaps = {id(pod): gap for pod in fitting if (gap := _gap(draft, pod)) is not None}
    if not gaps:
        return fitting[-1] if fitting else None
    nearest = min((pod for pod in fitting if id(pod) in gaps), key=lambda pod: gaps[id(pod)])
    return nearest if len(fitting) == 1 or gaps[id(nearest)] <= SAME_START_SECONDS else None


def _match_by_node(group: JobGroup, pods: list[PodState]) -> list[PodState]:
    """Match pods and attempts by node: those with close start times first, the others from the end. Returns the rest.

    Without times the last pod belongs to the last attempt, because the oldest pods are deleted first.
    """
    whole: dict[str, list[AttemptDraft]] = {}
    for draft in group.drafts:
        if draft.node and not draft.truncated:
            whole.setdefault(draft.node, []).append(draft)
    cut = [draft for draft in group.drafts if draft.truncated]
    fitting = [
        [draft for draft in (*whole.get(pod.node or "", ()), *cut) if _fits(draft, pod)]
        for pod in pods
    ]
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
                _strangeness(draft, pod),
                _gap(draft, pod) if timed else -draft.number,
            ),
        )
        _take_pod(best, pod)
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
    """Number the attempts: pods by time, and logs without a pod between them by folder, otherwise by time."""
    place = {id(pod): index for index, members in enumerate(pods) for pod in members}
    slots = [_Slot([], min(map(begin, members))) for members in pods]
    alone: dict[int, list[AttemptDraft]] = {}
    for draft in group.drafts:
        if draft.pod is not None:
            slots[place[id(draft.pod)]].drafts.append(draft)
        else:
            alone.setdefault(draft.folder or 0, []).append(draft)
    for folder, drafts in sorted(alone.items()):
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
                draft.rank = (
                    draft.pod.rank
                )  # the name in Kubernetes; the log may have only an address


def _is_one_gang(slot: _Slot, alone: _Slot, index: int) -> bool:
    """Logs without a pod are further ranks of an attempt if its folder, its time, or its place in the order agree."""
    ranks = {draft.rank for draft in slot.drafts} | {
        draft.pod.rank for draft in slot.drafts if draft.pod
    }
    own = {draft.rank for draft in alone.drafts}
    if None in own or ranks & own or ranks <= {None}:
        return False
    if slot.folder is not None or alone.start is None or slot.start is None:
        return (index if slot.folder is None else slot.folder) == alone.folder
    return abs(slot.start - alone.start) <= SAME_START_SECONDS


def _position(slots: list[_Slot], slot: _Slot, folder: int) -> int:
    """After the logs of lower folders and before those of higher ones; between these by time, otherwise early."""
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
