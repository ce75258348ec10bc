"""Pods: a thin view of the raw object; a cluster has tens of thousands, mostly unread."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from operator import add
from typing import Any

from arc_toolkit.errors import ArcError
from arc_toolkit.kube.quantities import bytes_requested, cpu_requested, devices_in
from arc_toolkit.kube.raw import mapping

RUN_ID_LABEL = "ml.azure.com/run-id"
_PLAIN = frozenset({"cpu", "memory"})  # all that most containers ask for


class PodKind(Enum):
    """The owner of a pod. Only pods of DaemonSets and static pods belong to a node for good."""

    DAEMONSET = "daemonset"
    STATIC = "static"
    JOB = "job"  # of AzureML
    OTHER = "other"


class Pod:
    """A raw Pod. A part of a wrong shape counts as empty; `Pod.parse` refuses it instead."""

    __slots__ = ("metadata", "spec", "status")

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.metadata = mapping(raw.get("metadata"))
        self.spec = mapping(raw.get("spec"))
        self.status = mapping(raw.get("status"))

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> Pod:
        pod = cls(raw)
        if not (pod.metadata and pod.spec and pod.status):
            for part in ("metadata", "spec", "status"):
                if not isinstance(raw.get(part) or {}, dict):
                    raise ArcError(f"pod {pod.name} is not shaped like a Pod object")
        return pod

    @property
    def name(self) -> str:
        return str(self.metadata.get("name", "?"))

    @property
    def namespace(self) -> str:
        return str(self.metadata.get("namespace", ""))

    @property
    def labels(self) -> Mapping[str, str]:
        return mapping(self.metadata.get("labels"))

    @property
    def is_finished(self) -> bool:
        """A finished pod takes nothing from its node."""
        return self.status.get("phase") in ("Succeeded", "Failed")

    @property
    def node_name(self) -> str | None:
        """The node it runs on, or that it was made for.

        The DaemonSet controller names the node in the pod's affinity until the pod is bound: a pod
        that waits for room, perhaps behind a whole-node job, belongs to its node already.
        """
        if bound := self.spec.get("nodeName"):
            return str(bound)
        affinity = (self.spec.get("affinity") or {}).get("nodeAffinity") or {}
        required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
        for term in required.get("nodeSelectorTerms") or ():
            for row in term.get("matchFields") or ():
                if (
                    row.get("key") == "metadata.name"
                    and row.get("operator") == "In"
                    and len(row["values"]) == 1
                ):
                    return str(row["values"][0])
        return None

    def owner(self) -> tuple[PodKind, str]:
        """What it belongs to, and the name to show: that of the DaemonSet, else its own."""
        kind, name = PodKind.OTHER, self.name
        for owner in self.metadata.get("ownerReferences") or ():
            if owner.get("kind") == "DaemonSet":
                kind, name = PodKind.DAEMONSET, owner.get("name", name)
            elif owner.get("kind") == "Node":  # the mirror pod of a static pod
                kind = PodKind.STATIC
        if "kubernetes.io/config.mirror" in (self.metadata.get("annotations") or ()):
            kind = PodKind.STATIC
        labels = self.labels
        if RUN_ID_LABEL in labels or labels.get("jobsource") == "aml":
            kind = PodKind.JOB
        return kind, name

    @property
    def is_of_deployment(self) -> bool:
        owners = self.metadata.get("ownerReferences") or ()
        return any(owner.get("kind") == "ReplicaSet" for owner in owners)

    def requests(self) -> tuple[int, int]:
        """Milli-cores and bytes that the scheduler counts for the pod.

        https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers
        """
        spec = self.spec
        cpu_m = memory = 0
        for container in spec.get("containers") or ():
            a, b = _requests(container)
            cpu_m, memory = cpu_m + a, memory + b
        if inits := spec.get("initContainers"):
            sidecars = peak = (0, 0)
            for container in inits:
                total = tuple(map(add, sidecars, _requests(container)))
                peak = tuple(map(max, peak, total))
                if container.get("restartPolicy") == "Always":
                    sidecars = total
            cpu_m, memory = map(max, map(add, (cpu_m, memory), sidecars), peak)
        # pod-level resources win (from 1.32)
        if pod_level := (spec.get("resources") or {}).get("requests"):
            cpu_m = cpu_requested(str(pod_level["cpu"])) if "cpu" in pod_level else cpu_m
            memory = bytes_requested(str(pod_level["memory"])) if "memory" in pod_level else memory
        if overhead := spec.get("overhead"):
            cpu_m += cpu_requested(str(overhead.get("cpu", "0")))
            memory += bytes_requested(str(overhead.get("memory", "0")))
        return cpu_m, memory

    def devices(self) -> dict[str, int]:
        """GPUs of any kind. Init containers and containers get the same devices."""
        total: dict[str, int] = {}
        for container in self.spec.get("containers") or ():
            if (requested := _request_of(container)) and not requested.keys() <= _PLAIN:
                for resource, count in devices_in(requested).items():
                    total[resource] = total.get(resource, 0) + count
        for container in self.spec.get("initContainers") or ():
            for resource, count in devices_in(_request_of(container)).items():
                total[resource] = max(total.get(resource, 0), count)
        return total


def _requests(container: Mapping[str, Any]) -> tuple[int, int]:
    requested = _request_of(container)
    if not requested:
        return 0, 0
    return cpu_requested(str(requested.get("cpu", "0"))), bytes_requested(
        str(requested.get("memory", "0"))
    )


def _request_of(container: Mapping[str, Any]) -> Mapping[str, Any]:
    return (container.get("resources") or {}).get("requests") or {}
