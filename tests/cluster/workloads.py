"""What sits on an AKS node with the AzureML extension, as real DaemonSets, and pods that ask as AzureML jobs do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.cluster.control_plane import ControlPlane

Object = dict[str, Any]

PROFILE = "test/profile"  # a node label: which DaemonSets run there

# name -> (cpu, memory) requests. The sums are those of the facts: AKS by network plugin and version.
PROFILES: dict[str, dict[str, tuple[str, str]]] = {
    "kubenet-1.26": {
        "kube-proxy": ("100m", "0"),
        "azure-ip-masq-agent": ("100m", "50Mi"),
        "cloud-node-manager": ("50m", "50Mi"),
        "csi-azuredisk-node": ("30m", "60Mi"),
        "csi-azurefile-node": ("30m", "60Mi"),
    },
    "overlay-1.30": {
        "kube-proxy": ("100m", "0"),
        "azure-ip-masq-agent": ("100m", "50Mi"),
        "cloud-node-manager": ("50m", "50Mi"),
        "csi-azuredisk-node": ("30m", "60Mi"),
        "csi-azurefile-node": ("30m", "60Mi"),
        "azure-cns": ("40m", "250Mi"),
    },
    "overlay-1.35-monitored": {"aks": ("335m", "526Mi"), "ama-logs": ("150m", "550Mi")},
}
FLUENT_BIT = ("10m", "100Mi")


def container(cpu: str, memory: str, limits: Mapping[str, Any] | None = None) -> Object:
    resources: Object = {"requests": {"cpu": cpu, "memory": memory}}
    if limits:
        resources["limits"] = dict(limits)
    return {"name": "main", "image": "none", "resources": resources}


def daemonset(
    name: str, cpu: str, memory: str, selector: Mapping[str, str], namespace: str = "kube-system"
) -> Object:
    """A real DaemonSet: the controller manager makes its pods, the scheduler binds them."""
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "nodeSelector": dict(selector),
                    "tolerations": [{"operator": "Exists"}],
                    "containers": [container(cpu, memory)],
                },
            },
        },
    }


def profile_daemonsets(profile: str) -> list[Object]:
    """The DaemonSets of a profile, and fluent-bit, on the nodes that carry its label."""
    slug = profile.replace(".", "-")
    found = [
        daemonset(f"{name}-{slug}", cpu, memory, {PROFILE: profile})
        for name, (cpu, memory) in PROFILES[profile].items()
    ]
    return [*found, daemonset(f"fluent-bit-{slug}", *FLUENT_BIT, {PROFILE: profile}, "azureml")]


def job_pod(name: str, instance_type: Mapping[str, Any], **extra: Any) -> Object:
    """A pod as AzureML starts it for an InstanceType: its resources and selector, and a sidecar that asks nothing."""
    spec = instance_type["spec"]
    resources = spec["resources"]
    labels = {"ml.azure.com/run-id": name, **extra.pop("labels", {})}
    annotations = extra.pop("annotations", {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": labels,
            "annotations": annotations,
        },
        "spec": {
            "nodeSelector": dict(spec.get("nodeSelector") or {}),
            "containers": [
                {
                    **container(
                        resources["requests"]["cpu"],
                        resources["requests"]["memory"],
                        resources["limits"],
                    )
                },
                {"name": "sidecar", "image": "none"},
            ],
            **extra,
        },
    }


def gang_pod(name: str, group: str, instance_type: Mapping[str, Any]) -> Object:
    """One instance of a job under Volcano, as AzureML's extension starts it."""
    return job_pod(
        name,
        instance_type,
        schedulerName="volcano",
        annotations={"scheduling.k8s.io/group-name": group},
    )


def pod_group(name: str, members: int) -> Object:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minMember": members, "queue": "default"},
    }


def settle(cluster: ControlPlane, daemonsets: Sequence[Object], pods: int) -> None:
    """Create DaemonSets, and wait until all DaemonSets together have that many pods, each bound."""

    def settled() -> bool:
        states = [item["status"] for item in cluster.list("DaemonSet", api_version="apps/v1")]
        placed = sum(state.get("currentNumberScheduled", 0) for state in states)
        return placed == pods and not cluster.list("Pod", fieldSelector="spec.nodeName=", limit=1)

    cluster.create_all(daemonsets)
    cluster.wait(f"{pods} bound pods of DaemonSets", settled, 400, every=0.5)


def placements(cluster: ControlPlane) -> dict[str, str | None]:
    """The node of each pod of the namespace default, by name of the pod; None for those not bound."""
    return {
        pod["metadata"]["name"]: pod["spec"].get("nodeName")
        for pod in cluster.list("Pod", "default")
    }


def refusals(cluster: ControlPlane) -> dict[str, str]:
    """What the scheduler says of the pods of default that it could not bind, by name."""
    found = {}
    for pod in cluster.list("Pod", "default", fieldSelector="spec.nodeName="):
        for condition in pod["status"].get("conditions", ()):
            if condition["type"] == "PodScheduled" and condition.get("reason") == "Unschedulable":
                found[pod["metadata"]["name"]] = condition.get("message", "")
    return found
