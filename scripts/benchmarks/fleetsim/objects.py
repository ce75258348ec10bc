"""Pods, nodes and core/v1 events as dictionaries, in the shapes that AKS, Volcano and AzureML write them."""

from __future__ import annotations

import hashlib
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]

START = 1_777_852_800  # 2026-05-04T00:00:00Z, a Monday; simulated seconds count from here
NAMESPACE = "azureml-train"
BASE36 = "0123456789abcdefghijklmnopqrstuvwxyz"
SPOT = "kubernetes.azure.com/scalesetpriority"
GONE_CONTAINER = "The container could not be located when the pod was terminated"


def stamp(seconds: float) -> str:
    """Simulated seconds as a Kubernetes timestamp, which has whole seconds only."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(START + int(seconds)))


def http_date(seconds: float) -> str:
    return time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(START + int(seconds)))


def digest(*parts: object) -> str:
    return hashlib.md5("|".join(map(str, parts)).encode(), usedforsecurity=False).hexdigest()


def guid(*parts: object) -> str:
    return str(uuid.UUID(digest(*parts)))


def node_name(pool: str, number: int, vmss: str) -> str:
    suffix = "".join(BASE36[number // 36**place % 36] for place in range(5, -1, -1))
    return f"aks-{pool}-{vmss}-vmss{suffix}"


@dataclass(frozen=True, slots=True)
class Ending:
    """What one pod's end left in its status."""

    phase: str = "Failed"
    exit_code: int | None = None
    reason: str = "Error"
    message: str = ""
    pod_reason: str = ""
    pod_message: str = ""
    disruption: tuple[str, str] | None = (
        None  # reason and message of the condition DisruptionTarget
    )
    disrupted_at: float | None = None
    extra_condition: tuple[str, str, str, str] | None = None  # type, status, reason, message
    deleted_at: float | None = (
        None  # the last picture that was taken of a pod while it was being deleted
    )


@dataclass(slots=True)
class PodFacts:
    """Everything that a pod's dictionary is made of."""

    run: str
    job_id: str
    rank: int
    ranks: int
    node: str
    spot: bool
    gpu: bool
    created: float
    start: float
    end: float | None = None
    ending: Ending | None = None
    root_run: str = ""

    @property
    def name(self) -> str:
        return f"{NAMESPACE}-{self.job_id}-worker-{self.rank}"

    @property
    def uid(self) -> str:
        return guid("pod", self.job_id, self.rank)


def _tolerations(spot: bool) -> list[Object]:
    found: list[Object] = [
        {
            "key": f"node.kubernetes.io/{key}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": 300,
        }
        for key in ("not-ready", "unreachable")
    ]
    found.append({"key": "ml.azure.com/amlarc", "operator": "Equal", "value": "true"})
    if spot:
        found.append({"key": SPOT, "operator": "Equal", "value": "spot", "effect": "NoSchedule"})
    return found


def _container_statuses(facts: PodFacts, main: str) -> list[Object]:
    started = stamp(facts.start + 20)
    ending = facts.ending
    if ending is None or ending.phase == "Running":
        return [
            {
                "name": main,
                "ready": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": started}},
            }
        ]
    if ending.exit_code is None:
        return []
    finished = stamp(facts.end if facts.end is not None else facts.start)
    ended: Object = {"exitCode": ending.exit_code, "reason": ending.reason, "finishedAt": finished}
    if ending.reason != "ContainerStatusUnknown":
        ended["startedAt"] = started
    if ending.message:
        ended["message"] = ending.message
    return [{"name": main, "ready": False, "restartCount": 0, "state": {"terminated": ended}}]


def pod(facts: PodFacts) -> Object:
    job_id, ending = facts.job_id, facts.ending
    main = f"{job_id}-execution-wrapper"
    limits = {"memory": "64Gi", "nvidia.com/gpu": "1"} if facts.gpu else {"memory": "32Gi"}
    container: Object = {"name": main, "resources": {"limits": limits, "requests": dict(limits)}}
    if facts.root_run:
        container["env"] = [{"name": "AZUREML_ROOT_RUN_ID", "value": facts.root_run}]
    metadata: Object = {
        "name": facts.name,
        "namespace": NAMESPACE,
        "uid": facts.uid,
        "creationTimestamp": stamp(facts.created),
        "labels": {
            "ml.azure.com/run-id": facts.run,
            "ml.azure.com/compute": "arc-compute",
            "jobsource": "aml",
            "type": "job",
            "jobId": job_id,
            "role": "worker",
            "jobScale": str(facts.ranks),
            "volcano.sh/job-name": f"{NAMESPACE}-{job_id}",
            "volcano.sh/queue-name": "default",
        },
    }
    conditions: list[Object] = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp(facts.created + 2)}
    ]
    status: Object = {"phase": "Running", "startTime": stamp(facts.start), "conditions": conditions}
    if ending is not None:
        status["phase"] = ending.phase
        at = ending.disrupted_at if ending.disrupted_at is not None else facts.end or facts.start
        if ending.disruption:
            reason, message = ending.disruption
            conditions.append(_condition("DisruptionTarget", "True", reason, message, at))
        if ending.extra_condition:
            conditions.append(_condition(*ending.extra_condition, at))
        if ending.pod_reason:
            status["reason"], status["message"] = ending.pod_reason, ending.pod_message
        if ending.deleted_at is not None:
            metadata["deletionTimestamp"] = stamp(ending.deleted_at)
            metadata["deletionGracePeriodSeconds"] = 30
    statuses = _container_statuses(facts, main)
    if statuses:
        status["containerStatuses"] = statuses
    spec: Object = {
        "nodeName": facts.node,
        "containers": [container, {"name": f"{job_id}-lifecycler"}],
        "restartPolicy": "Never",
        "schedulerName": "volcano",
        "tolerations": _tolerations(facts.spot),
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def _condition(kind: str, status: str, reason: str, message: str, at: float) -> Object:
    found: Object = {"type": kind, "status": status, "lastTransitionTime": stamp(at)}
    if reason:
        found["reason"] = reason
    if message:
        found["message"] = message
    return found


@dataclass(slots=True)
class NodeFacts:
    """Everything that a node's dictionary is made of."""

    name: str
    pool: str
    sku: str
    number: int
    zone: int
    spot: bool
    gpu: bool
    created: float
    generation: int = 0  # a new machine, or a reimaged one, under the same name
    ready: bool = True
    ready_since: float = 0.0
    cordoned: bool = False
    stopped: bool = False  # deallocated in Azure
    faults: list[tuple[str, str, str, float]] = field(
        default_factory=list
    )  # type, reason, message, since

    @property
    def uid(self) -> str:
        return guid("node", self.name, self.generation)


HEALTHY = (
    ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("VMEventScheduled", "NoVMEventScheduled", "VM has no scheduled event"),
    ("KubeletProblem", "KubeletIsUp", "kubelet service is up"),
    ("ReadonlyFilesystem", "FilesystemIsNotReadOnly", "Filesystem is not read-only"),
    ("FrequentKubeletRestart", "NoFrequentKubeletRestart", "kubelet is functioning properly"),
)
HEALTHY_GPU = (
    ("GPUMissing", "NoGPUMissing", "All GPUs are present"),
    ("XIDErrors", "XIDErrorIsNotPresent", "XID error status is good"),
)


def node(facts: NodeFacts, now: float) -> Object:
    seen = stamp(now if facts.ready else facts.ready_since - 40)

    def condition(kind: str, status: str, reason: str, message: str, since: float) -> Object:
        return {**_condition(kind, status, reason, message, since), "lastHeartbeatTime": seen}

    faulty = {fault[0] for fault in facts.faults}
    conditions = [
        condition(kind, "False", reason, message, facts.created + 120)
        for kind, reason, message in (HEALTHY + HEALTHY_GPU if facts.gpu else HEALTHY)
        if kind not in faulty
    ]
    conditions += [
        condition(kind, "True", reason, text, since) for kind, reason, text, since in facts.faults
    ]
    taints: list[Object] = []
    if facts.spot:
        taints.append({"key": SPOT, "value": "spot", "effect": "NoSchedule"})
    if facts.cordoned:
        taints.append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
    if facts.stopped:
        taints.append({"key": "node.cloudprovider.kubernetes.io/shutdown", "effect": "NoSchedule"})
    since = max(facts.ready_since, facts.created + 120)
    if facts.ready:
        conditions.append(
            condition("Ready", "True", "KubeletReady", "kubelet is posting ready status", since)
        )
    else:
        text = "Kubelet stopped posting node status."
        conditions.append(
            condition("Ready", "Unknown", "NodeStatusUnknown", text, facts.ready_since)
        )
        taints += [
            {
                "key": "node.kubernetes.io/unreachable",
                "effect": effect,
                "timeAdded": stamp(facts.ready_since),
            }
            for effect in ("NoSchedule", "NoExecute")
        ]
    labels = {
        "kubernetes.azure.com/agentpool": facts.pool,
        "node.kubernetes.io/instance-type": facts.sku,
        "kubernetes.io/hostname": facts.name,
        "topology.kubernetes.io/zone": f"westeurope-{facts.zone}",
    }
    if facts.spot:
        labels[SPOT] = "spot"
    group = f"azure:///subscriptions/{guid('subscription')}/resourceGroups/mc_ml/providers/Microsoft.Compute"
    spec: Object = {
        "providerID": f"{group}/virtualMachineScaleSets/{facts.name[:-6]}/virtualMachines/{facts.number}"
    }
    if facts.cordoned:
        spec["unschedulable"] = True
    if taints:
        spec["taints"] = taints
    gpus = {"nvidia.com/gpu": "8"} if facts.gpu else {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": facts.name,
            "uid": facts.uid,
            "creationTimestamp": stamp(facts.created),
            "labels": labels,
        },
        "spec": spec,
        "status": {"conditions": conditions, "capacity": dict(gpus), "allocatable": dict(gpus)},
    }


def event(
    number: int,
    involved: Object,
    reason: str,
    message: str,
    at: float,
    *,
    warning: bool = False,
    component: str = "kubelet",
    host: str = "",
    count: int = 1,
    first: float | None = None,
) -> Object:
    namespace = involved.get("namespace", "default")
    began = stamp(at if first is None else first)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{involved['name']}.{digest('event', number)[:16]}",
            "namespace": namespace,
            "uid": guid("event", number),
            "creationTimestamp": began,
        },
        "involvedObject": {"apiVersion": "v1", **involved},
        "reason": reason,
        "message": message,
        "type": "Warning" if warning else "Normal",
        "firstTimestamp": began,
        "lastTimestamp": stamp(at),
        "count": count,
        "source": {"component": component, **({"host": host} if host else {})},
        "reportingComponent": component,
        "reportingInstance": host,
    }


def node_ref(name: str) -> Object:
    """Node events of node-controller and kubelet carry the node's name as UID."""
    return {"kind": "Node", "name": name, "uid": name}


def pod_ref(facts: PodFacts) -> Object:
    return {"kind": "Pod", "namespace": NAMESPACE, "name": facts.name, "uid": facts.uid}
