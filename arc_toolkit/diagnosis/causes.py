"""Why one attempt ended: all evidence in the order of `signals.ORDER`; the strongest that proves a cause decides.

Three rules besides the order, each because weaker evidence explains stronger evidence:
- a node may be lost or drained because Azure reclaimed a spot VM, or because of the autoscaler or maintenance; and it
  may be lost because it ran out of memory (the one retry that Microsoft documents) or had a fault;
- a kill for memory within a minute of a SystemOOM is the node's, because a container's own limit causes no SystemOOM;
- if only the identity sidecar fails with 137, it is a documented proxy problem, not memory.
Exit code 137 alone is never a cause.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from arc_toolkit.diagnosis import signals
from arc_toolkit.diagnosis.cluster_index import ClusterIndex, ContainerState, PodState, within
from arc_toolkit.diagnosis.model import (
    Attempt,
    Cause,
    CauseKind,
    Confidence,
    Evidence,
    EvidenceSource,
    PrsEvidence,
    RunOutcome,
)
from arc_toolkit.diagnosis.node_signals import CauseCandidate, excuse, from_event, from_signal, node_signals
from arc_toolkit.diagnosis.signals import KINDS, ORDER, is_sidecar
from arc_toolkit.kube.nodes import Node

# NotReady is noticed after 40-50 s and the pod deleted after 300 s of toleration: the fault is up to 6 minutes before.
LOOK_BACK_SECONDS = 600
LOOK_AHEAD_SECONDS = 60
SAME_KILL_SECONDS = 60
OPEN_WINDOW_SECONDS = 86400  # if only the start is known; most jobs end within a day
MAX_EVIDENCE = 8
UNTIED = "no time ties it to this attempt"
Tie = Literal["exact", "near", "open"]  # the end is known; only the next start; neither

ONLY_SIDECAR = f"only {signals.IDENTITY_SIDECAR} failed: a known effect of a proxy that blocks it"
UNKNOWN = Cause(CauseKind.UNKNOWN, "low", countable=True)


@dataclass(slots=True)
class AttemptContext:
    """What is known about one failed attempt."""

    cluster: ClusterIndex
    node: str | None = None
    spot: bool | None = None
    pod: PodState | None = None
    start: float | None = None
    end: float | None = None
    next_start: float | None = None
    failure: tuple[str, str] | None = None  # AzureML's own code and diagnostics
    prs_evidence: list[tuple[PrsEvidence, bool]] = field(default_factory=list)  # and whether it names this node


def decide(context: AttemptContext) -> Cause:
    """The cause of a failed attempt; `unknown` is a normal answer."""
    of_pod = _from_pod(context.pod, context.cluster) if context.pod else []
    of_node = _from_node(context)
    candidates = of_pod + of_node + _from_log(context.failure) + _from_prs(context.prs_evidence)
    if not candidates:
        return UNKNOWN
    candidates.sort(key=lambda candidate: candidate.strength)
    lead = next((candidate for candidate in candidates if candidate.kind is not None), None)
    if lead is None or lead.kind is None:
        return replace(UNKNOWN, evidence=_evidence(candidates))
    kind, confidence, decisive = _explained(lead, of_node, context)
    # A node that is only missing from the list proves nothing about the time when the attempt ran.
    blames = KINDS[kind].blames_node and decisive.tied and decisive.evidence.source is not EvidenceSource.NODE_LIST
    rest = [candidate for candidate in candidates if candidate is not lead and candidate is not decisive]
    first = [decisive] if decisive is lead else [decisive, lead]
    return Cause(kind, confidence, _evidence(first + rest), blames)


def count_successes_elsewhere(attempts: Sequence[Attempt]) -> list[Attempt]:
    """Mark errors of a job's process as countable if the same job succeeded later, on another node."""
    successes: dict[str, list[Attempt]] = {}
    for attempt in attempts:
        if attempt.outcome is RunOutcome.SUCCEEDED and attempt.node:
            successes.setdefault(attempt.job, []).append(attempt)
    return [
        replace(attempt, cause=replace(attempt.cause, countable=True))
        if attempt.cause
        and attempt.cause.kind is CauseKind.USER
        and any(
            other.number > attempt.number and other.node != attempt.node
            for other in successes.get(attempt.job, ())
        )
        else attempt
        for attempt in attempts
    ]


def _evidence(candidates: list[CauseCandidate]) -> tuple[Evidence, ...]:
    unique = dict.fromkeys(candidate.evidence for candidate in candidates)
    return tuple(unique)[:MAX_EVIDENCE]


def _explained(
    lead: CauseCandidate, of_node: list[CauseCandidate], context: AttemptContext
) -> tuple[CauseKind, Confidence, CauseCandidate]:
    """The lead, or what explains it better."""
    kind = lead.kind or CauseKind.UNKNOWN
    if kind in (CauseKind.NODE_LOST, CauseKind.DRAIN) and context.node:
        moment = lead.evidence.time if lead.evidence.time is not None else context.end
        better = excuse(context.cluster, context.node, moment)
        # An upgrade drains spot VMs too, and removes them: that a spot VM is gone does not explain a drain.
        if better and kind is CauseKind.DRAIN and better.evidence.source is EvidenceSource.NODE_LIST:
            better = None
        # Spot explains a drain, a drain explains a lost node; not the other way round.
        if better and better.kind and (kind is CauseKind.NODE_LOST or better.kind is not CauseKind.DRAIN):
            return better.kind, better.confidence if lead.tied else "low", better
        if context.spot and lead.evidence.reason in signals.SPOT_VM_ENDS:
            return CauseKind.SPOT, "medium", lead
    if kind is CauseKind.NODE_LOST:
        for other in of_node:
            if other.kind in (CauseKind.NODE_MEMORY, CauseKind.NODE_FAULT) and other.confidence != "low":
                return other.kind, other.confidence, other
    if kind in (CauseKind.OWN_MEMORY, CauseKind.USER, CauseKind.NODE_PRESSURE):
        for other in of_node:
            if other.kind is CauseKind.NODE_MEMORY and _is_same_moment(other.evidence.time, context.end):
                return CauseKind.NODE_MEMORY, "high" if kind is not CauseKind.USER else "medium", other
    return kind, lead.confidence, lead


def _is_same_moment(first: float | None, second: float | None) -> bool:
    return first is not None and second is not None and abs(first - second) <= SAME_KILL_SECONDS


def _from_pod(pod: PodState, cluster: ClusterIndex) -> list[CauseCandidate]:
    candidates = []
    table = signals.table()
    if signal := table.get((EvidenceSource.POD_CONDITION, pod.disruption)):
        candidates.append(from_signal(signal, pod.disrupted))
    if pod.reason == "Evicted":
        candidates.append(_evicted(EvidenceSource.POD_STATUS, pod.message, pod.end))
    elif signal := table.get((EvidenceSource.POD_STATUS, pod.reason)):
        candidates.append(from_signal(signal, pod.end))
    candidates += _from_containers(pod)
    for event in cluster.events_of_pod(pod):
        if event.reason == "Evicted":
            candidates.append(_evicted(EvidenceSource.POD_EVENT, event.message, event.time))
        elif event.reason == "TaintManagerEviction" and event.message.startswith("Cancelling"):
            continue  # the node came back in time; Kubernetes has no other sign of it than this message
        elif candidate := from_event(EvidenceSource.POD_EVENT, event):
            candidates.append(candidate)
    return candidates


def _evicted(source: EvidenceSource, message: str, time: float | None) -> CauseCandidate:
    for pattern, kind, confidence, meaning in signals.EVICTED:
        if re.search(pattern, message):
            return CauseCandidate(Evidence(source, "Evicted", meaning, time), kind, confidence)
    evidence = Evidence(source, "Evicted", "evicted, for a reason that is not known", time)
    return CauseCandidate(evidence, CauseKind.NODE_PRESSURE, "low")


def _from_containers(pod: PodState) -> list[CauseCandidate]:
    """The main container first; the others count only if it did not fail by itself."""
    main = [item for item in pod.containers if item.name.endswith(signals.MAIN_CONTAINER)]
    others = [item for item in pod.containers if item not in main]
    if not main:
        main = [item for item in others if not is_sidecar(item.name)]
        others = [item for item in others if is_sidecar(item.name)]
    candidates = [candidate for item in main for candidate in _from_container(item)]
    if any(item.state == "terminated" and item.exit_code for item in main):
        return candidates
    for item in others:
        if is_sidecar(item.name) and item.exit_code:
            reason = f"{signals.reason_text(item.reason)} {item.exit_code}"
            evidence = Evidence(EvidenceSource.CONTAINER, reason, ONLY_SIDECAR, item.finished)
            candidates.append(CauseCandidate(evidence, CauseKind.SETUP, "medium"))
        else:
            candidates += _from_container(item)
    return candidates


def _from_container(item: ContainerState) -> list[CauseCandidate]:
    table = signals.table()
    code = item.exit_code
    signal = table.get((EvidenceSource.CONTAINER, item.reason))
    candidates = []
    if signal and item.reason != "Error":
        candidate = from_signal(signal, item.finished)
        if item.reason == "OOMKilled" and not code:
            # Happens in pods that succeeded: a child process was killed, the container was not.
            message = "a process was killed for memory, but the container continued"
            evidence = Evidence(EvidenceSource.CONTAINER, item.reason, message, item.finished)
            candidate = CauseCandidate(evidence, None, "low")
        candidates.append(candidate)
    if item.state == "terminated" and code:
        if signal := table.get((EvidenceSource.EXIT_CODE, str(code))):
            candidate = from_signal(signal, item.finished)
        else:
            message = "the job's process ended with an error of its own"
            evidence = Evidence(EvidenceSource.EXIT_CODE, str(code), message, item.finished)
            candidate = CauseCandidate(evidence, CauseKind.USER, "medium")
        if candidate.kind is not None and item.reason in ("Error", ""):
            # `Error` with a code of its own comes from the container, which is stronger than a node event.
            candidate = replace(candidate, weight=ORDER[EvidenceSource.CONTAINER])
        candidates.append(candidate)
    return candidates


def _window(context: AttemptContext) -> tuple[float, float, Tie]:
    """When to look at the node, and how well that time is known."""
    if context.end is not None:
        return context.end - LOOK_BACK_SECONDS, context.end + LOOK_AHEAD_SECONDS, "exact"
    if context.next_start is not None:
        begin = context.next_start - 3600
        return max(context.start or begin, begin), context.next_start, "near"
    if context.start is not None:
        return context.start - LOOK_BACK_SECONDS, context.start + OPEN_WINDOW_SECONDS, "open"
    return float("-inf"), float("inf"), "open"


def _from_node(context: AttemptContext) -> list[CauseCandidate]:
    if context.node is None:
        return []
    cluster = context.cluster
    begin, end, tie = _window(context)
    candidates: list[CauseCandidate] = []
    for event in within(cluster.node_events.get(context.node, []), begin, end):
        candidate = from_event(EvidenceSource.NODE_EVENT, event, weaker=tie != "exact")
        if candidate:
            candidates.append(candidate if tie != "open" else _untied(candidate))
    node = cluster.nodes.get(context.node)
    if node is not None:
        candidates += _from_node_state(node, begin, end, tie)
    elif cluster.is_gone(context.node):
        candidates.append(_absent(context))
    candidates.sort(key=lambda candidate: candidate.strength)
    return candidates


def _untied(candidate: CauseCandidate) -> CauseCandidate:
    """Evidence of a node that may be from another day than the attempt."""
    evidence = replace(candidate.evidence, message=f"{candidate.evidence.message} ({UNTIED})")
    return replace(candidate, evidence=evidence, confidence="low", tied=False)


def _absent(context: AttemptContext) -> CauseCandidate:
    kind = None
    if context.spot:
        kind = CauseKind.SPOT
    elif context.pod and not any(item.state == "terminated" for item in context.pod.containers):
        kind = CauseKind.NODE_LOST
    evidence = Evidence(EvidenceSource.NODE_LIST, "absent", "the node no longer exists")
    return CauseCandidate(evidence, kind, "low")


def _from_node_state(node: Node, begin: float, end: float, tie: Tie) -> list[CauseCandidate]:
    """Conditions and taints that the node has now, if they began in the window; a fault may have begun before."""
    candidates = []
    for signal, since in node_signals(node):
        if tie == "open" or since is None:
            candidates.append(_untied(from_signal(signal, since)))
        elif since <= end and (since >= begin or signal.kind is CauseKind.NODE_FAULT):
            candidates.append(from_signal(signal, since, weaker=tie != "exact"))
    return candidates


def _from_log(failure: tuple[str, str] | None) -> list[CauseCandidate]:
    if failure is None:
        return []
    code, diagnostics = failure
    containers = _pod_pattern(diagnostics)
    if containers and all(is_sidecar(name) for name, _ in containers):
        evidence = Evidence(EvidenceSource.LOG, signals.reason_text(code), ONLY_SIDECAR)
        return [CauseCandidate(evidence, CauseKind.SETUP, "medium")]
    if any(reason == "OOMKilled" for _, reason in containers):
        evidence = Evidence(EvidenceSource.LOG, "OOMKilled", "AzureML: a container exceeded its own memory limit")
        return [CauseCandidate(evidence, CauseKind.OWN_MEMORY, "medium")]
    table = signals.table()
    if signal := table.get((EvidenceSource.LOG, code)) or table.get((EvidenceSource.EXIT_CODE, code)):
        return [CauseCandidate(Evidence(EvidenceSource.LOG, code, signal.message), signal.kind, signal.confidence)]
    if code.isascii() and code.isdigit() and 0 < int(code[:9]) < 256:
        message = "AzureML: the job's process ended with an error of its own"
        return [CauseCandidate(Evidence(EvidenceSource.LOG, code, message), CauseKind.USER, "medium")]
    return []


def _pod_pattern(diagnostics: str) -> list[tuple[str, str]]:
    """Name and reason of each container in `PodPattern matched: {...}`."""
    _, marker, text = diagnostics.partition("PodPattern matched: ")
    if not marker:
        return []
    try:
        document, _ = json.JSONDecoder().raw_decode(text)
        return [
            (str(item.get("name", "")), str(item.get("reason", ""))) for item in document.get("containers", [])
        ]
    except (ValueError, AttributeError, TypeError, RecursionError):
        return []


def _from_prs(items: list[tuple[PrsEvidence, bool]]) -> list[CauseCandidate]:
    return [CauseCandidate(item.evidence, item.kind, "low", tied=named) for item, named in items]
