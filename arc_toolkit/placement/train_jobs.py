"""A TrainJob of Kubeflow Trainer: every minor release has another field for what its pods need.

`kubectl` refuses a field of another release, and clients without strict validation drop it
silently, so the release must be known: by a field that the TrainJob already has, or by `--trainer`.
https://www.kubeflow.org/docs/components/trainer/operator-guides/runtime-patches/
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Any, NamedTuple

import yaml

from arc_toolkit.edit.yaml.nodes import MAP, get, items_of, text_of
from arc_toolkit.kube.workloads import COORDINATOR_NAMES, KindFamily, Shape
from arc_toolkit.placement.decisions import FieldChanges, Obstacle, PlacementRefused, SpecEditor
from arc_toolkit.placement.manifests import PodSpec, Workload
from arc_toolkit.placement.node_choice import choose_nodes
from arc_toolkit.placement.spot import SpotCapacity, SpotPolicy


class OverrideField(NamedTuple):
    """A field of a TrainJob, and the steps in an entry of it to the fields of the pods."""

    name: str
    shape: Shape
    steps: tuple[str, ...] = ()


# Each release with its field, read from its CRD.
_RUNTIME_PATCHES = OverrideField("runtimePatches", Shape.RUNTIME_PATCH)
RELEASES = {
    "2.0": OverrideField("podSpecOverrides", Shape.OVERRIDE),
    "2.1": OverrideField("podTemplateOverrides", Shape.TEMPLATE_OVERRIDE, ("spec",)),
    "2.2": _RUNTIME_PATCHES,
    "2.3": _RUNTIME_PATCHES,
}
# The job in which the training runs, in the runtimes that Kubeflow ships, and jobs that prepare it.
_TRAINING_JOB = "node"
_NOT_TRAINING = COORDINATOR_NAMES | {"dataset-initializer", "model-initializer"}
# Who set a patch: of the form `domain/path`, and one entry for each.
_MANAGER = "arc-toolkit.local/place"


def refuse_mixed(workload: Workload, spec: PodSpec, roles: Set[str]) -> None:
    """Refuse an entry for jobs that belong on different nodes: by `roles`, or as coordinators."""
    if workload.kind.family is not KindFamily.TRAIN_JOB:
        return
    names = _target_jobs(workload, spec)
    if len({name in (roles or COORDINATOR_NAMES) for name in names}) > 1:
        jobs = " and ".join(names)
        reason = f"an entry is for {jobs}, which belong on different nodes: make two of it"
        raise PlacementRefused(Obstacle.CONTRADICTION, reason)


def lacks_training(workload: Workload) -> bool:
    """Whether no entry is for the job in which the training runs, although there are entries."""
    if workload.kind.family is not KindFamily.TRAIN_JOB:
        return False
    names = {name for spec in workload.pod_specs for name in _target_jobs(workload, spec)}
    return bool(names) and names <= _NOT_TRAINING


def _target_jobs(workload: Workload, spec: PodSpec) -> list[str]:
    entry = get(workload.node, *spec.path[len(workload.path) :][:3])
    names = (text_of(get(item, "name")) for item in items_of(get(entry, "targetJobs")))
    return [name.lower() for name in names if name is not None] or [spec.role]


def add_override(
    editor: SpecEditor,
    workload: Workload,
    spot: SpotPolicy,
    capacity: SpotCapacity,
    trainer: str | None,
    roles: Iterable[str],
) -> None:
    """A new entry for `roles`, or for the job in which the training runs."""
    field = _override_field(workload, trainer)
    if not field.shape.has_affinity and spot is not SpotPolicy.REQUIRE:
        reason = f"{field.shape.lack}: spot nodes can only be required"
        raise PlacementRefused(Obstacle.NO_FIELD, reason)
    pods = _pod_fields(workload, field.shape, spot, capacity)
    for job in sorted(roles) or [_training_job(workload, field)]:
        editor.append((*workload.path, "spec", field.name), _entry(field, job, pods))


def _entry(field: OverrideField, job: str, pods: dict[str, Any]) -> dict[str, Any]:
    if field is _RUNTIME_PATCHES:
        inner = {"name": job, "template": {"spec": {"template": {"spec": pods}}}}
        patch = {"template": {"spec": {"replicatedJobs": [inner]}}}
        return {"manager": _MANAGER, "trainingRuntimeSpec": patch}
    for step in field.steps:
        pods = {step: pods}
    return {"targetJobs": [{"name": job}], **pods}


def _pod_fields(
    workload: Workload, shape: Shape, spot: SpotPolicy, capacity: SpotCapacity
) -> dict[str, Any]:
    """The fields that place pods which say nothing about nodes yet."""
    collected = FieldChanges(workload)
    nothing = PodSpec((), yaml.MappingNode(MAP, []), "", shape, coordinator=False)
    choose_nodes(collected, nothing, spot, capacity)
    fields: dict[str, Any] = {}
    for path, value, is_item in collected.changes:
        holder = fields
        for step in path[:-1]:
            holder = holder.setdefault(str(step), {})
        holder[str(path[-1])] = [value] if is_item else value
    return fields


def _override_field(workload: Workload, trainer: str | None) -> OverrideField:
    """The field of the release: the one that is in use, or that of `--trainer`."""
    for field in RELEASES.values():
        if workload.get("spec", field.name) is not None:
            return field
    if trainer is not None:
        return RELEASES[trainer]
    fields = ", ".join(f"{field.name} ({release})" for release, field in RELEASES.items())
    raise PlacementRefused(
        Obstacle.MISSING_OPTION,
        f"its field depends on the release of Kubeflow Trainer: {fields}; "
        f"use --trainer {', '.join(RELEASES)}",
    )


def _training_job(workload: Workload, field: OverrideField) -> str:
    """The job of an entry without a pod spec, if the training runs in it."""
    for item in items_of(workload.get("spec", field.name)):
        name = text_of(get(item, "targetJobs", 0, "name"))
        if name is not None and name not in _NOT_TRAINING:
            return name
    return _TRAINING_JOB
