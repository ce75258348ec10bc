"""The nodes of a live cluster with what each can give to jobs, read in pages and kept small."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from arc_toolkit.cluster.client import Client
from arc_toolkit.sizing.nodes import Node, left_out, parse_nodes
from arc_toolkit.sizing.occupants import by_node
from arc_toolkit.sizing.supply import Assumptions, Supply, supply_of_node

NODES = "/api/v1/nodes"
PODS = "/api/v1/pods"
# Finished pods and those without a node take nothing from a node; the server need not send them.
SITTING = {"fieldSelector": "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"}

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Member:
    """A node, what it can give, and why jobs cannot use it now ("" if they can)."""

    node: Node
    supply: Supply
    left_out: str


def nodes(client: Client, progress: Progress) -> Iterator[dict[str, Any]]:
    """Every Node, raw."""
    return _counted(client.list(NODES), "nodes", progress)


def pods(client: Client, progress: Progress) -> Iterator[dict[str, Any]]:
    """Every Pod that sits on a node, raw."""
    return _counted(client.list(PODS, SITTING), "pods", progress)


def members(
    client: Client, assumptions: Assumptions, tolerated: Collection[str], architecture: str, progress: Progress
) -> list[Member]:
    """All nodes, those included that jobs cannot use, in the order of names."""
    found = parse_nodes(nodes(client, progress), client.where)
    sitting = by_node(pods(client, progress))
    return [
        Member(
            node,
            supply_of_node(node, assumptions, sitting.get(node.name, [])),
            left_out(node, tolerated, architecture) or "",
        )
        for node in found
    ]


def _counted(items: Iterable[dict[str, Any]], what: str, progress: Progress) -> Iterator[dict[str, Any]]:
    for count, item in enumerate(items, 1):
        if count % 500 == 0:
            progress(f"read {count} {what}")
        yield item
