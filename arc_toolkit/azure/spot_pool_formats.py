"""A spot pool as an `az` command, an ARM template, Bicep and Terraform. Pure: data in, text out."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from typing import Any

from arc_toolkit.azure.operations import CLUSTER_API
from arc_toolkit.azure.scope import Cluster
from arc_toolkit.azure.spot_pool import SpotPool, pool_body, price_text
from arc_toolkit.kube.taints import SPOT_TAINT

API_VERSION = CLUSTER_API["managedClusters"]
_CLUSTER_TYPE = "Microsoft.ContainerService/managedClusters"
_POOL_TYPE = f"{_CLUSTER_TYPE}/agentPools"


def az_command(pool: SpotPool, cluster: Cluster) -> str:
    """Always with `--node-count`: otherwise Azure starts 3 nodes, or refuses lower limits."""
    scope = ["--subscription", cluster.subscription] if cluster.subscription else []
    place = ["--resource-group", cluster.resource_group, "--cluster-name", cluster.name]
    limits = ["--min-count", str(pool.minimum), "--max-count", str(pool.maximum)]
    lines = [
        ["az", "aks", "nodepool", "add", *scope],
        [*place, "--name", pool.name],
        ["--node-vm-size", pool.size.name, "--mode", "User", "--os-type", "Linux"],
        ["--priority", "Spot", "--eviction-policy", pool.eviction_policy],
        ["--spot-max-price", price_text(pool.max_price)],
        ["--enable-cluster-autoscaler", *limits],
        ["--node-count", str(pool.count)],
    ]
    if pool.labels:
        lines.append(["--labels", *(f"{key}={value}" for key, value in pool.labels.items())])
    if pool.taints:
        lines.append(["--node-taints", ",".join(map(str, pool.taints))])
    if pool.zones:
        lines.append(["--zones", *pool.zones])
    return " \\\n  ".join(shlex.join(words) for words in lines)


def arm_template(pool: SpotPool, cluster: Cluster) -> str:
    """For `az deployment group create --template-file`."""
    resource = {
        "type": _POOL_TYPE,
        "apiVersion": API_VERSION,
        "name": f"{cluster.name}/{pool.name}",
        **pool_body(pool),
    }
    template = {
        "$schema": "https://schema.management.azure.com/schemas/2019-04-01/"
        "deploymentTemplate.json#",
        "contentVersion": "1.0.0.0",
        "resources": [resource],
    }
    return json.dumps(template, indent=2)


def bicep(pool: SpotPool, cluster: Cluster) -> str:
    """For `az deployment group create --template-file`; the cluster exists already."""
    properties = pool_body(pool)["properties"]
    # Bicep has no decimals: learn.microsoft.com/azure/azure-resource-manager/bicep/data-types
    price = price_text(pool.max_price)
    decimal = _Verbatim(f"json('{price}')" if "." in price else price)
    resource = {
        "parent": _Verbatim("aks"),
        "name": pool.name,
        "properties": {**properties, "spotMaxPrice": decimal},
    }
    return (
        f"resource aks '{_CLUSTER_TYPE}@{API_VERSION}' existing = "
        f"{_bicep_value({'name': cluster.name})}\n\n"
        f"resource pool '{_POOL_TYPE}@{API_VERSION}' = {_bicep_value(resource)}"
    )


def terraform(pool: SpotPool, cluster: Cluster) -> str:
    """For azurerm 4 and newer, which called `auto_scaling_enabled` `enable_auto_scaling` before.

    The provider wants the label and taint of AKS written out, or each plan would take them away
    again:
    https://registry.terraform.io/providers/hashicorp/azurerm/latest/docs/resources/kubernetes_cluster_node_pool
    """
    data = {"name": cluster.name, "resource_group_name": cluster.resource_group}
    arguments: dict[str, Any] = {
        "name": pool.name,
        "kubernetes_cluster_id": _Verbatim("data.azurerm_kubernetes_cluster.aks.id"),
        "vm_size": pool.size.name,
        "mode": "User",
        "os_type": "Linux",
        "priority": "Spot",
        "eviction_policy": pool.eviction_policy,
        "spot_max_price": _Verbatim(price_text(pool.max_price)),
        "auto_scaling_enabled": True,
        "min_count": pool.minimum,
        "max_count": pool.maximum,
        "node_count": pool.count,
        "node_taints": [str(taint) for taint in (SPOT_TAINT, *pool.taints)],
    }
    if pool.zones:
        arguments["zones"] = list(pool.zones)
    labels = {SPOT_TAINT.key: SPOT_TAINT.value, **pool.labels}
    return "\n".join(
        [
            "# azurerm 4 or newer",
            'data "azurerm_kubernetes_cluster" "aks" {',
            *_align(data, "  "),
            "}",
            "",
            f'resource "azurerm_kubernetes_cluster_node_pool" "{pool.name}" {{',
            *_align(arguments, "  "),
            "  node_labels = {",
            *_align({f'"{key}"': value for key, value in labels.items()}, "    "),
            "  }",
            "  lifecycle {",
            "    ignore_changes = [node_count] # the autoscaler changes it",
            "  }",
            "}",
        ]
    )


FORMATS: Mapping[str, Callable[[SpotPool, Cluster], str]] = {
    "az": az_command,
    "arm": arm_template,
    "bicep": bicep,
    "terraform": terraform,
}


class _Verbatim(str):
    """An expression that is written without quotes."""


def _bicep_value(value: Any, indent: str = "") -> str:
    inner = indent + "  "
    if isinstance(value, dict):
        rows = [
            f"{inner}{_bicep_key(key)}: {_bicep_value(item, inner)}" for key, item in value.items()
        ]
        return "\n".join(["{", *rows, f"{indent}}}"])
    if isinstance(value, list):
        return "\n".join(
            ["[", *(f"{inner}{_bicep_value(item, inner)}" for item in value), f"{indent}]"]
        )
    if isinstance(value, str) and not isinstance(value, _Verbatim):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'").replace("${", "\\${") + "'"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _bicep_key(key: str) -> str:
    return key if key.isidentifier() else f"'{key}'"


def _align(arguments: Mapping[str, Any], indent: str) -> list[str]:
    """As `terraform fmt` writes them: the equals signs below each other."""
    width = max(map(len, arguments))
    return [
        f"{indent}{key:<{width}} = {value if isinstance(value, _Verbatim) else json.dumps(value)}"
        for key, value in arguments.items()
    ]
