"""Nodes as data, and why AzureML's jobs cannot use one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from arc_toolkit.kube.labels import NO_LABELS, labels_text, matches
from arc_toolkit.kube.quantities import (
    QuantityError,
    bytes_offered,
    cpu_offered,
    devices_in,
    is_device,
)
from arc_toolkit.kube.raw import mapping, rows, text
from arc_toolkit.kube.taints import (
    AZUREML_TOLERATIONS,
    SPOT_KEY,
    SPOT_LABELS,
    Taint,
    Toleration,
    untolerated_taint,
)

SIZE_LABELS = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
# k3s and RKE2 write these on every machine: k3s, pkg/cloudprovider/instances.go.
NOT_SIZES = ("k3s", "rke2")
# Karpenter first: node auto-provisioning has one agent pool for all node pools; AKS, EKS, GKE.
AKS_POOL_LABELS = ("kubernetes.azure.com/agentpool", "agentpool")
POOL_LABELS = (
    "karpenter.sh/nodepool",
    *AKS_POOL_LABELS,
    "eks.amazonaws.com/nodegroup",
    "cloud.google.com/gke-nodepool",
)
# Nodes of Azure Container Instances and other virtual-kubelets, which are not machines.
VIRTUAL_LABEL = ("type", "virtual-kubelet")
# Every node has them: https://kubernetes.io/docs/reference/labels-annotations-taints/
PLATFORM_LABELS = ("kubernetes.io/arch", "kubernetes.io/os")
SYSTEM_POOL_LABEL = ("kubernetes.azure.com/mode", "system")
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


class Defect(Enum):
    """Why the amounts of a node are not known."""

    NO_CAPACITY = "it reports no capacity yet"
    NO_QUANTITY = "its capacity or allocatable is not a quantity"
    MORE_ALLOCATABLE = "its allocatable is not between zero and its capacity"
    SHAPE = "it is not shaped like a Node object"


@dataclass(frozen=True, slots=True)
class Node:
    """One node. Two nodes are equal if they are the same for sizing.

    `read_node` leaves the amounts at 0 and None; `parse_node` reads them too, or says in `defect`
    why it cannot. `ready` is None if the object has no conditions. `devices` are those that pods
    can get; `failed_devices` counts those that the node has and does not give.
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
    devices: Mapping[str, int] = field(default_factory=dict)
    failed_devices: int = 0
    max_pods: int | None = None
    defect: Defect | None = None

    @property
    def gpus(self) -> int:
        """Devices of any kind."""
        return sum(self.devices.values())

    @property
    def gpu_resource(self) -> str | None:
        """The first kind of its devices, whole GPUs before parts of them."""
        return next(iter(self.devices), None)

    @property
    def size_label(self) -> tuple[str, str] | None:
        """Key and value, the case as on the node."""
        label = _first(self.labels, SIZE_LABELS)
        return label if label and label[1] not in NOT_SIZES else None

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
    def control_plane(self) -> bool:
        return any(label in self.labels for label in CONTROL_PLANE_LABELS)

    @property
    def system_pool(self) -> bool:
        """Whether it is of a pool that AKS keeps for system pods, though it may take others."""
        return self.labels.get(SYSTEM_POOL_LABEL[0]) == SYSTEM_POOL_LABEL[1]

    @property
    def spot_label(self) -> tuple[str, str] | None:
        """The label that only spot nodes have."""
        pairs = ((key, self.labels.get(key, "")) for key in SPOT_LABELS)
        return next(((key, value) for key, value in pairs if value in SPOT_LABELS[key]), None)

    @property
    def spot(self) -> bool:
        """Whether it may be evicted, by its labels or the taint of AKS."""
        return self.spot_label is not None or any(
            taint.key == SPOT_KEY and taint.value == "spot" for taint in self.taints
        )


def read_node(item: Mapping[str, Any], **amounts: Any) -> Node:
    """A node, by default without amounts. Never fails: missing or misshapen fields are empty."""
    metadata, spec, status = (mapping(item.get(key)) for key in ("metadata", "spec", "status"))
    labels = mapping(metadata.get("labels"))
    if not set(map(type, labels.values())) <= {str}:
        labels = {key: value for key, value in labels.items() if isinstance(value, str)}
    info = mapping(status.get("nodeInfo"))
    conditions = [
        Condition(*map(text, map(row.get, _CONDITION))) for row in rows(status.get("conditions"))
    ]
    states = [row.status for row in conditions if row.type == "Ready"]
    return Node(
        name=text(metadata.get("name")) or "?",
        labels=labels,
        taints=tuple(Taint(*map(text, map(row.get, _TAINT))) for row in rows(spec.get("taints"))),
        ready=states[-1] == "True" if states else None,
        cordoned=bool(spec.get("unschedulable")),
        os=(text(info.get("operatingSystem")) or labels.get("kubernetes.io/os") or "linux").lower(),
        architecture=(
            text(info.get("architecture")) or labels.get("kubernetes.io/arch") or "amd64"
        ).lower(),
        version=text(info.get("kubeletVersion")),
        conditions=tuple(conditions),
        created=text(metadata.get("creationTimestamp")),
        deleted=text(metadata.get("deletionTimestamp")),
        provider_id=text(spec.get("providerID")),
        **amounts,
    )


def parse_node(item: Mapping[str, Any]) -> Node:
    """A whole node with its amounts. Never fails: what cannot be read is the node's defect."""
    status = mapping(item.get("status"))
    capacity, allocatable = status.get("capacity"), status.get("allocatable") or {}
    if not capacity or (isinstance(capacity, dict) and not {"cpu", "memory"} <= capacity.keys()):
        return read_node(item, defect=Defect.NO_CAPACITY)
    try:
        _check_shape(item)
        offers = {**capacity, **allocatable}
        amounts: dict[str, int] = {}
        for resource, field_name, parse in (
            ("cpu", "cpu_m", cpu_offered),
            ("memory", "memory", bytes_offered),
        ):
            amounts[f"capacity_{field_name}"] = most = parse(str(capacity[resource]))
            if resource in allocatable:
                amounts[f"allocatable_{field_name}"] = amount = parse(str(allocatable[resource]))
                if not 0 <= amount <= most:
                    return read_node(item, defect=Defect.MORE_ALLOCATABLE)
        if "pods" in offers:
            amounts["max_pods"] = bytes_offered(str(offers["pods"]))
        devices, all_devices = devices_in(offers), devices_in(capacity)
        # A kind of which nothing is left may have become another kind: MIG was turned on.
        failed = sum(
            all_devices[key] - devices.get(key, 0)
            for key in all_devices
            if key in devices or not devices
        )
        return read_node(item, **amounts, devices=devices, failed_devices=failed)
    except QuantityError:
        return read_node(item, defect=Defect.NO_QUANTITY)
    except (AttributeError, TypeError, ValueError):
        return read_node(item, defect=Defect.SHAPE)


def parse_nodes(items: Iterable[Mapping[str, Any]]) -> list[Node]:
    """Every node, in the order of names, so that the same cluster gives the same output."""
    return sorted(map(parse_node, items), key=lambda node: node.name)


class WhyUnusable(Enum):
    """Why jobs cannot use a node now."""

    CONTROL_PLANE = "control plane"
    BESIDE_WORKERS = "control plane, and other nodes are for jobs"
    VIRTUAL = "virtual node"
    OPERATING_SYSTEM = "operating system"
    ARCHITECTURE = "architecture"
    EXTENSION_SELECTOR = "outside of the extension's nodeSelector"
    SYSTEM_POOL = "system pool, and other nodes are for jobs"
    JOINING = "no capacity yet"
    DAMAGED = "damaged"
    NOT_READY = "NotReady"
    CORDONED = "cordoned"
    CONDITION = "taint of a condition that passes"
    TAINT = "taint"
    FEWER_GPUS = "fewer GPUs than it should have"
    FULL = "nothing left for jobs"

    @property
    def temporary(self) -> bool:
        """Whether the same node may be usable again without anybody changing what it is."""
        return self not in _LASTING

    @property
    def keeps_jobs_off(self) -> bool:
        """Whether no job runs there. A node with a broken GPU takes jobs, but is not sized for."""
        return self not in _NOT_SIZED_FOR


_LASTING = (
    WhyUnusable.CONTROL_PLANE,
    WhyUnusable.BESIDE_WORKERS,
    WhyUnusable.VIRTUAL,
    WhyUnusable.OPERATING_SYSTEM,
    WhyUnusable.ARCHITECTURE,
    WhyUnusable.EXTENSION_SELECTOR,
    WhyUnusable.SYSTEM_POOL,
    WhyUnusable.TAINT,
)
_NOT_SIZED_FOR = (
    WhyUnusable.FEWER_GPUS,
    WhyUnusable.FULL,
    WhyUnusable.BESIDE_WORKERS,
    WhyUnusable.SYSTEM_POOL,
)


@dataclass(frozen=True, slots=True)
class UnusableNode:
    """A node that jobs cannot use now. `brief`: the reason for a table; `str()`: in full."""

    node: Node
    reason: WhyUnusable
    brief: str
    explanation: str = ""

    def __str__(self) -> str:
        return self.brief + self.explanation


def unusable(
    node: Node,
    tolerations: Iterable[Toleration] = (),
    architecture: str = "amd64",
    extension_selector: Mapping[str, str] = NO_LABELS,
) -> UnusableNode | None:
    """Why AzureML's jobs cannot use this node now; None if they can.

    The nodeSelector of the extension applies to every job too: a job runs where that and the
    selector of its type match.
    https://learn.microsoft.com/azure/machine-learning/how-to-manage-kubernetes-instance-types
    """
    reason, brief, explanation = None, "", ""
    taint = untolerated_taint(node.taints, (*AZUREML_TOLERATIONS, *tolerations))
    if not matches(extension_selector, node.labels):
        reason = WhyUnusable.EXTENSION_SELECTOR
        brief = f"{reason.value} ({labels_text(extension_selector)})"
        explanation = ", which applies to jobs too"
    elif node.control_plane and taint:  # without a taint the scheduler takes it for any other node
        reason = WhyUnusable.CONTROL_PLANE
    elif node.labels.get(VIRTUAL_LABEL[0]) == VIRTUAL_LABEL[1]:
        reason, brief = WhyUnusable.VIRTUAL, "a virtual node is not a machine that can be sized"
    elif node.os != "linux":
        reason, brief = WhyUnusable.OPERATING_SYSTEM, f"{node.os}: AzureML jobs run on Linux nodes"
    elif node.architecture != architecture:
        reason, brief = (
            WhyUnusable.ARCHITECTURE,
            f"architecture {node.architecture}, not {architecture}",
        )
    elif node.defect:
        reason = WhyUnusable.JOINING if node.defect is Defect.NO_CAPACITY else WhyUnusable.DAMAGED
        brief = node.defect.value
    elif node.ready is False:
        reason = WhyUnusable.NOT_READY
    elif node.cordoned:
        reason = WhyUnusable.CORDONED
    elif taint:
        reason = WhyUnusable.CONDITION if taint.passes else WhyUnusable.TAINT
        explanation = ", which AzureML pods do not tolerate"
        if is_device(taint.key):
            # ExtendedResourceToleration:
            # https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/
            explanation += (
                "; if the cluster adds that to pods with GPUs (AKS, EKS, GKE do), "
                f"--tolerate {taint.key}"
            )
        brief = f"taint {taint}{' (a spot pool)' if taint.key == SPOT_KEY else ''}"
    return UnusableNode(node, reason, brief or reason.value, explanation) if reason else None


def _check_shape(item: Mapping[str, Any]) -> None:
    """Raises for a wrong shape, where `read_node` would take the field for empty."""
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
