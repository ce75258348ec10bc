"""An AmlCompute cluster as azure-ai-ml reads it: YAML and Python. Pure.

The tier has one accepted spelling: in YAML `LowPriority`, `low-priority` and `spot` are refused,
and Python's `AmlCompute(tier="LowPriority")`, which Microsoft's notebooks show, sends `Lowpriority`
(azure-ai-ml 1.35.2).
https://learn.microsoft.com/azure/machine-learning/how-to-create-attach-compute-cluster
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from arc_toolkit.edit.yaml.writer import file_text
from arc_toolkit.errors import ArcError
from arc_toolkit.sizing import vm_sizes

SCHEMA = "https://azuremlschemas.azureedge.net/latest/amlCompute.schema.json"
LOW_PRIORITY, DEDICATED = "low_priority", "dedicated"
# "3-32 for AML compute":
# https://learn.microsoft.com/azure/azure-resource-manager/management/resource-name-rules
_NAME = re.compile(r"[A-Za-z0-9-]{3,32}", re.ASCII)


@dataclass(frozen=True)
class AmlComputeCluster:
    """A cluster that has no node, and costs nothing, while no job runs."""

    name: str
    size: str
    low_priority: bool
    maximum: int = 2
    idle_seconds: int = 120

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ArcError(
                f"{self.name!r} cannot be the name of a compute: "
                "use 3 to 32 letters, digits and hyphens"
            )
        if self.maximum < 1:
            raise ArcError(f"--max {self.maximum}: a cluster needs at least 1 node to run a job")
        if self.idle_seconds < 1:
            raise ArcError(f"--idle {self.idle_seconds}: write seconds, such as 120")

    @property
    def arguments(self) -> dict[str, str | int]:
        """What AmlCompute takes, by its names; they are the same in YAML and in Python."""
        return {
            "name": self.name,
            "size": vm_sizes.lookup(self.size).name,
            "tier": LOW_PRIORITY if self.low_priority else DEDICATED,
            "min_instances": 0,
            "max_instances": self.maximum,
            "idle_time_before_scale_down": self.idle_seconds,
        }


def yaml_text(cluster: AmlComputeCluster) -> str:
    """For `az ml compute create --file`."""
    return file_text(
        {"$schema": SCHEMA, "name": cluster.name, "type": "amlcompute", **cluster.arguments}
    )


def python_text(cluster: AmlComputeCluster) -> str:
    """Source that makes the compute with an MLClient."""
    arguments = "".join(
        f"    {key}={_literal(value)},\n" for key, value in cluster.arguments.items()
    )
    return (
        "from azure.ai.ml import MLClient\n"
        "from azure.ai.ml.entities import AmlCompute\n"
        "from azure.identity import DefaultAzureCredential\n\n"
        f"compute = AmlCompute(\n{arguments})\n\n"
        'if __name__ == "__main__":\n'
        "    client = MLClient.from_config(DefaultAzureCredential())\n"
        "    print(client.compute.begin_create_or_update(compute).result().provisioning_state)\n"
    )


def _literal(value: str | int) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


FORMATS = {"yaml": yaml_text, "python": python_text}
