"""Values that code of SDK v1 gives to its configurations, read without running it.

A value is plain where the code says it: literals, names that are bound to one, sums and f-strings of them, the default
of a PipelineParameter, and the names of environments, computes, datasets and outputs in the calls that make them.
A name with several bindings has a value if all of them agree (`try: X = ComputeTarget(ws, n)`, `except: X =
ComputeTarget.create(ws, n, ...)`). Everything else is `NotPlain`, with the reason.

Signatures: azureml-core 1.61, azureml-pipeline-core and azureml-train-core 1.62.
"""

from __future__ import annotations

import ast
import operator
import os.path
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from arc_toolkit.azureml.python.resolve import SdkResolver
from arc_toolkit.edit.code.expressions import last_name, short
from arc_toolkit.edit.code.names import Binding, Scope, Statement, Use

DEEPEST = 15
# A longer range is not written out.
_MOST_VALUES = 10_000


class NotPlain(Exception):
    """A value that the code does not say here; `reason` is a part of a sentence."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class PipelineParameter:
    """A PipelineParameter of v1: callers of the pipeline may change it."""

    name: str
    default: Any


@dataclass(frozen=True)
class Unsaid:
    """A value among others that the code does not say here, with its text."""

    text: str


@dataclass(frozen=True)
class Arguments:
    """The arguments of a call by their names, each with the statement to read it from."""

    values: dict[str, tuple[ast.expr, Statement]]
    # `**something`, which may hold any other argument.
    rest: str = ""


def arguments(call: ast.Call, order: tuple[str, ...], statement: Statement) -> Arguments:
    """The arguments of a call, positional ones by the order of the signature."""
    values = {name: (node, statement) for name, node in zip(order, call.args, strict=False)}
    rest = [short(node) for node in call.args if isinstance(node, ast.Starred)]
    for keyword in call.keywords:
        if keyword.arg is None:
            rest.append(f"**{short(keyword.value)}")
        else:
            values[keyword.arg] = keyword.value, statement
    return Arguments(
        {} if any(text.startswith("*") and text[1] != "*" for text in rest) else values,
        ", ".join(rest),
    )


_OPERATIONS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}
_CONVERSIONS: dict[str, Callable[..., Any]] = {
    "str": str,
    "int": int,
    "float": float,
    "list": list,
    "tuple": tuple,
}
# Methods of a list or dict that leave it as it is.
_READS = frozenset({"index", "count", "copy", "keys", "values", "items", "get"})


class V1Values:
    """Reads values in one module."""

    def __init__(self, resolver: SdkResolver) -> None:
        self._resolver = resolver
        # What the reader of the result has to know about values that were taken.
        self.remarks: list[str] = []

    # --- names -----------------------------------------------------------------------------------------------------

    def follow(self, node: ast.expr, statement: Statement) -> tuple[ast.expr, Statement]:
        """The expression that a name is bound to; the node itself if it is not a name, or if that is not certain."""
        for _ in range(DEEPEST):
            bound = self._resolver.bound(node.id, statement) if isinstance(node, ast.Name) else None
            if bound is None:
                break
            node, statement = bound
        return node, statement

    def binding(self, node: ast.expr, statement: Statement) -> Binding | None:
        """The binding that made the object of a name."""
        binding = self._resolver.binding(node.id, statement) if isinstance(node, ast.Name) else None
        return (
            binding
            if isinstance(binding, Binding) and isinstance(binding.value, ast.expr)
            else None
        )

    def uses(self, binding: Binding, before: Statement | None) -> Iterator[Use]:
        """What happens to a bound object before a statement: settings, calls, and functions that it is passed to."""
        start = binding.statement.order
        here = before is not None and before.scope is binding.statement.scope
        end = before.order if before is not None and here else float("inf")
        for use in binding.statement.scope.uses.get(binding.name, ()):
            if start < use.statement.order < end:
                yield use

    def is_changed(self, node: ast.Name, statement: Statement) -> bool:
        """Whether a list or mapping may have changed since its name was bound."""
        binding = self.binding(node, statement)
        changes = self.uses(binding, statement) if binding is not None else ()
        return any(use.how != "argument" and use.path[-1] not in _READS for use in changes)

    def bindings(self, name: str, statement: Statement) -> list[Binding]:
        binding = self._resolver.binding(name, statement)
        if isinstance(binding, Binding):
            return [binding]
        scope: Scope | None = statement.scope
        while scope is not None:  # chosen at run time: each may be the one
            if bindings := scope.bindings.get(name):
                inside = scope is statement.scope
                return [
                    item
                    for item in bindings
                    if not inside or item.statement.order < statement.order
                ]
            scope = scope.parent
        return []

    def _agreed(
        self, node: ast.Name, statement: Statement, read: Callable[[ast.expr, Statement], Any]
    ) -> Any:
        """The value of a name, if all its bindings give the same."""
        bindings = self.bindings(node.id, statement)
        values = []
        for item in bindings:
            if not isinstance(item.value, ast.expr):
                raise NotPlain(f"{node.id} is {item.why or 'made elsewhere'}")
            values.append(read(item.value, item.statement))
        if not values:
            raise NotPlain(f"{node.id} is not set here")
        if any(value != values[0] for value in values[1:]):
            raise NotPlain(f"{node.id} is chosen at run time")
        return values[0]

    # --- plain values ----------------------------------------------------------------------------------------------

    def plain(self, node: ast.expr, statement: Statement, depth: int = 0) -> Any:
        """A number, text, list or mapping; a PipelineParameter is its `PipelineParameter`."""

        def inner(part: ast.expr, where: Statement = statement) -> Any:
            value = self.plain(part, where, depth + 1)
            return value.default if isinstance(value, PipelineParameter) else value

        if depth > DEEPEST:
            raise NotPlain("it is defined in a circle")
        match node:
            case ast.Constant(value=value) if value is not ...:
                return value
            case ast.Name():
                value = self._agreed(
                    node, statement, lambda part, where: self.plain(part, where, depth + 1)
                )
                return self._changed(node, statement, value, inner)
            case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
                values: list[Any] = []
                for item in items:
                    values += inner(item.value) if isinstance(item, ast.Starred) else [inner(item)]
                return tuple(values) if isinstance(node, ast.Tuple) else values
            case ast.Dict(keys=keys, values=items) if None not in keys:
                return {
                    inner(key): inner(item)
                    for key, item in zip(keys, items, strict=True)
                    if key is not None
                }
            case ast.UnaryOp(op=ast.USub(), operand=operand) if isinstance(
                value := inner(operand), int | float
            ):
                return -value
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
                return _calculated(node, _OPERATIONS[type(op)], inner(left), inner(right))
            case ast.JoinedStr(values=parts):
                return "".join(self._formatted(part, inner) for part in parts)
            case ast.Call():
                return self._call(node, statement, inner)
            case ast.Attribute(attr="name", value=base):
                return self.named(base, statement, depth + 1)
        raise NotPlain(f"it is {short(node)}")

    def _call(self, node: ast.Call, statement: Statement, inner: Callable[[ast.expr], Any]) -> Any:
        name = last_name(node.func)
        if name == "PipelineParameter":
            given = arguments(node, ("name", "default_value"), statement).values
            if {"name", "default_value"} <= set(given):
                return PipelineParameter(
                    str(inner(given["name"][0])), inner(given["default_value"][0])
                )
        elif node.keywords:
            pass
        elif name == "range" and isinstance(node.func, ast.Name):
            numbers = _calculated(node, range, *map(inner, node.args))
            if len(numbers) <= _MOST_VALUES:
                return list(numbers)
        elif name in _CONVERSIONS and isinstance(node.func, ast.Name) and len(node.args) == 1:
            return _calculated(node, _CONVERSIONS[name], inner(node.args[0]))
        elif (
            name in ("get", "getenv")
            and len(node.args) == 2
            and self._is_environ(node.func, statement)
        ):
            variable, value = map(inner, node.args)
            self.remarks.append(f"{value!r} is the default of the environment variable {variable}")
            return value
        elif name == "join" and self._resolver.path(node.func, statement) == "os.path.join":
            return _calculated(node, os.path.join, *map(inner, node.args))
        elif name == "format" and isinstance(node.func, ast.Attribute):
            return _calculated(node, str.format, inner(node.func.value), *map(inner, node.args))
        raise NotPlain(f"it is {short(node)}")

    def _is_environ(self, function: ast.expr, statement: Statement) -> bool:
        return self._resolver.path(function, statement) in ("os.environ.get", "os.getenv")

    def _formatted(self, part: ast.expr, inner: Callable[[ast.expr], Any]) -> str:
        if isinstance(part, ast.FormattedValue):
            if part.format_spec is not None or part.conversion not in (-1, 115):
                raise NotPlain(f"it is formatted: {short(part.value)}")
            part = part.value
        return str(inner(part))

    def _changed(
        self,
        node: ast.Name,
        statement: Statement,
        value: Any,
        inner: Callable[[ast.expr, Statement], Any],
    ) -> Any:
        """A list or mapping with what is added to it before a statement."""
        binding = self.binding(node, statement)
        if binding is None or not isinstance(value, list | dict):
            return value
        value = value.copy()
        for use in self.uses(binding, statement):
            match use.path, use.value, value:
                case (name,), _, _ if use.how == "argument" or name in _READS:
                    continue
                case ("append",), ast.Call(args=[item], keywords=[]), list():
                    value.append(inner(item, use.statement))
                case ("extend",), ast.Call(args=[item], keywords=[]), list():
                    value.extend(inner(item, use.statement))
                case ("update",), ast.Call(args=[item], keywords=[]), dict():
                    value.update(inner(item, use.statement))
                case (key,), item, dict() if use.how == "assign" and key.startswith("["):
                    value[key[1:-1]] = inner(item, use.statement)
                case _:
                    raise NotPlain(f"{node.id} is changed in line {use.statement.stmt.lineno}")
            if not use.statement.is_certain_before(statement):
                raise NotPlain(
                    f"{node.id} is changed under a condition in line {use.statement.stmt.lineno}"
                )
        return value

    # --- things of a workspace -------------------------------------------------------------------------------------

    def named(self, node: ast.expr, statement: Statement, depth: int = 0) -> str:
        """The name of a compute, output or other thing that is made by a call with its name."""
        if depth > DEEPEST:
            raise NotPlain("it is defined in a circle")
        match node:
            case ast.Constant(value=str(value)):
                return value
            case ast.Name():
                text = self._agreed(
                    node, statement, lambda part, where: self.named(part, where, depth + 1)
                )
                return str(text)
            case ast.Subscript(value=ast.Attribute(), slice=key):  # ws.compute_targets[name]
                return str(self.plain(key, statement, depth + 1))
            case ast.Attribute(attr="name", value=base):
                return self.named(base, statement, depth + 1)
            case ast.Call(func=function):
                given = {keyword.arg: keyword.value for keyword in node.keywords}
                if "name" in given:
                    return str(self.plain(given["name"], statement, depth + 1))
                texts = node.args[:1] if is_lookup(function) else node.args[:2]
                for item in reversed(texts):  # ComputeTarget(ws, name), PipelineData(name)
                    try:
                        value = self.plain(item, statement, depth + 1)
                    except NotPlain:
                        continue
                    if isinstance(value, str):
                        return value
        raise NotPlain(f"it is {short(node)}")

    def environment(self, node: ast.expr, statement: Statement) -> str:
        """`name:version`, or `name@label`, of an environment."""
        made, where = self.follow(node, statement)
        name, version, label = "", "", "latest"
        if (
            isinstance(made, ast.Call)
            and last_name(made.func) == "get"
            and not is_lookup(made.func)
        ):
            given = arguments(made, ("workspace", "name", "version", "label"), where).values
            name = self.text(given, "name")
            version, label = self.text(given, "version"), self.text(given, "label") or label
        elif isinstance(made, ast.Call) and last_name(made.func) == "clone" and made.args:
            name = str(self.plain(made.args[0], where))
        elif isinstance(made, ast.Call) and not is_lookup(
            made.func
        ):  # Environment(name), Environment.from_...(name)
            given = arguments(made, ("name",), where).values
            if not self._is_sdk(made.func, where):
                raise NotPlain(f"it is {short(node)}")
            name = self.text(given, "name")
        else:
            name = self.named(node, statement)
        binding = self.binding(node, statement)
        for use in self.uses(binding, statement) if binding is not None else ():
            if use.how == "assign" and use.path == ("version",):
                version = str(self.plain(use.value, use.statement))
        if not name:
            raise NotPlain(f"it is {short(node)}")
        return f"{name}:{version}" if version and version.lower() != "latest" else f"{name}@{label}"

    def variables(self, node: ast.expr, statement: Statement) -> dict[str, str]:
        """The environment variables that are set on an environment after it is made."""
        binding = self.binding(node, statement)
        variables: dict[str, str] = {}
        for use in self.uses(binding, statement) if binding is not None else ():
            if use.how == "assign" and use.path[:1] == ("environment_variables",):
                value = self.plain(use.value, use.statement)
                variables |= value if len(use.path) == 1 else {use.path[1][1:-1]: value}
        return {str(name): str(value) for name, value in variables.items()}

    def _is_sdk(self, function: ast.expr, statement: Statement) -> bool:
        return (self._resolver.path(function, statement) or "").startswith("azureml.")

    def text(self, given: Mapping[str, tuple[ast.expr, Statement]], name: str) -> str:
        value = self.plain(*given[name]) if name in given else None
        return "" if value is None else str(value)


def is_lookup(function: ast.expr) -> bool:
    """`ws.environments.get`, `ws.compute_targets.get`: the name comes first."""
    return (
        isinstance(function, ast.Attribute)
        and isinstance(function.value, ast.Attribute)
        and function.attr == "get"
    )


def _calculated(node: ast.expr, function: Callable[..., Any], *values: Any) -> Any:
    try:
        return function(*values)
    except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError):
        raise NotPlain(f"it is {short(node)}") from None
