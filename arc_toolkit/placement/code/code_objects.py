"""Kubernetes objects in Python code: dictionaries with an apiVersion and a kind, SDK objects.

They are read as the nodes of a manifest, so workloads, roles and pod specs are found as in YAML.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import yaml

from arc_toolkit.edit.code.names import CodeScopes, Statement, parts_of, place_parts
from arc_toolkit.edit.code.nodes import OpaqueNode, ValueReader, place_node, scalar
from arc_toolkit.edit.code.values import call_arguments
from arc_toolkit.edit.yaml.nodes import YamlNode, get, pairs, position_of, text_of, walk
from arc_toolkit.kube.workloads import EACH_ITEM, EACH_KEY, SpecPath, WorkloadKind
from arc_toolkit.placement.code.sdk_models import (
    OBJECTS,
    PATCHES,
    POD_SPEC,
    WITHOUT_PLACE,
    camel_case,
    framework_of,
    is_model_path,
)
from arc_toolkit.placement.manifests import made_node

# Parts of a place that say nothing about nodes: a change there does not matter.
_HARMLESS = frozenset(
    (
        *("metadata", "status", "containers", "initContainers", "init_containers", "volumes"),
        *("env", "replicas", "name", "image", "parallelism", "completions"),
        *("ttlSecondsAfterFinished", "ttl_seconds_after_finished"),
    )
)
_TRAIN_JOB = ("trainer.kubeflow.org/v1alpha1", "TrainJob")


@dataclass(frozen=True, slots=True)
class LooseCode:
    """Code that makes pods, and why nothing can be said about them here."""

    node: YamlNode
    message: str
    reason: str
    # Whether it certainly makes pods.
    is_certain: bool = True


class ObjectReader(ValueReader):
    """Reads the values of a module; calls of models of the SDKs are mappings."""

    def __init__(self, code: CodeScopes) -> None:
        super().__init__(code, self._fields, is_model_path, _matters)

    def model(self, node: ast.AST | None, statement: Statement) -> str | None:
        """The class of the SDKs that an expression makes an object of."""
        if not isinstance(node, ast.Call):
            return None
        path = self.import_path(node.func, statement)
        return path.rpartition(".")[2] if path is not None and is_model_path(path) else None

    def _fields(self, call: ast.Call, statement: Statement) -> list[tuple[str, ast.expr]] | None:
        name = self.model(call, statement)
        positions = PATCHES.get(name or "", ())
        arguments = call_arguments(call, positions, statement)
        if name is None or arguments.rest or len(call.args) > len(positions):
            return None
        return [(camel_case(key), node) for key, (node, _) in arguments.values.items()]


@dataclass
class CodeObjects:
    """The objects of one module."""

    reader: ObjectReader
    # Objects as manifests, in the order of the code.
    documents: list[YamlNode] = field(default_factory=list)
    loose: list[LooseCode] = field(default_factory=list)


def find_objects(code: CodeScopes) -> CodeObjects:
    """Every object of a module, and the pod specs that belong to none."""
    reader = ObjectReader(code)
    objects = CodeObjects(reader)
    specs: list[tuple[ast.expr, Statement]] = []
    reached: set[int] = set()
    for scope in code.scopes:
        for statement in scope.statements:
            for part in parts_of(statement.stmt):
                if not isinstance(part, ast.Call | ast.Dict):
                    continue
                if isinstance(part, ast.Call) and (loose := _loose_call(reader, part, statement)):
                    objects.loose.append(loose)
                document = None if id(part) in reached else _document(reader, part, statement)
                if document is not None:
                    objects.documents.append(document)
                    reached |= _expressions(reader, document) | set(map(id, ast.walk(part)))
                elif _is_pod_spec(reader, part, statement):
                    specs.append((part, statement))
    objects.documents.sort(key=position_of)
    for part, statement in specs:
        if id(part) not in reached:
            message = "a pod spec is not changed: the workload of it cannot be seen here"
            reason = (
                "it is not part of an object of a known class, or of a dictionary with apiVersion "
                "and kind"
            )
            objects.loose.append(LooseCode(reader.read(part, statement), message, reason))
    objects.loose += find_frameworks(code)
    return objects


def find_frameworks(code: CodeScopes) -> Iterator[LooseCode]:
    """Imports of frameworks that make pods when they run; one of each, a certain one first."""
    imports: dict[str, tuple[bool, YamlNode]] = {}
    for source in code.sources:
        for stmt in source.body:
            for part in ast.walk(stmt):
                for path in _imported(part):
                    name, is_certain = framework_of(path) or ("", False)
                    if name and (name not in imports or is_certain > imports[name][0]):
                        assert isinstance(part, ast.stmt)
                        imports[name] = is_certain, place_node(source, part)
    for name, (is_certain, node) in imports.items():
        message = f"the pods of {name} are not changed"
        reason = f"{name} makes them when it runs: use an admission policy of the cluster"
        yield LooseCode(node, message, reason, is_certain)


def _imported(part: ast.AST) -> Iterator[str]:
    if isinstance(part, ast.Import):
        yield from (alias.name for alias in part.names)
    elif isinstance(part, ast.ImportFrom) and part.module and not part.level:
        yield from (f"{part.module}.{alias.name}" for alias in part.names)


def hidden_specs(kind: WorkloadKind, node: YamlNode) -> list[OpaqueNode]:
    """The opaque values behind which pod specs or whole objects of a workload are."""
    paths = [*(entry.path for entry in kind.specs), *kind.objects]
    return list(dict.fromkeys(part for path in paths for part in _hidden_parts(node, path)))


def _hidden_parts(node: YamlNode, path: SpecPath) -> Iterator[OpaqueNode]:
    """The opaque values at which a path to pod specs ends."""
    if isinstance(node, OpaqueNode):
        yield node
        return
    below: list[YamlNode] = []
    if path and path[0] == EACH_KEY:
        below = [child for _, child in pairs(node).values()]
    elif path and path[0] == EACH_ITEM:
        below = node.value if isinstance(node, yaml.SequenceNode) else []
    elif path and (child := get(node, path[0])) is not None:
        below = [child]
    for child in below:
        yield from _hidden_parts(child, path[1:])


def _expressions(reader: ValueReader, document: YamlNode) -> set[int]:
    origins = (reader.origin(node) for node in walk((document,)))
    return {id(origin.expression) for origin in origins if origin is not None}


def _matters(parts: Sequence[str]) -> bool:
    return _HARMLESS.isdisjoint(parts)


def _document(
    reader: ObjectReader, part: ast.Call | ast.Dict, statement: Statement
) -> YamlNode | None:
    """The object that an expression makes, as a manifest."""
    name = reader.model(part, statement)
    if isinstance(part, ast.Call):
        if name not in OBJECTS and name != "RuntimePatch":
            return None
    elif not {"apiVersion", "kind"} <= _constant_keys(part).keys():
        return None
    node = reader.read(part, statement)
    version, kind = OBJECTS.get(name or "", _TRAIN_JOB if name else ("", ""))
    start = node.start_mark
    fields: dict[str, YamlNode]
    if isinstance(node, OpaqueNode):
        fields = {"spec": node} if name else {}
    elif name == "RuntimePatch":
        fields = {"spec": made_node({"runtimePatches": [node]}, start)}
    else:
        fields = {key: value for key, (_, value) in pairs(node).items()}
    version = text_of(fields.get("apiVersion")) or version
    kind = text_of(fields.get("kind")) or kind
    if not version or not kind:
        return None
    if line := _changed_later(reader, part, statement):
        fields["spec"] = OpaqueNode("", f"is changed again in line {line}", start, start)
    elif isinstance(node, yaml.MappingNode) and name is None and "spec" in fields:
        return node
    fields |= {"apiVersion": scalar(version, start), "kind": scalar(kind, start)}
    return made_node(fields, start)


def _constant_keys(display: ast.Dict) -> dict[object, ast.expr]:
    return {
        key.value: value
        for key, value in zip(display.keys, display.values, strict=True)
        if isinstance(key, ast.Constant)
    }


def _changed_later(reader: ValueReader, part: ast.expr, statement: Statement) -> int:
    """The line where an object is changed after it is made; 0 if it is not, or has no name."""
    stmt = statement.stmt
    if getattr(stmt, "value", None) is not part:
        return 0
    targets = stmt.targets if isinstance(stmt, ast.Assign) else [getattr(stmt, "target", None)]
    for target in targets:
        parts = place_parts(target) if isinstance(target, ast.Name | ast.Attribute) else ()
        if parts and (line := reader.change_of(parts, statement)):
            return line
    return 0


def _is_pod_spec(reader: ObjectReader, part: ast.Call | ast.Dict, statement: Statement) -> bool:
    if isinstance(part, ast.Call):
        return reader.model(part, statement) in (POD_SPEC, "PodSpecPatch")
    containers = _constant_keys(part).get("containers")
    first = containers.elts[0] if isinstance(containers, ast.List) and containers.elts else None
    return isinstance(first, ast.Dict) and "image" in _constant_keys(first)


def _loose_call(reader: ObjectReader, call: ast.Call, statement: Statement) -> LooseCode | None:
    """`client.train(...)` and the like: pods are made, and nothing here says on which nodes."""
    if reader.import_path(call.func, statement) == "kfp.dsl.ContainerOp":
        function, reason = "dsl.ContainerOp", "kfp 2 has none: move the pipeline to kfp 2 first"
    elif not isinstance(call.func, ast.Attribute):
        return None
    else:
        client = reader.model(*reader.follow(call.func.value, statement))
        method = call.func.attr
        reason = WITHOUT_PLACE.get(client or "", {}).get(method, "")
        names = {keyword.arg for keyword in call.keywords}
        is_given = method == "create_job" and (call.args or "job" in names)
        if not reason or is_given or "options" in names:
            return None
        function = f"{client}.{method}"
    node = place_node(statement.source, call)
    return LooseCode(node, f"the pods of {function} are not changed", reason)
