"""The tasks of kfp pipelines in Python code, and what `kfp.kubernetes` says about their nodes.

A pipeline is read as what kfp would compile of it, as far as it is about nodes: the settings of
each task in the form of the second document. Only tasks that run a container have such settings.
https://kfp-kubernetes.readthedocs.io/en/kfp-kubernetes-2.0.0/

    a = train(x=1)
    kubernetes.add_node_selector(a, "disk", "ssd")

is the executor `train` with the settings {"nodeSelector": {"labels": {"disk": "ssd"}}}.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import yaml

from arc_toolkit.edit.code.names import CodeScopes, Scope, Statement, last_name, parts_of, short
from arc_toolkit.edit.code.nodes import CodeMark, OpaqueNode, ValueReader, place_node
from arc_toolkit.edit.code.values import call_arguments
from arc_toolkit.edit.yaml.nodes import YamlNode
from arc_toolkit.kube.workloads import PIPELINE
from arc_toolkit.placement.code.sdk_models import camel_case
from arc_toolkit.placement.manifests import Workload, made_node
from arc_toolkit.placement.pipelines import EXECUTORS, ExecutorSpec

_KUBERNETES = "kfp.kubernetes."
_COMPONENTS = ("kfp.dsl.component", "kfp.dsl.container_component", "kfp.dsl.notebook_component")
_PIPELINES = ("kfp.dsl.pipeline", "kfp.dsl.graph_component")
_LOADERS = ("load_component_from_text", "load_component_from_file", "load_component_from_url")
# Methods that only a task with a container has, and all that give the task back (kfp 2.17).
_CONTAINER_METHODS = frozenset(
    (
        *("set_accelerator_limit", "set_accelerator_type", "set_container_image"),
        *("set_cpu_limit", "set_cpu_request", "set_env_variable", "set_gpu_limit"),
        *("set_memory_limit", "set_memory_request"),
    )
)
_METHODS = _CONTAINER_METHODS | {
    *("add_node_selector_constraint", "after", "ignore_upstream_failure", "set_caching_options"),
    *("set_debug_pause", "set_display_name", "set_retry"),
}
# The functions of kfp.kubernetes about nodes, with their parameters after the task. Those of
# `_json` take a parameter of the pipeline.
_SIGNATURES = {
    "add_toleration": ("key", "operator", "value", "effect", "toleration_seconds"),
    "add_node_selector": ("label_key", "label_value"),
    "add_node_affinity": ("match_expressions", "match_fields", "weight"),
}
_SCHEDULING = frozenset((*_SIGNATURES, *(f"{name}_json" for name in _SIGNATURES)))
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
    role: str
    # Why it cannot be placed; empty if it can.
    reason: str = ""
    # The calls that say something about it: of its own methods, and of kfp.kubernetes.
    methods: list[ast.Call] = field(default_factory=list)
    settings: list[tuple[ast.Call, Statement]] = field(default_factory=list)

    def refuse(self, reason: str) -> None:
        self.reason = self.reason or reason


@dataclass
class CodePipeline:
    """A pipeline function, as what it would be compiled to, with its tasks by role."""

    workload: Workload
    tasks: dict[str, CodeTask]
    refused: list[tuple[CodeTask, YamlNode]]


def find_pipelines(
    code: CodeScopes, reader: ValueReader, roles: frozenset[str], first: int
) -> list[CodePipeline]:
    """Every pipeline of a module; the number of its document is `first` and so on."""
    return list(_PipelineReader(code, reader, roles).pipelines(first))


def _kfp_name(text: str) -> str:
    """As kfp writes names:
    https://github.com/kubeflow/pipelines/blob/2.17.0/sdk/python/kfp/dsl/utils.py"""
    return re.sub(r"-+", "-", re.sub(r"[^-0-9a-z]+", "-", text.lower())).strip("-")


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


def _task_named(name: str, statement: Statement, tasks: list[CodeTask]) -> CodeTask | None:
    """The last task of a name that is certainly made before a statement."""
    before = [
        task for task in tasks if task.name == name and task.statement.order < statement.order
    ]
    if before and (before[-1].statement.is_certain_before(statement) or len(before) == 1):
        return before[-1]
    return None


class _PipelineReader:
    """Reads the pipelines of one module."""

    def __init__(self, code: CodeScopes, reader: ValueReader, roles: frozenset[str]) -> None:
        self._code = code
        self._reader = reader
        self._roles = roles

    def pipelines(self, first: int) -> Iterator[CodePipeline]:
        named = [(scope, name) for scope in self._code.scopes if (name := self._name(scope))]
        helpers = self._helpers([scope for scope, _ in named]) if named else set()
        for number, (scope, name) in enumerate(named, start=first):
            tasks = list(self._tasks(scope))
            self._read_settings(scope, tasks)
            for task in tasks:
                for use in scope.uses.get(task.name or "", ()):
                    if use.how == "argument" and use.path[-1] in helpers:
                        line = use.statement.source.file_line(use.statement.stmt.lineno)
                        helper = use.path[-1]
                        task.refuse(f"line {line} gives it to {helper}, which is about its nodes")
            yield self._compiled(scope, name, tasks, number)

    # --- what a function and a call are -----------------------------------------------------------

    def _path(self, node: ast.expr, statement: Statement) -> str:
        """The import path of a function, or of the function of a call."""
        function = node.func if isinstance(node, ast.Call) else node
        return self._reader.import_path(function, statement) or ""

    def _name(self, scope: Scope) -> str:
        """The name of the pipeline that a scope is the inside of; empty if it is not one."""
        if not isinstance(scope.node, ast.FunctionDef) or scope.statement is None:
            return ""
        for decorator in scope.node.decorator_list:
            if self._path(decorator, scope.statement) in _PIPELINES:
                for keyword in decorator.keywords if isinstance(decorator, ast.Call) else ():
                    if keyword.arg == "name" and isinstance(keyword.value, ast.Constant):
                        return _kfp_name(str(keyword.value.value))
                return _kfp_name(scope.node.name)
        return ""

    def _makes(self, function: ast.expr, statement: Statement) -> Makes:
        path = self._path(function, statement)
        if path:
            package = path.partition(".")[0]
            is_other = package in sys.stdlib_module_names or path.startswith(("kfp.", "kfp_"))
            return Makes.OTHER if is_other else Makes.UNKNOWN
        binding = (
            self._reader.certain(function.id, statement) if isinstance(function, ast.Name) else None
        )
        value = binding.value if binding is not None else None
        if binding is None or not isinstance(value, ast.FunctionDef | ast.Call):
            return Makes.OTHER
        if isinstance(value, ast.FunctionDef):
            paths = [self._path(item, binding.statement) for item in value.decorator_list]
            return Makes.CONTAINER if any(path in _COMPONENTS for path in paths) else Makes.OTHER
        if self._path(value.func, binding.statement) in _COMPONENTS:
            return Makes.CONTAINER
        if last_name(value.func) not in _LOADERS:
            return Makes.OTHER
        texts = (item.value for item in ast.walk(value) if isinstance(item, ast.Constant))
        is_container = any(isinstance(text, str) and _CONTAINER_TEXT.search(text) for text in texts)
        return Makes.CONTAINER if is_container else Makes.UNKNOWN

    def _is_scheduling(self, call: ast.Call, statement: Statement) -> bool:
        path = self._path(call, statement)
        return path.startswith(_KUBERNETES) and path.removeprefix(_KUBERNETES) in _SCHEDULING

    def _helpers(self, pipelines: list[Scope]) -> set[str]:
        """The functions that are not pipelines and say something about the nodes of a task."""
        return {
            scope.node.name
            for scope in self._code.scopes
            if isinstance(scope.node, ast.FunctionDef) and scope not in pipelines
            for statement in scope.statements
            for part in parts_of(statement.stmt)
            if isinstance(part, ast.Call) and self._is_scheduling(part, statement)
        }

    # --- tasks ------------------------------------------------------------------------------------

    def _tasks(self, scope: Scope) -> Iterator[CodeTask]:
        numbers: Counter[str] = Counter()
        for statement in sorted(scope.statements, key=lambda item: item.order):
            stmt = statement.stmt
            if isinstance(stmt, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            is_plain_stmt = isinstance(stmt, ast.Assign | ast.AnnAssign | ast.Expr)
            value = getattr(stmt, "value", None) if is_plain_stmt else None
            plain, methods = _unwrapped(value) if isinstance(value, ast.Call) else (None, [])
            for part in parts_of(stmt):
                if not isinstance(part, ast.Call):
                    continue
                makes, is_plain = self._makes(part.func, statement), part is plain
                if makes is Makes.OTHER:
                    continue
                component = last_name(part.func)
                name = _kfp_name(component)
                numbers[name] += 1
                role = name if numbers[name] == 1 else f"{name}-{numbers[name]}"
                if makes is Makes.UNKNOWN and not is_plain:
                    continue  # any function of another module
                target = _target(stmt) if is_plain else None
                task = CodeTask(part, statement, component, target, role)
                task.methods = methods if is_plain else []
                if not is_plain or (target is None and not isinstance(stmt, ast.Expr)):
                    task.refuse(
                        "it is made inside of another expression: give it a statement of its own"
                    )
                is_asked = role in self._roles or self._runs_container(task, scope)
                if makes is Makes.UNKNOWN and not is_asked:
                    task.refuse(
                        f"{component} is not made here and may be a pipeline or no component: "
                        f"if it runs a container, --role {role} places it"
                    )
                yield task

    def _runs_container(self, task: CodeTask, scope: Scope) -> bool:
        """Whether something is said about a task that only one with a container takes."""
        if any(last_name(call.func) in _CONTAINER_METHODS for call in task.methods):
            return True
        return any(
            use.path[-1] in _CONTAINER_METHODS
            if use.how == "call"
            else use.how == "argument"
            and isinstance(use.value, ast.Call)
            and self._path(use.value, use.statement).startswith(_KUBERNETES)
            for use in scope.uses.get(task.name or "", ())
        )

    def _read_settings(self, scope: Scope, tasks: list[CodeTask]) -> None:
        """Give each task the calls about it; a call about a hidden task is about any of them."""
        for statement in scope.statements:
            for part in parts_of(statement.stmt):
                if not isinstance(part, ast.Call):
                    continue
                if isinstance(part.func, ast.Attribute) and part.func.attr in _METHODS:
                    task = self._subject(part.func.value, statement, tasks)
                    if task is not None:
                        task.methods.append(part)
                elif self._is_scheduling(part, statement):
                    task = self._subject(part, statement, tasks)
                    line = statement.source.file_line(part.lineno)
                    if task is None:
                        reason = f"line {line} is about the nodes of a task that is not named there"
                        for hidden in tasks:
                            hidden.refuse(reason)
                        continue
                    task.settings.append((part, statement))
                    if statement.block is not task.statement.block:
                        task.refuse(f"line {line} is about its nodes, and runs in another block")

    def _subject(
        self, node: ast.expr | None, statement: Statement, tasks: list[CodeTask]
    ) -> CodeTask | None:
        """The task that a name means, or that calls of kfp.kubernetes are about and give back."""
        while isinstance(node, ast.Call) and self._path(node, statement).startswith(_KUBERNETES):
            node, _ = call_arguments(node, ("task",), statement).values.get("task", (None, None))
        return _task_named(node.id, statement, tasks) if isinstance(node, ast.Name) else None

    # --- as compiled ------------------------------------------------------------------------------

    def _compiled(
        self, scope: Scope, name: str, tasks: list[CodeTask], number: int
    ) -> CodePipeline:
        assert scope.statement is not None
        plain = {task.role: task for task in tasks if not task.reason}
        settings = {role: self._settings(task) for role, task in plain.items()}
        retries = {role: self._retries(task) for role, task in plain.items()}
        platform: dict[str, Any] = settings
        for step in reversed(EXECUTORS[1:]):
            platform = {step: platform}
        start = CodeMark(scope.statement.source, scope.statement.stmt)
        document = made_node({EXECUTORS[0]: platform, "tasks": retries}, start)
        specs = tuple(
            ExecutorSpec((number, *EXECUTORS, role), row, (number, "tasks", role), retries[role])
            for role, row in settings.items()
        )
        workload = Workload(PIPELINE, name, "", (number,), document, specs)
        refused = [
            (task, place_node(task.statement.source, task.call)) for task in tasks if task.reason
        ]
        return CodePipeline(workload, plain, refused)

    def _settings(self, task: CodeTask) -> YamlNode:
        """The settings of the platform that the calls about a task make."""
        settings: dict[str, Any] = {}
        for call, statement in task.settings:
            mark, kind = CodeMark(statement.source, call), last_name(call.func)
            opaque = OpaqueNode(short(call), f"comes from {short(call)}", mark, mark)
            fields = self._arguments(call, kind, statement)
            if "selector" in kind:
                selector = settings.setdefault("nodeSelector", {})
                if fields is None:
                    selector["nodeSelectorJson"] = opaque
                else:
                    labels = selector.setdefault("labels", {})
                    labels[fields["label_key"].value] = fields.get("label_value", opaque)
            else:
                is_affinity = "affinity" in kind
                name = "nodeAffinityJson" if is_affinity else "tolerationJson"
                items = settings.setdefault("nodeAffinity" if is_affinity else "tolerations", [])
                items.append(made_node(fields or {name: opaque}, mark))
        return made_node(settings, CodeMark(task.statement.source, task.call))

    def _arguments(
        self, call: ast.Call, kind: str, statement: Statement
    ) -> dict[str, YamlNode] | None:
        """The arguments of a call by the names of fields; None if not all of them can be seen."""
        arguments = call_arguments(call, ("task", *_SIGNATURES.get(kind, ())), statement)
        fields = {
            (name if kind == "add_node_selector" else camel_case(name)): self._reader.read(*bound)
            for name, bound in arguments.values.items()
            if name != "task"
        }
        is_key_hidden = kind == "add_node_selector" and not isinstance(
            fields.get("label_key"), yaml.ScalarNode
        )
        return None if arguments.rest or kind not in _SIGNATURES or is_key_hidden else fields

    def _retries(self, task: CodeTask) -> YamlNode:
        """The retryPolicy of a task, as that of a compiled one."""
        policy: dict[str, Any] = {}
        for call in task.methods:
            if last_name(call.func) == "set_retry":
                arguments = call_arguments(call, ("num_retries",), task.statement).values
                bound = arguments.get("num_retries")
                count: Any = self._reader.read(*bound) if bound else {}
                policy = {"retryPolicy": {"maxRetryCount": count}}
                break
        return made_node(policy, CodeMark(task.statement.source, task.call))
