"""The nodes of a live cluster with what each can give to jobs, read in pages and kept small."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from arc_toolkit.cluster.client import Client
from arc_toolkit.kube.nodes import Node, UnusableNode, parse_nodes, unusable
from arc_toolkit.kube.taints import Toleration
from arc_toolkit.sizing.occupants import by_node
from arc_toolkit.sizing.schedulable import Assumptions, Schedulable, schedulable_of_node

NODES = "/api/v1/nodes"
PODS = "/api/v1/pods"
# Finished pods take nothing from a node; the server need not send them.
UNFINISHED = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class SizedNode:
    """A node, what it can give, and why jobs cannot use it now."""

    node: Node
    schedulable: Schedulable
    unusable: UnusableNode | None


def nodes(client: Client, progress: Progress, bare: list[str] | None = None) -> Iterator[dict[str, Any]]:
    """Every Node, raw. One that has just joined and reports no capacity yet is passed over, its name put in `bare`."""
    for node in _counted(client.list(NODES), "nodes", progress):
        if {"cpu", "memory"} <= ((node.get("status") or {}).get("capacity") or {}).keys():
            yield node
        elif bare is not None:
            bare.append(node["metadata"]["name"])


def pods(client: Client, progress: Progress) -> Iterator[dict[str, Any]]:
    """Every Pod that is not finished, raw."""
    return _counted(client.list(PODS, UNFINISHED), "pods", progress)


def sized_nodes(
    client: Client,
    assumptions: Assumptions,
    tolerations: Collection[Toleration],
    architecture: str,
    progress: Progress,
) -> list[SizedNode]:
    """All nodes, those included that jobs cannot use, in the order of names."""
    whole_nodes = parse_nodes(nodes(client, progress), client.where)
    occupants = by_node(pods(client, progress))
    return [
        SizedNode(
            node,
            schedulable_of_node(node, assumptions, occupants.get(node.name, [])),
            unusable(node, tolerations, architecture),
        )
        for node in whole_nodes
    ]


def _counted(items: Iterable[dict[str, Any]], what: str, progress: Progress) -> Iterator[dict[str, Any]]:
    for count, item in enumerate(items, 1):
        if count % 500 == 0:
            progress(f"read {count} {what}")
        yield item
