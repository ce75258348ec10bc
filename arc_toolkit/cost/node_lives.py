"""How long spot nodes lived and how they ended, from the Node and Event objects that were recorded on a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any

from arc_toolkit.cost.eviction_rates import NodeLife
from arc_toolkit.kube.nodes import Node, read_node
from arc_toolkit.kube.raw import mapping, text
from arc_toolkit.resources import data_rows

AFTER_SECONDS = 3600.0  # an event about a node may be written after the node is gone


def node_lives(
    nodes: Iterable[Mapping[str, Any]],
    events: Iterable[Mapping[str, Any]],
    *,
    since: float | None,
    until: float,
    pool: str | None = None,
) -> Iterator[NodeLife]:
    """The spot nodes while they were watched, from `since` on: before that nobody saw the ones that were evicted."""
    reasons = _reasons_by_node(events)
    for item in nodes:
        node = read_node(item)
        created, deleted = _moment(node.created), _moment(node.deleted)
        if not node.spot or created is None or (pool and node.pool != pool):
            continue
        start = created if since is None else max(created, since)
        end = until if deleted is None else min(deleted, until)
        if end <= start:
            continue
        hours = (end - start) / 3600
        if deleted is None or deleted > until:
            yield NodeLife(hours)
            continue
        said = {
            reason
            for reason, moment in reasons.get(node.name, ())
            if moment is None or created <= moment <= deleted + AFTER_SECONDS
        }
        causes = _causes(node, said)
        evicted = "spot-preemption" in causes
        yield NodeLife(hours, evicted, not evicted and "scale-down" not in causes, deleted)


@cache
def _signals() -> dict[tuple[str, str], str]:
    """What the reasons of a node prove, from the table that `diagnose` uses."""
    return {(row["where"], row["reason"]): row["kind"] for row in data_rows("signals.csv")}


def _causes(node: Node, reasons: Iterable[str]) -> set[str | None]:
    """Events, and what the node had when it was last seen: the autoscaler and Karpenter mark it before they end it."""
    signs = [("node event", reason) for reason in reasons]
    signs += [("node taint", taint.key) for taint in node.taints]
    signs += [("node condition", item.type) for item in node.conditions if item.status == "True"]
    return {_signals().get(sign) for sign in signs}


def _reasons_by_node(
    events: Iterable[Mapping[str, Any]],
) -> dict[str, list[tuple[str, float | None]]]:
    rows: dict[str, list[tuple[str, float | None]]] = {}
    for event in events:
        about = mapping(event.get("involvedObject")) or mapping(event.get("regarding"))
        if about.get("kind") == "Node":
            moment = _moment(event.get("lastTimestamp")) or _moment(event.get("eventTime"))
            rows.setdefault(text(about.get("name")), []).append((text(event.get("reason")), moment))
    return rows


def _moment(value: object) -> float | None:
    if not isinstance(value, str) or not value:
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
