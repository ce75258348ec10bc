"""Why one attempt ended: all evidence in the order of `signals.ORDER`, the strongest that proves something decides.

Three rules stand beside the order, each because a weaker place explains a stronger one:
- a node that is lost or drained may be so because Azure took a spot machine, or the autoscaler or maintenance came,
  and one that is lost because it ran out of memory (the one retry that Microsoft documents) or had a fault;
- a kill for memory within a minute of a SystemOOM is the node's, since a container's own limit causes no SystemOOM;
- the identity sidecar that fails alone with 137 is a documented proxy problem, not memory.
Exit code 137 alone is never a cause.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

from arc_toolkit.diagnosis import signals
from arc_toolkit.diagnosis.kube import Cluster, Container, Event, Node, Pod, within
from arc_toolkit.diagnosis.model import Cause, Confidence, Evidence, Finding, Kind
from arc_toolkit.diagnosis.signals import KINDS, ORDER, Signal

# NotReady takes 40-50 s to be seen and 300 s of toleration to delete the pod: the fault is up to 6 minutes before.
LOOK_BACK_SECONDS = 600
LOOK_AHEAD_SECONDS = 60
SAME_KILL_SECONDS = 60
MAX_EVIDENCE = 8

EXPLANATIONS = (Kind.SPOT, Kind.SCALE_DOWN, Kind.DRAIN)
UNKNOWN = Cause(Kind.UNKNOWN, "low", (), blames_node=True)
_WEAKER: dict[Confidence, Confidence] = {"high": "medium", "medium": "low", "low": "low"}


@dataclass(slots=True)
class Circumstances:
    """What is known around one failed attempt."""

    cluster: Cluster
    node: str | None = None
    spot: bool | None = None
    pod: Pod | None = None
    start: float | None = None
    end: float | None = None
    next_start: float | None = None
    failure: tuple[str, str] | None = None  # AzureML's own words
    findings: list[Finding] = field(default_factory=list)


@dataclass(slots=True)
class Clue:
    """A piece of evidence, and what it proves if anything."""

    evidence: Evidence
    kind: Kind | None
    confidence: Confidence
    priority: int = 5


def decide(about: Circumstances) -> Cause:
    """The cause of a failed attempt; `unknown` is a normal answer."""
    pod_clues = _from_pod(about.pod, about.cluster) if about.pod else []
    node_clues = _from_node(about)
    clues = pod_clues + node_clues + _from_log(about.failure) + _from_findings(about.findings)
    if not clues:
        return UNKNOWN
    clues.sort(key=lambda clue: (clue.evidence.weight, clue.priority))
    lead = next((clue for clue in clues if clue.kind is not None), None)
    if lead is None or lead.kind is None:
        return Cause(Kind.UNKNOWN, "low", _listed(clues), blames_node=True)
    kind, confidence, decisive = _explained(lead, node_clues, about)
    # A node that is merely gone from the list proves nothing of the time when the attempt ran.
    blames = KINDS[kind].blames_node and decisive.evidence.source != signals.NODE_LIST
    rest = [clue for clue in clues if clue is not lead and clue is not decisive]
    first = [decisive] if decisive is lead else [decisive, lead]
    return Cause(kind, confidence, _listed(first + rest), blames)


def _listed(clues: list[Clue]) -> tuple[Evidence, ...]:
    unique = dict.fromkeys(clue.evidence for clue in clues)
    return tuple(unique)[:MAX_EVIDENCE]


def _explained(lead: Clue, node_clues: list[Clue], about: Circumstances) -> tuple[Kind, Confidence, Clue]:
    """The lead, or the clue of the node that explains it better."""
    kind = lead.kind or Kind.UNKNOWN
    if kind in (Kind.NODE_LOST, Kind.DRAIN):
        for clue in node_clues:
            if clue.kind in EXPLANATIONS and clue.kind is not kind and _earlier(clue.kind, kind):
                return clue.kind, clue.confidence, clue
        gone = lead.evidence.reason in ("DeletionByPodGC", "Terminated", "NodeShutdown", "Shutdown")
        if gone and about.spot:
            return Kind.SPOT, "medium", lead
    if kind is Kind.NODE_LOST:
        for clue in node_clues:
            if clue.kind in (Kind.NODE_MEMORY, Kind.NODE_FAULT) and clue.confidence != "low":
                return clue.kind, clue.confidence, clue
    if kind in (Kind.OWN_MEMORY, Kind.USER, Kind.NODE_PRESSURE):
        for clue in node_clues:
            if clue.kind is Kind.NODE_MEMORY and _same_moment(clue.evidence.time, about.end):
                return Kind.NODE_MEMORY, "high" if kind is not Kind.USER else "medium", clue
    return kind, lead.confidence, lead


def _earlier(explanation: Kind, kind: Kind) -> bool:
    """Spot explains a drain, a drain explains a lost node; not the other way round."""
    return kind is Kind.NODE_LOST or explanation is not Kind.DRAIN


def _same_moment(one: float | None, other: float | None) -> bool:
    return one is not None and other is not None and abs(one - other) <= SAME_KILL_SECONDS


def _clue(signal: Signal, time: float | None, weaker: bool = False, message: str = "") -> Clue:
    confidence = _WEAKER[signal.confidence] if weaker else signal.confidence
    evidence = Evidence(signal.where, signal.reason, message or signal.message, time, ORDER[signal.where])
    return Clue(evidence, signal.kind, confidence, signal.priority)


def _from_pod(pod: Pod, cluster: Cluster) -> list[Clue]:
    clues = []
    table = signals.table()
    known = table.get((signals.POD_CONDITION, pod.disruption))
    if known:
        clues.append(_clue(known, pod.disrupted))
    if pod.reason == "Evicted":
        clues.append(_evicted(signals.POD_STATUS, pod.message, pod.end))
    elif known := table.get((signals.POD_STATUS, pod.reason)):
        clues.append(_clue(known, pod.end))
    clues += _from_containers(pod)
    for event in cluster.events_of_pod(pod):
        if event.reason == "Evicted":
            clues.append(_evicted(signals.POD_EVENT, event.message, event.time))
        elif signals.PREEMPT_MESSAGE.search(event.message):
            clues.append(_preempt_message(signals.POD_EVENT, event))
        elif event.reason == "TaintManagerEviction" and event.message.startswith("Cancelling"):
            continue  # the node came back in time
        elif known := table.get((signals.POD_EVENT, event.reason)):
            clues.append(_clue(known, event.time))
    return clues


def _evicted(where: str, message: str, time: float | None) -> Clue:
    for pattern, kind, confidence, words in signals.EVICTED:
        if re.search(pattern, message):
            return Clue(Evidence(where, "Evicted", words, time, ORDER[where]), kind, confidence)
    words = "evicted, and no known message says why"
    return Clue(Evidence(where, "Evicted", words, time, ORDER[where]), Kind.NODE_PRESSURE, "low")


def _preempt_message(where: str, event: Event) -> Clue:
    words = "a termination handler saw Azure take the spot machine back"
    return Clue(Evidence(where, event.reason, words, event.time, ORDER[where]), Kind.SPOT, "high", 1)


def _from_containers(pod: Pod) -> list[Clue]:
    """The main container first; the others speak only where it did not fail by itself."""
    main = [item for item in pod.containers if item.name.endswith(signals.MAIN_CONTAINER)]
    others = [item for item in pod.containers if item not in main]
    if not main:
        main, others = (
            [item for item in others if signals.IDENTITY_SIDECAR not in item.name],
            [item for item in others if signals.IDENTITY_SIDECAR in item.name],
        )
    clues = [clue for item in main for clue in _from_container(item)]
    if any(item.state == "terminated" and item.exit_code for item in main):
        return clues
    for item in others:
        if signals.IDENTITY_SIDECAR in item.name and item.exit_code:
            words = f"only {signals.IDENTITY_SIDECAR} failed: a known effect of a proxy that it cannot pass"
            evidence = Evidence(
                signals.CONTAINER, f"{item.reason} {item.exit_code}".strip(), words, item.finished, 3
            )
            clues.append(Clue(evidence, Kind.SETUP, "medium"))
        else:
            clues += _from_container(item)
    return clues


def _from_container(item: Container) -> list[Clue]:
    table = signals.table()
    code = item.exit_code
    known = table.get((signals.CONTAINER, item.reason))
    clues = []
    if known and item.reason != "Error":
        clue = _clue(known, item.finished)
        if item.reason == "OOMKilled" and not code:
            # Seen on pods that succeeded: a child process was killed, the container was not.
            words = "a process was killed for memory, but the container went on"
            clue = Clue(Evidence(signals.CONTAINER, item.reason, words, item.finished, 3), None, "low")
        clues.append(clue)
    if item.state == "terminated" and code:
        signal = table.get((signals.EXIT_CODE, str(code)))
        if signal:
            clue = _clue(signal, item.finished)
        else:
            words = "the job's process ended with an error of its own"
            evidence = Evidence(signals.EXIT_CODE, str(code), words, item.finished, ORDER[signals.EXIT_CODE])
            clue = Clue(evidence, Kind.USER, "medium")
        if clue.kind is not None and item.reason in ("Error", ""):
            # `Error` with a code of its own is the container's word, which is stronger than a node event.
            old = clue.evidence
            clue.evidence = Evidence(old.source, old.reason, old.message, old.time, ORDER[signals.CONTAINER])
        clues.append(clue)
    return clues


def _window(about: Circumstances) -> tuple[float, float, bool] | None:
    """When to look at the node, and whether that is exact."""
    if about.end is not None:
        return about.end - LOOK_BACK_SECONDS, about.end + LOOK_AHEAD_SECONDS, True
    if about.next_start is not None:
        begin = about.next_start - 3600
        return max(about.start or begin, begin), about.next_start, False
    if about.start is not None:
        return about.start, about.start + 7 * 86400, False
    return None


def _from_node(about: Circumstances) -> list[Clue]:
    if about.node is None:
        return []
    cluster, window = about.cluster, _window(about)
    clues: list[Clue] = []
    events = cluster.node_events.get(about.node, [])
    exact = window is not None and window[2]
    for event in within(events, window[0], window[1]) if window else events:
        signal = signals.table().get((signals.NODE_EVENT, event.reason))
        if signals.PREEMPT_MESSAGE.search(event.message) and not (signal and signal.kind is Kind.SPOT):
            clues.append(_preempt_message(signals.NODE_EVENT, event))
        elif signal:
            clues.append(_clue(signal, event.time, weaker=not exact))
    node = cluster.nodes.get(about.node)
    if node is not None:
        clues += _from_node_state(node, window)
    elif cluster.nodes_complete:
        clues.append(_absent(about))
    clues.sort(key=lambda clue: (clue.evidence.weight, clue.priority))
    return clues


def _absent(about: Circumstances) -> Clue:
    kind = None
    if about.spot:
        kind = Kind.SPOT
    elif about.pod and not any(item.state == "terminated" for item in about.pod.containers):
        kind = Kind.NODE_LOST
    evidence = Evidence(signals.NODE_LIST, "absent", "the node no longer exists", None, ORDER[signals.NODE_LIST])
    return Clue(evidence, kind, "low")


def _from_node_state(node: Node, window: tuple[float, float, bool] | None) -> list[Clue]:
    """Conditions and taints that the node has now, if they began in the window; a fault may have begun before."""
    clues = []
    for signal, since in node_signals(node):
        if window is None or since is None:
            clues.append(_clue(signal, since, weaker=True))
        elif since <= window[1] and (since >= window[0] or signal.kind is Kind.NODE_FAULT):
            clues.append(_clue(signal, since, weaker=not window[2]))
    return clues


def node_signals(node: Node) -> list[tuple[Signal, float | None]]:
    """What a node's conditions and taints say. True is bad but for Ready; unknown types say nothing."""
    table = signals.table()
    found: list[tuple[Signal, float | None]] = []
    for kind, status, reason, message, since in node.conditions:
        signal = table.get((signals.NODE_CONDITION, kind))
        if signal is None or status not in ("True", "False", "Unknown"):
            continue
        if (status != "True") if kind == "Ready" else (status == "True"):
            if kind == "VMEventScheduled" and ("Preempt" in reason or "Preempt" in message):
                signal = table[signals.NODE_CONDITION, "PreemptionScheduled"]
            found.append((signal, since))
    for key, value, since in node.taints:
        signal = table.get((signals.NODE_TAINT, key))
        if signal and (not key.endswith("/draining") or value == "spot-eviction"):
            found.append((signal, since))
    return found


def _from_log(failure: tuple[str, str] | None) -> list[Clue]:
    if failure is None:
        return []
    code, diagnostics = failure
    weight = ORDER[signals.LOG]
    containers = _pod_pattern(diagnostics)
    if containers and all(signals.IDENTITY_SIDECAR in name for name, _ in containers):
        words = f"only {signals.IDENTITY_SIDECAR} failed: a known effect of a proxy that it cannot pass"
        return [Clue(Evidence(signals.LOG, code, words, None, weight), Kind.SETUP, "medium")]
    if any(reason == "OOMKilled" for _, reason in containers):
        words = "AzureML: a container went over its own memory limit"
        return [Clue(Evidence(signals.LOG, "OOMKilled", words, None, weight), Kind.OWN_MEMORY, "medium")]
    signal = signals.table().get((signals.LOG, code)) or signals.table().get((signals.EXIT_CODE, code))
    if signal:
        evidence = Evidence(signals.LOG, code, signal.message, None, weight)
        return [Clue(evidence, signal.kind, signal.confidence)]
    if code.isascii() and code.isdigit() and 0 < int(code[:9]) < 256:
        words = "AzureML: the job's process ended with an error of its own"
        return [Clue(Evidence(signals.LOG, code, words, None, weight), Kind.USER, "medium")]
    return []


def _pod_pattern(diagnostics: str) -> list[tuple[str, str]]:
    """Name and reason of each container in `PodPattern matched: {...}`."""
    _, found, text = diagnostics.partition("PodPattern matched: ")
    if not found:
        return []
    try:
        document, _ = json.JSONDecoder().raw_decode(text)
        return [
            (str(item.get("name", "")), str(item.get("reason", ""))) for item in document.get("containers", [])
        ]
    except (ValueError, AttributeError, TypeError, RecursionError):
        return []


def _from_findings(findings: list[Finding]) -> list[Clue]:
    return [Clue(finding.evidence, finding.kind, "low") for finding in findings]
