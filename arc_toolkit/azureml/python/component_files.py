"""The component files that code loads: their paths are texts, also by constants of other modules of the project and by
arguments of a function that loads them."""

from __future__ import annotations

import ast
import itertools
import os.path
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from arc_toolkit.azureml.documents import Document
from arc_toolkit.azureml.kinds import Family
from arc_toolkit.azureml.python.own_modules import folders_around
from arc_toolkit.azureml.python.sdk_objects import Component, Generation
from arc_toolkit.azureml.python.written_files import written_document, written_texts
from arc_toolkit.edit.code.names import Scope, Statement
from arc_toolkit.edit.code.values import Bound, Evaluator

if TYPE_CHECKING:
    from arc_toolkit.azureml.python.resolve import SdkResolver

# The parameters of a function and what a call of it gives them.
Arguments = Mapping[str, Bound]
_LOADERS: dict[str, tuple[Generation, tuple[str, ...], int]] = {
    "load_component": ("v2", ("source", "path"), 0),
    "from_yaml": ("v1.5", ("yaml_file",), 1),
}


class ComponentFiles:
    """Reads the component files of one module."""

    def __init__(self, resolver: SdkResolver) -> None:
        self._resolver = resolver

    def loaded(self, call: ast.Call, statement: Statement) -> Component:
        """What `load_component(...)` or `Component.from_yaml(...)` gives."""
        return self._load(call, statement, self._resolver)

    def loaded_by(
        self,
        function: Scope,
        made: ast.expr,
        statement: Statement,
        call: ast.Call,
        place: Statement,
    ) -> Component | None:
        """What a function that gives back `made`, a component of a file, gives back for the arguments of a call."""
        resolver = self._resolver
        loader, at = resolver.follow(made, statement)
        arguments = _arguments(function, call, place)
        if arguments is None or not isinstance(loader, ast.Call):
            return None
        if resolver.role(loader.func, at).name not in _LOADERS:
            return None
        return self._load(loader, at, resolver.with_arguments(function, arguments))

    def _load(self, call: ast.Call, statement: Statement, values: Evaluator) -> Component:
        resolver = self._resolver
        generation, names, position = _LOADERS[resolver.role(call.func, statement).name]
        node = _argument(call, names, position)
        name = values.text(node, statement) if node is not None else None
        if name is None:
            why = "its component file is known only when the code runs"
            return Component(generation, resolver.assume or Family.OTHER, why=why)
        # In the folder of the code, or where it may be run from; or the code writes it first.
        for folder in itertools.chain(folders_around(resolver.folder), (None,)):
            file = os.path.normpath(os.path.join(folder or resolver.folder, name))
            document = (
                resolver.library.load(file) if folder is not None else self._written(name, file)
            )
            if document is not None:
                family = document.root.kind.family
                why = "" if family != Family.OTHER else f"{name} is of a kind that is not known"
                return Component(generation, family, file, document, why=why)
        shown = os.path.relpath(name, resolver.folder) if os.path.isabs(name) else name
        return Component(
            generation,
            resolver.assume or Family.OTHER,
            file,
            why=f"there is no component in {shown}",
        )

    def _written(self, name: str, file: str) -> Document | None:
        content = self._written_texts.get(os.path.normpath(name))
        return None if content is None else written_document(file, content, self._resolver.library)

    @cached_property
    def _written_texts(self) -> dict[str, str]:
        return written_texts(self._resolver.module, self._resolver)


def _argument(call: ast.Call, names: tuple[str, ...], position: int) -> ast.expr | None:
    named = [keyword.value for keyword in call.keywords if keyword.arg in names]
    # The one at the position, or the last one before it.
    return next(iter([*named, *reversed(call.args[: position + 1])]), None)


def _arguments(function: Scope, call: ast.Call, place: Statement) -> Arguments | None:
    """What a call gives to the parameters that the function does not bind again; None if that is not plain."""
    node = function.node
    if not isinstance(node, ast.FunctionDef) or function.statement is None:
        return None
    if any(isinstance(argument, ast.Starred) for argument in call.args):
        return None
    parameters = [*node.args.posonlyargs, *node.args.args]
    is_method = isinstance(call.func, ast.Attribute) and not any(
        isinstance(decorator, ast.Name) and decorator.id == "staticmethod"
        for decorator in node.decorator_list
    )
    defaults = dict(zip(reversed(parameters), reversed(node.args.defaults), strict=False))
    defaults |= {
        parameter: default
        for parameter, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
        if default is not None
    }
    values = {
        parameter.arg: (default, function.statement) for parameter, default in defaults.items()
    }
    values |= {
        parameter.arg: (argument, place)
        for parameter, argument in zip(parameters[is_method:], call.args, strict=False)
    }
    for keyword in call.keywords:
        if keyword.arg is None:
            return None
        values[keyword.arg] = keyword.value, place
    return {
        name: value for name, value in values.items() if len(function.bindings.get(name, ())) == 1
    }
