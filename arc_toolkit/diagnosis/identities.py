"""What paths and names say: job, attempt and rank of a log, pool of a node, family of a run.

Paths, as in public logs: `retry-001` (Kubernetes compute) and `retry_001` (another back end), at
any depth; without such a folder it is the first attempt. `az ml job download` puts everything below
`artifacts/` and `named-outputs/<name>/`; the blob store below `dcid.<run>/`. The folder above all
of these is named after the job.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from arc_toolkit.kube.raw import mapping, rows, text

LOG_FOLDERS = frozenset({"system_logs", "user_logs", "azureml-logs"})
# Of AzureML's own `logs/`; people use that name for folders too.
LOGS_CHILDREN = frozenset({"azureml", "sys", "user"})
WRAPPERS = frozenset({"artifacts", "named-outputs", "ExperimentRun"})
RETRY = re.compile(r"retry[-_](\d{1,9})", re.IGNORECASE)
# `worker-0`, `<jobId>-master-1`, `rank_3`, `_process_07`: roles in public logs and specs.
RANK = re.compile(
    r"(?:^|[-_.])(worker|master|ps|launcher|chief|head|evaluator|rank|process|node)"
    r"[-_]?(\d{1,6})(?=$|[-_.])"
)
# A folder per rank above the log folders, as scripts save them; `node-1` may be anything.
RANK_FOLDER = re.compile(r"(worker|master|launcher|chief|rank)[-_]?\d{1,6}")
PIPE = "pipe:"  # the prefix of a source that is not on the disk
ADDRESS = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}")


@dataclass(slots=True)
class LogIdentity:
    """The job, attempt and rank of a log. `root` distinguishes two jobs with the same name."""

    root: str
    job: str
    number: int
    rank: str | None


def rank_of(name: str) -> str | None:
    """`worker-0` from a pod, folder or file name."""
    match = RANK.search(name)
    return f"{match[1]}-{int(match[2])}" if match else None


def locate(path: str) -> LogIdentity:
    """The job's folder is the nearest ancestor that is not a log folder, retry, rank or wrapper."""
    if path == "stdin" or path.startswith(PIPE):
        return LogIdentity(path, path, 0, None)
    place = _locate(path.split("/"))
    if place.job in ("", ".", ".."):  # the source is a path inside the job's folder
        place = _locate(os.path.abspath(path).split("/"))
    return place


def _locate(parts: list[str]) -> LogIdentity:
    name = parts[-1]
    last = len(parts) - 2
    number, retry_seen = 0, False
    rank = rank_of(name) if len(name) > 23 else None  # longer than amlarc_cr_bootstrap.log
    # Below the log folder any folder is allowed (a rank, an address), above it only wrappers.
    top = last
    while top >= 0 and not _is_log_folder(parts, top):
        top -= 1
    inside = top >= 0
    index = last
    while index >= 0:
        part = parts[index]
        match = RETRY.fullmatch(part) if part[:5].lower() == "retry" else None
        if match:
            if not retry_seen:
                number, retry_seen = int(match[1]), True
        elif index > top and (inside or ADDRESS.fullmatch(part) or RANK.fullmatch(part)):
            rank = rank or rank_of(part) or (part if ADDRESS.fullmatch(part) else None)
        elif inside and index < top and rank is None and index > 0 and RANK_FOLDER.fullmatch(part):
            rank = rank_of(part)
        elif not (
            part in WRAPPERS or _is_log_folder(parts, index) or parts[index - 1] == "named-outputs"
        ):
            break
        index -= 1
    job = parts[index] if index >= 0 else ""
    # The run's name, without the prefix of the blob store and the scheme.
    name = job.removeprefix("dcid.").removeprefix("azureml:").removesuffix(".zip")
    return LogIdentity("/".join(parts[: index + 1]), name, number, rank)


def _is_log_folder(parts: list[str], index: int) -> bool:
    part = parts[index]
    if part != "logs":
        return part in LOG_FOLDERS
    below = index + 1
    while below < len(parts) - 1 and any(
        kind.fullmatch(parts[below]) for kind in (RETRY, RANK, ADDRESS)
    ):
        below += 1
    return below == len(parts) - 1 or parts[below] in LOGS_CHILDREN


# A Linux node of AKS is `aks-<pool>-<8 digits>-vmss<instance>`, the VM's instance id in base 36
# in exactly six characters (Azure/AKS #3293). Scale sets write it in capitals.
AKS_LINUX = re.compile(r"(?:aks|ask|k8s)-(?P<pool>.+)-\d{8}-vmss(?P<id>[0-9a-z]*)")
AKS_WINDOWS = re.compile(r"aks(?P<pool>[a-z][a-z0-9]{0,5})(?P<id>[0-9a-z]{6})")
ID_LENGTH = 6


def pool_of(name: str) -> str | None:
    """The node pool."""
    match = AKS_LINUX.fullmatch(name) or AKS_WINDOWS.fullmatch(name)
    return match["pool"] if match else None


def vm_instance_of(name: str) -> int | None:
    """The VM instance id: `...vmss000046` is instance 150."""
    match = AKS_LINUX.fullmatch(name) or AKS_WINDOWS.fullmatch(name)
    return int(match["id"], 36) if match and len(match["id"]) == ID_LENGTH else None


@lru_cache(1 << 12)  # many logs name the same few nodes
def is_cut(name: str) -> bool:
    """Too short for a node of AKS; the line that Microsoft documents ends in such a name."""
    match = AKS_LINUX.fullmatch(name)
    return match is not None and len(match["id"]) < ID_LENGTH


# The family of a run is its sweep or pipeline: trials and steps share code, so they share one vote.
# No public pod shows which label names the parent, so any label of that meaning counts.
# The last part of a key: `ml.azure.com/parent-run-id`, `azureml.rootRunId`, `sweep_job_name`.
PARENT_KEY = re.compile(
    r"(?:.*[/._-])?(?P<level>root|pipeline|parent|sweep|hyperdrive)"
    r"[-_.]?(?:run|job)?[-_.]?(?:id|name)?",
    re.IGNORECASE,
)
LEVELS = ("root", "pipeline", "parent", "sweep", "hyperdrive")  # the outermost first
ROOT_VARIABLE = "AZUREML_ROOT_RUN_ID"
# Trials that AzureML names itself: HyperDrive and AutoML by a GUID, v2 sweeps by the generated name
# of the sweep (`adjective_noun_suffix`). `train_7` alone may be anything, so a name that a person
# chose is not taken apart.
TRIAL = re.compile(
    r"(?P<parent>(?:HD|AutoML)_[0-9a-f-]{36}"
    r"|[a-z]+_[a-z]+_(?=[a-z0-9]*[a-z])[a-z0-9]{4,16})_(?:0|[1-9]\d{0,4})"
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
    """The parent that a pod of the job names, otherwise the one in its name, otherwise the job."""
    for parent in parents:
        if parent:
            return parent
    match = TRIAL.fullmatch(run_id or job)
    return match["parent"] if match else run_id or job
