"""What the name of a node says by itself: its pool, its VM, and whether it is cut.

A Linux node of AKS is `aks-<pool>-<8 digits>-vmss<instance>`, with the VM's instance id in base 36 in exactly six
characters (Azure/AKS #3293). Scale sets write it in capitals, Kubernetes in small letters.
"""

from __future__ import annotations

import re
from functools import lru_cache

AKS_LINUX = re.compile(r"(?:aks|ask|k8s)-(?P<pool>.+)-\d{8}-vmss(?P<id>[0-9a-z]*)")
AKS_WINDOWS = re.compile(r"aks(?P<pool>[a-z][a-z0-9]{0,5})(?P<id>[0-9a-z]{6})")
ID_LENGTH = 6


def pool_of(name: str) -> str | None:
    """The node pool."""
    match = AKS_LINUX.fullmatch(name) or AKS_WINDOWS.fullmatch(name)
    return match["pool"] if match else None


def vm_instance_of(name: str) -> int | None:
    """The VM instance id: `...vmss000046` is instance 150."""
    match = AKS_LINUX.fullmatch(name) or AKS_WINDOWS.fullmatch(name)
    return int(match["id"], 36) if match and len(match["id"]) == ID_LENGTH else None


@lru_cache(1 << 12)  # many logs name the same few nodes
def is_cut(name: str) -> bool:
    """Too short for a node of AKS; the line that Microsoft documents ends in such a name."""
    match = AKS_LINUX.fullmatch(name)
    return match is not None and len(match["id"]) < ID_LENGTH
