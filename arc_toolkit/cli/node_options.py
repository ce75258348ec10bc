"""Which nodes to size for: the options that gen-instance-types and validate share."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable
from typing import Any

from arc_toolkit import inputs
from arc_toolkit.cli.console import Console
from arc_toolkit.cli.option_table import add_options
from arc_toolkit.errors import ArcError
from arc_toolkit.file_io import collector_paused
from arc_toolkit.kube.labels import parse_labels
from arc_toolkit.kube.quantities import QuantityError, bytes_requested, cpu_requested
from arc_toolkit.kube.raw import items_of
from arc_toolkit.kube.taints import Toleration
from arc_toolkit.sizing import occupants, reservations
from arc_toolkit.sizing.node_selection import (
    DEFAULT_DAEMONSETS,
    DaemonSets,
    Selection,
    select_nodes,
    select_sizes,
)
from arc_toolkit.sizing.schedulable import Assumptions, Reserve
from arc_toolkit.text import printable

DEFAULT_VERSION = "1.33"
DEFAULT_PLUGIN = "overlay"
# Options about what a node says itself, if there is one.
_ABOUT_NODES = (
    *("kubernetes-version", "max-pods", "capacity-memory"),
    *("kube-reserved-cpu", "kube-reserved-memory", "eviction-memory"),
)

OPTIONS = f"""
which nodes:
  --sku NAME ... +      VM sizes by name or pattern (`Standard_D*s_v5`)
  --nodes FILE          saved `kubectl get nodes -o json`; - for standard input
  --group-by {{size,pool}} [size]    nodes that share a type
  --tolerate KEY[=VALUE] ...    a taint that your jobs tolerate (spot pools)
  --architecture {{amd64,arm64}}    architecture of the nodes (default: amd64, or that of --sku)
reservations of a node (what a node reports wins over these):
  --kubernetes-version X.Y      for --sku (default: {DEFAULT_VERSION})
  --max-pods N          for --sku (default: depends on the network plugin)
  --network-plugin {{{",".join(reservations.MAX_PODS)}}} [{DEFAULT_PLUGIN}]
                        maxPods without --max-pods
  --os {{linux,windows}} [linux]    for --sku
  --capacity-memory QUANTITY    status.capacity.memory of such a node
  --kube-reserved-cpu QUANTITY      instead of the rule
  --kube-reserved-memory QUANTITY   instead of the rule
  --eviction-memory QUANTITY    hard eviction threshold, instead of the rule
pods already running on the nodes:
  --pods FILE           saved `kubectl get pods -A -o json`: DaemonSets are counted
  --daemonsets NAME|FILE ...    profile, or YAML file of name, cpu, memory; repeat for more; none
                        for nothing (default without --pods: {" and ".join(DEFAULT_DAEMONSETS)})
  --extension-namespace NAME [{occupants.EXTENSION_NAMESPACE}]
                        namespace of the extension; its pod that holds the reservation counts once
  --extension-selector KEY=VALUE    nodeSelector of the extension, which applies to jobs too; more
                        with commas (default: what its pods have, with --pods or --from-cluster)
  --reserve 5%|QUANTITY         reservation of the extension (default: 5%)
"""


def add_node_options(parser: argparse.ArgumentParser) -> None:
    memory, cpu = {"type": _quantity(bytes_requested)}, {"type": _quantity(cpu_requested)}
    add_options(
        parser,
        OPTIONS,
        capacity_memory=memory,
        kube_reserved_cpu=cpu,
        kube_reserved_memory=memory,
        eviction_memory=memory,
    )


def _quantity(parse: Callable[[str], int]) -> Callable[[str], int]:
    def read(text: str) -> int:
        try:
            amount = parse(text)
        except QuantityError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
        if amount < 0:
            raise argparse.ArgumentTypeError(f"{text}: cannot be negative")
        return amount

    return read


def assumptions_of(args: argparse.Namespace) -> Assumptions:
    """The options as data, each checked."""
    max_pods = (
        reservations.MAX_PODS[args.network_plugin] if args.max_pods is None else args.max_pods
    )
    low, high = reservations.MAX_PODS_RANGE
    if not low <= max_pods <= high:
        raise ArcError(f"--max-pods {max_pods}: AKS allows {low} to {high}")
    return Assumptions(
        version=reservations.parse_version(args.kubernetes_version or DEFAULT_VERSION),
        max_pods=max_pods,
        windows=args.os == "windows",
        reserve=Reserve() if args.reserve is None else Reserve.parse(args.reserve),
        extension_namespace=args.extension_namespace,
        capacity_memory=args.capacity_memory,
        kube_reserved_cpu_m=args.kube_reserved_cpu,
        kube_reserved_memory=args.kube_reserved_memory,
        eviction_memory=args.eviction_memory,
    )


def collect(args: argparse.Namespace) -> Selection | None:
    """Groups from --sku or --nodes; None if neither is there."""
    assumptions = assumptions_of(args)
    if args.sku and args.nodes:
        raise ArcError("use --sku or --nodes, not both")
    if args.pods and not args.nodes:
        raise ArcError("--pods goes with --nodes: pods say nothing without the nodes they run on")
    if args.nodes == "-" and args.pods == "-":
        raise ArcError(
            "standard input can be --nodes or --pods, not both: save one of them to a file"
        )
    if args.sku and args.extension_selector is not None:
        raise ArcError("--extension-selector goes with --nodes: a VM size may have any label")
    if args.sku:
        tolerations_of(args)  # VM sizes have no taints, but a mistake is a mistake
        names = [name for names in args.sku for name in names]
        plugin = "" if args.max_pods else args.network_plugin
        selection = select_sizes(names, assumptions, daemonsets_of(args), network_plugin=plugin)
        for group in selection.groups:
            architecture = group.members[0].architecture
            if args.architecture not in (None, architecture):
                raise ArcError(
                    f"--architecture {args.architecture}: {group.size} is {architecture}"
                )
        return selection
    if args.nodes:
        with collector_paused():
            nodes = items_of(inputs.load(args.nodes), "Node", args.nodes)
            pods = items_of(inputs.load(args.pods), "Pod", args.pods) if args.pods else None
            return select(args, nodes, pods, source="nodes", where=args.nodes)
    return None


def select(
    args: argparse.Namespace,
    nodes: Iterable[dict[str, Any]],
    pods: Iterable[dict[str, Any]] | None,
    *,
    source: str,
    where: str,
) -> Selection:
    """Groups of these nodes, as the options say."""
    selection = select_nodes(
        nodes,
        pods,
        assumptions_of(args),
        daemonsets_of(args, counted=pods is not None),
        source=source,
        place=where,
        tolerations=tolerations_of(args),
        architecture=args.architecture or "amd64",
        by_pool=args.group_by == "pool",
        selector_of_extension=extension_selector_of(args),
        node_selector=dict(parse_labels(getattr(args, "node_selector", "")) or ()),
    )
    # Options that count only if a node does not say it itself.
    names = [
        f"--{name}" for name in _ABOUT_NODES if getattr(args, name.replace("-", "_")) is not None
    ]
    if names:
        selection.notes.insert(
            0, f"{', '.join(names)}: used only if the node does not report it; nodes win"
        )
    return selection


def daemonsets_of(args: argparse.Namespace, *, counted: bool = False) -> DaemonSets:
    """Those of --daemonsets, the default, or none if the pods of the cluster are counted."""
    names = args.daemonsets or ([] if counted else DEFAULT_DAEMONSETS)
    files = {
        name: occupants.read_occupants(inputs.load(name), name)
        for name in names
        if name.endswith((".yaml", ".yml", ".json")) or os.sep in name
    }
    return DaemonSets(tuple(names), files)


def extension_selector_of(args: argparse.Namespace) -> dict[str, str] | None:
    """That of --extension-selector; None if its pods are to show it."""
    if args.extension_selector is None:
        return None
    labels = parse_labels(args.extension_selector)
    if labels is None:
        raise ArcError(f"--extension-selector {args.extension_selector}: write KEY=VALUE")
    return dict(labels)


def tolerations_of(args: argparse.Namespace) -> list[Toleration]:
    """Those of --tolerate: any value of the key, or only that one."""
    try:
        return [Toleration.parse_option(text) for text in args.tolerate]
    except ArcError as error:
        raise ArcError(f"--tolerate {error}") from None


def say(selection: Selection, console: Console) -> None:
    """The notes, on standard error."""
    for note in selection.notes:
        console.note(printable(note))
