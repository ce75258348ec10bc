"""Hand-written InstanceTypes against the rules of the resource, and against the nodes they are meant for.

Pure: YAML text in, findings out. Every finding names the line and says how to fix it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from arc_toolkit.edit.edits import Unreadable
from arc_toolkit.edit.ignores import Ignores, find_ignores
from arc_toolkit.edit.yaml_nodes import compose, get, pairs
from arc_toolkit.errors import ArcError
from arc_toolkit.findings import FileResult, Finding
from arc_toolkit.ignore_rules import OF_UNKNOWN_RULE, WITHOUT_REASON, of_unknown_rule, without_reason
from arc_toolkit.inputs import broken_yaml
from arc_toolkit.kube.instance_type_spec import InstanceTypeSpec, SpecProblem, SpecRule, manifests_in, problems
from arc_toolkit.kube.labels import labels_text, matches
from arc_toolkit.kube.raw import mapping
from arc_toolkit.sizing.node_selection import Selection
from arc_toolkit.sizing.schedulable import Schedulable, schedulable_of_node
from arc_toolkit.sizing.shares import Amounts, shortfall
from arc_toolkit.sizing.validation_rules import PREFIX, RULES

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node (or a VM size) that types may land on. `complete`: its labels are all known."""

    labels: Mapping[str, str]
    schedulable: Schedulable
    complete: bool = True
    unusable: str = ""  # why jobs cannot use it now

    def selected_by(self, selector: Mapping[str, str], *, fold: bool = False) -> bool:
        """`fold` ignores case. Of a VM size, only some labels are known; it may have any other."""
        labels = _folded(self.labels) if fold else self.labels
        selector = _folded(selector) if fold else selector
        return matches({key: selector[key] for key in selector if self.complete or key in labels}, labels)


def candidates_of(selection: Selection) -> list[Candidate]:
    """Every node of a selection, those that jobs cannot use included."""
    labels = {node.name: node.labels for node in selection.nodes}
    candidates = [
        Candidate(labels.get(node.name, dict(group.selector)), node, complete=node.name in labels)
        for group in selection.groups
        for node in group.nodes
    ]
    for unusable in selection.unusable:
        node = schedulable_of_node(unusable.node, selection.assumptions, [])
        candidates.append(Candidate(unusable.node.labels, node, unusable=f"{unusable.node.name}: {unusable}"))
    return candidates


class _Unquoted(str):
    """The text of a YAML scalar that is not a string, such as `4` or `yes`."""


def validate(
    files: Iterable[tuple[str, str]], candidates: Sequence[Candidate] = ()
) -> Iterator[tuple[FileResult, int]]:
    """The findings of each file (path, text), without those that it ignores, and how many types it has."""
    seen: dict[str, str] = {}
    for path, text in files:
        findings: list[Finding] = []
        count = 0
        for node, data in _documents(path, text):
            for place, manifest in manifests_in(data):
                count += 1
                findings += _check(_Manifest(path, _at(node, place), manifest), candidates, seen)
        ignores = find_ignores(text)
        if count:  # in other files, rules that are not known here may well be those of `check`
            findings += _ignore_findings(path, ignores)
        shown = tuple(finding for finding in findings if not ignores.covers(finding.rule, finding.line))
        yield FileResult(path, text.encode(), findings=shown), count


def _ignore_findings(path: str, ignores: Ignores) -> Iterator[Finding]:
    for line, message in without_reason(ignores):
        yield Finding(WITHOUT_REASON.id, WITHOUT_REASON.severity, message, path, line)
    for line, message, hint in of_unknown_rule(ignores, RULES):
        yield Finding(OF_UNKNOWN_RULE.id, OF_UNKNOWN_RULE.severity, message, path, line, reason=hint)


def fit_problem(spec: InstanceTypeSpec, candidates: Sequence[Candidate]) -> SpecProblem | None:
    """Why none of the nodes takes the type; None if one does."""
    selected = [candidate for candidate in candidates if candidate.selected_by(spec.selector)]
    usable = [candidate.schedulable for candidate in selected if not candidate.unusable]
    if not usable:
        return SpecProblem(SpecRule.SELECTOR, _no_node(spec.selector, selected, candidates))
    if any(schedulable.how_many_of(spec)[0] for schedulable in usable):
        return None
    asked = (spec.cpu_m, spec.memory, spec.gpus)

    def nearest(amounts: Callable[[Schedulable], Amounts]) -> tuple[Schedulable, str]:
        """The node where the smallest part of the request is missing, and what is missing there."""
        schedulable = min(usable, key=lambda schedulable: _missing(asked, amounts(schedulable)))
        return schedulable, shortfall(asked, amounts(schedulable))

    def gpus(schedulable: Schedulable) -> int:
        return schedulable.gpus if schedulable.gpu_resource == spec.gpu_resource else 0

    schedulable, over = nearest(
        lambda schedulable: (schedulable.nominal_cpu_m, schedulable.capacity_memory, gpus(schedulable))
    )
    if over:
        text = f"larger than the largest node ({schedulable.name}) by {over}: a job would fail at once with Code 9"
        return SpecProblem(SpecRule.NODE_SIZE, text)
    schedulable, over = nearest(lambda schedulable: (schedulable.cpu_m, schedulable.memory, gpus(schedulable)))
    over = over or "one pod (maxPods)"
    text = f"larger than what is schedulable on {schedulable.name} by {over}: a job would stay Pending"
    return SpecProblem(SpecRule.SCHEDULABLE, text)


@dataclass(frozen=True, slots=True)
class _Manifest:
    path: str
    node: yaml.Node
    content: Mapping[str, Any]

    def finding(self, rule: str, message: str, place: Path = (), *, at_key: bool = False) -> Finding:
        name = mapping(self.content.get("metadata")).get("name")
        mark = _at(self.node, place, at_key=at_key).start_mark
        return Finding(
            rule=PREFIX + rule,
            severity=RULES[PREFIX + rule].severity,
            message=f"{name}: {message}" if name else message,
            path=self.path,
            line=mark.line + 1,
            column=mark.column + 1,
        )


def _check(manifest: _Manifest, candidates: Sequence[Candidate], seen: dict[str, str]) -> Iterator[Finding]:
    rules = set()
    for problem in problems(manifest.content):
        rules.add(problem.rule)
        yield manifest.finding(problem.rule.value, problem.message, problem.path, at_key=problem.at_key)
    if SpecRule.NAME not in rules:
        name, place = manifest.content["metadata"]["name"], ("metadata", "name")
        if name in seen:
            message = f"{name} is also at {seen[name]}: names are unique in a cluster"
            yield manifest.finding("duplicate", message, place)
        seen.setdefault(name, f"{manifest.path}:{_at(manifest.node, place).start_mark.line + 1}")
    try:
        spec = InstanceTypeSpec.parse(manifest.content)
    except ArcError:
        return
    if candidates and (misfit := fit_problem(spec, candidates)):
        part = "nodeSelector" if misfit.rule is SpecRule.SELECTOR else "resources"
        path = ("spec", part) if part in manifest.content["spec"] else ()
        yield manifest.finding(misfit.rule.value, misfit.message, path)


def _no_node(selector: Mapping[str, str], selected: Sequence[Candidate], candidates: Sequence[Candidate]) -> str:
    """Why no node can take a type with that selector."""
    labels = labels_text(selector) or "(none)"
    if selected:
        return f"jobs can use no node with the labels {labels} now: {selected[0].unusable}"
    near = next((row for row in candidates if row.selected_by(selector, fold=True)), None)
    if near is None:
        return f"no given node has the labels {labels}"
    real = labels_text({key: near.labels.get(key, "") for key in selector})
    return f"no given node has the labels {labels}; only the case differs, the nodes say {real}"


def _missing(asked: Amounts, offered: Amounts) -> float:
    """The largest part of any resource that is not there."""
    return max((a - b) / a if a else 0.0 for a, b in zip(asked, offered, strict=True))


def _folded(labels: Mapping[str, str]) -> dict[str, str]:
    return {key.lower(): value.lower() for key, value in labels.items()}


# --- YAML with positions ----------------------------------------------------------------------------------------


class _TextLoader(yaml.SafeLoader):
    """Every scalar as its text: null is None, and one that is not a string is `_Unquoted`."""


for _tag in ("int", "float", "bool", "timestamp"):
    _TextLoader.add_constructor(f"tag:yaml.org,2002:{_tag}", lambda loader, node: _Unquoted(node.value))


def _documents(path: str, text: str) -> Iterator[tuple[yaml.Node, Any]]:
    """Every document as a node and as data."""
    try:
        for node in compose(text):
            if node is not None:
                yield node, _TextLoader("").construct_document(node)
    except Unreadable as error:
        where = ":".join(str(part) for part in (path, error.line, error.column) if part)
        raise ArcError(f"{where}: {error.reason}") from None
    except yaml.YAMLError as error:
        raise broken_yaml(error, path) from None


def _at(node: yaml.Node, path: Path, *, at_key: bool = False) -> yaml.Node:
    """The node at a path, or the last one on the way that is there; with `at_key` its key."""
    if at_key and (pair := pairs(get(node, *path[:-1])).get(str(path[-1]))):
        return pair[0]
    parts = (get(node, *path[:length]) for length in range(len(path), 0, -1))
    return next((part for part in parts if part is not None), node)
