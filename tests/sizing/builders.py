"""Raw Kubernetes objects for tests, as `kubectl get -o json` prints them."""

from __future__ import annotations

from typing import Any


def node(name: str = "aks-d64-12345678-vmss000000", **overrides: Any) -> dict[str, Any]:
    """A Ready D64s_v5 on 1.33 with maxPods 110: its numbers follow from its capacity by the rules."""
    options: dict[str, Any] = {
        "size": "Standard_D64s_v5",
        "pool": "d64",
        "cpu": "64",
        "memory": "263900000Ki",
        "allocatable_cpu": "63260m",
        "allocatable_memory": "261493600Ki",
        "pods": "110",
        "gpus": 0,
        "labels": {},
        "taints": [],
        "ready": "True",
        "unschedulable": False,
        "os": "linux",
        "arch": "amd64",
        "version": "v1.33.2",
        **overrides,
    }
    labels = {
        "agentpool": options["pool"],
        "kubernetes.azure.com/agentpool": options["pool"],
        **options["labels"],
    }
    if options["size"]:
        labels["node.kubernetes.io/instance-type"] = options["size"]
    gpu = {"nvidia.com/gpu": str(options["gpus"])} if options["gpus"] else {}
    status: dict[str, Any] = {
        "capacity": {
            "cpu": options["cpu"],
            "memory": options["memory"],
            "pods": options["pods"],
            **gpu,
        },
        "conditions": [{"type": "Ready", "status": options["ready"]}],
        "nodeInfo": {
            "operatingSystem": options["os"],
            "architecture": options["arch"],
            "kubeletVersion": options["version"],
        },
    }
    if options["allocatable_memory"]:
        status["allocatable"] = {
            "cpu": options["allocatable_cpu"],
            "memory": options["allocatable_memory"],
            "pods": options["pods"],
            **gpu,
        }
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": options["taints"], "unschedulable": options["unschedulable"]},
        "status": status,
    }


def pod(
    name: str,
    node_name: str,
    cpu: str = "100m",
    memory: str = "128Mi",
    *,
    owner: str = "DaemonSet",
    namespace: str = "kube-system",
    phase: str = "Running",
    labels: dict[str, str] | None = None,
) -> dict[str, Any]:
    """A pod with one container, owned by something of that kind."""
    return {
        "kind": "Pod",
        "metadata": {
            "name": f"{name}-x1",
            "namespace": namespace,
            "labels": labels or {},
            "ownerReferences": [{"kind": owner, "name": name}],
        },
        "spec": {
            "nodeName": node_name,
            "containers": [
                {"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
            ],
        },
        "status": {"phase": phase},
    }


def as_list(items: list[dict[str, Any]]) -> dict[str, Any]:
    return {"kind": "List", "apiVersion": "v1", "items": items}
