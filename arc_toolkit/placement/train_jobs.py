"""A TrainJob of Kubeflow Trainer: every minor release has another field for what its pods need beside the runtime.

A field of another release is refused by `kubectl`, and dropped without a word by clients that do not ask for strict
validation, so the release has to be known: from a field that is there, or from `--trainer`.
https://www.kubeflow.org/docs/components/trainer/operator-guides/runtime-patches/
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from arc_toolkit.edit.edits import Refused
from arc_toolkit.edit.yaml_nodes import get, items_of, text_of
from arc_toolkit.placement.manifests import Workload
from arc_toolkit.placement.spec_editor import SpecEditor
from arc_toolkit.placement.spot import PREFERRED, REQUIRED, SpotCapacity, SpotPolicy

# The field of each release, read from its CRD.
FIELDS = {
    "2.0": "podSpecOverrides",
    "2.1": "podTemplateOverrides",
    "2.2": "runtimePatches",
    "2.3": "runtimePatches",
}
# The job of the runtimes that Kubeflow ships in which the training runs.
_JOB = "node"
# Who set a patch: of the form `domain/path`, and one entry for each.
_MANAGER = "arc-toolkit.local/place"


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
    tolerations = {"tolerations": [toleration]} if toleration and spot is not SpotPolicy.AVOID else {}
    if field == FIELDS["2.0"]:
        if spot is not SpotPolicy.REQUIRE:
            raise Refused("podSpecOverrides has no affinity, so that spot nodes can only be required")
        return {"nodeSelector": dict([capacity.label]), **tolerations}
    kind, nodes = PREFERRED[-1], [capacity.preference()]
    if spot is not SpotPolicy.PREFER:
        *_, kind, terms = REQUIRED
        return {
            **tolerations,
            "affinity": {
                "nodeAffinity": {kind: {terms: [capacity.term("NotIn" if spot is SpotPolicy.AVOID else "In")]}}
            },
        }
    return {**tolerations, "affinity": {"nodeAffinity": {kind: nodes}}}


def _field_of(workload: Workload, trainer: str | None) -> str:
    """The field of the release: the one that is there, or that of `--trainer`."""
    there = [field for field in dict.fromkeys(FIELDS.values()) if workload.get("spec", field) is not None]
    if there:
        return there[0]
    if trainer is None:
        fields = ", ".join(f"{field} ({release})" for release, field in FIELDS.items())
        raise Refused(
            f"its field depends on the release of Kubeflow Trainer: {fields}; say --trainer {', '.join(FIELDS)}"
        )
    return FIELDS[trainer]


def _jobs(workload: Workload, field: str) -> list[str]:
    """The jobs that entries without a pod spec are for, such as one that only sets labels."""
    for item in items_of(workload.get("spec", field)):
        if (name := text_of(get(item, "targetJobs", 0, "name"))) is not None:
            return [name]
    return [_JOB]
