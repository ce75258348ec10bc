"""Python code as the nodes that YAML is read into, for rules and editors that need not know the
language.

`ValueReader` reads displays, calls of known classes and values into nodes, also through names that
are bound once; anything else is an `OpaqueNode` with the reason. `tree` makes one mapping of values
by their paths. Every node that was read from code knows its place, and those of values the
expression that they come from.

    job = {"spec": {"replicas": COUNT}}     mappings, and the scalar 3 whose origin is `COUNT = 3`
    job = {"spec": make_spec()}             a mapping with an OpaqueNode: "comes from make_spec(), ..."
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from arc_toolkit.edit.code.names import (
    CodeScopes,
    Statement,
    find_bindings,
    short,
    unparsed,
)
from arc_toolkit.edit.code.source import Source
from arc_toolkit.edit.code.values import MAX_DEPTH, Evaluator, OpaqueValue
from arc_toolkit.edit.yaml.nodes import (
    BOOL,
    FLOAT,
    INT,
    MAP,
    NULL,
    SEQ,
    STR,
    YamlNode,
    items_of,
    pairs,
)

# Methods that change a list or a dictionary.
_CHANGING_METHODS = frozenset(
    ("append", "extend", "insert", "update", "setdefault", "pop", "clear", "remove", "popitem")
)
# The fields of a call of a known class, by the names that they have in a manifest; None for any
# other call.
ReadCall = Callable[[ast.Call, Statement], "list[tuple[str, ast.expr]] | None"]


class CodeMark(yaml.Mark):
    """A place in code: line and column of the file, and the line of its source, which may be a
    notebook cell.
    """

    def __init__(self, source: Source, node: ast.expr | ast.stmt | ast.keyword) -> None:
        line = source.file_line(node.lineno) - 1
        super().__init__("", 0, line, source.column(node) - 1, None, 0)
        self.source = source
        self.source_line = node.lineno


@dataclass(eq=False, slots=True)
class CodeOrigin:
    """The expression that a node was read from, its statement, and the names on the way to it."""

    statement: Statement
    expression: ast.expr
    names: list[str] = field(default_factory=list)


class OpaqueNode(yaml.Node):
    """An expression whose value is not known before it runs. Its tag is none of YAML, and its value
    is its text.
    """

    id = "opaque"

    def __init__(self, text: str, reason: str, start: yaml.Mark, end: yaml.Mark) -> None:
        super().__init__("opaque", text, start, end)
        self.reason = reason


def place_node(source: Source, node: ast.expr | ast.stmt | ast.keyword) -> YamlNode:
    """A node for a finding about any part of the code."""
    mark = CodeMark(source, node)
    return yaml.ScalarNode(STR, "", mark, mark)


def scalar(value: str | float | None, mark: yaml.Mark) -> yaml.ScalarNode:
    """The node that YAML would have for a value."""
    tag, text = STR, str(value)
    if value is None:
        tag, text = NULL, "null"
    elif isinstance(value, bool):
        tag, text = BOOL, text.lower()
    elif not isinstance(value, str):
        tag = INT if isinstance(value, int) else FLOAT
    return yaml.ScalarNode(tag, text, mark, mark)


def tree(fields: Mapping[tuple[str, ...], YamlNode], at: YamlNode) -> yaml.MappingNode:
    """Values by their paths as one mapping: {("resources", "instance_type"): x} is `resources:
    {instance_type: x}`.
    """
    root = yaml.MappingNode(MAP, [], at.start_mark, at.start_mark)
    inner: dict[tuple[str, ...], yaml.MappingNode] = {(): root}
    for path, value in fields.items():
        for length in range(1, len(path)):
            if path[:length] in fields or path[:length] in inner:
                continue
            inner[path[:length]] = yaml.MappingNode(MAP, [], value.start_mark, value.start_mark)
            _append(inner[path[: length - 1]], path[length - 1], inner[path[:length]], value)
        if path[:-1] in inner:
            _append(inner[path[:-1]], path[-1], value, value)
    return root


def _append(mapping: yaml.MappingNode, key: str, value: YamlNode, at: YamlNode) -> None:
    mapping.value.append((yaml.ScalarNode(STR, key, at.start_mark, at.start_mark), value))


class ValueReader(Evaluator):
    """Reads the nodes of one module.

    `matters` says of the parts of a place, such as ("job", "spec", "template"), whether a change
    there matters.
    """

    def __init__(
        self,
        code: CodeScopes,
        read_call: ReadCall,
        is_known: Callable[[str], bool],
        matters: Callable[[Sequence[str]], bool],
    ) -> None:
        super().__init__(code, is_known=is_known)
        self._read_call = read_call
        self._matters = matters
        self._nodes: dict[int, YamlNode] = {}
        self._origins: dict[int, tuple[YamlNode, CodeOrigin]] = {}
        self._passed: set[int] = set()
        self._changes: list[tuple[tuple[str, ...], Statement]] | None = None

    def origin(self, node: YamlNode | None) -> CodeOrigin | None:
        """Where a node comes from; None for one that was made up."""
        pair = self._origins.get(id(node))
        return pair[1] if pair is not None else None

    def is_used_elsewhere(self, name: str) -> bool:
        """Whether a name that was passed is also used where nothing was read."""
        loads = Counter(
            id(part) in self._passed
            for source in self.code.sources
            for stmt in source.body
            for part in ast.walk(stmt)
            if isinstance(part, ast.Name) and part.id == name and isinstance(part.ctx, ast.Load)
        )
        return loads[False] > 0

    def mark(self, expression: ast.expr, statement: Statement) -> yaml.Mark:
        return CodeMark(statement.source, expression)

    def read(self, expression: ast.expr, statement: Statement, depth: int = 0) -> YamlNode:
        """The node of an expression at a statement."""
        if id(expression) not in self._nodes:
            self._nodes[id(expression)] = node = self._read(expression, statement, depth)
            self._origins.setdefault(id(node), (node, CodeOrigin(statement, expression)))
        return self._nodes[id(expression)]

    def change_of(self, parts: Sequence[str], statement: Statement) -> int:
        """The line where something in a place of this name is changed later; 0 if nothing is."""
        if self._changes is None:
            self._changes = list(self._find_changes())
        scope = self._scope_of(parts[0], statement)
        for changed, other in self._changes:
            is_below = len(changed) > len(parts) and changed[: len(parts)] == tuple(parts)
            if (
                is_below
                and self._matters(changed[len(parts) :])
                and (parts[0] == "self" or self._scope_of(parts[0], other) is scope)
            ):
                return other.source.file_line(other.stmt.lineno)
        return 0

    def _scope_of(self, name: str, statement: Statement) -> object:
        bindings = find_bindings(name, statement, self.is_known)
        return bindings[-1].statement.scope if bindings else None

    def _find_changes(self) -> Iterator[tuple[tuple[str, ...], Statement]]:
        for scope in self.code.scopes:
            for name, uses in scope.uses.items():
                for use in uses:
                    is_method = use.how == "call" and use.path[-1] in _CHANGING_METHODS
                    if is_method or use.how == "assign":
                        yield (
                            (name, *(part.strip("[]") or "[]" for part in use.path)),
                            use.statement,
                        )

    def _read(self, expression: ast.expr, statement: Statement, depth: int) -> YamlNode:
        start = self.mark(expression, statement)
        if depth > MAX_DEPTH:
            return self._opaque(expression, statement, "is nested too deeply, or in a circle")
        match expression:
            case ast.List(elts=items) if not any(isinstance(item, ast.Starred) for item in items):
                nodes = [self.read(item, statement, depth + 1) for item in items]
                return yaml.SequenceNode(SEQ, nodes, start, start)
            case ast.Dict(keys=keys, values=values):
                fields = []
                for key, item in zip(keys, values, strict=True):
                    if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
                        return self._opaque(
                            expression, statement, "has keys that are not plain text"
                        )
                    fields.append((key.value, item))
                return self._mapping(fields, statement, start, depth)
            case ast.Call() if (
                fields_of_call := self._read_call(expression, statement)
            ) is not None:
                return self._mapping(fields_of_call, statement, start, depth)
            case ast.Name():
                return self._read_name(expression, statement, depth)
        return self._read_value(expression, statement, start)

    def _read_value(self, expression: ast.expr, statement: Statement, start: yaml.Mark) -> YamlNode:
        try:
            value = self.value(expression, statement)
        except OpaqueValue:
            value = ...
        if isinstance(value, str | int | float | None):
            return scalar(value, start)
        reason = f"comes from {short(expression)}, which is not a plain value"
        return self._opaque(expression, statement, reason)

    def _read_name(self, expression: ast.Name, statement: Statement, depth: int) -> YamlNode:
        name = expression.id
        binding = self.certain(name, statement)
        if binding is None or not isinstance(binding.value, ast.expr):
            why = f", which is {binding.why}" if binding is not None and binding.why else ""
            return self._opaque(expression, statement, f"comes from {name}{why}")
        if line := self.change_of((name,), binding.statement):
            return self._opaque(
                expression, statement, f"comes from {name}, which is changed in line {line}"
            )
        node = self.read(binding.value, binding.statement, depth + 1)
        self._passed.add(id(expression))
        origin = self.origin(node)
        if origin is not None and name not in origin.names:
            origin.names.append(name)
        return node

    def _mapping(
        self,
        fields: Sequence[tuple[str, ast.expr]],
        statement: Statement,
        start: yaml.Mark,
        depth: int,
    ) -> YamlNode:
        value = [
            (yaml.ScalarNode(STR, key, start, start), self.read(expression, statement, depth + 1))
            for key, expression in fields
        ]
        return yaml.MappingNode(MAP, value, start, start)

    def _opaque(self, expression: ast.expr, statement: Statement, reason: str) -> OpaqueNode:
        start = self.mark(expression, statement)
        return OpaqueNode(unparsed(expression), reason, start, start)


def plain_data(node: YamlNode) -> Any:
    """The value of a node as plain data; an opaque one is the pair of a mark and its text."""
    if isinstance(node, yaml.MappingNode):
        return {key: plain_data(value) for key, (_, value) in pairs(node).items()}
    if isinstance(node, yaml.SequenceNode):
        return [plain_data(item) for item in items_of(node)]
    if isinstance(node, OpaqueNode) or node.tag == STR:
        return (node.tag, node.value) if isinstance(node, OpaqueNode) else str(node.value)
    return {"null": None, "true": True, "false": False}.get(node.value, (node.tag, node.value))
