"""The Kubernetes objects in Python code: dictionaries with an apiVersion and a kind, and objects of the SDKs.

They are read as the nodes of a manifest, so that workloads, roles and pod specs are found as in YAML.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import yaml

from arc_toolkit.edit.code.expressions import parts_of, place_parts
from arc_toolkit.edit.code.names import CodeScopes, Statement, certain_binding, find_bindings
from arc_toolkit.edit.code.nodes import OpaqueNode, ValueReader
from arc_toolkit.edit.yaml.nodes import MAP, SEQ, STR, YamlNode, get, pairs, text_of, walk
from arc_toolkit.kube.workloads import EACH_ITEM, EACH_KEY, SpecPath, WorkloadKind
from arc_toolkit.placement.code.sdk_models import (
    OBJECTS,
    PATCHES,
    POD_SPEC,
    WITHOUT_PLACE,
    camel_case,
    is_model_path,
)
from arc_toolkit.placement.code.sdk_paths import import_path

# Parts of a place that say nothing about nodes: a change there does not matter.
_HARMLESS = frozenset(
    (
        *(
            "metadata",
            "status",
            "containers",
            "initContainers",
            "init_containers",
            "volumes",
            "env",
            "replicas",
        ),
        *(
            "name",
            "image",
            "ttlSecondsAfterFinished",
            "ttl_seconds_after_finished",
            "parallelism",
            "completions",
        ),
    )
)
_TRAIN_JOB = ("trainer.kubeflow.org/v1alpha1", "TrainJob")


@dataclass(frozen=True, slots=True)
class LooseCode:
    """Code that makes pods, and why nothing can be said about them here."""

    node: YamlNode
    message: str
    reason: str


@dataclass
class CodeObjects:
    """What was found in one module."""

    reader: ValueReader
    # Objects as manifests, in the order of the code.
    documents: list[YamlNode] = field(default_factory=list)
    loose: list[LooseCode] = field(default_factory=list)


def find_objects(code: CodeScopes) -> CodeObjects:
    """Every object of a module, and the pod specs that belong to none."""
    objects = CodeObjects(ValueReader(code, _read_call, is_model_path, _matters))
    numbers = {id(source): number for number, source in enumerate(code.sources)}
    placed: list[tuple[tuple[int, int, int], YamlNode]] = []
    specs: list[tuple[ast.expr, Statement]] = []
    reached: set[int] = set()
    for scope in code.scopes:
        for statement in scope.statements:
            for part in parts_of(statement.stmt):
                if isinstance(part, ast.Call) and (
                    loose := _loose_call(objects.reader, part, statement)
                ):
                    objects.loose.append(loose)
                if not isinstance(part, ast.Call | ast.Dict):
                    continue
                if (
                    id(part) not in reached
                    and (document := _document(objects.reader, part, statement)) is not None
                ):
                    at = numbers[id(statement.source)], part.lineno, part.col_offset
                    placed.append((at, document))
                    reached |= _expressions(objects.reader, document) | {
                        id(inner) for inner in ast.walk(part)
                    }
                elif _is_pod_spec(part, statement):
                    specs.append((part, statement))
    objects.documents += [document for _, document in sorted(placed, key=lambda entry: entry[0])]
    for part, statement in specs:
        if id(part) not in reached:
            message = (
                "a pod spec is not changed: the workload that it belongs to cannot be seen here"
            )
            reason = "it is not part of an object of a known class, or of a dictionary with apiVersion and kind"
            objects.loose.append(LooseCode(objects.reader.read(part, statement), message, reason))
    return objects


def hidden_parts(node: YamlNode, path: SpecPath) -> Iterator[OpaqueNode]:
    """The opaque values at which a path to pod specs ends."""
    if isinstance(node, OpaqueNode):
        yield node
    elif path and path[0] == EACH_KEY:
        for _, child in pairs(node).values():
            yield from hidden_parts(child, path[1:])
    elif path and path[0] == EACH_ITEM:
        for child in node.value if isinstance(node, yaml.SequenceNode) else ():
            yield from hidden_parts(child, path[1:])
    elif path and (below := get(node, path[0])) is not None:
        yield from hidden_parts(below, path[1:])


def hidden_specs(kind: WorkloadKind, node: YamlNode) -> list[OpaqueNode]:
    """The opaque values behind which pod specs or whole objects of a workload are."""
    paths = [*(entry.path for entry in kind.specs), *kind.objects]
    return list(dict.fromkeys(part for path in paths for part in hidden_parts(node, path)))


def _expressions(reader: ValueReader, document: YamlNode) -> set[int]:
    origins = (reader.origin(node) for node in walk((document,)))
    return {id(origin.expression) for origin in origins if origin is not None}


def _matters(parts: Sequence[str]) -> bool:
    return _HARMLESS.isdisjoint(parts)


def _class_of(call: ast.Call, statement: Statement) -> str | None:
    path = import_path(call.func, statement)
    return path.rpartition(".")[2] if path is not None and is_model_path(path) else None


def _read_call(call: ast.Call, statement: Statement) -> list[tuple[str, ast.expr]] | None:
    name = _class_of(call, statement)
    positions = PATCHES.get(name or "", ())
    if (
        name is None
        or len(call.args) > len(positions)
        or any(isinstance(item, ast.Starred) for item in call.args)
    ):
        return None
    fields = [(camel_case(key), value) for key, value in zip(positions, call.args, strict=False)]
    for keyword in call.keywords:
        if keyword.arg is None:
            return None
        fields.append((camel_case(keyword.arg), keyword.value))
    return fields


def _document(
    reader: ValueReader, part: ast.Call | ast.Dict, statement: Statement
) -> YamlNode | None:
    """The object that an expression makes, as a manifest."""
    name = _class_of(part, statement) if isinstance(part, ast.Call) else None
    if isinstance(part, ast.Call) and name not in OBJECTS and name != "RuntimePatch":
        return None
    if isinstance(part, ast.Dict):
        keys = {key.value for key in part.keys if isinstance(key, ast.Constant)}
        if not {"apiVersion", "kind"} <= keys:
            return None
    node = reader.read(part, statement)
    version, kind = OBJECTS.get(name or "", _TRAIN_JOB if name else ("", ""))
    start = node.start_mark
    fields: dict[str, YamlNode]
    if isinstance(node, OpaqueNode):
        fields = {"spec": node} if name else {}
    elif name == "RuntimePatch":
        patches = yaml.SequenceNode(SEQ, [node], start, start)
        fields = {"spec": _mapping({"runtimePatches": patches}, start)}
    else:
        fields = {key: value for key, (_, value) in pairs(node).items()}
    version, kind = (
        text_of(fields.get("apiVersion")) or version,
        text_of(fields.get("kind")) or kind,
    )
    if not version or not kind:
        return None
    if line := _changed_later(reader, part, statement):
        fields["spec"] = OpaqueNode("", f"is changed again in line {line}", start, start)
    if isinstance(node, yaml.MappingNode) and name is None and "spec" in fields and not line:
        return node
    fields["apiVersion"], fields["kind"] = (
        yaml.ScalarNode(STR, text, start, start) for text in (version, kind)
    )
    return _mapping(fields, start)


def _mapping(fields: dict[str, YamlNode], start: yaml.Mark) -> YamlNode:
    value: list[tuple[YamlNode, YamlNode]] = [
        (yaml.ScalarNode(STR, key, start, start), node) for key, node in fields.items()
    ]
    return yaml.MappingNode(MAP, value, start, start)


def _changed_later(reader: ValueReader, part: ast.expr, statement: Statement) -> int:
    """The line where the object is changed after it is made; 0 if it is not, or if it has no name."""
    stmt = statement.stmt
    targets = stmt.targets if isinstance(stmt, ast.Assign) else [getattr(stmt, "target", None)]
    if getattr(stmt, "value", None) is not part:
        return 0
    for target in targets:
        parts = place_parts(target) if isinstance(target, ast.Name | ast.Attribute) else ()
        if parts and (line := reader.change_of(parts, statement)):
            return line
    return 0


def _is_pod_spec(part: ast.Call | ast.Dict, statement: Statement) -> bool:
    if isinstance(part, ast.Call):
        return _class_of(part, statement) in (POD_SPEC, "PodSpecPatch")
    values = {
        key.value: value
        for key, value in zip(part.keys, part.values, strict=True)
        if isinstance(key, ast.Constant)
    }
    containers = values.get("containers")
    first = containers.elts[0] if isinstance(containers, ast.List) and containers.elts else None
    return isinstance(first, ast.Dict) and any(
        isinstance(key, ast.Constant) and key.value == "image" for key in first.keys
    )


def _loose_call(reader: ValueReader, call: ast.Call, statement: Statement) -> LooseCode | None:
    """`client.train(...)` and the like: pods are made, and nothing here says on which nodes."""
    made = _client_method(call, statement)
    if made is not None:
        (client, method), names = made, {keyword.arg for keyword in call.keywords}
        message, reason = (
            f"the pods of {client}.{method} are not changed",
            WITHOUT_PLACE[client][method],
        )
        if (method == "create_job" and (call.args or "job" in names)) or "options" in names:
            return None
    elif import_path(call.func, statement) == "kfp.dsl.ContainerOp":
        message, reason = (
            "the pods of dsl.ContainerOp are not changed",
            "kfp 2 has none: move the pipeline to kfp 2 first",
        )
    else:
        return None
    node = OpaqueNode("", reason, reader.mark(call, statement), reader.mark(call, statement))
    return LooseCode(node, message, reason)


def _client_method(call: ast.Call, statement: Statement) -> tuple[str, str] | None:
    """The class and the method, if a call is one of `WITHOUT_PLACE`."""
    if not isinstance(call.func, ast.Attribute):
        return None
    holder: ast.expr = call.func.value
    if isinstance(holder, ast.Name):
        binding = certain_binding(find_bindings(holder.id, statement, is_model_path), statement)
        if binding is None or not isinstance(binding.value, ast.expr):
            return None
        holder, statement = binding.value, binding.statement
    client = _class_of(holder, statement) if isinstance(holder, ast.Call) else None
    return (
        (client, call.func.attr)
        if client and call.func.attr in WITHOUT_PLACE.get(client, {})
        else None
    )
