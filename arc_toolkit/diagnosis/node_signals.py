"""The evidence that a node gives: its events, conditions and taints, and what explains that the node was lost.

`causes.py` uses this for one attempt and `verdicts.py` for the node, so both give the same answer.
"""

from __future__ import annotations

from dataclasses import dataclass

from arc_toolkit.diagnosis import signals, times
from arc_toolkit.diagnosis.cluster_index import ClusterEvent, ClusterIndex
from arc_toolkit.diagnosis.model import CauseKind, Confidence, Evidence, EvidenceSource
from arc_toolkit.diagnosis.signals import ORDER, Signal
from arc_toolkit.kube.nodes import Node

# VMs that were removed on purpose: no fault of the node.
EXPLANATIONS = (CauseKind.SPOT, CauseKind.SCALE_DOWN, CauseKind.DRAIN)
# Causes that are not the job's own either.
TAKEN_AWAY = (*EXPLANATIONS, CauseKind.SCHEDULER, CauseKind.GANG, CauseKind.CANCELLED)

# A drain may take half an hour, and a VM that is scaled down some time until it is gone. A notice may also be
# recorded after the loss, because several watchers report it.
NOTICE_BEFORE_SECONDS = 3600
NOTICE_AFTER_SECONDS = 900

_WEAKER: dict[Confidence, Confidence] = {"high": "medium", "medium": "low", "low": "low"}


@dataclass(frozen=True, slots=True)
class CauseCandidate:
    """Evidence and the cause that it proves, if any. `tied`: its time, or its kind, ties it to the attempt."""

    evidence: Evidence
    kind: CauseKind | None
    confidence: Confidence
    priority: int = 5
    tied: bool = True
    weight: int | None = None  # if not that of the evidence's source

    @property
    def strength(self) -> tuple[int, int]:
        """The strongest sorts first."""
        return self.weight or ORDER[self.evidence.source], self.priority


def from_signal(signal: Signal, time: float | None, *, weaker: bool = False) -> CauseCandidate:
    """A row of the table, seen at a time."""
    confidence = _WEAKER[signal.confidence] if weaker else signal.confidence
    evidence = Evidence(signal.source, signal.reason, signal.message, time)
    return CauseCandidate(evidence, signal.kind, confidence, signal.priority)


def from_event(source: EvidenceSource, event: ClusterEvent, *, weaker: bool = False) -> CauseCandidate | None:
    """An event of a node or a pod; third-party termination handlers are recognized by their message."""
    signal = signals.table().get((source, event.reason))
    if signals.PREEMPT_MESSAGE.search(event.message) and not (signal and signal.kind is CauseKind.SPOT):
        message = "a termination handler reported that Azure reclaims the spot VM"
        evidence = Evidence(source, signals.reason_text(event.reason), message, event.time)
        return CauseCandidate(evidence, CauseKind.SPOT, "high", 1)
    return from_signal(signal, event.time, weaker=weaker) if signal else None


def node_signals(node: Node) -> list[tuple[Signal, float | None]]:
    """The known bad conditions and taints of a node, each with the time since when it has them."""
    table = signals.table()
    result: list[tuple[Signal, float | None]] = []
    for condition in node.conditions:
        signal = table.get((EvidenceSource.NODE_CONDITION, condition.type))
        if signal is None or not signals.is_bad(condition.type, condition.status):
            continue
        if condition.type == "VMEventScheduled" and "Preempt" in condition.reason + condition.message:
            signal = table[EvidenceSource.NODE_CONDITION, "PreemptionScheduled"]
        result.append((signal, times.parse(condition.since)))
    for taint in node.taints:
        signal = table.get((EvidenceSource.NODE_TAINT, taint.key))
        if signal and (not taint.key.endswith("/draining") or taint.value == "spot-eviction"):
            result.append((signal, times.parse(taint.added)))
    return result


def excuse(cluster: ClusterIndex, name: str, moment: float | None) -> CauseCandidate | None:
    """Why a node was lost at that moment, if Azure, the autoscaler or a person removed it on purpose; otherwise None.

    The one answer for the cause of an attempt and for the verdict on its node. It excuses a loss (NotReady,
    unreachable, gone), never a fault of the node's own.

    In this order: a notice (event, condition or taint); a spot VM that is gone for good; pods that were evicted
    through the API before, as a drain does; a node that was cordoned before, as for a reboot or an upgrade.
    """
    events = cluster.node_events.get(name, [])
    node = cluster.nodes.get(name)
    notices = [notice for event in events if (notice := from_event(EvidenceSource.NODE_EVENT, event))]
    notices += [from_signal(signal, since) for signal, since in (node_signals(node) if node else ())]
    notices = [
        notice for notice in notices if notice.kind in EXPLANATIONS and _is_near(notice.evidence.time, moment)
    ]
    if notices:
        return min(notices, key=lambda notice: (notice.priority, ORDER[notice.evidence.source]))
    gone = cluster.is_gone(name) or any(_is_near(moment, time) for time in cluster.collected.get(name, ()))
    if cluster.place(name).spot and gone and not _came_back(events, moment):
        evidence = Evidence(EvidenceSource.NODE_LIST, "absent", "it was a spot VM and no longer exists")
        return CauseCandidate(evidence, CauseKind.SPOT, "medium")
    evictions = [time for time in cluster.drains.get(name, ()) if _is_before(time, moment)]
    if evictions:
        message = "another pod on the node had been evicted through the API, as a drain does"
        evidence = Evidence(EvidenceSource.POD_CONDITION, "EvictionByEvictionAPI", message, max(evictions))
        return CauseCandidate(evidence, CauseKind.DRAIN, "medium")
    return _cordon(events, node, moment)


def _cordon(events: list[ClusterEvent], node: Node | None, moment: float | None) -> CauseCandidate | None:
    """Cordoned before it was lost, and not uncordoned in between."""
    message = "cordoned before it was lost, as for a planned reboot or an upgrade"
    changes = [
        event
        for event in events
        if event.reason in (signals.CORDONED, signals.UNCORDONED) and _is_before(event.time, moment)
    ]
    if changes and changes[-1].reason == signals.CORDONED:
        evidence = Evidence(EvidenceSource.NODE_EVENT, signals.CORDONED, message, changes[-1].time)
        return CauseCandidate(evidence, CauseKind.DRAIN, "medium")
    for taint in node.taints if node else ():
        since = times.parse(taint.added)
        if taint.key == signals.CORDON_TAINT and _is_before(since, moment):
            evidence = Evidence(EvidenceSource.NODE_TAINT, taint.key, message, since)
            return CauseCandidate(evidence, CauseKind.DRAIN, "medium")
    return None


def _is_near(notice: float | None, moment: float | None) -> bool:
    """A notice without a time holds now; a loss without a time may have been at any time."""
    if notice is None or moment is None:
        return True
    return -NOTICE_BEFORE_SECONDS <= notice - moment <= NOTICE_AFTER_SECONDS


def _is_before(time: float | None, moment: float | None) -> bool:
    return time is not None and moment is not None and 0 <= moment - time <= NOTICE_BEFORE_SECONDS


def _came_back(events: list[ClusterEvent], moment: float | None) -> bool:
    return any(
        event.reason == "NodeReady" and (moment is None or event.time is None or event.time > moment)
        for event in events
    )
