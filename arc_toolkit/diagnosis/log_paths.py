"""Job, attempt and rank from the path of a log.

Known from public logs: `retry-001` (Kubernetes compute) and `retry_001` (another back end), at any depth; without such
a folder it is the first attempt. `az ml job download` puts everything below `artifacts/` and `named-outputs/<name>/`;
the blob store below `dcid.<run>/`. The folder above all of these is named after the job.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

LOG_FOLDERS = frozenset({"system_logs", "user_logs", "azureml-logs"})
# Of AzureML's own `logs/`; people use that name for folders too.
LOGS_CHILDREN = frozenset({"azureml", "sys", "user"})
WRAPPERS = frozenset({"artifacts", "named-outputs", "ExperimentRun"})
RETRY = re.compile(r"retry[-_](\d{1,9})", re.IGNORECASE)
# `worker-0`, `<jobId>-master-1`, `rank_3`, `_process_07`; the roles are those that public logs and specs show.
RANK = re.compile(
    r"(?:^|[-_.])(worker|master|ps|launcher|chief|head|evaluator|rank|process|node)[-_]?(\d{1,6})(?=$|[-_.])"
)
# A folder per rank above the log folders, as scripts make that save the logs of each pod; `node-1` may be anything.
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
    # Below the log folder any folder is allowed (a capability, a rank, an address); above it only wrappers are skipped.
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
