"""Incidents: the same trouble in much of a pool within minutes is one event, not many bad nodes.

What happens to a node in an incident says nothing about the node, unless it stays down when most
others are back.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from arc_toolkit.diagnosis.judge.statistics import poisson_tail
from arc_toolkit.diagnosis.model import CauseKind, Incident
from arc_toolkit.diagnosis.read.cluster_index import ClusterIndex

WINDOW_SECONDS = 300
NEAR_SECONDS = 1800  # the usual rate is that of other times
LEAST_NODES = 3
LEAST_SHARE = 0.1  # of the pool's nodes
CHANCE = 1e-4  # how rarely the pool's usual rate of such trouble may give as much by chance
# A process may fail before the node reports it, and pods are evicted five minutes after a loss.
BEFORE_SECONDS = 300
AFTER_SECONDS = 900
# who is down so long after the start, while most are back, has trouble of its own
STILL_DOWN_SECONDS = 1800
ZONE_LABEL = "topology.kubernetes.io/zone"

CHECKS = {
    CauseKind.NODE_LOST: "check the network, the control plane, upgrades and Azure's status",
    CauseKind.NODE_MEMORY: "check what was started on all of them: a daemon set, or one large job",
    CauseKind.NODE_FAULT: "check what they share: image, driver, upgrade, Azure's status",
    CauseKind.NODE_PRESSURE: "check what was started on all of them: "
    "a daemon set, a large image, or one large job",
}
CHECK_ALL = "check what the jobs share: storage, registry, network, Azure's status"


class TroubleEvent(NamedTuple):
    """One sign of trouble. Only different families count as independent failures of jobs."""

    time: float
    node: str
    kind: CauseKind
    family: str = ""


@dataclass(slots=True)
class IncidentMap:
    """The incidents, and what belongs to one."""

    incidents: list[Incident] = field(default_factory=list)
    pools: dict[str, str | None] = field(default_factory=dict)  # of every known node

    def covers(self, node: str, time: float | None) -> bool:
        """Whether trouble of the node at that time belongs to an incident of its pool."""
        pool = self.pools.get(node)
        return time is not None and any(
            incident.start - BEFORE_SECONDS <= time <= incident.end + AFTER_SECONDS
            and any(self.pools.get(other) == pool for other in incident.nodes)
            for incident in self.incidents
        )

    def stays_down(
        self, node: str, since: float | None, down: frozenset[str], now: float | None
    ) -> bool:
        """Whether the node is still down long after an incident in which most others came back."""
        if since is None or now is None:
            return False
        return any(
            node in incident.nodes
            and incident.start - BEFORE_SECONDS <= since <= incident.end + AFTER_SECONDS
            and now - incident.start > STILL_DOWN_SECONDS
            and 2 * len(down.intersection(incident.nodes)) < len(incident.nodes)
            for incident in self.incidents
        )


def find(
    troubles: Iterable[TroubleEvent], pools: dict[str, str | None], cluster: ClusterIndex
) -> IncidentMap:
    """All incidents by time. `pools` has every known node with its pool."""
    sizes = Counter(pools.values())
    groups: dict[tuple[str | None, CauseKind], list[TroubleEvent]] = {}
    for trouble in troubles:
        groups.setdefault((pools.get(trouble.node), trouble.kind), []).append(trouble)
    times = [trouble.time for group in groups.values() for trouble in group]
    span = max(times) - min(times) if times else 0.0
    bursts = [
        incident
        for (pool, kind), group in groups.items()
        for incident in _bursts(sorted(group), pool, kind, sizes[pool], span)
    ]
    # Lost jobs without a known cause are part of what happened to the nodes at the time.
    bursts.sort(key=lambda incident: (incident.kind is CauseKind.UNKNOWN, incident.start))
    merged: list[Incident] = []
    for incident in bursts:
        for place, former in enumerate(merged):
            if _is_same(former, incident):
                merged[place] = _merge(former, incident)
                break
        else:
            merged.append(incident)
    merged.sort(key=lambda incident: incident.start)
    for place, incident in enumerate(merged):
        size = sum(sizes[pool] for pool in {pools.get(node) for node in incident.nodes})
        merged[place] = replace(_describe(incident, cluster), pool_size=size)
    return IncidentMap(merged, pools)


def _bursts(
    troubles: Sequence[TroubleEvent], pool: str | None, kind: CauseKind, size: int, span: float
) -> list[Incident]:
    """Windows with far more marks than usual; those that overlap are one incident."""
    least = max(LEAST_NODES, int(LEAST_SHARE * size) + 1)
    times = [trouble.time for trouble in troubles]
    windows: list[tuple[int, int, int]] = []
    first = 0
    for last, time in enumerate(times):
        while time - times[first] > WINDOW_SECONDS:
            first += 1
        if (
            last - first + 1 >= least
            and (count := _independent(troubles[first : last + 1])) >= least
        ):
            windows.append((first, last, count))
    crowds = _join_spans((first, last) for first, last, _ in windows)
    usual = max(span - 2 * NEAR_SECONDS, WINDOW_SECONDS) / WINDOW_SECONDS  # windows at other times

    def is_unusual(first: int, last: int, failures: int) -> bool:
        begin = bisect_left(times, times[first] - NEAR_SECONDS)
        end = bisect_right(times, times[last] + NEAR_SECONDS)
        distant = len(troubles) - (end - begin)
        # Trouble of many nodes at once is one event there too: an incident may come again.
        distant -= sum(to - start for start, to in crowds if to < begin or start >= end)
        return poisson_tail(failures, distant / usual) < CHANCE

    return [
        Incident(
            times[first],
            times[last],
            kind,
            tuple(sorted({trouble.node for trouble in troubles[first : last + 1]})),
            pool,
        )
        for first, last in _join_spans(
            (first, last) for first, last, count in windows if is_unusual(first, last, count)
        )
    ]


def _join_spans(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Those that overlap as one; they are in order."""
    result: list[tuple[int, int]] = []
    for first, last in spans:
        if result and first <= result[-1][1]:
            result[-1] = result[-1][0], last
        else:
            result.append((first, last))
    return result


def _independent(troubles: Sequence[TroubleEvent]) -> int:
    """Nodes, or families of jobs if fewer: one broken sweep on many nodes is not an incident."""
    families = {trouble.family or trouble.node for trouble in troubles}
    return min(len({trouble.node for trouble in troubles}), len(families))


def _is_same(former: Incident, other: Incident) -> bool:
    near = former.start - BEFORE_SECONDS <= other.end and other.start <= former.end + AFTER_SECONDS
    return near and (former.kind is other.kind or other.kind is CauseKind.UNKNOWN)


def _merge(former: Incident, other: Incident) -> Incident:
    same_pool = former.pool == other.pool
    if other.kind is CauseKind.UNKNOWN and former.kind is not other.kind and same_pool:
        return former
    return replace(
        former,
        start=min(former.start, other.start),
        end=max(former.end, other.end),
        nodes=tuple(sorted({*former.nodes, *other.nodes})),
        pool=former.pool if same_pool else None,
    )


def _describe(incident: Incident, cluster: ClusterIndex) -> Incident:
    count = len(incident.nodes)
    minutes = max(1, round((incident.end - incident.start) / 60))
    zones = Counter(
        cluster.nodes[name].labels.get(ZONE_LABEL, "")
        for name in incident.nodes
        if name in cluster.nodes
    )
    zone, most = zones.most_common(1)[0] if zones else ("", 0)
    has_other_zones = any(
        node.labels.get(ZONE_LABEL, "") != zone for node in cluster.nodes.values()
    )
    zone_text = (
        f" {most} of them in zone {zone},"
        if zone and has_other_zones and most > 0.9 * count
        else ""
    )
    checks = CHECKS.get(incident.kind, CHECK_ALL)
    return replace(
        incident,
        reason=f"{count} nodes within {minutes} min,{zone_text} not {count} bad nodes: {checks}",
    )
