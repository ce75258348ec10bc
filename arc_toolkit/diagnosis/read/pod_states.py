"""One pod and its containers as `diagnose` needs them: raw JSON in, small records out.

The JSON may be truncated or edited by hand, so any field may be missing or have another type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from arc_toolkit.diagnosis import identities, times
from arc_toolkit.diagnosis.identities import rank_of
from arc_toolkit.diagnosis.times import LOOK_BACK_SECONDS
from arc_toolkit.kube.pods import RUN_ID_LABEL, Pod
from arc_toolkit.kube.quantities import QuantityError, bytes_offered
from arc_toolkit.kube.raw import Json, mapping, rows, text
from arc_toolkit.kube.taints import SPOT_KEY

GANG_LABEL = "volcano.sh/job-name"
POD_GROUP_ANNOTATION = "scheduling.k8s.io/group-name"


@dataclass(slots=True)
class ClusterEvent:
    reason: str
    message: str
    time: float | None


@dataclass(slots=True)
class ContainerState:
    name: str
    state: str  # terminated, waiting, running, or ""
    reason: str
    exit_code: int | None
    finished: float | None
    init: bool = False
    message: str = ""  # as the kubelet or the container wrote it: to be searched, never to be shown

    @property
    def was_cut_off(self) -> bool:
        """The runtime lost it and knows no exit code, as after a reboot of the node."""
        return self.state == "terminated" and self.reason in ("Unknown", "ContainerStatusUnknown")

    @property
    def fails_without_code(self) -> bool:
        """It failed, and its exit code is not known."""
        return self.state == "terminated" and self.exit_code is None and self.reason == "Error"


@dataclass(slots=True)
class PodState:
    uid: str
    name: str
    namespace: str
    run_id: str | None
    node: str | None
    rank: str | None
    phase: str
    reason: str
    message: str
    disruption: str  # reason of the condition DisruptionTarget
    disrupted: float | None
    containers: list[ContainerState]
    start: float | None
    end: float | None
    deleted: float | None
    wants_spot: bool
    evicted: ClusterEvent | None = None  # by Volcano, from the condition Ready=False
    parent: str | None = None  # the sweep or pipeline that it names
    # by the clock of the API server, unlike start and end, which are of its node
    created: float | None = None
    gang: str | None = None  # its Volcano job; AzureML makes a new one for a retry of its own
    pod_group: str | None = None
    unscheduled: ClusterEvent | None = None  # the condition PodScheduled=False
    # the largest of its containers, the job's own, in bytes; 0: none, or not known
    memory_limit: int = 0
    without_gpu: bool = False  # its containers are known, and none of them asks for a GPU


def read_pod(raw: Json) -> PodState:
    pod = Pod(raw)
    meta, spec, status, labels = pod.metadata, pod.spec, pod.status, pod.labels
    name = text(meta.get("name"))
    disruption, disrupted = "", None
    unscheduled = None
    evicted = None
    not_ready = None
    for condition in rows(status.get("conditions")):
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            disruption = text(condition.get("reason"))
            disrupted = times.parse(condition.get("lastTransitionTime"))
        elif condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            unscheduled = ClusterEvent(
                text(condition.get("reason")),
                text(condition.get("message")),
                times.parse(condition.get("lastTransitionTime")),
            )
        elif condition.get("type") == "Ready" and condition.get("status") == "False":
            not_ready = times.parse(condition.get("lastTransitionTime"))
            if condition.get("reason") == "Evict":
                evicted = ClusterEvent("Evict", text(condition.get("message")), not_ready)
    containers = [
        _container(entry, init=part == "initContainerStatuses")
        for part in ("containerStatuses", "initContainerStatuses")
        for entry in rows(status.get(part))
    ]
    created = times.parse(meta.get("creationTimestamp"))
    started = times.parse(status.get("startTime")) or created
    deleted = times.parse(meta.get("deletionTimestamp"))
    own_ends = [item.finished for item in containers if item.finished is not None and not item.init]
    if disrupted is not None and own_ends and min(own_ends) - disrupted > _time_to_stop(spec):
        # it was called off: the condition is set before the pod is deleted
        disruption, disrupted = "", None
    return PodState(
        uid=text(meta.get("uid")),
        name=name,
        namespace=text(meta.get("namespace")) or "default",
        run_id=text(labels.get(RUN_ID_LABEL)) or None,
        node=text(spec.get("nodeName")) or None,
        rank=rank_of(name) or _role(labels),
        phase=text(status.get("phase")),
        reason=text(status.get("reason")),
        message=text(status.get("message")),
        disruption=disruption,
        disrupted=disrupted,
        containers=containers,
        start=started,
        end=disrupted or _end(containers, started, not_ready) or deleted,
        deleted=deleted,
        wants_spot=any(item.get("key") == SPOT_KEY for item in rows(spec.get("tolerations"))),
        evicted=evicted,
        parent=identities.parent_of_pod(meta, spec),
        created=created,
        gang=text(labels.get(GANG_LABEL)) or text(labels.get("jobId")) or None,
        pod_group=text(mapping(meta.get("annotations")).get(POD_GROUP_ANNOTATION)) or None,
        unscheduled=unscheduled,
        without_gpu=_is_without_gpu(rows(spec.get("containers"))),
        memory_limit=max((_memory_limit(item) for item in rows(spec.get("containers"))), default=0),
    )


def _end(
    containers: list[ContainerState], started: float | None, not_ready: float | None
) -> float | None:
    """When its containers ended. Init containers end before the job, unless one failed.

    A container that the kubelet could not find has no times (ContainerStatusUnknown): it ended when
    its pod was no longer ready, unless the pod never was.
    """
    job_containers = [item for item in containers if not item.init or item.exit_code]
    ends = [item.finished for item in job_containers if item.finished is not None]
    if not_ready is not None and any(
        item.state == "terminated" and item.finished is None for item in job_containers
    ):
        before = [item.finished for item in containers if item.init and item.finished is not None]
        if not_ready > max([started or 0.0, *before]):
            ends.append(not_ready)
    return max(ends, default=None)


def _time_to_stop(spec: Mapping[str, Any]) -> float:
    """How long after its disruption a pod may still run."""
    grace = spec.get("terminationGracePeriodSeconds")
    return LOOK_BACK_SECONDS + (grace if isinstance(grace, int) else 0)


def _memory_limit(container: Mapping[str, Any]) -> int:
    limit = mapping(mapping(container.get("resources")).get("limits")).get("memory")
    try:
        return bytes_offered(text(limit)) if limit else 0
    except QuantityError:
        return 0


def _is_without_gpu(containers: list[dict[str, Any]]) -> bool:
    """Some have amounts, and none has a GPU or a part of one (`nvidia.com/mig-1g.10gb`)."""
    amounts = [
        mapping(mapping(item.get("resources")).get(part))
        for item in containers
        for part in ("limits", "requests")
    ]
    return any(amounts) and not any(
        "gpu" in key or "nvidia" in key for amount in amounts for key in amount
    )


def _role(labels: Mapping[str, Any]) -> str | None:
    """The rank of a pod whose name does not have it; Volcano counts the pods of a role."""
    role = text(labels.get("jobRole")) or text(labels.get("role")) or None
    index = text(labels.get("volcano.sh/task-index"))
    return f"{role}-{index}" if role and index else role


def _container(raw: Json, init: bool) -> ContainerState:
    states = mapping(raw.get("state"))
    state = next(
        (
            word
            for word in ("terminated", "waiting", "running")
            if isinstance(states.get(word), dict)
        ),
        "",
    )
    inner = mapping(states.get(state))
    code, finished = inner.get("exitCode"), times.parse(inner.get("finishedAt"))
    return ContainerState(
        name=text(raw.get("name")),
        state=state,
        reason=text(inner.get("reason")),
        exit_code=code if isinstance(code, int) and not isinstance(code, bool) else None,
        finished=finished
        if finished and finished > 0
        else None,  # some runtimes write 1970 for a time they lost
        init=init,
        message=text(inner.get("message")),
    )
