"""The questions of causes.py one by one, each with its near miss: what looks alike and is something else."""

from __future__ import annotations

from typing import Any

import pytest

from arc_toolkit.diagnosis.assemble.node_signals import excuse
from arc_toolkit.diagnosis.model import Cause, CauseKind, ClusterFacts, FileEvidence, Level
from arc_toolkit.diagnosis.report import build
from tests.diagnosis.made import (
    NODE_A,
    NODE_B,
    at,
    cluster,
    container,
    event,
    facts,
    log,
    node,
    node_line,
    pod,
    scanned,
)

Objects = list[dict[str, Any]]
USER, FAULT, LOST, UNKNOWN = (
    CauseKind.USER,
    CauseKind.NODE_FAULT,
    CauseKind.NODE_LOST,
    CauseKind.UNKNOWN,
)
EXIT_1 = pod(containers=[container(code=1)])  # from minute 0 to minute 30
KILLED = pod(containers=[container(code=137)])
SPOT_POOL = [node(NODE_B, spot=True)]


def cause_of(pods: Objects, nodes: Objects | None = None, events: Objects | None = None) -> Cause:
    cause = build([], [facts(pods, nodes, events)]).attempts[0].cause
    assert cause is not None
    return cause


def with_condition(
    kind: str, minute: float = 25, status: str = "True", message: str = ""
) -> dict[str, Any]:
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": at(0)}
    row = {"type": kind, "status": status, "message": message, "lastTransitionTime": at(minute)}
    return node(conditions=[ready, row])


def changed(kind: str, status: str, minute: float) -> dict[str, Any]:
    message = f'Node condition {kind} is now: {status}, reason: Words of the check, message: "..."'
    return event("Words of the check", minute, message=message)


# Volcano, and commands to its jobs


@pytest.mark.parametrize("action", ["preempt", "reclaim", "gangpreempt", "gangreclaim", "shuffle"])
@pytest.mark.parametrize("where", ["condition", "event"])
def test_an_eviction_by_volcano_is_nobodys_fault(action: str, where: str) -> None:
    message = f"Pod is evicted, because of {action}"
    row = {
        "type": "Ready",
        "status": "False",
        "reason": "Evict",
        "message": message,
        "lastTransitionTime": at(30),
    }
    stopped = pod(
        containers=[container(code=143)], conditions=[row] if where == "condition" else []
    )
    of_pod = event(
        "Evict", 30, kind="Pod", about="azureml-aa-worker-0", uid="uid-1", message=message
    )
    cause = cause_of([stopped], [node()], [of_pod] if where == "event" else [])
    assert (cause.kind, cause.confidence, cause.blames_node) == (CauseKind.SCHEDULER, "high", False)


def test_an_eviction_of_an_earlier_pod_with_the_same_name_is_not_of_this_one() -> None:
    of_name = event("Evict", -40, kind="Pod", about="azureml-aa-worker-0", namespace="azureml")
    assert (
        cause_of([EXIT_1], events=[{**of_name, "lastTimestamp": "2026-03-03T09:20:00Z"}]).kind
        is USER
    )
    assert (
        cause_of([EXIT_1], events=[{**of_name, "lastTimestamp": at(29)}]).kind
        is CauseKind.SCHEDULER
    )


@pytest.mark.parametrize(
    ("reason", "message", "minute", "kind"),
    [
        (
            "CommandIssued",
            "Start to execute command AbortJob, and clean it up",
            29,
            CauseKind.CANCELLED,
        ),
        ("CommandIssued", "Start to execute command ResumeJob, and clean it up", 29, UNKNOWN),
        ("CommandIssued", "Start to execute command AbortJob, and clean it up", 5, UNKNOWN),
        ("ExecuteAction", "Start to execute action RestartJob ", 29, UNKNOWN),
    ],
)
def test_only_a_command_to_the_job_shortly_before_its_end_stopped_it(
    reason: str, message: str, minute: float, kind: CauseKind
) -> None:
    of_job = event(
        reason, minute, kind="Job", about="azureml-aa", namespace="azureml", message=message
    )
    assert cause_of([pod(containers=[container(code=143)])], events=[of_job]).kind is kind
    of_kubernetes = event(
        reason,
        minute,
        kind="Job",
        about="azureml-aa",
        namespace="azureml",
        message=message,
        apiVersion="batch/v1",
    )
    assert cause_of([pod(containers=[container(code=143)])], events=[of_kubernetes]).kind is UNKNOWN


def test_a_command_explains_the_end_better_than_a_node_that_went_away_at_that_time() -> None:
    message = "Start to execute command AbortJob, and clean it up"
    of_job = event(
        "CommandIssued", 29, kind="Job", about="azureml-aa", namespace="azureml", message=message
    )
    stopped = pod(containers=[container(code=143)])
    assert (
        cause_of([stopped], [node()], [of_job, event("NodeNotReady", 28)]).kind
        is CauseKind.CANCELLED
    )


# Faults of the node and its GPUs


@pytest.mark.parametrize(
    "kind",
    [
        "GPUMissing",
        "XIDErrors",
        "XIDError",
        "GPUXIDErrors",
        "XIDError79",
        "NVLinkStatusInactive",
        "IBLinkFlapping",
        "ReadonlyFilesystem",
        "XfsShutdown",
        "CperHardwareErrorFatal",
        "FrequentUnregisterNetDevice",
    ],
)
def test_a_fault_of_the_hardware_explains_an_exit_code_of_the_process(kind: str) -> None:
    for cause in (
        cause_of([EXIT_1], [with_condition(kind)]),
        cause_of([EXIT_1], [], [changed(kind, "True", 25)]),
    ):
        assert (cause.kind, cause.blames_node) == (FAULT, True)
    assert cause_of([EXIT_1], [with_condition(kind, status="False")]).kind is USER
    assert (
        cause_of([EXIT_1], [with_condition(kind, status="Unknown")]).kind is USER
    )  # the check could not run
    assert cause_of([EXIT_1], [], [changed(kind, "Unknown", 25)]).kind is USER


@pytest.mark.parametrize(
    "kind",
    [
        "KubeletProblem",
        "KubeletUnhealthy",
        "FrequentKubeletRestart",
        "ContainerRuntimeProblem",
        "ContainerRuntimeUnhealthy",
        "FrequentContainerdRestart",
        "FrequentDockerRestart",
        "UnhealthyNvidiaDevicePlugin",
        "GPUClockThrottling",
    ],
)
def test_a_fault_of_a_service_explains_a_lost_container_but_not_an_exit_code_of_the_process(
    kind: str,
) -> None:
    assert cause_of([KILLED], [with_condition(kind)]).kind is FAULT
    assert cause_of([EXIT_1], [with_condition(kind)]).kind is USER


@pytest.mark.parametrize("reason", ["KubeletIsDown", "ContainerRuntimeIsDown", "PLEGUnhealthy"])
def test_an_event_of_a_service_that_is_down_does_not_explain_an_exit_code_of_the_process(
    reason: str,
) -> None:
    assert cause_of([KILLED], events=[event(reason, 28)]).kind is FAULT
    assert cause_of([EXIT_1], events=[event(reason, 28)]).kind is USER


@pytest.mark.parametrize(("minute", "kind"), [(19, USER), (21, FAULT), (35, FAULT), (38, USER)])
def test_the_report_of_a_fault_may_follow_the_failure_by_some_minutes(
    minute: float, kind: CauseKind
) -> None:
    assert cause_of([EXIT_1], events=[changed("GPUMissing", "True", minute)]).kind is kind


def test_a_fault_that_was_over_before_the_end_is_not_the_cause() -> None:
    events = [changed("GPUMissing", "True", 22), changed("GPUMissing", "False", 24)]
    assert cause_of([EXIT_1], events=events).kind is USER
    assert cause_of([EXIT_1], events=[events[0], changed("XIDErrors", "False", 24)]).kind is FAULT


def test_a_fault_with_which_later_jobs_succeed_did_not_hinder_this_one() -> None:
    broken = with_condition("IBLinkFlapping", 1)
    good = pod(
        "other", uid="uid-2", phase="Succeeded", start=40, containers=[container(code=0, minute=60)]
    )
    causes = [attempt.cause for attempt in build([], [facts([EXIT_1, good], [broken])]).attempts]
    assert [cause.kind for cause in causes if cause] == [USER]
    earlier = pod(
        "other", uid="uid-2", phase="Succeeded", start=0, containers=[container(code=0, minute=20)]
    )
    causes = [attempt.cause for attempt in build([], [facts([EXIT_1, earlier], [broken])]).attempts]
    assert [cause.kind for cause in causes if cause] == [FAULT]


@pytest.mark.parametrize(
    ("start", "end", "kind"), [(61, 125, USER), (59, 125, FAULT), (61, 119, FAULT)]
)
def test_a_fault_long_before_a_long_run_did_not_hinder_it(
    start: float, end: float, kind: CauseKind
) -> None:
    ran = pod(start=start, containers=[container(code=1, minute=end)])
    assert cause_of([ran], [with_condition("GPUMissing", 0)]).kind is kind


@pytest.mark.parametrize(
    ("codes", "kind"),
    [
        ("48, 94", FAULT),
        ("79", FAULT),
        ("31", USER),
        ("13, 43", USER),
        ("31, 79", FAULT),
        ("63", USER),
        ("63, 48", FAULT),
    ],
)
def test_xids_of_the_program_are_not_a_fault_of_the_gpu(codes: str, kind: CauseKind) -> None:
    message = f"XID error-codes found: {codes}. FaultCode: NHC2001"
    assert cause_of([EXIT_1], [with_condition("XIDErrors", message=message)]).kind is kind


@pytest.mark.parametrize("number", [8, 13, 31, 32, 43, 45, 68, 69, 109])
def test_each_xid_of_programs(number: int) -> None:
    message = f"XID error-codes found: {number}. FaultCode: NHC2001"
    assert cause_of([EXIT_1], [with_condition("XIDErrors", message=message)]).kind is USER


def test_an_unknown_check_with_a_fault_code_of_azure_is_a_fault() -> None:
    message = "GPU pages are to be remapped. FaultCode: NHC2014"
    cause = cause_of([EXIT_1], [with_condition("GPUECCRemapFailure", message=message)])
    assert (cause.kind, cause.confidence, cause.evidence[0].reason) == (FAULT, "medium", "NHC2014")
    assert (
        cause_of([EXIT_1], events=[event("Words of the check", 28, message=message)]).kind is FAULT
    )
    assert cause_of([EXIT_1], [with_condition("SomethingNew", message="words")]).kind is USER


# What the job printed


@pytest.mark.parametrize(
    "number", [46, 48, 54, 62, 64, 74, 79, 94, 95, 119, 120, 136, 140, 143, 158, 167, 171, 172]
)
def test_each_xid_of_the_hardware_that_a_job_printed(number: int) -> None:
    text = node_line(NODE_A) + f"NVRM: Xid (PCI:0002:00:00): {number}, pid=1\n".encode()
    report = build([scanned(text)], [facts([EXIT_1], [node()])])
    cause = report.attempts[0].cause
    assert cause is not None
    assert (cause.kind, cause.confidence, cause.blames_node) == (FAULT, "medium", True)
    assert cause.evidence[0].reason == f"Xid {number}"
    assert report.prs_evidence == ()


@pytest.mark.parametrize(
    "line",
    [
        "NVRM: Xid (PCI:0002:00:00): 31, pid=1, MMU Fault",
        "torch.OutOfMemoryError: CUDA out of memory.",
    ],
)
def test_an_error_of_the_program_on_the_gpu_stays_the_programs(line: str) -> None:
    scans = [scanned(node_line(NODE_A) + line.encode() + b"\n")]
    cause = build(scans, [facts([EXIT_1], [node()])]).attempts[0].cause
    assert cause is not None
    assert cause.kind is USER


def test_what_a_gang_printed_blames_no_node_unless_the_file_names_the_rank() -> None:
    ranks = [
        pod(uid=f"u{n}", name=f"azureml-aa-worker-{n}", node=name, containers=[container(code=1)])
        for n, name in enumerate((NODE_A, NODE_B))
    ]
    for path, kinds in (
        ("job/user_logs/std_log.txt", {USER}),
        ("job/user_logs/worker-1/std_log.txt", {FAULT, CauseKind.GANG}),
    ):
        found = FileEvidence(path, *printed(path))
        report = build([], [facts(ranks)], [found])
        assert {attempt.cause.kind for attempt in report.attempts if attempt.cause} == kinds


def printed(path: str) -> tuple[Any, str | None, CauseKind]:
    from arc_toolkit.diagnosis.assemble.log_evidence import evidence_in
    from arc_toolkit.diagnosis.read.scan import LogScan

    found = evidence_in([LogScan(path, [], xids=(79,))])[0]
    return found.evidence, found.node, FAULT


# Containers beside the job's own


ID = "72d109cc556e407ceecd35c36c5e3d3c"


@pytest.mark.parametrize(
    ("helper", "main", "kind"),
    [
        # a helper that failed by itself before the job's container
        (("data-capability", "Error", 1, 29), ("Error", 1, 30), CauseKind.SETUP),
        (("lifecycler", "OOMKilled", 137, 29), ("Error", 143, 30), CauseKind.SETUP),
        (("data-capability", "Error", 1, 29), ("Completed", 0, 30), CauseKind.SETUP),
        # one that ended with the job, or was killed with the pod
        (("data-capability", "Error", 1, 31), ("Error", 1, 30), USER),
        (("data-capability", "Error", 1, 30), ("Error", 1, 30), USER),
        (("lifecycler", "Error", 137, 29), ("Error", 1, 30), USER),
        (("lifecycler", "Error", 143, 29), ("Error", 143, 30), UNKNOWN),
        (("lifecycler", "Completed", 0, 29), ("Error", 1, 30), USER),
        (("lifecycler", "OOMKilled", 137, 31), ("Error", 1, 30), USER),
    ],
)
def test_a_helper_that_failed_first_is_not_the_users_error(
    helper: tuple[str, str, int, float], main: tuple[str, int, float], kind: CauseKind
) -> None:
    name, reason, code, minute = helper
    containers = [
        container(f"{ID}-{name}", reason, code, minute),
        container(f"{ID}-execution-wrapper", *main),
    ]
    cause = cause_of([pod(containers=containers)], [node()])
    assert (cause.kind, cause.blames_node) == (kind, False)
    if kind is CauseKind.SETUP:
        assert cause.evidence[0].message.startswith(name)


@pytest.mark.parametrize(
    ("minute", "code", "kind"),
    [(29, 1, CauseKind.SETUP), (31, 1, USER), (29, 137, UNKNOWN), (29, 143, UNKNOWN)],
)
def test_the_identity_sidecar_with_137_before_the_job_is_a_proxy_problem(
    minute: float, code: int, kind: CauseKind
) -> None:
    containers = [
        container("training-identity-sidecar", "Error", 137, minute),
        container("1-execution-wrapper", "Error", code, 30),
    ]
    assert cause_of([pod(containers=containers)], [node()]).kind is kind


def test_a_failed_init_container_is_named() -> None:
    failed = pod()
    failed["status"]["initContainerStatuses"] = [container(f"{ID}-amlarc-init", "Error", 1)]
    cause = cause_of([failed], [node()])
    assert cause.kind is CauseKind.SETUP
    assert cause.evidence[0].message.startswith("amlarc-init")


def test_azuremls_message_about_an_evicted_pod_has_the_kubelets_words() -> None:
    words = "The node was low on resource: ephemeral-storage. Container 1-execution-wrapper was using 90Gi, "
    for form, kind in (("un", CauseKind.OWN_STORAGE), ("", CauseKind.OWN_STORAGE)):
        diagnostics = (
            f'PodPattern {form}matched: {{"reason":"Evicted","message":"{words}request is 0, "}}'
        )
        failed = log(
            "job/system_logs/amlarc_cr_bootstrap.log", NODE_A, failure=("-300", diagnostics)
        )
        cause = build([failed]).attempts[0].cause
        assert cause is not None
        assert (cause.kind, cause.blames_node) == (kind, False)


# What the kubelet refuses


NO_HEALTHY = (
    "Pod was rejected: Allocate failed due to no healthy devices present; "
    "cannot allocate unhealthy devices nvidia.com/gpu, which is unexpected"
)
FEWER = (
    "Pod was rejected: Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. "
    "Requested: 8, Available: 7, which is unexpected"
)


def refused(message: str, reason: str = "UnexpectedAdmissionError") -> dict[str, Any]:
    return pod(reason=reason, message=message, start=30)


def with_gpus(allocatable: str) -> dict[str, Any]:
    sized = node()
    sized["status"] |= {
        "capacity": {"nvidia.com/gpu": "8"},
        "allocatable": {"nvidia.com/gpu": allocatable},
    }
    return sized


@pytest.mark.parametrize(
    "words",
    [
        "no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu",
        "previously allocated devices are no longer healthy; cannot allocate unhealthy devices nvidia.com/gpu",
        "cannot allocate unregistered device nvidia.com/gpu",
    ],
)
def test_a_node_without_healthy_devices_is_broken(words: str) -> None:
    cause = cause_of(
        [refused(f"Pod was rejected: Allocate failed due to {words}, which is unexpected")],
        [node()],
    )
    assert (cause.kind, cause.confidence, cause.blames_node) == (FAULT, "high", True)


@pytest.mark.parametrize(
    "start", ["Starting", "Rebooted", "RegisteredNode", "NodeReady", "KubeletStart"]
)
def test_a_node_that_has_just_started_may_not_have_its_devices_yet(start: str) -> None:
    for minute, blames in ((25, False), (15, True)):
        cause = cause_of([refused(NO_HEALTHY)], [node()], [event(start, minute)])
        assert (cause.kind, cause.blames_node) == (FAULT, blames)


@pytest.mark.parametrize(
    ("nodes", "kind", "blames"),
    [
        ([with_gpus("7")], FAULT, True),
        ([with_gpus("8")], CauseKind.SETUP, False),
        ([], FAULT, False),
    ],
)
def test_fewer_devices_are_a_fault_only_if_the_node_lost_some(
    nodes: Objects, kind: CauseKind, blames: bool
) -> None:
    cause = cause_of([refused(FEWER)], nodes)
    assert (cause.kind, cause.blames_node) == (kind, blames)
    assert "8 devices requested, 7 available" in cause.evidence[0].message


@pytest.mark.parametrize(
    ("reason", "words", "kind"),
    [
        ("OutOfcpu", "cpu, requested: 16000, used: 88100, capacity: 95600", CauseKind.SETUP),
        ("OutOfcpu", "cpu, requested: 99000, used: 0, capacity: 95600", CauseKind.SETUP),
        (
            "OutOfnvidia.com/gpu",
            "nvidia.com/gpu, requested: 1, used: 8, capacity: 8",
            CauseKind.SETUP,
        ),
        ("OutOfnvidia.com/gpu", "nvidia.com/gpu, requested: 1, used: 0, capacity: 0", FAULT),
    ],
)
def test_a_full_node_is_not_a_broken_one(reason: str, words: str, kind: CauseKind) -> None:
    message = f"Pod was rejected: Node didn't have enough resource: {words}"
    assert cause_of([refused(message, reason)], [node()]).kind is kind


def test_any_other_refusal_is_a_setup_error() -> None:
    odd = cause_of([refused("Pod was rejected: words that are not known", "TopologyAffinityError")])
    assert (odd.kind, odd.confidence) == (CauseKind.SETUP, "medium")


HOOK = "OCI runtime create failed: error running hook #0: stderr: Auto-detected mode\nnvidia-container-cli: "


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (HOOK + "device error: GPU-3d7408b2: unknown device: unknown", FAULT),
        (HOOK + "initialization error: nvml error: driver not loaded: unknown", FAULT),
        (HOOK + "initialization error: driver rpc error: timed out: unknown", FAULT),
        (
            HOOK
            + "requirement error: unsatisfied condition: cuda>=12.8, please update your driver",
            CauseKind.SETUP,
        ),
        ('exec: "train.sh": executable file not found in $PATH: unknown', CauseKind.SETUP),
    ],
)
@pytest.mark.parametrize("reason", ["StartError", "ContainerCannotRun", "RunContainerError"])
def test_nvidias_hook_tells_a_broken_gpu_from_an_image_that_does_not_fit(
    reason: str, message: str, kind: CauseKind
) -> None:
    failed = container(reason=reason, code=128)
    failed["state"]["terminated"]["message"] = message
    cause = cause_of([pod(containers=[failed])], [node()])
    assert (cause.kind, cause.blames_node) == (kind, kind is FAULT)
    assert "GPU-3d7408b2" not in str(cause)


# Whose disk, whose memory


def low(
    resource: str, *usages: str, threshold: str = "Threshold quantity: 750Mi, available: 512Mi."
) -> dict[str, Any]:
    parts = [f"The node was low on resource: {resource}. {threshold}", *usages]
    return pod(reason="Evicted", message=" ".join(parts) + " ", containers=[container(code=137)])


@pytest.mark.parametrize(
    ("resource", "usage", "kind", "blames"),
    [
        (
            "memory",
            "1-execution-wrapper was using 61Gi, request is 8Gi, has larger",
            CauseKind.OWN_MEMORY,
            False,
        ),
        (
            "memory",
            "1-execution-wrapper was using 9Gi, request is 8Gi, has larger",
            CauseKind.OWN_MEMORY,
            False,
        ),
        (
            "memory",
            "1-execution-wrapper was using 9000Mi, request is 8Gi, has",
            CauseKind.NODE_PRESSURE,
            True,
        ),
        (
            "memory",
            "1-execution-wrapper was using 210Mi, request is 0, has larger",
            CauseKind.NODE_PRESSURE,
            True,
        ),
        (
            "memory",
            "training-identity-sidecar was using 61Gi, request is 1Gi, has",
            CauseKind.NODE_PRESSURE,
            True,
        ),
        (
            "ephemeral-storage",
            "1-execution-wrapper was using 90Gi, request is 0, has",
            CauseKind.OWN_STORAGE,
            False,
        ),
        (
            "ephemeral-storage",
            "1-execution-wrapper was using 90Gi, which exceeds its request of 0.",
            CauseKind.OWN_STORAGE,
            False,
        ),
        (
            "ephemeral-storage",
            "1-execution-wrapper was using 60Ki, request is 0, has",
            CauseKind.NODE_PRESSURE,
            True,
        ),
        (
            "inodes",
            "1-execution-wrapper was using 3000000, request is 0, has",
            CauseKind.NODE_PRESSURE,
            True,
        ),
    ],
)
def test_usage_and_request_tell_the_job_from_the_node(
    resource: str, usage: str, kind: CauseKind, blames: bool
) -> None:
    cause = cause_of([low(resource, f"Container {usage} consumption of {resource}.")], [node()])
    assert (cause.kind, cause.blames_node) == (kind, blames)


def test_a_job_that_used_less_than_the_node_lacked_did_not_fill_it() -> None:
    usage = "Container 1-execution-wrapper was using 5Gi, request is 0, has larger consumption of memory."
    much = "Threshold quantity: 10Gi, available: 1Gi."
    assert cause_of([low("memory", usage, threshold=much)]).kind is CauseKind.NODE_PRESSURE
    assert cause_of([low("memory", usage)]).kind is CauseKind.OWN_MEMORY


def test_usage_and_request_are_shown() -> None:
    sidecar = "Container training-identity-sidecar was using 2Gi, request is 1Mi, has larger consumption of memory."
    main = "Container 1-execution-wrapper was using 61Gi, request is 8Gi, has larger consumption of memory."
    message = cause_of([low("memory", sidecar, main)]).evidence[0].message
    assert "used 61Gi with a request of 8Gi" in message


# Taints, removals, spot


def tainted(
    key: str, effect: str = "NoExecute", minute: float = 24, **parts: Any
) -> dict[str, Any]:
    return node(taints=[{"key": key, "effect": effect, "timeAdded": at(minute)}], **parts)


@pytest.mark.parametrize(
    ("nodes", "events", "kind"),
    [
        ([tainted("node.kubernetes.io/unreachable")], [], LOST),
        ([tainted("node.kubernetes.io/not-ready")], [], LOST),
        ([tainted("node.kubernetes.io/out-of-service")], [event("NodeNotReady", 24)], LOST),
        ([node()], [event("NodeNotReady", 24)], LOST),
        ([node()], [event("NodeNotReady", 24, kind="Pod", about="p", uid="uid-1")], LOST),
        ([tainted("example.com/maintenance", minute=30)], [], CauseKind.DRAIN),
        ([node()], [event("NodeNotReady", 5), event("NodeReady", 6)], CauseKind.DRAIN),
        ([node()], [], CauseKind.DRAIN),
        ([], [], CauseKind.DRAIN),
    ],
)
def test_the_taint_manager_means_a_lost_node_only_if_a_sign_says_so(
    nodes: Objects, events: Objects, kind: CauseKind
) -> None:
    cause = cause_of([pod(disruption="DeletionByTaintManager")], nodes, events)
    assert (cause.kind, cause.blames_node) == (kind, kind is LOST)


def test_a_taint_that_somebody_set_is_named() -> None:
    cause = cause_of(
        [pod(disruption="DeletionByTaintManager")], [tainted("example.com/maintenance", minute=30)]
    )
    assert (cause.evidence[0].reason, cause.confidence) == ("example.com/maintenance", "high")


def test_a_pod_that_had_failed_before_is_not_explained_by_the_loss_of_its_node() -> None:
    failed = pod(
        disruption="DeletionByTaintManager", disrupted=90, containers=[container(code=1, minute=30)]
    )
    assert cause_of([failed], [node()], [event("NodeNotReady", 84)]).kind is USER
    same = pod(
        disruption="DeletionByTaintManager",
        disrupted=30,
        containers=[container(code=137, minute=30.5)],
    )
    assert cause_of([same], [node()], [event("NodeNotReady", 24)]).kind is LOST


@pytest.mark.parametrize(("ready", "kind"), [(23, UNKNOWN), (29.5, LOST), (31, LOST)])
def test_a_loss_that_the_container_survived_is_not_its_end(ready: float, kind: CauseKind) -> None:
    events = [event("NodeNotReady", 22), event("NodeReady", ready)]
    assert cause_of([KILLED], [node()], events).kind is kind
    assert cause_of([KILLED], [node()], [*events, event("Rebooted", 22)]).kind is LOST


@pytest.mark.parametrize(
    ("node_objects", "events", "kind"),
    [
        # Delete: the node is gone
        (SPOT_POOL, [event("NodeNotReady", 29)], CauseKind.SPOT),
        (SPOT_POOL, [event("NodeNotReady", 29), event("DeletingNode", 29.5)], CauseKind.SPOT),
        (
            [node(spot=True)],
            [event("NodeNotReady", 29), event("DeletingNode", 29.5)],
            CauseKind.SPOT,
        ),
        (
            [node(spot=True)],
            [event("NodeNotReady", 29), event("RemovingNode", 29.5)],
            CauseKind.SPOT,
        ),
        # another VM has the name now
        ([node(spot=True, created=at(45))], [event("NodeNotReady", 29)], CauseKind.SPOT),
        # Deallocate: the node stays, without a kubelet
        (
            [tainted("node.cloudprovider.kubernetes.io/shutdown", "NoSchedule", spot=True)],
            [event("NodeNotReady", 29)],
            CauseKind.SPOT,
        ),
        (
            [tainted("node.cloudprovider.kubernetes.io/shutdown", "NoSchedule")],
            [event("NodeNotReady", 29)],
            CauseKind.DRAIN,
        ),
        # it came back: not taken
        ([node(spot=True)], [event("NodeNotReady", 29), event("NodeReady", 33)], LOST),
        ([node(spot=True)], [event("NodeNotReady", 29)], LOST),
        # on-demand VMs that are deleted
        (
            [node(NODE_B)],
            [event("NodeNotReady", 29), event("DeletingNode", 29.5)],
            CauseKind.SCALE_DOWN,
        ),
        ([node(NODE_B)], [event("NodeNotReady", 22), event("DeletingNode", 29.5)], LOST),
    ],
)
def test_a_vm_that_was_taken_away_is_excused(
    node_objects: Objects, events: Objects, kind: CauseKind
) -> None:
    cause = cause_of([pod(disruption="DeletionByTaintManager")], node_objects, events)
    assert (cause.kind, cause.blames_node) == (kind, kind is LOST)


def test_a_notice_without_a_time_does_not_excuse_an_old_loss() -> None:
    stopped = node(
        taints=[{"key": "node.cloudprovider.kubernetes.io/shutdown", "effect": "NoSchedule"}],
        spot=True,
    )
    events = [event("NodeNotReady", 20), event("NodeReady", 22), event("NodeNotReady", 300)]
    known = cluster(nodes=[stopped], events=events)
    times = [item.time for item in known.node_events[NODE_A] if item.reason == "NodeNotReady"]
    assert [excuse(known, NODE_A, time) is not None for time in times] == [False, True]


def test_the_autoscaler_writes_the_time_into_the_value_of_its_taint() -> None:
    for minute, excused in ((25, True), (-600, False)):
        value = str(round(1772532000 + 60 * minute))  # at(0) and later
        known = cluster(
            nodes=[node(taints=[{"key": "ToBeDeletedByClusterAutoscaler", "value": value}])]
        )
        assert (excuse(known, NODE_A, 1772532000 + 60 * 29) is not None) is excused


def test_older_cloud_providers_write_the_message_into_the_reason() -> None:
    swapped = event(f"Deleting node {NODE_A} because it does not exist in the cloud provider", 29.5)
    assert [item.reason for item in cluster(events=[swapped]).node_events[NODE_A]] == [
        "DeletingNode"
    ]


@pytest.mark.parametrize(
    "reason", ["PreemptScheduled", "RedeployScheduled", "TerminateScheduled", "RebootScheduled"]
)
def test_a_failed_query_for_announcements_announces_nothing(reason: str) -> None:
    failed = event(
        reason,
        29,
        message="IMDS query failed, exit code: 28\nConnection timed out after 24 seconds.",
    )
    assert cause_of([KILLED], [node(spot=True)], [failed]).kind is UNKNOWN
    assert cause_of([KILLED], [node(spot=True)], [event(reason, 29)]).kind is not UNKNOWN


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("Preempt", CauseKind.SPOT),
        ("Redeploy", CauseKind.DRAIN),
        ("Reboot", CauseKind.DRAIN),
        ("Terminate", CauseKind.SCALE_DOWN),
        ("Freeze", UNKNOWN),
    ],
)
def test_the_message_of_a_scheduled_vm_event_tells_what_was_announced(
    word: str, kind: CauseKind
) -> None:
    message = f"{word} Scheduled: Tue, 03 Mar 2026 10:30:00 GMT. DurationInSeconds: -1."
    cause = cause_of([KILLED], [with_condition("VMEventScheduled", 29, message=message)])
    assert cause.kind is kind
    assert ("VMEventScheduled" in [item.reason for item in cause.evidence]) is (
        kind is not UNKNOWN or word == "Freeze"
    )


def test_a_program_that_ends_with_1_when_its_spot_vm_is_reclaimed_was_asked_to_stop() -> None:
    for minute, kind in ((29, CauseKind.SPOT), (25, USER), (30.5, USER)):
        assert (
            cause_of([EXIT_1], [node(spot=True)], [event("PreemptScheduled", minute)]).kind is kind
        )
    assert cause_of([EXIT_1], [node()], [event("ScaleDown", 29)]).kind is USER


def test_the_end_of_an_upgrade_excuses_nothing_that_follows() -> None:
    deleted = pod(disruption="DeletionByTaintManager")
    drained = event("Drain", 10, message=f"Draining node: {NODE_A}")
    assert (
        cause_of([deleted], [node()], [drained, event("NodeNotReady", 24)]).kind is CauseKind.DRAIN
    )
    done = event("Upgrade", 10, message=f"Successfully upgraded node: {NODE_A}")
    assert cause_of([deleted], [node()], [done, event("NodeNotReady", 24)]).kind is LOST


def test_a_removed_node_without_any_notice_is_unknown_and_does_not_count() -> None:
    cause = cause_of([pod(disruption="DeletionByPodGC")], [node(NODE_B)])
    assert (cause.kind, cause.blames_node, cause.countable) == (UNKNOWN, False, False)


# Memory


def test_a_systemoom_some_minutes_before_a_kill_is_only_a_hint() -> None:
    cause = cause_of([KILLED], [node()], [event("SystemOOM", 24)])
    assert (cause.kind, cause.confidence, cause.blames_node) == (
        CauseKind.NODE_MEMORY,
        "low",
        False,
    )


# In hindsight


def test_errors_on_a_convicted_node_that_ran_elsewhere_are_the_nodes() -> None:
    names = [f"aks-gpu-12345678-vmss00001{letter}" for letter in "abcdefgh"]
    nodes = [node(), *map(node, names)]
    pods = []
    for number in range(6):
        start = 60 * number
        ended = [container(code=1, minute=start + 30)]
        pods.append(pod(f"job{number}", uid=f"bad{number}", start=start, containers=ended))
        retry = pod(
            f"job{number}", names[number], f"good{number}", phase="Succeeded", start=start + 40
        )
        retry["status"]["containerStatuses"] = [container(code=0, minute=start + 50)]
        pods.append(retry)
    for number in range(40):
        good = pod(f"other{number}", names[number % 8], f"fine{number}", phase="Succeeded")
        good["status"]["containerStatuses"] = [container(code=0, minute=60)]
        pods.append(good)
    failed = [item for item in build([], [facts(pods, nodes)]).attempts if item.cause]
    assert {(item.cause.kind, item.cause.blames_node) for item in failed if item.cause} == {
        (FAULT, True)
    }
    one = [item for item in build([], [facts(pods[:2], nodes)]).attempts if item.cause]
    assert [(item.cause.kind, item.cause.blames_node) for item in one if item.cause] == [
        (USER, False)
    ]


def test_facts_of_other_kinds_are_not_needed() -> None:
    assert cause_of([EXIT_1]).kind is USER
    assert build([], [ClusterFacts()]).attempts == ()


# What is not what it looks like


def test_an_eviction_of_karpenter_is_not_one_of_the_kubelet() -> None:
    drained = pod(disruption="EvictionByEvictionAPI")
    of_pod = event("Evicted", 29, kind="Pod", about="azureml-aa-worker-0", namespace="azureml")
    of_pod["message"] = "Evicted pod: Underutilized"
    assert cause_of([drained], [node()], [of_pod]).kind is CauseKind.DRAIN
    announced = event("DisruptionTerminating", 28, message="Disrupting Node: Underutilized")
    assert cause_of([drained], [node()], [of_pod, announced]).kind is CauseKind.SCALE_DOWN
    replaced = event("DisruptionTerminating", 28, message="Disrupting Node: Drifted")
    assert cause_of([KILLED], [node()], [replaced]).kind is CauseKind.DRAIN


def test_a_spot_vm_that_was_created_again_is_another_one() -> None:
    for minute, kind in ((60, CauseKind.SPOT), (-60, CauseKind.UNKNOWN)):
        again = node(spot=True)
        again["metadata"]["creationTimestamp"] = at(minute)
        assert cause_of([KILLED], [again]).kind is kind


def test_a_reboot_that_is_announced_after_the_loss_is_its_repair() -> None:
    lost = pod(disruption="DeletionByTaintManager", containers=[])
    loss = event("NodeNotReady", 25)
    for minute, kind in ((24, CauseKind.DRAIN), (29, CauseKind.NODE_LOST)):
        assert cause_of([lost], [node()], [loss, event("RebootScheduled", minute)]).kind is kind


@pytest.mark.parametrize(
    ("message", "minute", "kind"),
    [
        (
            "Memory cgroup out of memory: Killed process 7 (python) total-vm:9kB, anon-rss:60000000kB",
            29.8,
            "own",
        ),
        (
            "Memory cgroup out of memory: Killed process 7 (java) total-vm:9kB, anon-rss:2000000kB",
            29.8,
            "unknown",
        ),
        (
            "Memory cgroup out of memory: Killed process 7 (python) total-vm:9kB, anon-rss:60000000kB",
            25,
            "unknown",
        ),
        (
            "Out of memory: Killed process 7 (python) total-vm:9kB, anon-rss:60000000kB",
            29.8,
            "unknown",
        ),
    ],
)
def test_a_kill_of_a_process_that_filled_the_limit_is_the_limit(
    message: str, minute: float, kind: str
) -> None:
    limited = pod(containers=[container(code=137)])
    limited["spec"]["containers"] = [
        {"name": "1-execution-wrapper", "resources": {"limits": {"memory": "64Gi"}}}
    ]
    cause = cause_of([limited], [node()], [event("OOMKilling", minute, message=message)])
    assert cause.kind is (CauseKind.OWN_MEMORY if kind == "own" else CauseKind.UNKNOWN)


@pytest.mark.parametrize("number", [63, 92, 154])
def test_an_xid_with_which_the_program_goes_on_is_not_a_fault(number: int) -> None:
    text = node_line(NODE_A) + f"NVRM: Xid (PCI:0002:00:00): {number}, pid=1\n".encode()
    cause = build([scanned(text)], [facts([EXIT_1], [node()])]).attempts[0].cause
    assert cause is not None
    assert cause.kind is USER


def test_an_event_may_have_the_name_of_its_condition() -> None:
    named = event("XIDErrors", 31, message="Found XID errors: Xid 79")
    assert cause_of([EXIT_1], [node()], [named]).kind is FAULT
    of_program = event("XIDErrors", 31, message="NVRM: Xid (PCI:0002:00:00): 31, pid=1")
    assert cause_of([EXIT_1], [node()], [of_program]).kind is USER


@pytest.mark.parametrize(("age", "level"), [(5, Level.NOT_ENOUGH_DATA), (30, Level.BAD)])
def test_a_node_that_has_just_been_created_may_not_be_ready_yet(age: int, level: Level) -> None:
    young = node(
        conditions=[{"type": "Ready", "status": "False", "lastTransitionTime": at(60 - age)}]
    )
    young["metadata"]["creationTimestamp"] = at(60 - age)
    other = node(
        NODE_B, conditions=[{"type": "Ready", "status": "True", "lastHeartbeatTime": at(60)}]
    )
    verdicts = {
        verdict.node: verdict for verdict in build([], [facts([], [young, other])]).verdicts
    }
    assert verdicts[NODE_A].level is level


def test_a_reboot_takes_some_minutes_until_it_is_reported() -> None:
    rebooted = event("Rebooted", 32)
    for reason, kind in (("Unknown", CauseKind.NODE_LOST), ("Error", CauseKind.USER)):
        ended = pod(containers=[container(reason=reason, code=255)])
        assert cause_of([ended], [node()], [rebooted]).kind is kind


PREFERRED = (
    "device plugin GetPreferredAllocation rpc failed with err:"  # kubelet devicemanager/manager.go
)


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("rpc error: code = Unavailable desc = connection error: dial unix nvidia-gpu.sock", FAULT),
        (
            f"{PREFERRED} rpc error: code = Unknown desc = error creating nvml.Device 5: nvml: GPU is lost",
            FAULT,
        ),
        (
            "rpc error: code = Unknown desc = invalid allocation request: unknown device: GPU-3d7408b2",
            FAULT,
        ),
        (
            "rpc error: code = Unknown desc = maximum request size for shared resources is 1",
            CauseKind.SETUP,
        ),
    ],
)
def test_a_device_plugin_that_fails_is_a_fault_and_one_that_says_no_is_not(
    message: str, kind: CauseKind
) -> None:
    cause = cause_of(
        [refused(f"Pod was rejected: Allocate failed due to {message}, which is unexpected")],
        [node()],
    )
    assert cause.kind is kind


def test_a_device_plugin_that_names_no_broken_gpu_is_weaker_evidence() -> None:
    for words, confidence in (("nvml: GPU is lost", "high"), ("nvml: Unknown Error", "medium")):
        message = f"Pod was rejected: Allocate failed due to {PREFERRED} rpc error: code = Unknown desc = {words}"
        assert cause_of([refused(message)], [node()]).confidence == confidence


def test_the_autoscaler_also_removes_nodes_that_were_lost_before() -> None:
    lost = pod(disruption="DeletionByTaintManager", containers=[])
    for minute, kind in ((28, CauseKind.SCALE_DOWN), (38, CauseKind.NODE_LOST)):
        events = [event("NodeNotReady", 25), event("ScaleDown", minute)]
        assert cause_of([lost], [node()], events).kind is kind


def test_a_disruption_that_a_pod_survived_by_far_was_called_off() -> None:
    for minute, kind in ((25, CauseKind.DRAIN), (10, CauseKind.OWN_MEMORY)):
        killed = pod(
            disruption="EvictionByEvictionAPI",
            disrupted=minute,
            containers=[container(reason="OOMKilled", code=137)],
        )
        assert cause_of([killed], [node()]).kind is kind


def test_a_node_that_became_ready_after_the_end_was_not_ready_before() -> None:
    deleted = pod(disruption="DeletionByTaintManager", containers=[])
    for minute, kind in ((20, CauseKind.DRAIN), (32, CauseKind.NODE_LOST), (50, CauseKind.DRAIN)):
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": at(minute)}
        assert cause_of([deleted], [node(conditions=[ready])]).kind is kind


@pytest.mark.parametrize(("number", "kind"), [(95, FAULT), (31, USER), (63, USER)])
def test_an_xid_that_a_node_event_quotes_counts_whatever_its_reason_is(
    number: int, kind: CauseKind
) -> None:
    quoted = event(
        "GpuTrouble", 29.9, message=f"NVRM: Xid (PCI:0004:00:00): {number}, pid=5021, name=python"
    )
    cause = cause_of([EXIT_1], [node()], [quoted])
    assert cause.kind is kind
    assert (cause.evidence[0].reason == "Xid 95") == (number == 95)
