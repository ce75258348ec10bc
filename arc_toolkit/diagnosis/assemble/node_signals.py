"""The evidence of a node: its events, conditions and taints, and what excuses its loss.

`causes.py` uses this for one attempt and `verdicts.py` for the node, so both give the same answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from arc_toolkit.diagnosis import signals, times
from arc_toolkit.diagnosis.model import CauseKind, Confidence, Evidence, EvidenceSource
from arc_toolkit.diagnosis.read.cluster_index import ClusterIndex
from arc_toolkit.diagnosis.read.gpu_messages import (
    HARDWARE_XIDS,
    has_no_hardware_xid,
    xid_reason,
    xids_in,
)
from arc_toolkit.diagnosis.read.pod_states import ClusterEvent
from arc_toolkit.diagnosis.signals import ORDER, Signal
from arc_toolkit.diagnosis.times import (
    DELETION_SECONDS,
    LOOK_AHEAD_SECONDS,
    NOTICE_AFTER_SECONDS,
    NOTICE_BEFORE_SECONDS,
    START_UP_SECONDS,
    is_within,
)
from arc_toolkit.kube.nodes import Node

# VMs that were removed on purpose: no fault of the node.
EXPLANATIONS = (CauseKind.SPOT, CauseKind.SCALE_DOWN, CauseKind.DRAIN)
# Causes that are not the job's own either.
TAKEN_AWAY = (*EXPLANATIONS, CauseKind.SCHEDULER, CauseKind.GANG, CauseKind.CANCELLED)

# How long after a loss a notice may be its reason. The autoscaler reports a removal when the VM is
# gone, but it also removes nodes that have not been ready for some time.
_NOTICE_AFTER: dict[CauseKind | None, float] = {
    CauseKind.DRAIN: LOOK_AHEAD_SECONDS,
    CauseKind.SCALE_DOWN: DELETION_SECONDS,
}

_WEAKER: dict[Confidence, Confidence] = {"high": "medium", "medium": "low", "low": "low"}


@dataclass(frozen=True, slots=True)
class CauseCandidate:
    """Evidence and the cause that it proves, if any. `tied`: by time or kind, to the attempt."""

    evidence: Evidence
    kind: CauseKind | None
    confidence: Confidence
    priority: int = 5
    tied: bool = True

    @property
    def strength(self) -> tuple[int, int]:
        """The strongest sorts first."""
        return ORDER[self.evidence.source], self.priority


def signal_candidate(signal: Signal, time: float | None, *, weaker: bool = False) -> CauseCandidate:
    """A row of the table, seen at a time."""
    confidence = _WEAKER[signal.confidence] if weaker else signal.confidence
    evidence = Evidence(signal.source, signal.reason, signal.message, time)
    return CauseCandidate(evidence, signal.kind, confidence, signal.priority)


# How the node problem detector reports that a condition changed (pkg/exporters/k8sexporter).
_CHANGE = re.compile(r"Node condition (\S+) is now: (True|False|Unknown), reason: ")


def condition_change(event: ClusterEvent) -> tuple[str, str] | None:
    """The type and the new status of a condition, if an event of a node reports that it changed."""
    match = _CHANGE.match(event.message)
    return (match[1], match[2]) if match else None


def event_candidate(
    source: EvidenceSource, event: ClusterEvent, *, weaker: bool = False
) -> CauseCandidate | None:
    """An event of a node or a pod; termination handlers are recognized by their message."""
    if source is EvidenceSource.NODE_EVENT:
        change = condition_change(event)
        if change and not signals.is_bad(*change):
            return None
        signal = condition_signal(change[0], event.message) if change else _node_event_signal(event)
    else:
        signal = signals.table().get((source, event.reason))
    if signals.PREEMPT_MESSAGE.search(event.message) and not (
        signal and signal.kind is CauseKind.SPOT
    ):
        message = "a termination handler reported that Azure reclaims the spot VM"
        evidence = Evidence(source, signals.reason_text(event.reason), message, event.time)
        return CauseCandidate(evidence, CauseKind.SPOT, "high", 1)
    if signal is None:
        return None
    return signal_candidate(replace(signal, source=source), event.time, weaker=weaker)


def _node_event_signal(event: ClusterEvent) -> Signal | None:
    signal = signals.table().get((EvidenceSource.NODE_EVENT, event.reason))
    if signal is None:
        # The checks of a GPU also report with the name of their condition as the reason.
        fault = condition_signal(event.reason, event.message)
        if fault is not None and fault.kind is CauseKind.NODE_FAULT:
            return replace(fault, source=EvidenceSource.NODE_EVENT)
        return None
    if event.reason.endswith("Scheduled") and signals.FAILED_QUERY.search(event.message):
        return None  # the query for announcements failed: nothing was announced
    if event.reason == "DisruptionTerminating" and signals.KARPENTER_REPLACES.search(event.message):
        return replace(signal, kind=CauseKind.DRAIN, message="Karpenter replaced the node")
    if event.reason == "Upgrade" and event.message.startswith("Successfully"):
        return None  # it is over
    return signal


def condition_signal(kind: str, text: str) -> Signal | None:
    """What a bad condition means; `text` is its reason and message."""
    signal = signals.table().get((EvidenceSource.NODE_CONDITION, signals.condition_name(kind)))
    if signal is None and kind.endswith("Scheduled"):
        # AKS also writes `Node condition RebootScheduled is now: True`.
        announced = signals.table().get((EvidenceSource.NODE_EVENT, kind))
        return replace(announced, source=EvidenceSource.NODE_CONDITION) if announced else None
    if signal is None:
        return signals.health_check(EvidenceSource.NODE_CONDITION, text) or _quoted_xid(text)
    if signal.reason == "VMEventScheduled" and (match := signals.SCHEDULED.search(text)):
        announced = signals.table()[EvidenceSource.NODE_EVENT, f"{match[1]}Scheduled"]
        return replace(announced, source=signal.source, reason=signal.reason)
    if signal.reason == "XIDErrors" and has_no_hardware_xid(text):
        return None
    return signal


def _quoted_xid(text: str) -> Signal | None:
    """A line of the kernel's log about a broken GPU, whichever check quotes it."""
    for number in sorted(xids_in(text) & HARDWARE_XIDS.keys()):
        meaning, origin = HARDWARE_XIDS[number], "NVIDIA: Xid catalogue"
        return Signal(
            EvidenceSource.NODE_CONDITION,
            xid_reason(number),
            CauseKind.NODE_FAULT,
            "high",
            meaning,
            origin,
        )
    return None


def node_signals(node: Node) -> list[tuple[Signal, float | None]]:
    """The known bad conditions and taints of a node, each with the time since when it has them."""
    table = signals.table()
    result: list[tuple[Signal, float | None]] = []
    for condition in node.conditions:
        if not signals.is_bad(condition.type, condition.status):
            continue
        if signal := condition_signal(condition.type, f"{condition.reason} {condition.message}"):
            result.append((signal, times.parse(condition.since)))
    for taint in node.taints:
        signal = table.get((EvidenceSource.NODE_TAINT, taint.key))
        if signal and (not taint.key.endswith("/draining") or taint.value == "spot-eviction"):
            result.append((signal, _taint_time(taint.key, taint.value, taint.added)))
    return result


def is_starting(node: Node, now: float | None) -> bool:
    """Whether the node was created so recently that it may not be up yet."""
    return is_within(times.parse(node.created), now, START_UP_SECONDS, 0)


def _taint_time(key: str, value: str, added: str) -> float | None:
    """Only NoExecute taints have a time; the autoscaler writes it into the value."""
    if (
        key == "ToBeDeletedByClusterAutoscaler"
        and value.isascii()
        and value.isdigit()
        and 9 <= len(value) <= 11
    ):
        return float(value)
    return times.parse(added)


def excuse(cluster: ClusterIndex, name: str, moment: float | None) -> CauseCandidate | None:
    """Why a node was lost at that moment, if it was removed on purpose; otherwise None.

    The one answer for the cause of an attempt and for the verdict on its node. It excuses a loss
    (NotReady, unreachable, gone), never a fault of the node's own. In this order: a notice (event,
    condition or taint); a spot VM that is gone; pods that were evicted through the API before, as a
    drain does; a node that was cordoned before, as for a reboot or an upgrade; a VM that was
    deleted soon after.
    """
    if announcement := notice(cluster, name, moment):
        return announcement
    events = cluster.node_events.get(name, [])
    if cluster.node_place(name).spot and _is_evicted(cluster, name, moment):
        evidence = Evidence(
            EvidenceSource.NODE_LIST, "absent", "it was a spot VM and no longer exists"
        )
        return CauseCandidate(evidence, CauseKind.SPOT, "medium")
    evictions = [
        time
        for time in cluster.drains.get(name, ())
        if is_within(time, moment, NOTICE_BEFORE_SECONDS, 0)
    ]
    if evictions:
        message = "another pod on the node had been evicted through the API, as a drain does"
        evidence = Evidence(
            EvidenceSource.POD_CONDITION, "EvictionByEvictionAPI", message, max(evictions)
        )
        return CauseCandidate(evidence, CauseKind.DRAIN, "medium")
    return _cordon(events, cluster.nodes.get(name), moment) or _deletion(events, moment)


def notice(cluster: ClusterIndex, name: str, moment: float | None) -> CauseCandidate | None:
    """An announcement near that moment that the VM goes: by Azure, the autoscaler or an upgrade."""
    node = cluster.nodes.get(name)
    candidates = [
        candidate
        for event in cluster.node_events.get(name, ())
        if (candidate := event_candidate(EvidenceSource.NODE_EVENT, event))
        and _is_notice_near(candidate.kind, candidate.evidence.time, moment)
    ]
    for signal, since in node_signals(node) if node else ():
        time = since
        if time is None and node and signal.source is EvidenceSource.NODE_TAINT:
            time = _loss_start(node) or cluster.newest
        if _is_notice_near(signal.kind, time, moment):
            candidate = signal_candidate(signal, since)
            if signal.reason == signals.SHUTDOWN_TAINT and cluster.node_place(name).spot:
                message = "its VM is deallocated, as Azure does with spot VMs that it reclaims"
                evidence = Evidence(signal.source, signal.reason, message, since)
                candidate = CauseCandidate(evidence, CauseKind.SPOT, "medium", 1)
            candidates.append(candidate)
    candidates = [candidate for candidate in candidates if candidate.kind in EXPLANATIONS]
    return min(
        candidates,
        key=lambda candidate: (candidate.priority, ORDER[candidate.evidence.source]),
        default=None,
    )


def _loss_start(node: Node) -> float | None:
    ready = [
        row
        for row in node.conditions
        if row.type == "Ready" and signals.is_bad(row.type, row.status)
    ]
    return times.parse(ready[-1].since) if ready else None


def _is_evicted(cluster: ClusterIndex, name: str, moment: float | None) -> bool:
    """The VM that had this name at that moment does not exist any more, and did not come back."""
    node, events = cluster.nodes.get(name), cluster.node_events.get(name, [])
    created = times.parse(node.created) if node else None
    if created is not None and moment is not None and created > moment:
        return True  # another VM has the name now
    near = [*cluster.garbage_collected_at.get(name, ())]
    near += [
        event.time
        for event in events
        if event.reason in signals.REMOVALS and event.time is not None
    ]
    is_gone = cluster.is_gone(name) or any(_is_near(time, moment) for time in near)
    return is_gone and not any(
        event.reason == "NodeReady"
        and (moment is None or event.time is None or event.time > moment)
        for event in events
    )


def _cordon(
    events: list[ClusterEvent], node: Node | None, moment: float | None
) -> CauseCandidate | None:
    """Cordoned before it was lost, and not uncordoned in between."""
    message = "cordoned before it was lost, as for a planned reboot or an upgrade"
    changes = [
        event
        for event in events
        if event.reason in (signals.CORDONED, signals.UNCORDONED)
        and is_within(event.time, moment, NOTICE_BEFORE_SECONDS, 0)
    ]
    if changes and changes[-1].reason == signals.CORDONED:
        evidence = Evidence(EvidenceSource.NODE_EVENT, signals.CORDONED, message, changes[-1].time)
        return CauseCandidate(evidence, CauseKind.DRAIN, "medium")
    for taint in node.taints if node else ():
        since = times.parse(taint.added)
        if taint.key == signals.CORDON_TAINT and is_within(since, moment, NOTICE_BEFORE_SECONDS, 0):
            evidence = Evidence(EvidenceSource.NODE_TAINT, taint.key, message, since)
            return CauseCandidate(evidence, CauseKind.DRAIN, "medium")
    return None


def _deletion(events: list[ClusterEvent], moment: float | None) -> CauseCandidate | None:
    """The VM was deleted in Azure: the reason for the loss, unless that was long before."""
    for event in events:
        if event.reason == "DeletingNode" and is_within(event.time, moment, 0, DELETION_SECONDS):
            evidence = Evidence(
                EvidenceSource.NODE_EVENT, event.reason, "its VM was deleted in Azure", event.time
            )
            return CauseCandidate(evidence, CauseKind.SCALE_DOWN, "low")
    return None


def _is_notice_near(kind: CauseKind | None, time: float | None, moment: float | None) -> bool:
    """A reboot or a removal that is announced after the loss is its repair, not its reason."""
    latest = _NOTICE_AFTER.get(kind)
    if latest is not None and time is not None and moment is not None and time > moment + latest:
        return False
    return _is_near(time, moment)


def _is_near(time: float | None, moment: float | None) -> bool:
    """A notice without a time may be of any time, and so may a loss without a time."""
    return (
        time is None
        or moment is None
        or is_within(time, moment, NOTICE_BEFORE_SECONDS, NOTICE_AFTER_SECONDS)
    )
