"""GPUs and parts of GPUs, as device plugins name them in the capacity of a node."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from arc_toolkit.kube.quantities import bytes_offered

# Whole GPUs. https://github.com/NVIDIA/k8s-device-plugin, https://github.com/ROCm/k8s-device-plugin
GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu")
# MIG slices (`mig-1g.10gb`, with `.me` for media engines) and shared GPUs of NVIDIA, partitions of AMD's.
_PARTS = re.compile(
    r"nvidia\.com/(?:gpu\.shared|mig-[0-9]+g\.[0-9]+gb[a-z0-9.]*)|amd\.com/[a-z]px_nps[0-9]",
    re.ASCII,
)


NO_DEVICES: Mapping[str, int] = MappingProxyType({})


def is_device(resource: str) -> bool:
    """Whether a resource is a GPU or a part of one. Others, such as `rdma/hca`, are never shared out."""
    return resource in GPU_RESOURCES or _PARTS.fullmatch(resource) is not None


def devices_in(amounts: Mapping[str, Any]) -> dict[str, int]:
    """The devices of a capacity or a list of requests, without those of which there are none."""
    counts = {
        key: bytes_offered(str(value))
        for key, value in amounts.items()
        if "/" in key and is_device(key)
    }
    return {key: count for key, count in sorted(counts.items(), key=_order) if count > 0}


def _order(row: tuple[str, int]) -> tuple[bool, str]:
    """Whole GPUs first."""
    return row[0] not in GPU_RESOURCES, row[0]


def device_name(resource: str) -> str:
    """`gpu`, `mig-1g.10gb`: what it is called in the name of a type."""
    return resource.partition("/")[2].replace("_", "-")


def devices_text(devices: Mapping[str, int]) -> str:
    """`2 x nvidia.com/gpu, 4 x nvidia.com/mig-1g.10gb`."""
    return ", ".join(f"{count} x {resource}" for resource, count in devices.items())
