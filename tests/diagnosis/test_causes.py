"""The cause of an attempt, from the Kubernetes objects that a failure leaves behind; the traps first of all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from arc_toolkit.diagnosis import signals
from arc_toolkit.diagnosis.assemble.node_signals import excuse
from arc_toolkit.diagnosis.model import (
    Attempt,
    Cause,
    CauseKind,
    Evidence,
    EvidenceSource,
    FileEvidence,
    RunOutcome,
)
from arc_toolkit.diagnosis.read import cluster_index
from arc_toolkit.diagnosis.report import build
from arc_toolkit.diagnosis.signals import KINDS
from tests.diagnosis.made import NODE_A, NODE_B, container, event, facts, log, node, pod

Objects = list[dict[str, Any]]
EPHEMERAL = "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. "
EMPTY_DIR = 'Usage of EmptyDir volume "tmp" exceeds the limit "1Gi". '
SHUTDOWN = "Pod was terminated in response to imminent node shutdown."
LOW_MEMORY = "The node was low on resource: memory. Threshold quantity: 750Mi, available: 600Mi. "


def attempt_of(
    pods: Objects, nodes: Objects | None = None, events: Objects | None = None
) -> Attempt:
    return build([], [facts(pods, nodes, events)]).attempts[0]


def cause_of(pods: Objects, nodes: Objects | None = None, events: Objects | None = None) -> Cause:
    cause = attempt_of(pods, nodes, events).cause
    assert cause is not None
    return cause


KILLED_POD = pod(containers=[container(code=137)])
NO_IMAGE = {"name": "x", "state": {"waiting": {"reason": "ErrImagePull"}}}


def since(kind: str, status: str, moment: str) -> dict[str, Any]:
    return node(conditions=[{"type": kind, "status": status, "lastTransitionTime": moment}])


def tainted(key: str, value: str) -> dict[str, Any]:
    return node(taints=[{"key": key, "value": value}])


@pytest.mark.parametrize(
    ("failed", "nodes", "events", "kind"),
    [
        # the pod's own condition
        (pod(disruption="PreemptionByScheduler"), [], [], CauseKind.SCHEDULER),
        (pod(disruption="PreemptionByKubeScheduler"), [], [], CauseKind.SCHEDULER),
        (pod(disruption="DeletionByTaintManager"), [], [], CauseKind.DRAIN),
        (
            pod(disruption="DeletionByTaintManager"),
            [],
            [event("NodeNotReady", 24)],
            CauseKind.NODE_LOST,
        ),
        (pod(disruption="DeletionByPodGC"), [], [], CauseKind.UNKNOWN),
        (pod(disruption="EvictionByEvictionAPI"), [], [], CauseKind.DRAIN),
        # what explains it better
        (
            pod(disruption="DeletionByTaintManager"),
            [],
            [event("PreemptScheduled", 25)],
            CauseKind.SPOT,
        ),
        (
            pod(disruption="EvictionByEvictionAPI"),
            [],
            [event("PreemptScheduled", 29)],
            CauseKind.SPOT,
        ),
        (
            pod(disruption="EvictionByEvictionAPI"),
            [],
            [event("ScaleDown", 29)],
            CauseKind.SCALE_DOWN,
        ),
        (
            pod(disruption="DeletionByTaintManager"),
            [],
            [event("RedeployScheduled", 26)],
            CauseKind.DRAIN,
        ),
        (pod(disruption="DeletionByPodGC"), [node(spot=True)], [], CauseKind.SPOT),
        (
            pod(disruption="DeletionByTaintManager"),
            [],
            [event("SystemOOM", 24)],
            CauseKind.NODE_MEMORY,
        ),
        (
            pod(disruption="DeletionByTaintManager"),
            [],
            [event("KernelOops", 24)],
            CauseKind.NODE_FAULT,
        ),
        # A runtime that is down is how a node becomes NotReady, not another cause.
        (
            pod(disruption="DeletionByTaintManager"),
            [],
            [event("ContainerRuntimeIsDown", 23), event("NodeNotReady", 24)],
            CauseKind.NODE_LOST,
        ),
        # status.reason, split by its message
        (pod(reason="Evicted", message=LOW_MEMORY), [], [], CauseKind.NODE_PRESSURE),
        (
            pod(reason="Evicted", message="The node had condition: [DiskPressure]. "),
            [],
            [],
            CauseKind.NODE_PRESSURE,
        ),
        (pod(reason="Evicted", message=EPHEMERAL), [], [], CauseKind.OWN_STORAGE),
        (pod(reason="Evicted", message=EMPTY_DIR), [], [], CauseKind.OWN_STORAGE),
        (
            pod(reason="Evicted", message=LOW_MEMORY, disruption="TerminationByKubelet"),
            [],
            [],
            CauseKind.NODE_PRESSURE,
        ),
        (pod(reason="Terminated", message=SHUTDOWN), [node()], [], CauseKind.DRAIN),
        (
            pod(reason="Terminated", disruption="TerminationByKubelet"),
            [node(spot=True)],
            [],
            CauseKind.SPOT,
        ),
        (pod(reason="OutOfmemory"), [], [], CauseKind.SETUP),
        # containers
        (pod(containers=[container(reason="OOMKilled", code=137)]), [], [], CauseKind.OWN_MEMORY),
        (
            pod(containers=[container(reason="ContainerStatusUnknown", code=137)]),
            [],
            [],
            CauseKind.UNKNOWN,
        ),
        (pod(containers=[container(code=1)]), [], [], CauseKind.USER),
        (pod(containers=[container(code=139)]), [], [], CauseKind.USER),
        (pod(containers=[NO_IMAGE]), [], [], CauseKind.SETUP),
        # events of the pod and of the node
        (
            KILLED_POD,
            [],
            [event("Preempted", 30, kind="Pod", about="p", uid="uid-1")],
            CauseKind.SCHEDULER,
        ),
        (KILLED_POD, [], [event("SystemOOM", 29.9)], CauseKind.NODE_MEMORY),
        (KILLED_POD, [], [event("NodeNotReady", 25)], CauseKind.NODE_LOST),
        (KILLED_POD, [], [event("KernelOops", 29)], CauseKind.NODE_FAULT),
        (pod(containers=[container(code=143)]), [], [event("ScaleDown", 29)], CauseKind.SCALE_DOWN),
        (
            KILLED_POD,
            [],
            [event("Odd", 29, message="Node 'x' will change into status 'Preempt'")],
            CauseKind.SPOT,
        ),
        # what the node is now
        (KILLED_POD, [since("Ready", "Unknown", "2026-03-03T10:29:00Z")], [], CauseKind.NODE_LOST),
        (
            KILLED_POD,
            [since("ReadonlyFilesystem", "True", "2026-03-02T10:29:00Z")],
            [],
            CauseKind.NODE_FAULT,
        ),
        (
            KILLED_POD,
            [tainted("cloudprovider.azure.microsoft.com/draining", "spot-eviction")],
            [],
            CauseKind.SPOT,
        ),
        (KILLED_POD, [tainted("ToBeDeletedByClusterAutoscaler", "1")], [], CauseKind.SCALE_DOWN),
    ],
)
def test_each_trace_of_a_failure_has_its_cause(
    failed: dict[str, Any], nodes: Objects, events: Objects, kind: CauseKind
) -> None:
    cause = cause_of([failed], nodes, events)
    assert cause.kind is kind
    assert cause.evidence
    assert cause.blames_node is (KINDS[kind].blames_node and kind is not CauseKind.UNKNOWN)


@pytest.mark.parametrize(
    ("code", "reason"),
    [(137, "Error"), (143, "Error"), (247, "Error"), (241, "Error"), (255, "Unknown")],
)
def test_an_exit_code_without_meaning_is_not_a_cause(code: int, reason: str) -> None:
    cause = cause_of([pod(containers=[container(reason=reason, code=code)])])
    assert cause.kind is CauseKind.UNKNOWN
    assert cause.evidence[0].reason == str(code)


def test_minus_one_is_an_error_of_the_process_unless_the_node_went_away() -> None:
    """containerd writes `Unknown` for a container that it lost (internal/cri: unknownExitReason)."""
    ended = pod(containers=[container(code=255)])
    cause = cause_of([ended])
    assert (cause.kind, cause.confidence) == (CauseKind.USER, "low")
    assert cause_of([ended], events=[event("NodeNotReady", 29)]).kind is CauseKind.NODE_LOST


def test_oomkilled_with_exit_code_0_on_a_pod_that_succeeded_is_not_a_failure() -> None:
    attempt = attempt_of(
        [pod(phase="Succeeded", containers=[container(reason="OOMKilled", code=0)])]
    )
    assert (attempt.outcome, attempt.cause) == (RunOutcome.SUCCEEDED, None)


def test_oomkilled_with_exit_code_0_does_not_explain_a_failed_pod() -> None:
    containers = [container("side", "OOMKilled", 0), container("1-execution-wrapper", "Error", 2)]
    assert cause_of([pod(containers=containers)]).kind is CauseKind.USER


def test_only_the_identity_sidecar_with_137_is_a_proxy_problem_not_memory() -> None:
    containers = [
        container("training-identity-sidecar", "Error", 137),
        container("1-execution-wrapper", "Completed", 0),
    ]
    cause = cause_of([pod(containers=containers)])
    assert cause.kind is CauseKind.SETUP
    assert "proxy" in cause.evidence[0].message


def test_the_identity_sidecar_dies_with_the_others_when_the_pod_is_killed() -> None:
    containers = [
        container("training-identity-sidecar", "Error", 137),
        container("1-execution-wrapper", "Error", 137),
    ]
    assert cause_of([pod(containers=containers)]).kind is CauseKind.UNKNOWN


def test_the_kernels_oomkilling_event_does_not_prove_a_node_out_of_memory() -> None:
    cause = cause_of([KILLED_POD], events=[event("OOMKilling", 29.9)])
    assert cause.kind is CauseKind.UNKNOWN
    assert "OOMKilling" in [item.reason for item in cause.evidence]
    own = cause_of(
        [pod(containers=[container(reason="OOMKilled", code=137)])],
        events=[event("OOMKilling", 29.9)],
    )
    assert own.kind is CauseKind.OWN_MEMORY


def test_a_systemoom_in_the_same_minute_makes_an_oomkilled_the_nodes() -> None:
    killed = pod(containers=[container(reason="OOMKilled", code=137, minute=30)])
    assert cause_of([killed], events=[event("SystemOOM", 29.5)]).kind is CauseKind.NODE_MEMORY
    assert cause_of([killed], events=[event("SystemOOM", 24)]).kind is CauseKind.OWN_MEMORY


def test_a_normal_event_of_the_kubelet_counts_like_a_warning() -> None:
    ready = {**event("NodeNotReady", 28), "type": "Normal"}
    assert cause_of([KILLED_POD], events=[ready]).kind is CauseKind.NODE_LOST


def test_an_event_that_was_repeated_counts_at_its_first_time_too() -> None:
    repeated = {**event("NodeNotReady", 120), "firstTimestamp": "2026-03-03T10:28:00Z", "count": 9}
    assert cause_of([KILLED_POD], events=[repeated]).kind is CauseKind.NODE_LOST


@pytest.mark.parametrize("minute", [0, 19, 45])
def test_events_outside_the_window_are_not_the_cause(minute: float) -> None:
    assert cause_of([KILLED_POD], events=[event("SystemOOM", minute)]).kind is CauseKind.UNKNOWN


def test_events_of_another_node_are_not_the_cause() -> None:
    assert (
        cause_of([KILLED_POD], events=[event("SystemOOM", 30, about=NODE_B)]).kind
        is CauseKind.UNKNOWN
    )


def test_a_deletion_that_the_taint_manager_cancelled_does_not_count() -> None:
    taken_back = event(
        "TaintManagerEviction",
        20,
        kind="Pod",
        about="p",
        uid="uid-1",
        message="Cancelling deletion of Pod",
    )
    assert cause_of([KILLED_POD], events=[taken_back]).kind is CauseKind.UNKNOWN


def test_unknown_condition_types_and_healthy_conditions_are_ignored() -> None:
    conditions = [
        {"type": "SomethingNew", "status": "True"},
        {"type": "KernelDeadlock", "status": "False"},
    ]
    assert cause_of([KILLED_POD], [node(conditions=conditions)]).kind is CauseKind.UNKNOWN


def test_a_node_that_is_gone_proves_nothing_about_it() -> None:
    cause = cause_of(
        [pod(containers=[{"name": "1-execution-wrapper", "state": {"running": {}}}])],
        [node(NODE_B)],
    )
    assert (cause.kind, cause.confidence, cause.blames_node) == (CauseKind.NODE_LOST, "low", False)


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (("-220", ""), CauseKind.GANG),
        (("-210", ""), CauseKind.CANCELLED),
        (("-101", ""), CauseKind.UNKNOWN),
        (("137", ""), CauseKind.UNKNOWN),
        (
            (
                "137",
                'PodPattern matched: {"containers":[{"name":"training-identity-sidecar","code":137}]}',
            ),
            CauseKind.SETUP,
        ),
        (
            (
                "137",
                'PodPattern matched: {"containers":[{"name":"x","reason":"OOMKilled","code":137}]} tail',
            ),
            CauseKind.OWN_MEMORY,
        ),
        (("137", "PodPattern matched: {broken"), CauseKind.UNKNOWN),
        (("PreemptionError", ""), CauseKind.SPOT),
        (("1", ""), CauseKind.USER),
        (("200", ""), CauseKind.UNKNOWN),
        (("201", ""), CauseKind.UNKNOWN),
        (("210", ""), CauseKind.USER),
        (("-110", ""), CauseKind.UNKNOWN),
    ],
)
def test_azuremls_own_message_in_a_log(failure: tuple[str, str], kind: CauseKind) -> None:
    report = build([log("job/system_logs/amlarc_cr_bootstrap.log", NODE_A, failure=failure)])
    assert report.attempts[0].cause is not None
    assert report.attempts[0].cause.kind is kind


def test_a_retried_log_without_any_evidence_has_an_unknown_cause_that_counts() -> None:
    logs = [
        log("job/system_logs/amlarc_cr_bootstrap.log", NODE_A),
        log("job/system_logs/retry-001/amlarc_cr_bootstrap.log", NODE_B),
    ]
    first, second = build(logs).attempts
    assert first.cause is not None
    assert (first.cause.kind, first.outcome) == (CauseKind.UNKNOWN, RunOutcome.FAILED)
    assert (first.cause.blames_node, first.cause.countable) == (False, True)
    assert (second.cause, second.outcome) == (None, RunOutcome.UNKNOWN)


def test_a_log_alone_is_explained_by_node_events_between_its_start_and_the_next_with_less_confidence() -> (
    None
):
    logs = [
        log("job/system_logs/amlarc_cr_bootstrap.log", NODE_A, start=1772532000.0),  # 10:00
        log(
            "job/system_logs/retry-001/amlarc_cr_bootstrap.log", NODE_B, start=1772533800.0
        ),  # 10:30
    ]
    cause = build(logs, [facts(events=[event("SystemOOM", 20)])]).attempts[0].cause
    assert cause is not None
    assert (cause.kind, cause.confidence) == (CauseKind.NODE_MEMORY, "medium")
    late = build(logs, [facts(events=[event("SystemOOM", 40)])]).attempts[0].cause
    assert late is not None
    assert late.kind is CauseKind.UNKNOWN


@pytest.mark.parametrize("start", [None, 1772532000.0 - 5 * 86400, 1772532000.0 - 3600])
def test_a_node_event_that_no_time_ties_to_the_attempt_is_a_guess_and_blames_no_node(
    start: float | None,
) -> None:
    logs = [
        log("job/system_logs/amlarc_cr_bootstrap.log", NODE_A, start=start),
        log("job/system_logs/retry-001/amlarc_cr_bootstrap.log", NODE_B),
    ]
    cause = build(logs, [facts(events=[event("SystemOOM", 20)])]).attempts[0].cause
    assert cause is not None
    if start == 1772532000.0 - 5 * 86400:  # days later: not even a guess
        assert (cause.kind, cause.evidence) == (CauseKind.UNKNOWN, ())
        return
    assert (cause.kind, cause.confidence, cause.blames_node) == (
        CauseKind.NODE_MEMORY,
        "low",
        False,
    )
    assert "no time ties it to this attempt" in cause.evidence[0].message


def test_what_a_node_is_now_does_not_blame_it_for_an_attempt_of_an_unknown_time() -> None:
    logs = [
        log("job/system_logs/amlarc_cr_bootstrap.log", NODE_A),
        log("job/system_logs/retry-001/amlarc_cr_bootstrap.log", NODE_B),
    ]
    lost = since("Ready", "Unknown", "2026-03-03T10:29:00Z")
    cause = build(logs, [facts(nodes=[lost, node(NODE_B)])]).attempts[0].cause
    assert cause is not None
    assert (cause.kind, cause.confidence, cause.blames_node) == (CauseKind.NODE_LOST, "low", False)


@pytest.mark.parametrize(("spot", "kind"), [(False, CauseKind.DRAIN), (True, CauseKind.SPOT)])
def test_a_node_known_not_to_be_spot_wins_over_a_pod_that_may_go_to_spot_nodes(
    spot: bool, kind: CauseKind
) -> None:
    ended = pod(reason="Terminated", message=SHUTDOWN)
    ended["spec"]["tolerations"] = [{"key": "kubernetes.azure.com/scalesetpriority"}]
    assert cause_of([ended], [node(spot=spot)]).kind is kind
    assert cause_of([ended]).kind is CauseKind.SPOT  # nothing is known of the node


@pytest.mark.parametrize(
    ("node", "phase", "countable"),
    [(NODE_B, "Succeeded", True), (NODE_A, "Succeeded", False), (NODE_B, "Failed", False)],
)
def test_an_error_of_the_process_is_countable_if_the_job_then_succeeds_on_another_node(
    node: str, phase: str, countable: bool
) -> None:
    code = 0 if phase == "Succeeded" else 1
    retried = pod(
        node=node, uid="uid-2", phase=phase, start=40, containers=[container(code=code, minute=60)]
    )
    cause = cause_of([pod(containers=[container(code=1)]), retried])
    assert (cause.kind, cause.blames_node, cause.countable) == (CauseKind.USER, False, countable)


@pytest.mark.parametrize("tolerates", [True, False])
def test_without_a_node_list_a_pod_that_tolerates_spot_nodes_excuses_a_node_that_is_gone(
    tolerates: bool,
) -> None:
    gone = pod(disruption="DeletionByPodGC")
    gone["spec"]["tolerations"] = (
        [{"key": "kubernetes.azure.com/scalesetpriority"}] if tolerates else []
    )
    cluster = cluster_index.read([facts([gone], events=[event("NodeNotReady", 29)])])
    excused = excuse(cluster, NODE_A, cluster.node_events[NODE_A][0].time)
    assert (excused.kind if excused else None) == (CauseKind.SPOT if tolerates else None)


def test_what_a_parallel_job_wrote_about_its_node_is_weak_evidence() -> None:
    finding = FileEvidence(
        "job/logs/sys/perf/n/node_resource_usage.csv",
        Evidence(EvidenceSource.PRS, "memory", "99 %"),
        kind=CauseKind.NODE_MEMORY,
    )
    logs = [
        log("job/system_logs/amlarc_cr_bootstrap.log", NODE_A),
        log("job/system_logs/retry-001/amlarc_cr_bootstrap.log", NODE_B),
    ]
    cause = build(logs, file_evidence=[finding]).attempts[0].cause
    assert cause is not None
    assert (cause.kind, cause.confidence) == (CauseKind.NODE_MEMORY, "low")
    of_the_retry = replace(finding, path="job/retry-001/logs/sys/perf/n/node_resource_usage.csv")
    other = build(logs, file_evidence=[of_the_retry]).attempts[0].cause
    assert other is not None
    assert other.kind is CauseKind.UNKNOWN


@pytest.mark.parametrize(
    ("named", "blames"), [("10.0.0.4", True), (NODE_A, True), ("8f3e-node-id", False)]
)
def test_the_memory_that_a_parallel_job_saw_blames_a_node_only_if_it_is_named(
    named: str, blames: bool
) -> None:
    finding = FileEvidence(
        f"job/logs/sys/perf/{named}/node_resource_usage.csv",
        Evidence(EvidenceSource.PRS, "node memory", "99 %"),
        named,
        CauseKind.NODE_MEMORY,
    )
    logs = [
        log("job/system_logs/10.0.0.4/amlarc_cr_bootstrap.log", NODE_A),
        log("job/system_logs/10.0.0.5/amlarc_cr_bootstrap.log", NODE_B),
        log("job/system_logs/retry-001/10.0.0.4/amlarc_cr_bootstrap.log", NODE_B),
    ]
    first, second, _ = build(logs, file_evidence=[finding]).attempts
    assert first.cause is not None
    assert second.cause is not None
    assert second.cause.kind is (CauseKind.UNKNOWN if blames else CauseKind.NODE_MEMORY)
    alone = build([logs[0], logs[2]], file_evidence=[finding]).attempts[0].cause
    assert alone is not None
    assert (alone.kind, alone.blames_node) == (CauseKind.NODE_MEMORY, blames)


def test_a_reason_that_is_free_text_is_not_shown() -> None:
    odd = event("a token is S3CRET", 29, message="Node 'x' will change into status 'Preempt'")
    sidecar = [container("training-identity-sidecar", "x S3CRET", 137), container(code=0)]
    for cause in (cause_of([KILLED_POD], events=[odd]), cause_of([pod(containers=sidecar)])):
        assert cause.kind in (CauseKind.SPOT, CauseKind.SETUP)
        assert "S3CRET" not in str(cause)


def test_the_table_of_reason_strings_is_whole() -> None:
    table = signals.table()
    assert len(table) > 90
    assert {signal.source for signal in table.values()} <= set(signals.ORDER)
    assert all(signal.message and signal.origin for signal in table.values())
    assert {signal.confidence for signal in table.values()} == {"high", "medium", "low"}
    assert set(KINDS) == set(CauseKind)
    # The traps, as rows.
    assert table[EvidenceSource.EXIT_CODE, "137"].kind is None
    assert table[EvidenceSource.NODE_EVENT, "OOMKilling"].kind is None


DELETED_POD = pod(disruption="DeletionByTaintManager")  # at minute 30
FIRST, RETRY = (
    "job/system_logs/amlarc_cr_bootstrap.log",
    "job/system_logs/retry-001/amlarc_cr_bootstrap.log",
)
TEN = 1772532000.0  # minute 0


def kind_and_confidence(cause: Cause | None) -> tuple[str, str]:
    assert cause is not None
    return cause.kind.value, cause.confidence


@pytest.mark.parametrize(
    ("reason", "code", "kind"),
    [
        ("Error", 1, "user-error"),
        ("", 1, "user-error"),
        ("Error", 137, "node-not-ready"),  # proves nothing by itself
        ("SomethingElse", 1, "node-not-ready"),
    ],
)
def test_an_exit_code_of_the_container_itself_is_stronger_than_a_node_event(
    reason: str, code: int, kind: str
) -> None:
    cause = cause_of(
        [pod(containers=[container(reason=reason, code=code)])], events=[event("NodeNotReady", 25)]
    )
    assert cause.kind.value == kind


def test_the_stronger_evidence_is_shown_first() -> None:
    """What the node reported says more than the number with which every killed process ends."""
    killed = pod(containers=[container(reason="OOMKilled", code=137)])
    cause = cause_of([killed], events=[event("NodeNotReady", 25)])
    assert [item.source.value for item in cause.evidence] == [
        "container",
        "node event",
        "exit code",
    ]


@pytest.mark.parametrize(
    ("minute", "kind"),
    [(19, "unknown"), (21, "node-out-of-memory"), (31, "node-out-of-memory"), (32, "unknown")],
)
def test_the_window_of_node_events_is_ten_minutes_before_and_one_after_the_end(
    minute: float, kind: str
) -> None:
    assert cause_of([KILLED_POD], events=[event("SystemOOM", minute)]).kind.value == kind


@pytest.mark.parametrize(
    ("failed", "minute", "expected"),
    [
        (
            pod(containers=[container(reason="OOMKilled", code=137)]),
            30.5,
            ("node-out-of-memory", "high"),
        ),
        (
            pod(containers=[container(reason="OOMKilled", code=137)]),
            27,
            ("own-memory-limit", "high"),
        ),
        (pod(containers=[container(code=1)]), 30.5, ("node-out-of-memory", "medium")),
        (pod(containers=[container(code=1)]), 27, ("user-error", "medium")),
        (
            pod(
                reason="Evicted",
                message=LOW_MEMORY,
                containers=KILLED_POD["status"]["containerStatuses"],
            ),
            30.5,
            ("node-out-of-memory", "high"),
        ),
        (
            pod(
                reason="Evicted",
                message=LOW_MEMORY,
                containers=KILLED_POD["status"]["containerStatuses"],
            ),
            27,
            ("node-pressure", "high"),
        ),
    ],
)
def test_a_systemoom_within_a_minute_explains_a_kill(
    failed: dict[str, Any], minute: float, expected: tuple[str, str]
) -> None:
    assert kind_and_confidence(cause_of([failed], events=[event("SystemOOM", minute)])) == expected


def test_weak_evidence_of_a_fault_does_not_explain_a_lost_node() -> None:
    lost = event("NodeNotReady", 25)
    assert kind_and_confidence(cause_of([DELETED_POD], events=[lost, event("TaskHung", 28)])) == (
        "node-not-ready",
        "high",
    )
    assert (
        cause_of([DELETED_POD], events=[lost, event("KernelOops", 28)]).kind is CauseKind.NODE_FAULT
    )


def test_a_drain_of_a_spot_node_that_is_gone_is_still_a_drain() -> None:
    drained = pod(disruption="EvictionByEvictionAPI")
    assert cause_of([drained], [node(NODE_B, spot=True)]).kind is CauseKind.DRAIN
    assert cause_of([DELETED_POD], [node(NODE_B, spot=True)]).kind is CauseKind.SPOT


def test_what_explains_an_untied_loss_has_low_confidence() -> None:
    logs = [log(FIRST, NODE_A), log(RETRY, NODE_B)]
    known = facts(nodes=[node(NODE_B, spot=True)], events=[event("NodeNotReady", 10)])
    assert kind_and_confidence(build(logs, [known]).attempts[0].cause) == ("spot-preemption", "low")


@pytest.mark.parametrize(
    ("start", "minute", "kind"),
    [
        (0, 60, "unknown"),
        (0, 200, "node-not-ready"),
        (0, 241, "unknown"),
        (210, 190, "unknown"),
        (210, 220, "node-not-ready"),
    ],
)
def test_without_an_end_only_the_last_hour_before_the_next_attempt_counts(
    start: int, minute: float, kind: str
) -> None:
    logs = [
        log(FIRST, NODE_A, start=TEN + 60 * start, start_exact=True),
        log(RETRY, NODE_B, start=TEN + 60 * 240, start_exact=True),
    ]
    cause = build(logs, [facts(events=[event("NodeNotReady", minute)])]).attempts[0].cause
    assert cause is not None
    assert cause.kind.value == kind


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("1", "user-error"),
        ("255", "unknown"),
        ("254", "user-error"),
        ("256", "unknown"),
        ("0", "unknown"),
    ],
)
def test_only_exit_codes_of_processes_are_user_errors(code: str, kind: str) -> None:
    cause = build([log(FIRST, NODE_A, failure=(code, ""))]).attempts[0].cause
    assert cause is not None
    assert cause.kind.value == kind


def test_the_most_specific_notice_explains_a_lost_node() -> None:
    taint = {
        "key": "cloudprovider.azure.microsoft.com/draining",
        "value": "spot-eviction",
        "timeAdded": "2026-03-03T10:25:00Z",
    }
    known = node(taints=[taint])
    assert cause_of([DELETED_POD], [known], [event("RebootScheduled", 25)]).kind is CauseKind.SPOT


def test_a_draining_taint_means_spot_only_with_the_value_of_a_spot_eviction() -> None:
    taint = {
        "key": "cloudprovider.azure.microsoft.com/draining",
        "value": "other",
        "timeAdded": "2026-03-03T10:29:00Z",
    }
    assert cause_of([KILLED_POD], [node(taints=[taint])]).kind is CauseKind.UNKNOWN


@pytest.mark.parametrize("field", ["reason", "message"])
def test_a_scheduled_vm_event_that_is_a_preemption_means_spot(field: str) -> None:
    condition = {
        "type": "VMEventScheduled",
        "status": "True",
        "lastTransitionTime": "2026-03-03T10:29:00Z",
        field: "Preempt",
    }
    assert kind_and_confidence(cause_of([KILLED_POD], [node(conditions=[condition])])) == (
        "spot-preemption",
        "high",
    )
