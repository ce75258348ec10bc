"""The nodeSelector of a type: that it runs only on nodes of the kinds that it was sized for.

A nodeSelector can only ask for labels, never exclude one. So the labels are looked for that all
nodes of the type have and the nodes that it must not run on lack.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from arc_toolkit.errors import ArcError
from arc_toolkit.kube.labels import matches, parse_labels
from arc_toolkit.kube.nodes import (
    PLATFORM_LABELS,
    POOL_LABELS,
    SIZE_LABELS,
    VIRTUAL_LABEL,
    Node,
)
from arc_toolkit.kube.taints import AZUREML_TOLERATIONS, SPOT_LABELS, Toleration, untolerated_taint
from arc_toolkit.sizing.vm_sizes import find

Selector = tuple[tuple[str, str], ...]
# Labels that say what a node is for, the plainest first; then those of the user's own.
_TELLING = (
    *PLATFORM_LABELS,
    "kubernetes.azure.com/accelerator",
    "kubernetes.azure.com/mode",
    *SPOT_LABELS,
    *POOL_LABELS,
    "nvidia.com/mig.config",
    "nvidia.com/gpu.product",
)
# Domains whose labels change by themselves (image, zone, host) or are everywhere.
_FOREIGN = (
    "kubernetes.io",
    "k8s.io",
    "azure.com",
    "storageprofile",
    "storagetier",
    "karpenter.sh",
    "nvidia.com",
    "amd.com",
    "amazonaws.com",
    "eksctl.io",
    "google.com",
    "openshift.io",
    "k3s.io",
    "cattle.io",
)


def parse_selector(text: str) -> Selector:
    """`KEY=VALUE`, or several of them with commas."""
    labels = parse_labels(text)
    if labels is None:
        raise ArcError(f"--node-selector {text}: use auto, none or KEY=VALUE as a Kubernetes label")
    return labels


def auto_selector(selector: Selector, members: Sequence[Node]) -> Selector:
    """The group's own labels; without the size also the platform: another pool may come later."""
    if any(key in SIZE_LABELS for key, _ in selector):
        return selector
    common = _common(members)
    return selector + tuple((key, common[key]) for key in PLATFORM_LABELS if key in common)


def unintended_nodes(
    selector: Selector,
    devices: Mapping[str, int],
    members: Sequence[Node],
    nodes: Iterable[Node],
    tolerations: Iterable[Toleration],
) -> list[Node]:
    """Nodes that such a selector also matches, although the type was not sized for them."""
    tolerated = (*AZUREML_TOLERATIONS, *tolerations)
    kinds, pools = {_kind(node) for node in members}, {node.pool for node in members}
    parts = {gpu_parts(node) for node in members}
    chosen = dict(selector)
    return [
        node
        for node in nodes
        # A pool divides its GPUs in one way: a differing node is about to, or has a broken GPU.
        if (_kind(node) not in kinds or (gpu_parts(node) not in parts and node.pool not in pools))
        and matches(chosen, node.labels)
        and not untolerated_taint((taint for taint in node.taints if not taint.passes), tolerated)
        and _is_harmful(node, devices, members)
    ]


def tighten(
    selector: Selector, members: Sequence[Node], excluded: Sequence[Node]
) -> Selector | None:
    """The selector with the fewest further labels that exclude the other nodes, or None."""
    common, remaining = _common(members), list(excluded)
    while remaining:
        kept_off = {
            key: [node for node in remaining if node.labels.get(key) != common[key]]
            for key in _distinguishing(common)
        }
        best = max(kept_off, key=lambda key: len(kept_off[key]), default=None)
        if best is None or not kept_off[best]:
            return None
        selector += ((best, common[best]),)
        remaining = [node for node in remaining if node.labels.get(best) == common[best]]
    return selector


def _kind(node: Node) -> tuple[str, ...]:
    # Of machines without a size, those with GPUs are another kind.
    return (node.size or ("GPUs" if has_gpus(node) else ""), *_platform(node))


def _platform(node: Node) -> tuple[str, str, str]:
    virtual = "virtual" if node.labels.get(VIRTUAL_LABEL[0]) == VIRTUAL_LABEL[1] else ""
    return (node.os, node.architecture, virtual)


def _is_harmful(node: Node, devices: Mapping[str, int], members: Sequence[Node]) -> bool:
    """Whether a type does harm there: another platform, or GPUs that it does not ask for."""
    if devices:
        return all(node.devices.get(resource, 0) >= count for resource, count in devices.items())
    return _platform(node) not in map(_platform, members) or has_gpus(node)


def has_gpus(node: Node) -> bool:
    """Whether the node has GPUs, even if no device plugin shows them now."""
    size = find(node.size)
    return bool(node.devices or node.failed_devices or (size and size.gpus))


def gpu_parts(node: Node) -> int:
    """Into how many parts its GPUs are divided under the name of whole ones (MIG, time-slicing)."""
    size = find(node.size)
    whole_gpus = size.node_gpus if size and set(node.devices) == {size.gpu_resource} else node.gpus
    return node.gpus if node.gpus > whole_gpus else 0


def _common(members: Sequence[Node]) -> dict[str, str]:
    """The labels that all of them have."""
    first, *later = (node.labels for node in members)
    return {
        key: value for key, value in first.items() if all(row.get(key) == value for row in later)
    }


def _distinguishing(labels: Mapping[str, str]) -> list[str]:
    own_keys = sorted(
        key
        for key in labels
        if not any(f".{key.partition('/')[0]}".endswith(f".{domain}") for domain in _FOREIGN)
        and key not in _TELLING
        and labels[key]
    )
    return [key for key in _TELLING if labels.get(key)] + own_keys
