"""Which object of an AzureML SDK an expression makes. Nothing is imported or run.

    train = load_component(source="train.yml")        a Component, with the kind that train.yml has
    node = train(data=x)                              a Step of that component
    job = command(...)                                a Builder: a job, and a template of steps
    other = job if test else train                    UnknownSdkObject("chosen at run time")

Components and constants are also followed into other modules of the project.
"""

from __future__ import annotations

import ast
import os.path
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeVar

from arc_toolkit.azureml.documents import Document
from arc_toolkit.azureml.documents import parse as parse_document
from arc_toolkit.azureml.kinds import Family
from arc_toolkit.azureml.python import sdk_objects as sdk
from arc_toolkit.azureml.python.module import (
    Module,
    ProjectModule,
    find_module,
    folders_around,
    read_module,
)
from arc_toolkit.azureml.python.sdk_objects import (
    ASSUME,
    NOTHING,
    Builder,
    Component,
    Partial,
    PipelineFunction,
    PipelineJob,
    SdkName,
    SdkObject,
    SdkVersion,
    Step,
    Sweep,
    UnknownSdkObject,
    V1Job,
)
from arc_toolkit.azureml.references import ProjectFiles
from arc_toolkit.edit.code.names import (
    Binding,
    Block,
    Scope,
    Statement,
    calls_in,
    certain_binding,
    dotted,
    find_bindings,
    last_name,
)
from arc_toolkit.edit.code.source import Source, decode, parse
from arc_toolkit.edit.code.values import (
    Bound,
    Effort,
    Evaluator,
    OpaqueValue,
    parameter_arguments,
)
from arc_toolkit.edit.files.edits import Unreadable

# Role of a loader -> its SDK, the names of its argument, and the position of it.
LOADERS: dict[str, tuple[SdkVersion, tuple[str, ...], int]] = {
    "load_component": ("v2", ("source", "path"), 0),
    "from_yaml": ("v1.5", ("yaml_file",), 1),
}


def _opened_file(holder: ast.expr, scope: Scope, write: Statement) -> ast.expr | None:
    """The path that the last `with open(path) as name` before a statement opens under this name."""
    for statement in reversed(scope.statements):
        if not isinstance(statement.stmt, ast.With) or statement.order > write.order:
            continue
        for item in statement.stmt.items:
            match item, holder:
                case (
                    ast.withitem(
                        context_expr=ast.Call(args=[path, *_]), optional_vars=ast.Name(id=name)
                    ),
                    ast.Name(id=wanted),
                ) if name == wanted:
                    return path
    return None


MAX_OBJECT_DEPTH = 20
# From a pipeline to the package of its components, from there to one of them, and to a constant.
MAX_IMPORTS = 4
_Answer = TypeVar("_Answer")


class SdkResolver(Evaluator):
    """Answers for one module; `path` is its own, and `project` reads the files that it names.

    `assume` is what a component is taken for whose kind is not known. `imports`: how many modules
    import each other on the way from the one that is patched to this one.
    """

    def __init__(
        self,
        module: Module,
        path: str,
        project: ProjectFiles,
        assume: Family | None = None,
        imports: int = 0,
        effort: Effort | None = None,
    ) -> None:
        super().__init__(module, os.path.abspath(path), sdk.ROLES.__contains__, effort)
        self.module = module
        self.folder = os.path.dirname(self.file)
        self.project = project
        self.assume = assume
        self._imports = imports
        self._objects: dict[int, SdkObject] = {}
        self._imported_objects: dict[str, SdkObject | None] = {}
        self._pipelines: dict[int, PipelineFunction | None] = {}

    # --- names ---

    def binding(self, name: str, statement: Statement) -> Binding | UnknownSdkObject:
        """What a name is bound to, seen from a place."""
        bindings = find_bindings(name, statement, self.is_known)
        return _choose(name, bindings, statement) if bindings else NOTHING

    def bindings(self, name: str, statement: Statement) -> list[Binding]:
        binding = self.binding(name, statement)
        return [binding] if isinstance(binding, Binding) else list(binding.options)

    def role(self, node: ast.expr, statement: Statement) -> sdk.SdkRole:
        path = self.import_path(node, statement)
        return SdkName(path).role if path else sdk.NO_ROLE

    def makes_resources(self, node: ast.expr, statement: Statement) -> bool:
        """Whether this is `JobResourceConfiguration(...)`; the name counts too where nothing here
        binds it.
        """
        if not isinstance(node, ast.Call):
            return False
        is_named = isinstance(node.func, ast.Name) and node.func.id == sdk.RESOURCES_CLASS
        is_unbound = is_named and self.binding(sdk.RESOURCES_CLASS, statement) is NOTHING
        return is_unbound or self.role(node.func, statement).name == "resources"

    def pipeline(self, scope: Scope) -> PipelineFunction | None:
        """The pipeline function that a scope is the inside of."""
        if id(scope) not in self._pipelines:
            node, statement, made = scope.node, scope.statement, None
            if isinstance(node, ast.FunctionDef) and node.decorator_list and statement is not None:
                made = self._function(node, statement)
            self._pipelines[id(scope)] = made if isinstance(made, PipelineFunction) else None
        return self._pipelines[id(scope)]

    # --- objects ---

    def object_of(self, node: ast.expr, statement: Statement, depth: int = 0) -> SdkObject:
        if depth > MAX_OBJECT_DEPTH:
            return UnknownSdkObject("defined in a circle")
        if id(node) not in self._objects:
            self._objects[id(node)] = self._read_object(node, statement, depth)
        return self._objects[id(node)]

    def object_of_name(self, name: str, statement: Statement, depth: int = 0) -> SdkObject:
        binding = self.binding(name, statement)
        if isinstance(binding, Binding):
            return self._bound_object(binding, depth)
        # Found in the workspace, or else made of a file: the same component.
        options = binding.options if depth < MAX_OBJECT_DEPTH else ()
        made = [self._bound_object(option, depth + 1) for option in options]
        components = [item for item in made if isinstance(item, Component)]
        others = [item for item in made if not isinstance(item, Component)]
        if len(components) == 1 and all(map(_is_unknown_component, others)):
            return components[0]
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
                item = self._item(node.value, node.slice, statement)
                if item is None:
                    return UnknownSdkObject("picked from a collection at run time", chosen=True)
                return self.object_of(*item, depth + 1)
            case ast.Await():
                return self.object_of(node.value, statement, depth + 1)
        return NOTHING

    def _bound_object(self, binding: Binding, depth: int) -> SdkObject:
        match binding.value:
            case None:
                return UnknownSdkObject(f"{binding.name} is {binding.why}")
            case str():
                return _imported_name(binding.name, binding.value)
            case ast.FunctionDef():
                return self._function(binding.value, binding.statement)
        made = self.object_of(binding.value, binding.statement, depth + 1)
        if isinstance(made, Builder) and not made.name:
            return Builder(made.family, made.call, binding.name, binding.statement)
        return made

    def _function(self, function: ast.FunctionDef, statement: Statement) -> SdkObject:
        for decorator in function.decorator_list:
            callee = decorator.func if isinstance(decorator, ast.Call) else decorator
            role = self.role(callee, statement)
            if role.name == "pipeline":
                return PipelineFunction(role.generation, function)
            if role.name == "command_component":
                return Component(role.generation, role.family)
        return UnknownSdkObject(f"{function.name} is a helper function")

    def _attribute_object(self, node: ast.Attribute, statement: Statement, depth: int) -> SdkObject:
        path = self.import_path(node, statement)
        if path is not None:
            return _imported_name(dotted(node), path)
        if node.attr == "component":
            base = self.object_of(node.value, statement, depth + 1)
            if isinstance(base, Builder | Step):
                return Component("v2", base.family)
        bound = self.class_attribute(node, statement)
        bound = bound or self._item(node.value, ast.Constant(node.attr), statement)
        return NOTHING if bound is None else self.object_of(*bound, depth + 1)

    def _item(self, holder: ast.expr, key: ast.expr, statement: Statement) -> Bound | None:
        """What `{"train": ...}["train"]` or `SimpleNamespace(train=...).train` is, if nothing is
        assigned to it.
        """
        if not isinstance(holder, ast.Name) or not isinstance(key, ast.Constant):
            return None
        bound = self.bound_expression(holder, statement)
        if bound is None:
            return None
        value, place = bound
        values: dict[object, ast.expr] = {}
        match value:
            case ast.Dict(keys=keys, values=items):
                pairs = zip(keys, items, strict=True)
                values = {
                    name.value: item for name, item in pairs if isinstance(name, ast.Constant)
                }
            case ast.Call(func=function) if last_name(function) in ("SimpleNamespace", "dict"):
                values = {keyword.arg: keyword.value for keyword in value.keywords}
        for scope in (statement.scope, place.scope):
            if any(use.how == "assign" for use in scope.uses.get(holder.id, ())):
                return None
        return (values[key.value], place) if key.value in values else None

    # --- calls ---

    def _call_object(self, call: ast.Call, statement: Statement, depth: int) -> SdkObject:
        function = call.func
        path = self.import_path(function, statement)
        if isinstance(function, ast.Attribute):
            if function.attr == "sweep" and path is None:
                base = self.object_of(function.value, statement, depth + 1)
                if not isinstance(base, Step | Builder | UnknownSdkObject):
                    base = NOTHING
                return Sweep(call, base)
            registered = self._workspace_object(function, call, statement, depth)
            if registered is not None:
                return registered
        if path == "functools.partial" and call.args:
            base = self.object_of(call.args[0], statement, depth + 1)
            return Partial(base, call) if isinstance(base, SdkName) else base
        made = self.object_of(function, statement, depth + 1)
        if isinstance(made, UnknownSdkObject) and made.imported:
            made = self.imported_object(made.imported) or made
        match made:
            case UnknownSdkObject(is_component=True) if self.assume is not None:
                assumed = Component(made.generation, self.assume)
                return Step(made.generation, self.assume, assumed, call)
            case UnknownSdkObject():
                return self._returned_object(call, statement, depth) or made
            case Partial():
                result = self._library_object(made.of, call, statement)
                return (
                    replace(result, defaults=made.call) if isinstance(result, Builder) else result
                )
            case SdkName():
                return self._library_object(made, call, statement)
            case Component():
                return Step(made.generation, made.family, made, call)
            case Step():  # spark(...) is a step, and a template of steps
                return replace(made, call=call)
            case Builder():
                return Step("v2", made.family, made, call)
            case PipelineFunction():
                return PipelineJob(made)
        return NOTHING

    def _library_object(self, name: SdkName, call: ast.Call, statement: Statement) -> SdkObject:
        role = name.role
        match role.name:
            case "command" | "parallel":
                return Builder(role.family, call)
            case "entity":
                return Builder(role.family, call, is_entity=True)
            case "v1":
                return V1Job(call, is_step=name.path.endswith("Step"))
            case "spark" | "automl" | "no resources":
                return Step("v2", role.family, Component("v2", role.family), call)
            case "component":
                return Component(role.generation, role.family, call=call, statement=statement)
            case "command_component":
                return Component(role.generation, role.family)
            case "load_component" if {keyword.arg for keyword in call.keywords} & {
                *("client", "name", "version")
            }:
                return _workspace_component("load_component(client=..., name=...)")
            case "load_component" | "from_yaml":
                return self._load_file(role.name, call, statement, self)
            case "from_func":
                return Component("v1.5", Family.COMMAND)
            case "workspace":
                return _workspace_component(dotted(call.func), "v1.5")
            case "pipeline":  # pipeline(...)(function), without the decorator syntax
                return UnknownSdkObject("a pipeline made without the decorator")
        return UnknownSdkObject(f"made by {dotted(call.func)}()")

    def _workspace_object(
        self, function: ast.Attribute, call: ast.Call, statement: Statement, depth: int
    ) -> SdkObject | None:
        """`client.components.get(...)`, `client.components.create_or_update(component)` and the
        like.
        """
        if function.attr in ("get", "load"):
            holder = function.value
            if isinstance(holder, ast.Attribute) and holder.attr in ("components", "component"):
                return _workspace_component(dotted(function))
        if function.attr == "create_or_update" and call.args:
            registered = self.object_of(call.args[0], statement, depth + 1)
            # Registering a component returns a component; submitting a job returns a job.
            if isinstance(registered, Component | PipelineFunction):
                return registered
            if _is_unknown_component(registered):
                return registered
            return UnknownSdkObject(f"the result of {dotted(function)}()")
        return None

    def _returned_object(
        self, call: ast.Call, statement: Statement, depth: int
    ) -> SdkObject | None:
        """What a helper function returns: a component, or a step that is a target where it is made."""
        scope = self._called_function(call.func, statement)
        returns = (
            [item for item in scope.statements if isinstance(item.stmt, ast.Return)]
            if scope
            else []
        )
        if scope is None or len(returns) != 1:
            return None
        result = returns[0].stmt
        if not isinstance(result, ast.Return) or result.value is None:
            return None
        made = self.object_of(result.value, returns[0], depth + 1)
        if isinstance(made, Step | Sweep):
            return UnknownSdkObject(f"it is made in {last_name(call.func)}()", is_made=True)
        if isinstance(made, Component) and made.why and not made.file:
            loader, place = self.follow(result.value, returns[0])
            arguments = parameter_arguments(scope, call, statement)
            role = self.role(loader.func, place).name if isinstance(loader, ast.Call) else ""
            if arguments is not None and isinstance(loader, ast.Call) and role in LOADERS:
                inside = self.with_arguments(scope, arguments)
                return self._load_file(role, loader, place, inside)
        return made if isinstance(made, Component | Builder | PipelineFunction) else None

    def _called_function(self, function: ast.expr, statement: Statement) -> Scope | None:
        """The function, or method of this class, that a call runs."""
        bindings: list[Binding] = []
        if isinstance(function, ast.Name):
            bindings = self.bindings(function.id, statement)
        elif isinstance(function, ast.Attribute):
            owner = self.class_of(function.value, statement)
            bindings = owner.bindings.get(function.attr, []) if owner is not None else []
        if len(bindings) != 1 or not isinstance(bindings[0].value, ast.FunctionDef):
            return None
        return self.scopes.get(id(bindings[0].value))

    # --- component files: of the project, or written by the code itself ---

    def _load_file(
        self, role: str, call: ast.Call, statement: Statement, values: Evaluator
    ) -> Component:
        """What `load_component(...)` or `Component.from_yaml(...)` returns."""
        generation, names, position = LOADERS[role]
        family = self.assume or Family.OTHER
        named = [keyword.value for keyword in call.keywords if keyword.arg in names]
        # The argument at the position, or the last one before it.
        node = next(iter([*named, *reversed(call.args[: position + 1])]), None)
        name = values.text(node, statement) if node is not None else None
        if name is None:
            why = "its component file is known only when the code runs"
            return Component(generation, family, why=why)
        for file, document in self._candidates(name):
            if document is not None:
                family = document.root.kind.family
                why = "" if family != Family.OTHER else f"{name} is of a kind that is not known"
                return Component(generation, family, file, document, why=why)
        shown = os.path.relpath(name, self.folder) if os.path.isabs(name) else name
        return Component(generation, family, file, why=f"there is no component in {shown}")

    def _candidates(self, name: str) -> Iterator[tuple[str, Document | None]]:
        """In the folder of the code, or where it may be run from; or written by the code."""
        for folder in folders_around(self.folder):
            file = os.path.normpath(os.path.join(folder, name))
            yield file, self.project.load(file)
        file = os.path.normpath(os.path.join(self.folder, name))
        content = self._written_texts.get(os.path.normpath(name))
        try:
            written = (
                parse_document(file, content.encode(), self.project).documents if content else ()
            )
        except Unreadable:
            written = ()
        yield file, written[0] if written else None

    @cached_property
    def _written_texts(self) -> dict[str, str]:
        """Contents by the paths as the code names them; the first one if it writes several."""
        texts: dict[str, str] = {}
        for name, content in (*self._cells(), *self._calls()):
            texts.setdefault(os.path.normpath(name), content)
        return texts

    def _cells(self) -> Iterator[tuple[str, str]]:
        """`%%writefile {folder}/train.yml`: IPython fills in the names in braces."""
        for source in self.module.sources:
            if source.written is None:
                continue
            name, content = source.written
            try:
                expression = ast.parse(f"f{name!r}", mode="eval").body
            except SyntaxError:
                continue
            path = self.text(expression, self._end_before(source))
            if path is not None:
                yield path, content

    def _end_before(self, source: Source) -> Statement:
        """A place after the statements of the cells before this one."""
        top, sources = self.module.top, [id(item) for item in self.module.sources]
        before = sources[: sources.index(id(source))]
        orders = [item.order for item in top.statements if id(item.source) in before]
        return Statement(source, [], ast.Pass(), top, Block("scope"), max(orders, default=0) + 1)

    def _calls(self) -> Iterator[tuple[str, str]]:
        """`with open(name, "w") as f: f.write(content)` and `Path(name).write_text(content)`."""
        contents = self.with_placeholder("0")
        for scope in self.module.scopes:
            for statement in scope.statements:
                if not isinstance(statement.stmt, ast.Expr):
                    continue
                for call in calls_in(statement.stmt):
                    match call:
                        case ast.Call(
                            func=ast.Attribute(attr="write" | "write_text", value=holder),
                            args=[content, *_],
                        ):
                            opened = _opened_file(holder, scope, statement) or holder
                            path = self.text(opened, statement)
                            text = contents.text(content, statement)
                            if path is not None and text is not None:
                                yield path, text

    # --- other modules of the project ---

    def imported(self, path: str) -> Any:
        module = self._find_module(path)
        values = self._ask(module, _read_value) if module is not None else None
        if values is None:
            raise OpaqueValue(f"it is imported: {path}")
        return values[0]

    def imported_object(self, path: str) -> SdkObject | None:
        """What is imported, if it is the same here: a component or a pipeline, not a command
        object, whose settings are in the other module.
        """
        if path not in self._imported_objects:
            module = self._find_module(path)
            is_readable = module is not None and module.may_pass_on
            component = self._ask(module, _read_component) if module and is_readable else None
            self._imported_objects[path] = component
        return self._imported_objects[path]

    def may_import_component(self, path: str) -> bool:
        """Whether what is imported may be a component."""
        module = self._find_module(path)
        if module is None or not module.may_pass_on:
            return False
        return module.has_sdk or bool(self._ask(module, _passes_component_on))

    def imports_settings(self, path: str) -> bool:
        """Whether a step gets its settings in another file of the run: the command object that it
        is made of, or a function that returns one, is there.
        """
        module = self._find_module(path)
        if module is None or not self.project.is_given(module.file):
            return False
        return bool(self._ask(replace(module, name=f"{module.name}()"), _makes_command))

    def _find_module(self, path: str) -> ProjectModule | None:
        return find_module(path, self.folder, self.project) if path else None

    def _ask(
        self, module: ProjectModule, answer: Callable[[SdkResolver, ast.expr, Statement], _Answer]
    ) -> _Answer | None:
        """What a name is at the end of another module."""
        if self._imports >= MAX_IMPORTS:
            return None
        try:
            text = decode(module.text)[0]
            code = read_module([Source(text, parse(text))])
        except Unreadable:
            return None
        with closing(code):
            if not code.top.statements:
                return None
            last = code.top.statements[-1]
            block = last.block
            while block.parent is not None:
                block = block.parent
            name = ast.parse(module.name, mode="eval").body
            end = replace(last, block=block, order=last.order + 1)
            imports = self._imports + 1
            resolver = SdkResolver(
                code, module.file, self.project, self.assume, imports, self.effort
            )
            return answer(resolver, name, end)


def _read_value(resolver: SdkResolver, name: ast.expr, statement: Statement) -> tuple[Any]:
    return (resolver.value(name, statement),)


def _read_component(
    resolver: SdkResolver, name: ast.expr, statement: Statement
) -> SdkObject | None:
    match resolver.object_of(name, statement):
        case UnknownSdkObject(imported=path) if path:  # `from .train import train` in __init__.py
            return resolver.imported_object(path)
        case (
            Component(call=None) | PipelineFunction() | UnknownSdkObject(is_component=True) as made
        ):
            return made
    return None


def _passes_component_on(resolver: SdkResolver, name: ast.expr, statement: Statement) -> bool:
    made = resolver.object_of(name, statement)
    return isinstance(made, UnknownSdkObject) and resolver.may_import_component(made.imported)


def _makes_command(resolver: SdkResolver, call: ast.expr, statement: Statement) -> bool:
    made = resolver.object_of(call, statement)
    if isinstance(made, UnknownSdkObject):
        return made.is_made or resolver.imports_settings(made.imported)
    return isinstance(made.origin if isinstance(made, Step) else made, Builder)


def _imported_name(name: str, path: str) -> SdkObject:
    if path in sdk.ROLES or path == "azure" or path.startswith(sdk.SDK_PACKAGES):
        return SdkName(path)
    module = path.rpartition(".")[0] or path
    if path.startswith(".") and not module.strip("."):  # from . import name
        module = path.rpartition(".")[0] + "."
    return UnknownSdkObject(f"{name} is imported from {module}", imported=path)


def _choose(name: str, bindings: list[Binding], statement: Statement) -> Binding | UnknownSdkObject:
    """The binding that holds, or why that is decided at run time."""
    if (certain := certain_binding(bindings, statement)) is not None:
        return certain
    # `try: from a import f` and `except ImportError: from b import f`, or `f = None`: the first, if
    # it is there.
    firsts = [item for item in bindings if not _is_fallback(item)]
    imports = [item for item in bindings if isinstance(item.value, str) and item.value in sdk.ROLES]
    if len(firsts) < len(bindings) and (imports or len(firsts) == 1):
        return (imports or firsts)[0]
    return UnknownSdkObject(f"{name} is chosen at run time", chosen=True, options=tuple(bindings))


def _is_fallback(binding: Binding) -> bool:
    is_simple = isinstance(binding.value, str | ast.Constant)
    return is_simple and binding.statement.block.kind == "except"


def _is_unknown_component(made: SdkObject) -> bool:
    return isinstance(made, UnknownSdkObject) and made.is_component


def _workspace_component(how: str, generation: SdkVersion = "v2") -> UnknownSdkObject:
    why = f"its component is loaded from a workspace ({how}), so its kind is not known here{ASSUME}"
    return UnknownSdkObject(why, is_component=True, generation=generation)
