"""All objects of a cluster with their indexes; pods are read by pod_states.py.

The JSON may be truncated or edited by hand, so any field may be missing or have another type.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from arc_toolkit.diagnosis import signals, times
from arc_toolkit.diagnosis.identities import pool_of, vm_instance_of
from arc_toolkit.diagnosis.model import ClusterFacts
from arc_toolkit.diagnosis.read.pod_states import ClusterEvent, PodState, read_pod
from arc_toolkit.kube.nodes import Node, read_node
from arc_toolkit.kube.quantities import GPU_RESOURCES
from arc_toolkit.kube.raw import Json, mapping, rows, text

LAST_TIMES = ("lastTimestamp", "deprecatedLastTimestamp", "eventTime", "firstTimestamp")
FIRST_TIMES = ("firstTimestamp", "deprecatedFirstTimestamp", "eventTime")
PROVIDER_VM = re.compile(r"/virtualMachineScaleSets/[^/]+/virtualMachines/(\d+)$", re.IGNORECASE)


class NodePlace(NamedTuple):
    """What is known about the VM of a node."""

    pool: str | None = None
    spot: bool | None = None
    vm_instance: int | None = None


@dataclass
class ClusterIndex:
    """All facts with their indexes. Events are sorted by time; those without a time come first."""

    pods: list[PodState] = field(default_factory=list)
    nodes: dict[str, Node] = field(default_factory=dict)
    node_events: dict[str, list[ClusterEvent]] = field(default_factory=dict)
    # by pod UID, and by namespace/name
    pod_events: dict[str, list[ClusterEvent]] = field(default_factory=dict)
    # node -> when it became another VM
    vm_replaced_at: dict[str, float] = field(default_factory=dict)
    # node -> when pods were evicted through the API
    drains: dict[str, list[float]] = field(default_factory=dict)
    # node -> when pods were removed because it was gone
    garbage_collected_at: dict[str, list[float]] = field(default_factory=dict)
    spot_pools: dict[str, bool] = field(default_factory=dict)
    tolerated: set[str] = field(default_factory=set)  # nodes with pods that may run on spot VMs
    # node -> starts of pods that succeeded
    successes: dict[str, list[float]] = field(default_factory=dict)
    # node -> whether it offers fewer devices than it has; only if its amounts are known
    fewer_devices: dict[str, bool] = field(default_factory=dict)
    # what each node has, even if it has 0 now
    node_resources: dict[str, frozenset[str]] = field(default_factory=dict)
    nodes_complete: bool = False
    newest: float | None = None  # the newest time of events, node conditions and heartbeats
    other_pods: int = 0  # not of AzureML jobs
    # Of Volcano: raw objects, and events by kind, namespace and name
    pod_groups: list[Json] = field(default_factory=list)
    volcano_jobs: list[Json] = field(default_factory=list)
    volcano_events: dict[tuple[str, str, str], list[ClusterEvent]] = field(default_factory=dict)
    _places: dict[str, NodePlace] = field(default_factory=dict)

    def node_place(self, name: str) -> NodePlace:
        """From the node itself, otherwise from its name, its pool, and its pods' tolerations."""
        place = self._places.get(name)
        if place is None:
            node = self.nodes.get(name)
            pool = (node.pool if node else None) or pool_of(name)
            spot = node.spot if node else self.spot_pools.get(pool) if pool else None
            if spot is None and name in self.tolerated:
                spot = True
            provider = PROVIDER_VM.search(node.provider_id) if node else None
            place = self._places[name] = NodePlace(
                pool,
                spot,
                int(provider[1]) if provider and len(provider[1]) < 10 else vm_instance_of(name),
            )
        return place

    def is_gone(self, name: str) -> bool:
        """Deleted, or missing from a complete list (not one that was saved with a selector)."""
        node = self.nodes.get(name)
        if node is not None or not self.nodes_complete:
            return bool(node and node.deleted)
        pool = pool_of(name)
        return pool is None or pool in self.spot_pools

    def events_of_job(self, pod: PodState) -> list[ClusterEvent]:
        """Of the Volcano job that made the pod, which is named `<job>-<task>-<index>`."""
        return self.volcano_events.get(("Job", pod.namespace, pod.name.rsplit("-", 2)[0]), [])

    def events_of_pod(self, pod: PodState) -> list[ClusterEvent]:
        """Those with its UID; otherwise those of its name, except from before it was created."""
        if events := self.pod_events.get(pod.uid):
            return events
        named = self.pod_events.get(f"{pod.namespace}/{pod.name}", [])
        first = (pod.created or 0.0) - 60
        return [event for event in named if event.time is None or event.time >= first]


def read(facts: Iterable[ClusterFacts]) -> ClusterIndex:
    """Index the objects of files, cluster and history; the newest state of each counts."""
    facts = list(facts)
    cluster = ClusterIndex(nodes_complete=any(part.nodes_complete for part in facts))
    for raw in _newest(item for part in facts for item in part.pods):
        pod = read_pod(raw)
        if pod.node and pod.wants_spot:
            cluster.tolerated.add(pod.node)
        if pod.node and pod.phase == "Succeeded" and pod.start is not None:
            cluster.successes.setdefault(pod.node, []).append(pod.start)
        if pod.node and pod.disrupted is not None:
            if pod.disruption == "EvictionByEvictionAPI":
                cluster.drains.setdefault(pod.node, []).append(pod.disrupted)
            elif pod.disruption == "DeletionByPodGC":
                cluster.garbage_collected_at.setdefault(pod.node, []).append(pod.disrupted)
        if pod.run_id is None:
            cluster.other_pods += 1
        else:
            cluster.pods.append(pod)
    for raw in _newest(item for part in facts for item in part.nodes):
        node = read_node(raw)
        listed = cluster.nodes.get(node.name)
        created = times.parse(node.created)
        if listed is None or (created or 0) >= (times.parse(listed.created) or 0):
            cluster.nodes[node.name] = node
        if node.name and created:
            _cut(cluster, node.name, created)
        status = mapping(raw.get("status"))
        cluster.node_resources[node.name] = frozenset(mapping(status.get("capacity")))
        fewer = _fewer_devices(status)
        if fewer is not None:
            cluster.fewer_devices[node.name] = fewer
    for raw in _newest(item for part in facts for item in part.events):
        _add_event(cluster, raw)
    cluster.pod_groups = list(_newest(item for part in facts for item in part.pod_groups))
    cluster.volcano_jobs = list(_newest(item for part in facts for item in part.volcano_jobs))
    for events in (
        *cluster.node_events.values(),
        *cluster.pod_events.values(),
        *cluster.volcano_events.values(),
    ):
        events.sort(key=lambda event: (event.time or 0.0, event.reason, event.message))
    for name, events in cluster.node_events.items():
        for begin in signals.REPLACED_BY:
            _cut_at_repairs(cluster, name, begin, events)
    for node in cluster.nodes.values():
        if pool := node.pool or pool_of(node.name):
            cluster.spot_pools[pool] = node.spot
    times_of_facts = [_newest_time(cluster, [item for part in facts for item in part.nodes])]
    times_of_facts += [part.read_at for part in facts]
    cluster.newest = max((moment for moment in times_of_facts if moment is not None), default=None)
    return cluster


def _newest_time(cluster: ClusterIndex, nodes: Iterable[Any]) -> float | None:
    """The end of the data. Events are in order of time."""
    moments = [
        times.parse(condition.get(key))
        for node in nodes
        for condition in rows(mapping(mapping(node).get("status")).get("conditions"))
        for key in ("lastHeartbeatTime", "lastTransitionTime")
    ]
    moments += [
        events[-1].time for events in (*cluster.node_events.values(), *cluster.pod_events.values())
    ]
    return max((moment for moment in moments if moment is not None), default=None)


def _fewer_devices(status: Mapping[str, Any]) -> bool | None:
    """A device that its plugin reports as unhealthy is in `capacity` but not in `allocatable`."""
    capacity, allocatable = mapping(status.get("capacity")), mapping(status.get("allocatable"))
    device_keys = [key for key in GPU_RESOURCES if key in capacity and key in allocatable]
    return (
        any(text(capacity[key]) != text(allocatable[key]) for key in device_keys)
        if device_keys
        else None
    )


def _cut_at_repairs(
    cluster: ClusterIndex, name: str, begin: str, events: list[ClusterEvent]
) -> None:
    """A node is another VM after a reimage or redeploy, even an unfinished one without an error."""
    started: float | None = None
    for event in events:
        if event.reason == f"{begin}Start":
            started = event.time
        elif event.reason == f"{begin}Error":
            started = None
        elif event.reason == f"{begin}End" and event.time is not None:
            started = None
            _cut(cluster, name, event.time)
    if started is not None:
        _cut(cluster, name, started)


def within(events: list[ClusterEvent], start: float, end: float) -> list[ClusterEvent]:
    """The events of a time window; those without a time are left out."""
    low = bisect_left(events, start, key=lambda event: event.time or 0.0)
    return events[low : bisect_right(events, end, key=lambda event: event.time or 0.0)]


def parse_list(data: bytes) -> ClusterFacts:
    """The output of `kubectl get ... -o json`: a list or one object, otherwise ValueError."""
    windows = data[:2] in (b"\xff\xfe", b"\xfe\xff")  # written by `>` in Windows PowerShell
    try:
        document = json.loads(data.decode("utf-16" if windows else "utf-8-sig"))
    except (UnicodeDecodeError, ValueError, RecursionError):
        raise ValueError("not JSON") from None
    if not isinstance(document, dict) or "kind" not in document:
        raise ValueError("not a Kubernetes list or object")
    kind = str(document["kind"])
    is_list = kind.endswith("List")
    items = document.get("items") if is_list else [document]
    items = items if isinstance(items, list) else []
    facts = ClusterFacts()
    for item in items:
        if isinstance(item, dict):
            facts.add(str(item.get("kind") or kind.removesuffix("List")), item)
    if items and not (
        facts.pods or facts.nodes or facts.events or facts.pod_groups or facts.volcano_jobs
    ):
        raise ValueError("no pods, nodes, events, or PodGroups and jobs of Volcano")
    return replace(facts, nodes_complete=is_list and bool(facts.nodes))


def _newest(objects: Iterable[Any]) -> Iterable[Json]:
    best: dict[str, tuple[int, Json]] = {}
    for index, item in enumerate(objects):
        if not isinstance(item, dict):
            continue
        meta = mapping(item.get("metadata"))
        key = (
            text(meta.get("uid"))
            or f"{text(meta.get('namespace'))}/{text(meta.get('name'))}/{index}"
        )
        version = text(meta.get("resourceVersion"))
        rank = int(version) if version.isascii() and version.isdigit() and len(version) < 20 else 0
        if key not in best or rank >= best[key][0]:
            best[key] = (rank, item)
    return [item for _, item in best.values()]


def _add_event(cluster: ClusterIndex, raw: Json) -> None:
    """Add an event of core/v1 or of events.k8s.io/v1 to its node or pod.

    A repeated event is added at its first and at its last time; Kubernetes only counts those in
    between.
    """
    involved = mapping(raw.get("involvedObject")) or mapping(raw.get("regarding"))
    series, meta = mapping(raw.get("series")), mapping(raw.get("metadata"))
    last = _first_time(
        [series.get("lastObservedTime"), *map(raw.get, LAST_TIMES), meta.get("creationTimestamp")]
    )
    first = _first_time(map(raw.get, FIRST_TIMES))
    name = text(involved.get("name"))
    if involved.get("kind") == "Node":
        target = cluster.node_events.setdefault(name, [])
    elif involved.get("kind") == "Pod":
        key = text(involved.get("uid")) or f"{text(involved.get('namespace')) or 'default'}/{name}"
        target = cluster.pod_events.setdefault(key, [])
    elif _is_of_volcano(involved):
        place = (text(involved.get("kind")), text(involved.get("namespace")) or "default", name)
        target = cluster.volcano_events.setdefault(place, [])
    else:
        return
    reason, message = text(raw.get("reason")), text(raw.get("message")) or text(raw.get("note"))
    if reason.startswith("Deleting node "):
        reason = "DeletingNode"  # older cloud providers write the message into the reason
    for moment in (last,) if first is None or first == last else (first, last):
        target.append(ClusterEvent(reason, message, moment))


def _is_of_volcano(involved: Mapping[str, Any]) -> bool:
    """A PodGroup, or a Job that is not one of Kubernetes itself (`batch/v1`)."""
    api = text(involved.get("apiVersion"))
    return involved.get("kind") == "PodGroup" or (
        involved.get("kind") == "Job" and (not api or api.startswith("batch.volcano.sh/"))
    )


def _first_time(values: Iterable[object]) -> float | None:
    return next((moment for value in values if (moment := times.parse(value)) is not None), None)


def _cut(cluster: ClusterIndex, node: str, moment: float) -> None:
    cluster.vm_replaced_at[node] = max(moment, cluster.vm_replaced_at.get(node, moment))
