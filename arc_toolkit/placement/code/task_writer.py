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

_MODULE = "kfp"
_NAME = "kubernetes"


class TaskWriter:
    """Collects what is new about each task; `finish` writes it."""

    def __init__(self, code: CodeScopes, changes: Changes, imports: NeededImports) -> None:
        self._code = code
        self._changes = changes
        self._imports = imports
        self._new: dict[int, tuple[CodeTask, dict[str, Any]]] = {}
        self._names: set[str] = set()

    def add(self, task: CodeTask, path: tuple[str, ...], value: Any) -> None:
        """A new value at a path of the settings of a task."""
        for step in reversed(path):
            value = {step: value}
        fields = self._new.setdefault(id(task), (task, {}))[1]
        for name, item in value.items():
            if isinstance(item, dict):
                fields.setdefault(name, {}).update(item)
            else:
                fields.setdefault(name, []).extend(item)

    def finish(self) -> None:
        for task, fields in self._new.values():
            source, name = task.statement.source, task.name
            if name is None:
                name = self._new_name(task)
                self._changes.name_value(task.statement, name)
            # After what is said already, so that the order is that of a list to which something is added.
            site = max(
                [task.statement, *(place for _, place in task.settings)],
                key=lambda place: place.order,
            )
            indent = source.indent(source.start(task.statement.stmt))
            for call in self._calls(task, name, fields, source):
                self._changes.insert_after(site, written(call, source, indent, len(indent)))

    def _calls(
        self, task: CodeTask, name: str, fields: dict[str, Any], source: Source
    ) -> list[Bracketed]:
        def text(value: str) -> str:
            return quoted(value, source)

        calls = []
        first = ("", name)
        for row in fields.get("tolerations", ()):
            items = [first, *((f"{snake_case(key)}=", text(value)) for key, value in row.items())]
            calls.append(Bracketed(f"{self._module(task)}.add_toleration(", items, ")"))
        for key, value in fields.get("nodeSelector", {}).get("labels", {}).items():
            items = [first, ("label_key=", text(key)), ("label_value=", text(value))]
            calls.append(Bracketed(f"{self._module(task)}.add_node_selector(", items, ")"))
        for term in fields.get("nodeAffinity", ()):
            expressions = [("", _display(row, source)) for row in term["matchExpressions"]]
            values: list[tuple[str, str | Bracketed]] = [
                first,
                ("match_expressions=", Bracketed("[", expressions, "]")),
                *([("weight=", str(term["weight"]))] if "weight" in term else []),
            ]
            calls.append(Bracketed(f"{self._module(task)}.add_node_affinity(", values, ")"))
        if "retryPolicy" in fields:
            count = str(fields["retryPolicy"]["maxRetryCount"])
            calls.append(Bracketed(f"{name}.set_retry(", [("num_retries=", count)], ")"))
        return calls

    def _module(self, task: CodeTask) -> str:
        taken = find_bindings(_NAME, task.statement, lambda _: False)
        return self._imports.local_name(
            task.statement,
            _MODULE,
            _NAME,
            is_it=lambda path: path == f"{_MODULE}.{_NAME}",
            is_near=lambda module: module == _MODULE or module.startswith(f"{_MODULE}."),
            is_taken=bool(taken),
        )

    def _new_name(self, task: CodeTask) -> str:
        """A name that nothing in the module has."""
        if not self._names:
            self._names = {
                part.id
                for source in self._code.sources
                for stmt in source.body
                for part in ast.walk(stmt)
                if isinstance(part, ast.Name)
            } | {name for scope in self._code.scopes for name in scope.bindings}
        name, number = f"{task.component}_task", 1
        while name in self._names:
            number += 1
            name = f"{task.component}_task_{number}"
        self._names.add(name)
        return name


def _display(row: dict[str, Any], source: Source) -> Bracketed:
    items: list[tuple[str, str | Bracketed]] = []
    for key, value in row.items():
        head = f"{quoted(key, source)}: "
        if isinstance(value, list):
            items.append(
                (head, Bracketed("[", [("", quoted(item, source)) for item in value], "]"))
            )
        else:
            items.append((head, quoted(value, source)))
    return Bracketed("{", items, "}")
