"""Why one attempt ended: a sequence of questions, from what the pod itself says to what can only be supposed.

The first question with an answer decides (QUESTIONS, below). Evidence counts only in its window (windows.py): a cause
does not come after its effect, and what a job survived did not end it. Exit code 137 alone is never a cause, and
`unknown` is a normal answer. What each reason string means is in data/signals.csv, each text in kubelet_messages.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from arc_toolkit.diagnosis import kubelet_messages, signals
from arc_toolkit.diagnosis.cluster_index import ClusterEvent, ClusterIndex, ContainerState, PodState, within
from arc_toolkit.diagnosis.kubelet_messages import Reading
from arc_toolkit.diagnosis.model import (
    Attempt,
    Cause,
    CauseKind,
    Evidence,
    EvidenceSource,
    Level,
    PrsEvidence,
    RunOutcome,
    Verdict,
)
from arc_toolkit.diagnosis.node_signals import (
    CauseCandidate,
    condition_change,
    excuse,
    from_event,
    from_signal,
    node_signals,
    notice,
)
from arc_toolkit.diagnosis.signals import KINDS, is_sidecar
from arc_toolkit.diagnosis.windows import (
    BEFORE_RETRY_SECONDS,
    FAULT_REPORT_SECONDS,
    HARMLESS_SECONDS,
    LOOK_AHEAD_SECONDS,
    LOOK_BACK_SECONDS,
    NOTICE_TO_END_SECONDS,
    OPEN_WINDOW_SECONDS,
    SAME_KILL_SECONDS,
    START_UP_SECONDS,
    is_within,
)
from arc_toolkit.kube.nodes import Node
from arc_toolkit.kube.raw import mapping, rows

MAX_EVIDENCE = 8
UNTIED = "no time ties it to this attempt"
Tie = Literal["exact", "near", "open"]  # the end is known; only the next start; neither
Answer = list[CauseCandidate]  # the first decides, the others are shown after it; empty: no answer

ONLY_SIDECAR = f"only {signals.IDENTITY_SIDECAR} failed: a known effect of a proxy that blocks it"
UNKNOWN = Cause(CauseKind.UNKNOWN, "low", countable=True)


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
    prs_evidence: list[tuple[PrsEvidence, bool]] = field(default_factory=list)  # and whether it names this node
    alone: bool = True  # not a rank of a gang, so what the job's files say is of this node


@dataclass(slots=True)
class Findings:
    """All evidence about one attempt, by where it was found; the strongest of each first."""

    context: AttemptContext
    end: float | None
    pod: list[CauseCandidate]  # condition, status and events of the pod, commands to its job
    containers: list[CauseCandidate]
    node: list[CauseCandidate]
    texts: list[CauseCandidate]  # AzureML's message, and the job's own files

    @property
    def own_exit(self) -> Answer:
        """The job's process ended by itself, with an exit code that says so."""
        return _first((item for item in (*self.containers, *self.texts) if item.tied), CauseKind.USER)

    def excused(self, lead: CauseCandidate) -> Answer:
        """What excuses that the node was lost; less sure if nothing ties the loss to this attempt."""
        time = lead.evidence.time if lead.evidence.time is not None else self.end
        found = excuse(self.context.cluster, self.context.node, time) if self.context.node else None
        if found is None:
            return []
        return [found if lead.tied else replace(found, confidence="low"), lead]


def decide(context: AttemptContext) -> Cause:
    """The cause of a failed attempt; `unknown` is a normal answer."""
    findings = _findings(context)
    answer: Answer = next(filter(None, (question(findings) for question in QUESTIONS)), [])
    everything = [*findings.pod, *findings.containers, *findings.node, *findings.texts]
    everything.sort(key=lambda candidate: candidate.strength)
    evidence = tuple(dict.fromkeys(candidate.evidence for candidate in [*answer, *everything]))[:MAX_EVIDENCE]
    if not answer:
        # Most errors without an exit code are the job's own, so they do not count in the comparison of nodes.
        countable = not (context.pod and any(item.fails_without_code for item in context.pod.containers))
        return replace(UNKNOWN, evidence=evidence, countable=countable)
    lead = answer[0]
    kind = lead.kind or CauseKind.UNKNOWN
    # A node that is only missing from the list proves nothing about the time when the attempt ran.
    blames = KINDS[kind].blames_node and lead.tied and lead.evidence.source is not EvidenceSource.NODE_LIST
    return Cause(kind, lead.confidence, evidence, blames and kind is not CauseKind.UNKNOWN)


def _first(candidates: Iterable[CauseCandidate], *kinds: CauseKind) -> Answer:
    """The first candidate of these kinds."""
    return next(([candidate] for candidate in candidates if candidate.kind in kinds), [])


def _was_preempted(findings: Findings) -> Answer:
    """By a pod of higher priority: kube-scheduler, the kubelet, or Volcano (preempt, reclaim, shuffle)."""
    return _first(findings.pod, CauseKind.SCHEDULER)


def _was_stopped(findings: Findings) -> Answer:
    """By a person, a time limit or another rank: activeDeadlineSeconds, a command to Volcano, AzureML's own code."""
    sure = [item for item in (*findings.pod, *findings.texts) if item.confidence == "high"]
    return _first(sure, CauseKind.CANCELLED, CauseKind.GANG)


def _was_evicted(findings: Findings) -> Answer:
    """By the kubelet, for the job's own limit or the node's lack; the node's, if the kernel ran out too."""
    answer = [item for item in (*findings.pod, *findings.texts) if item.evidence.reason == "Evicted"][:1]
    if answer and answer[0].kind is CauseKind.NODE_PRESSURE and (oom := _system_oom(findings, SAME_KILL_SECONDS)):
        return [*oom, *answer]
    return answer


def _was_refused(findings: Findings) -> Answer:
    """The kubelet did not admit the pod, so nothing ran; its message tells a full node from a broken one."""
    admission = [item for item in findings.pod if item.evidence.source is EvidenceSource.POD_STATUS]
    return _first(admission, CauseKind.SETUP, CauseKind.NODE_FAULT)


def _was_drained(findings: Findings) -> Answer:
    """Evicted through the API, or the node shut down: by whoever announced it, and spot VMs by Azure."""
    context = findings.context
    leads = [item for item in findings.pod if item.evidence.reason in ("EvictionByEvictionAPI", "ScaleDown")]
    if leads:
        announced = notice(context.cluster, context.node, leads[0].evidence.time) if context.node else None
        if announced and announced.kind is not CauseKind.DRAIN:
            return [announced, leads[0]]
        return _first(leads, CauseKind.SCALE_DOWN) or leads[:1]
    shutdown = _first(
        [item for item in findings.pod if item.evidence.source is EvidenceSource.POD_STATUS], CauseKind.DRAIN
    )
    if not shutdown:
        return []
    announced = notice(context.cluster, context.node, findings.end) if context.node else None
    if announced and announced.kind is not CauseKind.DRAIN:
        return [announced, *shutdown]
    return [replace(shutdown[0], kind=CauseKind.SPOT)] if _is_spot(context) else shutdown


def _was_lost_with_its_node(findings: Findings) -> Answer:
    """Deleted by the taint manager, removed with the Node object, or reported as lost: what happened to the node?

    The condition does not say which NoExecute taint it was. Only NotReady or unreachable is a loss; any other taint is
    a drain by whoever set it. A Node object is deleted after its VM, by a person, the autoscaler or an upgrade.
    """
    reasons = ("NodeLost", "DeletionByTaintManager", "TaintManagerEviction", "DeletionByPodGC")
    leads = [item for item in findings.pod if item.evidence.reason in reasons]
    if not leads:
        return []
    lead = leads[0]
    loss = _loss(findings)
    taint = [] if loss else _taint_of_a_person(findings)
    if taint:
        return [*taint, lead]
    if answer := findings.excused(loss[0] if loss else lead):
        return answer
    if answer := _root_of_loss(findings) or loss:
        return [*answer, lead]
    if lead.evidence.reason != "DeletionByPodGC":
        return [lead]
    spot = _is_spot(findings.context)
    return [
        replace(lead, kind=CauseKind.SPOT if spot else CauseKind.UNKNOWN, confidence="medium" if spot else "low")
    ]


def _was_killed_for_memory(findings: Findings) -> Answer:
    """OOMKilled is the container's own limit, unless the kernel of the node ran out in the same minute."""
    answer = _first([*findings.containers, *findings.texts], CauseKind.OWN_MEMORY)
    return [*_system_oom(findings, SAME_KILL_SECONDS), *answer] if answer else []


def _could_not_start(findings: Findings) -> Answer:
    """A container could not be created or started: the image, the configuration, or the GPU that it should get."""
    return _first(findings.containers, CauseKind.SETUP, CauseKind.NODE_FAULT) or _first(
        findings.texts, CauseKind.SETUP
    )


def _was_on_a_broken_node(findings: Findings) -> Answer:
    """A fault that the node or its GPU reported at that time; a process that fails by itself may follow from it."""
    own = findings.own_exit
    faults = [item for item in (*findings.node, *findings.texts) if item.confidence != "low"]
    if own:
        faults = [item for item in faults if item.evidence.reason not in signals.SURVIVABLE]
    return [*answer, *own] if (answer := _first(faults, CauseKind.NODE_FAULT)) else []


def _was_on_a_node_out_of_memory(findings: Findings) -> Answer:
    """SystemOOM: the kernel ran out outside any pod's limit, and kills at once."""
    own = findings.own_exit
    if answer := _system_oom(findings, SAME_KILL_SECONDS):
        return [replace(answer[0], confidence="medium") if own else answer[0], *own]
    if own:
        return []
    if findings.end is None:
        return _first(findings.node, CauseKind.NODE_MEMORY)
    return [replace(item, confidence="low", tied=False) for item in _system_oom(findings, LOOK_BACK_SECONDS)]


def _was_on_a_node_that_went_away(findings: Findings) -> Answer:
    """The node was announced to go, or was lost, when the attempt ended without a word of its own."""
    own = findings.own_exit
    announced = _first([*findings.node, *findings.texts], CauseKind.SPOT, CauseKind.SCALE_DOWN, CauseKind.DRAIN)
    if own:  # many programs end with 1 when they are asked to stop
        spot = _first(announced, CauseKind.SPOT)
        asked = spot and is_within(spot[0].evidence.time, findings.end, NOTICE_TO_END_SECONDS, 0)
        return [replace(spot[0], confidence="medium"), *own] if asked else []
    if loss := _loss(findings) or _first(findings.node, CauseKind.NODE_LOST):
        return findings.excused(loss[0]) or _root_of_loss(findings) or loss
    return announced


def _ended_by_itself(findings: Findings) -> Answer:
    """The job's process, with an exit code of its own."""
    return findings.own_exit


def _what_is_left(findings: Findings) -> Answer:
    """Weak hints, in the order of their sources."""
    weak = [*findings.pod, *findings.containers, *findings.node, *findings.texts]
    weak.sort(key=lambda candidate: candidate.strength)
    return [item for item in weak if item.kind is not None][:1]


QUESTIONS: tuple[Callable[[Findings], Answer], ...] = (
    _was_preempted,
    _was_stopped,
    _was_evicted,
    _was_refused,
    _was_drained,
    _was_lost_with_its_node,
    _was_killed_for_memory,
    _could_not_start,
    _was_on_a_broken_node,
    _was_on_a_node_out_of_memory,
    _was_on_a_node_that_went_away,
    _ended_by_itself,
    _what_is_left,
)


def _is_spot(context: AttemptContext) -> bool:
    return bool(context.node and context.cluster.place(context.node).spot)


def _system_oom(findings: Findings, seconds: float) -> Answer:
    """SystemOOM at most so long before or a minute after the end."""
    return [
        item
        for item in findings.node
        if item.kind is CauseKind.NODE_MEMORY
        and is_within(item.evidence.time, findings.end, seconds, SAME_KILL_SECONDS)
    ][:1]


def _loss(findings: Findings) -> Answer:
    """The sign that the node was NotReady, unreachable or rebooted at that time."""
    known = [item for item in findings.node if item.evidence.source is not EvidenceSource.NODE_LIST]
    return _first([*known, *findings.pod], CauseKind.NODE_LOST)


def _root_of_loss(findings: Findings) -> Answer:
    """A node may be lost because it ran out of memory, the one retry that Microsoft documents, or had a fault."""
    strong = [item for item in findings.node if item.confidence != "low"]
    return _first(strong, CauseKind.NODE_MEMORY, CauseKind.NODE_FAULT)


def _taint_of_a_person(findings: Findings) -> Answer:
    """The NoExecute taint that is not one of Kubernetes' own for lost nodes."""
    context = findings.context
    node = context.cluster.nodes.get(context.node or "")
    for taint in node.taints if node else ():
        if taint.effect == "NoExecute" and taint.key not in signals.LOST_TAINTS:
            message = "deleted because of this taint, which somebody set"
            reason = signals.reason_text(taint.key)
            return [CauseCandidate(Evidence(EvidenceSource.NODE_TAINT, reason, message), CauseKind.DRAIN, "high")]
    return []


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


def blame_convicted_nodes(attempts: Sequence[Attempt], verdicts: Sequence[Verdict]) -> list[Attempt]:
    """A process that failed and ran elsewhere was not at fault, if the comparison with the pool convicts its node."""
    convicted = {verdict.node for verdict in verdicts if verdict.level in (Level.BAD, Level.SUSPECT)}
    message = "the job then succeeded on another node, and other jobs failed on this one too"
    evidence = Evidence(EvidenceSource.COMPARISON, "succeeded elsewhere", message)
    return [
        replace(
            attempt,
            cause=Cause(CauseKind.NODE_FAULT, "low", (evidence, *attempt.cause.evidence), True, countable=True),
        )
        if attempt.cause
        and attempt.cause.kind is CauseKind.USER
        and attempt.cause.countable
        and attempt.node in convicted
        else attempt
        for attempt in attempts
    ]


def _findings(context: AttemptContext) -> Findings:
    pod, end = context.pod, context.end
    if pod and (ended := _ended_before_its_disruption(pod)) is not None:
        # A failed pod is deleted too when its node is lost later.
        end = ended
        pod = replace(pod, disruption="", disrupted=None, end=end)
        context = replace(context, pod=pod, end=end)
    of_pod = _from_pod(pod, context) if pod else []
    containers = _from_containers(pod) if pod else []
    of_pod.sort(key=lambda candidate: candidate.strength)
    texts = _from_log(context.failure) + _from_files(context)
    return Findings(context, end, of_pod, containers, _from_node(context), texts)


def _ended_before_its_disruption(pod: PodState) -> float | None:
    """When the job's container ended by itself, if that was before somebody marked the pod for deletion."""
    ends = [
        item.finished
        for item in _main(pod.containers)
        if item.state == "terminated" and item.reason != "ContainerStatusUnknown" and item.finished is not None
    ]
    if not ends or pod.disrupted is None or pod.disruption == "TerminationByKubelet":
        return None
    return max(ends) if 0 < max(ends) < pod.disrupted - SAME_KILL_SECONDS else None


def _from_pod(pod: PodState, context: AttemptContext) -> list[CauseCandidate]:
    candidates = []
    table = signals.table()
    if signal := table.get((EvidenceSource.POD_CONDITION, pod.disruption)):
        candidates.append(from_signal(signal, pod.disrupted))
    if pod.evicted:
        candidates.append(from_signal(table[EvidenceSource.POD_CONDITION, "Evict"], pod.evicted.time))
    if pod.reason == "Evicted":
        candidates.append(_evicted(EvidenceSource.POD_STATUS, pod, pod.message, pod.end))
    elif reading := _refused(pod, context):
        candidates.append(_read(EvidenceSource.POD_STATUS, pod.reason, reading, pod.end))
    elif signal := table.get((EvidenceSource.POD_STATUS, pod.reason)):
        candidates.append(from_signal(signal, pod.end))
    for event in context.cluster.events_of_pod(pod):
        if event.reason == "Evicted":
            candidates.append(_evicted(EvidenceSource.POD_EVENT, pod, event.message, event.time))
        elif event.reason == "TaintManagerEviction" and event.message.startswith("Cancelling"):
            continue  # the node came back in time; Kubernetes has no other sign of it than this message
        elif candidate := from_event(EvidenceSource.POD_EVENT, event):
            candidates.append(candidate)
    return candidates + _commands(pod, context.cluster)


def _evicted(source: EvidenceSource, pod: PodState, message: str, time: float | None) -> CauseCandidate:
    main = {item.name for item in _main(pod.containers)}
    reading = kubelet_messages.evicted(message, lambda name: name in main if main else not is_sidecar(name))
    return _read(source, "Evicted", reading, time)


def _refused(pod: PodState, context: AttemptContext) -> Reading | None:
    if not pod.message or pod.reason in ("", "Evicted", "Terminated", "NodeShutdown", "Shutdown"):
        return None
    cluster, node = context.cluster, pod.node or ""
    starts = [event.time for event in cluster.node_events.get(node, ()) if event.reason in signals.STARTS]
    just_started = any(is_within(time, pod.start, START_UP_SECONDS, LOOK_AHEAD_SECONDS) for time in starts)
    return kubelet_messages.refused(pod.reason, pod.message, cluster.fewer_devices.get(node), just_started)


def _read(source: EvidenceSource, reason: str, reading: Reading, time: float | None) -> CauseCandidate:
    evidence = Evidence(source, signals.reason_text(reason), reading.meaning, time)
    return CauseCandidate(evidence, reading.kind, reading.confidence, tied=reading.tied)


_COMMAND = re.compile(r"Start to execute command (\w+)")  # volcano: pkg/controllers/job, processNextCommand


def _commands(pod: PodState, cluster: ClusterIndex) -> list[CauseCandidate]:
    """Commands to the pod's Volcano job shortly before its end; the kubelet needs the grace period to stop it."""
    candidates = []
    for event in cluster.events_of_job(pod):
        match = _COMMAND.match(event.message) if event.reason == "CommandIssued" else None
        signal = signals.table().get((EvidenceSource.VOLCANO_JOB, match[1])) if match else None
        if signal and (pod.end is None or is_within(event.time, pod.end, LOOK_BACK_SECONDS, LOOK_AHEAD_SECONDS)):
            candidates.append(from_signal(signal, event.time))
    return candidates


def _main(containers: list[ContainerState]) -> list[ContainerState]:
    """The job's own containers."""
    named = [item for item in containers if item.name.endswith(signals.MAIN_CONTAINER)]
    return named or [item for item in containers if not item.init and not is_sidecar(item.name)]


def _from_containers(pod: PodState) -> list[CauseCandidate]:
    """The main container, and those of AzureML beside it if they failed by themselves before it."""
    main = _main(pod.containers)
    helpers = [item for item in pod.containers if not any(item is other for other in main)]
    candidates = [candidate for item in main for candidate in _from_container(item)]
    candidates += [_of_helper(item) for item in helpers if _failed_first(item, main)]
    if any(item.state == "terminated" and item.exit_code for item in main):
        return candidates
    for item in helpers:
        if item.state == "waiting":
            candidates += _from_container(item)
    return candidates


def _failed_first(item: ContainerState, main: list[ContainerState]) -> bool:
    """It ended with an error of its own before the job's container did. All are killed when a pod ends."""
    if item.state != "terminated" or not item.exit_code:
        return False
    failed = [other for other in main if other.state == "terminated" and other.exit_code]
    ends = [other.finished for other in failed if other.finished is not None]
    if failed and not item.init and not (ends and item.finished is not None and item.finished < max(ends)):
        return False
    killed = any(other.exit_code in _KILLED for other in main)
    return item.reason == "OOMKilled" or item.exit_code not in _KILLED or (is_sidecar(item.name) and not killed)


def _of_helper(item: ContainerState) -> CauseCandidate:
    reason = f"{signals.reason_text(item.reason)} {item.exit_code}"
    name = signals.reason_text(_JOB_ID.sub("", item.name))
    message = (
        ONLY_SIDECAR if is_sidecar(item.name) else f"{name}, which is not the job's own container, failed first"
    )
    return CauseCandidate(
        Evidence(EvidenceSource.CONTAINER, reason, message, item.finished), CauseKind.SETUP, "medium"
    )


_KILLED = (137, 143)
_JOB_ID = re.compile(r"^[0-9a-f]{8,64}-")  # before the names of AzureML's containers


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
        elif signal.kind is CauseKind.SETUP and (reading := kubelet_messages.start_error(item.message)):
            candidate = _read(EvidenceSource.CONTAINER, item.reason, reading, item.finished)
        candidates.append(candidate)
    if item.state == "terminated" and code:
        if known := table.get((EvidenceSource.EXIT_CODE, str(code))):
            candidate = from_signal(known, item.finished)
        else:
            message = "the job's process ended with an error of its own"
            evidence = Evidence(EvidenceSource.EXIT_CODE, str(code), message, item.finished)
            candidate = CauseCandidate(evidence, CauseKind.USER, "medium")
        # With another reason than `Error` the code is of the runtime, not of the process.
        candidates.append(candidate if item.reason in ("Error", "") else replace(candidate, tied=False))
    elif item.fails_without_code:
        # Container Insights has no exit codes, and a pod that was evicted ends like this too.
        evidence = Evidence(EvidenceSource.CONTAINER, "Error", "ended with an unknown exit code", item.finished)
        candidates.append(CauseCandidate(evidence, None, "low"))
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


def _from_node(context: AttemptContext) -> list[CauseCandidate]:
    if context.node is None:
        return []
    cluster = context.cluster
    begin, end, tie = _window(context)
    events = cluster.node_events.get(context.node, [])
    candidates: list[CauseCandidate] = []
    for event in within(events, begin, end + FAULT_REPORT_SECONDS):
        candidate = from_event(EvidenceSource.NODE_EVENT, event, weaker=tie != "exact")
        if candidate is None or (candidate.kind is not CauseKind.NODE_FAULT and (event.time or 0.0) > end):
            continue
        if tie == "exact" and _is_over(event, candidate, events, context.end):
            candidate = replace(candidate, kind=None)
        candidates.append(candidate if tie != "open" else _untied(candidate))
    node = cluster.nodes.get(context.node)
    if node is not None:
        candidates += _from_node_state(node, context)
    elif cluster.is_gone(context.node):
        candidates.append(_missing(context))
    candidates.sort(key=lambda candidate: candidate.strength)
    return candidates


def _is_over(
    event: ClusterEvent, candidate: CauseCandidate, events: list[ClusterEvent], end: float | None
) -> bool:
    """The node was ready, or the check passed again, before the attempt ended: the attempt survived it."""
    if end is None or event.time is None or event.reason == "Rebooted":
        return False
    change = condition_change(event)
    for later in within(events, event.time, end - SAME_KILL_SECONDS):
        if candidate.kind is CauseKind.NODE_LOST and later.reason == "NodeReady":
            return True
        if change and (other := condition_change(later)) and other[0] == change[0] and other[1] == "False":
            return True
    return False


def _untied(candidate: CauseCandidate) -> CauseCandidate:
    """Evidence of a node that may be from another day than the attempt."""
    evidence = replace(candidate.evidence, message=f"{candidate.evidence.message} ({UNTIED})")
    return replace(candidate, evidence=evidence, confidence="low", tied=False)


def _missing(context: AttemptContext) -> CauseCandidate:
    kind = None
    if _is_spot(context):
        kind = CauseKind.SPOT
    elif context.pod and not any(item.state == "terminated" for item in context.pod.containers):
        kind = CauseKind.NODE_LOST
    evidence = Evidence(EvidenceSource.NODE_LIST, "absent", "the node no longer exists")
    return CauseCandidate(evidence, kind, "low")


def _from_node_state(node: Node, context: AttemptContext) -> list[CauseCandidate]:
    """Conditions and taints that the node has now, if they began in the window; a fault may have begun before."""
    begin, end, tie = _window(context)
    candidates = []
    for signal, since in node_signals(node):
        fault = signal.kind is CauseKind.NODE_FAULT
        if tie == "open" or since is None:
            candidates.append(_untied(from_signal(signal, since)))
        elif since <= end + (FAULT_REPORT_SECONDS if fault else 0) and (since >= begin or fault):
            candidate = from_signal(signal, since, weaker=tie != "exact")
            harmless = fault and _did_not_hinder(node.name, since, context)
            candidates.append(replace(candidate, confidence="low", tied=False) if harmless else candidate)
    return candidates


def _did_not_hinder(node: str, since: float, context: AttemptContext) -> bool:
    """Jobs that started with the fault succeeded, or this one ran long although the fault was there long before."""
    if any(start > since for start in context.cluster.successes.get(node, ())):
        return True
    start, end = context.start, context.end
    return start is not None and end is not None and min(start - since, end - start) >= HARMLESS_SECONDS


def _from_log(failure: tuple[str, str] | None) -> list[CauseCandidate]:
    if failure is None:
        return []
    code, diagnostics = failure
    pattern = _pod_pattern(diagnostics)
    if pattern.get("reason") == "Evicted":
        reading = kubelet_messages.evicted(
            str(pattern.get("message", "")), lambda name: name.endswith(signals.MAIN_CONTAINER)
        )
        return [_read(EvidenceSource.LOG, "Evicted", reading, None)]
    containers = [
        (str(item.get("name", "")), str(item.get("reason", ""))) for item in rows(pattern.get("containers"))
    ]
    if containers and all(signals.is_helper(name) for name, _ in containers):
        proxy = all(is_sidecar(name) for name, _ in containers)
        message = ONLY_SIDECAR if proxy else "AzureML: a container failed that is not the job's own"
        evidence = Evidence(EvidenceSource.LOG, signals.reason_text(code), message)
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


def _from_files(context: AttemptContext) -> list[CauseCandidate]:
    """What the job's own files say: the error of a GPU is evidence, what a parallel job saw of its node is a hint."""
    candidates = []
    for item, named in context.prs_evidence:
        of_gpu = item.evidence.source is EvidenceSource.LOG
        tied = named or (of_gpu and context.alone)
        candidates.append(
            CauseCandidate(item.evidence, item.kind, "medium" if of_gpu and tied else "low", tied=tied)
        )
    return candidates
