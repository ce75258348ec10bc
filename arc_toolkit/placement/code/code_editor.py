"""Changes of objects in Python code: collected as data, written as changes of the source.

A new value goes into the dictionary, the call of a model or the list in the code, in its form:
`V1PodSpec(containers=[c])` gets `tolerations=[V1Toleration(key=...)]`, and `{"containers": [c]}`
gets `"tolerations": [{"key": ...}]`.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

import yaml

from arc_toolkit.edit.code.editor import Changes, quoted
from arc_toolkit.edit.code.expressions import last_name
from arc_toolkit.edit.code.imports import NeededImports
from arc_toolkit.edit.code.names import Statement, find_bindings
from arc_toolkit.edit.code.nodes import CodeOrigin, OpaqueNode, ValueReader, plain_data
from arc_toolkit.edit.code.source import Source
from arc_toolkit.edit.code.text import Bracketed, written
from arc_toolkit.edit.files.edits import Refused
from arc_toolkit.edit.yaml.nodes import INT, KeyPath, YamlNode, is_null, pairs
from arc_toolkit.edit.yaml.proof import Value, has_value
from arc_toolkit.placement.code.code_tasks import CodeTask
from arc_toolkit.placement.code.sdk_models import (
    COMPLETED,
    PACKAGES,
    class_module,
    field_class,
    is_model_path,
    snake_case,
)
from arc_toolkit.placement.code.task_writer import TaskWriter
from arc_toolkit.placement.decisions import FieldChange
from arc_toolkit.placement.pipelines import EXECUTORS

# Below these a value may be shared by names, and then belongs to the other users of the name, too.
_SHARED = frozenset(("tolerations", "affinity", "nodeSelector"))


class _Spot(NamedTuple):
    """How far a path goes in the code: the node there, the rest of the path, the node above it."""

    node: YamlNode
    rest: KeyPath
    parent: YamlNode | None


class _NewValue(NamedTuple):
    """A value in place of a node, or items at its end; `name` is its field in the node above it."""

    node: YamlNode
    parent: YamlNode | None
    name: str
    value: Any


class CodeEditor:
    """Collects changes of the objects of one file; `write` makes them changes of its source.

    `tasks` are those of pipelines, by the number of the document and their role.
    """

    def __init__(
        self,
        reader: ValueReader,
        documents: Sequence[YamlNode],
        tasks: Mapping[tuple[str | int, str | int], CodeTask],
    ) -> None:
        self._reader = reader
        self._documents = documents
        self._tasks = tasks
        # By identity of node, because two names may share it.
        self._added: dict[int, tuple[YamlNode, dict[str, Any]]] = {}
        self._appended: dict[int, _NewValue] = {}
        self._replaced: dict[int, _NewValue] = {}
        self._of_tasks: dict[int, tuple[CodeTask, list[tuple[tuple[str, ...], Any]]]] = {}
        self._changes: list[FieldChange] = []

    @property
    def empty(self) -> bool:
        return not self._changes

    @property
    def change_count(self) -> int:
        return len(self._changes)

    def set(self, path: KeyPath, value: Value) -> None:
        """Put a value at a path. An equal value in the code is not a change."""
        if self._change_task(path, value, is_item=False):
            return
        node, rest, parent = self._descend(path)
        field = str(path[len(path) - len(rest) - 1])
        if not rest:
            if has_value(node, value):
                return
            is_filled = isinstance(value, dict | list) and not is_null(node)
            if not isinstance(node, yaml.ScalarNode) or is_filled:
                raise Refused(f"`{_shown(path)}` already exists")
            origin = self._reader.origin(node)
            if origin is None or origin.names:
                source = origin.names[0] if origin else "elsewhere"
                raise Refused(f"`{_shown(path)}` comes from {source}")
            self._replace(node, parent, field, value)
        elif isinstance(node, yaml.MappingNode):
            if self._new_fields(node, rest).setdefault(str(rest[-1]), deepcopy(value)) != value:
                raise Refused(f"two changes want `{_shown(path)}`")
        elif is_null(node):
            filled: Any = value
            for step in reversed(rest):
                filled = {str(step): filled}
            self._replace(node, parent, field, filled)
        else:
            raise Refused(f"`{_shown(path)}` has no place")
        self._changes.append(FieldChange(path, deepcopy(value)))

    def append(self, path: KeyPath, item: Value) -> None:
        """Put an item at the end of the list at a path, unless an item is the same."""
        if self._change_task(path, item, is_item=True):
            return
        node, rest, parent = self._descend(path)
        origin = self._reader.origin(parent if not rest else node)
        if origin and isinstance(origin.expression, ast.Call):
            item = _complete(str(path[-1]), item)
        if not rest and isinstance(node, yaml.SequenceNode):
            if any(has_value(child, item) for child in node.value):
                return
            new = _NewValue(node, parent, str(path[-1]), [])
            items = self._appended.setdefault(id(node), new).value
        elif isinstance(node, yaml.MappingNode) and rest:
            items = self._new_fields(node, rest).setdefault(str(rest[-1]), [])
        else:
            self.set(path, [item])
            return
        if item not in items:
            items.append(deepcopy(item))
        self._changes.append(FieldChange(path, item, is_item=True))

    def expected(self) -> list[Any]:
        """The plain data of every object after the changes."""
        data = [plain_data(document) for document in self._documents]
        for path, value, is_item in self._changes:
            holder = data[int(path[0])]
            for step in path[1:-1]:
                if isinstance(holder, dict) and holder.get(step) is None:
                    holder[step] = {}
                holder = holder[step]
            if not is_item:
                holder[path[-1]] = _data(value)
            else:
                holder[path[-1]] = items = holder.get(path[-1]) or []
                if _data(value) not in items:
                    items.append(_data(value))
        return data

    # --- finding the place ------------------------------------------------------------------------

    def _change_task(self, path: KeyPath, value: Value, *, is_item: bool) -> bool:
        """Record a setting of a kfp task, which is a call of its own; False for any other path."""
        depth = 2 if path[1] == "tasks" else 1 + len(EXECUTORS)
        task = self._tasks.get((path[0], path[depth])) if len(path) > depth else None
        setting = tuple(str(step) for step in path[depth + 1 :])
        if task is None or any(isinstance(step, int) for step in path[depth + 1 :]):
            return False
        self._of_tasks.setdefault(id(task), (task, []))[1].append((setting, value))
        self._changes.append(FieldChange(path, value, is_item))
        return True

    def _new_fields(self, node: YamlNode, rest: KeyPath) -> dict[str, Any]:
        """The new fields of a mapping, down to the last step of the rest of a path."""
        fields = self._added.setdefault(id(node), (node, {}))[1]
        for step in rest[:-1]:
            fields = fields.setdefault(str(step), {})
        return fields

    def _descend(self, path: KeyPath) -> _Spot:
        node, parent = self._documents[int(path[0])], None
        for depth, step in enumerate(path[1:], start=1):
            below: YamlNode | None = None
            if isinstance(node, yaml.MappingNode):
                below = pairs(node).get(str(step), (None, None))[1]
            elif isinstance(node, yaml.SequenceNode) and isinstance(step, int):
                below = node.value[step] if step < len(node.value) else None
            if below is None:
                self._refuse_shared(node, path[:depth])
                return _Spot(node, path[depth:], parent)
            parent, node = node, below
        self._refuse_shared(node, path)
        return _Spot(node, (), parent)

    def _refuse_shared(self, node: YamlNode, path: KeyPath) -> None:
        if isinstance(node, OpaqueNode):
            raise Refused(f"`{_shown(path)}` {node.reason}")
        origin = self._reader.origin(node)
        for name in origin.names if origin is not None and not _SHARED.isdisjoint(path) else ():
            if self._reader.is_used_elsewhere(name):
                raise Refused(f"`{_shown(path)}` comes from {name}, which is used elsewhere too")

    def _replace(self, node: YamlNode, parent: YamlNode | None, field: str, value: Any) -> None:
        new = _NewValue(node, parent, field, value)
        if self._replaced.setdefault(id(node), new).value != value:
            raise Refused("two different values are asked for where a name makes them one")

    # --- writing ----------------------------------------------------------------------------------

    def write(self, changes: Changes, imports: NeededImports) -> None:
        """All changes of objects as changes of the source."""
        writer = _ValueWriter(self._reader, imports)
        for node, fields in self._added.values():
            origin = self._origin(node)
            holder = origin.expression
            for name, value in fields.items():
                if not isinstance(holder, ast.Call | ast.Dict):
                    raise Refused(f"`{name}` has no place in {type(holder).__name__}")
                key = snake_case(name) if isinstance(holder, ast.Call) else name
                text = writer.text(value, name, origin, origin, len(key) + 4)
                changes.set(origin.statement, holder, key, text)
        for node, parent, name, items in self._appended.values():
            origin = self._origin(node)
            display = origin.expression
            if not isinstance(display, ast.List):
                raise Refused(f"`{name}` is not a list here")
            is_data = display.elts[:1] and isinstance(display.elts[0], ast.Dict)
            form = None if is_data else self._reader.origin(parent)
            for item in items:
                text = writer.text(item, name, origin, form)
                changes.append_item(origin.statement, display, text)
        for node, parent, name, value in self._replaced.values():
            origin = self._origin(node)
            text = writer.text(value, name, origin, self._reader.origin(parent))
            changes.replace(origin.statement, origin.expression, text)
        tasks = TaskWriter(self._reader.code, changes, imports)
        for task, settings in self._of_tasks.values():
            tasks.write(task, settings)

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

    def text(
        self, value: Any, field: str, place: CodeOrigin, form: CodeOrigin | None, before: int = 0
    ) -> str:
        """A value for a field of the object `form`, `before` characters into a line."""
        source, indent = place.statement.source, _indent(place)
        expression = self._expression(value, field, form, source)
        return written(expression, source, indent, len(indent) + before)

    def _expression(
        self, value: Any, field: str, form: CodeOrigin | None, source: Source
    ) -> str | Bracketed:
        if isinstance(value, list):
            items = [("", self._expression(item, field, form, source)) for item in value]
            return Bracketed("[", items, "]")
        if not isinstance(value, dict):
            return quoted(value, source) if isinstance(value, str) else repr(value)
        name = None
        if form is not None and isinstance(form.expression, ast.Call):
            call = form.expression
            path = self._reader.import_path(call.func, form.statement) or last_name(call.func)
            name = field_class(field, path.rpartition(".")[2])
        if form is None or name is None:
            items = [
                (f"{quoted(key, source)}: ", self._expression(item, key, None, source))
                for key, item in value.items()
            ]
            return Bracketed("{", items, "}")
        items = [
            (f"{snake_case(key)}=", self._expression(item, key, form, source))
            for key, item in value.items()
        ]
        return Bracketed(f"{self._callee(call, name, form.statement)}(", items, ")")

    def _callee(self, call: ast.Call, name: str, statement: Statement) -> str:
        """A class of the SDK of a call, as that one is written; imported if it has to be."""
        if isinstance(call.func, ast.Attribute):
            return f"{ast.unparse(call.func.value)}.{name}"
        for module in statement.scope.stars:
            if module in PACKAGES or is_model_path(f"{module}.{name}"):
                return name
        return self._imports.local_name(
            statement,
            class_module(self._reader.import_path(call.func, statement) or ""),
            name,
            is_it=lambda other: is_model_path(other) and other.rpartition(".")[2] == name,
            is_near=lambda module: any(module == p or module.startswith(f"{p}.") for p in PACKAGES),
            is_taken=bool(find_bindings(name, statement, lambda _: False)),
        )


def _indent(holder: CodeOrigin) -> str:
    """The indent of new items: of the last item if it begins a line, else of the holder."""
    source, node = holder.statement.source, holder.expression
    parts: list[Any] = []
    match node:
        case ast.Call():
            parts = [*node.args, *node.keywords]
        case ast.Dict():
            parts = [key or value for key, value in zip(node.keys, node.values, strict=True)]
        case ast.List():
            parts = list(node.elts)
    start = max((source.start(part) for part in parts), default=source.start(node))
    is_first_in_line = not source.text[source.line_start(start) : start].strip()
    return source.indent(start if is_first_in_line else source.start(node))


def _complete(field: str, value: Any) -> Any:
    """What a model insists on, into everything below a new value."""
    if isinstance(value, dict):
        fields = {key: _complete(key, item) for key, item in value.items()}
        return fields | COMPLETED.get(field, {})
    return [_complete(field, item) for item in value] if isinstance(value, list) else value


def _data(value: Any) -> Any:
    """Plain data in the form of `plain_data`."""
    if isinstance(value, dict):
        return {key: _data(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_data(item) for item in value]
    is_plain = isinstance(value, str | bool) or value is None
    return value if is_plain else (INT, str(value))


def _shown(path: KeyPath) -> str:
    return ".".join(str(step) for step in path[1:])
