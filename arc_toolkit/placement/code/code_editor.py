"""The operations of a plan on objects in Python code: collected as data, written as changes of the source.

A new value goes into the dictionary, the call of a model or the list that is there, in the form that it has.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

import yaml

from arc_toolkit.edit.code.editor import Changes, quoted
from arc_toolkit.edit.code.expressions import last_name
from arc_toolkit.edit.code.imports import NeededImports
from arc_toolkit.edit.code.names import Statement, find_bindings
from arc_toolkit.edit.code.nodes import CodeOrigin, OpaqueNode, ValueReader, plain_data
from arc_toolkit.edit.code.source import Source
from arc_toolkit.edit.code.text import Bracketed, written
from arc_toolkit.edit.files.edits import Refused
from arc_toolkit.edit.yaml.nodes import KeyPath, YamlNode, is_null, pairs
from arc_toolkit.edit.yaml.proof import Value, holds
from arc_toolkit.placement.code.code_tasks import CodeTask
from arc_toolkit.placement.code.sdk_models import (
    COMPLETED,
    PACKAGES,
    class_module,
    field_class,
    is_model_path,
    snake_case,
)
from arc_toolkit.placement.code.sdk_paths import import_path
from arc_toolkit.placement.code.task_writer import TaskWriter

# Below these a value may be shared by names, and then belongs to whoever else uses the name.
_SHARED = frozenset(("tolerations", "affinity", "nodeSelector"))


class CodeEditor:
    """Collects operations on the objects of one file; `write` makes them changes."""

    def __init__(
        self,
        reader: ValueReader,
        documents: Sequence[YamlNode],
        tasks: Mapping[int, tuple[CodeTask, tuple[str, ...]]],
    ) -> None:
        self._reader = reader
        self._documents = documents
        # The nodes that stand for the settings of tasks of a pipeline.
        self._tasks = tasks
        # By identity of node, so that what two names share is one place.
        self._added: dict[int, tuple[YamlNode, dict[str, Any]]] = {}
        self._appended: dict[int, tuple[YamlNode, YamlNode | None, str, list[Any]]] = {}
        self._replaced: dict[int, tuple[YamlNode, YamlNode | None, str, Any]] = {}
        self._operations: list[tuple[KeyPath, Any, bool]] = []

    @property
    def empty(self) -> bool:
        return not (self._added or self._appended or self._replaced)

    def set(self, path: KeyPath, value: Value) -> None:
        """Put a value at a path. One that is there and equal is not a change."""
        node, rest, parent = self._descend(path)
        field = str(path[len(path) - len(rest) - 1])
        if not rest:
            if holds(node, value):
                return
            if not isinstance(node, yaml.ScalarNode) or (
                isinstance(value, dict | list) and not is_null(node)
            ):
                raise Refused(f"`{_shown(path)}` already exists")
            origin = self._reader.origin(node)
            if origin is None or origin.names:
                raise Refused(
                    f"`{_shown(path)}` comes from {origin.names[0] if origin else 'elsewhere'}"
                )
            self._replace(node, parent, field, value)
        elif isinstance(node, yaml.MappingNode):
            tree = self._added.setdefault(id(node), (node, {}))[1]
            for step in rest[:-1]:
                tree = tree.setdefault(str(step), {})
            if tree.setdefault(str(rest[-1]), deepcopy(value)) != value:
                raise Refused(f"two changes want `{_shown(path)}`")
        elif is_null(node):
            filled: Any = value
            for step in reversed(rest):
                filled = {str(step): filled}
            self._replace(node, parent, field, filled)
        else:
            raise Refused(f"`{_shown(path)}` has no place")
        self._operations.append((path, deepcopy(value), False))

    def append(self, path: KeyPath, item: Value) -> None:
        """Put an item at the end of the list at a path, unless an item is the same."""
        node, rest, parent = self._descend(path)
        item = self._completed(str(path[-1]), item, parent if not rest else node)
        if not rest and isinstance(node, yaml.SequenceNode):
            if any(holds(child, item) for child in node.value):
                return
            items = self._appended.setdefault(id(node), (node, parent, str(path[-1]), []))[3]
        elif isinstance(node, yaml.MappingNode) and rest:
            tree = self._added.setdefault(id(node), (node, {}))[1]
            for step in rest[:-1]:
                tree = tree.setdefault(str(step), {})
            items = tree.setdefault(str(rest[-1]), [])
        else:
            self.set(path, [item])
            return
        if item not in items:
            items.append(deepcopy(item))
        self._operations.append((path, item, True))

    def expected(self) -> list[Any]:
        """The plain data of every object after the operations."""
        data = [plain_data(document) for document in self._documents]
        for path, value, is_item in self._operations:
            holder = data[int(path[0])]
            for step in path[1:-1]:
                if isinstance(holder, dict):
                    holder[step] = below = holder.get(step) if holder.get(step) is not None else {}
                    holder = below
                else:
                    holder = holder[step]
            if not is_item:
                holder[path[-1]] = _data(value)
            else:
                holder[path[-1]] = items = holder.get(path[-1]) or []
                if _data(value) not in items:
                    items.append(_data(value))
        return data

    # --- finding the place -------------------------------------------------------------------------------------

    def _descend(self, path: KeyPath) -> tuple[YamlNode, KeyPath, YamlNode | None]:
        """As far down a path as there are nodes: the node there, the rest of the path, and the node above it."""
        node, parent = self._documents[int(path[0])], None
        for depth, step in enumerate(path[1:], start=1):
            below: YamlNode | None = None
            if isinstance(node, yaml.MappingNode):
                pair = pairs(node).get(str(step))
                below = pair[1] if pair else None
            elif (
                isinstance(node, yaml.SequenceNode)
                and isinstance(step, int)
                and step < len(node.value)
            ):
                below = node.value[step]
            if below is None:
                self._check(node, path[:depth])
                return node, path[depth:], parent
            parent, node = node, below
        self._check(node, path)
        return node, (), parent

    def _check(self, node: YamlNode, path: KeyPath) -> None:
        if isinstance(node, OpaqueNode):
            raise Refused(f"`{_shown(path)}` {node.reason}")
        origin = self._reader.origin(node)
        for name in origin.names if origin is not None and not _SHARED.isdisjoint(path) else ():
            if self._reader.is_used_elsewhere(name):
                raise Refused(f"`{_shown(path)}` comes from {name}, which is used elsewhere too")

    def _completed(self, field: str, item: Value, holder: YamlNode | None) -> Value:
        """What a model insists on, into everything that is new below it."""
        origin = self._reader.origin(holder)
        return (
            _complete(field, item) if origin and isinstance(origin.expression, ast.Call) else item
        )

    def _replace(self, node: YamlNode, parent: YamlNode | None, field: str, value: Any) -> None:
        if self._replaced.setdefault(id(node), (node, parent, field, value))[3] != value:
            raise Refused("two different values are asked for where a name makes them one")

    # --- writing -----------------------------------------------------------------------------------------------

    def write(self, changes: Changes, imports: NeededImports) -> None:
        """All operations as changes of the source."""
        writer = _ValueWriter(self._reader, imports)
        tasks = TaskWriter(self._reader.code, changes, imports)
        for node, tree in self._added.values():
            if id(node) in self._tasks:
                tasks.add(*self._tasks[id(node)], tree)
                continue
            origin = self._origin(node)
            holder = origin.expression
            for name, value in tree.items():
                key = snake_case(name) if isinstance(holder, ast.Call) else name
                text = writer.text(value, name, origin, len(key) + 4)
                if not isinstance(holder, ast.Call | ast.Dict):
                    raise Refused(f"`{name}` has no place in {type(holder).__name__}")
                changes.set(origin.statement, holder, key, text)
        for node, parent, name, items in self._appended.values():
            if id(node) in self._tasks:
                tasks.add(*self._tasks[id(node)], items)
                continue
            origin, above = self._origin(node), self._reader.origin(parent)
            if not isinstance(origin.expression, ast.List):
                raise Refused(f"`{name}` is not a list here")
            as_data = origin.expression.elts[:1] and isinstance(origin.expression.elts[0], ast.Dict)
            for item in items:
                text = writer.item(item, name, origin, None if as_data else above)
                changes.append_item(origin.statement, origin.expression, text)
        for node, parent, name, value in self._replaced.values():
            origin, above = self._origin(node), self._reader.origin(parent)
            text = writer.item(value, name, origin, above)
            changes.replace(origin.statement, origin.expression, text)
        tasks.finish()

    def _origin(self, node: YamlNode) -> CodeOrigin:
        origin = self._reader.origin(node)
        if origin is None:
            raise Refused("it has no place in the code")
        return origin


class _ValueWriter:
    """Plain data as Python expressions, in the form of the object that they go into."""

    def __init__(self, reader: ValueReader, imports: NeededImports) -> None:
        self._reader = reader
        self._imports = imports

    def text(self, value: Any, field: str, holder: CodeOrigin, before: int) -> str:
        """A value for a field of an object."""
        source, indent = holder.statement.source, _indent(holder)
        return written(
            self._value(value, field, holder, source), source, indent, len(indent) + before
        )

    def item(self, value: Any, field: str, items: CodeOrigin, holder: CodeOrigin | None) -> str:
        """An item of the list in a field; `holder` has the form of the object around it."""
        source, indent = items.statement.source, _indent(items)
        return written(self._value(value, field, holder, source), source, indent, len(indent))

    def _value(
        self, value: Any, field: str, holder: CodeOrigin | None, source: Source
    ) -> str | Bracketed:
        if isinstance(value, list):
            return Bracketed(
                "[", [("", self._value(item, field, holder, source)) for item in value], "]"
            )
        if not isinstance(value, dict):
            return quoted(value, source) if isinstance(value, str) else repr(value)
        call = (
            holder.expression
            if holder is not None and isinstance(holder.expression, ast.Call)
            else None
        )
        name = (
            field_class(field, self._class_of(call, holder))
            if call is not None and holder is not None
            else None
        )
        if call is None or holder is None or name is None:
            items = [
                (f"{quoted(key, source)}: ", self._value(item, key, None, source))
                for key, item in value.items()
            ]
            return Bracketed("{", items, "}")
        fields = [
            (f"{snake_case(key)}=", self._value(item, key, holder, source))
            for key, item in value.items()
        ]
        return Bracketed(f"{self._callee(call, name, holder.statement)}(", fields, ")")

    def _class_of(self, call: ast.Call, holder: CodeOrigin) -> str:
        path = import_path(call.func, holder.statement)
        return path.rpartition(".")[2] if path else last_name(call.func)

    def _callee(self, call: ast.Call, name: str, statement: Statement) -> str:
        """A class of the SDK of a call, as that one is written; imported if it has to be."""
        if isinstance(call.func, ast.Attribute):
            return f"{ast.unparse(call.func.value)}.{name}"
        path = import_path(call.func, statement) or ""
        if any(
            module in PACKAGES or is_model_path(f"{module}.{name}")
            for module in statement.scope.stars
        ):
            return name
        return self._imports.local_name(
            statement,
            class_module(path),
            name,
            is_it=lambda other: is_model_path(other) and other.rpartition(".")[2] == name,
            is_near=lambda module: any(module == p or module.startswith(f"{p}.") for p in PACKAGES),
            is_taken=bool(find_bindings(name, statement, lambda _: False)),
        )


def _indent(holder: CodeOrigin) -> str:
    """The indent of new items: that of the last item, if it is on a line of its own, else of the holder's line."""
    source, node = holder.statement.source, holder.expression
    match node:
        case ast.Call():
            parts: list[Any] = [*node.args, *node.keywords]
        case ast.Dict():
            parts = [key or value for key, value in zip(node.keys, node.values, strict=True)]
        case ast.List():
            parts = list(node.elts)
        case _:
            parts = []
    start = max((source.start(part) for part in parts), default=source.start(node))
    own_line = not source.text[source.line_start(start) : start].strip()
    return source.indent(start if own_line else source.start(node))


def _complete(field: str, value: Any) -> Any:
    if isinstance(value, dict):
        return {
            **{key: _complete(key, item) for key, item in value.items()},
            **COMPLETED.get(field, {}),
        }
    return [_complete(field, item) for item in value] if isinstance(value, list) else value


def _data(value: Any) -> Any:
    """Plain data in the form of `plain_data`."""
    if isinstance(value, dict):
        return {key: _data(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_data(item) for item in value]
    return (
        value
        if isinstance(value, str | bool) or value is None
        else ("tag:yaml.org,2002:int", str(value))
    )


def _shown(path: KeyPath) -> str:
    return ".".join(str(step) for step in path[1:])
