"""Kubernetes objects as `diagnose` needs them: raw JSON in, small records and indexes out.

The JSON may be truncated or edited by hand, so any field may be missing or have another type.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from arc_toolkit.diagnosis import families, signals, times
from arc_toolkit.diagnosis.log_paths import rank_of
from arc_toolkit.diagnosis.model import ClusterFacts
from arc_toolkit.diagnosis.node_names import pool_of, vm_instance_of
from arc_toolkit.diagnosis.windows import LOOK_BACK_SECONDS
from arc_toolkit.kube.devices import GPU_RESOURCES
from arc_toolkit.kube.nodes import Node, read_node
from arc_toolkit.kube.pods import RUN_ID_LABEL, Pod
from arc_toolkit.kube.quantities import QuantityError, bytes_offered
from arc_toolkit.kube.raw import mapping, rows, text
from arc_toolkit.kube.taints import SPOT_KEY

Json = dict[str, Any]

LAST_TIMES = ("lastTimestamp", "deprecatedLastTimestamp", "eventTime", "firstTimestamp")
FIRST_TIMES = ("firstTimestamp", "deprecatedFirstTimestamp", "eventTime")
GANG_LABEL = "volcano.sh/job-name"
POD_GROUP_ANNOTATION = "scheduling.k8s.io/group-name"
PROVIDER_VM = re.compile(r"/virtualMachineScaleSets/[^/]+/virtualMachines/(\d+)$", re.IGNORECASE)


@dataclass(slots=True)
class ClusterEvent:
    reason: str
    message: str
    time: float | None


@dataclass(slots=True)
class ContainerState:
    name: str
    state: str  # terminated, waiting, running, or ""
    reason: str
    exit_code: int | None
    finished: float | None
    init: bool = False
    message: str = ""  # as the kubelet or the container wrote it: to be searched, never to be shown

    @property
    def was_cut_off(self) -> bool:
        """The runtime lost it and knows no exit code, as after a reboot of the node, which takes some minutes."""
        return self.state == "terminated" and self.reason in ("Unknown", "ContainerStatusUnknown")

    @property
    def fails_without_code(self) -> bool:
        """It failed, and its exit code is not known."""
        return self.state == "terminated" and self.exit_code is None and self.reason == "Error"


@dataclass(slots=True)
class PodState:
    uid: str
    name: str
    namespace: str
    run_id: str | None
    node: str | None
    rank: str | None
    phase: str
    reason: str
    message: str
    disruption: str  # reason of the condition DisruptionTarget
    disrupted: float | None
    containers: list[ContainerState]
    start: float | None
    end: float | None
    deleted: float | None
    wants_spot: bool
    evicted: ClusterEvent | None = None  # by Volcano, from the condition Ready=False
    parent: str | None = None  # the sweep or pipeline that it names
    created: float | None = None  # by the clock of the API server, unlike start and end, which are of its node
    gang: str | None = None  # its Volcano job; AzureML makes a new one for a retry of its own
    pod_group: str | None = None
    unscheduled: ClusterEvent | None = None  # the condition PodScheduled=False
    memory_limit: int = 0  # the largest of its containers, the job's own, in bytes; 0: none, or not known
    without_gpu: bool = False  # its containers are known, and none of them asks for a GPU


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
    pod_events: dict[str, list[ClusterEvent]] = field(default_factory=dict)  # by pod UID, and by namespace/name
    cuts: dict[str, float] = field(default_factory=dict)  # node -> when it became another VM
    drains: dict[str, list[float]] = field(default_factory=dict)  # node -> when pods were evicted through the API
    # node -> when pods were removed because it was gone
    collected: dict[str, list[float]] = field(default_factory=dict)
    spot_pools: dict[str, bool] = field(default_factory=dict)
    tolerated: set[str] = field(default_factory=set)  # nodes with pods that may run on spot VMs
    successes: dict[str, list[float]] = field(default_factory=dict)  # node -> starts of pods that succeeded
    # node -> whether it offers fewer devices than it has; only if its amounts are known
    fewer_devices: dict[str, bool] = field(default_factory=dict)
    nodes_complete: bool = False
    newest: float | None = None  # the newest time of events, node conditions and heartbeats
    other_pods: int = 0  # not of AzureML jobs
    # Of Volcano: raw objects, and events by kind, namespace and name
    pod_groups: list[Json] = field(default_factory=list)
    volcano_jobs: list[Json] = field(default_factory=list)
    volcano_events: dict[tuple[str, str, str], list[ClusterEvent]] = field(default_factory=dict)
    _places: dict[str, NodePlace] = field(default_factory=dict)

    def place(self, name: str) -> NodePlace:
        """From the node itself, otherwise from its name, the other nodes of its pool, and its pods' tolerations."""
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
        """Deleted, or missing from a complete list. A list without any node of its pool was saved with a selector."""
        node = self.nodes.get(name)
        if node is not None or not self.nodes_complete:
            return bool(node and node.deleted)
        pool = pool_of(name)
        return pool is None or pool in self.spot_pools

    def events_of_job(self, pod: PodState) -> list[ClusterEvent]:
        """Of the Volcano job that made the pod, which is named `<job>-<task>-<index>`."""
        return self.volcano_events.get(("Job", pod.namespace, pod.name.rsplit("-", 2)[0]), [])

    def events_of_pod(self, pod: PodState) -> list[ClusterEvent]:
        """Those with its UID; otherwise those of its name, except from before it was created: names are used again."""
        if events := self.pod_events.get(pod.uid):
            return events
        named = self.pod_events.get(f"{pod.namespace}/{pod.name}", [])
        first = (pod.created or 0.0) - 60
        return [event for event in named if event.time is None or event.time >= first]


def read(facts: Iterable[ClusterFacts]) -> ClusterIndex:
    """Index the objects from saved files, the live cluster and history; the newest state of each object counts."""
    facts = list(facts)
    cluster = ClusterIndex(nodes_complete=any(part.nodes_complete for part in facts))
    for raw in _newest(item for part in facts for item in part.pods):
        pod = _pod(raw)
        if pod.node and pod.wants_spot:
            cluster.tolerated.add(pod.node)
        if pod.node and pod.phase == "Succeeded" and pod.start is not None:
            cluster.successes.setdefault(pod.node, []).append(pod.start)
        if pod.node and pod.disrupted is not None:
            if pod.disruption == "EvictionByEvictionAPI":
                cluster.drains.setdefault(pod.node, []).append(pod.disrupted)
            elif pod.disruption == "DeletionByPodGC":
                cluster.collected.setdefault(pod.node, []).append(pod.disrupted)
        if pod.run_id is None:
            cluster.other_pods += 1
        else:
            cluster.pods.append(pod)
    for raw in _newest(item for part in facts for item in part.nodes):
        node = read_node(raw)
        known = cluster.nodes.get(node.name)
        created = times.parse(node.created)
        if known is None or (created or 0) >= (times.parse(known.created) or 0):
            cluster.nodes[node.name] = node
        if node.name and created:
            _cut(cluster, node.name, created)
        fewer = _fewer_devices(mapping(raw.get("status")))
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
    moments += [events[-1].time for events in (*cluster.node_events.values(), *cluster.pod_events.values())]
    return max((moment for moment in moments if moment is not None), default=None)


def _fewer_devices(status: Mapping[str, Any]) -> bool | None:
    """A device that its plugin reports as unhealthy is in `capacity` but not in `allocatable`."""
    capacity, allocatable = mapping(status.get("capacity")), mapping(status.get("allocatable"))
    known = [key for key in GPU_RESOURCES if key in capacity and key in allocatable]
    return any(text(capacity[key]) != text(allocatable[key]) for key in known) if known else None


def _cut_at_repairs(cluster: ClusterIndex, name: str, begin: str, events: list[ClusterEvent]) -> None:
    """A node is another VM after a reimage or redeploy; one that only started counts, unless an error followed."""
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
    """The output of `kubectl get ... -o json`: a list of objects, or one object. ValueError if it is something else."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):  # written by `>` in Windows PowerShell
        raise ValueError("UTF-16 text, which must be saved as UTF-8")
    try:
        document = json.loads(data.decode("utf-8-sig"))
    except (UnicodeDecodeError, ValueError, RecursionError):
        raise ValueError("not JSON") from None
    if not isinstance(document, dict) or "kind" not in document:
        raise ValueError("not a Kubernetes list or object")
    kind = str(document["kind"])
    whole = kind.endswith("List")
    items = document.get("items") if whole else [document]
    items = items if isinstance(items, list) else []
    facts = ClusterFacts()
    for item in items:
        if isinstance(item, dict):
            facts.add(str(item.get("kind") or kind.removesuffix("List")), item)
    if items and not (facts.pods or facts.nodes or facts.events or facts.pod_groups or facts.volcano_jobs):
        raise ValueError("no pods, nodes, events, or PodGroups and jobs of Volcano")
    return replace(facts, nodes_complete=whole and bool(facts.nodes))


def _newest(objects: Iterable[Any]) -> Iterable[Json]:
    best: dict[str, tuple[int, Json]] = {}
    for index, item in enumerate(objects):
        if not isinstance(item, dict):
            continue
        meta = mapping(item.get("metadata"))
        key = text(meta.get("uid")) or f"{text(meta.get('namespace'))}/{text(meta.get('name'))}/{index}"
        version = text(meta.get("resourceVersion"))
        rank = int(version) if version.isascii() and version.isdigit() and len(version) < 20 else 0
        if key not in best or rank >= best[key][0]:
            best[key] = (rank, item)
    return [item for _, item in best.values()]


def _pod(raw: Json) -> PodState:
    pod = Pod(raw)
    meta, spec, status, labels = pod.metadata, pod.spec, pod.status, pod.labels
    name = text(meta.get("name"))
    disruption, disrupted = "", None
    unscheduled = None
    evicted = None
    for condition in rows(status.get("conditions")):
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            disruption = text(condition.get("reason"))
            disrupted = times.parse(condition.get("lastTransitionTime"))
        elif condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            unscheduled = ClusterEvent(
                text(condition.get("reason")),
                text(condition.get("message")),
                times.parse(condition.get("lastTransitionTime")),
            )
        elif condition.get("type") == "Ready" and condition.get("reason") == "Evict":
            evicted = ClusterEvent(
                "Evict", text(condition.get("message")), times.parse(condition.get("lastTransitionTime"))
            )
    containers = [
        _container(entry, init=part == "initContainerStatuses")
        for part in ("containerStatuses", "initContainerStatuses")
        for entry in rows(status.get(part))
    ]
    created = times.parse(meta.get("creationTimestamp"))
    deleted = times.parse(meta.get("deletionTimestamp"))
    ends = [container.finished for container in containers if container.finished is not None]
    own_ends = [item.finished for item in containers if item.finished is not None and not item.init]
    if disrupted is not None and own_ends and min(own_ends) - disrupted > _time_to_stop(spec):
        disruption, disrupted = "", None  # it was called off: the condition is set before the pod is deleted
    return PodState(
        uid=text(meta.get("uid")),
        name=name,
        namespace=text(meta.get("namespace")) or "default",
        run_id=text(labels.get(RUN_ID_LABEL)) or None,
        node=text(spec.get("nodeName")) or None,
        rank=rank_of(name) or _role(labels),
        phase=text(status.get("phase")),
        reason=text(status.get("reason")),
        message=text(status.get("message")),
        disruption=disruption,
        disrupted=disrupted,
        containers=containers,
        start=times.parse(status.get("startTime")) or created,
        end=disrupted or (max(ends) if ends else None) or deleted,
        deleted=deleted,
        wants_spot=any(item.get("key") == SPOT_KEY for item in rows(spec.get("tolerations"))),
        evicted=evicted,
        parent=families.parent_of_pod(meta, spec),
        created=created,
        gang=text(labels.get(GANG_LABEL)) or text(labels.get("jobId")) or None,
        pod_group=text(mapping(meta.get("annotations")).get(POD_GROUP_ANNOTATION)) or None,
        unscheduled=unscheduled,
        without_gpu=_is_without_gpu(rows(spec.get("containers"))),
        memory_limit=max((_memory_limit(item) for item in rows(spec.get("containers"))), default=0),
    )


def _time_to_stop(spec: Mapping[str, Any]) -> float:
    """How long after its disruption a pod may still run."""
    grace = spec.get("terminationGracePeriodSeconds")
    return LOOK_BACK_SECONDS + (grace if isinstance(grace, int) else 0)


def _memory_limit(container: Mapping[str, Any]) -> int:
    limit = mapping(mapping(container.get("resources")).get("limits")).get("memory")
    try:
        return bytes_offered(text(limit)) if limit else 0
    except QuantityError:
        return 0


def _is_without_gpu(containers: list[dict[str, Any]]) -> bool:
    """Some have amounts, and none has a GPU among them (also a part of one, `nvidia.com/mig-1g.10gb`)."""
    amounts = [
        mapping(mapping(item.get("resources")).get(part)) for item in containers for part in ("limits", "requests")
    ]
    return any(amounts) and not any("gpu" in key or "nvidia" in key for amount in amounts for key in amount)


def _role(labels: Mapping[str, Any]) -> str | None:
    """The rank of a pod whose name does not have it; Volcano counts the pods of a role."""
    role = text(labels.get("jobRole")) or text(labels.get("role")) or None
    index = text(labels.get("volcano.sh/task-index"))
    return f"{role}-{index}" if role and index else role


def _container(raw: Json, init: bool) -> ContainerState:
    states = mapping(raw.get("state"))
    state = next((word for word in ("terminated", "waiting", "running") if isinstance(states.get(word), dict)), "")
    inner = mapping(states.get(state))
    code = inner.get("exitCode")
    return ContainerState(
        name=text(raw.get("name")),
        state=state,
        reason=text(inner.get("reason")),
        exit_code=code if isinstance(code, int) and not isinstance(code, bool) else None,
        finished=times.parse(inner.get("finishedAt")),
        init=init,
        message=text(inner.get("message")),
    )


def _add_event(cluster: ClusterIndex, raw: Json) -> None:
    """Add an event of core/v1 or of events.k8s.io/v1 to its node or pod.

    A repeated event is added at its first and at its last time; Kubernetes only counts those in between.
    """
    involved = mapping(raw.get("involvedObject")) or mapping(raw.get("regarding"))
    series, meta = mapping(raw.get("series")), mapping(raw.get("metadata"))
    last = _first_time([series.get("lastObservedTime"), *map(raw.get, LAST_TIMES), meta.get("creationTimestamp")])
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
    cluster.cuts[node] = max(moment, cluster.cuts.get(node, moment))
