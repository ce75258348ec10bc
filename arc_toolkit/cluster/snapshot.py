"""The nodes of a live cluster with what each can give to jobs, read in pages and kept small."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from arc_toolkit.cluster.client import Client
from arc_toolkit.sizing.nodes import Node, left_out, parse_nodes
from arc_toolkit.sizing.occupants import by_node
from arc_toolkit.sizing.supply import Assumptions, Supply, supply_of_node

NODES = "/api/v1/nodes"
PODS = "/api/v1/pods"
# Finished pods take nothing from a node; the server need not send them.
UNFINISHED = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Member:
    """A node, what it can give, and why jobs cannot use it now ("" if they can)."""

    node: Node
    supply: Supply
    left_out: str


def nodes(client: Client, progress: Progress, bare: list[str] | None = None) -> Iterator[dict[str, Any]]:
    """Every Node, raw. One that has just joined and reports no capacity yet is passed over, its name put in `bare`."""
    for node in _counted(client.list(NODES), "nodes", progress):
        if {"cpu", "memory"} <= ((node.get("status") or {}).get("capacity") or {}).keys():
            yield node
        elif bare is not None:
            bare.append(node["metadata"]["name"])


def pods(client: Client, progress: Progress) -> Iterator[dict[str, Any]]:
    """Every Pod that sits on a node or is about to, raw."""
    for pod in _counted(client.list(PODS, UNFINISHED), "pods", progress):
        spec = pod["spec"]
        if not spec.get("nodeName"):
            # A DaemonSet's pod that waits for room, perhaps behind a whole-node job, belongs to its node already.
            spec["nodeName"] = daemon_node(spec)
        yield pod


def daemon_node(spec: Mapping[str, Any]) -> str | None:
    """The node that the DaemonSet controller made a pod for: it says so in the pod's affinity, until it is bound."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or ()
    for term in terms:
        for field in term.get("matchFields") or ():
            if field.get("key") == "metadata.name" and field.get("operator") == "In" and len(field["values"]) == 1:
                return str(field["values"][0])
    return None


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
