"""InstanceTypes for groups of nodes: selectors, manifests as data and as YAML.

The resource:
https://learn.microsoft.com/azure/machine-learning/how-to-manage-kubernetes-instance-types
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from arc_toolkit import __version__
from arc_toolkit.errors import ArcError
from arc_toolkit.kube.instance_type_spec import (
    API_VERSION,
    KIND,
    LIST_KIND,
    MANAGED_BY,
    selector_of,
)
from arc_toolkit.kube.instance_type_spec import PREFIX as PREFIX
from arc_toolkit.kube.labels import matches, some_names
from arc_toolkit.kube.nodes import POOL_LABELS, Node
from arc_toolkit.kube.quantities import KI, cpu_text, devices_text, memory_text
from arc_toolkit.kube.taints import AZUREML_TOLERATIONS, SPOT_LABELS, Toleration, untolerated_taint
from arc_toolkit.resources import render
from arc_toolkit.sizing.schedulable import Assumptions, Schedulable, WaterfallLine
from arc_toolkit.sizing.selectors import (
    Selector,
    auto_selector,
    has_gpus,
    parse_selector,
    tighten,
    unintended_nodes,
)
from arc_toolkit.sizing.shares import (
    DoesNotFit,
    NodeGroup,
    Portion,
    Share,
    Size,
    fit,
    portion_of,
    split,
)
from arc_toolkit.sizing.type_names import (
    DEFAULT_TEMPLATE,
    check_template,
    group_by,
    make_name,
    unique_names,
)


@dataclass(frozen=True, slots=True)
class InstanceType:
    """One type, the group of nodes it fits on, and what part of them it is.

    A merged type replaces several of one name: `parts` counts them, and `request` is None if they
    differ.
    """

    name: str
    portion: Portion
    selector: Selector
    group: NodeGroup
    request: Share | Size | None
    description: str
    reserve: str
    parts: int = 1
    priority: str = ""
    asked_selector: str = ""  # of --node-selector

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
            "architecture": ",".join(sorted({node.architecture for node in self.group.members})),
            "devices": ",".join(f"{kind}={count}" for kind, count in sorted(self.devices.items())),
            "priority": self.priority,
            "pool": next((value for key, value in self.group.selector if key in POOL_LABELS), ""),
            "node-selector": self.asked_selector,
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
        leftover = f"{portion.left_cpu_m}m and {portion.left_memory // KI}Ki"
        return [
            f"{self.name}: {self.description}.",
            f"{portion.per_node} on a node, which leaves {leftover}.",
            *_arithmetic("memory", group.tightest_memory, lambda line: line.memory // KI, "Ki"),
            f"  = {group.tightest_memory.memory // KI}Ki schedulable; "
            f"{self.share_rule} -> {self.memory}",
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


def _arithmetic(
    title: str, node: Schedulable, amount: Callable[[WaterfallLine], int], unit: str
) -> list[str]:
    """The first level, and everything that is taken from it."""
    first, *later = node.lines
    top = str(amount(first))
    reductions = [line for line in later if not line.is_level and amount(line)]
    return [f"{title}:", f"    {top}{unit} {first.name}"] + [
        f"  - {-amount(line):>{len(top)}}{unit} {line.name}" for line in reductions
    ]


@dataclass(frozen=True, slots=True)
class GenerateOptions:
    """How types are named, and which nodes they may run on.

    `nodes` are all nodes of the cluster, those left out included; `anywhere` accepts types that may
    run on some of these. `present` are the types that this tool made in the cluster, by name: they
    keep their names, but for those of `repoint`, which may be given to other nodes.
    """

    template: str = DEFAULT_TEMPLATE
    selector: str = "auto"
    whole_cores: bool = False
    merge: bool = False
    nodes: Sequence[Node] = ()
    tolerations: Sequence[Toleration] = ()
    anywhere: bool = False
    present: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    repoint: Collection[str] = ()


def generate(
    groups: Sequence[NodeGroup],
    requests: Sequence[Share | Size],
    assumptions: Assumptions,
    options: GenerateOptions | None = None,
) -> tuple[list[InstanceType], list[str], list[str]]:
    """Types for every group and share, the reasons for missing ones, and notes about others.

    With one group, a share that does not fit is an error; with several, the others still get
    theirs.
    """
    options = options or GenerateOptions()
    check_template(options.template)
    explicit: Selector | None = None
    if options.selector != "auto":
        explicit = () if options.selector == "none" else parse_selector(options.selector)
        groups = _select_nodes(groups, explicit)
    types: list[InstanceType] = []
    refused: list[str] = []
    for group in groups:
        for request in dict.fromkeys(requests):
            try:
                if isinstance(request, Share):
                    portion = split(group, request, whole_cores=options.whole_cores)
                else:
                    portion = fit(group, request)
            except DoesNotFit as error:
                refused.append(str(error))
                continue
            name = make_name(options.template, group, request, portion)
            priority = "spot" if group.spot and not options.merge else ""
            name += f"-{priority}" if priority else ""
            types.append(
                InstanceType(
                    name,
                    portion,
                    (),
                    group,
                    request,
                    f"{request} of {group.title}",
                    str(assumptions.reserve),
                    priority=priority,
                    asked_selector="" if explicit is None else options.selector,
                )
            )
    if not types:
        raise ArcError(refused[0] if refused else "there are no nodes to make instance types for")
    types = _merge_by_name(types) if options.merge else types
    placed = [_with_selector(entry, explicit, options) for entry in types]
    types, notes = unique_names([entry for entry, _ in placed], options.present, options.repoint)
    types = [_keep_pool(entry, options.present.get(entry.name)) for entry in types]
    return types, refused, notes + [note for _, note in placed if note]


def _select_nodes(groups: Sequence[NodeGroup], selector: Selector) -> list[NodeGroup]:
    """The groups with only those nodes that the selector selects. A VM size may have any label."""
    selected = [
        group
        if group.source == "sku"
        else group.subset(lambda node: matches(dict(selector), node.labels))
        for group in groups
    ]
    chosen = [group for group in selected if group.nodes]
    if groups and not chosen:
        labels = ",".join(f"{key}={value}" for key, value in selector)
        raise ArcError(f"--node-selector {labels}: no node that jobs can use has these labels")
    return chosen


def _with_selector(
    entry: InstanceType, explicit: Selector | None, options: GenerateOptions
) -> tuple[InstanceType, str]:
    """The type with its selector, and a note if it may run on nodes that it was not sized for."""
    members = entry.group.members
    selector = auto_selector(entry.group.selector, members) if explicit is None else explicit

    def others(chosen: Selector) -> list[Node]:
        return unintended_nodes(chosen, entry.devices, members, options.nodes, options.tolerations)

    wrong = others(selector)
    if wrong:
        better = tighten(selector, members, wrong)
        if better is not None and explicit is None:
            selector, wrong = better, others(better)
    mixed = ""
    if explicit is None and not options.merge:
        spot = entry.group.spot
        unlike = [
            node
            for node in options.nodes
            if node.spot != spot and matches(dict(selector), node.labels)
        ]
        tolerated = (*AZUREML_TOLERATIONS, *options.tolerations)
        if (apart := tighten(selector, members, unlike)) is not None:
            selector = apart
        elif reachable := [
            node.name for node in unlike if not untolerated_taint(node.taints, tolerated)
        ]:
            mixed = (
                f"{entry.name} may run on {'on-demand' if spot else 'spot'} nodes too "
                f"({some_names(reachable)}): no label keeps it off; "
                "--group-by pool makes a type for each pool"
            )
    if not wrong and mixed:
        return replace(entry, selector=selector), mixed
    if not wrong:
        anywhere = explicit is None and not selector and entry.group.source != "sku"
        note = (
            f"{entry.name}: {entry.group.title} have no label to select them by: "
            "it may run on any node"
        )
        return replace(entry, selector=selector), note if anywhere else ""
    names = some_names([f"{node.name} ({_node_kind(node)})" for node in wrong])
    text = f"{entry.name} may run on nodes that it was not sized for: {names}"
    if not options.anywhere:
        labels = ",".join(f"{key}={value}" for key, value in better) if better is not None else ""
        ways = (
            f"use --node-selector {labels}"
            if labels
            else "give the right nodes a label and use --node-selector"
        )
        unmerged = ", leave out --merge," if entry.parts > 1 else ""
        raise ArcError(f"{text}; {ways}{unmerged} or accept it with --yes")
    return replace(entry, selector=selector), text


def _keep_pool(entry: InstanceType, present: Mapping[str, Any] | None) -> InstanceType:
    """The type with the pool or priority that it asks for in the cluster, if its nodes have that:
    the spot pool of the same size that this keeps it off may only be at zero now."""
    selector = selector_of(present) if present else {}
    added = selector.items() - set(entry.selector)
    if (
        entry.selector
        and selector.items() >= set(entry.selector)
        and {key for key, _ in added} <= {*POOL_LABELS, *SPOT_LABELS}
        and all(matches(selector, node.labels) for node in entry.group.members)
    ):
        return replace(entry, selector=entry.selector + tuple(sorted(added)))
    return entry


def _node_kind(node: Node) -> str:
    if has_gpus(node):
        return devices_text(node.devices) or "a GPU size"
    return f"{node.os}/{node.architecture}"


def _merge_by_name(types: list[InstanceType]) -> list[InstanceType]:
    """Types of one name and with the same devices become one."""
    groups = group_by(types, lambda entry: (entry.name, tuple(entry.devices.items()))).values()
    return [_merge_types(namesakes) if len(namesakes) > 1 else namesakes[0] for namesakes in groups]


def _merge_types(namesakes: list[InstanceType]) -> InstanceType:
    """One type that fits on every node of all: the smallest of each resource."""
    groups = [entry.group for entry in namesakes]
    merged = NodeGroup(
        title=", ".join(group.title for group in groups),
        selector=tuple(
            pair for pair in groups[0].selector if all(pair in group.selector for group in groups)
        ),
        nodes=tuple(node for group in groups for node in group.nodes),
        source=groups[0].source,
        pools=tuple(sorted({pool for group in groups for pool in group.pools})),
        size=",".join(sorted({group.size for group in groups if group.size})),
        members=tuple(node for group in groups for node in group.members),
    )
    cpu_m = min(entry.portion.cpu_m for entry in namesakes)
    memory = min(entry.portion.memory for entry in namesakes)
    requests = {entry.request for entry in namesakes}
    return replace(
        namesakes[0],
        portion=portion_of(merged, cpu_m, memory, namesakes[0].devices),
        group=merged,
        request=requests.pop() if len(requests) == 1 else None,
        description="; ".join(entry.description for entry in namesakes),
        parts=len(namesakes),
    )


def document(entry: InstanceType) -> str:
    """One manifest as YAML, with the arithmetic as comments."""
    from arc_toolkit.edit.yaml.writer import quoted

    return render(
        "instance_type.yaml.j2", manifest=entry.manifest(), comments=entry.comments, quoted=quoted
    )


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
