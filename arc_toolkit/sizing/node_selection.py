"""Which nodes to size for, in groups: assumed VM sizes, or usable nodes of a cluster."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from arc_toolkit.errors import ArcError
from arc_toolkit.kube.labels import NO_LABELS, matches, some_names
from arc_toolkit.kube.nodes import (
    SIZE_LABELS,
    Node,
    UnusableNode,
    WhyUnusable,
    parse_nodes,
    unusable,
)
from arc_toolkit.kube.quantities import MI
from arc_toolkit.kube.taints import Toleration
from arc_toolkit.sizing import vm_sizes
from arc_toolkit.sizing.fits import Candidate
from arc_toolkit.sizing.occupants import (
    Occupant,
    extension_selector,
    occupants_by_node,
    profile,
)
from arc_toolkit.sizing.reservations import Version
from arc_toolkit.sizing.schedulable import (
    Assumptions,
    Schedulable,
    schedulable_of_node,
    schedulable_of_size,
    version_of,
)
from arc_toolkit.sizing.selectors import Selector, gpu_parts
from arc_toolkit.sizing.shares import NodeGroup
from arc_toolkit.text import plural

DEFAULT_DAEMONSETS = ("aks-overlay", "azureml")


@dataclass
class Selection:
    """The groups to size for, every node behind them, and what a person should know about them.

    `candidates` are all nodes (or VM sizes) with what each can give, for whoever asks whether a
    type fits.
    """

    groups: list[NodeGroup]
    assumptions: Assumptions
    place: str = ""
    nodes: list[Node] = field(default_factory=list)
    unusable: list[UnusableNode] = field(default_factory=list)
    candidates: list[Candidate] = field(default_factory=list)
    tolerations: tuple[Toleration, ...] = ()
    notes: list[str] = field(default_factory=list)

    def require_groups(self) -> None:
        """An ArcError if there is nothing to size for."""
        if not self.groups:
            reason = f": {self.unusable[0].node.name}: {self.unusable[0]}" if self.unusable else ""
            raise ArcError(
                f"{self.place}: none of {len(self.nodes)} nodes can run AzureML jobs{reason}"
            )


@dataclass(frozen=True)
class DaemonSets:
    """Pods that are on every node: names of profiles, and of files with their content."""

    names: tuple[str, ...] = DEFAULT_DAEMONSETS
    files: Mapping[str, list[Occupant]] = field(default_factory=dict)

    def __str__(self) -> str:
        return " + ".join(self.names)

    def occupants_for(self, version: Version) -> list[Occupant]:
        """What they ask for on a Kubernetes version."""
        parts = (
            self.files[name] if name in self.files else profile(name, version)
            for name in self.names
        )
        return [occupant for part in parts for occupant in part]


def select_sizes(
    names: Sequence[str],
    assumptions: Assumptions,
    daemonsets: DaemonSets,
    *,
    network_plugin: str = "",
) -> Selection:
    """A group for each VM size; `network_plugin` names where maxPods comes from, for the note."""
    sizes = _sizes(names)
    pods = daemonsets.occupants_for(assumptions.version)
    groups = [group_of_size(size, assumptions, pods) for size in sizes]
    notes = [
        f"assumed: Kubernetes {assumptions.version_text}, maxPods {assumptions.max_pods}"
        f"{f' ({network_plugin})' if network_plugin else ''}, DaemonSets {daemonsets}, "
        f"reserve {assumptions.reserve}; options change each of these, "
        "and --nodes replaces them by facts"
    ]
    notes += [remark for size in sizes for remark in size.remarks]
    candidates = [Candidate(group.members[0], group.nodes[0], complete=False) for group in groups]
    return Selection(groups, assumptions, candidates=candidates, notes=notes)


def select_nodes(
    node_items: Iterable[Mapping[str, Any]],
    pod_items: Iterable[Mapping[str, Any]] | None,
    assumptions: Assumptions,
    daemonsets: DaemonSets,
    *,
    source: str,
    place: str,
    tolerations: Iterable[Toleration] = (),
    architecture: str = "amd64",
    by_pool: bool = False,
    selector_of_extension: Mapping[str, str] | None = None,
    node_selector: Mapping[str, str] = NO_LABELS,
) -> Selection:
    """Groups from raw Node and Pod objects, saved or live."""
    tolerated = tuple(tolerations)
    nodes = parse_nodes(node_items)
    pods = occupants_by_node(pod_items) if pod_items is not None else {}
    candidates = size_nodes(
        nodes,
        pods,
        assumptions,
        daemonsets,
        tolerations=tolerated,
        architecture=architecture,
        selector_of_extension=selector_of_extension,
        node_selector=node_selector,
    )
    groups = group_nodes(candidates, source=source, by_pool=by_pool)
    refused = [row.unusable for row in candidates if row.unusable]
    selection = Selection(groups, assumptions, place, nodes, refused, candidates, tolerated)
    if pod_items is None:
        selection.notes.append(
            f"assumed: DaemonSets {daemonsets}; --pods FILE counts the real ones"
        )
    if groups and all(node.system_pool for group in groups for node in group.members):
        selection.notes.append(
            "only nodes of a system pool can take jobs now: are the pools for jobs at zero nodes?"
        )
    selection.notes += _unusable_notes(refused)
    selection.notes += [note for group in groups if (note := pods_blocking_whole_node(group))]
    return selection


def group_of_size(
    size: vm_sizes.VmSize, assumptions: Assumptions, occupants: Sequence[Occupant]
) -> NodeGroup:
    """The nodes of a size, all alike."""
    sized = schedulable_of_size(size, assumptions, occupants)
    os = "windows" if assumptions.windows else "linux"
    labels = {
        SIZE_LABELS[0]: size.name,
        "kubernetes.io/arch": size.architecture,
        "kubernetes.io/os": os,
    }
    node = Node(
        size.name, labels, (), None, False, os, size.architecture, "", devices=sized.devices
    )
    return NodeGroup(
        title=size.name,
        selector=((SIZE_LABELS[0], size.name),),
        nodes=(sized,),
        source="sku",
        size=size.name,
        members=(node,),
    )


def size_nodes(
    nodes: Sequence[Node],
    occupants: Mapping[str, list[Occupant]],
    assumptions: Assumptions,
    daemonsets: DaemonSets,
    *,
    tolerations: Iterable[Toleration] = (),
    architecture: str = "amd64",
    selector_of_extension: Mapping[str, str] | None = None,
    node_selector: Mapping[str, str] = NO_LABELS,
) -> list[Candidate]:
    """What each node can give, and why jobs cannot use it or types are not sized for it.

    Without `selector_of_extension`, the extension's own pods show which nodes it allows. Of the
    nodes that `node_selector` selects, those of a system pool are left out if there are others.
    """
    tolerated = list(tolerations)
    if selector_of_extension is None:
        selector_of_extension = extension_selector(occupants, assumptions.extension_namespace)
    refused = {
        node.name: unusable(node, tolerated, architecture, selector_of_extension) for node in nodes
    }
    # Devices that a usable node of that size and kinds shows, anywhere ("") and in a pool.
    most: dict[tuple[str, tuple[str, ...], str], int] = {}
    for node in nodes:
        if node.devices and refused[node.name] is None:
            # a node that shows none should have those of any other
            for kinds in ((), tuple(node.devices)):
                for pool in {"", node.pool}:
                    most[node.size, kinds, pool] = max(
                        most.get((node.size, kinds, pool), 0), node.gpus
                    )
    candidates = []
    for node in nodes:
        extra = daemonsets.occupants_for(version_of(node, assumptions))
        sized = schedulable_of_node(node, assumptions, [*occupants.get(node.name, ()), *extra])
        reason = refused[node.name]
        if reason is None:
            reason = _fewer_gpus(node, most) or _full(node, sized)
        candidates.append(Candidate(node, sized, reason))
    for excludes, exclusion in (
        (lambda node: node.control_plane, WhyUnusable.BESIDE_WORKERS),
        (lambda node: node.system_pool, WhyUnusable.SYSTEM_POOL),
    ):
        candidates = _exclude(candidates, node_selector, excludes, exclusion)
    return candidates


def _exclude(
    candidates: list[Candidate],
    node_selector: Mapping[str, str],
    excludes: Callable[[Node], bool],
    reason: WhyUnusable,
) -> list[Candidate]:
    """No types for some nodes, if there are others: a control plane without a taint (k3s,
    OpenShift), or a system pool, where CoreDNS and its kin take a part of a whole-node type."""
    usable = [
        row
        for row in candidates
        if row.unusable is None and matches(node_selector, row.node.labels)
    ]
    left_out = [row.node.name for row in usable if excludes(row.node)]
    if len(left_out) == len(usable):
        return candidates
    return [
        replace(row, unusable=UnusableNode(row.node, reason, reason.value))
        if row.node.name in left_out
        else row
        for row in candidates
    ]


def _fewer_gpus(
    node: Node, most: Mapping[tuple[str, tuple[str, ...], str], int]
) -> UnusableNode | None:
    """A broken GPU or no device plugin: fewer GPUs than its size has, or than others show.

    The GPUs of a known size may be divided in one pool and whole in another, so only its own pool
    counts.
    """
    size, kinds = vm_sizes.find(node.size), tuple(node.devices)
    if size and size.gpu_resource and set(kinds) <= {size.gpu_resource}:
        expected = max(most.get((node.size, kinds, node.pool), 0), size.node_gpus)
    else:
        expected = most.get((node.size, kinds, ""), 0)
    if not node.failed_devices and (not node.size or node.gpus >= expected):
        return None
    text = f"only {node.gpus} of {max(expected, node.gpus + node.failed_devices)} GPUs"
    question = "is one of them broken?" if node.gpus else "is the device plugin running?"
    return UnusableNode(node, WhyUnusable.FEWER_GPUS, text, f": {question}")


def _full(node: Node, sized: Schedulable) -> UnusableNode | None:
    """A node on which DaemonSets leave nothing: others of its size may have room."""
    if sized.cpu_m > 0 and sized.memory > 0 and sized.pods_free > 0:
        return None
    over = [f"{-sized.cpu_m}m cpu"] if sized.cpu_m < 0 else []
    over += [f"{-(sized.memory // MI)}Mi memory"] if sized.memory < 0 else []
    by = f" by {' and '.join(over)}" if over else ""
    text = (
        f"what it keeps and its DaemonSets exceed its capacity{by}"
        if over
        else "what it keeps is all it has"
    )
    return UnusableNode(node, WhyUnusable.FULL, WhyUnusable.FULL.value, f": {text}")


def group_nodes(candidates: Iterable[Candidate], *, source: str, by_pool: bool) -> list[NodeGroup]:
    """Usable nodes by size label (and pool, if asked), as a nodeSelector selects them.

    Nodes of one size with devices of different kinds (MIG on some of them) are apart: each type
    asks for one kind. So are spot nodes: a job that must not be evicted has its own type.
    """
    by_labels: dict[tuple[Selector, tuple[str, ...], int, bool], list[Candidate]] = {}
    for row in candidates:
        if row.unusable is None:
            labels = [row.node.size_label] + ([row.node.pool_label] if by_pool else [])
            labels += [row.node.spot_label]
            key = (
                tuple(label for label in labels if label),
                tuple(row.node.devices),
                gpu_parts(row.node),
                row.node.spot,
            )
            by_labels.setdefault(key, []).append(row)
    groups = []
    for (selector, *_), rows in sorted(by_labels.items()):
        members, sized = tuple(row.node for row in rows), tuple(row.schedulable for row in rows)
        groups.append(NodeGroup.from_nodes(members, sized, selector, source))
    return groups


def _unusable_notes(refused: list[UnusableNode]) -> list[str]:
    by_reason: dict[str, list[str]] = {}
    for row in refused:
        by_reason.setdefault(str(row), []).append(row.node.name)
    return [
        f"left out {plural(len(names), 'node')} ({some_names(names)}): {reason}"
        for reason, names in by_reason.items()
    ]


def pods_blocking_whole_node(group: NodeGroup) -> str | None:
    """Pods of Deployments and the like that defeat a type which takes all that is schedulable."""
    guests = [(node.name, occupant) for node in group.nodes for occupant in node.other_pods]
    if not guests:
        return None
    nodes = {name for name, _ in guests}
    pods = [
        f"{o.namespace}/{o.name} ({o.cpu_m}m, {o.memory // MI}Mi) on {name}" for name, o in guests
    ]
    return (
        f"{len(nodes)} of {len(group.nodes)} nodes of {group.title} also run pods that belong to "
        "no DaemonSet "
        f"and defeat a whole-node type there: {some_names(pods)}; "
        "keep them off with a taint such as "
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
                if fnmatch.fnmatchcase(key, pattern)
                or fnmatch.fnmatchcase(key, f"standard_{pattern}")
            ]
            if not matches:
                raise ArcError(f"no VM size matches {name!r} in the shipped table")
        else:
            matches = [vm_sizes.lookup(name)]
        by_name.update({size.name: size for size in matches})
    return list(by_name.values())
