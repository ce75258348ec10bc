"""The sweep or pipeline of a run: its trials and steps share code and data, so together they have one vote on a node.

No public pod shows which label names the parent, so any label or annotation of that meaning counts; AzureML's own
variable in the container is AZUREML_ROOT_RUN_ID. Otherwise the name of the run decides: a trial is `<sweep>_<n>`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from arc_toolkit.kube.raw import mapping, rows, text

# The last part of a key: `ml.azure.com/parent-run-id`, `azureml.rootRunId`, `sweep_job_name`, `pipeline`.
PARENT_KEY = re.compile(
    r"(?:.*[/._-])?(?P<level>root|pipeline|parent|sweep|hyperdrive)[-_.]?(?:run|job)?[-_.]?(?:id|name)?",
    re.IGNORECASE,
)
LEVELS = ("root", "pipeline", "parent", "sweep", "hyperdrive")  # the outermost first
ROOT_VARIABLE = "AZUREML_ROOT_RUN_ID"
# Trials that AzureML names itself: HyperDrive and AutoML by a GUID, v2 sweeps by the generated name of the sweep
# (`adjective_noun_suffix`). `train_7` alone may be anything, so a name that a person chose is not taken apart.
TRIAL = re.compile(
    r"(?P<parent>(?:HD|AutoML)_[0-9a-f-]{36}|[a-z]+_[a-z]+_(?=[a-z0-9]*[a-z])[a-z0-9]{4,16})_(?:0|[1-9]\d{0,4})"
)


def parent_of_pod(metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> str | None:
    """The outermost parent that the pod names."""
    named: dict[str, str] = {}
    for part in ("labels", "annotations"):
        for key, value in mapping(metadata.get(part)).items():
            if (match := PARENT_KEY.fullmatch(str(key))) and text(value):
                named.setdefault(match["level"].lower(), text(value))
    if parent := next((named[level] for level in LEVELS if level in named), None):
        return parent
    for container in rows(spec.get("containers")):
        for variable in rows(container.get("env")):
            if variable.get("name") == ROOT_VARIABLE and text(variable.get("value")):
                return text(variable.get("value"))
    return None


def family(job: str, run_id: str | None, parents: Iterable[str | None]) -> str:
    """The parent that a pod of the job names, otherwise the one in its name, otherwise the job itself."""
    for parent in parents:
        if parent:
            return parent
    match = TRIAL.fullmatch(run_id or job)
    return match["parent"] if match else run_id or job
