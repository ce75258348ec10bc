"""Which nodes to size for, in groups: VM sizes under assumptions, or the nodes of a cluster that jobs can use."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from arc_toolkit.errors import ArcError
from arc_toolkit.kube.labels import some_names
from arc_toolkit.kube.nodes import Node, UnusableNode, WhyUnusable, parse_nodes, unusable
from arc_toolkit.kube.quantities import MI
from arc_toolkit.kube.taints import Toleration
from arc_toolkit.sizing import vm_sizes
from arc_toolkit.sizing.occupants import Occupant, by_node, profile
from arc_toolkit.sizing.reservations import Version
from arc_toolkit.sizing.schedulable import (
    Assumptions,
    Limit,
    Schedulable,
    schedulable_of_node,
    schedulable_of_size,
    version_of,
)

DEFAULT_DAEMONSETS = ("aks-overlay", "azureml")


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes that one instance type may land on. Each resource is that of the node that gives least of it."""

    title: str
    selector: tuple[tuple[str, str], ...]
    nodes: tuple[Schedulable, ...]
    source: str  # "sku", "nodes" or "cluster"
    pools: tuple[str, ...] = ()
    size: str = ""

    @property
    def tightest_cpu(self) -> Schedulable:
        return min(self.nodes, key=lambda node: node.cpu_m)

    @property
    def tightest_memory(self) -> Schedulable:
        return min(self.nodes, key=lambda node: node.memory)

    @property
    def gpus(self) -> int:
        return min(node.gpus for node in self.nodes)

    @property
    def gpu_resource(self) -> str | None:
        """None where there are no GPUs, or GPUs of two makers."""
        resources = {node.gpu_resource for node in self.nodes}
        return resources.pop() if self.gpus and len(resources) == 1 else None

    @property
    def nominal_cpu_m(self) -> int:
        return min(node.nominal_cpu_m for node in self.nodes)

    @property
    def nominal_memory(self) -> int:
        return min(node.nominal_memory for node in self.nodes)

    @property
    def pods_free(self) -> int:
        return min(node.pods_free for node in self.nodes)

    def fits(self, cpu_m: int, memory: int, gpus: int) -> tuple[int, Limit]:
        """How many fit on the node of the group that takes least of them, and why not more."""
        return min((node.how_many(cpu_m, memory, gpus) for node in self.nodes), key=lambda pair: pair[0])


@dataclass
class Selection:
    """The groups to size for, every node behind them, and what a person should know about them."""

    groups: list[NodeGroup]
    assumptions: Assumptions
    nodes: list[Node] = field(default_factory=list)
    unusable: list[UnusableNode] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class DaemonSets:
    """Pods that are on every node: names of profiles, and of files with their content."""

    names: tuple[str, ...] = DEFAULT_DAEMONSETS
    files: Mapping[str, list[Occupant]] = field(default_factory=dict)

    def __str__(self) -> str:
        return " + ".join(self.names)

    def on(self, version: Version) -> list[Occupant]:
        """What they ask for on a Kubernetes version."""
        parts = (self.files[name] if name in self.files else profile(name, version) for name in self.names)
        return [occupant for part in parts for occupant in part]


def select_sizes(
    names: Sequence[str], assumptions: Assumptions, daemonsets: DaemonSets, *, network_plugin: str = ""
) -> Selection:
    """A group for each VM size; `network_plugin` names where maxPods comes from, for the note."""
    sizes = _sizes(names)
    pods = daemonsets.on(assumptions.version)
    groups = [group_of_size(size, assumptions, pods) for size in sizes]
    notes = [
        f"assumed: Kubernetes {assumptions.version_text}, maxPods {assumptions.max_pods}"
        f"{f' ({network_plugin})' if network_plugin else ''}, DaemonSets {daemonsets}, "
        f"reserve {assumptions.reserve}; options change each of these, and --nodes replaces them by facts"
    ]
    notes += [remark for size in sizes for remark in size.remarks]
    return Selection(groups, assumptions, notes=notes)


def select_nodes(
    node_items: Iterable[Mapping[str, Any]],
    pod_items: Iterable[Mapping[str, Any]] | None,
    assumptions: Assumptions,
    daemonsets: DaemonSets,
    *,
    source: str,
    where: str,
    tolerations: Iterable[Toleration] = (),
    architecture: str = "amd64",
    by_pool: bool = False,
) -> Selection:
    """Groups from raw Node and Pod objects, saved or live."""
    nodes = parse_nodes(node_items, where)
    usable, refused = _divide(nodes, tolerations, architecture)
    if not usable:
        why = f": {refused[0].node.name}: {refused[0]}" if refused else ""
        raise ArcError(f"{where}: none of {len(nodes)} nodes can run AzureML jobs{why}")
    pods = by_node(pod_items) if pod_items is not None else {}
    groups = group_nodes(usable, pods, assumptions, daemonsets, source=source, by_pool=by_pool)
    selection = Selection(groups, assumptions, nodes, refused)
    if pod_items is None:
        selection.notes.append(f"assumed: DaemonSets {daemonsets}; --pods FILE counts the real ones")
    selection.notes += _left_out_notes(refused)
    selection.notes += [note for group in groups for note in _doubts(group)]
    selection.notes += [note for group in groups if (note := defeated(group))]
    return selection


def group_of_size(size: vm_sizes.VmSize, assumptions: Assumptions, occupants: Sequence[Occupant]) -> NodeGroup:
    """The nodes of a size, all alike."""
    return NodeGroup(
        title=size.name,
        selector=(("node.kubernetes.io/instance-type", size.name),),
        nodes=(schedulable_of_size(size, assumptions, occupants),),
        source="sku",
        size=size.name,
    )


def group_nodes(
    nodes: Iterable[Node],
    occupants: dict[str, list[Occupant]],
    assumptions: Assumptions,
    daemonsets: DaemonSets,
    *,
    source: str,
    by_pool: bool,
) -> list[NodeGroup]:
    """Nodes by size label (and pool, if asked): exactly the nodes that a nodeSelector on these labels selects."""
    by_labels: dict[tuple[tuple[str, str], ...], list[Node]] = {}
    for node in nodes:
        labels = [node.size_label] + ([node.pool_label] if by_pool else [])
        by_labels.setdefault(tuple(label for label in labels if label), []).append(node)
    groups = []
    for selector, members in sorted(by_labels.items()):
        sized = tuple(
            schedulable_of_node(
                node, assumptions, [*occupants.get(node.name, ()), *daemonsets.on(version_of(node, assumptions))]
            )
            for node in members
        )
        pools = tuple(sorted({node.pool for node in members if node.pool}))
        size = members[0].size
        where = f"pool {', '.join(pools)}, " if pools else ""
        count = f"{len(members)} node{'s' if len(members) > 1 else ''}"
        title = f"{size or 'nodes without a size label'} ({where}{count})"
        groups.append(NodeGroup(title, selector, sized, source, pools, size))
    return groups


def _divide(
    nodes: list[Node], tolerations: Iterable[Toleration], architecture: str
) -> tuple[list[Node], list[UnusableNode]]:
    """Nodes that jobs can use, and the others with the reason."""
    known = list(tolerations)
    refused = {node.name: unusable(node, known, architecture) for node in nodes}
    most: dict[str, int] = {}  # GPUs that a usable node of that size shows
    for node in nodes:
        if refused[node.name] is None:
            most[node.size] = max(most.get(node.size, 0), node.gpus)
    for node in nodes:
        if refused[node.name] is None and node.size and node.gpus < most[node.size]:
            others = f"{node.gpus} of the {most[node.size]} GPUs that others of its size show"
            text = f"only {others}: is the device plugin healthy?"
            refused[node.name] = UnusableNode(node, WhyUnusable.FEWER_GPUS, text)
    usable = [node for node in nodes if refused[node.name] is None]
    return usable, [row for row in refused.values() if row is not None]


def _left_out_notes(refused: list[UnusableNode]) -> list[str]:
    by_reason: dict[str, list[str]] = {}
    for row in refused:
        by_reason.setdefault(str(row), []).append(row.node.name)
    return [
        f"left out {len(names)} node{'s' if len(names) > 1 else ''} ({some_names(names)}): {reason}"
        for reason, names in by_reason.items()
    ]


def _doubts(group: NodeGroup) -> list[str]:
    """What may be wrong with a group as a whole."""
    notes = []
    if not group.selector:
        notes.append(f"{group.title}: their types have no nodeSelector and may land on any node")
    size = vm_sizes.find(group.size)
    if size and size.gpu_resource and not group.gpus:
        notes.append(f"{group.title}: the size has GPUs and no node shows any: is the device plugin installed?")
    return notes


def defeated(group: NodeGroup) -> str | None:
    """Pods of Deployments and the like that defeat a type which takes all that is schedulable."""
    guests = [(node.name, occupant) for node in group.nodes for occupant in node.other_pods]
    if not guests:
        return None
    nodes = {name for name, _ in guests}
    pods = [f"{o.namespace}/{o.name} ({o.cpu_m}m, {o.memory // MI}Mi) on {name}" for name, o in guests]
    return (
        f"{len(nodes)} of {len(group.nodes)} nodes of {group.title} also run pods that belong to no DaemonSet "
        f"and defeat a whole-node type there: {some_names(pods)}; keep them off with a taint such as "
        "ml.azure.com/amlarc-workload=true:NoSchedule"
    )


def _sizes(names: Iterable[str]) -> list[vm_sizes.VmSize]:
    by_name: dict[str, vm_sizes.VmSize] = {}
    for name in names:
        if any(mark in name for mark in "*?["):
            pattern = name.lower()
            matches = [
                size
                for key, size in vm_sizes.table().items()
                if fnmatch.fnmatchcase(key, pattern) or fnmatch.fnmatchcase(key, f"standard_{pattern}")
            ]
            if not matches:
                raise ArcError(f"no VM size matches {name!r} in the shipped table")
        else:
            matches = [vm_sizes.lookup(name)]
        by_name.update({size.name: size for size in matches})
    return list(by_name.values())
