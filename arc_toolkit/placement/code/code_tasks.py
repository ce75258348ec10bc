"""The tasks of kfp pipelines in Python code, and what is said about their nodes with `kfp.kubernetes`.

A pipeline is read as what kfp would compile of it, as far as it is about nodes: the settings of each task in the form
of the second document. Only tasks that run a container have such settings; kfp fails at compile time for all others.
https://kfp-kubernetes.readthedocs.io/en/kfp-kubernetes-2.0.0/
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

import yaml

from arc_toolkit.edit.code.expressions import last_name, parts_of, short
from arc_toolkit.edit.code.names import CodeScopes, Scope, Statement, certain_binding, find_bindings
from arc_toolkit.edit.code.nodes import OpaqueNode, ValueReader
from arc_toolkit.edit.yaml.nodes import MAP, SEQ, STR, YamlNode, get
from arc_toolkit.placement.code.sdk_paths import import_path
from arc_toolkit.placement.pipelines import EXECUTORS, CompiledPipeline, ContainerTask

_KUBERNETES = "kfp.kubernetes."
_COMPONENTS = ("kfp.dsl.component", "kfp.dsl.container_component", "kfp.dsl.notebook_component")
_PIPELINES = ("kfp.dsl.pipeline", "kfp.dsl.graph_component")
_LOADERS = ("load_component_from_text", "load_component_from_file", "load_component_from_url")
# Methods of a task that give the task back, and those that only a task which runs a container has (kfp 2.17).
_CONTAINER_METHODS = frozenset(
    (
        *(
            "set_accelerator_limit",
            "set_accelerator_type",
            "set_container_image",
            "set_cpu_limit",
            "set_gpu_limit",
        ),
        *("set_cpu_request", "set_env_variable", "set_memory_limit", "set_memory_request"),
    )
)
_METHODS = _CONTAINER_METHODS | {
    *("add_node_selector_constraint", "after", "ignore_upstream_failure", "set_caching_options"),
    *("set_debug_pause", "set_display_name", "set_retry"),
}
_TOLERATION = ("key", "operator", "value", "effect", "toleration_seconds")
_SCHEDULING = re.compile(r"add_(?:toleration|node_selector|node_affinity)(?:_json)?")
_CONTAINER_TEXT = re.compile(r"^implementation:\s+container:", re.MULTILINE)


class Makes(Enum):
    """What a call in a pipeline makes."""

    CONTAINER = "a task that runs a container"
    OTHER = "another task, or none"
    UNKNOWN = "perhaps a task"


@dataclass(eq=False)
class CodeTask:
    """A task: the statement that makes it, and its name, if that gives it one."""

    call: ast.Call
    statement: Statement
    component: str
    name: str | None
    # Why it cannot be placed; empty if it can.
    reason: str = ""
    role: str = ""
    # The calls that say something about it: those of its own methods, and those of kfp.kubernetes.
    methods: list[ast.Call] = field(default_factory=list)
    settings: list[tuple[ast.Call, Statement]] = field(default_factory=list)


@dataclass
class CodePipeline:
    """A pipeline function, as what it would be compiled to, with its tasks."""

    compiled: CompiledPipeline
    document: YamlNode
    # By identity of the nodes that stand for their settings, with the field that each stands for.
    tasks: dict[int, tuple[CodeTask, tuple[str, ...]]]
    refused: list[tuple[CodeTask, YamlNode]]


def find_pipelines(
    code: CodeScopes, reader: ValueReader, roles: frozenset[str], first: int
) -> list[CodePipeline]:
    """Every pipeline of a module; the number of its document is `first` and so on."""
    scopes = [(scope, call) for scope in code.scopes if (call := _pipeline_name(scope)) is not None]
    helpers = _helpers(code, [scope for scope, _ in scopes]) if scopes else frozenset()
    pipelines: list[CodePipeline] = []
    for scope, name in scopes:
        tasks = list(_tasks(scope, roles))
        _read_settings(scope, tasks)
        for task in tasks:
            for use in scope.uses.get(task.name or "", ()):
                if use.how == "argument" and use.path[-1] in helpers:
                    line = use.statement.source.file_line(use.statement.stmt.lineno)
                    task.reason = (
                        task.reason
                        or f"line {line} gives it to {use.path[-1]}, which is about its nodes"
                    )
        pipelines.append(_compiled(scope, name, tasks, reader, first + len(pipelines)))
    return pipelines


# --- what a function and a call are ----------------------------------------------------------------------------


def _pipeline_name(scope: Scope) -> str | None:
    """The name of the pipeline that a scope is the inside of; None if it is not one."""
    if not isinstance(scope.node, ast.FunctionDef) or scope.statement is None:
        return None
    for decorator in scope.node.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        if import_path(called, scope.statement) in _PIPELINES:
            keywords = decorator.keywords if isinstance(decorator, ast.Call) else []
            given = [item.value for item in keywords if item.arg == "name"]
            if given and isinstance(given[0], ast.Constant):
                return _kfp_name(str(given[0].value))
            return _kfp_name(scope.node.name)
    return None


def _kfp_name(text: str) -> str:
    """As kfp writes names: https://github.com/kubeflow/pipelines/blob/2.17.0/sdk/python/kfp/dsl/utils.py"""
    return re.sub(r"-+", "-", re.sub(r"[^-_0-9a-z]+", "-", text.lower()).replace("_", "-")).strip(
        "-"
    )


def _makes(function: ast.expr, statement: Statement) -> Makes:
    path = import_path(function, statement)
    if path is not None:
        known = (
            path.startswith(("kfp.", "kfp_")) or path.partition(".")[0] in sys.stdlib_module_names
        )
        return Makes.OTHER if known else Makes.UNKNOWN
    if not isinstance(function, ast.Name):
        return Makes.OTHER
    binding = certain_binding(find_bindings(function.id, statement, lambda _: False), statement)
    value = binding.value if binding is not None else None
    if binding is None:
        return Makes.OTHER
    if isinstance(value, ast.FunctionDef):
        paths = [
            import_path(item.func if isinstance(item, ast.Call) else item, binding.statement)
            for item in value.decorator_list
        ]
        return Makes.CONTAINER if any(item in _COMPONENTS for item in paths) else Makes.OTHER
    if not isinstance(value, ast.Call):
        return Makes.OTHER
    maker = value.func.func if isinstance(value.func, ast.Call) else value.func
    if import_path(maker, binding.statement) in _COMPONENTS:
        return Makes.CONTAINER
    if last_name(value.func) not in _LOADERS:
        return Makes.OTHER
    texts = [item.value for item in ast.walk(value) if isinstance(item, ast.Constant)]
    is_container = any(isinstance(item, str) and _CONTAINER_TEXT.search(item) for item in texts)
    return Makes.CONTAINER if is_container else Makes.UNKNOWN


# --- tasks -----------------------------------------------------------------------------------------------------


def _tasks(scope: Scope, roles: frozenset[str]) -> Iterator[CodeTask]:
    numbers: Counter[str] = Counter()
    for statement in sorted(scope.statements, key=lambda item: item.order):
        stmt = statement.stmt
        if isinstance(stmt, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        value = (
            getattr(stmt, "value", None)
            if isinstance(stmt, ast.Assign | ast.AnnAssign | ast.Expr)
            else None
        )
        plain, methods = _unwrapped(value) if isinstance(value, ast.Call) else (None, [])
        for part in parts_of(stmt):
            makes = _makes(part.func, statement) if isinstance(part, ast.Call) else Makes.OTHER
            if not isinstance(part, ast.Call) or makes is Makes.OTHER:
                continue
            is_plain = part is plain
            task = CodeTask(
                part, statement, last_name(part.func), _target(stmt) if is_plain else None
            )
            task.methods = methods if is_plain else []
            name = _kfp_name(task.component)
            numbers[name] += 1
            task.role = name if numbers[name] == 1 else f"{name}-{numbers[name]}"
            if makes is Makes.UNKNOWN and not is_plain:
                continue  # any function of another module
            if not is_plain or (task.name is None and not isinstance(stmt, ast.Expr)):
                task.reason = (
                    "it is made inside of another expression: give it a statement of its own"
                )
            elif (
                makes is Makes.UNKNOWN
                and task.role not in roles
                and not _runs_container(task, scope)
            ):
                task.reason = (
                    f"{task.component} is not made here, so that it may be a pipeline or no component: "
                    f"if it runs a container, --role {task.role} places it"
                )
            yield task


def _unwrapped(call: ast.Call) -> tuple[ast.Call, list[ast.Call]]:
    """The call that makes a task, without the calls of its methods, and these."""
    methods = []
    while (
        isinstance(call.func, ast.Attribute)
        and call.func.attr in _METHODS
        and isinstance(call.func.value, ast.Call)
    ):
        methods.append(call)
        call = call.func.value
    return call, methods


def _target(stmt: ast.stmt) -> str | None:
    targets = stmt.targets if isinstance(stmt, ast.Assign) else [getattr(stmt, "target", None)]
    return targets[0].id if len(targets) == 1 and isinstance(targets[0], ast.Name) else None


def _runs_container(task: CodeTask, scope: Scope) -> bool:
    """Whether something is said about a task that only one which runs a container takes."""
    if any(last_name(call.func) in _CONTAINER_METHODS for call in task.methods):
        return True
    for use in scope.uses.get(task.name or "", ()):
        if use.how == "call" and use.path[-1] in _CONTAINER_METHODS:
            return True
        if use.how == "argument" and isinstance(use.value, ast.Call):
            path = import_path(use.value.func, use.statement)
            if path is not None and path.startswith(_KUBERNETES):
                return True
    return False


def _read_settings(scope: Scope, tasks: list[CodeTask]) -> None:
    """Gives each task the calls about it; a call about a task that cannot be seen is one about any of them."""
    for statement in scope.statements:
        for part in parts_of(statement.stmt):
            if not isinstance(part, ast.Call):
                continue
            if isinstance(part.func, ast.Attribute) and part.func.attr in _METHODS:
                holder = part.func.value
                if isinstance(holder, ast.Name) and (task := _owner(holder.id, statement, tasks)):
                    task.methods.append(part)
                continue
            if not _is_scheduling(part, statement):
                continue
            about = _about(part, statement)
            owner = _owner(about.id, statement, tasks) if isinstance(about, ast.Name) else None
            line = statement.source.file_line(part.lineno)
            if owner is not None:
                owner.settings.append((part, statement))
                if statement.block is not owner.statement.block:
                    owner.reason = (
                        owner.reason or f"line {line} is about its nodes, and runs in another block"
                    )
                continue
            for task in tasks:
                task.reason = (
                    task.reason
                    or f"line {line} is about the nodes of a task that is not named there"
                )


def _helpers(code: CodeScopes, pipelines: list[Scope]) -> frozenset[str]:
    """The functions that are not pipelines and say something about the nodes of a task."""
    names = set()
    for scope in code.scopes:
        if isinstance(scope.node, ast.FunctionDef) and scope not in pipelines:
            for statement in scope.statements:
                calls = (part for part in parts_of(statement.stmt) if isinstance(part, ast.Call))
                if any(_is_scheduling(call, statement) for call in calls):
                    names.add(scope.node.name)
    return frozenset(names)


def _is_scheduling(call: ast.Call, statement: Statement) -> bool:
    path = import_path(call.func, statement) or ""
    return (
        path.startswith(_KUBERNETES) and _SCHEDULING.fullmatch(path.rpartition(".")[2]) is not None
    )


def _about(call: ast.Call, statement: Statement) -> ast.expr | None:
    """The task that a call of kfp.kubernetes is about, through others that give it back."""
    given: ast.expr | None = call
    while isinstance(given, ast.Call) and (import_path(given.func, statement) or "").startswith(
        _KUBERNETES
    ):
        given = next(
            iter([*given.args[:1], *(item.value for item in given.keywords if item.arg == "task")]),
            None,
        )
    return given


def _owner(name: str, statement: Statement, tasks: list[CodeTask]) -> CodeTask | None:
    """The last task of a name that is certainly made before a statement."""
    before = [
        task for task in tasks if task.name == name and task.statement.order < statement.order
    ]
    if before and before[-1].statement.is_certain_before(statement):
        return before[-1]
    return before[-1] if len(before) == 1 else None


# --- as compiled -----------------------------------------------------------------------------------------------


def _compiled(
    scope: Scope, name: str, tasks: list[CodeTask], reader: ValueReader, number: int
) -> CodePipeline:
    statement = scope.statement
    assert statement is not None
    start = yaml.Mark("", 0, statement.source.file_line(statement.stmt.lineno) - 1, 0, None, 0)
    own: dict[int, tuple[CodeTask, tuple[str, ...]]] = {}
    settings: dict[str, YamlNode] = {}
    places: dict[str, YamlNode] = {}
    refused: list[tuple[CodeTask, YamlNode]] = []
    containers = []
    for task in tasks:
        mark = reader.mark(task.call, task.statement)
        if task.reason:
            refused.append((task, yaml.ScalarNode(STR, task.role, mark, mark)))
            continue
        fields = _settings(task, reader, mark)
        places[task.role] = _mapping(_retries(task, reader, mark), mark)
        settings[task.role] = _mapping(fields, mark)
        own |= {id(places[task.role]): (task, ()), id(settings[task.role]): (task, ())}
        own |= {id(node): (task, (field_name,)) for field_name, node in fields.items()}
        if (labels := get(fields.get("nodeSelector"), "labels")) is not None:
            own[id(labels)] = task, ("nodeSelector", "labels")
        containers.append(
            ContainerTask(task.role, (number, "tasks", task.role), places[task.role], task.role)
        )
    node = _mapping(settings, start)
    for step in reversed(EXECUTORS):
        node = _mapping({step: node}, start)
    document = yaml.MappingNode(
        MAP, [*node.value, (yaml.ScalarNode(STR, "tasks"), _mapping(places, start))], start, start
    )
    compiled = CompiledPipeline(name, document, tuple(containers), (number,), settings)
    return CodePipeline(compiled, document, own, refused)


def _settings(task: CodeTask, reader: ValueReader, mark: yaml.Mark) -> dict[str, YamlNode]:
    """The settings of the platform that the calls about a task make."""
    tolerations: list[YamlNode] = []
    affinity: list[YamlNode] = []
    selector: dict[str, YamlNode] = {}
    for call, statement in task.settings:
        kind = last_name(call.func)
        values = {item.arg or "**": reader.read(item.value, statement) for item in call.keywords}
        names = {
            "add_toleration": _TOLERATION,
            "add_node_selector": ("label_key", "label_value"),
            "add_node_affinity": ("match_expressions", "match_fields", "weight"),
        }.get(kind, ("json",))
        given = [item for item in call.args if not isinstance(item, ast.Starred)]
        skipped = 0 if "task" in values else 1
        values |= {
            key: reader.read(item, statement)
            for key, item in zip(names, given[skipped:], strict=False)
        }
        values.pop("task", None)
        here = reader.mark(call, statement)
        whole = OpaqueNode(short(call), f"comes from {short(call)}", here, here)
        if kind == "add_toleration" and "**" not in values:
            values["tolerationSeconds"] = values.pop("toleration_seconds", whole)
            tolerations.append(_mapping({k: v for k, v in values.items() if v is not whole}, here))
        elif kind == "add_toleration_json":
            tolerations.append(_mapping({"tolerationJson": whole}, here))
        elif kind == "add_node_selector" and isinstance(values.get("label_key"), yaml.ScalarNode):
            labels = selector.setdefault("labels", _mapping({}, here))
            labels.value.append((values["label_key"], values.get("label_value", whole)))
        elif kind == "add_node_affinity" and "**" not in values:
            fields = {"match_expressions": "matchExpressions", "match_fields": "matchFields"}
            affinity.append(
                _mapping({fields.get(key, key): value for key, value in values.items()}, here)
            )
        elif "affinity" in kind:
            affinity.append(_mapping({"nodeAffinityJson": whole}, here))
        elif "selector" in kind:
            selector["nodeSelectorJson"] = whole
        else:
            tolerations.append(_mapping({"tolerationJson": whole}, here))
    result: dict[str, YamlNode] = {}
    if tolerations:
        result["tolerations"] = yaml.SequenceNode(SEQ, tolerations, mark, mark)
    if selector:
        result["nodeSelector"] = _mapping(selector, mark)
    if affinity:
        result["nodeAffinity"] = yaml.SequenceNode(SEQ, affinity, mark, mark)
    return result


def _retries(task: CodeTask, reader: ValueReader, mark: yaml.Mark) -> dict[str, YamlNode]:
    for call in task.methods:
        if last_name(call.func) == "set_retry":
            given = [
                *call.args[:1],
                *(item.value for item in call.keywords if item.arg == "num_retries"),
            ]
            count = reader.read(given[0], task.statement) if given else _mapping({}, mark)
            return {"retryPolicy": _mapping({"maxRetryCount": count}, mark)}
    return {}


def _mapping(fields: dict[str, YamlNode], mark: yaml.Mark) -> yaml.MappingNode:
    value: list[tuple[YamlNode, YamlNode]] = [
        (yaml.ScalarNode(STR, key, mark, mark), node) for key, node in fields.items()
    ]
    return yaml.MappingNode(MAP, value, mark, mark)
