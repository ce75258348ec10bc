"""Which InstanceTypes of a cluster fit on which of its nodes, how often, and which no longer do (drift).

Pure: takes the raw types and what sizing found of the nodes. A type drifts when a node that it selects no longer
takes as many of it as the type was made for: after an upgrade, another maxPods, a new DaemonSet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from arc_toolkit.errors import ArcError
from arc_toolkit.kube.nodes import GPU_RESOURCES, Node
from arc_toolkit.kube.quantities import MI, QuantityError, bytes_asked, cpu_asked, cpu_text, memory_text
from arc_toolkit.sizing.instance_types import PREFIX
from arc_toolkit.sizing.shares import Share
from arc_toolkit.sizing.supply import Supply

State = Literal["fits", "does not fit", "fits less often", "no node", "not valid"]
DRIFTED: tuple[State, ...] = ("does not fit", "fits less often", "not valid")


@dataclass(frozen=True, slots=True)
class LiveType:
    """An InstanceType as it is in the cluster; `meant` is how many of it a node was meant to take."""

    name: str
    cpu_m: int
    memory: int
    gpus: int
    gpu_resource: str | None
    selector: tuple[tuple[str, str], ...]
    meant: int
    made_for: tuple[str, str]  # Kubernetes version and maxPods, where we made it

    def selects(self, node: Node) -> bool:
        return all(node.labels.get(key) == value for key, value in self.selector)

    def count_on(self, supply: Supply) -> tuple[int, str]:
        """How many of it the node takes, and what limits that."""
        if self.gpus and supply.gpu_resource != self.gpu_resource:
            return 0, "gpu"
        return supply.fits(self.cpu_m, self.memory, self.gpus)


@dataclass(frozen=True, slots=True)
class Fit:
    """What is true of one type now. `tightest` is the node that takes fewest of it."""

    name: str
    state: State
    reason: str
    kind: LiveType | None = None
    counts: tuple[int, ...] = ()  # one for each node that it selects
    tightest: Supply | None = None

    @property
    def drifted(self) -> bool:
        return self.state in DRIFTED


def parse_type(item: Mapping[str, Any]) -> LiveType:
    """A raw InstanceType; an ArcError says what is wrong with it."""
    name = item["metadata"]["name"]
    spec = item.get("spec") or {}
    resources = spec.get("resources") or {}
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    for part, values in (("requests", requests), ("limits", limits)):
        for resource in ("cpu", "memory"):
            if not values.get(resource):
                raise ArcError(f"spec.resources.{part}.{resource} is missing")
    gpu = next((key for key in GPU_RESOURCES if int(limits.get(key) or 0) > 0), None)
    annotations = item["metadata"].get("annotations") or {}
    share = annotations.get(PREFIX + "share")
    try:
        return LiveType(
            name=name,
            cpu_m=cpu_asked(str(requests["cpu"])),
            memory=bytes_asked(str(requests["memory"])),
            gpus=int(limits[gpu]) if gpu else 0,
            gpu_resource=gpu,
            selector=tuple(sorted((spec.get("nodeSelector") or {}).items())),
            meant=Share.parse(share).n if share else 1,
            made_for=(
                annotations.get(PREFIX + "kubernetes-version", ""),
                annotations.get(PREFIX + "max-pods", ""),
            ),
        )
    except QuantityError as error:
        raise ArcError(str(error)) from None


def check(types: Mapping[str, Mapping[str, Any]], usable: Sequence[tuple[Node, Supply]]) -> list[Fit]:
    """Every type against every node that it selects, of those that jobs can use."""
    return [_check(name, types[name], usable) for name in sorted(types)]


def _check(name: str, item: Mapping[str, Any], usable: Sequence[tuple[Node, Supply]]) -> Fit:
    try:
        kind = parse_type(item)
    except (ArcError, ValueError) as error:
        return Fit(name, "not valid", str(error))
    selected = [supply for node, supply in usable if kind.selects(node)]
    if not selected:
        wanted = ", ".join(f"{key}={value}" for key, value in kind.selector)
        return Fit(name, "no node", f"no node that jobs can use has {wanted or 'joined'}", kind)
    counted = [(kind.count_on(supply), supply) for supply in selected]
    (least, limit), tightest = min(counted, key=lambda pair: pair[0][0])
    counts = tuple(count for (count, _), _ in counted)
    if least >= kind.meant:
        return Fit(name, "fits", "", kind, counts, tightest)
    short = sum(count < kind.meant for count in counts)
    where = f"on {short} of {len(counts)} nodes" if len(counts) > 1 else f"on {tightest.name}"
    reason = f"{where}: {_too_large(kind, tightest, limit)}{_since(kind, tightest)}"
    return Fit(name, "fits less often" if least else "does not fit", reason, kind, counts, tightest)


def _too_large(kind: LiveType, supply: Supply, limit: str) -> str:
    over_cpu_m = kind.cpu_m * kind.meant - supply.cpu_m
    over_memory = kind.memory * kind.meant - supply.memory
    by = [f"{cpu_text(over_cpu_m)} cpu"] * (over_cpu_m > 0)
    by += [f"{memory_text(-(-over_memory // MI) * MI)} memory"] * (over_memory > 0)
    times = f"{kind.meant} of it ask" if kind.meant > 1 else "it asks"
    if not by:
        return f"{supply.name} gives too little of {limit} for {kind.meant}"
    return f"{times} {' and '.join(by)} more than {supply.name} can give"


def _since(kind: LiveType, supply: Supply) -> str:
    """What is different from what the type was made for, as far as its annotations tell."""
    version, max_pods = kind.made_for
    changes = []
    if version and supply.version and version != supply.version:
        changes.append(f"Kubernetes {version} -> {supply.version}")
    if max_pods and max_pods != str(supply.max_pods):
        changes.append(f"maxPods {max_pods} -> {supply.max_pods}")
    return f" ({', '.join(changes)})" if changes else ""
