"""`cluster nodes`: what the nodes of a cluster have, keep and can give to jobs, and which types fit on them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from arc_toolkit.cli import live, node_options
from arc_toolkit.cli.console import Console
from arc_toolkit.cli.main import REPEATED
from arc_toolkit.errors import OK

if TYPE_CHECKING:
    from arc_toolkit.cluster.client import Client
    from arc_toolkit.kube.instance_type_spec import InstanceTypeSpec
    from arc_toolkit.kube.nodes import UnusableNode
    from arc_toolkit.sizing.fits import Candidate
    from arc_toolkit.sizing.schedulable import Schedulable

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
    amounts: Mapping[str, Amount]
    gpus: int
    unusable: UnusableNode | None
    types: tuple[tuple[str, int], ...]
    labels: Mapping[str, str] = field(default_factory=dict)


SORTS: dict[str, Callable[[Row], Any]] = {
    "name": lambda row: (row.size.lower(), row.pool, row.name),
    "nodes": lambda row: -row.nodes,
    "cpu": lambda row: -row.amounts["schedulable"][0],
    "memory": lambda row: -row.amounts["schedulable"][1],
    "schedulable": lambda row: tuple(-amount for amount in row.amounts["schedulable"]),
    "gpus": lambda row: -row.gpus,
    "daemonsets": lambda row: tuple(-amount for amount in reversed(row.amounts["daemonsets"])),
}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "--by",
        choices=["group", "node"],
        default="group",
        help="one row per group (default) or node",
    )
    parser.add_argument(
        "--sort", choices=list(SORTS), default="name", help="amounts sort largest first (name)"
    )
    parser.add_argument("--label", **REPEATED, metavar="KEY", help="a column with this label")
    live.add_look_options(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    from arc_toolkit.cluster import snapshot

    assumptions, tolerations = live.assumptions(args), node_options.tolerations_of(args)
    client = live.connect(args, console)
    by_node = args.by == "node"

    def look() -> int:
        nodes = snapshot.sized_nodes(
            client, assumptions, tolerations, args.architecture, console.progress
        )
        rows = make_rows(nodes, _types(client, console), by_node=by_node, labels=args.label)
        rows.sort(key=SORTS[args.sort])
        console.clear_progress()
        console.out(
            _json(rows)
            if args.format == "json"
            else table_text(rows, by_node=by_node, labels=args.label)
        )
        return OK

    return live.watch(client, console, look) if args.watch else look()


def make_rows(
    nodes: Sequence[Candidate],
    types: Sequence[InstanceTypeSpec],
    *,
    by_node: bool,
    labels: Sequence[str],
) -> list[Row]:
    """One row for each node, or for the nodes of one size, pool and state."""
    groups: dict[tuple[str, ...], list[Candidate]] = {}
    for sized in nodes:
        node = sized.node
        key = (node.name,) if by_node else (node.size, node.pool, str(sized.unusable or ""))
        groups.setdefault(key, []).append(sized)
    return [_row(group, types, by_node, labels) for group in groups.values()]


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
    specs = []
    for name, item in sorted(present.items()):
        try:
            specs.append(InstanceTypeSpec.parse(item))
        except ArcError as error:
            console.warn(f"InstanceType {name}: {error}")
    return specs


def _row(
    group: Sequence[Candidate],
    types: Sequence[InstanceTypeSpec],
    by_node: bool,
    labels: Sequence[str],
) -> Row:
    node, unusable = group[0].node, group[0].unusable
    cpu = _levels(
        min((sized.schedulable for sized in group), key=lambda schedulable: schedulable.cpu_m)
    )
    memory = _levels(
        min((sized.schedulable for sized in group), key=lambda schedulable: schedulable.memory)
    )
    counts: list[tuple[str, int]] = []
    for kind in types:
        taken = [
            sized.schedulable.how_many_of(kind)[0]
            for sized in group
            if kind.selects(sized.node.labels)
        ]
        fewest = min(taken, default=0)
        if fewest and (unusable is None or not unusable.why.keeps_jobs_off):
            counts.append((kind.name, fewest))
    return Row(
        name=node.name if by_node else "",
        size=node.size,
        pool=node.pool,
        nodes=len(group),
        # Of a node that reports nothing, nothing is kept either.
        amounts={key: (0, 0) if node.defect else (cpu[key][0], memory[key][1]) for key in cpu},
        gpus=min(sized.schedulable.gpus for sized in group),
        unusable=unusable,
        types=tuple(counts),
        labels={key: _some({sized.node.labels.get(key, "") for sized in group}) for key in labels},
    )


def _levels(schedulable: Schedulable) -> dict[str, Amount]:
    """The waterfall summed up: two levels, what DaemonSets take, what is reserved, and what is left."""
    from arc_toolkit.sizing.schedulable import LineKind

    kinds = {
        "capacity": LineKind.CAPACITY,
        "allocatable": LineKind.ALLOCATABLE,
        "daemonsets": LineKind.POD,
        "reserved": LineKind.RESERVE,
        "schedulable": LineKind.SCHEDULABLE,
    }
    amounts = {}
    for name, kind in kinds.items():
        lines = [
            (line, 1 if line.is_level else -1) for line in schedulable.lines if line.kind is kind
        ]
        amounts[name] = (
            sum(sign * line.cpu_m for line, sign in lines),
            sum(sign * line.memory for line, sign in lines),
        )
    return amounts


def _some(values: set[str]) -> str:
    names = sorted(values - {""})
    return ",".join(names[:3]) + (f",+{len(names) - 3}" if len(names) > 3 else "")


def table_text(rows: Sequence[Row], *, by_node: bool, labels: Sequence[str]) -> str:
    from arc_toolkit.output.table import table

    first = ["NODE", "SIZE", "POOL"] if by_node else ["SIZE", "POOL", "NODES"]
    amounts = ["CAPACITY", "ALLOCATABLE", "DAEMONSETS", "RESERVED", "SCHEDULABLE"]
    headers = [
        *first,
        *amounts,
        "GPUS",
        *(key.rpartition("/")[2].upper() for key in labels),
        "TYPES THAT FIT",
    ]
    lines = []
    for row in rows:
        names = [row.name, row.size, row.pool] if by_node else [row.size, row.pool, str(row.nodes)]
        types = ", ".join(f"{name} x{count}" for name, count in row.types)
        lines.append(
            [
                *(text or "-" for text in names),
                *(_amount_text(amount, row.unusable) for amount in row.amounts.values()),
                str(row.gpus or "-"),
                *(row.labels[key] or "-" for key in labels),
                f"left out: {row.unusable.brief}" if row.unusable else types or "-",
            ]
        )
    return table(headers, lines, right=(3, 4, 5, 6, 7, 8))


def _amount_text(amount: Amount, unusable: UnusableNode | None) -> str:
    if unusable and unusable.node.defect:
        return "-"
    cpu_m, memory = amount
    return f"{cpu_m}m / {memory // 2**20}Mi"


def _json(rows: Sequence[Row]) -> str:
    from arc_toolkit.output.jsonout import document

    content = [
        {
            "name": row.name or None,
            "size": row.size,
            "pool": row.pool,
            "nodes": row.nodes,
            **{
                key: {"cpu_m": cpu_m, "memory_bytes": memory}
                for key, (cpu_m, memory) in row.amounts.items()
            },
            "gpus": row.gpus,
            "left_out": str(row.unusable) if row.unusable else None,
            "instance_types": [{"name": name, "per_node": count} for name, count in row.types],
            "labels": dict(row.labels),
        }
        for row in rows
    ]
    return document("cluster-nodes", {"rows": content})
