"""The evidence in a pod's containers: how the job's own ended, and which other failed first.

The texts of the kubelet and of NVIDIA's container toolkit are the only place where some reasons
are. All patterns for them are here and in signals.EVICTION_MESSAGES, each with its source.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from arc_toolkit.diagnosis import signals
from arc_toolkit.diagnosis.assemble.node_signals import CauseCandidate, signal_candidate
from arc_toolkit.diagnosis.model import CauseKind, Confidence, Evidence, EvidenceSource
from arc_toolkit.diagnosis.read.gpu_messages import GpuProof, messages_in
from arc_toolkit.diagnosis.read.pod_states import ContainerState, PodState
from arc_toolkit.diagnosis.signals import is_sidecar
from arc_toolkit.kube.quantities import GPU_RESOURCES, QuantityError, bytes_offered


@dataclass(frozen=True, slots=True)
class Reading:
    """What a message means: the cause, how sure that is, and the meaning in our own words."""

    kind: CauseKind
    confidence: Confidence
    meaning: str
    tied: bool = True  # False: it does not blame the node


# `Container x was using 61Gi, request is 8Gi, has larger consumption of memory.`; before Kubernetes
# 1.22 `Container x was using 90Gi, which exceeds its request of 0.`; with pod-level resources `Pod
# x was using ...`.
_QUANTITY = r"(\d[\d.]{0,20}[A-Za-z]{0,2})"
_USAGE = re.compile(
    rf"(Container|Pod) (\S+) was using {_QUANTITY}, "
    rf"(?:request is|which exceeds its request of) {_QUANTITY}[,.]"
)
_THRESHOLD = re.compile(rf"Threshold quantity: {_QUANTITY}, available: {_QUANTITY}\.")
_RESOURCE = re.compile(r"low on resource: \[?(memory|ephemeral-storage)")
_OWN = {"memory": CauseKind.OWN_MEMORY, "ephemeral-storage": CauseKind.OWN_STORAGE}
# Being named is not enough, because the kubelet names every container above its request, even with
# some KiB. This much above its request, and at least as much as the node lacked, a job is what
# filled the node.
LEAST_EXCESS_BYTES = 1 << 30


def eviction_reading(message: str, is_job: Callable[[str], bool]) -> Reading:
    """Why the kubelet evicted a pod. `is_job`: whether a container is the job's, not a sidecar."""
    for pattern, kind, confidence, meaning in signals.EVICTION_MESSAGES:
        if re.search(pattern, message):
            usage = _largest_excess(message, is_job) if kind is CauseKind.NODE_PRESSURE else None
            resource = _RESOURCE.search(message)
            if usage is None or resource is None:
                return Reading(kind, confidence, meaning)
            excess, words = usage
            if excess >= max(LEAST_EXCESS_BYTES, _shortage(message)):
                return Reading(_OWN[resource[1]], "medium", f"{meaning}, because the job {words}")
            return Reading(kind, confidence, f"{meaning}; the job only {words}")
    return Reading(
        CauseKind.NODE_PRESSURE, "low", "evicted, for a reason that is not known", tied=False
    )


def is_eviction(message: str) -> bool:
    """Whether the kubelet wrote it. Karpenter's event has the same reason, `Evicted`."""
    return any(re.search(pattern, message) for pattern, *_ in signals.EVICTION_MESSAGES)


def _largest_excess(message: str, is_job: Callable[[str], bool]) -> tuple[int, str] | None:
    """How far the job's container, or the whole pod, was above its request, also in words."""
    excesses = []
    for subject, name, used, requested in _USAGE.findall(message):
        excess = _bytes(used) - _bytes(requested)
        if subject == "Pod" or is_job(name):
            excesses.append((excess, f"used {used} with a request of {requested}"))
    return max(excesses, default=None)


def _shortage(message: str) -> int:
    match = _THRESHOLD.search(message)
    return _bytes(match[1]) - _bytes(match[2]) if match else 0


def _bytes(quantity: str) -> int:
    try:
        return bytes_offered(quantity)
    except QuantityError:
        return 0


# The kernel's words for a kill inside one container's limit (mm/oom_kill.c), as in the event
# OOMKilling. The words `Out of memory: Killed process` are of the whole node.
_KILL_IN_CGROUP = re.compile(
    r"Memory cgroup out of memory: Kill(?:ed)? process .* anon-rss:(\d{1,15})kB"
)


def fills_limit(message: str, limit: int, share: float) -> bool:
    """Whether a process killed in a cgroup had at least this share of a memory limit."""
    match = _KILL_IN_CGROUP.search(message)
    return match is not None and share * limit <= int(match[1]) * 1024 <= limit


# kubelet devicemanager/manager.go and lifecycle/predicate.go; in status.message after this text.
REJECTED = "Pod was rejected: "
_NO_DEVICES = re.compile(
    r"no healthy devices present|previously allocated devices are no longer healthy"
    r"|can(?:not|'t) allocate unregistered device"
)
# The node's device plugin does not answer, or reports an error (any code, mostly Unknown).
_PLUGIN_FAILS = re.compile(
    r"(?:Allocate failed due to (?:device plugin GetPreferredAllocation rpc failed with err: )?"
    r"|device plugin PreStartContainer rpc failed with err: )rpc error: code = (\w+)"
)
# NVIDIA's plugin refuses more than one share of a shared GPU, as any other node would.
_SHARED = re.compile(r"maximum request size for shared resources")
_FEWER_DEVICES = re.compile(
    r"requested number of devices unavailable for (\S+)\. Requested: (\d+), Available: (\d+)"
)
_NO_ROOM = re.compile(r"enough resource: (\S+), requested: (\d+), used: (\d+), capacity: (\d+)")


def refusal_reading(
    reason: str,
    message: str,
    fewer_devices: bool | None = None,
    just_started: bool = False,
    resources: frozenset[str] = frozenset(),
) -> Reading | None:
    """Why the kubelet did not admit a pod, if the message says more than the reason.

    `fewer_devices`: whether the node now offers fewer devices than it has, None if unknown.
    `resources`: what the node has, even if it has 0 now; empty if unknown.
    """
    broken: tuple[Confidence, str] | None = None
    if _NO_DEVICES.search(message):
        broken = "high", "the kubelet refused the pod: no healthy device of the kind it needs"
    elif _SHARED.search(message):
        return Reading(
            CauseKind.SETUP, "high", "the pod asks for more shares of a GPU than one pod may have"
        )
    elif match := _PLUGIN_FAILS.search(message):
        broken = _plugin_failure(match[1], message)
    elif match := _FEWER_DEVICES.search(message):
        words = f"the kubelet refused the pod: {match[2]} devices requested, {match[3]} available"
        if fewer_devices is False:
            return Reading(CauseKind.SETUP, "medium", f"{words}, because other pods still had them")
        if fewer_devices is None:
            return Reading(CauseKind.NODE_FAULT, "low", words, tied=False)
        broken = "high", words
    elif (match := _NO_ROOM.search(message)) and _was_never_there(match, resources):
        return Reading(
            CauseKind.SETUP,
            "high",
            f"the kubelet refused the pod: the node has no {signals.reason_text(match[1])}",
        )
    elif match:
        if "/" not in match[1] or int(match[2]) <= int(match[4]):
            return Reading(
                CauseKind.SETUP, "high", "the kubelet refused the pod: the node was full"
            )
        broken = (
            "high",
            f"the kubelet refused the pod: {match[2]} devices requested, {match[4]} on the node",
        )
    if broken is None:
        is_kubelet_text = message.startswith(REJECTED) or reason.startswith("OutOf")
        return (
            Reading(CauseKind.SETUP, "medium", "the kubelet did not admit the pod")
            if is_kubelet_text
            else None
        )
    confidence, meaning = broken
    if just_started:
        # The device plugin was not registered yet: the node's doing, but no proof of a fault.
        return Reading(
            CauseKind.NODE_FAULT, "low", f"{meaning}; the node had just started", tied=False
        )
    return Reading(CauseKind.NODE_FAULT, confidence, meaning)


def _was_never_there(match: re.Match[str], resources: frozenset[str]) -> bool:
    """A resource of which the node has none. A GPU whose plugin is gone is still listed, with 0;
    other resources are of a plugin that the cluster does not have (Azure/AML-Kubernetes 103)."""
    if int(match[4]) or "/" not in match[1]:
        return False
    vendors = {key.partition("/")[0] for key in GPU_RESOURCES}
    return match[1] not in resources if resources else match[1].partition("/")[0] not in vendors


def _plugin_failure(code: str, message: str) -> tuple[Confidence, str]:
    if any(proof is GpuProof.HARDWARE for proof, _ in messages_in(message)):
        return "high", "the kubelet refused the pod: the device plugin found a broken GPU"
    if code in ("Unavailable", "DeadlineExceeded"):
        return "high", "the kubelet refused the pod: the device plugin does not answer"
    return "medium", "the kubelet refused the pod: the device plugin failed"


# NVIDIA's container toolkit is a hook of the runtime; a `requirement error` is the image's.
_HOOK = re.compile(
    r"nvidia-container-(?:cli|runtime)|libnvidia-ml|NVML|nvidia-ctk|nvidia\.com/gpu="
)
_REQUIREMENT = re.compile(r"requirement error|unsatisfied condition: (?:cuda|driver|brand)")


def start_error(message: str) -> Reading | None:
    """Why a container with a GPU could not start; None if NVIDIA's toolkit did not write it."""
    if _REQUIREMENT.search(message):
        return Reading(
            CauseKind.SETUP, "high", "the image needs a newer CUDA than the driver of the node has"
        )
    if _HOOK.search(message):
        return Reading(
            CauseKind.NODE_FAULT, "high", "NVIDIA's hook could not give its GPU to the container"
        )
    return None


ONLY_SIDECAR = f"only {signals.IDENTITY_SIDECAR} failed: a known effect of a proxy that blocks it"
_ASKED_TO_STOP = 143  # SIGTERM
_KILLED = (137, _ASKED_TO_STOP)
_JOB_ID = re.compile(r"^[0-9a-f]{8,64}-")  # before the names of AzureML's containers


def reading_candidate(
    source: EvidenceSource, reason: str, reading: Reading, time: float | None
) -> CauseCandidate:
    evidence = Evidence(source, signals.reason_text(reason), reading.meaning, time)
    return CauseCandidate(evidence, reading.kind, reading.confidence, tied=reading.tied)


def main_containers(containers: list[ContainerState]) -> list[ContainerState]:
    """The job's own containers."""
    named = [item for item in containers if item.name.endswith(signals.MAIN_CONTAINER)]
    return named or [item for item in containers if not item.init and not is_sidecar(item.name)]


def container_candidates(pod: PodState) -> list[CauseCandidate]:
    """The main container, and those of AzureML beside it if they failed by themselves before it."""
    main = main_containers(pod.containers)
    helpers = [item for item in pod.containers if not any(item is other for other in main)]
    candidates = [candidate for item in main for candidate in _job_candidates(item)]
    failed = [item for item in helpers if _failed_first(item, main)]
    succeeded = job_succeeded(pod)
    candidates += [_helper_candidate(item, CauseKind.SETUP, succeeded) for item in failed]
    if succeeded and not failed:  # who killed them then is not known
        candidates += [
            _helper_candidate(item, None, succeeded) for item in helpers if item.exit_code
        ]
    if any(item.state == "terminated" and item.exit_code for item in main):
        return candidates
    for item in helpers:
        if item.state == "waiting":
            candidates += _job_candidates(item)
    return candidates


def job_succeeded(pod: PodState) -> bool:
    """The job's own container succeeded. For Volcano and AzureML the job may have failed anyway."""
    main = main_containers(pod.containers)
    return bool(main) and all(item.state == "terminated" and item.exit_code == 0 for item in main)


def _failed_first(item: ContainerState, main: list[ContainerState]) -> bool:
    """It ended with an error of its own before the job's container. All end with the pod."""
    if item.state != "terminated" or not item.exit_code:
        return False
    failed = [other for other in main if other.state == "terminated" and other.exit_code]
    ends = [other.finished for other in failed if other.finished is not None]
    if (
        failed
        and not item.init
        and not (ends and item.finished is not None and item.finished < max(ends))
    ):
        return False
    killed = any(other.exit_code in _KILLED for other in main)
    return (
        item.reason == "OOMKilled"
        or item.exit_code not in _KILLED
        or (is_sidecar(item.name) and not killed)
    )


def _helper_candidate(
    item: ContainerState, kind: CauseKind | None, succeeded: bool
) -> CauseCandidate:
    """`succeeded`: the job's own container has ended well."""
    reason = f"{signals.reason_text(item.reason)} {item.exit_code}"
    name = signals.reason_text(_JOB_ID.sub("", item.name))
    circumstance = "failed, although the job's own ended well" if succeeded else "failed first"
    message = (
        ONLY_SIDECAR
        if is_sidecar(item.name)
        else f"{name}, which is not the job's own container, {circumstance}"
    )
    return CauseCandidate(
        Evidence(EvidenceSource.CONTAINER, reason, message, item.finished), kind, "medium"
    )


def _job_candidates(item: ContainerState) -> list[CauseCandidate]:
    table = signals.table()
    code = item.exit_code
    signal = table.get((EvidenceSource.CONTAINER, item.reason))
    candidates = []
    if signal and item.reason != "Error":
        candidate = signal_candidate(signal, item.finished)
        if item.reason == "OOMKilled" and not code:
            # Happens in pods that succeeded: a child process was killed, the container was not.
            message = "a process was killed for memory, but the container continued"
            evidence = Evidence(EvidenceSource.CONTAINER, item.reason, message, item.finished)
            candidate = CauseCandidate(evidence, None, "low")
        elif item.reason == "OOMKilled" and code == _ASKED_TO_STOP:
            # kubernetes/kubernetes 140716: the kernel kills the main process with 137; a pod that
            # is being stopped, and has a child killed, ends like this.
            message = "a process was killed for memory while the container was being stopped"
            evidence = Evidence(EvidenceSource.CONTAINER, item.reason, message, item.finished)
            candidate = CauseCandidate(evidence, None, "low")
        elif signal.kind is CauseKind.SETUP and (reading := start_error(item.message)):
            candidate = reading_candidate(
                EvidenceSource.CONTAINER, item.reason, reading, item.finished
            )
        candidates.append(candidate)
    if item.state == "terminated" and code:
        if code == 255 and item.reason == "Error":
            # containerd writes the reason `Unknown` for a container that it lost; Docker does not.
            message = "the process ended with -1, or the container runtime lost track of it"
            evidence = Evidence(EvidenceSource.EXIT_CODE, str(code), message, item.finished)
            candidate = CauseCandidate(evidence, CauseKind.USER, "low", tied=False)
        elif exit_signal := table.get((EvidenceSource.EXIT_CODE, str(code))):
            candidate = signal_candidate(exit_signal, item.finished)
        else:
            message = "the job's process ended with an error of its own"
            evidence = Evidence(EvidenceSource.EXIT_CODE, str(code), message, item.finished)
            candidate = CauseCandidate(evidence, CauseKind.USER, "medium")
        # With another reason than `Error` the code is of the runtime, not of the process.
        candidates.append(
            candidate if item.reason in ("Error", "") else replace(candidate, tied=False)
        )
    elif item.fails_without_code:
        # Container Insights has no exit codes, and a pod that was evicted ends like this too.
        evidence = Evidence(
            EvidenceSource.CONTAINER, "Error", "ended with an unknown exit code", item.finished
        )
        candidates.append(CauseCandidate(evidence, None, "low"))
    return candidates
