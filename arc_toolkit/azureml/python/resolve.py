"""What an expression means for AzureML. Nothing is imported or run.

A sdk_object that cannot be known for certain is `UnknownSdkObject` with the reason.
"""

from __future__ import annotations

import ast
import os.path
from dataclasses import replace
from functools import cached_property
from typing import Any

from arc_toolkit.azureml.kinds import Family
from arc_toolkit.azureml.library import Library
from arc_toolkit.azureml.python import sdk_objects as sdk
from arc_toolkit.azureml.python.component_files import ComponentFiles
from arc_toolkit.azureml.python.module import Module
from arc_toolkit.azureml.python.own_modules import OwnModules
from arc_toolkit.azureml.python.sdk_objects import (
    ASSUME,
    NOTHING,
    Builder,
    Component,
    Generation,
    Partial,
    PipelineFunction,
    PipelineJob,
    SdkName,
    SdkObject,
    Step,
    Sweep,
    UnknownSdkObject,
    V1Job,
)
from arc_toolkit.edit.code.expressions import dotted, last_name
from arc_toolkit.edit.code.names import Binding, Scope, Statement, certain_binding, find_bindings
from arc_toolkit.edit.code.values import Effort, Evaluator

_DEEPEST = 20


class SdkResolver(Evaluator):
    """Answers for one module; `path` is its own, and `library` reads the files that it names.

    `assume` is what a component is taken for whose kind is not known. `imports`: how many modules import each other
    on the way from the one that is patched to this one.
    """

    def __init__(
        self,
        module: Module,
        path: str,
        library: Library,
        assume: Family | None = None,
        imports: int = 0,
        effort: Effort | None = None,
    ) -> None:
        super().__init__(module, os.path.abspath(path), sdk.ROLES.__contains__, effort)
        self.module = module
        self.imports = imports
        self.folder = os.path.dirname(self.file)
        self.library = library
        self.assume = assume
        self._seen: dict[int, SdkObject] = {}
        self._pipelines: dict[int, PipelineFunction | None] = {}

    @cached_property
    def files(self) -> ComponentFiles:
        return ComponentFiles(self)

    @cached_property
    def own_modules(self) -> OwnModules:
        return OwnModules(self)

    def of_module(self, module: Module, path: str) -> SdkResolver:
        """The same for a module that this one imports."""
        return SdkResolver(
            module, path, self.library, self.assume, self.imports + 1, effort=self.effort
        )

    # --- names ---------------------------------------------------------------------------------------------------

    def binding(self, name: str, statement: Statement) -> Binding | UnknownSdkObject:
        """What a name is bound to, seen from a place."""
        bindings = find_bindings(name, statement, self.is_known)
        return _last(name, bindings, statement) if bindings else NOTHING

    def bindings(self, name: str, statement: Statement) -> list[Binding]:
        binding = self.binding(name, statement)
        return [binding] if isinstance(binding, Binding) else list(binding.options)

    def imported(self, path: str) -> Any:
        return self.own_modules.value(path)

    def bound(self, name: str, statement: Statement) -> tuple[ast.expr, Statement] | None:
        """The expression that a name stands for, and its statement."""
        binding = self.binding(name, statement)
        if isinstance(binding, Binding) and isinstance(binding.value, ast.expr):
            return binding.value, binding.statement
        return None

    def path(self, node: ast.expr, statement: Statement) -> str | None:
        """The import path of `aml.dsl.pipeline`, or None."""
        return self.import_path(node, statement)

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
            node, sdk_object = scope.node, None
            if (
                isinstance(node, ast.FunctionDef)
                and node.decorator_list
                and scope.statement is not None
            ):
                sdk_object = self.function(node, scope.statement)
            self._pipelines[id(scope)] = (
                sdk_object if isinstance(sdk_object, PipelineFunction) else None
            )
        return self._pipelines[id(scope)]

    # --- resolver ------------------------------------------------------------------------------------------------

    def object_of(self, node: ast.expr, statement: Statement, depth: int = 0) -> SdkObject:
        if depth > _DEEPEST:
            return UnknownSdkObject("defined in a circle")
        if id(node) not in self._seen:
            self._seen[id(node)] = self._read_object(node, statement, depth)
        return self._seen[id(node)]

    def object_of_name(self, name: str, statement: Statement, depth: int = 0) -> SdkObject:
        binding = self.binding(name, statement)
        if isinstance(binding, Binding):
            return self._bound(binding, depth)
        # Found in the workspace, or else made of a file: the same component.
        options = [self._bound(option, depth + 1) for option in binding.options if depth < _DEEPEST]
        known = [option for option in options if isinstance(option, Component)]
        others = [option for option in options if not isinstance(option, Component)]
        if len(known) == 1 and all(
            isinstance(option, UnknownSdkObject) and option.is_component for option in others
        ):
            return known[0]
        return binding

    def _read_object(self, node: ast.expr, statement: Statement, depth: int) -> SdkObject:
        match node:
            case ast.Name():
                return self.object_of_name(node.id, statement, depth)
            case ast.Attribute():
                return self._attribute_object(node, statement, depth)
            case ast.Call():
                return self._call_object(node, statement, depth)
            case ast.IfExp() | ast.BoolOp():
                return UnknownSdkObject("chosen at run time", chosen=True)
            case ast.Subscript():
                held = self._held(node.value, node.slice, statement)
                picked = UnknownSdkObject("picked from a collection at run time", chosen=True)
                return picked if held is None else self.object_of(*held, depth + 1)
            case ast.Await():
                return self.object_of(node.value, statement, depth + 1)
        return NOTHING

    def _bound(self, binding: Binding, depth: int) -> SdkObject:
        match binding.value:
            case None:
                return UnknownSdkObject(f"{binding.name} is {binding.why}")
            case str():
                return self._imported(binding.name, binding.value)
            case ast.FunctionDef():
                return self.function(binding.value, binding.statement)
            case _:
                sdk_object = self.object_of(binding.value, binding.statement, depth + 1)
                if isinstance(sdk_object, Builder) and not sdk_object.name:
                    return Builder(
                        sdk_object.family, sdk_object.call, binding.name, binding.statement
                    )
                return sdk_object

    def _imported(self, name: str, path: str) -> SdkObject:
        if (
            path in sdk.ROLES
            or path.startswith(("azure.", "azureml.", "mldesigner"))
            or path == "azure"
        ):
            return SdkName(path)
        module = path.rpartition(".")[0] or path
        if path.startswith(".") and not module.strip("."):  # from . import name
            module = path.rpartition(".")[0] + "."
        return UnknownSdkObject(f"{name} is imported from {module}", imported=path)

    def function(self, function: ast.FunctionDef, statement: Statement) -> SdkObject:
        for decorator in function.decorator_list:
            role = self.role(
                decorator.func if isinstance(decorator, ast.Call) else decorator, statement
            )
            if role.name == "pipeline":
                return PipelineFunction(role.generation, function)
            if role.name == "command_component":
                return Component(role.generation, role.family)
        return UnknownSdkObject(f"{function.name} is a helper function")

    def _returned(self, call: ast.Call, statement: Statement, depth: int) -> SdkObject | None:
        """What a helper function gives back: a component, or a step that is a target where it is made."""
        function = call.func
        bindings: list[Binding] = []
        if isinstance(function, ast.Name) and isinstance(
            named := self.binding(function.id, statement), Binding
        ):
            bindings = [named]
        elif isinstance(function, ast.Attribute) and (
            owner := self.class_of(function.value, statement)
        ):
            bindings = owner.bindings.get(function.attr, [])
        if len(bindings) != 1 or not isinstance(bindings[0].value, ast.FunctionDef):
            return None
        scope = self.scopes.get(id(bindings[0].value))
        returns = (
            [item for item in scope.statements if isinstance(item.stmt, ast.Return)]
            if scope
            else []
        )
        if (
            len(returns) != 1
            or not isinstance(stmt := returns[0].stmt, ast.Return)
            or stmt.value is None
        ):
            return None
        sdk_object = self.object_of(stmt.value, returns[0], depth + 1)
        if isinstance(sdk_object, Step | Sweep):
            return UnknownSdkObject(f"it is made in {last_name(function)}()", is_made=True)
        if (
            isinstance(sdk_object, Component)
            and sdk_object.why
            and not sdk_object.file
            and scope is not None
        ):
            return (
                self.files.loaded_by(scope, stmt.value, returns[0], call, statement) or sdk_object
            )
        return (
            sdk_object if isinstance(sdk_object, Component | Builder | PipelineFunction) else None
        )

    def _attribute_object(self, node: ast.Attribute, statement: Statement, depth: int) -> SdkObject:
        path = self.path(node, statement)
        if path is not None:
            return self._imported(dotted(node), path)
        if node.attr == "component":
            base = self.object_of(node.value, statement, depth + 1)
            if isinstance(base, Builder | Step):
                return Component("v2", base.family)
        held = self.class_attribute(node, statement) or self._held(
            node.value, ast.Constant(node.attr), statement
        )
        return NOTHING if held is None else self.object_of(*held, depth + 1)

    def _held(
        self, holder: ast.expr, key: ast.expr, statement: Statement
    ) -> tuple[ast.expr, Statement] | None:
        """What `{"train": ...}["train"]` or `SimpleNamespace(train=...).train` is, if nothing is assigned to it."""
        bound = self.bound_expression(holder, statement)
        if bound is None or not isinstance(key, ast.Constant) or not isinstance(holder, ast.Name):
            return None
        value, place = bound
        values: dict[object, ast.expr] = {}
        if isinstance(value, ast.Dict):
            pairs = zip(value.keys, value.values, strict=True)
            values = {name.value: item for name, item in pairs if isinstance(name, ast.Constant)}
        elif isinstance(value, ast.Call) and last_name(value.func) in ("SimpleNamespace", "dict"):
            values = {keyword.arg: keyword.value for keyword in value.keywords}
        scopes = (statement.scope, place.scope)
        changed = any(
            use.how == "assign" for scope in scopes for use in scope.uses.get(holder.id, ())
        )
        return (values[key.value], place) if key.value in values and not changed else None

    def _call_object(self, call: ast.Call, statement: Statement, depth: int) -> SdkObject:
        function = call.func
        if isinstance(function, ast.Attribute):
            if function.attr == "sweep" and self.path(function, statement) is None:
                base = self.object_of(function.value, statement, depth + 1)
                return Sweep(
                    call, base if isinstance(base, Step | Builder | UnknownSdkObject) else NOTHING
                )
            if function.attr in ("get", "load", "create_or_update"):
                workspace = self._workspace(function, call, statement, depth)
                if workspace is not None:
                    return workspace
        if (
            last_name(function) == "partial"
            and call.args
            and self.path(function, statement) == "functools.partial"
        ):
            base = self.object_of(call.args[0], statement, depth + 1)
            return Partial(base, call) if isinstance(base, SdkName) else base
        sdk_object = self.object_of(function, statement, depth + 1)
        if isinstance(sdk_object, UnknownSdkObject) and sdk_object.imported:
            sdk_object = self.own_modules.sdk_object(sdk_object.imported) or sdk_object
        match sdk_object:
            case UnknownSdkObject(is_component=True) if self.assume is not None:
                assumed = Component(sdk_object.generation, self.assume)
                return Step(sdk_object.generation, self.assume, assumed, call)
            case UnknownSdkObject():
                return self._returned(call, statement, depth) or sdk_object
            case Partial():
                made = self._library_call(sdk_object.of, call, statement)
                return (
                    replace(made, defaults=sdk_object.call) if isinstance(made, Builder) else made
                )
            case SdkName():
                return self._library_call(sdk_object, call, statement)
            case Component():
                return Step(sdk_object.generation, sdk_object.family, sdk_object, call)
            case Step():  # spark(...) is a step, and a template of steps
                return replace(sdk_object, call=call)
            case Builder():
                return Step("v2", sdk_object.family, sdk_object, call)
            case PipelineFunction():
                return PipelineJob(sdk_object)
        return NOTHING

    def _library_call(self, what: SdkName, call: ast.Call, statement: Statement) -> SdkObject:
        role = what.role
        match role.name:
            case "command" | "parallel":
                return Builder(role.family, call)
            case "entity":
                return Builder(role.family, call, is_entity=True)
            case "v1":
                return V1Job(call, is_step=what.path.endswith("Step"))
            case "spark" | "automl":
                return Step("v2", role.family, Component("v2", role.family), call)
            case "component":
                return Component(role.generation, role.family, call=call, statement=statement)
            case "command_component":
                return Component(role.generation, role.family)
            case "load_component":
                if {keyword.arg for keyword in call.keywords} & {"client", "name", "version"}:
                    return _from_workspace("load_component(client=..., name=...)")
                return self.files.loaded(call, statement)
            case "from_yaml":
                return self.files.loaded(call, statement)
            case "from_func":
                return Component("v1.5", Family.COMMAND)
            case "workspace":
                return _from_workspace(dotted(call.func), "v1.5")
            case "no resources":
                return Step("v2", role.family, Component("v2", role.family), call)
            case "pipeline":
                # pipeline(...)(function), without the decorator syntax
                return UnknownSdkObject("a pipeline made without the decorator")
        return UnknownSdkObject(f"made by {dotted(call.func)}()")

    def _workspace(
        self, function: ast.Attribute, call: ast.Call, statement: Statement, depth: int
    ) -> SdkObject | None:
        """`client.components.get(...)`, `client.components.create_or_update(component)` and the like."""
        over = function.value
        of_components = isinstance(over, ast.Attribute) and over.attr in ("components", "component")
        if of_components and function.attr in ("get", "load"):
            return _from_workspace(dotted(function))
        if function.attr == "create_or_update" and call.args:
            argument = self.object_of(call.args[0], statement, depth + 1)
            # What comes back from registering a component is a component; from submitting a job, a job.
            is_component = isinstance(argument, Component | PipelineFunction)
            is_component = is_component or getattr(argument, "is_component", False)
            return (
                argument
                if is_component
                else UnknownSdkObject(f"the result of {dotted(function)}()")
            )
        return None


def _last(name: str, bindings: list[Binding], statement: Statement) -> Binding | UnknownSdkObject:
    """The binding that holds, or why that is decided at run time."""
    if (certain := certain_binding(bindings, statement)) is not None:
        return certain
    # `try: from a import f` and `except ImportError: from b import f`, or `f = None`: the first, if it is there.
    firsts = [
        item
        for item in bindings
        if not (item.statement.block.kind == "except" and _is_fallback(item))
    ]
    imports = [item for item in bindings if isinstance(item.value, str) and item.value in sdk.ROLES]
    if len(firsts) < len(bindings) and (imports or len(firsts) == 1):
        return (imports or firsts)[0]
    return UnknownSdkObject(f"{name} is chosen at run time", chosen=True, options=tuple(bindings))


def _is_fallback(binding: Binding) -> bool:
    return isinstance(binding.value, str | ast.Constant)


def _from_workspace(how: str, generation: Generation = "v2") -> UnknownSdkObject:
    why = f"its component is loaded from a workspace ({how}), so its kind is not known here{ASSUME}"
    return UnknownSdkObject(why, is_component=True, generation=generation)
