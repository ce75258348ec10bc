"""`cluster nodes`: what the nodes of a cluster have, keep and can give to jobs, and which types fit on them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from arc_toolkit.cli import live, node_options
from arc_toolkit.console import Console
from arc_toolkit.errors import OK

if TYPE_CHECKING:
    from arc_toolkit.cluster.client import Client
    from arc_toolkit.cluster.snapshot import SizedNode
    from arc_toolkit.kube.instance_type_spec import InstanceTypeSpec
    from arc_toolkit.kube.nodes import UnusableNode
    from arc_toolkit.sizing.schedulable import Assumptions, Schedulable

EPILOG = """\
examples:
  arc-toolkit cluster nodes
  arc-toolkit cluster nodes --by node --label kubernetes.azure.com/scalesetpriority --sort schedulable
"""

Amount = tuple[int, int]  # milli-cores, bytes


@dataclass(frozen=True, slots=True)
class Row:
    """A node, or the nodes of one size, pool and state. Amounts are those of the node that gives least."""

    name: str
    size: str
    pool: str
    nodes: int
    capacity: Amount
    allocatable: Amount
    daemonsets: Amount
    reserved: Amount
    schedulable: Amount
    gpus: int
    unusable: UnusableNode | None
    types: tuple[tuple[str, int], ...]
    labels: Mapping[str, str] = field(default_factory=dict)


SORTS: dict[str, Callable[[Row], Any]] = {
    "name": lambda row: (row.size.lower(), row.pool, row.name),
    "nodes": lambda row: -row.nodes,
    "cpu": lambda row: -row.schedulable[0],
    "memory": lambda row: -row.schedulable[1],
    "schedulable": lambda row: (-row.schedulable[0], -row.schedulable[1]),
    "gpus": lambda row: -row.gpus,
    "daemonsets": lambda row: (-row.daemonsets[1], -row.daemonsets[0]),
}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "--by", choices=["group", "node"], default="group", help="one row a group (default) or node"
    )
    parser.add_argument("--sort", choices=list(SORTS), default="name", help="amounts sort largest first (name)")
    parser.add_argument("--label", action="append", default=[], metavar="KEY", help="a column with this label")
    live.add_look_options(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    assumptions = live.assumptions(args)
    client = live.connect(args)

    def look() -> int:
        rows = sorted(read_rows(args, client, assumptions, console), key=SORTS[args.sort])
        console.clear_progress()
        console.out(_json(rows) if args.format == "json" else _table(rows, args))
        return OK

    return live.watch(client, console, look) if args.watch else look()


def read_rows(args: argparse.Namespace, client: Client, assumptions: Assumptions, console: Console) -> list[Row]:
    """The rows of a live cluster, unsorted."""
    from arc_toolkit.cluster import snapshot

    found = snapshot.sized_nodes(
        client, assumptions, node_options.tolerations_of(args), args.architecture, console.progress
    )
    types = _types(client, console)
    groups: dict[tuple[str, ...], list[SizedNode]] = {}
    for member in found:
        node = member.node
        key = (node.name,) if args.by == "node" else (node.size, node.pool, str(member.unusable or ""))
        groups.setdefault(key, []).append(member)
    return [_row(group, types, args) for group in groups.values()]


def _types(client: Client, console: Console) -> list[InstanceTypeSpec]:
    from arc_toolkit.cluster import live_types
    from arc_toolkit.cluster.failures import NotFound
    from arc_toolkit.errors import ArcError
    from arc_toolkit.kube.instance_type_spec import InstanceTypeSpec

    try:
        present = live_types.read(client)
    except NotFound as error:
        console.note(str(error))
        return []
    found = []
    for name, item in sorted(present.items()):
        try:
            found.append(InstanceTypeSpec.parse(item))
        except ArcError as error:
            console.warn(f"InstanceType {name}: {error}")
    return found


def _row(group: Sequence[SizedNode], types: Sequence[InstanceTypeSpec], args: argparse.Namespace) -> Row:
    node, unusable = group[0].node, group[0].unusable
    cpu = _levels(min((member.schedulable for member in group), key=lambda schedulable: schedulable.cpu_m))
    memory = _levels(min((member.schedulable for member in group), key=lambda schedulable: schedulable.memory))
    counts: list[tuple[str, int]] = []
    for kind in types:
        taken = [kind.count_on(member.schedulable)[0] for member in group if kind.selects(member.node.labels)]
        fewest = min(taken, default=0)
        if fewest and not unusable:
            counts.append((kind.name, fewest))
    return Row(
        name=node.name if args.by == "node" else "",
        size=node.size,
        pool=node.pool,
        nodes=len(group),
        **{key: (cpu[key][0], memory[key][1]) for key in cpu},
        gpus=min(member.schedulable.gpus for member in group),
        unusable=unusable,
        types=tuple(counts),
        labels={key: _some({member.node.labels.get(key, "") for member in group}) for key in args.label},
    )


def _levels(schedulable: Schedulable) -> dict[str, Amount]:
    """The waterfall summed up: two levels, what DaemonSets take, what is reserved, and what is left."""
    from arc_toolkit.sizing.schedulable import LineKind

    def amount(kind: LineKind, sign: int = 1) -> Amount:
        lines = [line for line in schedulable.lines if line.kind is kind]
        return sign * sum(line.cpu_m for line in lines), sign * sum(line.memory for line in lines)

    return {
        "capacity": amount(LineKind.CAPACITY),
        "allocatable": amount(LineKind.ALLOCATABLE),
        "daemonsets": amount(LineKind.POD, -1),
        "reserved": amount(LineKind.RESERVE, -1),
        "schedulable": amount(LineKind.SCHEDULABLE),
    }


def _some(values: set[str]) -> str:
    names = sorted(values - {""})
    return ",".join(names[:3]) + (f",+{len(names) - 3}" if len(names) > 3 else "")


def _table(rows: Sequence[Row], args: argparse.Namespace) -> str:
    from arc_toolkit.output.table import table

    first = ["NODE", "SIZE", "POOL"] if args.by == "node" else ["SIZE", "POOL", "NODES"]
    amounts = ["CAPACITY", "ALLOCATABLE", "DAEMONSETS", "RESERVED", "SCHEDULABLE"]
    headers = [*first, *amounts, "GPUS", *(key.rpartition("/")[2].upper() for key in args.label), "TYPES THAT FIT"]
    lines = []
    for row in rows:
        names = [row.name, row.size, row.pool] if args.by == "node" else [row.size, row.pool, str(row.nodes)]
        numbers = [row.capacity, row.allocatable, row.daemonsets, row.reserved, row.schedulable]
        types = ", ".join(f"{name} x{count}" for name, count in row.types)
        lines.append(
            [
                *(text or "-" for text in names),
                *(f"{cpu_m}m / {memory // 2**20}Mi" for cpu_m, memory in numbers),
                str(row.gpus or "-"),
                *(row.labels[key] or "-" for key in args.label),
                f"left out: {row.unusable.brief}" if row.unusable else types or "-",
            ]
        )
    return table(headers, lines, right=(3, 4, 5, 6, 7, 8))


def _json(rows: Sequence[Row]) -> str:
    from arc_toolkit.output.jsonout import document

    def amount(pair: Amount) -> dict[str, int]:
        return {"cpu_m": pair[0], "memory_bytes": pair[1]}

    found = [
        {
            "name": row.name or None,
            "size": row.size,
            "pool": row.pool,
            "nodes": row.nodes,
            "capacity": amount(row.capacity),
            "allocatable": amount(row.allocatable),
            "daemonsets": amount(row.daemonsets),
            "reserved": amount(row.reserved),
            "schedulable": amount(row.schedulable),
            "gpus": row.gpus,
            "left_out": str(row.unusable) if row.unusable else None,
            "instance_types": [{"name": name, "per_node": count} for name, count in row.types],
            "labels": dict(row.labels),
        }
        for row in rows
    ]
    return document("cluster-nodes", {"rows": found})
