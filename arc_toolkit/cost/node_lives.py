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
        evicted = bool(said & _reasons_of("node event", "spot-preemption")) or _drained_for_eviction(node)
        scaled_down = bool(said & _reasons_of("node event", "scale-down"))
        yield NodeLife(hours, evicted, not evicted and not scaled_down)


@cache
def _reasons_of(where: str, cause: str) -> frozenset[str]:
    """The reason strings that prove a cause, from the table that `diagnose` uses."""
    return frozenset(
        row["reason"] for row in data_rows("signals.csv") if (row["where"], row["kind"]) == (where, cause)
    )


def _drained_for_eviction(node: Node) -> bool:
    return any(taint.key in _reasons_of("node taint", "spot-preemption") for taint in node.taints)


def _reasons_by_node(events: Iterable[Mapping[str, Any]]) -> dict[str, list[tuple[str, float | None]]]:
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
