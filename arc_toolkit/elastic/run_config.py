"""What the user asked for, and the contract with the script: the variables that every rank gets."""

from __future__ import annotations

import ast
import os
from dataclasses import dataclass, field
from typing import Any

from arc_toolkit.elastic.rank_placement import Placement
from arc_toolkit.errors import ArcError


@dataclass(frozen=True)
class RunConfig:
    """What the user asked for."""

    name: str
    script: str
    arguments: list[str]
    working_dir: str  # empty: where the agent was started, into which Ray has copied the user's
    modules: list[str]
    most: int
    least: int = 1
    # reached by every node; empty: each node has its own, and they are copied
    checkpoints: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    checkpoint_timeout: float = 120.0
    rescale_timeout: float = 60.0
    max_failures: int = 3
    cloud: str = "auto"
    metadata: str | None = None
    notice_dir: str | None = None
    threshold: float = 0.5

    def agent_fields(self) -> dict[str, Any]:
        """What an agent has to know before it is asked to start ranks."""
        names = ("working_dir", "modules", "environment", "cloud", "metadata", "notice_dir")
        return {name: getattr(self, name) for name in names}


def rank_job(
    config: RunConfig, placement: Placement, rank: int, master: tuple[str, int], restarts: int
) -> dict[str, Any]:
    """What one rank runs, with the variables of torchrun and those of AdaptDL."""
    nodes = list(dict.fromkeys(placement.nodes))
    neighbours = placement.ranks_of(placement.nodes[rank])
    environment = {
        "RANK": rank,
        "LOCAL_RANK": neighbours.index(rank),
        "WORLD_SIZE": placement.size,
        "LOCAL_WORLD_SIZE": len(neighbours),
        "GROUP_RANK": nodes.index(placement.nodes[rank]),
        "GROUP_WORLD_SIZE": len(nodes),
        "ROLE_NAME": "default",
        "ROLE_RANK": rank,
        "ROLE_WORLD_SIZE": placement.size,
        "MASTER_ADDR": master[0],
        "MASTER_PORT": master[1],
        "TORCHELASTIC_RESTART_COUNT": restarts,
        "TORCHELASTIC_MAX_RESTARTS": config.max_failures,
        "TORCHELASTIC_RUN_ID": config.name,
        "ADAPTDL_MASTER_ADDR": master[0],
        "ADAPTDL_MASTER_PORT": master[1],
        "ADAPTDL_NUM_REPLICAS": placement.size,
        "ADAPTDL_NUM_NODES": len(nodes),
        "ADAPTDL_REPLICA_RANK": rank,
        "ADAPTDL_NUM_RESTARTS": restarts,
        "ADAPTDL_JOB_ID": f"arc-toolkit/{config.name}",
        "ADAPTDL_CHECKPOINT_PATH": config.checkpoints,
        "ARC_TOOLKIT_CHECKPOINTS": config.checkpoints,
    }
    return {
        "rank": rank,
        "script": config.script,
        "arguments": config.arguments,
        "environment": {name: str(value) for name, value in environment.items() if value != ""},
    }


def newest_saved_step(checkpoints: str) -> int | None:
    """The step of the newest checkpoint in a shared folder; None for a URL."""
    from arc_toolkit.checkpoints import Checkpoint, Store

    if "://" in checkpoints:
        return None
    entries = Store(checkpoints).listing()
    return next((entry.step for entry in entries if isinstance(entry, Checkpoint)), None)


def find_script(file: str, folder: str | None) -> tuple[str, str]:
    """The script and the working folder; `file` may be relative to the folder, as in AdaptDL."""
    if folder and not os.path.isdir(folder):
        raise ArcError(f"-d {folder}: no such folder")
    script = os.path.abspath(os.path.join(folder or "", file))
    if not os.path.exists(script):
        script = os.path.abspath(file)
    working_dir = os.path.abspath(folder or os.path.dirname(script))
    if os.path.exists(script) and os.path.commonpath([script, working_dir]) != working_dir:
        raise ArcError(
            f"{file} is not in the working folder {working_dir}: set -d to a folder above it"
        )
    return script, working_dir


def checkpoint_place(place: str, run_name: str, *, is_local: bool) -> str:
    """The folder or URL of --checkpoints.

    Empty in a cluster without shared storage: checkpoints are then copied between the nodes.
    """
    if "://" in place:
        from arc_toolkit.checkpoints.remote import url_problem

        if problem := url_problem(place, is_local=is_local):
            raise ArcError(f"--checkpoints {place}: {problem}")
        return place
    if not place and not is_local:
        return ""
    place = os.path.abspath(place or os.path.join("checkpoints", run_name))
    if os.path.exists(place) and not os.path.isdir(place):
        raise ArcError(f"--checkpoints {place} is not a folder")
    return place


def imported_modules(source: str, path: str) -> list[str]:
    """The modules that a script imports at its top level, in order.

    A standby imports them ahead of time, and passes over those that fail.
    """
    try:
        tree = ast.parse(source, path)
    except SyntaxError as error:
        raise ArcError(f"{path}:{error.lineno or 1}: not Python: {error.msg}") from None
    names: dict[str, None] = {}
    for node in tree.body:
        inner = node.body if isinstance(node, ast.Try) else [node]
        for statement in inner:
            if isinstance(statement, ast.Import):
                names.update(dict.fromkeys(alias.name for alias in statement.names))
            elif isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
                names[statement.module] = None
    return [name for name in names if name != "__future__"]
