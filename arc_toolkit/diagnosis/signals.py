"""The one table of reason strings (data/signals.csv), and what each proves.

Data only: the order of evidence, the kinds of cause, and the table itself. `causes.py` applies it
to attempts in the order of evidence below, `verdicts.py` to nodes. A signal without a kind is shown
but proves nothing by itself, such as exit code 137.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from arc_toolkit.diagnosis.model import CauseKind, Confidence, EvidenceSource
from arc_toolkit.resources import data_file

# The order of evidence for one attempt: 1 is the strongest.
ORDER = {
    EvidenceSource.POD_CONDITION: 1,
    EvidenceSource.POD_STATUS: 2,
    EvidenceSource.CONTAINER: 3,
    EvidenceSource.POD_EVENT: 4,
    EvidenceSource.VOLCANO_JOB: 4,
    EvidenceSource.NODE_EVENT: 5,
    EvidenceSource.NODE_CONDITION: 6,
    EvidenceSource.NODE_TAINT: 6,
    EvidenceSource.NODE_LIST: 7,
    EvidenceSource.EXIT_CODE: 8,
    EvidenceSource.LOG: 9,
    EvidenceSource.PRS: 9,
}


@dataclass(frozen=True, slots=True)
class CauseTraits:
    """A kind of cause in words; `blames_node`: it counts; `direct`: proof while it holds."""

    label: str
    blames_node: bool
    direct: bool
    advice: str


KINDS: dict[CauseKind, CauseTraits] = {
    CauseKind.OWN_MEMORY: CauseTraits(
        "own memory limit", False, False, "the job needs more memory than its instance type allows"
    ),
    CauseKind.NODE_MEMORY: CauseTraits(
        "node out of memory", True, True, "the node itself ran out of memory, not this job's limit"
    ),
    CauseKind.NODE_LOST: CauseTraits(
        "node NotReady or lost", True, True, "the node stopped responding"
    ),
    CauseKind.NODE_FAULT: CauseTraits(
        "node fault", True, True, "the node reported a fault of its own"
    ),
    CauseKind.NODE_PRESSURE: CauseTraits(
        "evicted by node pressure", True, False, "the node was short of memory, disk or processes"
    ),
    CauseKind.OWN_STORAGE: CauseTraits(
        "own storage limit", False, False, "the job exceeded its limit of local storage"
    ),
    CauseKind.SPOT: CauseTraits("spot preemption", False, False, "Azure reclaimed the spot VM"),
    CauseKind.DRAIN: CauseTraits(
        "drain or upgrade",
        False,
        False,
        "the node was drained, upgraded, or shut down for maintenance",
    ),
    CauseKind.SCALE_DOWN: CauseTraits(
        "scale-down", False, False, "the autoscaler removed the node"
    ),
    CauseKind.SCHEDULER: CauseTraits(
        "scheduler preemption", False, False, "preempted by a pod of higher priority"
    ),
    CauseKind.GANG: CauseTraits(
        "gang collateral", False, False, "stopped because another rank of the job had failed"
    ),
    CauseKind.SETUP: CauseTraits(
        "setup error",
        False,
        False,
        "the pod could not be set up, for a reason outside the job's code and the node",
    ),
    CauseKind.USER: CauseTraits(
        "user error", False, False, "the job's own process ended with an error"
    ),
    CauseKind.CANCELLED: CauseTraits(
        "cancelled", False, False, "a user or a time limit stopped the job"
    ),
    CauseKind.UNKNOWN: CauseTraits(
        "unknown", True, False, "no evidence is left; Kubernetes keeps events for about an hour"
    ),
}


@dataclass(frozen=True, slots=True)
class Signal:
    """One reason string. Of signals of one source the smaller `priority` explains the larger."""

    source: EvidenceSource
    reason: str
    kind: CauseKind | None
    confidence: Confidence
    message: str
    origin: str
    priority: int = 5


@cache
def table() -> dict[tuple[EvidenceSource, str], Signal]:
    """data/signals.csv by source and reason string."""
    import csv

    with data_file("signals.csv").open(encoding="utf-8", newline="") as stream:
        rows = [
            Signal(
                source=EvidenceSource(row["where"]),
                reason=row["reason"],
                kind=CauseKind(row["kind"]) if row["kind"] else None,
                confidence=row["confidence"],  # type: ignore[arg-type]
                message=row["message"],
                origin=row["origin"],
                priority=int(row["priority"]),
            )
            for row in csv.DictReader(stream)
        ]
    return {(signal.source, signal.reason): signal for signal in rows}


# `status.reason` Evicted means little without its message (kubelet eviction/helpers.go).
# First match wins.
EVICTION_MESSAGES: tuple[tuple[str, CauseKind, Confidence, str], ...] = (
    (
        r"ephemeral local storage usage exceeds|exceeded its local ephemeral storage limit",
        CauseKind.OWN_STORAGE,
        "high",
        "exceeded its own limit of local storage",
    ),
    (
        r"Usage of EmptyDir volume .* exceeds the limit",
        CauseKind.OWN_STORAGE,
        "high",
        "exceeded the limit of an emptyDir volume",
    ),
    (r"low on resource: \[?memory", CauseKind.NODE_PRESSURE, "high", "the node was low on memory"),
    (
        r"low on resource: \[?(?:ephemeral-storage|inodes|nodefs|imagefs)",
        CauseKind.NODE_PRESSURE,
        "high",
        "the node was low on disk",
    ),
    (
        r"low on resource: \[?pids",
        CauseKind.NODE_PRESSURE,
        "high",
        "the node was low on process ids",
    ),
    (
        r"The node had condition: \[?\w+",
        CauseKind.NODE_PRESSURE,
        "high",
        "the node was under pressure",
    ),
    (r"low on resource", CauseKind.NODE_PRESSURE, "medium", "the node was low on a resource"),
    (r"[Pp]reempt(?:ed|ing)", CauseKind.SCHEDULER, "medium", "preempted by another pod"),
)

# The messages of third-party termination handlers, which use reasons of their own.
PREEMPT_MESSAGE = re.compile(
    r"will change into status '?Preempt|[Pp]reempt(?:ion)? [Ss]cheduled|SpotEvictionIncoming"
)

# VMEventScheduled announces: `Redeploy Scheduled: Sat, 06 Jun 2026 07:55:00 GMT. ...`
SCHEDULED = re.compile(r"\b(Preempt|Redeploy|Reboot|Terminate|Freeze)(?:Scheduled)?\b")
# The check for announcements could not ask; happens on every kind of node (Azure/AKS #4757).
FAILED_QUERY = re.compile(r"query failed|[Tt]imed out")

# Karpenter disrupts a node to replace it (`Disrupting Node: Drifted`), not to have fewer.
KARPENTER_REPLACES = re.compile(r"\b(?:Drift|Expir)")

# A node whose VM is stopped but not deleted, such as a spot VM with the policy Deallocate.
SHUTDOWN_TAINT = "node.cloudprovider.kubernetes.io/shutdown"
REMOVALS = frozenset({"DeletingNode", "RemovingNode"})
# A node has just begun to work, and its device plugins may still be missing.
STARTS = frozenset({"Starting", "Rebooted", "RegisteredNode", "NodeReady", "KubeletStart"})
# How a node looks that has not been ready yet.
NOT_YET_UP = frozenset({"Ready", "NetworkUnavailable", "node.kubernetes.io/not-ready"})
# Taints that Kubernetes itself sets because a node does not respond.
LOST_TAINTS = frozenset({"node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready"})

# Faults with which a running process goes on: services beside it, and a GPU that is only slow.
SURVIVABLE = frozenset(
    {
        "KubeletProblem",
        "KubeletIsDown",
        "KubeletUnhealthy",
        "FrequentKubeletRestart",
        "ContainerRuntimeProblem",
        "ContainerRuntimeIsDown",
        "ContainerRuntimeUnhealthy",
        "FrequentContainerdRestart",
        "FrequentDockerRestart",
        "PLEGUnhealthy",
        "UnhealthyNvidiaDevicePlugin",
        "GPUClockThrottling",
    }
)

# Faults that may pass: services, links, single errors. Others last until a repair.
PASSING = SURVIVABLE | {
    "IBLinkFlapping",
    "NetworkUnavailable",
    "FrequentUnregisterNetDevice",
    "KernelOops",
    "TaskHung",
    "DNSProblem",
    "PodIPProblem",
    "IOError",
    "Ext4Error",
}
# An event of the node problem detector, and the condition that it sets.
CONDITION_OF_EVENT = {"FilesystemCorruptionDetected": "FilesystemCorruptionProblem"}

# A node name is a slot, not a VM: after these (`...Start` and `...End`) it is another VM or has
# another disk, unless an `...Error` follows.
REPLACED_BY = ("NodeReimage", "NodeRedeploy")

CORDONED, UNCORDONED, CORDON_TAINT = (
    "NodeNotSchedulable",
    "NodeSchedulable",
    "node.kubernetes.io/unschedulable",
)

# Conditions that are good if True; all others are bad if True.
GOOD_WHEN_TRUE = frozenset({"kubernetes.azure.com/NodeHealthy"})


def is_bad(condition: str, status: object) -> bool:
    """Whether this status of a condition is bad."""
    if condition == "Ready":
        return status in ("False", "Unknown")
    return status == ("False" if condition in GOOD_WHEN_TRUE else "True")


# AKS has written the same check as XIDErrors, XIDError, GPUXIDErrors, XIDError79.
_XID_CONDITION = re.compile(r"(?:GPU)?XIDErrors?(?:\d+|AlwaysFail)?")
_FAULT_CODE = re.compile(r"FaultCode: (NHC\w+)")


def condition_name(kind: str) -> str:
    """The name under which the table has a condition."""
    return "XIDErrors" if _XID_CONDITION.fullmatch(kind) else kind


def health_check(source: EvidenceSource, text: str) -> Signal | None:
    """A failed health check of Azure that the table does not have; it ends with a fault code."""
    match = _FAULT_CODE.search(text)
    if match is None:
        return None
    origin = "github.com/Azure/azurehpc-health-checks"
    return Signal(
        source,
        match[1],
        CauseKind.NODE_FAULT,
        "medium",
        "a health check of the node failed",
        origin,
    )


_REASON = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]{0,63}")


def reason_text(reason: str) -> str:
    """An unknown reason string, if it looks like one; free text may contain secrets."""
    return reason if _REASON.fullmatch(reason) else "?"


def is_sidecar(container: str) -> bool:
    """AzureML's identity sidecar, which fails alone if a proxy blocks it."""
    return IDENTITY_SIDECAR in container


def is_helper(container: str) -> bool:
    """A container of AzureML's runtime beside that of the job, by its name."""
    return is_sidecar(container) or container.endswith(HELPERS)


# The names in a public pod of the runtime, each after the id of the job.
HELPERS = ("-lifecycler", "-capability", "-init")
IDENTITY_SIDECAR = "training-identity-sidecar"
MAIN_CONTAINER = "execution-wrapper"
