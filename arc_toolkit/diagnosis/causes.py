"""Why one attempt ended: a sequence of questions, from facts of the pod to assumptions.

The first question with an answer decides (QUESTIONS, below). Evidence counts only in its window
(times.py): a cause does not come after its effect, and what a job survived did not end it. Exit
code 137 alone is never a cause, and `unknown` is a normal answer. The evidence comes from
attempt_evidence.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from arc_toolkit.diagnosis import signals
from arc_toolkit.diagnosis.assemble.attempt_evidence import AttemptContext, AttemptEvidence, gather
from arc_toolkit.diagnosis.assemble.container_evidence import job_succeeded
from arc_toolkit.diagnosis.assemble.log_evidence import NOTICED, PEER_REASONS
from arc_toolkit.diagnosis.assemble.node_signals import CauseCandidate, excuse, notice
from arc_toolkit.diagnosis.model import Cause, CauseKind, Evidence, EvidenceSource
from arc_toolkit.diagnosis.read.gpu_messages import GpuProof
from arc_toolkit.diagnosis.signals import KINDS
from arc_toolkit.diagnosis.times import (
    LOOK_BACK_SECONDS,
    NOTICE_TO_END_SECONDS,
    SAME_KILL_SECONDS,
    is_within,
)

MAX_EVIDENCE = 8
Answer = list[CauseCandidate]  # the first decides, the others are shown after it; empty: no answer
UNKNOWN = Cause(CauseKind.UNKNOWN, "low", countable=True)


def decide(context: AttemptContext) -> Cause:
    """The cause of a failed attempt; `unknown` is a normal answer."""
    findings = gather(context)
    answer: Answer = next(filter(None, (question(findings) for question in QUESTIONS)), [])
    all_evidence = dict.fromkeys(
        candidate.evidence for candidate in [*answer, *findings.everything()]
    )
    evidence = tuple(all_evidence)[:MAX_EVIDENCE]
    if not answer:
        # Most errors without an exit code are the job's own, so nodes are not compared by them.
        pod = context.pod
        countable = not (
            pod and (job_succeeded(pod) or any(item.fails_without_code for item in pod.containers))
        )
        return replace(UNKNOWN, evidence=evidence, countable=countable)
    lead = answer[0]
    kind = lead.kind or CauseKind.UNKNOWN
    # A node that is only missing from the list proves nothing about the time when the attempt ran.
    blames = (
        KINDS[kind].blames_node
        and lead.tied
        and lead.evidence.source is not EvidenceSource.NODE_LIST
    )
    return Cause(kind, lead.confidence, evidence, blames and kind is not CauseKind.UNKNOWN)


def _first(candidates: Iterable[CauseCandidate], *kinds: CauseKind) -> Answer:
    """The first candidate of these kinds."""
    return next(([candidate] for candidate in candidates if candidate.kind in kinds), [])


def _own_exit(findings: AttemptEvidence) -> Answer:
    """The job's process ended by itself, with an exit code that says so."""
    return _first(
        (item for item in (*findings.containers, *findings.texts) if item.tied), CauseKind.USER
    )


def _loss_excuse(findings: AttemptEvidence, lead: CauseCandidate) -> Answer:
    """What excuses that the node was lost; less sure if nothing ties the loss to this attempt."""
    context = findings.context
    time = lead.evidence.time if lead.evidence.time is not None else findings.end
    candidate = excuse(context.cluster, context.node, time) if context.node else None
    if candidate is None:
        return []
    return [candidate if lead.tied else replace(candidate, confidence="low"), lead]


def _was_noticed(findings: AttemptEvidence) -> Answer:
    """The job's own supervisor saw an eviction notice and ended the process for it."""
    notice_evidence = [item for item in findings.texts if item.evidence.reason == NOTICED]
    return _first(notice_evidence, CauseKind.SPOT, CauseKind.DRAIN)


def _was_preempted(findings: AttemptEvidence) -> Answer:
    """By a pod of higher priority: kube-scheduler, kubelet, Volcano (preempt, reclaim, shuffle)."""
    return _first(findings.pod, CauseKind.SCHEDULER)


def _was_stopped(findings: AttemptEvidence) -> Answer:
    """By a person, a time limit or another rank: activeDeadlineSeconds, Volcano, AzureML's code."""
    sure = [item for item in (*findings.pod, *findings.texts) if item.confidence == "high"]
    return _first(sure, CauseKind.CANCELLED, CauseKind.GANG)


def _was_evicted(findings: AttemptEvidence) -> Answer:
    """By the kubelet, for the job's own limit or the node's lack; the node's, if the kernel ran
    out too."""
    answer = [
        item for item in (*findings.pod, *findings.texts) if item.evidence.reason == "Evicted"
    ][:1]
    if (
        answer
        and answer[0].kind is CauseKind.NODE_PRESSURE
        and (oom := _system_oom(findings, SAME_KILL_SECONDS))
    ):
        return [*oom, *answer]
    return answer


def _was_refused(findings: AttemptEvidence) -> Answer:
    """The kubelet did not admit the pod; its message tells a full node from a broken one."""
    admission = [item for item in findings.pod if item.evidence.source is EvidenceSource.POD_STATUS]
    return _first(admission, CauseKind.SETUP, CauseKind.NODE_FAULT)


def _was_drained(findings: AttemptEvidence) -> Answer:
    """Evicted through the API, or the node shut down: by its announcer; a spot VM by Azure."""
    context = findings.context
    leads = [
        item
        for item in findings.pod
        if item.evidence.reason in ("EvictionByEvictionAPI", "ScaleDown")
    ]
    if leads:
        announced = (
            notice(context.cluster, context.node, leads[0].evidence.time) if context.node else None
        )
        if announced and announced.kind is not CauseKind.DRAIN:
            return [announced, leads[0]]
        return _first(leads, CauseKind.SCALE_DOWN) or leads[:1]
    shutdown = _first(
        [item for item in findings.pod if item.evidence.source is EvidenceSource.POD_STATUS],
        CauseKind.DRAIN,
    )
    if not shutdown:
        return []
    announced = notice(context.cluster, context.node, findings.end) if context.node else None
    if announced and announced.kind is not CauseKind.DRAIN:
        return [announced, *shutdown]
    return [replace(shutdown[0], kind=CauseKind.SPOT)] if context.is_on_spot else shutdown


def _was_lost_with_its_node(findings: AttemptEvidence) -> Answer:
    """Deleted by the taint manager, removed with the Node object, or reported as lost.

    The condition does not say which NoExecute taint it was. Only NotReady or unreachable is a loss;
    any other taint is a drain by whoever set it. A Node object is deleted after its VM, by a
    person, the autoscaler or an upgrade.
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
    if answer := _loss_excuse(findings, loss[0] if loss else lead):
        return answer
    if answer := _root_of_loss(findings) or loss:
        return [*answer, lead]
    if lead.evidence.reason != "DeletionByPodGC":
        return [lead]
    spot = findings.context.is_on_spot
    return [
        replace(
            lead,
            kind=CauseKind.SPOT if spot else CauseKind.UNKNOWN,
            confidence="medium" if spot else "low",
        )
    ]


def _was_killed_for_memory(findings: AttemptEvidence) -> Answer:
    """OOMKilled is the container's own limit, unless the node ran out in the same minute."""
    candidates = [*findings.containers, *findings.texts, *findings.node]
    sure = [item for item in candidates if item.confidence != "low"]
    answer = _first(sure, CauseKind.OWN_MEMORY)
    return [*_system_oom(findings, SAME_KILL_SECONDS), *answer] if answer else []


def _could_not_start(findings: AttemptEvidence) -> Answer:
    """A container could not start: because of its image, its configuration, or its GPU."""
    return _first(findings.containers, CauseKind.SETUP, CauseKind.NODE_FAULT) or _first(
        findings.texts, CauseKind.SETUP
    )


def _was_on_a_broken_node(findings: AttemptEvidence) -> Answer:
    """A fault that the node or its GPU reported then; a process may fail because of it."""
    exit_evidence = _own_exit(findings)
    faults = [item for item in (*findings.node, *findings.texts) if item.confidence != "low"]
    if exit_evidence:
        faults = [item for item in faults if item.evidence.reason not in signals.SURVIVABLE]
    return [*answer, *exit_evidence] if (answer := _first(faults, CauseKind.NODE_FAULT)) else []


def _was_on_a_node_out_of_memory(findings: AttemptEvidence) -> Answer:
    """SystemOOM: the kernel ran out outside any pod's limit, and kills at once."""
    exit_evidence = _own_exit(findings)
    if answer := _system_oom(findings, SAME_KILL_SECONDS):
        return [
            replace(answer[0], confidence="medium") if exit_evidence else answer[0],
            *exit_evidence,
        ]
    if exit_evidence:
        return []
    if findings.end is None:
        return _first(findings.node, CauseKind.NODE_MEMORY)
    return [
        replace(item, confidence="low", tied=False)
        for item in _system_oom(findings, LOOK_BACK_SECONDS)
    ]


def _was_on_a_node_that_went_away(findings: AttemptEvidence) -> Answer:
    """The node was announced to go, or was lost, when the attempt ended without an error."""
    exit_evidence = _own_exit(findings)
    announced = _first(
        [*findings.node, *findings.texts], CauseKind.SPOT, CauseKind.SCALE_DOWN, CauseKind.DRAIN
    )
    if exit_evidence:  # many programs end with 1 when they are asked to stop
        spot = _first(announced, CauseKind.SPOT)
        was_notified = spot and is_within(
            spot[0].evidence.time, findings.end, NOTICE_TO_END_SECONDS, 0
        )
        return [replace(spot[0], confidence="medium"), *exit_evidence] if was_notified else []
    if loss := _loss(findings) or _first(findings.node, CauseKind.NODE_LOST):
        return _loss_excuse(findings, loss[0]) or _root_of_loss(findings) or loss
    return announced


def _found_no_gpu(findings: AttemptEvidence) -> Answer:
    """The program found no GPU: its settings or the node; other attempts may show which."""
    missing = [
        item for item in findings.texts if item.tied and item.evidence.reason == GpuProof.MISSING
    ]
    exit_evidence = _own_exit(findings)
    return (
        [replace(missing[0], confidence="low"), *exit_evidence] if missing and exit_evidence else []
    )


def _ended_by_itself(findings: AttemptEvidence) -> Answer:
    """The job's process, with an exit code of its own; a guess if it says that a peer went first."""
    answer = _own_exit(findings)
    if any(item.tied and item.evidence.reason in PEER_REASONS for item in findings.texts):
        return [replace(item, confidence="low") for item in answer]
    return answer


def _weak_hints(findings: AttemptEvidence) -> Answer:
    """Weak hints, in the order of their sources; a node's own report does not blame it.

    That the node was short of something is a hint only if no pod is left: the kubelet marks a pod
    that it evicts.
    """
    for item in findings.everything():
        if item.kind is None or (item.kind is CauseKind.NODE_PRESSURE and findings.context.pod):
            continue
        return [replace(item, tied=False) if item in findings.node else item]
    return []


QUESTIONS: tuple[Callable[[AttemptEvidence], Answer], ...] = (
    _was_noticed,
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
    _found_no_gpu,
    _ended_by_itself,
    _weak_hints,
)


def _system_oom(findings: AttemptEvidence, seconds: float) -> Answer:
    """SystemOOM at most so long before or a minute after the end."""
    return [
        item
        for item in findings.node
        if item.kind is CauseKind.NODE_MEMORY
        and is_within(item.evidence.time, findings.end, seconds, SAME_KILL_SECONDS)
    ][:1]


def _loss(findings: AttemptEvidence) -> Answer:
    """The sign that the node was NotReady, unreachable or rebooted at that time."""
    node_evidence = [
        item for item in findings.node if item.evidence.source is not EvidenceSource.NODE_LIST
    ]
    return _first([*node_evidence, *findings.pod], CauseKind.NODE_LOST)


def _root_of_loss(findings: AttemptEvidence) -> Answer:
    """A node may be lost because it ran out of memory, which Microsoft documents, or had a fault.

    That the kubelet or the container runtime is down is not a reason for NotReady: it is what
    NotReady means.
    """
    strong = [
        item
        for item in findings.node
        if item.confidence != "low" and item.evidence.reason not in signals.SURVIVABLE
    ]
    return _first(strong, CauseKind.NODE_MEMORY, CauseKind.NODE_FAULT)


def _taint_of_a_person(findings: AttemptEvidence) -> Answer:
    """The NoExecute taint that is not one of Kubernetes' own for lost nodes."""
    context = findings.context
    node = context.cluster.nodes.get(context.node or "")
    for taint in node.taints if node else ():
        if taint.effect == "NoExecute" and taint.key not in signals.LOST_TAINTS:
            message = "deleted because of this taint, which somebody set"
            reason = signals.reason_text(taint.key)
            return [
                CauseCandidate(
                    Evidence(EvidenceSource.NODE_TAINT, reason, message), CauseKind.DRAIN, "high"
                )
            ]
    return []
