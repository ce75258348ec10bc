"""The nodes of a cluster as a table: capacity, reservations, schedulable, fitting types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from arc_toolkit.kube.instance_type_spec import InstanceTypeSpec
from arc_toolkit.kube.nodes import UnusableNode
from arc_toolkit.output.json_document import document
from arc_toolkit.output.table import table
from arc_toolkit.sizing.fits import Candidate
from arc_toolkit.sizing.schedulable import LineKind, Schedulable

Amount = tuple[int, int]  # milli-cores, bytes


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node, or nodes of one size, pool and state. Amounts are those of the tightest node."""

    name: str
    size: str
    pool: str
    nodes: int
    amounts: Mapping[str, Amount]
    gpus: int
    unusable: UnusableNode | None
    types: tuple[tuple[str, int], ...]
    labels: Mapping[str, str] = field(default_factory=dict)


SORTS: dict[str, Callable[[NodeRow], Any]] = {
    "name": lambda row: (row.size.lower(), row.pool, row.name),
    "nodes": lambda row: -row.nodes,
    "cpu": lambda row: -row.amounts["schedulable"][0],
    "memory": lambda row: -row.amounts["schedulable"][1],
    "schedulable": lambda row: tuple(-amount for amount in row.amounts["schedulable"]),
    "gpus": lambda row: -row.gpus,
    "daemonsets": lambda row: tuple(-amount for amount in reversed(row.amounts["daemonsets"])),
}


def make_rows(
    nodes: Sequence[Candidate],
    types: Sequence[InstanceTypeSpec],
    *,
    occupants_by_node: bool,
    labels: Sequence[str],
) -> list[NodeRow]:
    """One row for each node, or for the nodes of one size, pool and state."""
    groups: dict[tuple[str, ...], list[Candidate]] = {}
    for sized in nodes:
        node = sized.node
        key = (
            (node.name,) if occupants_by_node else (node.size, node.pool, str(sized.unusable or ""))
        )
        groups.setdefault(key, []).append(sized)
    return [_row(group, types, occupants_by_node, labels) for group in groups.values()]


def _row(
    group: Sequence[Candidate],
    types: Sequence[InstanceTypeSpec],
    occupants_by_node: bool,
    labels: Sequence[str],
) -> NodeRow:
    node, unusable = group[0].node, group[0].unusable
    cpu = _levels(
        min((sized.schedulable for sized in group), key=lambda schedulable: schedulable.cpu_m)
    )
    memory = _levels(
        min((sized.schedulable for sized in group), key=lambda schedulable: schedulable.memory)
    )
    counts: list[tuple[str, int]] = []
    for kind in types:
        fitting = [
            sized.schedulable.how_many_of(kind)[0]
            for sized in group
            if kind.selects(sized.node.labels)
        ]
        fewest = min(fitting, default=0)
        if fewest and (unusable is None or not unusable.reason.keeps_jobs_off):
            counts.append((kind.name, fewest))
    return NodeRow(
        name=node.name if occupants_by_node else "",
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
    """The waterfall in short: two levels, DaemonSets, reservations, and the remainder."""
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


def table_text(rows: Sequence[NodeRow], *, occupants_by_node: bool, labels: Sequence[str]) -> str:
    first = ["NODE", "SIZE", "POOL"] if occupants_by_node else ["SIZE", "POOL", "NODES"]
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
        names = (
            [row.name, row.size, row.pool]
            if occupants_by_node
            else [row.size, row.pool, str(row.nodes)]
        )
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


def rows_json(rows: Sequence[NodeRow]) -> str:
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
