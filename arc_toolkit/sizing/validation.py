"""Hand-written InstanceTypes against the rules of the resource and the nodes they are for.

Pure: YAML text in, findings out. Every finding names the line and says how to fix it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import yaml

from arc_toolkit.edit.files.edits import Unreadable
from arc_toolkit.edit.files.plan import Ignores, find_ignores
from arc_toolkit.edit.yaml.nodes import MERGE, KeyPath, compose, get, pairs
from arc_toolkit.errors import ArcError
from arc_toolkit.findings import FileResult, Finding, Rule
from arc_toolkit.ignore_rules import IGNORE_RULES, ignore_problems
from arc_toolkit.inputs import broken_yaml
from arc_toolkit.kube.instance_type_spec import InstanceTypeSpec, SpecRule, manifests_in, problems
from arc_toolkit.kube.nodes import SIZE_LABELS
from arc_toolkit.kube.raw import mapping
from arc_toolkit.sizing.fits import Candidate, fit_of
from arc_toolkit.sizing.vm_sizes import find

PREFIX = "instance-type-"
_ERRORS = (
    "above-limit",
    "api-version",
    "duplicate-key",
    "duplicate",
    "field",
    "gpu",
    "misplaced",
    "name",
    "node-size",
    "schedulable",
    "selector",
    "unknown-key",
)
_NOTES = ("request-limit",)  # Microsoft's own examples have requests below limits
RULES: dict[str, Rule] = IGNORE_RULES | {
    rule.id: rule
    for rule in (
        *(Rule(PREFIX + name, "error", command="validate") for name in _ERRORS),
        *(Rule(PREFIX + name, "note", command="validate") for name in _NOTES),
    )
}


class _Unquoted(str):
    """The text of a YAML scalar that is not a string, such as `4` or `yes`."""


def validate(
    files: Iterable[tuple[str, str]], candidates: Sequence[Candidate] | None = None
) -> Iterator[tuple[FileResult, int]]:
    """The findings of each file (path, text) that it does not ignore, and its number of types.

    `candidates` None: no nodes are known. An empty list is a cluster without nodes.
    """
    places: dict[str, str] = {}
    for path, text in files:
        findings: list[Finding] = []
        count = 0
        for node, data in _documents(path, text):
            for place, manifest in manifests_in(data):
                count += 1
                findings += _check(
                    _Manifest(path, _node_at(node, place), manifest), candidates, places
                )
        ignores = find_ignores(text)
        if count:  # in other files, rules that are not known here may well be those of `check`
            findings += _ignore_findings(path, ignores)
        visible = tuple(
            finding for finding in findings if not ignores.covers(finding.rule, finding.line)
        )
        yield FileResult(path, text.encode(), findings=visible), count


def _ignore_findings(path: str, ignores: Ignores) -> Iterator[Finding]:
    for rule, line, message, hint in ignore_problems(ignores, RULES):
        yield Finding(rule.id, rule.severity, message, path, line, reason=hint)


@dataclass(frozen=True, slots=True)
class _Manifest:
    path: str
    node: yaml.Node
    content: Mapping[str, Any]

    def finding(
        self, rule: str, message: str, place: KeyPath = (), *, at_key: bool = False
    ) -> Finding:
        name = mapping(self.content.get("metadata")).get("name")
        mark = _node_at(self.node, place, at_key=at_key).start_mark
        return Finding(
            rule=PREFIX + rule,
            severity=RULES[PREFIX + rule].severity,
            message=f"{name}: {message}" if name else message,
            path=self.path,
            line=mark.line + 1,
            column=mark.column + 1,
        )


def _check(
    manifest: _Manifest, candidates: Sequence[Candidate] | None, places: dict[str, str]
) -> Iterator[Finding]:
    rules = set()
    for key in duplicate_keys(manifest.node):
        line = key.start_mark.line + 1
        message = f"{key.value} is there twice in one map: only the last one counts"
        yield replace(
            manifest.finding("duplicate-key", message), line=line, column=key.start_mark.column + 1
        )
    for problem in problems(manifest.content):
        rules.add(problem.rule)
        yield manifest.finding(
            problem.rule.value, problem.message, problem.path, at_key=problem.at_key
        )
    if SpecRule.NAME not in rules:
        name, place = manifest.content["metadata"]["name"], ("metadata", "name")
        if name in places:
            message = f"{name} is also at {places[name]}: names are unique in a cluster"
            yield manifest.finding("duplicate", message, place)
        places.setdefault(
            name, f"{manifest.path}:{_node_at(manifest.node, place).start_mark.line + 1}"
        )
    try:
        spec = InstanceTypeSpec.parse(manifest.content)
    except ArcError:
        return
    nodes_are_known = any(candidate.complete for candidate in candidates or ())
    if not nodes_are_known and (other_maker := _other_maker(spec)):
        yield manifest.finding(SpecRule.GPU.value, other_maker, ("spec", "resources", "limits"))
        return
    # Which nodes a selector selects that is wrong in itself is of no interest.
    if (
        candidates is not None
        and SpecRule.SELECTOR not in rules
        and (misfit := fit_of(spec, candidates).problem)
    ):
        part = "nodeSelector" if misfit.rule is SpecRule.SELECTOR else "resources"
        path = ("spec", part) if part in manifest.content["spec"] else ()
        yield manifest.finding(misfit.rule.value, misfit.message, path)


def _other_maker(spec: InstanceTypeSpec) -> str | None:
    """GPUs that the size in the selector does not have, if the shipped table knows it."""
    name = next((spec.selector[key] for key in SIZE_LABELS if key in spec.selector), "")
    size = find(name) if name else None
    if size is None or (size.gpus and size.gpu_resource is None):
        return None
    maker = (size.gpu_resource or "").partition("/")[0]
    other = next(
        (resource for resource in spec.devices if resource.partition("/")[0] != maker), None
    )
    if other is None:
        return None
    has = f"has {size.gpu_resource}" if size.gpu_resource else "has no GPU"
    return f"{other} is never on {size.name}, which {has}"


# --- YAML with positions --------------------------------------------------------------------------


class _TextLoader(yaml.SafeLoader):
    """Every scalar as its text: null is None, and one that is not a string is `_Unquoted`."""


def _plain_text(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> str:
    """`1e3`: a string in PyYAML, a number in kubectl (go-yaml, `yamlStyleFloat` in resolve.go)."""
    unquoted = not node.style and _GO_FLOAT.fullmatch(str(node.value))
    return _Unquoted(node.value) if unquoted else str(node.value)


_GO_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_TextLoader.add_constructor("tag:yaml.org,2002:str", _plain_text)
for _tag in ("int", "float", "bool", "timestamp"):
    _TextLoader.add_constructor(
        f"tag:yaml.org,2002:{_tag}", lambda loader, node: _Unquoted(node.value)
    )


def _documents(path: str, text: str) -> Iterator[tuple[yaml.Node, Any]]:
    """Every document as a node and as data."""
    try:
        for node in compose(text):
            if node is not None:
                yield node, _TextLoader("").construct_document(node)
    except Unreadable as error:
        place = ":".join(str(part) for part in (path, error.line, error.column) if part)
        raise ArcError(f"{place}: {error.reason}") from None
    except yaml.YAMLError as error:
        raise broken_yaml(error, path) from None


def _node_at(node: yaml.Node, path: KeyPath, *, at_key: bool = False) -> yaml.Node:
    """The node at a path, or the last one on the way that is there; with `at_key` its key."""
    if at_key and (pair := pairs(get(node, *path[:-1])).get(str(path[-1]))):
        return pair[0]
    parts = (get(node, *path[:length]) for length in range(len(path), 0, -1))
    return next((part for part in parts if part is not None), node)


def duplicate_keys(node: yaml.Node) -> Iterator[yaml.ScalarNode]:
    """The keys of any map below the node that are not the first of their name."""
    stack = [node]
    visited: set[int] = set()
    while stack:
        part = stack.pop()
        if id(part) in visited:  # an alias
            continue
        visited.add(id(part))
        if isinstance(part, yaml.MappingNode):
            names: set[str] = set()
            for key, value in part.value:
                if isinstance(key, yaml.ScalarNode) and key.tag != MERGE:
                    if key.value in names:
                        yield key
                    names.add(key.value)
                stack.append(value)
        elif isinstance(part, yaml.SequenceNode):
            stack.extend(part.value)
