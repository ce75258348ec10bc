"""Nodes of a cluster, from the raw objects that the API server or a saved `kubectl get nodes -o json` gives."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from arc_toolkit.errors import ArcError
from arc_toolkit.kube.quantities import QuantityError, bytes_given, cpu_given

SIZE_LABELS = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
POOL_LABELS = ("kubernetes.azure.com/agentpool", "agentpool")
GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu")
CONTROL_PLANE_LABELS = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")

# Taints that AzureML's pods tolerate: https://learn.microsoft.com/azure/machine-learning/reference-kubernetes
TOLERATED_TAINTS = frozenset(
    f"ml.azure.com/{name}"
    for name in ("amlarc", "amlarc-system", "amlarc-workload", "resource-group", "workspace", "compute")
)
SPOT_TAINT = "kubernetes.azure.com/scalesetpriority"


@dataclass(frozen=True, slots=True)
class Node:
    """What sizing needs of one node. `ready` is None where the object carries no conditions."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[tuple[str, str, str], ...]  # key, value, effect
    capacity_cpu_m: int
    capacity_memory: int
    allocatable_cpu_m: int | None
    allocatable_memory: int | None
    gpu_resource: str | None
    gpus: int
    max_pods: int | None
    ready: bool | None
    cordoned: bool
    os: str
    architecture: str
    version: str

    @property
    def size_label(self) -> tuple[str, str] | None:
        """Key and value, the case as on the node."""
        return _first(self.labels, SIZE_LABELS)

    @property
    def pool_label(self) -> tuple[str, str] | None:
        return _first(self.labels, POOL_LABELS)

    @property
    def size(self) -> str:
        return self.size_label[1] if self.size_label else ""

    @property
    def pool(self) -> str:
        return self.pool_label[1] if self.pool_label else ""


def parse_node(item: Mapping[str, Any], where: str) -> Node:
    """One raw Node object; `where` names the source in errors."""
    metadata, spec, status = (_mapping(item, key) for key in ("metadata", "spec", "status"))
    name = str(metadata.get("name", "?"))
    capacity = status.get("capacity")
    if not isinstance(capacity, dict) or "cpu" not in capacity or "memory" not in capacity:
        raise ArcError(
            f"{where}: node {name} has no status.capacity with cpu and memory: is it a whole node object?"
        )
    allocatable = status.get("allocatable") or {}
    try:
        offers = {**capacity, **allocatable}
        _check_labels(metadata)
        gpu = next((key for key in GPU_RESOURCES if int(offers.get(key, 0)) > 0), None)
        for resource, parse in (("cpu", cpu_given), ("memory", bytes_given)):
            if resource in allocatable and parse(str(allocatable[resource])) > parse(str(capacity[resource])):
                raise ArcError(
                    f"{where}: node {name} has more {resource} allocatable than capacity: is it damaged?"
                )
        conditions = {row.get("type"): row.get("status") for row in status.get("conditions") or ()}
        labels = metadata.get("labels") or {}
        info = status.get("nodeInfo") or {}
        return Node(
            name=name,
            labels=labels,
            taints=tuple(
                (str(row.get("key", "")), str(row.get("value") or ""), str(row.get("effect", "")))
                for row in spec.get("taints") or ()
            ),
            capacity_cpu_m=cpu_given(str(capacity["cpu"])),
            capacity_memory=bytes_given(str(capacity["memory"])),
            allocatable_cpu_m=cpu_given(str(allocatable["cpu"])) if "cpu" in allocatable else None,
            allocatable_memory=bytes_given(str(allocatable["memory"])) if "memory" in allocatable else None,
            gpu_resource=gpu,
            gpus=int(offers[gpu]) if gpu else 0,
            max_pods=int(offers["pods"]) if "pods" in offers else None,
            ready=conditions["Ready"] == "True" if "Ready" in conditions else None,
            cordoned=bool(spec.get("unschedulable")),
            os=str(info.get("operatingSystem") or labels.get("kubernetes.io/os") or "linux").lower(),
            architecture=str(info.get("architecture") or labels.get("kubernetes.io/arch") or "amd64").lower(),
            version=str(info.get("kubeletVersion") or ""),
        )
    except QuantityError as error:
        raise ArcError(f"{where}: node {name}: {error}") from None
    except (AttributeError, TypeError, ValueError):
        raise ArcError(f"{where}: node {name} is not shaped like a Node object") from None


def _check_labels(metadata: Mapping[str, Any]) -> None:
    labels = metadata.get("labels") or {}
    if not all(
        isinstance(key, str) and isinstance(value, str) and value.isprintable() for key, value in labels.items()
    ):
        raise TypeError("labels are a map of strings of one line")


def _mapping(item: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = item.get(key)
    return value if isinstance(value, dict) else {}


def left_out(node: Node, tolerated: Collection[str] = (), architecture: str = "amd64") -> str | None:
    """Why AzureML's jobs cannot use this node now; None if they can."""
    if any(label in node.labels for label in CONTROL_PLANE_LABELS):
        return "control plane"
    if node.os != "linux":
        return f"{node.os}: AzureML jobs run on Linux nodes"
    if node.architecture != architecture:
        return f"architecture {node.architecture}, not {architecture}"
    if node.ready is False:
        return "NotReady"
    if node.cordoned:
        return "cordoned"
    for key, value, effect in node.taints:
        if effect == "PreferNoSchedule" or key in TOLERATED_TAINTS or key in tolerated:
            continue
        hint = " (a spot pool)" if key == SPOT_TAINT else ""
        return f"taint {key}{'=' + value if value else ''}:{effect}{hint}, which AzureML pods do not tolerate"
    return None


def items_of(data: Any, kind: str, where: str) -> list[dict[str, Any]]:
    """The objects in a saved list (`kubectl get ... -o json`), or the one object itself."""
    if isinstance(data, dict) and isinstance(data.get("items"), list):
        items: list[dict[str, Any]] = data["items"]
    elif isinstance(data, dict) and data.get("kind") == kind:
        items = [data]
    else:
        plural = kind.lower() + "s"
        raise ArcError(f"{where}: no `items` in it: save it with `kubectl get {plural} {_ALL[kind]}-o json`")
    wrong = next((row for row in items if not isinstance(row, dict) or row.get("kind", kind) != kind), None)
    if wrong is not None:
        found = wrong.get("kind") if isinstance(wrong, dict) else type(wrong).__name__
        raise ArcError(f"{where}: expected {kind} objects, found {found}")
    return items


_ALL = {"Node": "", "Pod": "-A "}


def parse_nodes(items: Iterable[Mapping[str, Any]], where: str) -> list[Node]:
    """Every node, in the order of names, so that the same cluster gives the same output."""
    return sorted((parse_node(item, where) for item in items), key=lambda node: node.name)


def _first(labels: Mapping[str, str], keys: Iterable[str]) -> tuple[str, str] | None:
    return next(((key, labels[key]) for key in keys if labels.get(key)), None)
