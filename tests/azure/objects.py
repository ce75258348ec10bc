"""Raw Kubernetes and Azure objects as small as the checks need them."""

from __future__ import annotations

from typing import Any

from tests.azure.conftest import CLUSTER

GI = 1024**3


def node(
    name: str, *, cpu: int = 16, gib: int = 64, gpus: int = 0, ready: bool = True, **extra: Any
) -> dict[str, Any]:
    """A node; `labels` and `taints` (key, value) as extras."""
    labels = {
        "kubernetes.io/os": "linux",
        "agentpool": name.split("-")[0],
        **extra.get("labels", {}),
    }
    amounts = {
        "cpu": str(cpu),
        "memory": f"{gib}Gi",
        "pods": "110",
        **({"nvidia.com/gpu": str(gpus)} if gpus else {}),
    }
    taints = [
        {"key": key, "value": value, "effect": "NoSchedule"}
        for key, value in extra.get("taints", ())
    ]
    return {
        "metadata": {"name": name, "uid": name, "labels": labels},
        "spec": {"taints": taints},
        "status": {
            "capacity": amounts,
            "allocatable": {**amounts, "cpu": f"{cpu * 1000 - 260}m", "memory": f"{gib - 2}Gi"},
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            "nodeInfo": {
                "operatingSystem": "linux",
                "architecture": "amd64",
                "kubeletVersion": "v1.33.2",
            },
        },
    }


def pod(
    name: str,
    node_name: str,
    owner: str,
    *,
    cpu: str = "100m",
    memory: str = "500Mi",
    namespace: str = "azureml",
) -> dict[str, Any]:
    """A running pod, of the extension's namespace unless another is said."""
    return {
        "metadata": {
            "name": name,
            "uid": name,
            "namespace": namespace,
            "ownerReferences": [{"kind": owner, "name": name}],
        },
        "spec": {
            "nodeName": node_name,
            "containers": [{"resources": {"requests": {"cpu": cpu, "memory": memory}}}],
        },
        "status": {"phase": "Running"},
    }


def instance_type(
    name: str, cpu: str, memory: str, *, gpus: int = 0, **selector: str
) -> dict[str, Any]:
    amounts: dict[str, Any] = {"cpu": cpu, "memory": memory}
    limits = {**amounts, **({"nvidia.com/gpu": gpus} if gpus else {})}
    spec: dict[str, Any] = {"resources": {"requests": amounts, "limits": limits}}
    if selector:
        spec["nodeSelector"] = selector
    return {"metadata": {"name": name, "uid": name}, "spec": spec}


def installed(state: str = "Succeeded", **settings: str) -> dict[str, Any]:
    """The AzureML extension as the REST API shows it."""
    properties = {
        "extensionType": "microsoft.azureml.kubernetes",
        "provisioningState": state,
        "currentVersion": "1.1.60",
        "releaseTrain": "stable",
        "autoUpgradeMinorVersion": True,
        "configurationSettings": {"enableTraining": "True", "installVolcano": "True", **settings},
    }
    path = f"{CLUSTER.resource_id}/providers/Microsoft.KubernetesConfiguration/extensions/azureml"
    return {"id": path, "name": "azureml", "properties": properties}


def compute(name: str = "gpu-pool", state: str = "Succeeded") -> dict[str, Any]:
    return {
        "name": name,
        "properties": {
            "computeType": "Kubernetes",
            "resourceId": CLUSTER.resource_id.upper(),
            "provisioningState": state,
            "properties": {"namespace": "team-a"},
        },
    }


class FakeCluster:
    """The two calls of the Kubernetes client that preflight makes."""

    server = "https://127.0.0.1:6443"
    where = "the cluster"

    def __init__(
        self,
        nodes: list[Any],
        pods: list[Any],
        types: list[Any],
        groups: dict[str, str] | None = None,
        namespaces: dict[str, dict[str, str]] | None = None,
        config_maps: dict[str, str] | None = None,
    ) -> None:
        """`namespaces` are annotations by name; `config_maps` are scheduler configurations by name."""
        named = {"default": {}, "team-a": {}, **(namespaces or {})}
        self._config_maps = config_maps or {}
        self._lists = {
            "/api/v1/namespaces": [
                {"metadata": {"name": name, "annotations": row}} for name, row in named.items()
            ],
            "/api/v1/nodes": nodes,
            "/api/v1/pods": pods,
            "/apis/amlarc.azureml.com/v1alpha1/instancetypes": types,
        }
        default = {
            "amlarc.azureml.com/v1alpha1": "instancetypes",
            "scheduling.volcano.sh/v1beta1": "podgroups",
        }
        self._groups = default if groups is None else groups

    def get(self, path: str, params: Any = None) -> dict[str, Any]:
        from arc_toolkit.cluster.failures import NotFound

        name = path.removeprefix("/api/v1/namespaces/azureml/configmaps/")
        if name in self._config_maps:
            return {"data": {"volcano-scheduler.conf": self._config_maps[name]}}
        name = path.removeprefix("/apis/")
        if name in self._groups:
            return {
                "resources": [
                    {"name": self._groups[name]},
                    {"name": f"{self._groups[name]}/status"},
                ]
            }
        versions = [{"groupVersion": text} for text in self._groups if text.startswith(f"{name}/")]
        if not versions:
            raise NotFound("no such group", 404, {})
        return {"versions": versions}

    def list(self, path: str, params: Any = None) -> list[dict[str, Any]]:
        return self._lists[path]
