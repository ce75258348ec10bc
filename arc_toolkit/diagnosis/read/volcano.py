"""Volcano's jobs and PodGroups: a gang exists before, and often without, its pods.

Before 1.4 a PodGroup has the name of its job, later also the job's UID behind it; AzureML writes
its `jobId` on both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from arc_toolkit.diagnosis import identities, times
from arc_toolkit.diagnosis.read.cluster_index import ClusterIndex
from arc_toolkit.diagnosis.read.pod_states import ClusterEvent, PodState
from arc_toolkit.kube.pods import RUN_ID_LABEL
from arc_toolkit.kube.raw import mapping, rows, text

# A gang without pods that still waits for them; the other phases of a job are running or final.
WAITING_JOB_PHASES = frozenset({"", "Pending", "Restarting"})
WAITING_GROUP_PHASES = frozenset({"", "Pending", "Inqueue"})


@dataclass(slots=True)
class GangState:
    """A Volcano job and its PodGroup; one of them may be unknown."""

    namespace: str
    name: str
    job_id: str = ""
    run_id: str | None = None
    parent: str | None = None  # the sweep or pipeline that its pods would name
    job_phase: str = ""
    group_phase: str = ""
    group_name: str = ""
    unschedulable: list[ClusterEvent] = field(default_factory=list)  # conditions of the PodGroup
    created: float | None = None
    changed: float | None = None  # when the phase of the job began
    job_events: list[ClusterEvent] = field(default_factory=list)
    group_events: list[ClusterEvent] = field(default_factory=list)

    @property
    def waits(self) -> bool:
        """No pod of it runs or has ended."""
        return self.job_phase in WAITING_JOB_PHASES and self.group_phase in WAITING_GROUP_PHASES


def gangs(cluster: ClusterIndex) -> list[GangState]:
    """Every gang once, with the events of its job and of its PodGroup."""
    result = [_job(raw) for raw in cluster.volcano_jobs]
    by_name = {(gang.namespace, gang.name): gang for gang in result}
    by_id = {(gang.namespace, gang.job_id): gang for gang in result if gang.job_id}
    for raw in cluster.pod_groups:
        meta, status = mapping(raw.get("metadata")), mapping(raw.get("status"))
        namespace, name = text(meta.get("namespace")) or "default", text(meta.get("name"))
        job_id = text(mapping(meta.get("labels")).get("jobId"))
        owners = [
            text(item.get("name"))
            for item in rows(meta.get("ownerReferences"))
            if item.get("kind") == "Job"
        ]
        matches = [by_name.get((namespace, owner)) for owner in (*owners, name)] + [
            by_id.get((namespace, job_id))
        ]
        gang = next((item for item in matches if item), None)
        if gang is None:
            gang = GangState(namespace, name, job_id, _run_id(meta))
            result.append(gang)
        gang.group_name, gang.group_phase = name, text(status.get("phase"))
        gang.created = gang.created or times.parse(meta.get("creationTimestamp"))
        gang.unschedulable = [
            ClusterEvent(
                text(item.get("reason")),
                text(item.get("message")),
                times.parse(item.get("lastTransitionTime")),
            )
            for item in rows(status.get("conditions"))
            if item.get("type") == "Unschedulable" and item.get("status") == "True"
        ]
    runs: dict[tuple[str, str], str | None] = {}
    for pod in cluster.pods:
        for label in (pod.gang, pod.pod_group, pod.name.removesuffix(f"-{pod.rank}")):
            if label:
                runs[pod.namespace, label] = pod.run_id
    for gang in result:
        of_pods = [
            runs.get((gang.namespace, label)) for label in (gang.name, gang.job_id, gang.group_name)
        ]
        gang.run_id = gang.run_id or next((run_id for run_id in of_pods if run_id), None)
        gang.job_events = cluster.volcano_events.get(("Job", gang.namespace, gang.name), [])
        key = ("PodGroup", gang.namespace, gang.group_name or gang.name)
        gang.group_events = cluster.volcano_events.get(key, [])
    return result


def gang_of(pod: PodState, gang_states: list[GangState]) -> GangState | None:
    """The gang of a pod: by its labels and annotation, otherwise by its name's beginning."""
    for gang in gang_states:
        if gang.namespace == pod.namespace and (
            (pod.gang and pod.gang in (gang.name, gang.job_id))
            or (pod.pod_group and pod.pod_group == gang.group_name)
            or pod.name.startswith(f"{gang.name}-")
        ):
            return gang
    return None


def _job(raw: Mapping[str, Any]) -> GangState:
    meta, spec = mapping(raw.get("metadata")), mapping(raw.get("spec"))
    state = mapping(mapping(raw.get("status")).get("state"))
    templates = [mapping(task.get("template")) for task in rows(spec.get("tasks"))]
    of_pods = [mapping(template.get("metadata")) for template in templates]
    return GangState(
        namespace=text(meta.get("namespace")) or "default",
        name=text(meta.get("name")),
        job_id=text(mapping(meta.get("labels")).get("jobId")),
        run_id=next((run_id for part in (*of_pods, meta) if (run_id := _run_id(part))), None),
        parent=next(
            (
                parent
                for template in templates
                if (
                    parent := identities.parent_of_pod(
                        mapping(template.get("metadata")), mapping(template.get("spec"))
                    )
                )
            ),
            None,
        ),
        job_phase=text(state.get("phase")),
        created=times.parse(meta.get("creationTimestamp")),
        changed=times.parse(state.get("lastTransitionTime")),
    )


def _run_id(meta: Mapping[str, Any]) -> str | None:
    return text(mapping(meta.get("labels")).get(RUN_ID_LABEL)) or None
