"""Pods and gangs that have not started: what they wait for, and what is missing."""

from __future__ import annotations

from typing import Any

import pytest

from arc_toolkit.diagnosis.model import Attempt, ClusterFacts, RunOutcome, WaitingFor
from arc_toolkit.diagnosis.report import build
from tests.diagnosis.made import NODE_A, at, event, facts, node, pod

POD = "azureml-aa-worker-0"
FIT = "0/12 nodes are available: 4 node(s) had untolerated taint {sku: gpu}, 8 Insufficient nvidia.com/gpu."
VOLCANO_FIT = "0/6 nodes are unavailable: 6 Insufficient nvidia.com/gpu."
GANG = (
    "2/4 tasks in gang unschedulable: pod group is not ready, 2 Pending, 2 Running, 4 minAvailable"
)


def pending(
    *,
    node: str | None = None,
    reason: str = "",
    message: str = "",
    containers: Any = None,
    **more: Any,
) -> dict[str, Any]:
    made = pod(phase="Pending", node=node, containers=containers, **more)
    if reason:
        made["status"]["conditions"] = [
            {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
        ]
    return made


def of_pod(reason: str, message: str = "", minute: float = 5) -> dict[str, Any]:
    return event(reason, minute, about=POD, kind="Pod", message=message, uid="uid-1")


def state(reason: str, message: str = "", name: str = "1-execution-wrapper") -> dict[str, Any]:
    return {"name": name, "state": {"waiting": {"reason": reason, "message": message}}}


def only(given: ClusterFacts) -> Attempt:
    (attempt,) = build([], [given]).attempts
    return attempt


def kind_and_text(attempt: Attempt) -> tuple[WaitingFor, str]:
    assert (attempt.outcome, attempt.cause) == (RunOutcome.WAITING, None)
    assert attempt.waiting is not None
    return attempt.waiting.kind, attempt.waiting.evidence[0].message


@pytest.mark.parametrize(
    ("reason", "message", "kind", "text"),
    [
        (
            "Unschedulable",
            FIT,
            WaitingFor.UNSCHEDULABLE,
            "no node of 12 fits: 4 node(s) had untolerated taint sku, 8 Insufficient nvidia.com/gpu",
        ),
        (
            "Unschedulable",
            VOLCANO_FIT,
            WaitingFor.UNSCHEDULABLE,
            "no node of 6 fits: 6 Insufficient nvidia.com/gpu",
        ),
        (
            "Unschedulable",
            GANG,
            WaitingFor.POD_GROUP,
            "the gang is not complete: 2 Pending, 2 Running, 4 minAvailable",
        ),
        (
            "Schedulable",
            VOLCANO_FIT,
            WaitingFor.POD_GROUP,
            "no node of 6 fits: 6 Insufficient nvidia.com/gpu",
        ),
        (
            "SchedulingGated",
            "Scheduling is blocked due to non-empty scheduling gates",
            WaitingFor.UNSCHEDULABLE,
            "a scheduling gate holds it back",
        ),
        ("Unschedulable", "password is hunter2", WaitingFor.UNSCHEDULABLE, "not scheduled yet"),
    ],
)
def test_the_condition_of_a_pod_says_what_is_missing(
    reason: str, message: str, kind: WaitingFor, text: str
) -> None:
    assert kind_and_text(only(facts([pending(reason=reason, message=message)]))) == (kind, text)


def test_without_a_condition_the_event_of_the_scheduler_counts() -> None:
    attempt = only(facts([pending()], events=[of_pod("FailedScheduling", FIT)]))
    assert kind_and_text(attempt)[0] is WaitingFor.UNSCHEDULABLE


@pytest.mark.parametrize(
    ("reason", "message", "kind", "text"),
    [
        (
            "ErrImagePull",
            "failed to resolve reference: x:9: not found",
            WaitingFor.IMAGE,
            "container execution-wrapper: the image cannot be pulled: not found",
        ),
        (
            "ImagePullBackOff",
            "401 Unauthorized",
            WaitingFor.IMAGE,
            "container execution-wrapper: the image cannot be pulled: access refused",
        ),
        (
            "CreateContainerConfigError",
            "",
            WaitingFor.CONTAINER,
            "container execution-wrapper: it cannot be created",
        ),
    ],
)
def test_a_container_that_cannot_start(
    reason: str, message: str, kind: WaitingFor, text: str
) -> None:
    parts = [state(reason, message, f"{'0af' * 10}1b-execution-wrapper")]
    assert kind_and_text(only(facts([pending(node=NODE_A, containers=parts)]))) == (kind, text)


@pytest.mark.parametrize(
    ("reason", "message", "kind", "text"),
    [
        (
            "FailedMount",
            'MountVolume.SetUp failed for volume "pv-blob" : rpc error: failed to authenticate credentials',
            WaitingFor.MOUNT,
            "the volume pv-blob cannot be mounted: access refused",
        ),
        (
            "FailedMount",
            "Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[data]: timed out waiting",
            WaitingFor.MOUNT,
            "the volume data cannot be mounted: not reachable",
        ),
        (
            "FailedAttachVolume",
            "Multi-Attach error",
            WaitingFor.MOUNT,
            "a volume cannot be mounted",
        ),
        (
            "FailedCreatePodSandBox",
            'failed to setup network for sandbox "0": plugin type="azure-vnet" failed (add)',
            WaitingFor.SANDBOX,
            "the network plugin azure-vnet failed",
        ),
        (
            "FailedCreatePodSandBox",
            'plugin type="azure-cns" failed (add): Failed to allocate address: no available addresses',
            WaitingFor.SANDBOX,
            "the network plugin azure-cns failed: no address left",
        ),
        (
            "Failed",
            'Failed to pull image "x": 429 Too Many Requests',
            WaitingFor.IMAGE,
            "the image cannot be pulled: too many requests",
        ),
        ("Pulling", 'Pulling image "x"', WaitingFor.IMAGE, "the image is being pulled"),
        (
            "BackOff",
            "Back-off restarting failed container init",
            WaitingFor.CONTAINER,
            "a container cannot be created",
        ),
    ],
)
def test_an_event_says_what_a_pod_on_a_node_waits_for(
    reason: str, message: str, kind: WaitingFor, text: str
) -> None:
    parts = [state("ContainerCreating")]
    events = [of_pod("Scheduled", minute=1), of_pod(reason, message)]
    assert kind_and_text(only(facts([pending(node=NODE_A, containers=parts)], events=events))) == (
        kind,
        text,
    )


def test_a_trouble_that_was_overcome_is_not_what_it_waits_for() -> None:
    events = [of_pod("FailedMount", minute=1), of_pod("Pulling", minute=2)]
    assert kind_and_text(only(facts([pending(node=NODE_A)], events=events)))[0] is WaitingFor.IMAGE
    events += [of_pod("Pulled", minute=3)]
    assert only(facts([pending(node=NODE_A)], events=events)).waiting is None


def test_events_of_an_earlier_pod_with_the_same_name_do_not_count() -> None:
    old = event("FailedMount", -10, about=POD, kind="Pod", namespace="azureml")
    assert only(facts([pending(node=NODE_A)], events=[old])).waiting is None
    new = event("FailedMount", 5, about=POD, kind="Pod", namespace="azureml")
    assert only(facts([pending(node=NODE_A)], events=[old, new])).waiting is not None


def test_an_init_container_that_runs_for_long_is_what_the_pod_waits_for() -> None:
    made = pending(node=NODE_A, containers=[state("PodInitializing")])
    made["status"]["initContainerStatuses"] = [{"name": "init", "state": {"running": {}}}]
    for minute, long in ((5, False), (25, True)):
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": at(minute)}
        attempt = only(facts([made], nodes=[node(conditions=[ready])]))
        if long:
            expected = (WaitingFor.CONTAINER, "the init container init has not ended")
            assert kind_and_text(attempt) == expected
        else:
            assert (attempt.outcome, attempt.waiting) == (RunOutcome.WAITING, None)


def test_a_pod_on_a_node_that_does_not_respond_waits() -> None:
    lost = node(conditions=[{"type": "Ready", "status": "Unknown", "lastTransitionTime": at(1)}])
    assert kind_and_text(only(facts([pending(node=NODE_A)], nodes=[lost])))[0] is WaitingFor.SANDBOX


def test_a_pod_that_runs_does_not_wait_whatever_its_old_events_say() -> None:
    attempt = only(facts([pod(phase="Running")], events=[of_pod("FailedScheduling", FIT)]))
    assert (attempt.outcome, attempt.waiting) == (RunOutcome.RUNNING, None)


NAME = "azureml-0af1"


def vcjob(phase: str = "Pending", run: str | None = "run", changed: float = 1) -> dict[str, Any]:
    labels = {"ml.azure.com/run-id": run, "jobId": "0af1"} if run else {}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": NAME, "namespace": "azureml", "uid": "v1", "creationTimestamp": at(0)},
        "spec": {"tasks": [{"name": "worker", "template": {"metadata": {"labels": labels}}}]},
        "status": {"state": {"phase": phase, "lastTransitionTime": at(changed)}},
    }


def group(
    phase: str = "Pending", message: str = "", name: str = NAME, **meta: Any
) -> dict[str, Any]:
    conditions = [
        {
            "type": "Unschedulable",
            "status": "True",
            "reason": "NotEnoughResources",
            "message": message,
        }
    ]
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "azureml", "uid": "g1", **meta},
        "status": {"phase": phase, "conditions": conditions if message else []},
    }


def volcano(*objects: dict[str, Any], events: Any = (), pods: Any = ()) -> ClusterFacts:
    result = ClusterFacts(list(pods), [], list(events))
    for item in objects:
        result.add(item["kind"], item)
    return result


def of_gang(kind: str, reason: str, message: str) -> dict[str, Any]:
    api = "batch.volcano.sh/v1alpha1" if kind == "Job" else "scheduling.volcano.sh/v1beta1"
    return event(
        reason, 5, about=NAME, kind=kind, message=message, namespace="azureml", apiVersion=api
    )


@pytest.mark.parametrize(
    ("kind", "reason", "message", "expected", "text"),
    [
        (
            "PodGroup",
            "Unschedulable",
            "resource in cluster is overused: overused nvidia.com/gpu",
            WaitingFor.POD_GROUP,
            "not enough nvidia.com/gpu",
        ),
        (
            "PodGroup",
            "Unschedulable",
            "queue resource quota insufficient: insufficient nvidia.com/gpu, insufficient cpu",
            WaitingFor.QUOTA,
            "the quota is used up; not enough nvidia.com/gpu; not enough cpu",
        ),
        (
            "Job",
            "FailedCreate",
            'Error creating pods: [pods "x" is forbidden: exceeded quota: gpu, requested: requests.cpu=8, '
            "used: requests.cpu=60, limited: requests.cpu=64]",
            WaitingFor.QUOTA,
            "the quota is used up; requested requests.cpu=8; used requests.cpu=60; limited requests.cpu=64",
        ),
        (
            "Job",
            "FailedCreate",
            'Error creating pods: [pods "x" is forbidden: violates PodSecurity "restricted:latest": secret]',
            WaitingFor.ADMISSION,
            "the pod was refused by PodSecurity",
        ),
        (
            "Job",
            "FailedCreate",
            'admission webhook "validation.gatekeeper.sh" denied the request: [x]',
            WaitingFor.ADMISSION,
            "the pod was refused by validation.gatekeeper.sh",
        ),
        (
            "Job",
            "PodGroupPending",
            "PodGroup a:b unschedulable, reason: 2/0 tasks in gang unschedulable: pod group is not ready, "
            "2 minAvailable",
            WaitingFor.POD_GROUP,
            "the gang is not complete: 2 minAvailable",
        ),
    ],
)
def test_a_gang_without_pods_is_a_job_that_waits(
    kind: str, reason: str, message: str, expected: WaitingFor, text: str
) -> None:
    report = build([], [volcano(vcjob(), group(), events=[of_gang(kind, reason, message)])])
    assert [(job.run_id, job.outcome) for job in report.jobs] == [("run", RunOutcome.WAITING)]
    assert kind_and_text(report.attempts[0]) == (expected, text)


def test_a_pod_that_no_scheduler_has_looked_at_waits_for_its_gang() -> None:
    for link in ({"name": NAME}, {"name": "other", "labels": {"jobId": "0af1"}}):
        made = pending(name=f"{NAME}-worker-0")
        made["metadata"]["labels"]["jobId"] = "0af1"
        report = build([], [volcano(group("Inqueue", **link), pods=[made])])
        assert [job.name for job in report.jobs] == ["job"]
        assert kind_and_text(report.attempts[0])[0] is WaitingFor.POD_GROUP


@pytest.mark.parametrize("phase", ["Running", "Completed", "Failed", "Aborted"])
def test_only_gangs_that_wait_are_jobs_without_pods(phase: str) -> None:
    assert build([], [volcano(vcjob(phase))]).jobs == ()


def test_gangs_that_are_not_of_azureml_are_left_out() -> None:
    assert build([], [volcano(vcjob(run=None), group())]).jobs == ()


def test_a_gang_that_is_put_back_to_waiting_is_the_next_attempt() -> None:
    ended = pod("run", name=f"{NAME}-worker-0", containers=[])
    ended["metadata"]["deletionTimestamp"] = at(20)
    first, second = build(
        [], [volcano(vcjob("Restarting", changed=21), group(), pods=[ended])]
    ).attempts
    assert (first.outcome, second.outcome, second.number) == (
        RunOutcome.FAILED,
        RunOutcome.WAITING,
        1,
    )
    # Not while its pod may still be there.
    running = pod("run", phase="Running", name=f"{NAME}-worker-0")
    assert (
        len(build([], [volcano(vcjob("Restarting", changed=21), group(), pods=[running])]).attempts)
        == 1
    )
