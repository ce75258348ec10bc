"""A TrainJob of Kubeflow Trainer: every minor release has another field for what its pods need.

`kubectl` refuses a field of another release, and clients without strict validation drop it
silently, so the release must be known: by a field that the TrainJob already has, or by `--trainer`.
https://www.kubeflow.org/docs/components/trainer/operator-guides/runtime-patches/
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Any

from arc_toolkit.edit.files.edits import Refused
from arc_toolkit.edit.yaml.nodes import get, items_of, text_of
from arc_toolkit.kube.workloads import KindFamily
from arc_toolkit.placement.manifests import PodSpec, Workload
from arc_toolkit.placement.place_plan import PlacementDecision
from arc_toolkit.placement.spot import SpotCapacity, SpotPolicy

# Each release with its field, read from its CRD.
_OVERRIDES, _PATCHES = "podTemplateOverrides", "runtimePatches"
RELEASES = {"2.1": _OVERRIDES, "2.2": _PATCHES, "2.3": _PATCHES}
# The job in which the training runs, in the runtimes that Kubeflow ships, and jobs that prepare it.
_TRAINING_JOB = "node"
_INITIALIZERS = ("dataset-initializer", "model-initializer")
# Who set a patch: of the form `domain/path`, and one entry for each.
_MANAGER = "arc-toolkit.local/place"


def refuse_mixed(workload: Workload, spec: PodSpec, roles: Set[str]) -> None:
    """Refuse an entry for jobs that belong on different nodes: by `roles`, or as coordinators."""
    if workload.kind.family is not KindFamily.TRAIN_JOB:
        return
    names = _target_jobs(workload, spec)
    is_coordinator = workload.kind.is_coordinator
    if len({name in roles if roles else is_coordinator(name) for name in names}) > 1:
        jobs = " and ".join(names)
        raise Refused(f"an entry is for {jobs}, which belong on different nodes: make two of it")


def lacks_training(workload: Workload) -> bool:
    """Whether no entry is for the job in which the training runs, although there are entries."""
    if workload.kind.family is not KindFamily.TRAIN_JOB:
        return False
    names = {name for spec in workload.pod_specs for name in _target_jobs(workload, spec)}
    return bool(names) and not any(_runs_training(workload, name) for name in names)


def _runs_training(workload: Workload, job: str) -> bool:
    return job not in _INITIALIZERS and not workload.kind.is_coordinator(job)


def _target_jobs(workload: Workload, spec: PodSpec) -> list[str]:
    entry = get(workload.node, *spec.path[len(workload.path) :][:3])
    names = (text_of(get(item, "name")) for item in items_of(get(entry, "targetJobs")))
    return [name.lower() for name in names if name is not None] or [spec.role]


def add_override(
    decision: PlacementDecision,
    spot: SpotPolicy,
    capacity: SpotCapacity,
    trainer: str | None,
    roles: Iterable[str],
) -> None:
    """A new entry for `roles`, or for the job in which the training runs."""
    workload = decision.workload
    field = _override_field(workload, trainer)
    pods = capacity.pod_fields(spot)
    for job in sorted(roles) or [_training_job(workload, field)]:
        decision.append((*workload.path, "spec", field), _entry(field, job, pods))


def _entry(field: str, job: str, pods: dict[str, Any]) -> dict[str, Any]:
    if field == _OVERRIDES:
        return {"targetJobs": [{"name": job}], "spec": pods}
    inner = {"name": job, "template": {"spec": {"template": {"spec": pods}}}}
    patch = {"template": {"spec": {"replicatedJobs": [inner]}}}
    return {"manager": _MANAGER, "trainingRuntimeSpec": patch}


def _override_field(workload: Workload, trainer: str | None) -> str:
    """The field of the release: the one that is in use, or that of `--trainer`."""
    if workload.get("spec", "podSpecOverrides") is not None:
        raise Refused(
            "podSpecOverrides is of Kubeflow Trainer 2.0, and has no affinity: "
            "add tolerations and a nodeSelector there by hand, or move to a newer release"
        )
    for field in RELEASES.values():
        if workload.get("spec", field) is not None:
            return field
    if trainer is not None:
        return RELEASES[trainer]
    fields = ", ".join(f"{field} ({release})" for release, field in RELEASES.items())
    raise Refused(
        f"its field depends on the release of Kubeflow Trainer: {fields}; "
        f"use --trainer {', '.join(RELEASES)}"
    )


def _training_job(workload: Workload, field: str) -> str:
    """The job of an entry without a pod spec, if the training runs in it."""
    for item in items_of(workload.get("spec", field)):
        name = text_of(get(item, "targetJobs", 0, "name"))
        if name is not None and _runs_training(workload, name):
            return name
    return _TRAINING_JOB
