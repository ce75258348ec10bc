"""Whether an InstanceType fits: one answer for `validate`, `--check`, preflight and others.

A type fits if one of the nodes that could take it does: those that its selector selects and that
jobs can use. A type that this tool made for one size or pool drifts when a node of it no longer
takes as many of it as it was made for: after an upgrade, another maxPods, a new DaemonSet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from arc_toolkit.errors import ArcError
from arc_toolkit.kube.instance_type_spec import PREFIX, InstanceTypeSpec, SpecProblem, SpecRule
from arc_toolkit.kube.labels import labels_text, matches
from arc_toolkit.kube.nodes import POOL_LABELS, SIZE_LABELS, Node, UnusableNode, WhyUnusable
from arc_toolkit.kube.quantities import MI, cpu_text, memory_text
from arc_toolkit.sizing.schedulable import Schedulable
from arc_toolkit.sizing.shares import Amounts, Share, shortfall

FitState = Literal["fits", "does not fit", "fits less often", "no node", "not valid"]
DRIFTED: tuple[FitState, ...] = ("does not fit", "fits less often", "not valid")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node (or a VM size) that types may land on. `complete`: its labels are all known."""

    node: Node
    schedulable: Schedulable
    unusable: UnusableNode | None = None
    complete: bool = True

    @property
    def takes_jobs(self) -> bool:
        return self.unusable is None or not self.unusable.reason.keeps_jobs_off

    def is_selected_by(self, selector: Mapping[str, str], *, fold: bool = False) -> bool:
        """`fold` ignores case. Of a VM size, only some labels are known; it may have any other."""
        labels = _fold_case(self.node.labels) if fold else self.node.labels
        selector = _fold_case(selector) if fold else selector
        return matches(
            {key: selector[key] for key in selector if self.complete or key in labels}, labels
        )


@dataclass(frozen=True, slots=True)
class Fit:
    """What is true of one type now. `tightest` is the node that takes fewest of it.

    `expected_per_node` is how many of it a node was made to take: 2 for a half. `problem` says why
    it fits on no node.
    """

    name: str
    state: FitState
    reason: str = ""
    spec: InstanceTypeSpec | None = None
    expected_per_node: int = 1
    counts: tuple[int, ...] = ()  # one for each node that could take it
    tightest: Schedulable | None = None
    problem: SpecProblem | None = None

    @property
    def has_drifted(self) -> bool:
        return self.state in DRIFTED


def check(types: Mapping[str, Mapping[str, Any]], candidates: Sequence[Candidate]) -> list[Fit]:
    """Every type (by name, whole objects) against every node."""
    return [check_one(name, types[name], candidates) for name in sorted(types)]


def check_one(name: str, item: Mapping[str, Any], candidates: Sequence[Candidate]) -> Fit:
    try:
        return fit_of(InstanceTypeSpec.parse(item), candidates, name)
    except ArcError as error:
        return Fit(name, "not valid", str(error))


def fit_of(spec: InstanceTypeSpec, candidates: Sequence[Candidate], name: str = "") -> Fit:
    """The one function for "fits". An ArcError if the annotation of its share is unreadable."""
    share = spec.annotations.get(PREFIX + "share")
    expected_per_node = Share.parse(share).n if share else 1
    selected = [row for row in candidates if row.is_selected_by(spec.selector)]
    able = [row for row in selected if row.takes_jobs]
    if not able:
        problem = SpecProblem(SpecRule.SELECTOR, _why_no_node(spec.selector, selected, candidates))
        # Other reasons pass, and a pool may be at zero; that selector stays.
        reasons = {row.unusable.reason for row in selected if row.unusable}
        state: FitState = (
            "does not fit" if reasons == {WhyUnusable.EXTENSION_SELECTOR} else "no node"
        )
        return Fit(name, state, problem.message, spec, expected_per_node, problem=problem)
    counts = tuple(row.schedulable.how_many_of(spec)[0] for row in able)
    # A node with a broken GPU, or with GPUs divided in another way, says nothing about whether the
    # type has become too large.
    healthy = [row for row in able if row.unusable is None]
    measures = (
        [row for row in healthy if _has_devices(row.node, spec, expected_per_node)]
        or healthy
        or able
    )
    fitting = [row.schedulable.how_many_of(spec)[0] for row in measures]
    # Every node of one size or pool should take so many; otherwise some node.
    for_one_kind = any(key in spec.selector for key in (*SIZE_LABELS, *POOL_LABELS))
    enough = (min if for_one_kind else max)(fitting) >= expected_per_node
    tightest = min((row.schedulable for row in measures), key=lambda row: row.how_many_of(spec)[0])
    if not any(counts):
        problem = _size_problem(spec, [row.schedulable for row in able])
        reason = f"{problem.message}{_change_text(spec, tightest)}"
        return Fit(name, "does not fit", reason, spec, expected_per_node, counts, tightest, problem)
    if enough or not share:
        return Fit(name, "fits", "", spec, expected_per_node, counts, tightest)
    short = sum(count < expected_per_node for count in fitting)
    place = f"on {short} of {len(measures)} nodes" if len(measures) > 1 else f"on {tightest.name}"
    reason = (
        f"{place}: {_excess_text(spec, expected_per_node, tightest)}{_change_text(spec, tightest)}"
    )
    return Fit(name, "fits less often", reason, spec, expected_per_node, counts, tightest)


def _has_devices(node: Node, spec: InstanceTypeSpec, times: int) -> bool:
    return all(
        node.devices.get(resource, 0) >= count * times for resource, count in spec.devices.items()
    )


def _size_problem(spec: InstanceTypeSpec, usable: Sequence[Schedulable]) -> SpecProblem:
    """By how much the type is larger than the node that is nearest to taking it."""
    request = Amounts(spec.cpu_m, spec.memory, spec.devices)

    def nearest(amounts: Callable[[Schedulable], Amounts]) -> tuple[Schedulable, str]:
        """The node where the smallest part of the request is missing, and what is missing there."""
        schedulable = min(usable, key=lambda row: _shortage(request, amounts(row)))
        return schedulable, shortfall(request, amounts(schedulable))

    schedulable, over = nearest(
        lambda row: Amounts(row.nominal_cpu_m, row.capacity_memory, row.devices)
    )
    if over:
        text = (
            f"larger than the largest node ({schedulable.name}) by {over}: "
            "a job would fail at once with Code 9"
        )
        return SpecProblem(SpecRule.NODE_SIZE, text)
    schedulable, over = nearest(lambda row: Amounts(row.cpu_m, row.memory, row.devices))
    over = over or "one pod (maxPods)"
    text = (
        f"larger than what is schedulable on {schedulable.name} by {over}: a job would stay Pending"
    )
    return SpecProblem(SpecRule.SCHEDULABLE, text)


def _shortage(request: Amounts, offered: Amounts) -> float:
    """The largest part of any resource that is not there."""
    pairs = [(request.cpu_m, offered.cpu_m), (request.memory, offered.memory)]
    pairs += [
        (count, offered.devices.get(resource, 0)) for resource, count in request.devices.items()
    ]
    return max((a - b) / a if a else 0.0 for a, b in pairs)


def _why_no_node(
    selector: Mapping[str, str], selected: Sequence[Candidate], candidates: Sequence[Candidate]
) -> str:
    """Why no node can take a type with that selector."""
    labels = labels_text(selector) or "(none)"
    if selected:
        first = selected[0]
        return (
            f"jobs can use no node with the labels {labels} now: "
            f"{first.node.name}: {first.unusable}"
        )
    near = next((row for row in candidates if row.is_selected_by(selector, fold=True)), None)
    if near is None:
        return f"no given node has the labels {labels}; of a pool at zero no node can be checked"
    keys = {key.lower() for key in selector}
    real = {key: value for key, value in near.node.labels.items() if key.lower() in keys}
    return (
        f"no given node has the labels {labels}; "
        f"only the case differs, the nodes say {labels_text(real)}"
    )


def _excess_text(spec: InstanceTypeSpec, expected_per_node: int, schedulable: Schedulable) -> str:
    over_cpu_m = spec.cpu_m * expected_per_node - schedulable.cpu_m
    over_memory = spec.memory * expected_per_node - schedulable.memory
    by = [f"{cpu_text(over_cpu_m)} cpu"] * (over_cpu_m > 0)
    by += [f"{memory_text(-(-over_memory // MI) * MI)} memory"] * (over_memory > 0)
    if not by:
        limit = schedulable.how_many_of(spec)[1]
        return f"{schedulable.name} gives too little of {limit} for {expected_per_node}"
    times = f"{expected_per_node} of it ask" if expected_per_node > 1 else "it asks"
    return f"{times} {' and '.join(by)} more than {schedulable.name} can give"


def _change_text(spec: InstanceTypeSpec, schedulable: Schedulable) -> str:
    """What is different from what the type was made for, as far as its annotations say."""
    version, max_pods = (
        spec.annotations.get(PREFIX + key) for key in ("kubernetes-version", "max-pods")
    )
    changes = []
    if version and schedulable.version and version != schedulable.version:
        changes.append(f"Kubernetes {version} -> {schedulable.version}")
    if max_pods and max_pods != str(schedulable.max_pods):
        changes.append(f"maxPods {max_pods} -> {schedulable.max_pods}")
    return f" ({', '.join(changes)})" if changes else ""


def _fold_case(labels: Mapping[str, str]) -> dict[str, str]:
    return {key.lower(): value.lower() for key, value in labels.items()}
