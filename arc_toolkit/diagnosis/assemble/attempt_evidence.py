"""The evidence about one attempt, by place: its pod, its containers, its node, and texts.

Only what each piece says in its time window (times.py); `causes.py` asks the questions. What a
reason string means is in data/signals.csv, what a text means in container_evidence.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from arc_toolkit.diagnosis import signals, times
from arc_toolkit.diagnosis.assemble import container_evidence
from arc_toolkit.diagnosis.assemble.container_evidence import (
    ONLY_SIDECAR,
    Reading,
    container_candidates,
    main_containers,
    reading_candidate,
)
from arc_toolkit.diagnosis.assemble.log_evidence import NOTICED, PEER_REASONS
from arc_toolkit.diagnosis.assemble.node_signals import (
    CauseCandidate,
    condition_change,
    event_candidate,
    node_signals,
    signal_candidate,
)
from arc_toolkit.diagnosis.model import CauseKind, Evidence, EvidenceSource, FileEvidence
from arc_toolkit.diagnosis.read.cluster_index import ClusterIndex, within
from arc_toolkit.diagnosis.read.gpu_messages import GpuProof
from arc_toolkit.diagnosis.read.log_endings import LogEndingKind
from arc_toolkit.diagnosis.read.pod_states import ClusterEvent, PodState
from arc_toolkit.diagnosis.signals import is_sidecar
from arc_toolkit.diagnosis.times import (
    BEFORE_RETRY_SECONDS,
    FAULT_REPORT_SECONDS,
    HARMLESS_SECONDS,
    LOOK_AHEAD_SECONDS,
    LOOK_BACK_SECONDS,
    OPEN_WINDOW_SECONDS,
    SAME_KILL_SECONDS,
    START_UP_SECONDS,
    is_within,
)
from arc_toolkit.kube.nodes import Node
from arc_toolkit.kube.raw import mapping, rows

UNTIED = "no time ties it to this attempt"
Tie = Literal["exact", "near", "open"]  # the end is known; only the next start; neither


@dataclass(slots=True)
class AttemptContext:
    """What is known about one failed attempt."""

    cluster: ClusterIndex
    node: str | None = None
    pod: PodState | None = None
    start: float | None = None
    end: float | None = None
    next_start: float | None = None
    failure: tuple[str, str] | None = None  # AzureML's own code and diagnostics
    # and whether it names this node
    file_evidence: list[tuple[FileEvidence, bool]] = field(default_factory=list)
    gang_evidence: Sequence[FileEvidence] = ()  # in the files of all ranks of this attempt
    single_rank: bool = True  # not a rank of a gang, so what the job's files say is of this node

    @property
    def exit_is_known(self) -> bool:
        """AzureML or the pod says how the job's process ended, so its last words are not needed."""
        without_code = self.pod is None or any(
            item.fails_without_code for item in self.pod.containers
        )
        return self.failure is not None or not without_code

    @property
    def is_on_spot(self) -> bool:
        return bool(self.node and self.cluster.node_place(self.node).spot)


@dataclass(slots=True)
class AttemptEvidence:
    """All evidence about one attempt, by where it was found; the strongest of each first."""

    context: AttemptContext
    end: float | None
    pod: list[CauseCandidate]  # condition, status and events of the pod, commands to its job
    containers: list[CauseCandidate]
    node: list[CauseCandidate]
    texts: list[CauseCandidate]  # AzureML's message, and the job's own files

    def everything(self) -> list[CauseCandidate]:
        """The strongest first."""
        candidates = [*self.pod, *self.containers, *self.node, *self.texts]
        return sorted(candidates, key=lambda candidate: candidate.strength)


def gather(context: AttemptContext) -> AttemptEvidence:
    """Everything that may say why an attempt ended."""
    pod, end = context.pod, context.end
    if pod and (ended := _end_before_disruption(pod)) is not None:
        # A failed pod is deleted too when its node is lost later.
        end = ended
        pod = replace(pod, disruption="", disrupted=None, end=end)
        context = replace(context, pod=pod, end=end)
    of_pod = _pod_candidates(pod, context) if pod else []
    containers = container_candidates(pod) if pod else []
    of_pod.sort(key=lambda candidate: candidate.strength)
    of_log, of_files = _log_candidates(context.failure), _file_candidates(context)
    if any(item.tied and item.evidence.reason in _NOT_BY_ITSELF for item in of_files):
        # Many programs end with 1 then. The code is shown, but it is not an error of their own.
        containers, of_log = _drop_own_errors(containers), _drop_own_errors(of_log)
    texts = of_log + of_files
    return AttemptEvidence(context, end, of_pod, containers, _node_candidates(context), texts)


# The program says that it was asked to stop, that what provided its data went away, or that one of
# its processes was killed, which is not an error of theirs.
_NOT_BY_ITSELF = (LogEndingKind.STOPPED, LogEndingKind.MOUNT_LOST, LogEndingKind.CHILD_KILLED)
_UNSURE_ENDINGS = (LogEndingKind.OWN_ERROR, LogEndingKind.CHILD_KILLED)


def _drop_own_errors(candidates: list[CauseCandidate]) -> list[CauseCandidate]:
    return [
        replace(item, kind=None) if item.kind is CauseKind.USER else item for item in candidates
    ]


def _end_before_disruption(pod: PodState) -> float | None:
    """When the job's container ended by itself, if that was before the pod's disruption."""
    ends = [
        item.finished
        for item in main_containers(pod.containers)
        if item.state == "terminated"
        and item.reason != "ContainerStatusUnknown"
        and item.finished is not None
    ]
    if not ends or pod.disrupted is None or pod.disruption == "TerminationByKubelet":
        return None
    return max(ends) if 0 < max(ends) < pod.disrupted - SAME_KILL_SECONDS else None


def _pod_candidates(pod: PodState, context: AttemptContext) -> list[CauseCandidate]:
    candidates = []
    table = signals.table()
    if signal := table.get((EvidenceSource.POD_CONDITION, pod.disruption)):
        candidates.append(signal_candidate(signal, pod.disrupted))
    if pod.evicted:
        candidates.append(
            signal_candidate(table[EvidenceSource.POD_CONDITION, "Evict"], pod.evicted.time)
        )
    if pod.reason == "Evicted":
        candidates.append(_eviction_candidate(EvidenceSource.POD_STATUS, pod, pod.message, pod.end))
    elif reading := _refusal(pod, context):
        time = pod.end if pod.end is not None else pod.start  # nothing ran
        candidates.append(reading_candidate(EvidenceSource.POD_STATUS, pod.reason, reading, time))
    elif signal := table.get((EvidenceSource.POD_STATUS, pod.reason)):
        candidates.append(signal_candidate(signal, pod.end))
    begin, end, tie = _window(context)
    for event in context.cluster.events_of_pod(pod):
        if tie == "exact" and event.time is not None and not begin <= event.time <= end:
            continue  # the pod survived it, or was gone
        if event.reason == "Evicted" and container_evidence.is_eviction(event.message):
            candidates.append(
                _eviction_candidate(EvidenceSource.POD_EVENT, pod, event.message, event.time)
            )
        elif event.reason == "TaintManagerEviction" and event.message.startswith("Cancelling"):
            continue  # the node came back in time; this message is the only sign of it
        elif candidate := event_candidate(EvidenceSource.POD_EVENT, event):
            candidates.append(candidate)
    return candidates + _command_candidates(pod, context.cluster)


def _eviction_candidate(
    source: EvidenceSource, pod: PodState, message: str, time: float | None
) -> CauseCandidate:
    main = {item.name for item in main_containers(pod.containers)}
    reading = container_evidence.eviction_reading(
        message, lambda name: name in main if main else not is_sidecar(name)
    )
    return reading_candidate(source, "Evicted", reading, time)


def _refusal(pod: PodState, context: AttemptContext) -> Reading | None:
    if not pod.message or pod.reason in ("", "Evicted", "Terminated", "NodeShutdown", "Shutdown"):
        return None
    cluster, node = context.cluster, pod.node or ""
    starts = [
        event.time for event in cluster.node_events.get(node, ()) if event.reason in signals.STARTS
    ]
    just_started = any(
        is_within(time, pod.start, START_UP_SECONDS, LOOK_AHEAD_SECONDS) for time in starts
    )
    return container_evidence.refusal_reading(
        pod.reason,
        pod.message,
        cluster.fewer_devices.get(node),
        just_started,
        cluster.node_resources.get(node, frozenset()),
    )


# volcano: pkg/controllers/job, processNextCommand
_COMMAND = re.compile(r"Start to execute command (\w+)")


def _command_candidates(pod: PodState, cluster: ClusterIndex) -> list[CauseCandidate]:
    """Commands to the pod's Volcano job shortly before its end, within the pod's grace period."""
    candidates = []
    for event in cluster.events_of_job(pod):
        match = _COMMAND.match(event.message) if event.reason == "CommandIssued" else None
        signal = signals.table().get((EvidenceSource.VOLCANO_JOB, match[1])) if match else None
        if signal and (
            pod.end is None or is_within(event.time, pod.end, LOOK_BACK_SECONDS, LOOK_AHEAD_SECONDS)
        ):
            candidates.append(signal_candidate(signal, event.time))
    return candidates


def _window(context: AttemptContext) -> tuple[float, float, Tie]:
    """When to look at the node, and how well that time is known."""
    if context.end is not None:
        return context.end - LOOK_BACK_SECONDS, context.end + LOOK_AHEAD_SECONDS, "exact"
    if context.next_start is not None:
        begin = context.next_start - BEFORE_RETRY_SECONDS
        return max(context.start or begin, begin), context.next_start, "near"
    if context.start is not None:
        return context.start - LOOK_BACK_SECONDS, context.start + OPEN_WINDOW_SECONDS, "open"
    return float("-inf"), float("inf"), "open"


def _node_candidates(context: AttemptContext) -> list[CauseCandidate]:
    if context.node is None:
        return []
    cluster = context.cluster
    begin, end, tie = _window(context)
    events = cluster.node_events.get(context.node, [])
    candidates: list[CauseCandidate] = []
    cut_off = context.pod is not None and any(
        item.was_cut_off for item in main_containers(context.pod.containers)
    )
    for event in within(events, begin, end + FAULT_REPORT_SECONDS):
        candidate = event_candidate(EvidenceSource.NODE_EVENT, event, weaker=tie != "exact")
        if candidate and _is_own_kill(event, context):
            candidate = replace(candidate, kind=CauseKind.OWN_MEMORY, confidence="medium")
        if candidate and _is_own_disk_error(event, context):
            candidate = replace(candidate, confidence="medium")
        late = candidate and (
            candidate.kind is CauseKind.NODE_FAULT or (event.reason == "Rebooted" and cut_off)
        )
        if candidate is None or (not late and (event.time or 0.0) > end):
            continue
        if tie == "exact" and _is_over(event, candidate, events, context.end):
            candidate = replace(candidate, kind=None)
        candidates.append(candidate if tie != "open" else _mark_untied(candidate))
    node = cluster.nodes.get(context.node)
    created = times.parse(node.created) if node is not None else None
    if cluster.is_gone(context.node) or (created and context.end and created > context.end):
        candidates.append(_missing_node_candidate(context))
    elif node is not None:
        candidates += _node_state_candidates(node, context)
    candidates.sort(key=lambda candidate: candidate.strength)
    return candidates


def _is_over(
    event: ClusterEvent, candidate: CauseCandidate, events: list[ClusterEvent], end: float | None
) -> bool:
    """The node was ready, or the check passed, before the attempt ended: it survived that."""
    if end is None or event.time is None or event.reason == "Rebooted":
        return False
    change = condition_change(event)
    for later in within(events, event.time, end - SAME_KILL_SECONDS):
        if candidate.kind is CauseKind.NODE_LOST and later.reason == "NodeReady":
            return True
        if (
            change
            and (other := condition_change(later))
            and other[0] == change[0]
            and other[1] == "False"
        ):
            return True
    return False


def _is_own_kill(event: ClusterEvent, context: AttemptContext) -> bool:
    """The kernel killed a process (perhaps a child) for the limit of this attempt's container.

    One of several children may have little of the limit; then the program has to say that it lost
    one.
    """
    limit = context.pod.memory_limit if context.pod else 0
    lost_a_child = any(
        item.evidence.reason == LogEndingKind.CHILD_KILLED for item, _ in context.file_evidence
    )
    return is_within(
        event.time, context.end, SAME_KILL_SECONDS, 0
    ) and container_evidence.fills_limit(event.message, limit, 0.0 if lost_a_child else 0.5)


def _is_own_disk_error(event: ClusterEvent, context: AttemptContext) -> bool:
    """The kernel reported the program's last error. Alone it may be of a disk that nobody needs."""
    is_reported = any(
        item.evidence.reason == LogEndingKind.DISK_ERROR for item, _ in context.file_evidence
    )
    return (
        is_reported
        and event.reason == "IOError"
        and is_within(event.time, context.end, SAME_KILL_SECONDS, 0)
    )


def _mark_untied(candidate: CauseCandidate) -> CauseCandidate:
    """Evidence of a node that may be from another day than the attempt."""
    evidence = replace(candidate.evidence, message=f"{candidate.evidence.message} ({UNTIED})")
    return replace(candidate, evidence=evidence, confidence="low", tied=False)


def _missing_node_candidate(context: AttemptContext) -> CauseCandidate:
    kind = None
    if context.is_on_spot:
        kind = CauseKind.SPOT
    elif context.pod and not any(item.state == "terminated" for item in context.pod.containers):
        kind = CauseKind.NODE_LOST
    evidence = Evidence(EvidenceSource.NODE_LIST, "absent", "the node no longer exists")
    return CauseCandidate(evidence, kind, "low")


def _node_state_candidates(node: Node, context: AttemptContext) -> list[CauseCandidate]:
    """The node's conditions and taints that began in the window; a fault may have begun before."""
    begin, end, tie = _window(context)
    candidates = []
    for signal, since in node_signals(node):
        fault = signal.kind is CauseKind.NODE_FAULT
        if tie == "open" or since is None:
            candidates.append(_mark_untied(signal_candidate(signal, since)))
        elif since <= end + (FAULT_REPORT_SECONDS if fault else 0) and (since >= begin or fault):
            candidate = signal_candidate(signal, since, weaker=tie != "exact")
            harmless = fault and _did_not_hinder(node.name, since, context)
            candidates.append(
                replace(candidate, confidence="low", tied=False) if harmless else candidate
            )
    return candidates + _readiness_candidates(node, context)


def _readiness_candidates(node: Node, context: AttemptContext) -> list[CauseCandidate]:
    """A node that became ready at about the end was not ready before it, even without an event.

    If one is left, the node was lost at that time, which may be long before: its kubelet could not
    end the pod.
    """
    for row in node.conditions:
        since = times.parse(row.since)
        if (
            row.type != "Ready"
            or row.status != "True"
            or since is None
            or since <= (context.start or 0.0)
        ):
            continue
        if is_within(since, context.end, SAME_KILL_SECONDS, LOOK_BACK_SECONDS):
            changes = [
                event
                for event in within(context.cluster.node_events.get(node.name, []), 0.0, since - 1)
                if event.reason in ("NodeNotReady", "NodeReady")
            ]
            lost = event_candidate(EvidenceSource.NODE_EVENT, changes[-1]) if changes else None
            if lost:
                return [lost]
            message = "the node was not ready until then"
            evidence = Evidence(EvidenceSource.NODE_CONDITION, "Ready", message, since)
            return [CauseCandidate(evidence, CauseKind.NODE_LOST, "medium", 6)]
    return []


def _did_not_hinder(node: str, since: float, context: AttemptContext) -> bool:
    """Jobs that started with the fault succeeded, or this one ran long after the fault began."""
    if any(start > since for start in context.cluster.successes.get(node, ())):
        return True
    start, end = context.start, context.end
    return (
        start is not None
        and end is not None
        and min(start - since, end - start) >= HARMLESS_SECONDS
    )


def _log_candidates(failure: tuple[str, str] | None) -> list[CauseCandidate]:
    if failure is None:
        return []
    code, diagnostics = failure
    pattern = _pod_pattern(diagnostics)
    if pattern.get("reason") == "Evicted":
        reading = container_evidence.eviction_reading(
            str(pattern.get("message", "")), lambda name: name.endswith(signals.MAIN_CONTAINER)
        )
        return [reading_candidate(EvidenceSource.LOG, "Evicted", reading, None)]
    refused = container_evidence.refusal_reading(
        str(pattern.get("reason", "")), str(pattern.get("message", ""))
    )
    if refused and refused.kind is CauseKind.SETUP:
        reason = str(pattern.get("reason", ""))
        return [reading_candidate(EvidenceSource.LOG, reason, refused, None)]
    containers = [
        (str(item.get("name", "")), str(item.get("reason", "")))
        for item in rows(pattern.get("containers"))
    ]
    if containers and all(signals.is_helper(name) for name, _ in containers):
        proxy = all(is_sidecar(name) for name, _ in containers)
        message = ONLY_SIDECAR if proxy else "AzureML: a container failed that is not the job's own"
        evidence = Evidence(EvidenceSource.LOG, signals.reason_text(code), message)
        return [CauseCandidate(evidence, CauseKind.SETUP, "medium")]
    if any(reason == "OOMKilled" for _, reason in containers):
        evidence = Evidence(
            EvidenceSource.LOG, "OOMKilled", "AzureML: a container exceeded its own memory limit"
        )
        return [CauseCandidate(evidence, CauseKind.OWN_MEMORY, "medium")]
    table = signals.table()
    if signal := table.get((EvidenceSource.LOG, code)) or table.get(
        (EvidenceSource.EXIT_CODE, code)
    ):
        return [
            CauseCandidate(
                Evidence(EvidenceSource.LOG, code, signal.message), signal.kind, signal.confidence
            )
        ]
    if code.isascii() and code.isdigit() and 0 < int(code[:9]) < 256:
        message = "AzureML: the job's process ended with an error of its own"
        return [
            CauseCandidate(Evidence(EvidenceSource.LOG, code, message), CauseKind.USER, "medium")
        ]
    return []


_POD_PATTERN = re.compile(r"PodPattern (?:un)?matched: ")  # frameworkcontroller: completion.go


def _pod_pattern(diagnostics: str) -> Mapping[str, Any]:
    """What AzureML says about the pod and its containers, in `PodPattern matched: {...}`."""
    match = _POD_PATTERN.search(diagnostics)
    if match is None:
        return {}
    try:
        document, _ = json.JSONDecoder().raw_decode(diagnostics[match.end() :])
    except (ValueError, RecursionError):
        return {}
    return mapping(document)


def _file_candidates(context: AttemptContext) -> list[CauseCandidate]:
    """What the job's own files say: the error of a GPU is evidence; what a parallel job saw of its
    node, and an exception without an exit code, are hints."""
    candidates = []
    without_gpu = context.pod is not None and context.pod.without_gpu
    for item, named in context.file_evidence:
        printed = item.evidence.source in (EvidenceSource.LOG, EvidenceSource.EXIT_CODE)
        tied = named or (printed and context.single_rank)
        reason, kind = item.evidence.reason, item.kind
        if without_gpu and reason in (GpuProof.DRIVER, GpuProof.MISSING):
            continue  # a pod that asks for no GPU has none
        if reason in (*PEER_REASONS, LogEndingKind.STOPPED) and not tied:
            continue  # it is not known which rank said that
        if reason == LogEndingKind.OWN_ERROR and context.exit_is_known:
            if not tied:
                continue
            kind = None  # the exit code decides; this says where to read
        if reason == NOTICED:
            candidates.append(CauseCandidate(item.evidence, kind, "high", tied=True))
            continue
        sure = printed and tied and reason not in _UNSURE_ENDINGS
        candidates.append(
            CauseCandidate(item.evidence, kind, "medium" if sure else "low", tied=tied)
        )
    return candidates
