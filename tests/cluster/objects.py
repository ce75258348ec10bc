"""Kubernetes objects of the tests as raw JSON: where they live in the API, and Nodes for kwok."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Object = dict[str, Any]

NAMESPACED = {
    "Pod",
    "DaemonSet",
    "PodGroup",
    "Event",
    "Deployment",
    "Job",
    "ReplicaSet",
    "StatefulSet",
}
MANAGED = {"kwok.x-k8s.io/node": "fake"}  # the annotation that kwok looks for
_NOT_READY = {
    "type": "Ready",
    "status": "False",
    "reason": "KubeletNotReady",
    "message": "no kubelet",
}


def path_of(kind: str, api_version: str = "v1", namespace: str = "default", name: str = "") -> str:
    """`/api/v1/namespaces/default/pods/NAME` and so on."""
    base = f"/api/{api_version}" if api_version == "v1" else f"/apis/{api_version}"
    scope = f"/namespaces/{namespace}" if kind in NAMESPACED and namespace else ""
    return f"{base}{scope}/{kind.lower()}s" + (f"/{name}" if name else "")


def path_for(manifest: Object, *, named: bool = False) -> str:
    metadata = manifest["metadata"]
    name = metadata["name"] if named else ""
    return path_of(
        manifest["kind"], manifest["apiVersion"], metadata.get("namespace", "default"), name
    )


def node(
    name: str,
    *,
    capacity: Mapping[str, str] | None = None,
    allocatable: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    taints: Iterable[Mapping[str, str]] = (),
    version: str = "v1.33.2",
    system: str = "linux",
    architecture: str = "amd64",
    managed: bool = True,
) -> Object:
    """A Node manifest, small by default. kwok makes it Ready, unless `managed` is False: then it is NotReady."""
    capacity = capacity or {"cpu": "4", "memory": "16374000Ki", "pods": "110"}
    names = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": system,
        "kubernetes.io/arch": architecture,
    }
    names["node.kubernetes.io/instance-type"] = "Standard_D4s_v5"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {**names, **(labels or {})},
            "annotations": dict(MANAGED) if managed else {},
        },
        "spec": {"taints": [dict(taint) for taint in taints]},
        "status": {
            "capacity": dict(capacity),
            "allocatable": dict(allocatable or capacity),
            "conditions": [] if managed else [_NOT_READY],
            "nodeInfo": {
                "architecture": architecture,
                "operatingSystem": system,
                "kubeletVersion": version,
                "bootID": "",
                "containerRuntimeVersion": "",
                "kernelVersion": "",
                "kubeProxyVersion": "",
                "machineID": "",
                "osImage": "",
                "systemUUID": "",
            },
        },
    }
