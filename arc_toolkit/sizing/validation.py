"""Hand-written InstanceTypes against the rules of the resource, and against the nodes they are meant for.

Pure: YAML text in, findings out. Every finding names the line and says how to mend it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from arc_toolkit.findings import Finding, Severity
from arc_toolkit.inputs import broken_yaml
from arc_toolkit.kube.nodes import GPU_RESOURCES
from arc_toolkit.kube.quantities import MI, QuantityError, bytes_asked, cpu_asked, parse
from arc_toolkit.sizing.instance_types import NAME
from arc_toolkit.sizing.supply import Supply

if TYPE_CHECKING:
    import yaml

GROUP = "amlarc.azureml.com/"
KINDS = ("InstanceType", "InstanceTypeList")
# Everything that a spec may hold.
SPEC_KEYS = ("nodeSelector", "resources")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node (or a VM size) that types may land on. `complete`: its labels are all known."""

    labels: Mapping[str, str]
    supply: Supply
    complete: bool = True
    left_out: str = ""  # why jobs cannot use it now


@dataclass(frozen=True, slots=True)
class _Type:
    name: str
    node: yaml.Node
    path: str


def validate(files: Sequence[tuple[str, str]], candidates: Sequence[Candidate] = ()) -> tuple[list[Finding], int]:
    """Findings for all files (path, text), and how many types were looked at."""
    findings: list[Finding] = []
    seen: dict[str, str] = {}
    count = 0
    for path, text in files:
        for entry in _types(path, text):
            count += 1
            findings += _check_name(entry, seen)
            findings += _check_spec(entry, candidates)
    return findings, count


def _types(path: str, text: str) -> Iterator[_Type]:
    import yaml

    try:
        documents = list(yaml.compose_all(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except yaml.YAMLError as error:
        raise broken_yaml(error, path) from None
    for document in documents:
        kind = _value(_get(document, "kind"))
        if kind == "List":  # as `kubectl get instancetypes -o yaml` prints
            nodes = [item for item in _items(document) if _value(_get(item, "kind")) == "InstanceType"]
        elif not _value(_get(document, "apiVersion")).startswith(GROUP) or kind not in KINDS:
            continue
        else:
            nodes = _items(document) if kind == "InstanceTypeList" else [document]
        for node in nodes:
            yield _Type(_value(_get(_get(node, "metadata"), "name")), node, path)


def _items(document: yaml.Node) -> list[yaml.Node]:
    import yaml

    items = _get(document, "items")
    return list(items.value) if isinstance(items, yaml.SequenceNode) else []


def _check_name(entry: _Type, seen: dict[str, str]) -> Iterator[Finding]:
    where = _get(_get(entry.node, "metadata"), "name") or entry.node
    if not entry.name:
        yield _finding(entry, where, "name", "metadata.name is missing")
    elif not NAME.fullmatch(entry.name) or len(entry.name) > 253:
        legal = re.sub(r"[^a-z0-9.-]+", "-", entry.name.lower()).strip("-.")
        yield _finding(
            entry,
            where,
            "name",
            f"{entry.name!r} is not a Kubernetes name (small letters, digits, - and .): say {legal}",
        )
    elif entry.name in seen:
        yield _finding(
            entry,
            where,
            "duplicate",
            f"{entry.name} stands also at {seen[entry.name]}: names are unique in a cluster",
        )
    seen.setdefault(entry.name, f"{entry.path}:{where.start_mark.line + 1}")


def _check_spec(entry: _Type, candidates: Sequence[Candidate]) -> Iterator[Finding]:
    spec = _get(entry.node, "spec")
    resources = _get(spec, "resources")
    for key_node, _ in _pairs(spec):
        if key_node.value in ("requests", "limits"):
            yield _finding(
                entry,
                key_node,
                "misplaced",
                f"{key_node.value} stands beside resources and is ignored: indent it to stand under resources",
            )
        elif key_node.value not in SPEC_KEYS:
            yield _finding(
                entry,
                key_node,
                "unknown-key",
                f"spec.{key_node.value} does not exist; there are {' and '.join(SPEC_KEYS)}",
            )
    for key_node, value_node in _pairs(_get(spec, "nodeSelector")):
        if not value_node.tag.endswith(":str"):
            text = f'nodeSelector.{key_node.value} must be a string: write "{_value(value_node)}"'
            yield _finding(entry, value_node, "selector", text)
    for section in ("requests", "limits"):
        for key_node, _ in _pairs(_get(resources, section)):
            if key_node.value not in ("cpu", "memory", *GPU_RESOURCES):
                text = f"spec.resources.{section}.{key_node.value} is no resource that a type can have"
                yield _finding(entry, key_node, "unknown-key", text)
    misplaced = any(_get(spec, key) is not None for key in ("requests", "limits"))
    values: dict[tuple[str, str], str] = {}
    for section in ("requests", "limits"):
        for name in ("cpu", "memory"):
            value = _get(_get(resources, section), name)
            where = value or _get(resources, section) or resources or spec or entry.node
            text, problem = _amount(value)
            if problem and not (misplaced and value is None):
                yield _finding(entry, where, "field", f"spec.resources.{section}.{name} {problem}")
            if text:
                values[section, name] = text
    yield from _check_equal(entry, resources, values)
    yield from _check_gpu(entry, resources)
    if len(values) == 4 and candidates:
        yield from _check_fit(entry, spec, values, _gpus(resources), candidates)


def _amount(value: yaml.Node | None) -> tuple[str, str]:
    """The text of a usable quantity (else nothing), and what is wrong with it."""
    text = _value(value)
    if value is None or not text or value.tag.endswith(":null"):
        return (
            "",
            'is missing: all four of requests and limits, cpu and memory, are required (such as "4" and "16Gi")',
        )
    try:
        amount = parse(text)
    except QuantityError as error:
        return "", f"is no quantity: {error}"
    if amount <= 0:
        return "", f"is {text}: it must be above zero"
    if not value.tag.endswith(":str"):
        return text, f'must be a string: write "{text}"'
    return text, ""


def _check_equal(
    entry: _Type, resources: yaml.Node | None, values: dict[tuple[str, str], str]
) -> Iterator[Finding]:
    for name in ("cpu", "memory"):
        request, limit = values.get(("requests", name)), values.get(("limits", name))
        if request and limit and parse(request) != parse(limit):
            where = _get(_get(resources, "requests"), name) or entry.node
            yield _finding(
                entry,
                where,
                "request-limit",
                f"{name} request {request} is not its limit {limit}: training jobs need both equal",
                severity="warning",
            )


def _check_gpu(entry: _Type, resources: yaml.Node | None) -> Iterator[Finding]:
    for resource in GPU_RESOURCES:
        asked = _get(_get(resources, "requests"), resource)
        if asked is not None:
            yield _finding(entry, asked, "gpu", f"{resource} stands under requests: it belongs under limits only")
        limit = _get(_get(resources, "limits"), resource)
        text = _value(limit)
        if limit is not None and not limit.tag.endswith(":null") and not text.isdecimal():
            yield _finding(entry, limit, "gpu", f"{resource} is {text}: give a whole number of GPUs")


def _gpus(resources: yaml.Node | None) -> int:
    texts = [_value(_get(_get(resources, "limits"), resource)) for resource in GPU_RESOURCES]
    return sum(int(text) for text in texts if text.isdecimal())


def _check_fit(
    entry: _Type,
    spec: yaml.Node | None,
    values: dict[tuple[str, str], str],
    gpus: int,
    candidates: Sequence[Candidate],
) -> Iterator[Finding]:
    selector_node = _get(spec, "nodeSelector")
    selector = {key.value: _value(value) for key, value in _pairs(selector_node)}
    selected = [candidate for candidate in candidates if _selects(selector, candidate)]
    matching = [candidate for candidate in selected if not candidate.left_out]
    if not matching:
        yield _finding(entry, selector_node or entry.node, "selector", _no_node(selector, selected, candidates))
        return
    asked = (cpu_asked(values["requests", "cpu"]), bytes_asked(values["requests", "memory"]), gpus)
    where = _get(spec, "resources") or entry.node
    if any(candidate.supply.fits(*asked)[0] for candidate in matching):
        return
    # The node that comes nearest: the smallest part of the request is missing there.
    nearest = min((c.supply for c in matching), key=lambda supply: _missing(asked, _node_size(supply)))
    over = _over(asked, _node_size(nearest))
    if over:
        text = f"larger than the largest node ({nearest.name}) by {over}: a job would fail at once with Code 9"
        yield _finding(entry, where, "node-size", text)
        return
    nearest = min((c.supply for c in matching), key=lambda supply: _missing(asked, _schedulable(supply)))
    over = _over(asked, _schedulable(nearest)) or "one pod (maxPods)"
    text = f"larger than what is schedulable on {nearest.name} by {over}: a job would stay Pending"
    yield _finding(entry, where, "schedulable", text)


def _no_node(selector: Mapping[str, str], selected: Sequence[Candidate], candidates: Sequence[Candidate]) -> str:
    """Why no node can take a type with that selector."""
    if selected:
        return f"jobs can use no node with the labels {_pairs_text(selector)} now: {selected[0].left_out}"
    near = next((c for c in candidates if _selects(_folded(selector), c, fold=True)), None)
    if near is None:
        return f"no given node has the labels {_pairs_text(selector)}"
    real = {key: near.labels.get(key, "") for key in selector}
    hint = f"only the case differs, the nodes say {_pairs_text(real)}"
    return f"no given node has the labels {_pairs_text(selector)}; {hint}"


def _node_size(supply: Supply) -> tuple[int, int, int]:
    return supply.nominal_cpu_m, supply.capacity_memory, supply.gpus


def _schedulable(supply: Supply) -> tuple[int, int, int]:
    return supply.cpu_m, supply.memory, supply.gpus


def _missing(asked: tuple[int, int, int], given: tuple[int, int, int]) -> float:
    """The largest part of any resource that is not there."""
    return max((a - b) / a if a else 0.0 for a, b in zip(asked, given, strict=True))


def _over(asked: tuple[int, int, int], given: tuple[int, int, int]) -> str:
    cpu, memory, gpus = (a - b for a, b in zip(asked, given, strict=True))
    parts = (
        [f"{cpu}m cpu"] * (cpu > 0)
        + [f"{-(-memory // MI)}Mi memory"] * (memory > 0)
        + [f"{gpus} GPU"] * (gpus > 0)
    )
    return " and ".join(parts)


def _selects(selector: Mapping[str, str], candidate: Candidate, fold: bool = False) -> bool:
    labels = _folded(candidate.labels) if fold else candidate.labels
    return all(
        labels.get(key) == value if key in labels or candidate.complete else True
        for key, value in selector.items()
    )


def _folded(pairs: Mapping[str, str]) -> dict[str, str]:
    return {key.lower(): value.lower() for key, value in pairs.items()}


def _pairs_text(pairs: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in pairs.items()) or "(none)"


def _finding(entry: _Type, where: yaml.Node, rule: str, message: str, severity: Severity = "error") -> Finding:
    mark = where.start_mark
    return Finding(
        rule=f"instance-type/{rule}",
        severity=severity,
        message=f"{entry.name}: {message}" if entry.name else message,
        path=entry.path,
        line=mark.line + 1,
        column=mark.column + 1,
    )


def _pairs(node: yaml.Node | None) -> list[tuple[yaml.Node, yaml.Node]]:
    """Keys and values of a mapping, those of merge keys (`<<: *other`) last."""
    import yaml

    if not isinstance(node, yaml.MappingNode):
        return []
    own = [(key, value) for key, value in node.value if key.tag != "tag:yaml.org,2002:merge"]
    for key, value in node.value:
        if key.tag == "tag:yaml.org,2002:merge":
            for source in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                own += _pairs(source)
    return own


def _get(node: yaml.Node | None, key: str) -> yaml.Node | None:
    return next((value for name, value in _pairs(node) if name.value == key), None)


def _value(node: yaml.Node | None) -> str:
    return node.value if node is not None and isinstance(node.value, str) else ""
