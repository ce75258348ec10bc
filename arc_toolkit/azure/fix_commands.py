"""What a check of preflight answers: a state, a reason, and the command that fixes it."""

from __future__ import annotations

from enum import Enum
from typing import Literal, NamedTuple

CheckState = Literal["ok", "not ok", "cannot tell"]


class TargetOptions(Enum):
    """The options that a command needs to mean the same cluster as this run."""

    SUBSCRIPTION = ("subscription",)
    CLUSTER = ("subscription", "resource_group", "cluster", "cluster_type")
    CLUSTER_AND_WORKSPACE = (*CLUSTER, "workspace_resource_group")
    KUBECONFIG = ("kubeconfig", "context")
    NONE = ()


class FixCommand(NamedTuple):
    text: str
    options: TargetOptions


def extension_command(words: str) -> FixCommand:
    return FixCommand(f"arc-toolkit cluster extension {words}", TargetOptions.CLUSTER)


Verdict = tuple[CheckState, str, FixCommand | None]
