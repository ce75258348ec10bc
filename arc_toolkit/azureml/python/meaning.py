"""What an expression means for AzureML: a component, a command object, a step, a sweep, or something unknown.

Nothing is imported or run. A meaning that cannot be known for certain is `UnknownMeaning` with the reason, and a step
made from it is reported and not changed.
"""

from __future__ import annotations

import ast
import os.path
import sys
from dataclasses import dataclass

from arc_toolkit.azureml.documents import Document
from arc_toolkit.azureml.kinds import Family
from arc_toolkit.azureml.library import Library
from arc_toolkit.azureml.python import sdk_names as sdk
from arc_toolkit.azureml.python.expressions import chain, dotted, last_name
from arc_toolkit.azureml.python.names import Binding, Module, Scope, Statement
from arc_toolkit.azureml.python.sdk_names import Generation

_DEEPEST = 20


def is_resources_class(path: str) -> bool:
    """JobResourceConfiguration, from its public module or from where it is written."""
    return path.startswith("azure.ai.ml.") and path.endswith(f".{sdk.RESOURCES_CLASS}")


@dataclass(frozen=True)
class SdkName:
    """A thing of an SDK, by its import path."""

    path: str

    @property
    def role(self) -> sdk.SdkRole:
        if self.path not in sdk.ROLES and self.path.startswith(sdk.AUTOML):
            return sdk.SdkRole("automl", family=Family.AUTOML)
        if self.path not in sdk.ROLES and is_resources_class(self.path):
            return sdk.SdkRole("resources")
        return sdk.ROLES.get(self.path, sdk.NO_ROLE)


@dataclass(frozen=True)
class Component:
    """Something that makes a step when it is called; `file` as the code names it, with its content where it is here."""

    generation: Generation
    family: Family
    file: str = ""
    document: Document | None = None


@dataclass(frozen=True)
class Builder:
    """`command(...)` or `parallel_run_function(...)`: a job of its own, and a maker of steps."""

    family: Family
    call: ast.Call
    name: str = ""
    statement: Statement | None = None


@dataclass(frozen=True)
class Step:
    """A node: the result of calling a component or builder."""

    generation: Generation
    family: Family
    origin: Component | Builder
    call: ast.Call


@dataclass(frozen=True)
class Sweep:
    """The result of `step.sweep(...)`."""

    call: ast.Call
    base: Step | Builder | UnknownMeaning


@dataclass(frozen=True)
class PipelineFunction:
    """A function under `@dsl.pipeline`."""

    generation: Generation
    function: ast.FunctionDef


@dataclass(frozen=True)
class PipelineJob:
    """The result of calling one."""

    function: PipelineFunction


@dataclass(frozen=True)
class UnknownMeaning:
    """Not known, and why. `chosen`: one of several at run time; `foreign`: from another module or a workspace."""

    why: str
    chosen: bool = False
    foreign: bool = False


Meaning = SdkName | Component | Builder | Step | Sweep | PipelineFunction | PipelineJob | UnknownMeaning
NOTHING = UnknownMeaning("")


class Meanings:
    """Answers for one module; `folder` is where its relative paths begin, `library` reads the files that it names."""

    def __init__(self, module: Module, folder: str, library: Library) -> None:
        self.module = module
        self.folder = folder
        self.library = library
        self._seen: dict[int, Meaning] = {}
        self._pipelines: dict[int, PipelineFunction | None] = {}

    # --- names ---------------------------------------------------------------------------------------------------

    def binding(self, name: str, statement: Statement) -> Binding | UnknownMeaning:
        """What a name is bound to, seen from a place."""
        scope: Scope | None = statement.scope
        while scope is not None:
            if bindings := scope.bindings.get(name):
                if scope is statement.scope:
                    bindings = [item for item in bindings if item.statement.order < statement.order] or bindings
                return _last(name, bindings, statement)
            for module in scope.stars:
                if f"{module}.{name}" in sdk.ROLES:
                    return Binding(name, statement, f"{module}.{name}")
            scope = scope.parent
        return NOTHING

    def bound(self, name: str, statement: Statement) -> tuple[ast.expr, Statement] | None:
        """The expression that a name stands for, and its statement."""
        binding = self.binding(name, statement)
        if isinstance(binding, Binding) and isinstance(binding.value, ast.expr):
            return binding.value, binding.statement
        return None

    def path(self, node: ast.expr, statement: Statement) -> str | None:
        """The import path of `aml.dsl.pipeline`, or None."""
        parts = chain(node)
        if parts is None or any(part.startswith("[") for part in parts[1]):
            return None
        binding = self.binding(parts[0], statement)
        if isinstance(binding, UnknownMeaning) or not isinstance(binding.value, str):
            return None
        return ".".join((binding.value, *parts[1]))

    def role(self, node: ast.expr, statement: Statement) -> sdk.SdkRole:
        path = self.path(node, statement)
        return SdkName(path).role if path else sdk.NO_ROLE

    def makes_resources(self, node: ast.expr, statement: Statement) -> bool:
        """Whether this is `JobResourceConfiguration(...)`; the name counts too where nothing here binds it."""
        if not isinstance(node, ast.Call):
            return False
        is_named = isinstance(node.func, ast.Name) and node.func.id == sdk.RESOURCES_CLASS
        is_unbound = is_named and self.binding(sdk.RESOURCES_CLASS, statement) is NOTHING
        return is_unbound or self.role(node.func, statement).name == "resources"

    def pipeline(self, scope: Scope) -> PipelineFunction | None:
        """The pipeline function that a scope is the inside of."""
        if id(scope) not in self._pipelines:
            node, meaning = scope.node, None
            if isinstance(node, ast.FunctionDef) and node.decorator_list and scope.statement is not None:
                meaning = self.function(node, scope.statement)
            self._pipelines[id(scope)] = meaning if isinstance(meaning, PipelineFunction) else None
        return self._pipelines[id(scope)]

    # --- meanings ------------------------------------------------------------------------------------------------

    def of(self, node: ast.expr, statement: Statement, depth: int = 0) -> Meaning:
        if depth > _DEEPEST:
            return UnknownMeaning("defined in a circle")
        if id(node) not in self._seen:
            self._seen[id(node)] = self._of(node, statement, depth)
        return self._seen[id(node)]

    def of_name(self, name: str, statement: Statement, depth: int = 0) -> Meaning:
        binding = self.binding(name, statement)
        return binding if isinstance(binding, UnknownMeaning) else self._bound(binding, depth)

    def _of(self, node: ast.expr, statement: Statement, depth: int) -> Meaning:
        match node:
            case ast.Name():
                return self.of_name(node.id, statement, depth)
            case ast.Attribute():
                return self._attribute(node, statement, depth)
            case ast.Call():
                return self._call(node, statement, depth)
            case ast.IfExp() | ast.BoolOp():
                return UnknownMeaning("chosen at run time", chosen=True)
            case ast.Subscript():
                return UnknownMeaning("picked from a collection at run time", chosen=True)
            case ast.Await():
                return self.of(node.value, statement, depth + 1)
        return NOTHING

    def _bound(self, binding: Binding, depth: int) -> Meaning:
        match binding.value:
            case None:
                return UnknownMeaning(f"{binding.name} is {binding.why}")
            case str():
                return self._imported(binding.name, binding.value)
            case ast.FunctionDef():
                return self.function(binding.value, binding.statement)
            case _:
                meaning = self.of(binding.value, binding.statement, depth + 1)
                if isinstance(meaning, Builder) and not meaning.name:
                    return Builder(meaning.family, meaning.call, binding.name, binding.statement)
                return meaning

    def _imported(self, name: str, path: str) -> Meaning:
        if path in sdk.ROLES or path.startswith(("azure.", "azureml.", "mldesigner")) or path == "azure":
            return SdkName(path)
        foreign = path.partition(".")[0] not in sys.stdlib_module_names
        return UnknownMeaning(f"{name} is imported from {path.rpartition('.')[0] or path}", foreign=foreign)

    def function(self, function: ast.FunctionDef, statement: Statement) -> Meaning:
        for decorator in function.decorator_list:
            role = self.role(decorator.func if isinstance(decorator, ast.Call) else decorator, statement)
            if role.name == "pipeline":
                return PipelineFunction(role.generation, function)
            if role.name == "command_component":
                return Component(role.generation, role.family)
        return UnknownMeaning(f"{function.name} is a helper function")

    def _attribute(self, node: ast.Attribute, statement: Statement, depth: int) -> Meaning:
        path = self.path(node, statement)
        if path is not None:
            return self._imported(dotted(node), path)
        if node.attr == "component":
            base = self.of(node.value, statement, depth + 1)
            if isinstance(base, Builder | Step):
                return Component("v2", base.family)
        return NOTHING

    def _call(self, call: ast.Call, statement: Statement, depth: int) -> Meaning:
        function = call.func
        if isinstance(function, ast.Attribute):
            if function.attr == "sweep" and self.path(function, statement) is None:
                base = self.of(function.value, statement, depth + 1)
                return Sweep(call, base if isinstance(base, Step | Builder | UnknownMeaning) else NOTHING)
            if function.attr in ("get", "load", "create_or_update"):
                workspace = self._workspace(function, call, statement, depth)
                if workspace is not None:
                    return workspace
        meaning = self.of(function, statement, depth + 1)
        match meaning:
            case UnknownMeaning():
                return meaning
            case SdkName():
                return self._library_call(meaning, call, statement)
            case Component():
                return Step(meaning.generation, meaning.family, meaning, call)
            case Builder():
                return Step("v2", meaning.family, meaning, call)
            case PipelineFunction():
                return PipelineJob(meaning)
        return NOTHING

    def _library_call(self, what: SdkName, call: ast.Call, statement: Statement) -> Meaning:
        role = what.role
        match role.name:
            case "command" | "parallel":
                return Builder(role.family, call)
            case "spark" | "automl":
                return Step("v2", role.family, Component("v2", role.family), call)
            case "component" | "command_component":
                return Component(role.generation, role.family)
            case "load_component":
                if {keyword.arg for keyword in call.keywords} & {"client", "name", "version"}:
                    return _from_workspace("load_component(client=..., name=...)")
                return self._from_file("v2", _argument(call, ("source", "path"), 0), statement)
            case "from_yaml":
                return self._from_file("v1.5", _argument(call, ("yaml_file",), 1), statement)
            case "from_func":
                return Component("v1.5", Family.COMMAND)
            case "workspace":
                return _from_workspace(dotted(call.func))
            case "pipeline":
                # pipeline(...)(function), without the decorator syntax
                return UnknownMeaning("a pipeline made without the decorator")
        return UnknownMeaning(f"made by {dotted(call.func)}()")

    def _workspace(
        self, function: ast.Attribute, call: ast.Call, statement: Statement, depth: int
    ) -> Meaning | None:
        """`client.components.get(...)`, `client.components.create_or_update(component)` and the like."""
        over = function.value
        of_components = isinstance(over, ast.Attribute) and over.attr in ("components", "component")
        if of_components and function.attr in ("get", "load"):
            return _from_workspace(dotted(function))
        if function.attr == "create_or_update" and call.args:
            argument = self.of(call.args[0], statement, depth + 1)
            # What comes back from registering a component is a component; from submitting a job, a job.
            is_component = isinstance(argument, Component)
            return argument if is_component else UnknownMeaning(f"the result of {dotted(function)}()")
        return None

    # --- component files -----------------------------------------------------------------------------------------

    def _from_file(self, generation: Generation, node: ast.expr | None, statement: Statement) -> Component:
        name = self.text(node, statement) if node is not None else None
        document = None
        if name is not None:
            document = self.library.load(os.path.normpath(os.path.join(self.folder, name)))
        family = document.root.kind.family if document is not None else Family.OTHER
        return Component(generation, family, name or "", document)

    def text(self, node: ast.expr, statement: Statement, depth: int = 0) -> str | None:
        """The text of a path given as a literal, a sum, an f-string, os.path.join or Path / "name"."""
        if depth > _DEEPEST:
            return None
        match node:
            case ast.Constant(value=str(value)):
                return value
            case ast.Name():
                if (bound := self.bound(node.id, statement)) is not None:
                    return self.text(*bound, depth + 1)
            case ast.BinOp(left=left, op=ast.Add() | ast.Div() as op, right=right):
                first, second = self.text(left, statement, depth + 1), self.text(right, statement, depth + 1)
                if first is not None and second is not None:
                    return first + second if isinstance(op, ast.Add) else os.path.join(first, second)
            case ast.JoinedStr(values=values):
                parts = [
                    self.text(part.value if isinstance(part, ast.FormattedValue) else part, statement, depth + 1)
                    for part in values
                ]
                if None not in parts:
                    return "".join(part for part in parts if part is not None)
            case ast.Call(func=function, args=args) if args and not node.keywords:
                parts = [self.text(part, statement, depth + 1) for part in args]
                if last_name(function) in ("join", "Path", "str", "joinpath") and None not in parts:
                    return os.path.join(*(part for part in parts if part is not None))
        return None


def _last(name: str, bindings: list[Binding], statement: Statement) -> Binding | UnknownMeaning:
    """The binding that holds, or why that is decided at run time."""
    last = bindings[-1]
    if len(bindings) == 1 or last.statement.is_certain_before(statement):
        return last
    return UnknownMeaning(f"{name} is chosen at run time", chosen=True)


def _from_workspace(how: str) -> UnknownMeaning:
    return UnknownMeaning(
        f"its component is loaded from a workspace ({how}), so its kind is not known here", foreign=True
    )


def _argument(call: ast.Call, names: tuple[str, ...], position: int) -> ast.expr | None:
    named = [keyword.value for keyword in call.keywords if keyword.arg in names]
    # The one at the position, or the last one before it.
    return next(iter([*named, *reversed(call.args[: position + 1])]), None)
