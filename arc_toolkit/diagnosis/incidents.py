"""Incidents: much of a pool has the same trouble within minutes. That is one event of the cluster, not many bad nodes.

What happens to a node in an incident says nothing about the node, unless it stays down when most others are back.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import NamedTuple

from arc_toolkit.diagnosis.cluster_index import ClusterIndex
from arc_toolkit.diagnosis.model import CauseKind, Incident
from arc_toolkit.diagnosis.statistics import poisson_tail

WINDOW_SECONDS = 300
NEAR_SECONDS = 1800  # the usual rate is that of other times
LEAST_NODES = 3
LEAST_SHARE = 0.1  # of the pool's nodes
CHANCE = 1e-4  # how rarely the pool's usual rate of such trouble may give as much by chance
# A process may notice the trouble before the node does, and pods are evicted five minutes after their node is lost.
BEFORE_SECONDS = 300
AFTER_SECONDS = 900
STILL_DOWN_SECONDS = (
    1800  # who is down so long after the start, while most are back, has trouble of its own
)
ZONE_LABEL = "topology.kubernetes.io/zone"

CHECKS = {
    CauseKind.NODE_LOST: "check the network, the control plane, upgrades and Azure's status",
    CauseKind.NODE_MEMORY: "check what was started on all of them: a daemon set, or one large job",
    CauseKind.NODE_FAULT: "check what they share: image, driver, upgrade, Azure's status",
    CauseKind.NODE_PRESSURE: "check what was started on all of them: a daemon set, a large image, or one large job",
}
CHECK_ALL = "check what the jobs share: storage, registry, network, Azure's status"


class Mark(NamedTuple):
    """One sign of trouble. Only marks of different families count as independent failures of jobs."""

    time: float
    node: str
    kind: CauseKind
    family: str = ""


@dataclass(slots=True)
class IncidentMap:
    """The incidents, and what belongs to one."""

    incidents: list[Incident] = field(default_factory=list)
    pools: dict[str, str | None] = field(default_factory=dict)  # of every known node
    windows: dict[str | None, list[tuple[float, float]]] = field(default_factory=dict)  # by pool

    def covers(self, node: str, time: float | None) -> bool:
        """Whether trouble of the node at that time belongs to an incident of its pool."""
        spans = self.windows.get(self.pools.get(node), ())
        return time is not None and any(start <= time <= end for start, end in spans)

    def stays_down(
        self, node: str, since: float | None, down: frozenset[str], now: float | None
    ) -> bool:
        """Whether the node is still down long after an incident in which most others came back."""
        for incident in self.incidents:
            if (
                node in incident.nodes
                and since is not None
                and incident.start - BEFORE_SECONDS <= since
            ):
                back = len([name for name in incident.nodes if name not in down])
                late = now is not None and now - incident.start > STILL_DOWN_SECONDS
                if (
                    since <= incident.end + AFTER_SECONDS
                    and late
                    and 2 * back > len(incident.nodes)
                ):
                    return True
        return False


def find(marks: Iterable[Mark], pools: dict[str, str | None], cluster: ClusterIndex) -> IncidentMap:
    """All incidents by time. `pools` has every known node with its pool."""
    sizes: dict[str | None, int] = {}
    for pool in pools.values():
        sizes[pool] = sizes.get(pool, 0) + 1
    groups: dict[tuple[str | None, CauseKind], list[Mark]] = {}
    for mark in marks:
        groups.setdefault((pools.get(mark.node), mark.kind), []).append(mark)
    span = _span(mark for group in groups.values() for mark in group)
    bursts = [
        incident
        for (pool, kind), group in groups.items()
        for incident in _bursts(sorted(group), pool, kind, sizes[pool], span)
    ]
    # Lost jobs without a known cause are part of what happened to the nodes at the time.
    bursts.sort(key=lambda incident: (incident.kind is CauseKind.UNKNOWN, incident.start))
    merged: list[Incident] = []
    for incident in bursts:
        for place, known in enumerate(merged):
            if _is_same(known, incident):
                merged[place] = _merge(known, incident)
                break
        else:
            merged.append(incident)
    merged.sort(key=lambda incident: incident.start)
    windows: dict[str | None, list[tuple[float, float]]] = {}
    for place, incident in enumerate(merged):
        touched = {pools.get(node) for node in incident.nodes}
        for pool in touched:
            windows.setdefault(pool, []).append(
                (incident.start - BEFORE_SECONDS, incident.end + AFTER_SECONDS)
            )
        merged[place] = replace(
            _described(incident, cluster), pool_size=sum(sizes[pool] for pool in touched)
        )
    return IncidentMap(merged, pools, windows)


def _span(marks: Iterable[Mark]) -> float:
    times = [mark.time for mark in marks]
    return max(times) - min(times) if times else 0.0


def _bursts(
    marks: Sequence[Mark], pool: str | None, kind: CauseKind, size: int, span: float
) -> list[Incident]:
    """Windows with far more marks than usual; those that overlap are one incident."""
    least = max(LEAST_NODES, int(LEAST_SHARE * size) + 1)
    times = [mark.time for mark in marks]
    windows: list[tuple[int, int, int]] = []
    first = 0
    for last, time in enumerate(times):
        while time - times[first] > WINDOW_SECONDS:
            first += 1
        if last - first + 1 >= least and (many := _independent(marks[first : last + 1])) >= least:
            windows.append((first, last, many))
    crowds = _joined((first, last) for first, last, _ in windows)
    begins, ends = [begin for begin, _ in crowds], [end for _, end in crowds]
    repeated = [
        0,
        *accumulate(end - begin for begin, end in crowds),
    ]  # marks beyond the first of each crowd
    usual = max(span - 2 * NEAR_SECONDS, WINDOW_SECONDS) / WINDOW_SECONDS  # windows at other times

    def is_unusual(first: int, last: int, many: int) -> bool:
        near = (
            bisect_left(times, times[first] - NEAR_SECONDS),
            bisect_right(times, times[last] + NEAR_SECONDS),
        )
        elsewhere = len(marks) - (near[1] - near[0])
        # What happened to many nodes at once is one event there too: a pool may have the same incident again.
        elsewhere -= (
            repeated[bisect_left(ends, near[0])]
            + repeated[-1]
            - repeated[bisect_left(begins, near[1])]
        )
        return poisson_tail(many, elsewhere / usual) < CHANCE

    return [
        Incident(
            times[first],
            times[last],
            kind,
            tuple(sorted({mark.node for mark in marks[first : last + 1]})),
            pool,
        )
        for first, last in _joined(
            (first, last) for first, last, many in windows if is_unusual(first, last, many)
        )
    ]


def _joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Those that overlap as one; they are in order."""
    result: list[tuple[int, int]] = []
    for first, last in spans:
        if result and first <= result[-1][1]:
            result[-1] = result[-1][0], last
        else:
            result.append((first, last))
    return result


def _independent(marks: Sequence[Mark]) -> int:
    """Nodes, or families of jobs if there are fewer: one broken sweep on many nodes is not an incident."""
    families = {mark.family or mark.node for mark in marks}
    return min(len({mark.node for mark in marks}), len(families))


def _is_same(known: Incident, other: Incident) -> bool:
    near = known.start - BEFORE_SECONDS <= other.end and other.start <= known.end + AFTER_SECONDS
    return near and (known.kind is other.kind or other.kind is CauseKind.UNKNOWN)


def _merge(known: Incident, other: Incident) -> Incident:
    same = known.pool == other.pool
    if other.kind is CauseKind.UNKNOWN and known.kind is not other.kind and same:
        return known
    return replace(
        known,
        start=min(known.start, other.start),
        end=max(known.end, other.end),
        nodes=tuple(sorted({*known.nodes, *other.nodes})),
        pool=known.pool if same else None,
    )


def _described(incident: Incident, cluster: ClusterIndex) -> Incident:
    count = len(incident.nodes)
    minutes = max(1, round((incident.end - incident.start) / 60))
    zones = Counter(
        cluster.nodes[name].labels.get(ZONE_LABEL, "")
        for name in incident.nodes
        if name in cluster.nodes
    )
    zone, most = zones.most_common(1)[0] if zones else ("", 0)
    elsewhere = any(node.labels.get(ZONE_LABEL, "") != zone for node in cluster.nodes.values())
    where = f" {most} of them in zone {zone}," if zone and elsewhere and most > 0.9 * count else ""
    checks = CHECKS.get(incident.kind, CHECK_ALL)
    return replace(
        incident,
        reason=f"{count} nodes within {minutes} min,{where} not {count} bad nodes: {checks}",
    )
