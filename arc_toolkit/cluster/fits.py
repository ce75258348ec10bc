"""Which InstanceTypes of a cluster fit on which of its nodes, how often, and which no longer do (drift).

Pure: takes the raw types and what sizing found of the nodes. A type drifts when a node that it selects no longer
takes as many of it as the type was made for: after an upgrade, another maxPods, a new DaemonSet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from arc_toolkit.errors import ArcError
from arc_toolkit.kube.instance_type_spec import InstanceTypeSpec
from arc_toolkit.kube.labels import labels_text
from arc_toolkit.kube.nodes import Node
from arc_toolkit.kube.quantities import MI, cpu_text, memory_text
from arc_toolkit.sizing.instance_types import PREFIX
from arc_toolkit.sizing.schedulable import Schedulable
from arc_toolkit.sizing.shares import Share

State = Literal["fits", "does not fit", "fits less often", "no node", "not valid"]
DRIFTED: tuple[State, ...] = ("does not fit", "fits less often", "not valid")


@dataclass(frozen=True, slots=True)
class Fit:
    """What is true of one type now. `tightest` is the node that takes fewest of it.

    `meant` is how many of it a node was made to take: 2 for a half.
    """

    name: str
    state: State
    reason: str
    spec: InstanceTypeSpec | None = None
    meant: int = 1
    counts: tuple[int, ...] = ()  # one for each node that it selects
    tightest: Schedulable | None = None

    @property
    def drifted(self) -> bool:
        return self.state in DRIFTED


def check(types: Mapping[str, Mapping[str, Any]], usable: Sequence[tuple[Node, Schedulable]]) -> list[Fit]:
    """Every type against every node that it selects, of those that jobs can use."""
    return [_check(name, types[name], usable) for name in sorted(types)]


def _check(name: str, item: Mapping[str, Any], usable: Sequence[tuple[Node, Schedulable]]) -> Fit:
    try:
        spec = InstanceTypeSpec.parse(item)
        share = spec.annotations.get(PREFIX + "share")
        meant = Share.parse(share).n if share else 1
    except ArcError as error:
        return Fit(name, "not valid", str(error))
    selected = [schedulable for node, schedulable in usable if spec.selects(node.labels)]
    if not selected:
        labels = labels_text(spec.selector)
        return Fit(name, "no node", f"no node that jobs can use has {labels or 'joined'}", spec, meant)
    counted = [(schedulable.how_many_of(spec), schedulable) for schedulable in selected]
    (least, limit), tightest = min(counted, key=lambda pair: pair[0][0])
    counts = tuple(count for (count, _), _ in counted)
    if least >= meant:
        return Fit(name, "fits", "", spec, meant, counts, tightest)
    short = sum(count < meant for count in counts)
    where = f"on {short} of {len(counts)} nodes" if len(counts) > 1 else f"on {tightest.name}"
    reason = f"{where}: {_too_large(spec, meant, tightest, limit)}{_since(spec, tightest)}"
    return Fit(name, "fits less often" if least else "does not fit", reason, spec, meant, counts, tightest)


def _too_large(spec: InstanceTypeSpec, meant: int, schedulable: Schedulable, limit: str) -> str:
    over_cpu_m = spec.cpu_m * meant - schedulable.cpu_m
    over_memory = spec.memory * meant - schedulable.memory
    by = [f"{cpu_text(over_cpu_m)} cpu"] * (over_cpu_m > 0)
    by += [f"{memory_text(-(-over_memory // MI) * MI)} memory"] * (over_memory > 0)
    if not by:
        return f"{schedulable.name} gives too little of {limit} for {meant}"
    times = f"{meant} of it ask" if meant > 1 else "it asks"
    return f"{times} {' and '.join(by)} more than {schedulable.name} can give"


def _since(spec: InstanceTypeSpec, schedulable: Schedulable) -> str:
    """What is different from what the type was made for, as far as its annotations say."""
    version, max_pods = (spec.annotations.get(PREFIX + key) for key in ("kubernetes-version", "max-pods"))
    changes = []
    if version and schedulable.version and version != schedulable.version:
        changes.append(f"Kubernetes {version} -> {schedulable.version}")
    if max_pods and max_pods != str(schedulable.max_pods):
        changes.append(f"maxPods {max_pods} -> {schedulable.max_pods}")
    return f" ({', '.join(changes)})" if changes else ""
