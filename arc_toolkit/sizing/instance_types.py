"""InstanceTypes for groups of nodes: names, selectors, collisions, manifests as data and as YAML.

The resource: https://learn.microsoft.com/azure/machine-learning/how-to-manage-kubernetes-instance-types
"""

from __future__ import annotations

import string
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from arc_toolkit import __version__
from arc_toolkit.errors import ArcError
from arc_toolkit.kube.devices import device_name, devices_text
from arc_toolkit.kube.instance_type_spec import API_VERSION, KIND, LIST_KIND
from arc_toolkit.kube.instance_type_spec import PREFIX as PREFIX
from arc_toolkit.kube.labels import matches, name_problem, some_names
from arc_toolkit.kube.nodes import Node
from arc_toolkit.kube.quantities import GI, KI, cpu_text, memory_text
from arc_toolkit.kube.taints import Toleration
from arc_toolkit.resources import render
from arc_toolkit.sizing.node_group import NodeGroup
from arc_toolkit.sizing.schedulable import Assumptions, Schedulable, WaterfallLine
from arc_toolkit.sizing.selectors import Selector, auto_selector, has_gpus, intruders, narrowed, parse_selector
from arc_toolkit.sizing.shares import DoesNotFit, Portion, Share, Size, fit, portion_of, split

MANAGED_BY = "app.kubernetes.io/managed-by"
DEFAULT_TEMPLATE = "{cpu}cpu{memory}g{gpu}"
_FIELDS = ("cpu", "memory", "gpu", "gpus", "size", "pool", "share", "n")


@dataclass(frozen=True, slots=True)
class InstanceType:
    """One type, the group of nodes it fits on, and what part of them it is.

    A merged type replaces several of one name: `parts` counts them, and `request` is None if they differ.
    """

    name: str
    portion: Portion
    selector: Selector
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
    def devices(self) -> Mapping[str, int]:
        return self.portion.devices

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
        limits.update(self.devices)
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


@dataclass(frozen=True, slots=True)
class Choices:
    """How types are named, and which nodes they may run on.

    `nodes` are all nodes of the cluster, those left out included; `anywhere` accepts types that may run on some of
    these.
    """

    template: str = DEFAULT_TEMPLATE
    selector: str = "auto"
    whole_cores: bool = False
    merge: bool = False
    nodes: Sequence[Node] = ()
    tolerations: Sequence[Toleration] = ()
    anywhere: bool = False


def generate(
    groups: Sequence[NodeGroup],
    requests: Sequence[Share | Size],
    assumptions: Assumptions,
    choices: Choices | None = None,
) -> tuple[list[InstanceType], list[str], list[str]]:
    """Types for every group and share, the reasons why some could not be made, and notes about the others.

    With one group, a share that does not fit is an error; with several, the others still get theirs.
    """
    choices = choices or Choices()
    check_template(choices.template)
    explicit: Selector | None = None
    if choices.selector != "auto":
        explicit = () if choices.selector == "none" else parse_selector(choices.selector)
        groups = _selected(groups, explicit)
    types: list[InstanceType] = []
    refused: list[str] = []
    for group in groups:
        for request in dict.fromkeys(requests):
            try:
                if isinstance(request, Share):
                    portion = split(group, request, whole_cores=choices.whole_cores)
                else:
                    portion = fit(group, request)
            except DoesNotFit as error:
                refused.append(str(error))
                continue
            name, what = make_name(choices.template, group, request, portion), f"{request} of {group.title}"
            types.append(InstanceType(name, portion, (), group, request, what, str(assumptions.reserve)))
    if not types:
        raise ArcError(refused[0] if refused else "there are no nodes to make instance types for")
    types = _merged_by_name(types) if choices.merge else types
    placed = [_placed(entry, explicit, choices) for entry in types]
    types, notes = _unique([entry for entry, _ in placed])
    return types, refused, notes + [note for _, note in placed if note]


def _selected(groups: Sequence[NodeGroup], selector: Selector) -> list[NodeGroup]:
    """The groups with only those nodes that the selector selects. A VM size may have any label."""
    selected = [
        group if group.source == "sku" else group.only(lambda node: matches(dict(selector), node.labels))
        for group in groups
    ]
    chosen = [group for group in selected if group.nodes]
    if groups and not chosen:
        labels = ",".join(f"{key}={value}" for key, value in selector)
        raise ArcError(f"--node-selector {labels}: no node that jobs can use has these labels")
    return chosen


def _placed(entry: InstanceType, explicit: Selector | None, choices: Choices) -> tuple[InstanceType, str]:
    """The type with its selector, and a note if it may run on nodes that it was not sized for."""
    members = entry.group.members
    selector = auto_selector(entry.group.selector, members) if explicit is None else explicit

    def others(chosen: Selector) -> list[Node]:
        return intruders(chosen, entry.devices, members, choices.nodes, choices.tolerations)

    wrong = others(selector)
    if wrong:
        better = narrowed(selector, members, wrong)
        if better is not None and explicit is None:
            selector, wrong = better, others(better)
    if not wrong:
        anywhere = explicit is None and not selector and entry.group.source != "sku"
        note = f"{entry.name}: {entry.group.title} have no label to select them by: it may run on any node"
        return replace(entry, selector=selector), note if anywhere else ""
    names = some_names([f"{node.name} ({_what_it_is(node)})" for node in wrong])
    text = f"{entry.name} may run on nodes that it was not sized for: {names}"
    if not choices.anywhere:
        labels = ",".join(f"{key}={value}" for key, value in better) if better is not None else ""
        ways = (
            f"use --node-selector {labels}" if labels else "give the right nodes a label and use --node-selector"
        )
        raise ArcError(f"{text}; {ways}, leave out --merge, or accept it with --yes")
    return replace(entry, selector=selector), text


def _what_it_is(node: Node) -> str:
    if has_gpus(node):
        return devices_text(node.devices) or "a GPU size"
    return f"{node.os}/{node.architecture}"


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
        cpu, memory = (
            Fraction(group.nominal_cpu_m, 1000 * request.n),
            Fraction(group.nominal_memory, GI * request.n),
        )
    else:
        cpu, memory = Fraction(request.cpu_m, 1000), Fraction(request.memory, GI)
    if isinstance(request, Size) and template == DEFAULT_TEMPLATE:
        raw = str(request)
    else:
        raw = template.format(
            cpu=_number(cpu),
            memory=_number(memory),
            gpu="".join(f"-{count}{device_name(resource)}" for resource, count in portion.devices.items()),
            gpus=portion.gpus,
            size=group.size or "node",
            pool=group.pools[0] if group.pools else "pool",
            share=request.slug if isinstance(request, Share) else str(request),
            n=portion.per_node,
        )
    return _checked(raw)


def _number(amount: Fraction) -> str:
    """Whole numbers as people speak of them; below one, in hundredths: `13`, `0.5`."""
    return str(int(amount)) if amount >= 1 else f"{max(int(amount * 100), 1) / 100:g}"


def _checked(text: str) -> str:
    name = text.lower().replace("_", "-")
    if problem := name_problem(name):
        raise ArcError(f"--name-template: {problem}")
    return name


def _unique(types: list[InstanceType]) -> tuple[list[InstanceType], list[str]]:
    """Types of one name get the size as a suffix, or what else tells them apart; a note says so."""
    by_name = _by(types, lambda entry: entry.name)
    names: dict[int, str] = {}
    notes = []
    for name, same in by_name.items():
        if len(same) == 1:
            continue
        suffixed = _suffixed(same, taken=by_name.keys())
        if suffixed is None:
            raise ArcError(
                f"two types would be called {name}: {_what(same[0])} and {_what(same[1])}; choose "
                "fewer nodes or shares, or add {size}, {share} or {pool} to --name-template"
            )
        names.update({id(entry): new for entry, new in zip(same, suffixed, strict=True)})
        notes.append(f"{len(same)} types would be called {name}; they are {', '.join(suffixed)}")
    return [replace(entry, name=names.get(id(entry), entry.name)) for entry in types], notes


def _suffixed(same: list[InstanceType], taken: Collection[str]) -> list[str] | None:
    """A name for each: with the fewest parts that tell them apart."""
    parts: dict[str, list[str]] = {
        "size": [entry.group.size for entry in same],
        "pool": ["-".join(entry.group.pools) for entry in same],
        "share": [entry.request.slug if isinstance(entry.request, Share) else "exact" for entry in same],
    }
    for keys in (("size",), ("pool",), ("size", "pool"), ("share",), ("size", "share"), ("size", "pool", "share")):
        suffixes = list(zip(*(parts[key] for key in keys), strict=True))
        if not all(all(row) for row in suffixes):
            continue
        names = [_checked("-".join([entry.name, *row])) for entry, row in zip(same, suffixes, strict=True)]
        if len(set(names)) == len(names) and not set(names) & set(taken):
            return names
    return None


def _what(entry: InstanceType) -> str:
    return f"{entry.what} ({entry.cpu}, {entry.memory})"


def _by(types: list[InstanceType], key: Callable[[InstanceType], Any]) -> dict[Any, list[InstanceType]]:
    groups: dict[Any, list[InstanceType]] = {}
    for entry in types:
        groups.setdefault(key(entry), []).append(entry)
    return groups


def _merged_by_name(types: list[InstanceType]) -> list[InstanceType]:
    """Types of one name and with the same devices become one."""
    groups = _by(types, lambda entry: (entry.name, tuple(entry.devices.items()))).values()
    return [_merged(same) if len(same) > 1 else same[0] for same in groups]


def _merged(same: list[InstanceType]) -> InstanceType:
    """One type that fits on every node of all: the smallest of each resource."""
    groups = [entry.group for entry in same]
    merged = NodeGroup(
        title=", ".join(group.title for group in groups),
        selector=(),
        nodes=tuple(node for group in groups for node in group.nodes),
        source=groups[0].source,
        pools=tuple(sorted({pool for group in groups for pool in group.pools})),
        size=",".join(sorted({group.size for group in groups if group.size})),
        members=tuple(node for group in groups for node in group.members),
    )
    cpu_m = min(entry.portion.cpu_m for entry in same)
    memory = min(entry.portion.memory for entry in same)
    requests = {entry.request for entry in same}
    return replace(
        same[0],
        portion=portion_of(merged, cpu_m, memory, same[0].devices),
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
