"""Made-up logs and Kubernetes objects for the tests of diagnose."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

from arc_toolkit.diagnosis.model import ClusterFacts, LogFile
from arc_toolkit.diagnosis.read import cluster_index
from arc_toolkit.diagnosis.read.scan import LogScan, scan

NODE_A = "aks-gpu-12345678-vmss00000a"
NODE_B = "aks-gpu-12345678-vmss00000b"
NODE_C = "aks-gpu-12345678-vmss00000c"


def at(minute: float) -> str:
    """A moment of the test day, in minutes after ten."""
    seconds = round(minute * 60)
    return f"2026-03-03T{10 + seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}Z"


def node_line(name: str) -> bytes:
    return f"++ echo 'Run on node: {name}'\nRun on node: {name}\n".encode()


def scanned(data: bytes, path: str = "job/system_logs/amlarc_cr_bootstrap.log") -> LogScan:
    """Scan bytes as a log that has a node."""
    found = scan(LogFile(path, lambda: io.BytesIO(data)))
    assert isinstance(found, LogScan)
    return found


def log(path: str, node: str | None, **fields: Any) -> LogScan:
    """What a log at this path would give."""
    return LogScan(path, [node] if node else [], size=100, **fields)


def write_log(root: Path, path: str, node: str) -> Path:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(node_line(node))
    return file


def container(
    name: str = "1-execution-wrapper", reason: str = "Error", code: int = 1, minute: float = 30
) -> dict[str, Any]:
    return {
        "name": name,
        "state": {"terminated": {"reason": reason, "exitCode": code, "finishedAt": at(minute)}},
    }


def pod(
    run: str = "job",
    node: str | None = NODE_A,
    uid: str = "uid-1",
    *,
    name: str = "azureml-aa-worker-0",
    phase: str = "Failed",
    start: float = 0,
    containers: list[dict[str, Any]] | None = None,
    disruption: str | None = None,
    disrupted: float = 30,
    **status: Any,
) -> dict[str, Any]:
    conditions = []
    if disruption:
        conditions = [
            {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": disruption,
                "lastTransitionTime": at(disrupted),
            }
        ]
    return {
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "azureml",
            "uid": uid,
            "creationTimestamp": at(start),
            "labels": {"ml.azure.com/run-id": run},
        },
        "spec": {"nodeName": node},
        "status": {
            "phase": phase,
            "startTime": at(start),
            "conditions": conditions,
            "containerStatuses": containers or [],
            **status,
        },
    }


def node(
    name: str = NODE_A, *, spot: bool = False, created: str = "2026-01-01T00:00:00Z", **parts: Any
) -> dict[str, Any]:
    conditions = parts.pop(
        "conditions", [{"type": "Ready", "status": "True", "lastTransitionTime": created}]
    )
    labels = {"kubernetes.azure.com/agentpool": "gpu"}
    if spot:
        labels["kubernetes.azure.com/scalesetpriority"] = "spot"
    return {
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": parts.pop("uid", f"uid-{name}"),
            "creationTimestamp": created,
            "labels": labels,
        },
        "spec": parts,
        "status": {"conditions": conditions},
    }


def event(
    reason: str,
    minute: float,
    *,
    about: str = NODE_A,
    kind: str = "Node",
    message: str = "",
    **more: Any,
) -> dict[str, Any]:
    target = {"kind": kind, "name": about, **more}
    return {
        "kind": "Event",
        "involvedObject": target,
        "reason": reason,
        "message": message,
        "lastTimestamp": at(minute),
    }


def facts(
    pods: list[dict[str, Any]] | None = None,
    nodes: list[dict[str, Any]] | None = None,
    events: list[dict[str, Any]] | None = None,
) -> ClusterFacts:
    return ClusterFacts(pods or [], nodes or [], events or [], nodes_complete=bool(nodes))


def cluster(
    pods: list[dict[str, Any]] | None = None,
    nodes: list[dict[str, Any]] | None = None,
    events: list[dict[str, Any]] | None = None,
) -> cluster_index.ClusterIndex:
    return cluster_index.read([facts(pods, nodes, events)])


def save(path: Path, items: list[dict[str, Any]]) -> Path:
    path.write_text(json.dumps({"kind": "List", "items": items}))
    return path
