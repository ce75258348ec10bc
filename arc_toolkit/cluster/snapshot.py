"""The nodes of a live cluster with what each can give to jobs, read in pages, and their changes."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from arc_toolkit.cluster.client import Client
from arc_toolkit.cluster.failures import Gone
from arc_toolkit.kube.nodes import Node, parse_node, parse_nodes
from arc_toolkit.kube.taints import Toleration
from arc_toolkit.sizing.fits import Candidate
from arc_toolkit.sizing.node_selection import DaemonSets, size_nodes
from arc_toolkit.sizing.occupants import occupants_by_node
from arc_toolkit.sizing.schedulable import Assumptions
from arc_toolkit.stderr import Progress

NODES = "/api/v1/nodes"
PODS = "/api/v1/pods"
# Finished pods take nothing from a node; the server need not send them.
UNFINISHED = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}


def nodes(client: Client, progress: Progress) -> Iterator[dict[str, Any]]:
    """Every Node, raw."""
    return _count(client.list(NODES), "nodes", progress)


def pods(client: Client, progress: Progress) -> Iterator[dict[str, Any]]:
    """Every Pod that is not finished, raw."""
    return _count(client.list(PODS, UNFINISHED), "pods", progress)


def sized_nodes(
    client: Client,
    assumptions: Assumptions,
    tolerations: Collection[Toleration],
    architecture: str,
    progress: Progress,
) -> list[Candidate]:
    """All nodes, those included that jobs cannot use, in the order of names."""
    whole_nodes = parse_nodes(nodes(client, progress))
    occupants = occupants_by_node(pods(client, progress))
    return size_nodes(
        whole_nodes,
        occupants,
        assumptions,
        DaemonSets(()),
        tolerations=tolerations,
        architecture=architecture,
    )


def _count(
    items: Iterable[dict[str, Any]], kind: str, progress: Progress
) -> Iterator[dict[str, Any]]:
    for count, item in enumerate(items, 1):
        if count % 500 == 0:
            progress(f"read {count} {kind}")
        yield item


_SETTLE_SECONDS = 2  # nodes of a pool change together
_RECHECK_SECONDS = 300  # for changes that no node shows, such as a new DaemonSet


def node_changes(client: Client) -> Iterator[None]:
    """At once, and again whenever a node comes, goes or changes in a way that matters to sizing."""
    while True:
        listing = client.list(NODES)
        nodes = {item["metadata"]["name"]: parse_node(item) for item in listing}
        yield
        _wait_for_change(client, nodes, listing.resource_version)


def _wait_for_change(client: Client, nodes: dict[str, Node], resource_version: str) -> None:
    try:
        for event in client.watch(NODES, resource_version, seconds=_RECHECK_SECONDS):
            item = event["object"]
            is_equal = nodes.get(item["metadata"]["name"]) == parse_node(item)
            if event["type"] == "DELETED" or not is_equal:
                time.sleep(_SETTLE_SECONDS)
                return
    except Gone:
        return
