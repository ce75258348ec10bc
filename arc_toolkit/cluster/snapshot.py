"""The nodes of a live cluster with what each can give to jobs, read in pages and kept small."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from arc_toolkit.cluster.client import Client
from arc_toolkit.kube.nodes import parse_nodes
from arc_toolkit.kube.taints import Toleration
from arc_toolkit.sizing.fits import Candidate
from arc_toolkit.sizing.node_selection import DaemonSets, size_nodes
from arc_toolkit.sizing.occupants import by_node
from arc_toolkit.sizing.schedulable import Assumptions

NODES = "/api/v1/nodes"
PODS = "/api/v1/pods"
# Finished pods take nothing from a node; the server need not send them.
UNFINISHED = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}

Progress = Callable[[str], None]


def nodes(client: Client, progress: Progress) -> Iterator[dict[str, Any]]:
    """Every Node, raw."""
    return _counted(client.list(NODES), "nodes", progress)


def pods(client: Client, progress: Progress) -> Iterator[dict[str, Any]]:
    """Every Pod that is not finished, raw."""
    return _counted(client.list(PODS, UNFINISHED), "pods", progress)


def sized_nodes(
    client: Client,
    assumptions: Assumptions,
    tolerations: Collection[Toleration],
    architecture: str,
    progress: Progress,
) -> list[Candidate]:
    """All nodes, those included that jobs cannot use, in the order of names."""
    whole_nodes = parse_nodes(nodes(client, progress))
    occupants = by_node(pods(client, progress))
    return size_nodes(
        whole_nodes,
        occupants,
        assumptions,
        DaemonSets(()),
        tolerations=tolerations,
        architecture=architecture,
    )


def _counted(
    items: Iterable[dict[str, Any]], what: str, progress: Progress
) -> Iterator[dict[str, Any]]:
    for count, item in enumerate(items, 1):
        if count % 500 == 0:
            progress(f"read {count} {what}")
        yield item
