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
from typing import Literal

from arc_toolkit.diagnosis import signals
from arc_toolkit.diagnosis.cluster_index import ClusterIndex, ContainerState, NodeState, PodState, within
from arc_toolkit.diagnosis.model import Cause, CauseKind, Confidence, Evidence, PrsEvidence
from arc_toolkit.diagnosis.node_signals import CauseCandidate, explanation, from_event, node_signals, signal_clue
from arc_toolkit.diagnosis.signals import KINDS, ORDER, is_sidecar

# NotReady takes 40-50 s to be seen and 300 s of toleration to delete the pod: the fault is up to 6 minutes before.
LOOK_BACK_SECONDS = 600
LOOK_AHEAD_SECONDS = 60
SAME_KILL_SECONDS = 60
OPEN_WINDOW_SECONDS = 86400  # where only the start is known; most jobs end within a day
MAX_EVIDENCE = 8
UNTIED = "no time ties it to this attempt"
Tie = Literal["exact", "near", "open"]  # the end is known; only the next start; neither

ONLY_SIDECAR = f"only {signals.IDENTITY_SIDECAR} failed: a known effect of a proxy that it cannot pass"
UNKNOWN = Cause(CauseKind.UNKNOWN, "low", (), blames_node=True)


@dataclass(slots=True)
class AttemptContext:
    """What is known around one failed attempt."""

    cluster: ClusterIndex
    node: str | None = None
    spot: bool | None = None
    pod: PodState | None = None
    start: float | None = None
    end: float | None = None
    next_start: float | None = None
    failure: tuple[str, str] | None = None  # AzureML's own words
    findings: list[tuple[PrsEvidence, bool]] = field(default_factory=list)  # and whether it names this node


def decide(about: AttemptContext) -> Cause:
    """The cause of a failed attempt; `unknown` is a normal answer."""
    pod_clues = _from_pod(about.pod, about.cluster) if about.pod else []
    node_clues = _from_node(about)
    clues = pod_clues + node_clues + _from_log(about.failure) + _from_findings(about.findings)
    if not clues:
        return UNKNOWN
    clues.sort(key=lambda clue: (clue.evidence.weight, clue.priority))
    lead = next((clue for clue in clues if clue.kind is not None), None)
    if lead is None or lead.kind is None:
        return Cause(CauseKind.UNKNOWN, "low", _listed(clues), blames_node=True)
    kind, confidence, decisive = _explained(lead, node_clues, about)
    # A node that is merely gone from the list proves nothing of the time when the attempt ran.
    blames = KINDS[kind].blames_node and decisive.tied and decisive.evidence.source != signals.NODE_LIST
    rest = [clue for clue in clues if clue is not lead and clue is not decisive]
    first = [decisive] if decisive is lead else [decisive, lead]
    return Cause(kind, confidence, _listed(first + rest), blames)


def _listed(clues: list[CauseCandidate]) -> tuple[Evidence, ...]:
    unique = dict.fromkeys(clue.evidence for clue in clues)
    return tuple(unique)[:MAX_EVIDENCE]


def _explained(
    lead: CauseCandidate, node_clues: list[CauseCandidate], about: AttemptContext
) -> tuple[CauseKind, Confidence, CauseCandidate]:
    """The lead, or what explains it better."""
    kind = lead.kind or CauseKind.UNKNOWN
    if kind in (CauseKind.NODE_LOST, CauseKind.DRAIN) and about.node:
        moment = lead.evidence.time if lead.evidence.time is not None else about.end
        spot = (
            about.spot if kind is CauseKind.NODE_LOST else None
        )  # an upgrade drains spot machines too, and removes them
        found = explanation(about.cluster, about.node, moment, spot)
        # Spot explains a drain, a drain explains a lost node; not the other way round.
        if found and found.kind and (kind is CauseKind.NODE_LOST or found.kind is not CauseKind.DRAIN):
            return found.kind, found.confidence if lead.tied else "low", found
        if about.spot and lead.evidence.reason in ("DeletionByPodGC", "Terminated", "NodeShutdown", "Shutdown"):
            return CauseKind.SPOT, "medium", lead
    if kind is CauseKind.NODE_LOST:
        for other in node_clues:
            if other.kind in (CauseKind.NODE_MEMORY, CauseKind.NODE_FAULT) and other.confidence != "low":
                return other.kind, other.confidence, other
    if kind in (CauseKind.OWN_MEMORY, CauseKind.USER, CauseKind.NODE_PRESSURE):
        for other in node_clues:
            if other.kind is CauseKind.NODE_MEMORY and _same_moment(other.evidence.time, about.end):
                return CauseKind.NODE_MEMORY, "high" if kind is not CauseKind.USER else "medium", other
    return kind, lead.confidence, lead


def _same_moment(one: float | None, other: float | None) -> bool:
    return one is not None and other is not None and abs(one - other) <= SAME_KILL_SECONDS


def _from_pod(pod: PodState, cluster: ClusterIndex) -> list[CauseCandidate]:
    clues = []
    table = signals.table()
    known = table.get((signals.POD_CONDITION, pod.disruption))
    if known:
        clues.append(signal_clue(known, pod.disrupted))
    if pod.reason == "Evicted":
        clues.append(_evicted(signals.POD_STATUS, pod.message, pod.end))
    elif known := table.get((signals.POD_STATUS, pod.reason)):
        clues.append(signal_clue(known, pod.end))
    clues += _from_containers(pod)
    for event in cluster.events_of_pod(pod):
        if event.reason == "Evicted":
            clues.append(_evicted(signals.POD_EVENT, event.message, event.time))
        elif event.reason == "TaintManagerEviction" and event.message.startswith("Cancelling"):
            continue  # the node came back in time
        elif made := from_event(signals.POD_EVENT, event):
            clues.append(made)
    return clues


def _evicted(where: str, message: str, time: float | None) -> CauseCandidate:
    for pattern, kind, confidence, words in signals.EVICTED:
        if re.search(pattern, message):
            return CauseCandidate(Evidence(where, "Evicted", words, time, ORDER[where]), kind, confidence)
    words = "evicted, and no known message says why"
    return CauseCandidate(Evidence(where, "Evicted", words, time, ORDER[where]), CauseKind.NODE_PRESSURE, "low")


def _from_containers(pod: PodState) -> list[CauseCandidate]:
    """The main container first; the others speak only where it did not fail by itself."""
    main = [item for item in pod.containers if item.name.endswith(signals.MAIN_CONTAINER)]
    others = [item for item in pod.containers if item not in main]
    if not main:
        main, others = (
            [item for item in others if not is_sidecar(item.name)],
            [item for item in others if is_sidecar(item.name)],
        )
    clues = [clue for item in main for clue in _from_container(item)]
    if any(item.state == "terminated" and item.exit_code for item in main):
        return clues
    for item in others:
        if is_sidecar(item.name) and item.exit_code:
            reason = f"{signals.reason_text(item.reason)} {item.exit_code}"
            clues.append(
                CauseCandidate(
                    Evidence(signals.CONTAINER, reason, ONLY_SIDECAR, item.finished, 3), CauseKind.SETUP, "medium"
                )
            )
        else:
            clues += _from_container(item)
    return clues


def _from_container(item: ContainerState) -> list[CauseCandidate]:
    table = signals.table()
    code = item.exit_code
    known = table.get((signals.CONTAINER, item.reason))
    clues = []
    if known and item.reason != "Error":
        clue = signal_clue(known, item.finished)
        if item.reason == "OOMKilled" and not code:
            # Seen on pods that succeeded: a child process was killed, the container was not.
            words = "a process was killed for memory, but the container went on"
            clue = CauseCandidate(Evidence(signals.CONTAINER, item.reason, words, item.finished, 3), None, "low")
        clues.append(clue)
    if item.state == "terminated" and code:
        signal = table.get((signals.EXIT_CODE, str(code)))
        if signal:
            clue = signal_clue(signal, item.finished)
        else:
            words = "the job's process ended with an error of its own"
            evidence = Evidence(signals.EXIT_CODE, str(code), words, item.finished, ORDER[signals.EXIT_CODE])
            clue = CauseCandidate(evidence, CauseKind.USER, "medium")
        if clue.kind is not None and item.reason in ("Error", ""):
            # `Error` with a code of its own is the container's word, which is stronger than a node event.
            old = clue.evidence
            clue.evidence = Evidence(old.source, old.reason, old.message, old.time, ORDER[signals.CONTAINER])
        clues.append(clue)
    return clues


def _window(about: AttemptContext) -> tuple[float, float, Tie]:
    """When to look at the node, and how well that time is known."""
    if about.end is not None:
        return about.end - LOOK_BACK_SECONDS, about.end + LOOK_AHEAD_SECONDS, "exact"
    if about.next_start is not None:
        begin = about.next_start - 3600
        return max(about.start or begin, begin), about.next_start, "near"
    if about.start is not None:
        return about.start - LOOK_BACK_SECONDS, about.start + OPEN_WINDOW_SECONDS, "open"
    return float("-inf"), float("inf"), "open"


def _from_node(about: AttemptContext) -> list[CauseCandidate]:
    if about.node is None:
        return []
    cluster = about.cluster
    begin, end, tie = _window(about)
    clues: list[CauseCandidate] = []
    for event in within(cluster.node_events.get(about.node, []), begin, end):
        made = from_event(signals.NODE_EVENT, event, weaker=tie != "exact")
        if made:
            clues.append(made if tie != "open" else _untied(made))
    node = cluster.nodes.get(about.node)
    if node is not None:
        clues += _from_node_state(node, begin, end, tie)
    elif cluster.nodes_complete:
        clues.append(_absent(about))
    clues.sort(key=lambda clue: (clue.evidence.weight, clue.priority))
    return clues


def _untied(made: CauseCandidate) -> CauseCandidate:
    """Evidence of a node that may be of another day than the attempt."""
    old = made.evidence
    evidence = Evidence(old.source, old.reason, f"{old.message} ({UNTIED})", old.time, old.weight)
    return CauseCandidate(evidence, made.kind, "low", made.priority, tied=False)


def _absent(about: AttemptContext) -> CauseCandidate:
    kind = None
    if about.spot:
        kind = CauseKind.SPOT
    elif about.pod and not any(item.state == "terminated" for item in about.pod.containers):
        kind = CauseKind.NODE_LOST
    evidence = Evidence(signals.NODE_LIST, "absent", "the node no longer exists", None, ORDER[signals.NODE_LIST])
    return CauseCandidate(evidence, kind, "low")


def _from_node_state(node: NodeState, begin: float, end: float, tie: Tie) -> list[CauseCandidate]:
    """Conditions and taints that the node has now, if they began in the window; a fault may have begun before."""
    clues = []
    for signal, since in node_signals(node):
        if tie == "open" or since is None:
            clues.append(_untied(signal_clue(signal, since)))
        elif since <= end and (since >= begin or signal.kind is CauseKind.NODE_FAULT):
            clues.append(signal_clue(signal, since, weaker=tie != "exact"))
    return clues


def _from_log(failure: tuple[str, str] | None) -> list[CauseCandidate]:
    if failure is None:
        return []
    code, diagnostics = failure
    weight = ORDER[signals.LOG]
    containers = _pod_pattern(diagnostics)
    if containers and all(is_sidecar(name) for name, _ in containers):
        return [
            CauseCandidate(
                Evidence(signals.LOG, signals.reason_text(code), ONLY_SIDECAR, None, weight),
                CauseKind.SETUP,
                "medium",
            )
        ]
    if any(reason == "OOMKilled" for _, reason in containers):
        words = "AzureML: a container went over its own memory limit"
        return [
            CauseCandidate(Evidence(signals.LOG, "OOMKilled", words, None, weight), CauseKind.OWN_MEMORY, "medium")
        ]
    signal = signals.table().get((signals.LOG, code)) or signals.table().get((signals.EXIT_CODE, code))
    if signal:
        evidence = Evidence(signals.LOG, code, signal.message, None, weight)
        return [CauseCandidate(evidence, signal.kind, signal.confidence)]
    if code.isascii() and code.isdigit() and 0 < int(code[:9]) < 256:
        words = "AzureML: the job's process ended with an error of its own"
        return [CauseCandidate(Evidence(signals.LOG, code, words, None, weight), CauseKind.USER, "medium")]
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


def _from_findings(findings: list[tuple[PrsEvidence, bool]]) -> list[CauseCandidate]:
    return [CauseCandidate(finding.evidence, finding.kind, "low", tied=named) for finding, named in findings]
