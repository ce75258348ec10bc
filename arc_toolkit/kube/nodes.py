"""Nodes as data, and why AzureML's jobs cannot use one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from arc_toolkit.errors import ArcError
from arc_toolkit.kube.quantities import QuantityError, bytes_offered, cpu_offered
from arc_toolkit.kube.raw import mapping, rows, text
from arc_toolkit.kube.taints import AZUREML_TOLERATIONS, SPOT_KEY, Taint, Toleration, untolerated

SIZE_LABELS = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
POOL_LABELS = ("kubernetes.azure.com/agentpool", "agentpool")
GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu")
CONTROL_PLANE_LABELS = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
_CONDITION = ("type", "status", "reason", "message", "lastTransitionTime")
_TAINT = ("key", "value", "effect", "timeAdded")


class Condition(NamedTuple):
    """A row of status.conditions; `since` is the time as the API server writes it."""

    type: str
    status: str
    reason: str
    message: str
    since: str


@dataclass(frozen=True, slots=True)
class Node:
    """One node. Two nodes are equal if they are the same for sizing.

    `read_node` leaves the amounts at 0 and None; `parse_node` reads them too. `ready` is None if the object has no
    conditions.
    """

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    ready: bool | None
    cordoned: bool
    os: str
    architecture: str
    version: str
    conditions: tuple[Condition, ...] = field(default=(), compare=False)
    created: str = field(default="", compare=False)
    deleted: str = field(default="", compare=False)
    provider_id: str = field(default="", compare=False)
    capacity_cpu_m: int = 0
    capacity_memory: int = 0
    allocatable_cpu_m: int | None = None
    allocatable_memory: int | None = None
    gpu_resource: str | None = None
    gpus: int = 0
    max_pods: int | None = None

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

    @property
    def spot(self) -> bool:
        """Whether it is of a spot pool."""
        return self.labels.get(SPOT_KEY) == "spot" or any(
            taint.key == SPOT_KEY and taint.value == "spot" for taint in self.taints
        )


def read_node(item: Mapping[str, Any], name: str | None = None, **amounts: Any) -> Node:
    """A node, by default without its amounts. Never fails: a field that is missing or misshapen counts as empty."""
    metadata, spec, status = (mapping(item.get(key)) for key in ("metadata", "spec", "status"))
    labels = mapping(metadata.get("labels"))
    if not set(map(type, labels.values())) <= {str}:
        labels = {key: value for key, value in labels.items() if isinstance(value, str)}
    info = mapping(status.get("nodeInfo"))
    conditions = [Condition(*map(text, map(row.get, _CONDITION))) for row in rows(status.get("conditions"))]
    states = [row.status for row in conditions if row.type == "Ready"]
    return Node(
        name=text(metadata.get("name")) if name is None else name,
        labels=labels,
        taints=tuple(Taint(*map(text, map(row.get, _TAINT))) for row in rows(spec.get("taints"))),
        ready=states[-1] == "True" if states else None,
        cordoned=bool(spec.get("unschedulable")),
        os=(text(info.get("operatingSystem")) or labels.get("kubernetes.io/os") or "linux").lower(),
        architecture=(text(info.get("architecture")) or labels.get("kubernetes.io/arch") or "amd64").lower(),
        version=text(info.get("kubeletVersion")),
        conditions=tuple(conditions),
        created=text(metadata.get("creationTimestamp")),
        deleted=text(metadata.get("deletionTimestamp")),
        provider_id=text(spec.get("providerID")),
        **amounts,
    )


def parse_node(item: Mapping[str, Any], where: str) -> Node:
    """A whole node with its amounts; an ArcError that begins with `where` if a part is missing or misshapen."""
    status = mapping(item.get("status"))
    name = str(mapping(item.get("metadata")).get("name", "?"))
    capacity, allocatable = status.get("capacity"), status.get("allocatable") or {}
    if not isinstance(capacity, dict) or "cpu" not in capacity or "memory" not in capacity:
        raise ArcError(
            f"{where}: node {name} has no status.capacity with cpu and memory: is it a whole node object?"
        )
    try:
        _check_shape(item)
        offers = {**capacity, **allocatable}
        gpu = next((key for key in GPU_RESOURCES if int(offers.get(key, 0)) > 0), None)
        amounts: dict[str, int] = {}
        for resource, field_name, parse in (("cpu", "cpu_m", cpu_offered), ("memory", "memory", bytes_offered)):
            amounts[f"capacity_{field_name}"] = most = parse(str(capacity[resource]))
            if resource in allocatable:
                amounts[f"allocatable_{field_name}"] = amount = parse(str(allocatable[resource]))
                if amount > most:
                    raise ArcError(
                        f"{where}: node {name} has more {resource} allocatable than capacity: is it damaged?"
                    )
        if "pods" in offers:
            amounts["max_pods"] = int(offers["pods"])
        return read_node(item, name, **amounts, gpu_resource=gpu, gpus=int(offers[gpu]) if gpu else 0)
    except QuantityError as error:
        raise ArcError(f"{where}: node {name}: {error}") from None
    except (AttributeError, TypeError, ValueError):
        raise ArcError(f"{where}: node {name} is not shaped like a Node object") from None


def parse_nodes(items: Iterable[Mapping[str, Any]], where: str) -> list[Node]:
    """Every node, in the order of names, so that the same cluster gives the same output."""
    return sorted((parse_node(item, where) for item in items), key=lambda node: node.name)


class WhyUnusable(Enum):
    """Why jobs cannot use a node now."""

    CONTROL_PLANE = "control plane"
    OPERATING_SYSTEM = "operating system"
    ARCHITECTURE = "architecture"
    NOT_READY = "NotReady"
    CORDONED = "cordoned"
    TAINT = "taint"
    FEWER_GPUS = "fewer GPUs than others of its size"

    @property
    def temporary(self) -> bool:
        """Whether the same node may be usable again without anybody changing what it is."""
        return self in (WhyUnusable.NOT_READY, WhyUnusable.CORDONED)


@dataclass(frozen=True, slots=True)
class UnusableNode:
    """A node that jobs cannot use now. `brief` is the reason for a table, and `str()` the whole reason."""

    node: Node
    why: WhyUnusable
    brief: str
    explanation: str = ""

    def __str__(self) -> str:
        return self.brief + self.explanation


def unusable(
    node: Node, tolerations: Iterable[Toleration] = (), architecture: str = "amd64"
) -> UnusableNode | None:
    """Why AzureML's jobs cannot use this node now; None if they can."""
    why, brief, explanation = None, "", ""
    if any(label in node.labels for label in CONTROL_PLANE_LABELS):
        why = WhyUnusable.CONTROL_PLANE
    elif node.os != "linux":
        why, brief = WhyUnusable.OPERATING_SYSTEM, f"{node.os}: AzureML jobs run on Linux nodes"
    elif node.architecture != architecture:
        why, brief = WhyUnusable.ARCHITECTURE, f"architecture {node.architecture}, not {architecture}"
    elif node.ready is False:
        why = WhyUnusable.NOT_READY
    elif node.cordoned:
        why = WhyUnusable.CORDONED
    elif taint := untolerated(node.taints, (*AZUREML_TOLERATIONS, *tolerations)):
        why, explanation = WhyUnusable.TAINT, ", which AzureML pods do not tolerate"
        brief = f"taint {taint}{' (a spot pool)' if taint.key == SPOT_KEY else ''}"
    return UnusableNode(node, why, brief or why.value, explanation) if why else None


def _check_shape(item: Mapping[str, Any]) -> None:
    """Raises what reading a wrong shape raises, where `read_node` would take the field for empty."""
    metadata, spec, status = (mapping(item.get(key)) for key in ("metadata", "spec", "status"))
    labels = metadata.get("labels") or {}
    if not set(map(type, labels)) <= {str} or not all(map(str.isprintable, labels.values())):
        raise TypeError("labels are a map of strings of one line")
    for part in (spec.get("taints"), status.get("conditions")):
        if not set(map(type, part or ())) <= {dict}:
            raise TypeError("taints and conditions are lists of maps")
    if not isinstance(status.get("nodeInfo") or {}, dict):
        raise TypeError("nodeInfo is a map")


def _first(labels: Mapping[str, str], keys: Iterable[str]) -> tuple[str, str] | None:
    return next(((key, labels[key]) for key in keys if labels.get(key)), None)
