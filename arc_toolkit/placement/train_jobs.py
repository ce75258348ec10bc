"""A TrainJob of Kubeflow Trainer: every minor release has another field for what its pods need beside the runtime.

A field of another release is refused by `kubectl`, and dropped without a word by clients that do not ask for strict
validation, so the release has to be known: from a field that is there, or from `--trainer`.
https://www.kubeflow.org/docs/components/trainer/operator-guides/runtime-patches/
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Any

from arc_toolkit.edit.files.edits import Refused
from arc_toolkit.edit.yaml.nodes import get, items_of, text_of
from arc_toolkit.kube.workloads import COORDINATOR_NAMES, Retry
from arc_toolkit.placement.manifests import PREFERRED, REQUIRED, PodSpec, Workload
from arc_toolkit.placement.spec_editor import SpecEditor
from arc_toolkit.placement.spot import SpotCapacity, SpotPolicy

# The field of each release, read from its CRD.
FIELDS = {
    "2.0": "podSpecOverrides",
    "2.1": "podTemplateOverrides",
    "2.2": "runtimePatches",
    "2.3": "runtimePatches",
}
# The job of the runtimes that Kubeflow ships in which the training runs.
_JOB = "node"
# Jobs of those runtimes that only prepare it.
_INITIALIZERS = frozenset(("dataset-initializer", "model-initializer"))
# Who set a patch: of the form `domain/path`, and one entry for each.
_MANAGER = "arc-toolkit.local/place"


def refuse_mixed(workload: Workload, spec: PodSpec, roles: Set[str]) -> None:
    """`Refused` if an entry is for jobs that belong on different nodes: by `roles`, or for a coordinator and others."""
    if workload.kind.retry is not Retry.RUNTIME:
        return
    names = _targets(workload, spec)
    if len({name in roles if roles else name in COORDINATOR_NAMES for name in names}) > 1:
        raise Refused(
            f"an entry is for {' and '.join(names)}, which belong on different nodes: make two of it"
        )


def lacks_training(workload: Workload) -> bool:
    """Whether the entries that are there are for other jobs than the one in which the training runs."""
    if workload.kind.retry is not Retry.RUNTIME:
        return False
    names = {name for spec in workload.pod_specs for name in _targets(workload, spec)}
    return bool(names) and names <= COORDINATOR_NAMES | _INITIALIZERS


def _targets(workload: Workload, spec: PodSpec) -> list[str]:
    """The jobs that an entry is for."""
    entry = get(workload.node, *spec.path[len(workload.path) :][:3])
    names = (text_of(get(item, "name")) for item in items_of(get(entry, "targetJobs")))
    return [name.lower() for name in names if name is not None] or [spec.role]


def add_override(
    editor: SpecEditor,
    workload: Workload,
    spot: SpotPolicy,
    capacity: SpotCapacity,
    trainer: str | None,
    jobs: Iterable[str],
) -> None:
    """A new entry for the pods of a TrainJob that says nothing about them yet; `Refused` if its release is unknown.

    It is for `jobs` of the runtime, or for the one in which the training runs.
    """
    field = _field_of(workload, trainer)
    path = (*workload.path, "spec", field)
    pods = _pods(spot, capacity, field)
    for job in sorted(jobs) or _jobs(workload, field):
        if field == FIELDS["2.0"]:
            editor.append(path, {"targetJobs": [{"name": job}], **pods})
        elif field == FIELDS["2.1"]:
            editor.append(path, {"targetJobs": [{"name": job}], "spec": pods})
        else:
            inner = {"name": job, "template": {"spec": {"template": {"spec": pods}}}}
            patch = {"template": {"spec": {"replicatedJobs": [inner]}}}
            editor.append(path, {"manager": _MANAGER, "trainingRuntimeSpec": patch})


def _pods(spot: SpotPolicy, capacity: SpotCapacity, field: str) -> dict[str, Any]:
    """What a new entry says: some fields of a pod spec."""
    toleration = capacity.toleration()
    tolerations = (
        {"tolerations": [toleration]} if toleration and spot is not SpotPolicy.AVOID else {}
    )
    if field == FIELDS["2.0"]:
        if spot is not SpotPolicy.REQUIRE:
            raise Refused(
                "podSpecOverrides has no affinity, so that spot nodes can only be required"
            )
        return {"nodeSelector": dict([capacity.label]), **tolerations}
    kind, nodes = PREFERRED[-1], [capacity.preference()]
    if spot is not SpotPolicy.PREFER:
        *_, kind, terms = REQUIRED
        return {
            **tolerations,
            "affinity": {
                "nodeAffinity": {
                    kind: {terms: [capacity.term("NotIn" if spot is SpotPolicy.AVOID else "In")]}
                }
            },
        }
    return {**tolerations, "affinity": {"nodeAffinity": {kind: nodes}}}


def _field_of(workload: Workload, trainer: str | None) -> str:
    """The field of the release: the one that is there, or that of `--trainer`."""
    there = [
        field for field in dict.fromkeys(FIELDS.values()) if workload.get("spec", field) is not None
    ]
    if there:
        return there[0]
    if trainer is None:
        fields = ", ".join(f"{field} ({release})" for release, field in FIELDS.items())
        raise Refused(
            f"its field depends on the release of Kubeflow Trainer: {fields}; say --trainer {', '.join(FIELDS)}"
        )
    return FIELDS[trainer]


def _jobs(workload: Workload, field: str) -> list[str]:
    """The job of an entry without a pod spec, such as one that only sets labels, if the training runs in it."""
    for item in items_of(workload.get("spec", field)):
        name = text_of(get(item, "targetJobs", 0, "name"))
        if name is not None and name not in COORDINATOR_NAMES | _INITIALIZERS:
            return [name]
    return [_JOB]
