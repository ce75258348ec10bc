"""New settings of kfp tasks as statements after the one that makes the task."""

from __future__ import annotations

import ast
from typing import Any

from arc_toolkit.edit.code.editor import Changes, quoted
from arc_toolkit.edit.code.imports import NeededImports
from arc_toolkit.edit.code.names import CodeScopes, find_bindings
from arc_toolkit.edit.code.source import Source
from arc_toolkit.edit.code.text import Bracketed, written
from arc_toolkit.placement.code.code_tasks import CodeTask
from arc_toolkit.placement.code.sdk_models import snake_case

_PACKAGE, _MODULE = "kfp", "kubernetes"
_Argument = tuple[str, str | Bracketed]


class TaskWriter:
    """Writes what is new about each task of one module."""

    def __init__(self, code: CodeScopes, changes: Changes, imports: NeededImports) -> None:
        self._code = code
        self._changes = changes
        self._imports = imports
        self._names: set[str] = set()

    def write(self, task: CodeTask, settings: list[tuple[tuple[str, ...], Any]]) -> None:
        """Add a call for every setting: ("tolerations",) and a row, ("nodeSelector", "labels", key)
        and a value, ("nodeAffinity",) and a term, ("retryPolicy", "maxRetryCount") and a number."""
        source, name = task.statement.source, task.name
        if name is None:
            name = self._new_name(task)
            self._changes.name_value(task.statement, name)
        # After existing settings: the order is that of a list to which something is added.
        sites = [task.statement, *(statement for _, statement in task.settings)]
        site = max(sites, key=lambda statement: statement.order)
        indent = source.indent(source.start(task.statement.stmt))
        for path, value in settings:
            call = self._call(task, name, path, value)
            self._changes.insert_after(site, written(call, source, indent, len(indent)))

    def _call(self, task: CodeTask, name: str, path: tuple[str, ...], value: Any) -> Bracketed:
        source = task.statement.source
        arguments: list[_Argument]
        match path:
            case ("retryPolicy", _):
                return Bracketed(f"{name}.set_retry(", [("num_retries=", str(value))], ")")
            case ("tolerations",):
                function = "add_toleration"
                arguments = [
                    (f"{snake_case(key)}=", quoted(text, source)) for key, text in value.items()
                ]
            case ("nodeSelector", _, key):
                function = "add_node_selector"
                arguments = [
                    ("label_key=", quoted(key, source)),
                    ("label_value=", quoted(value, source)),
                ]
            case _:
                function = "add_node_affinity"
                arguments = [("match_expressions=", _display(value["matchExpressions"], source))]
                if "weight" in value:
                    arguments.append(("weight=", str(value["weight"])))
        return Bracketed(f"{self._module(task)}.{function}(", [("", name), *arguments], ")")

    def _module(self, task: CodeTask) -> str:
        return self._imports.local_name(
            task.statement,
            _PACKAGE,
            _MODULE,
            is_it=lambda path: path == f"{_PACKAGE}.{_MODULE}",
            is_near=lambda module: module == _PACKAGE or module.startswith(f"{_PACKAGE}."),
            is_taken=bool(find_bindings(_MODULE, task.statement, lambda _: False)),
        )

    def _new_name(self, task: CodeTask) -> str:
        """A name that nothing in the module has."""
        if not self._names:
            self._names = {name for scope in self._code.scopes for name in scope.bindings}
            for source in self._code.sources:
                for stmt in source.body:
                    parts = ast.walk(stmt)
                    self._names |= {part.id for part in parts if isinstance(part, ast.Name)}
        name, number = f"{task.component}_task", 1
        while name in self._names:
            number += 1
            name = f"{task.component}_task_{number}"
        self._names.add(name)
        return name


def _display(value: Any, source: Source) -> str | Bracketed:
    """Plain data as a display of Python."""
    if isinstance(value, list):
        return Bracketed("[", [("", _display(item, source)) for item in value], "]")
    if isinstance(value, dict):
        items = [(f"{quoted(key, source)}: ", _display(value[key], source)) for key in value]
        return Bracketed("{", items, "}")
    return quoted(value, source)
