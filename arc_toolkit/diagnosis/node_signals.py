"""What a node says of itself: events, conditions and taints as clues, and what explains that a node was lost.

`causes.py` asks for one attempt, `verdicts.py` for the node: both must give the same answer, so both ask here.
"""

from __future__ import annotations

from dataclasses import dataclass

from arc_toolkit.diagnosis import signals
from arc_toolkit.diagnosis.cluster_index import ClusterEvent, ClusterIndex, NodeState
from arc_toolkit.diagnosis.model import CauseKind, Confidence, Evidence
from arc_toolkit.diagnosis.signals import ORDER, Signal

# Machines that were taken away on purpose: nobody's fault.
EXPLANATIONS = (CauseKind.SPOT, CauseKind.SCALE_DOWN, CauseKind.DRAIN)

# A drain may take half an hour, and a machine that is scaled down a while until it is gone. A notice may also be
# seen after the loss, because several watchers report it.
NOTICE_BEFORE_SECONDS = 3600
NOTICE_AFTER_SECONDS = 900

_WEAKER: dict[Confidence, Confidence] = {"high": "medium", "medium": "low", "low": "low"}


@dataclass(slots=True)
class CauseCandidate:
    """A piece of evidence, and what it proves if anything. `tied`: its time, or its kind, ties it to the attempt."""

    evidence: Evidence
    kind: CauseKind | None
    confidence: Confidence
    priority: int = 5
    tied: bool = True


def signal_clue(signal: Signal, time: float | None, *, weaker: bool = False, reason: str = "") -> CauseCandidate:
    """What a row of the table says at a moment."""
    confidence = _WEAKER[signal.confidence] if weaker else signal.confidence
    evidence = Evidence(signal.where, reason or signal.reason, signal.message, time, ORDER[signal.where])
    return CauseCandidate(evidence, signal.kind, confidence, signal.priority)


def from_event(where: str, event: ClusterEvent, *, weaker: bool = False) -> CauseCandidate | None:
    """An event of a node or a pod; third-party termination handlers are known by their message."""
    signal = signals.table().get((where, event.reason))
    if signals.PREEMPT_MESSAGE.search(event.message) and not (signal and signal.kind is CauseKind.SPOT):
        words = "a termination handler saw Azure take the spot machine back"
        reason = signals.reason_text(event.reason)
        return CauseCandidate(Evidence(where, reason, words, event.time, ORDER[where]), CauseKind.SPOT, "high", 1)
    return signal_clue(signal, event.time, weaker=weaker) if signal else None


def node_signals(node: NodeState) -> list[tuple[Signal, float | None]]:
    """What a node's conditions and taints say; unknown types say nothing."""
    table = signals.table()
    found: list[tuple[Signal, float | None]] = []
    for kind, status, reason, message, since in node.conditions:
        signal = table.get((signals.NODE_CONDITION, kind))
        if signal is None or not signals.is_bad(kind, status):
            continue
        if kind == "VMEventScheduled" and ("Preempt" in reason or "Preempt" in message):
            signal = table[signals.NODE_CONDITION, "PreemptionScheduled"]
        found.append((signal, since))
    for key, value, since in node.taints:
        signal = table.get((signals.NODE_TAINT, key))
        if signal and (not key.endswith("/draining") or value == "spot-eviction"):
            found.append((signal, since))
    return found


def explanation(
    cluster: ClusterIndex, name: str, moment: float | None, spot: bool | None
) -> CauseCandidate | None:
    """Why a node was lost at that moment, if Azure, the autoscaler or a person took it away on purpose.

    In this order: a notice (event, condition or taint); a spot machine that is gone for good; pods that were evicted
    through the API before, as a drain does; a node that was cordoned before, as for a reboot or an upgrade.
    """
    events = cluster.node_events.get(name, [])
    node = cluster.nodes.get(name)
    notices = [made for event in events if (made := from_event(signals.NODE_EVENT, event))]
    notices += [signal_clue(signal, since) for signal, since in (node_signals(node) if node else ())]
    notices = [one for one in notices if one.kind in EXPLANATIONS and _near(one.evidence.time, moment)]
    if notices:
        return min(notices, key=lambda one: (one.priority, one.evidence.weight))
    gone = node.deleted if node else cluster.nodes_complete
    gone = gone or any(_near(moment, time) for time in cluster.collected.get(name, ()))
    if spot and gone and not _came_back(events, moment):
        words = "a spot machine, and it went away"
        return CauseCandidate(
            Evidence(signals.NODE_LIST, "absent", words, None, ORDER[signals.NODE_LIST]), CauseKind.SPOT, "medium"
        )
    evicted = [time for time in cluster.drains.get(name, ()) if _before(time, moment)]
    if evicted:
        words = "a pod on it had been evicted through the API, as a drain does"
        evidence = Evidence(signals.POD_CONDITION, "EvictionByEvictionAPI", words, max(evicted), 1)
        return CauseCandidate(evidence, CauseKind.DRAIN, "medium")
    return _cordon(events, node, moment)


def _cordon(events: list[ClusterEvent], node: NodeState | None, moment: float | None) -> CauseCandidate | None:
    """Cordoned before it was lost, and not opened again in between."""
    words = "cordoned before it was lost, as for a planned reboot or an upgrade"
    turns = [
        event
        for event in events
        if event.reason in (signals.CORDONED, signals.UNCORDONED) and _before(event.time, moment)
    ]
    if turns and turns[-1].reason == signals.CORDONED:
        evidence = Evidence(signals.NODE_EVENT, signals.CORDONED, words, turns[-1].time, ORDER[signals.NODE_EVENT])
        return CauseCandidate(evidence, CauseKind.DRAIN, "medium")
    for key, _, since in node.taints if node else ():
        if key == signals.CORDON_TAINT and _before(since, moment):
            evidence = Evidence(signals.NODE_TAINT, key, words, since, ORDER[signals.NODE_TAINT])
            return CauseCandidate(evidence, CauseKind.DRAIN, "medium")
    return None


def _near(notice: float | None, moment: float | None) -> bool:
    """A notice without a time is one that stands now; a loss without a time may have been then."""
    if notice is None or moment is None:
        return True
    return -NOTICE_BEFORE_SECONDS <= notice - moment <= NOTICE_AFTER_SECONDS


def _before(time: float | None, moment: float | None) -> bool:
    return time is not None and moment is not None and 0 <= moment - time <= NOTICE_BEFORE_SECONDS


def _came_back(events: list[ClusterEvent], moment: float | None) -> bool:
    return any(
        event.reason == "NodeReady" and (moment is None or event.time is None or event.time > moment)
        for event in events
    )
