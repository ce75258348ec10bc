"""Which nodes to size for: the options that gen-instance-types and validate share, and what they lead to."""

from __future__ import annotations

import argparse
import fnmatch
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from arc_toolkit.console import Console
from arc_toolkit.errors import ArcError
from arc_toolkit.kube.nodes import Node, UnusableNode, WhyUnusable, parse_nodes, unusable
from arc_toolkit.kube.quantities import MI, QuantityError, bytes_asked, cpu_asked
from arc_toolkit.kube.raw import items_of
from arc_toolkit.kube.taints import Toleration
from arc_toolkit.output.safe import printable
from arc_toolkit.sizing import occupants, reservations, vm_sizes
from arc_toolkit.sizing.occupants import Occupant
from arc_toolkit.sizing.reservations import Version
from arc_toolkit.sizing.supply import Assumptions, Group, Reserve, group_nodes, group_of_size

DEFAULT_VERSION = "1.33"
DEFAULT_PLUGIN = "overlay"
DEFAULT_DAEMONSETS = ("aks-overlay", "azureml")


@dataclass
class Selection:
    """The groups to size for, every node behind them, and what a person should know about them."""

    groups: list[Group]
    assumptions: Assumptions
    source: str
    nodes: list[Node] = field(default_factory=list)
    unusable: list[UnusableNode] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def add_options(parser: argparse.ArgumentParser) -> None:
    which = parser.add_argument_group("which nodes")
    which.add_argument(
        "--sku", action="append", nargs="+", metavar="NAME", help="VM sizes by name or pattern (`Standard_D*s_v5`)"
    )
    which.add_argument("--nodes", metavar="FILE", help="saved `kubectl get nodes -o json` (- for standard input)")
    which.add_argument(
        "--group-by", choices=["size", "pool"], default="size", help="nodes that share a type (size)"
    )
    which.add_argument(
        "--tolerate",
        action="append",
        default=[],
        metavar="KEY",
        help="a taint that your jobs tolerate (spot pools)",
    )
    which.add_argument("--architecture", default="amd64", choices=["amd64", "arm64"], help="of the nodes (amd64)")
    rules = parser.add_argument_group("what a node keeps (nodes that can be asked always win over these)")
    rules.add_argument("--kubernetes-version", metavar="X.Y", help=f"for --sku (default: {DEFAULT_VERSION})")
    rules.add_argument("--max-pods", type=int, metavar="N", help="for --sku (default: that of the network plugin)")
    rules.add_argument(
        "--network-plugin",
        choices=list(reservations.MAX_PODS),
        default=DEFAULT_PLUGIN,
        help=f"maxPods where --max-pods is not given (default: {DEFAULT_PLUGIN}, 250)",
    )
    rules.add_argument("--os", choices=["linux", "windows"], default="linux", help="for --sku (linux)")
    rules.add_argument(
        "--capacity-memory", metavar="QUANTITY", help="status.capacity.memory of such a node, if known"
    )
    rules.add_argument("--kube-reserved-cpu", metavar="QUANTITY", help="instead of the rule")
    rules.add_argument("--kube-reserved-memory", metavar="QUANTITY", help="instead of the rule")
    rules.add_argument(
        "--eviction-memory", metavar="QUANTITY", help="hard eviction threshold, instead of the rule"
    )
    sits = parser.add_argument_group("pods already running on the nodes")
    sits.add_argument("--pods", metavar="FILE", help="saved `kubectl get pods -A -o json`: DaemonSets are counted")
    sits.add_argument(
        "--daemonsets",
        action="append",
        metavar="NAME|FILE",
        help="profile or YAML file of name, cpu, memory; may be repeated; none for nothing "
        f"(default without --pods: {' and '.join(DEFAULT_DAEMONSETS)})",
    )
    sits.add_argument(
        "--extension-namespace",
        default=occupants.EXTENSION_NAMESPACE,
        metavar="NAME",
        help="where the extension runs; its pod that holds the reservation counts once (%(default)s)",
    )
    sits.add_argument("--reserve", default=None, metavar="5%|QUANTITY", help="the extension's reservation (5%%)")


def assumptions_of(args: argparse.Namespace) -> Assumptions:
    """The options as data, each checked."""
    max_pods = reservations.MAX_PODS[args.network_plugin] if args.max_pods is None else args.max_pods
    low, high = reservations.MAX_PODS_RANGE
    if not low <= max_pods <= high:
        raise ArcError(f"--max-pods {max_pods}: AKS allows {low} to {high}")
    return Assumptions(
        version=reservations.parse_version(args.kubernetes_version or DEFAULT_VERSION),
        max_pods=max_pods,
        windows=args.os == "windows",
        reserve=Reserve() if args.reserve is None else Reserve.parse(args.reserve),
        extension_namespace=args.extension_namespace,
        capacity_memory=_amount(args.capacity_memory, "--capacity-memory", bytes_asked),
        kube_reserved_cpu_m=_amount(args.kube_reserved_cpu, "--kube-reserved-cpu", cpu_asked),
        kube_reserved_memory=_amount(args.kube_reserved_memory, "--kube-reserved-memory", bytes_asked),
        eviction_memory=_amount(args.eviction_memory, "--eviction-memory", bytes_asked),
    )


def collect(args: argparse.Namespace) -> Selection | None:
    """Groups from --sku or --nodes; None where neither is given."""
    assumptions = assumptions_of(args)
    if args.sku and args.nodes:
        raise ArcError("give --sku or --nodes, not both")
    if args.pods and not args.nodes:
        raise ArcError("--pods goes with --nodes: pods say nothing without the nodes they sit on")
    if args.nodes == "-" and args.pods == "-":
        raise ArcError("standard input can be --nodes or --pods, not both: save one of them to a file")
    if args.sku:
        return _from_sizes(args, assumptions)
    if args.nodes:
        from arc_toolkit import inputs as documents

        node_items = items_of(documents.load(args.nodes), "Node", args.nodes)
        pod_items = items_of(documents.load(args.pods), "Pod", args.pods) if args.pods else None
        return from_objects(args, assumptions, node_items, pod_items, source="nodes", where=args.nodes)
    return None


def _from_sizes(args: argparse.Namespace, assumptions: Assumptions) -> Selection:
    sizes = _sizes([name for names in args.sku for name in names])
    names = args.daemonsets or list(DEFAULT_DAEMONSETS)
    sitting = _everywhere(names)(assumptions.version)
    groups = [group_of_size(size, assumptions, sitting) for size in sizes]
    notes = [
        f"assumed: Kubernetes {assumptions.version_text}, maxPods {assumptions.max_pods}"
        f"{'' if args.max_pods else f' ({args.network_plugin})'}, DaemonSets {' + '.join(names)}, "
        f"reserve {assumptions.reserve}; options change each of these, and --nodes replaces them by facts"
    ]
    notes += [remark for size in sizes for remark in size.remarks]
    return Selection(groups, assumptions, "sku", notes=notes)


def from_objects(
    args: argparse.Namespace,
    assumptions: Assumptions,
    node_items: Iterable[Mapping[str, Any]],
    pod_items: Iterable[Mapping[str, Any]] | None,
    *,
    source: str,
    where: str,
) -> Selection:
    """Groups from raw Node and Pod objects, saved or live."""
    nodes = parse_nodes(node_items, where)
    usable, refused = _divide(nodes, args.tolerate, args.architecture)
    if not usable:
        why = f": {refused[0].node.name}: {refused[0]}" if refused else ""
        raise ArcError(f"{where}: none of {len(nodes)} nodes can run AzureML jobs{why}")
    sitting = occupants.by_node(pod_items) if pod_items is not None else {}
    names = args.daemonsets or ([] if pod_items is not None else list(DEFAULT_DAEMONSETS))
    groups = group_nodes(
        usable,
        sitting,
        assumptions,
        source=source,
        by_pool=args.group_by == "pool",
        everywhere=_everywhere(names),
    )
    selection = Selection(groups, assumptions, source, nodes, refused)
    if ignored := [option for option, value in _assumed(args) if value is not None]:
        selection.notes.append(f"{', '.join(ignored)}: only where a node does not say it itself; nodes win")
    if pod_items is None:
        selection.notes.append(f"assumed: DaemonSets {' + '.join(names)}; --pods FILE counts the real ones")
    selection.notes += _left_out_notes(refused)
    selection.notes += [note for group in groups for note in _doubts(group)]
    selection.notes += [note for group in groups if (note := defeated(group))]
    return selection


def _assumed(args: argparse.Namespace) -> list[tuple[str, object]]:
    names = ("kubernetes-version", "max-pods", "capacity-memory", "kube-reserved-cpu", "kube-reserved-memory")
    return [(f"--{name}", getattr(args, name.replace("-", "_"))) for name in (*names, "eviction-memory")]


def _divide(nodes: list[Node], tolerated: list[str], architecture: str) -> tuple[list[Node], list[UnusableNode]]:
    """Nodes that jobs can use, and the others with the reason."""
    tolerations = [Toleration(key) for key in tolerated]
    refused = {node.name: unusable(node, tolerations, architecture) for node in nodes}
    most: dict[str, int] = {}  # GPUs that a usable node of that size shows
    for node in nodes:
        if refused[node.name] is None:
            most[node.size] = max(most.get(node.size, 0), node.gpus)
    for node in nodes:
        if refused[node.name] is None and node.size and node.gpus < most[node.size]:
            others = f"{node.gpus} of the {most[node.size]} GPUs that others of its size show"
            text = f"only {others}: is the device plugin well?"
            refused[node.name] = UnusableNode(node, WhyUnusable.FEWER_GPUS, text)
    usable = [node for node in nodes if refused[node.name] is None]
    return usable, [row for row in refused.values() if row is not None]


def _left_out_notes(refused: list[UnusableNode]) -> list[str]:
    by_reason: dict[str, list[str]] = {}
    for row in refused:
        by_reason.setdefault(str(row), []).append(row.node.name)
    return [
        f"left out {len(names)} node{'s' if len(names) > 1 else ''} ({_some(names)}): {reason}"
        for reason, names in by_reason.items()
    ]


def _doubts(group: Group) -> list[str]:
    """What may be wrong with a group as a whole."""
    found = []
    if not group.selector:
        found.append(f"{group.title}: their types have no nodeSelector and may land on any node")
    size = vm_sizes.find(group.size) if group.size else None
    if size and size.gpu_resource and not group.gpus:
        found.append(f"{group.title}: the size has GPUs and no node shows any: is the device plugin installed?")
    return found


def defeated(group: Group) -> str | None:
    """Pods of Deployments and the like that defeat a type which takes all that is schedulable."""
    found = [(supply.name, occupant) for supply in group.supplies for occupant in supply.passing]
    if not found:
        return None
    nodes = {name for name, _ in found}
    pods = [f"{o.namespace}/{o.name} ({o.cpu_m}m, {o.memory // MI}Mi) on {name}" for name, o in found]
    return (
        f"{len(nodes)} of {len(group.supplies)} nodes of {group.title} also run pods that belong to no DaemonSet "
        f"and defeat a whole-node type there: {_some(pods)}; keep them off with a taint such as "
        "ml.azure.com/amlarc-workload=true:NoSchedule"
    )


def _some(names: list[str], most: int = 3) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _sizes(names: list[str]) -> list[vm_sizes.VmSize]:
    found: dict[str, vm_sizes.VmSize] = {}
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
        found.update({size.name: size for size in matches})
    return list(found.values())


def _everywhere(names: Iterable[str]) -> Callable[[Version], list[Occupant]]:
    """What the profiles and files say sits on every node, by its Kubernetes version."""
    from arc_toolkit import inputs as documents

    chosen = list(names)
    files = {
        name: occupants.from_document(documents.load(name), name)
        for name in chosen
        if name.endswith((".yaml", ".yml", ".json")) or os.sep in name
    }

    @cache
    def sitting(version: Version) -> list[Occupant]:
        rows = [files[name] if name in files else occupants.profile(name, version) for name in chosen]
        return [occupant for row in rows for occupant in row]

    return sitting


def _amount(text: str | None, option: str, parse: Callable[[str], int]) -> int | None:
    if text is None:
        return None
    try:
        amount = parse(text)
    except QuantityError as error:
        raise ArcError(f"{option}: {error}") from None
    if amount < 0:
        raise ArcError(f"{option} {text}: cannot be negative")
    return amount


def say(selection: Selection, console: Console) -> None:
    """The notes, on standard error."""
    for note in selection.notes:
        console.note(printable(note))
