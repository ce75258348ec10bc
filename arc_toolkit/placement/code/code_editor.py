"""Changes of objects in Python code: collected as data, written as changes of the source.

A new value goes into the dictionary, the call of a model or the list in the code, in its form:
`V1PodSpec(containers=[c])` gets `tolerations=[V1Toleration(key=...)]`, and `{"containers": [c]}`
gets `"tolerations": [{"key": ...}]`. A setting of a kfp task is a statement after the one that
makes the task.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

import yaml

from arc_toolkit.edit.code.editor import Changes, quoted
from arc_toolkit.edit.code.imports import NeededImports
from arc_toolkit.edit.code.layout import Bracketed, written
from arc_toolkit.edit.code.names import Statement, find_bindings, last_name
from arc_toolkit.edit.code.nodes import CodeOrigin, OpaqueNode, ValueReader, plain_data
from arc_toolkit.edit.code.source import Source
from arc_toolkit.edit.files.edits import Refused
from arc_toolkit.edit.yaml.nodes import INT, KeyPath, YamlNode, get, is_null
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
from arc_toolkit.placement.pipelines import EXECUTORS
from arc_toolkit.placement.place_plan import FieldChange

# Below these a value may be shared by names, and then belongs to the other users of the name, too.
_SHARED = frozenset(("tolerations", "affinity", "nodeSelector"))


class _NewValue(NamedTuple):
    """New fields of a mapping, items at the end of a list, or the value in place of a scalar.

    `name` is the field of the node in the one above it, `parent`.
    """

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
        self._new: dict[int, _NewValue] = {}
        self._of_tasks: dict[int, tuple[CodeTask, list[FieldChange]]] = {}
        self._new_names: set[str] = set()
        self._changes: list[FieldChange] = []

    @property
    def empty(self) -> bool:
        return not self._changes

    @property
    def change_count(self) -> int:
        return len(self._changes)

    def set(self, path: KeyPath, value: Value) -> None:
        """Put a value at a path. An equal value in the code is not a change."""
        self._change(FieldChange(path, value))

    def append(self, path: KeyPath, item: Value) -> None:
        """Put an item at the end of the list at a path, unless an item is the same."""
        self._change(FieldChange(path, item, is_item=True))

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

    def _change(self, change: FieldChange) -> None:
        if self._change_task(change):
            return
        path, value, is_item = change
        depth, node, parent = self._descend(path)
        rest, name = path[depth:], str(path[depth - 1])
        origin = self._reader.origin(node if rest else parent)
        if is_item and origin is not None and isinstance(origin.expression, ast.Call):
            value = _complete(str(path[-1]), value)
        if isinstance(node, yaml.MappingNode) and rest:
            fields = self._new.setdefault(id(node), _NewValue(node, parent, name, {})).value
            for step in rest[:-1]:
                fields = fields.setdefault(str(step), {})
            if is_item:
                _add_item(fields.setdefault(str(rest[-1]), []), value)
            elif fields.setdefault(str(rest[-1]), deepcopy(value)) != value:
                raise Refused(f"two changes want `{_shown(path)}`")
        elif isinstance(node, yaml.SequenceNode) and is_item and not rest:
            if any(has_value(child, value) for child in node.value):
                return
            new = self._new.setdefault(id(node), _NewValue(node, parent, name, []))
            _add_item(new.value, value)
        elif not rest and not is_item and has_value(node, value):
            return
        else:
            self._replace(path, rest, _NewValue(node, parent, name, [value] if is_item else value))
        self._changes.append(FieldChange(path, deepcopy(value), is_item))

    def _change_task(self, change: FieldChange) -> bool:
        """Record a setting of a kfp task, which is a call of its own; False for any other path."""
        path = change.path
        depth = 2 if path[1] == "tasks" else 1 + len(EXECUTORS)
        task = self._tasks.get((path[0], path[depth])) if len(path) > depth else None
        setting = path[depth + 1 :]
        if task is None or any(isinstance(step, int) for step in setting):
            return False
        changes = self._of_tasks.setdefault(id(task), (task, []))[1]
        changes.append(FieldChange(setting, change.value))
        self._changes.append(change)
        return True

    def _descend(self, path: KeyPath) -> tuple[int, YamlNode, YamlNode | None]:
        """How many steps of a path exist in the code, the node there, and the node above it."""
        node, parent = self._documents[int(path[0])], None
        depth = 1
        while depth < len(path) and (below := get(node, path[depth])) is not None:
            parent, node = node, below
            depth += 1
        if isinstance(node, OpaqueNode):
            raise Refused(f"`{_shown(path[:depth])}` {node.reason}")
        origin = self._reader.origin(node)
        if origin is not None and not _SHARED.isdisjoint(path[:depth]):
            for name in origin.names:
                if self._reader.is_used_elsewhere(name):
                    shown = _shown(path[:depth])
                    raise Refused(f"`{shown}` comes from {name}, which is used elsewhere too")
        return depth, node, parent

    def _replace(self, path: KeyPath, rest: KeyPath, new: _NewValue) -> None:
        """Put a value in place of a scalar; only null becomes a list or a mapping."""
        node, value = new.node, new.value
        if rest and not is_null(node):
            raise Refused(f"`{_shown(path)}` has no place")
        is_filled = isinstance(value, dict | list) and not is_null(node)
        if not isinstance(node, yaml.ScalarNode) or is_filled:
            raise Refused(f"`{_shown(path)}` already exists")
        origin = self._reader.origin(node)
        if not rest and (origin is None or origin.names):
            raise Refused(
                f"`{_shown(path)}` comes from {origin.names[0] if origin else 'elsewhere'}"
            )
        for step in reversed(rest):
            value = {str(step): value}
        if self._new.setdefault(id(node), new._replace(value=value)).value != value:
            raise Refused("two different values are asked for where a name makes them one")

    # --- writing ----------------------------------------------------------------------------------

    def write(self, changes: Changes, imports: NeededImports) -> None:
        """All changes of objects as changes of the source."""
        writer = _ValueWriter(self._reader, imports)
        for node, parent, name, value in self._new.values():
            origin, form = self._reader.origin(node), self._reader.origin(parent)
            if origin is None:
                raise Refused("it has no place in the code")
            statement, expression = origin.statement, origin.expression
            if isinstance(node, yaml.MappingNode):
                for field, new in value.items():
                    if not isinstance(expression, ast.Call | ast.Dict):
                        raise Refused(f"`{field}` has no place in {type(expression).__name__}")
                    key = snake_case(field) if isinstance(expression, ast.Call) else field
                    text = writer.text(new, field, origin, origin, len(key) + 4)
                    changes.set(statement, expression, key, text)
            elif isinstance(node, yaml.SequenceNode):
                if not isinstance(expression, ast.List):
                    raise Refused(f"`{name}` is not a list here")
                is_data = expression.elts[:1] and isinstance(expression.elts[0], ast.Dict)
                for item in value:
                    text = writer.text(item, name, origin, None if is_data else form)
                    changes.append_item(statement, expression, text)
            else:
                changes.replace(statement, expression, writer.text(value, name, origin, form))
        for task, settings in self._of_tasks.values():
            self._write_task(task, settings, changes, imports)

    def _write_task(
        self,
        task: CodeTask,
        settings: Sequence[FieldChange],
        changes: Changes,
        imports: NeededImports,
    ) -> None:
        """Add a call for every setting of a task, which gets a name if it has none."""
        source, name = task.statement.source, task.name
        if name is None:
            name = self._new_name(f"{task.component}_task")
            changes.name_value(task.statement, name)
        # After existing settings: the order is that of a list to which something is added.
        sites = [task.statement, *(statement for _, statement in task.settings)]
        site = max(sites, key=lambda statement: statement.order)
        indent = source.indent(source.start(task.statement.stmt))
        for path, value, _ in settings:
            function, arguments = _task_call(path, value)
            items = [(f"{key}=", _literal(item, source)) for key, item in arguments.items()]
            if function == "set_retry":
                call = Bracketed(f"{name}.set_retry(", items, ")")
            else:
                module = _kfp_kubernetes(task.statement, imports)
                call = Bracketed(f"{module}.{function}(", [("", name), *items], ")")
            changes.insert_after(site, written(call, source, indent, len(indent)))

    def _new_name(self, stem: str) -> str:
        """A name that nothing in the module has."""
        code = self._reader.code
        names = self._new_names.union(*(scope.bindings for scope in code.scopes))
        for source in code.sources:
            parts = (part for stmt in source.body for part in ast.walk(stmt))
            names |= {part.id for part in parts if isinstance(part, ast.Name)}
        name, number = stem, 1
        while name in names:
            number += 1
            name = f"{stem}_{number}"
        self._new_names.add(name)
        return name


def _task_call(path: KeyPath, value: Any) -> tuple[str, dict[str, Any]]:
    """The function for a setting of a task, and its arguments after the task.

    ("tolerations",) has a row as its value, ("nodeSelector", "labels", key) a text,
    ("nodeAffinity",) a term, and ("retryPolicy", "maxRetryCount") a number.
    """
    match path:
        case ("retryPolicy", _):
            return "set_retry", {"num_retries": value}
        case ("nodeSelector", _, key):
            return "add_node_selector", {"label_key": key, "label_value": value}
    function = "add_toleration" if path == ("tolerations",) else "add_node_affinity"
    return function, {snake_case(key): item for key, item in value.items()}


def _kfp_kubernetes(statement: Statement, imports: NeededImports) -> str:
    """The local name of `kfp.kubernetes`."""
    return imports.local_name(
        statement,
        "kfp",
        "kubernetes",
        is_it=lambda path: path == "kfp.kubernetes",
        is_near=lambda module: module == "kfp" or module.startswith("kfp."),
        is_taken=bool(find_bindings("kubernetes", statement, lambda _: False)),
    )


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
        call = form.expression if form is not None else None
        if form is None or not isinstance(call, ast.Call):
            return _literal(value, source)
        if isinstance(value, list):
            items = [("", self._expression(item, field, form, source)) for item in value]
            return Bracketed("[", items, "]")
        path = self._reader.import_path(call.func, form.statement) or last_name(call.func)
        name = field_class(field, path.rpartition(".")[2])
        if name is None or not isinstance(value, dict):
            return _literal(value, source)
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


def _literal(value: Any, source: Source) -> str | Bracketed:
    """Plain data as a display of Python."""
    if isinstance(value, list):
        return Bracketed("[", [("", _literal(item, source)) for item in value], "]")
    if isinstance(value, dict):
        items = [(f"{quoted(key, source)}: ", _literal(value[key], source)) for key in value]
        return Bracketed("{", items, "}")
    return quoted(value, source) if isinstance(value, str) else repr(value)


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


def _add_item(items: list[Any], item: Any) -> None:
    if item not in items:
        items.append(deepcopy(item))


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
