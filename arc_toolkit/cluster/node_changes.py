"""When to look at the nodes of a cluster again."""

from __future__ import annotations

import time
from collections.abc import Iterator

from arc_toolkit.cluster.client import Client
from arc_toolkit.cluster.failures import Gone
from arc_toolkit.cluster.snapshot import NODES
from arc_toolkit.kube.nodes import Node, parse_node

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
            same = nodes.get(item["metadata"]["name"]) == parse_node(item)
            if event["type"] == "DELETED" or not same:
                time.sleep(_SETTLE_SECONDS)
                return
    except Gone:
        return
