"""A spot pool as an `az` command and as Bicep. Pure: data in, text out."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import Any

from arc_toolkit.azure.operations import CLUSTER_API
from arc_toolkit.azure.scope import Cluster
from arc_toolkit.azure.spot_pool import SpotPool, pool_body, price_text

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


FORMATS: Mapping[str, Callable[[SpotPool, Cluster], str]] = {
    "az": az_command,
    "bicep": bicep,
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
