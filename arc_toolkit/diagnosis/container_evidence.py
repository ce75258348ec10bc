"""The evidence in a pod's containers: how the job's own ended, and which other failed first."""

from __future__ import annotations

import re
from dataclasses import replace

from arc_toolkit.diagnosis import kubelet_messages, signals
from arc_toolkit.diagnosis.kubelet_messages import Reading
from arc_toolkit.diagnosis.model import CauseKind, Evidence, EvidenceSource
from arc_toolkit.diagnosis.node_signals import CauseCandidate, signal_candidate
from arc_toolkit.diagnosis.pod_states import ContainerState, PodState
from arc_toolkit.diagnosis.signals import is_sidecar

ONLY_SIDECAR = f"only {signals.IDENTITY_SIDECAR} failed: a known effect of a proxy that blocks it"
_KILLED = (137, 143)
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
        elif signal.kind is CauseKind.SETUP and (
            reading := kubelet_messages.start_error(item.message)
        ):
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
