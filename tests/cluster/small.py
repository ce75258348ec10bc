"""A small live cluster: one real node (Standard_B8ms), and what the commands make of it."""

from __future__ import annotations

from typing import Any

from tests.cluster.control_plane import ControlPlane
from tests.cluster.objects import node

Object = dict[str, Any]
API = "amlarc.azureml.com/v1alpha1"
CAPACITY = {"cpu": "8", "memory": "32859916Ki", "pods": "110"}
ALLOCATABLE = {"cpu": "7820m", "memory": "30453516Ki", "pods": "110"}
BIG = {"node.kubernetes.io/instance-type": "Standard_B8ms", "agentpool": "big"}


def big(name: str, **options: Any) -> Object:
    """A real node: Standard_B8ms on 1.32 with maxPods 110."""
    labels = {**BIG, **options.pop("labels", {})}
    options = {"capacity": CAPACITY, "allocatable": ALLOCATABLE, "version": "v1.32.7", **options}
    return node(name, labels=labels, **options)


def ready(cluster: ControlPlane, *names: str) -> None:
    """Wait until the nodes are Ready and have lost their not-ready taint."""

    def settled() -> bool:
        items = {item["metadata"]["name"]: item for item in cluster.list("Node")}
        return all(
            any(
                row["type"] == "Ready" and row["status"] == "True"
                for row in items[name]["status"].get("conditions", ())
            )
            and not any(
                "not-ready" in taint["key"] for taint in items[name]["spec"].get("taints", ())
            )
            for name in names
        )

    cluster.wait("Ready nodes", settled)


def types(cluster: ControlPlane) -> dict[str, Object]:
    return {
        item["metadata"]["name"]: item for item in cluster.list("InstanceType", api_version=API)
    }
