"""InstanceTypes for groups of nodes: names, selectors, collisions, manifests as data and as YAML.

The resource: https://learn.microsoft.com/azure/machine-learning/how-to-manage-kubernetes-instance-types
"""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from arc_toolkit import __version__
from arc_toolkit.errors import ArcError
from arc_toolkit.kube.instance_type_spec import API_VERSION, KIND, LIST_KIND
from arc_toolkit.kube.labels import name_problem, parse_label
from arc_toolkit.kube.quantities import GI, KI, cpu_text, memory_text
from arc_toolkit.resources import render
from arc_toolkit.sizing.node_selection import NodeGroup
from arc_toolkit.sizing.schedulable import Assumptions, Schedulable, WaterfallLine
from arc_toolkit.sizing.shares import DoesNotFit, Portion, Share, Size, fit, portion_of, split

MANAGED_BY = "app.kubernetes.io/managed-by"
PREFIX = "arc-toolkit.io/"
DEFAULT_TEMPLATE = "{cpu}cpu{memory}g{gpu}"
_FIELDS = ("cpu", "memory", "gpu", "gpus", "size", "pool", "share", "n")


@dataclass(frozen=True, slots=True)
class InstanceType:
    """One type, the group of nodes it fits on, and what part of them it is.

    A merged type replaces several of one name: `parts` counts them, and `request` is None if they differ.
    """

    name: str
    portion: Portion
    selector: tuple[tuple[str, str], ...]
    group: NodeGroup
    request: Share | Size | None
    what: str
    reserve: str
    parts: int = 1

    @property
    def cpu(self) -> str:
        return cpu_text(self.portion.cpu_m)

    @property
    def memory(self) -> str:
        return memory_text(self.portion.memory)

    @property
    def gpus(self) -> int:
        return self.portion.gpus

    @property
    def gpu_resource(self) -> str | None:
        return self.group.gpu_resource

    @property
    def share_rule(self) -> str:
        """How the share follows from what is schedulable."""
        if self.parts > 1:
            return f"the smallest of {self.parts} types of this name"
        if isinstance(self.request, Share):
            return f"schedulable / {self.request.n}"
        return "as asked with --size"

    @property
    def annotations(self) -> dict[str, str]:
        """Where it came from: what must be known to make it again."""
        schedulable = self.group.tightest_memory
        pairs = {
            "version": __version__,
            "source": self.group.source,
            "size": self.group.size,
            "kubernetes-version": schedulable.version,
            "max-pods": str(schedulable.max_pods),
            "share" if isinstance(self.request, Share) else "asked-size": str(self.request or ""),
            "reserve": self.reserve,
        }
        return {PREFIX + key: value for key, value in pairs.items() if value}

    @property
    def comments(self) -> list[str]:
        """The arithmetic, line by line."""
        group, portion = self.group, self.portion
        left = f"{portion.left_cpu_m}m and {portion.left_memory // KI}Ki"
        return [
            f"{self.name}: {self.what}.",
            f"{portion.per_node} on a node, which leaves {left}.",
            *_arithmetic("memory", group.tightest_memory, lambda line: line.memory // KI, "Ki"),
            f"  = {group.tightest_memory.memory // KI}Ki schedulable; {self.share_rule} -> {self.memory}",
            *_arithmetic("cpu", group.tightest_cpu, lambda line: line.cpu_m, "m"),
            f"  = {group.tightest_cpu.cpu_m}m schedulable; {self.share_rule} -> {self.cpu}",
        ]

    def manifest(self) -> dict[str, Any]:
        """The object as plain data."""
        spec: dict[str, Any] = {"nodeSelector": dict(self.selector)} if self.selector else {}
        requests = {"cpu": self.cpu, "memory": self.memory}
        limits: dict[str, Any] = dict(requests)
        if self.gpu_resource and self.gpus:
            limits[self.gpu_resource] = self.gpus
        labels = {MANAGED_BY: "arc-toolkit"}
        return {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": self.name, "labels": labels, "annotations": self.annotations},
            "spec": {**spec, "resources": {"requests": requests, "limits": limits}},
        }


def _arithmetic(title: str, node: Schedulable, amount: Callable[[WaterfallLine], int], unit: str) -> list[str]:
    """The first level, and everything that is taken from it."""
    first, *others = node.lines
    top = str(amount(first))
    taken = [line for line in others if not line.is_level and amount(line)]
    return [f"{title}:", f"    {top}{unit} {first.name}"] + [
        f"  - {-amount(line):>{len(top)}}{unit} {line.name}" for line in taken
    ]


def generate(
    groups: Sequence[NodeGroup],
    requests: Sequence[Share | Size],
    assumptions: Assumptions,
    *,
    template: str = DEFAULT_TEMPLATE,
    selector: str = "auto",
    whole_cores: bool = False,
    merge: bool = False,
) -> tuple[list[InstanceType], list[str]]:
    """Types for every group and share, and the reasons why some could not be made.

    With one group, a share that does not fit is an error; with several, the others still get theirs.
    """
    check_template(template)
    types: list[InstanceType] = []
    refused: list[str] = []
    for group in groups:
        for request in dict.fromkeys(requests):
            try:
                if isinstance(request, Share):
                    portion = split(group, request, whole_cores=whole_cores)
                else:
                    portion = fit(group, request)
            except DoesNotFit as error:
                refused.append(str(error))
                continue
            name, what = make_name(template, group, request, portion), f"{request} of {group.title}"
            chosen, reserve = _selector(selector, group), str(assumptions.reserve)
            types.append(InstanceType(name, portion, chosen, group, request, what, reserve))
    if not types:
        raise ArcError(refused[0] if refused else "there are no nodes to make instance types for")
    return _unique(types, merge), refused


def check_template(template: str) -> None:
    try:
        fields = [part for part in string.Formatter().parse(template) if part[1] is not None]
    except ValueError as error:
        raise ArcError(f"--name-template {template!r}: {error}") from None
    for _, name, spec, conversion in fields:
        if name not in _FIELDS or spec or conversion:
            raise ArcError(f"--name-template: no field {{{name}}}; there are {', '.join(_FIELDS)}, as they are")


def make_name(template: str, group: NodeGroup, request: Share | Size, portion: Portion) -> str:
    """By nominal numbers (`32cpu128g` for half of 64 cores and 256 GiB), as people speak of them."""
    if isinstance(request, Share):
        cpu, memory = group.nominal_cpu_m // 1000 // request.n, group.nominal_memory // GI // request.n
    else:
        cpu, memory = request.cpu_m // 1000, request.memory // GI
    if isinstance(request, Size) and template == DEFAULT_TEMPLATE:
        raw = str(request)
    else:
        raw = template.format(
            cpu=cpu or f"{portion.cpu_m}m",
            memory=memory or f"0-{portion.memory * 10 // GI}",
            gpu=f"-{portion.gpus}gpu" if portion.gpus else "",
            gpus=portion.gpus,
            size=group.size or "node",
            pool=group.pools[0] if group.pools else "pool",
            share=request.slug if isinstance(request, Share) else str(request),
            n=portion.per_node,
        )
    name = raw.lower().replace("_", "-")
    if problem := name_problem(name):
        raise ArcError(f"--name-template: {problem}")
    return name


def _selector(choice: str, group: NodeGroup) -> tuple[tuple[str, str], ...]:
    if choice == "auto":
        return group.selector
    if choice == "none":
        return ()
    label = parse_label(choice)
    if label is None:
        raise ArcError(f"--node-selector {choice}: use auto, none or KEY=VALUE as a Kubernetes label")
    return (label,)


def _unique(types: list[InstanceType], merge: bool) -> list[InstanceType]:
    by_name: dict[str, list[InstanceType]] = {}
    for entry in types:
        by_name.setdefault(entry.name, []).append(entry)
    unique = []
    for name, same in by_name.items():
        if len(same) == 1:
            unique.append(same[0])
            continue
        if not merge:
            first, second = same[0], same[1]
            raise ArcError(
                f"two types would be called {name}: {_what(first)} and {_what(second)}; choose "
                "fewer nodes or shares, add {size}, {share} or {pool} to --name-template, or --merge them into one "
                "that fits on all"
            )
        unique.append(_merged(same))
    return unique


def _what(entry: InstanceType) -> str:
    return f"{entry.what} ({entry.cpu}, {entry.memory})"


def _merged(same: list[InstanceType]) -> InstanceType:
    """One type that fits on every node of all: the smallest of each resource, and no selector."""
    if len({(entry.gpu_resource, entry.gpus) for entry in same}) > 1:
        raise ArcError(f"cannot merge types called {same[0].name}: their GPUs differ")
    groups = [entry.group for entry in same]
    merged = NodeGroup(
        title=", ".join(group.title for group in groups),
        selector=(),
        nodes=tuple(node for group in groups for node in group.nodes),
        source=groups[0].source,
        pools=tuple(sorted({pool for group in groups for pool in group.pools})),
        size=",".join(sorted({group.size for group in groups if group.size})),
    )
    cpu_m = min(entry.portion.cpu_m for entry in same)
    memory = min(entry.portion.memory for entry in same)
    requests = {entry.request for entry in same}
    return replace(
        same[0],
        portion=portion_of(merged, cpu_m, memory, same[0].gpus),
        selector=(),
        group=merged,
        request=requests.pop() if len(requests) == 1 else None,
        what="; ".join(entry.what for entry in same),
        parts=len(same),
    )


def document(entry: InstanceType) -> str:
    """One manifest as YAML, with the arithmetic as comments."""
    from arc_toolkit.edit.yaml_writer import quoted

    return render("instance_type.yaml.j2", manifest=entry.manifest(), comments=entry.comments, quoted=quoted)


def documents(types: Sequence[InstanceType]) -> str:
    """Several manifests in one stream."""
    return "---\n".join(document(entry) for entry in types)


def type_list(types: Sequence[InstanceType]) -> str:
    """The list form, whose items leave out apiVersion and kind."""
    lines = [f"apiVersion: {API_VERSION}", f"kind: {LIST_KIND}", "items:"]
    for entry in types:
        text = document(entry).splitlines()
        comments = [line for line in text if line.startswith("#")]
        body = [line for line in text if not line.startswith(("#", "apiVersion:", "kind:"))]
        lines += [f"  {line}" for line in comments]
        lines += [f"  {'- ' if index == 0 else '  '}{line}" for index, line in enumerate(body)]
    return "\n".join(lines) + "\n"


def files(types: Sequence[InstanceType]) -> dict[str, str]:
    """File name -> text, for a folder with one file per type."""
    return {f"{entry.name}.yaml": document(entry) for entry in types}
