"""The value of a Python expression, without running it: the only evaluator of code in this package.

An `Evaluator` answers for one module. `value` returns plain Python data (text, numbers, None,
lists, tuples, dictionaries, `PurePath`) or raises `OpaqueValue` with the reason: equal to what
Python computes, or opaque.

    HERE = os.path.dirname(__file__)
    NAMES = ["train", "score"]
    NAMES.append("%s-%d" % ("eval", 2))
    load(source=os.path.join(HERE, "jobs", f"{NAMES[0]}.yml"))

    values.value(<the source argument>, statement)   "/repo/jobs/train.yml", if this is /repo/run.py
    values.value(<NAMES>, statement)                 ["train", "score", "eval-2"]
    values.value(<input()>, statement)               OpaqueValue("it is input()")

Names: a name has a value if all the bindings that may hold at the statement agree. Lists and
dictionaries have what `append`, `extend`, `update` and `name["key"] = value` add before the
statement; any other change makes them opaque. `self.name` and `Class.name` are followed if the
class sets them once. The working directory is `.`, and a path that is made absolute stays relative
to it, because only the file that it leads to matters.

Limits: files are other people's, so each operation is checked before it is computed. Depth and
steps are counted; text above 100 kB, sequences above 10,000 items, and numbers above 10**18 are
opaque, and so is everything once a module has made values of 10 million characters and items.

    "%1500000000s.yml" % "a"    "a" * 3000000000    "{:>999999999}".format(1)
    range(10**12)    10**10**10    ",".join(["a" * 90000] * 9000)

are all opaque, and none of them is computed.

A package adds what it knows by overriding `bindings`, `imported`, `call`, `attribute` and
`operand`. A call of a class that a package knows is not a value: `follow` leads from a name to the
call, and `call_arguments` reads its arguments.

`edit/code/nodes.py` shows the same code as the nodes that YAML is read into, for those who edit it.
"""

from __future__ import annotations

import ast
import copy
import operator
import os.path
import re
import string
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath
from typing import Any, NoReturn, Self

from arc_toolkit.edit.code.names import (
    Binding,
    CodeScopes,
    Scope,
    Statement,
    Use,
    certain_binding,
    chain,
    find_bindings,
    short,
)

MAX_DEPTH = 40
# Expressions that are looked at for one value.
MAX_STEPS = 10_000
MAX_TEXT = 100_000
MAX_ITEMS = 10_000
MAX_NUMBER = 10**18
# Characters and items of one value, and of all values of a module.
MAX_WEIGHT = 1_000_000
MAX_MADE = 10_000_000
_TOO_LONG = "it is longer than 100 kB"
_TOO_MANY = f"it has more than {MAX_ITEMS:,} items"

# An expression and the statement that it is read at.
Bound = tuple[ast.expr, Statement]


class OpaqueValue(Exception):
    """A value that only running the code would tell."""

    def __init__(self, cause: str | ast.expr) -> None:
        super().__init__(cause)
        self._cause = cause

    @property
    def reason(self) -> str:
        """Why, as a part of a sentence. Few ask, so an expression becomes text only here."""
        return self._cause if isinstance(self._cause, str) else f"it is {short(self._cause)}"


class Effort:
    """What the evaluation of a module, and of those that it imports, has cost so far."""

    depth = 0
    # How many bound values the current expression is inside of.
    bound_values = 0
    steps = 0
    made = 0

    def make(self, value: Any) -> Any:
        """The value, if it is within the limits."""
        if isinstance(value, str) and len(value) > MAX_TEXT:
            raise OpaqueValue(_TOO_LONG)
        if isinstance(value, list | tuple | dict) and len(value) > MAX_ITEMS:
            raise OpaqueValue(_TOO_MANY)
        if isinstance(value, int) and abs(value) > MAX_NUMBER:
            raise OpaqueValue("it is a very large number")
        size = len(value) if isinstance(value, str) else weight(value)
        self.made += size
        if size > MAX_WEIGHT or self.made > MAX_MADE:
            raise OpaqueValue("it is too large to be computed here")
        return value


class Evaluator:
    """Values and names of one module.

    `file` is what `__file__` is. `is_known` says of a dotted path whether `from module import *`
    brings it.
    """

    def __init__(
        self,
        code: CodeScopes,
        file: str = "",
        is_known: Callable[[str], bool] = lambda path: False,
        effort: Effort | None = None,
    ) -> None:
        self.code = code
        self.file = file
        self.is_known = is_known
        self.effort = effort or Effort()
        self.placeholder: str | None = None
        self._arguments: Mapping[tuple[int, str], Bound] = {}

    # --- what a package adds ---

    def bindings(self, name: str, statement: Statement) -> list[Binding]:
        """The binding of a name that holds at a statement, or all that may hold where that is not
        certain.
        """
        bindings = find_bindings(name, statement, self.is_known)
        certain = certain_binding(bindings, statement)
        return bindings if certain is None else [certain]

    def imported(self, path: str) -> Any:
        """The value of `package.module.NAME`, which this module imports."""
        raise OpaqueValue(f"it is imported: {path}")

    def call(self, node: ast.Call, statement: Statement) -> Any:
        """The value of a call that is not one of the functions below."""
        raise OpaqueValue(node)

    def attribute(self, node: ast.Attribute, statement: Statement) -> Any:
        """The value of an attribute of an object that only the package knows."""
        raise OpaqueValue(node)

    def operand(self, value: Any) -> Any:
        """What a value is as a part of another one."""
        return value

    # --- names ---

    @cached_property
    def scopes(self) -> dict[int, Scope]:
        """Functions and classes by the ids of their nodes."""
        return {id(scope.node): scope for scope in self.code.scopes if scope.node is not None}

    def certain(self, name: str, statement: Statement) -> Binding | None:
        """The binding of a name, if there is only one that may hold."""
        bindings = self.bindings(name, statement)
        return bindings[0] if len(bindings) == 1 else None

    def bound_expression(self, node: ast.expr, statement: Statement) -> Bound | None:
        """The expression that a name, `self.name` or `Class.name` is certainly bound to."""
        if isinstance(node, ast.Name):
            if (id(statement.scope), node.id) in self._arguments:
                return self._arguments[id(statement.scope), node.id]
            binding = self.certain(node.id, statement)
            if binding is not None and isinstance(binding.value, ast.expr):
                return binding.value, binding.statement
        elif isinstance(node, ast.Attribute):
            return self.class_attribute(node, statement)
        return None

    def follow(self, node: ast.expr, statement: Statement) -> Bound:
        """The expression at the end of a chain of names: `JOB = spec; spec = Job(...)` leads from
        JOB to the call.
        """
        for _ in range(MAX_DEPTH):
            bound = self.bound_expression(node, statement) if isinstance(node, ast.Name) else None
            if bound is None:
                break
            node, statement = bound
        return node, statement

    def class_of(self, node: ast.expr, statement: Statement) -> Scope | None:
        """The class that `self`, or the name of the class, is about."""
        binding = self.certain(node.id, statement) if isinstance(node, ast.Name) else None
        if binding is None or binding.value is not None:
            return None
        stmt = binding.statement.stmt
        is_class = isinstance(stmt, ast.ClassDef)
        owner = self.scopes.get(id(stmt)) if is_class else binding.statement.scope
        return owner if owner is not None and isinstance(owner.node, ast.ClassDef) else None

    def class_attribute(self, node: ast.Attribute, statement: Statement) -> Bound | None:
        """What a class sets `self.name` or `Class.name` to, if it does so once."""
        owner = self.class_of(node.value, statement)
        if owner is None:
            return None
        values = [
            (item.value, item.statement)
            for item in owner.bindings.get(node.attr, ())
            if isinstance(item.value, ast.expr)
        ]
        for method in self.code.scopes:
            if method.statement is not None and method.statement.scope is owner:
                values += [
                    (use.value, use.statement)
                    for use in method.uses.get("self", ())
                    if use.how == "assign" and use.path == (node.attr,)
                ]
        return values[0] if len(values) == 1 else None

    def import_path(self, node: ast.expr, statement: Statement) -> str | None:
        """`azure.ai.ml.dsl.pipeline` for `aml.dsl.pipeline`, if its first name is an import."""
        parts = chain(node)
        if parts is None or any(part.startswith("[") for part in parts[1]):
            return None
        paths = [binding.value for binding in self.bindings(parts[0], statement)]
        if len(paths) != 1 or not isinstance(paths[0], str):
            return None
        return ".".join((paths[0], *parts[1]))

    def _public_path(self, node: ast.expr, statement: Statement) -> str:
        """The path of a function or constant: `os.path.join`, or `str` if nothing here binds that
        name.
        """
        parts = chain(node)
        if parts is not None and not self.bindings(parts[0], statement):
            return ".".join((parts[0], *parts[1]))
        return self.import_path(node, statement) or ""

    def uses(self, binding: Binding, until: Statement | None) -> Iterator[Use]:
        """What is said about a bound object before a statement; in another scope, all of it."""
        scope = binding.statement.scope
        is_here = until is not None and until.scope is scope
        end = until.order if until is not None and is_here else float("inf")
        for use in scope.uses.get(binding.name, ()):
            if binding.statement.order < use.statement.order < end:
                yield use

    def with_arguments(self, function: Scope, arguments: Mapping[str, Bound]) -> Self:
        """The same evaluator, inside of a call of a function: its parameters are what the call
        passes.
        """
        inside = copy.copy(self)
        inside._arguments = {(id(function), name): bound for name, bound in arguments.items()}
        return inside

    def with_placeholder(self, placeholder: str) -> Self:
        """The same evaluator, which reads a text although operands in it are opaque: they are the
        placeholder.
        """
        lenient = copy.copy(self)
        lenient.placeholder = placeholder
        return lenient

    # --- values ---

    def text(self, node: ast.expr, statement: Statement) -> str | None:
        """The value of an expression that is text or a path."""
        try:
            value = self.value(node, statement)
        except OpaqueValue:
            return None
        return str(value) if isinstance(value, str | PurePath) else None

    def value(self, node: ast.expr, statement: Statement) -> Any:
        """The value of an expression at a statement; see the beginning of this module."""
        effort = self.effort
        if effort.depth == 0:
            effort.steps = 0
        effort.steps += 1
        if effort.depth > MAX_DEPTH or effort.steps > MAX_STEPS:
            raise OpaqueValue("it is nested too deeply, or defined in a circle")
        effort.depth += 1
        try:
            return effort.make(self._value(node, statement))
        except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError):
            raise OpaqueValue(node) from None
        finally:
            effort.depth -= 1

    def _operand(self, node: ast.expr, statement: Statement) -> Any:
        try:
            return self.operand(self.value(node, statement))
        except OpaqueValue:
            if self.placeholder is None:
                raise
            return self.placeholder

    def _value(self, node: ast.expr, statement: Statement) -> Any:
        match node:
            case ast.Constant(value=str() | int() | float() | None as value):
                return value
            case ast.Name():
                return self._name(node, statement)
            case ast.Attribute():
                return self._attribute(node, statement)
            case ast.List(elts=items) | ast.Tuple(elts=items):
                values = self._items(items, statement)
                return tuple(values) if isinstance(node, ast.Tuple) else values
            case ast.Dict(keys=keys, values=items):
                names = self._items([key or _refuse(node) for key in keys], statement)
                return dict(zip(names, self._items(items, statement), strict=True))
            case ast.JoinedStr(values=parts):
                return _concatenation(self._format_part(part, statement) for part in parts)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self._operand(operand, statement)
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return +self._operand(operand, statement)
            case ast.BinOp(left=left, op=sign, right=right):
                operands = self._operand(left, statement), self._operand(right, statement)
                return _operation(sign, *operands)
            case ast.Subscript(value=holder, slice=key) if not isinstance(key, ast.Slice):
                return self._operand(holder, statement)[self._operand(key, statement)]
            case ast.Call():
                return self._call(node, statement)
        raise OpaqueValue(node)

    def _items(self, nodes: Sequence[ast.expr], statement: Statement) -> list[Any]:
        values: list[Any] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                values += self._operand(node.value, statement)
            else:
                values.append(self._operand(node, statement))
            if len(values) > MAX_ITEMS:
                raise OpaqueValue(_TOO_MANY)
        return values

    # --- values of names ---

    def _name(self, node: ast.Name, statement: Statement) -> Any:
        if (argument := self._arguments.get((id(statement.scope), node.id))) is not None:
            return self.value(*argument)
        bindings = self.bindings(node.id, statement)
        if not bindings:
            if node.id == "__file__" and self.file:
                return self.file
            raise OpaqueValue(f"{node.id} is not set here")
        values = [self._bound_value(binding) for binding in bindings]
        if any(type(value) is not type(values[0]) or value != values[0] for value in values):
            raise OpaqueValue(f"{node.id} is chosen at run time")
        if isinstance(values[0], list | dict):
            return self._with_changes(bindings, values[0], statement)
        return values[0]

    def _bound_value(self, binding: Binding) -> Any:
        if isinstance(binding.value, str):
            return self.imported(binding.value)
        if not isinstance(binding.value, ast.expr):
            raise OpaqueValue(f"{binding.name} is {binding.why or 'made elsewhere'}")
        self.effort.bound_values += 1
        try:
            return self.value(binding.value, binding.statement)
        finally:
            self.effort.bound_values -= 1

    def _with_changes(
        self, bindings: Sequence[Binding], value: list[Any] | dict[Any, Any], statement: Statement
    ) -> Any:
        """A list or dictionary with what is added to it before a statement."""
        binding = bindings[0]
        name, scope = binding.name, binding.statement.scope
        if len(bindings) > 1:
            raise OpaqueValue(f"{name} is chosen at run time")
        changes = [
            (other, use)
            for other in self.code.scopes
            for use in other.uses.get(name, ())
            if is_change(use) and self.certain(name, use.statement) is binding
        ]
        for other, use in changes:
            # In another function, or after another object has got hold of it.
            is_later = self.effort.bound_values and use.statement.order >= statement.order
            if other is not scope or is_later:
                raise OpaqueValue(f"{name} is changed in line {use.statement.stmt.lineno}")
        value = value.copy()
        for use in self.uses(binding, statement):
            if not is_change(use):
                continue
            line = use.statement.stmt.lineno
            if not use.statement.is_certain_before(statement):
                raise OpaqueValue(f"{name} is changed under a condition in line {line}")
            if use.statement.block.has("loop", until=binding.statement.block):
                raise OpaqueValue(f"{name} is changed in a loop in line {line}")
            mentions = [part for part in ast.walk(use.value) if getattr(part, "id", "") == name]
            if len(mentions) > (use.how == "call"):
                raise OpaqueValue(f"{name} is put into itself in line {line}")
            self._change(use, value)
            self.effort.make(value)
        return value

    def _change(self, use: Use, value: list[Any] | dict[Any, Any]) -> None:
        match use.path, use.value, value:
            case ("append",), ast.Call(args=[item], keywords=[]), list():
                value.append(self._operand(item, use.statement))
            case ("extend",), ast.Call(args=[item], keywords=[]), list():
                value.extend(self._operand(item, use.statement))
            case ("update",), ast.Call(args=[item], keywords=[]), dict():
                value.update(self._operand(item, use.statement))
            case (key,), item, dict() if use.how == "assign" and key[1:-1]:
                value[key[1:-1]] = self._operand(item, use.statement)
            case _:
                line = use.statement.stmt.lineno
                raise OpaqueValue(f"it is changed in line {line}")

    def _attribute(self, node: ast.Attribute, statement: Statement) -> Any:
        if (path := self._public_path(node, statement)) in _CONSTANTS:
            return _CONSTANTS[path]
        if self.import_path(node, statement) is not None:
            return self.imported(path)
        if (bound := self.class_attribute(node, statement)) is not None:
            return self.value(*bound)
        if node.attr in _PATH_ATTRIBUTES:
            try:
                holder = self._operand(node.value, statement)
            except OpaqueValue:
                holder = None
            if isinstance(holder, PurePath):
                value = getattr(holder, node.attr)
                return tuple(value) if node.attr == "parents" else value
        return self.attribute(node, statement)

    # --- calls ---

    def _call(self, node: ast.Call, statement: Statement) -> Any:
        function = _FUNCTIONS.get(self._public_path(node.func, statement))
        if function is not None:
            return self._apply(function, node, statement)
        if isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS:
            try:
                receiver = self._operand(node.func.value, statement)
            except OpaqueValue:
                return self.call(node, statement)
            kind, method = _METHODS[node.func.attr]
            if isinstance(receiver, kind):
                return self._apply(method, node, statement, receiver)
        return self.call(node, statement)

    def _apply(
        self, function: Callable[..., Any], node: ast.Call, statement: Statement, *receiver: Any
    ) -> Any:
        arguments = [*receiver, *self._items(node.args, statement)]
        named = {
            keyword.arg or _refuse(node): self._operand(keyword.value, statement)
            for keyword in node.keywords
        }
        if named and function not in (_format_text, _absolute_path):
            raise OpaqueValue(node)
        if function is not _joined and weight([*arguments, *named.values()]) > MAX_TEXT:
            raise OpaqueValue(_TOO_LONG)
        return function(*arguments, **named)

    def _format_part(self, part: ast.expr, statement: Statement) -> str:
        """A piece of an f-string."""
        if not isinstance(part, ast.FormattedValue):
            return str(self._operand(part, statement))
        spec = self._value(part.format_spec, statement) if part.format_spec is not None else ""
        if part.conversion not in (-1, ord("s")):
            raise OpaqueValue(f"it is {short(part.value)}, converted")
        value = self._operand(part.value, statement)
        if part.conversion == ord("s"):
            value = _to_text(value)
        return _format_value(value, spec)


def is_change(use: Use) -> bool:
    """Whether a use may change a list or dictionary. Functions that it is passed to are trusted not
    to.
    """
    return use.how != "argument" and use.path[-1] not in _READING_METHODS


def weight(value: Any) -> int:
    """The characters and items of a value, counted up to `MAX_WEIGHT`; a list in it that is shared
    counts each time.
    """
    total, stack = 0, [value]
    while stack and total <= MAX_WEIGHT:
        item = stack.pop()
        if isinstance(item, str):
            total += len(item)
        elif isinstance(item, list | tuple):
            total += len(item)
            stack += item
        elif isinstance(item, dict):
            total += len(item)
            stack += [*item, *item.values()]
        elif isinstance(item, PurePath):
            total += len(str(item))
    return total


@dataclass(frozen=True)
class CallArguments:
    """The arguments of a call by their names, each with the statement to read it at."""

    values: dict[str, Bound]
    # `*items` and `**fields`, which may hold any other argument.
    rest: str = ""


def call_arguments(call: ast.Call, order: Sequence[str], statement: Statement) -> CallArguments:
    """The arguments of a call, positional ones by the order of the signature.

    `Step("a", inputs=x, **more)` with the order ("name", "script") has name and inputs, and the
    rest `**more`.
    """
    values = {name: (node, statement) for name, node in zip(order, call.args, strict=False)}
    starred = [short(node) for node in call.args if isinstance(node, ast.Starred)]
    rest = list(starred)
    for keyword in call.keywords:
        if keyword.arg is None:
            rest.append(f"**{short(keyword.value)}")
        else:
            values[keyword.arg] = keyword.value, statement
    return CallArguments({} if starred else values, ", ".join(rest))


def parameter_arguments(
    function: Scope, call: ast.Call, statement: Statement
) -> dict[str, Bound] | None:
    """What a call passes to the parameters of a function, defaults included; None if that is not
    plain.

    `load("train")` of `def load(name, folder="jobs"):` has name and folder. Parameters that the
    function binds again are left out.
    """
    node = function.node
    if not isinstance(node, ast.FunctionDef) or function.statement is None:
        return None
    is_open = any(keyword.arg is None for keyword in call.keywords)
    if is_open or any(isinstance(argument, ast.Starred) for argument in call.args):
        return None
    parameters = [*node.args.posonlyargs, *node.args.args]
    defaults = [*zip(reversed(parameters), reversed(node.args.defaults), strict=False)]
    defaults += [
        (parameter, default)
        for parameter, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
        if default is not None
    ]
    values = {parameter.arg: (default, function.statement) for parameter, default in defaults}
    is_static = any(getattr(item, "id", "") == "staticmethod" for item in node.decorator_list)
    is_method = isinstance(call.func, ast.Attribute) and not is_static
    for parameter, argument in zip(parameters[is_method:], call.args, strict=False):
        values[parameter.arg] = argument, statement
    for keyword in call.keywords:
        values[keyword.arg or ""] = keyword.value, statement
    return {
        name: bound for name, bound in values.items() if len(function.bindings.get(name, ())) == 1
    }


# --- operations, each checked before it is computed ---

_Number = int | float
# Alignment, width and precision that cannot make a text long.
_FORMAT_SPEC = re.compile(r"[<>^]?0?\d{0,3}(?:\.\d{1,2})?[dfgsx%]?")
_PERCENT = re.compile(r"%(?:\(\w+\))?[-+ 0]{0,3}\d{0,3}(?:\.\d{1,2})?[sdifgx%]")
# How much longer than its value a formatted one can be.
_MAX_PADDING = 1500


def _refuse(node: ast.expr) -> NoReturn:
    raise OpaqueValue(node)


def _to_text(value: Any) -> str:
    """`str(value)` of what has a short one."""
    if isinstance(value, str | int | float | PurePath | None):
        return str(value)
    raise OpaqueValue("it is the text of a list or another object")


def _concatenation(parts: Iterator[str]) -> str:
    texts, length = [], 0
    for part in parts:
        texts.append(part)
        length += len(part)
        if length > MAX_TEXT:
            raise OpaqueValue(_TOO_LONG)
    return "".join(texts)


def _format_value(value: Any, spec: str) -> str:
    if _FORMAT_SPEC.fullmatch(spec) is None:
        raise OpaqueValue(f"it is formatted with {spec[:20]!r}")
    _to_text(value)
    return format(value, spec)


def _format_text(template: str, /, *values: Any, **named: Any) -> str:
    """`"{}-{name:>3}".format(...)`."""
    count = 0
    for _, name, spec, conversion in string.Formatter().parse(template):
        if name is None:
            continue
        count += 1
        is_plain = name == "" or name.isidentifier() or name.isdecimal()
        if conversion is not None or not is_plain or not _FORMAT_SPEC.fullmatch(spec or ""):
            raise OpaqueValue(f"it has the field {name[:20]!r}")
    _check_formatted(template, count, [*values, *named.values()])
    return template.format(*values, **named)


def _check_formatted(template: str, count: int, values: Iterable[Any]) -> None:
    """Opaque unless a text with so many formatted values is short."""
    longest = max((len(_to_text(value)) for value in values), default=0)
    if len(template) + count * (longest + _MAX_PADDING) > MAX_TEXT:
        raise OpaqueValue(_TOO_LONG)


def _percent(template: str, values: Any) -> str:
    """`"%s-%03d" % ("a", 1)`."""
    directives = _PERCENT.findall(template)
    if "%" in _PERCENT.sub("", template):
        raise OpaqueValue("it has an unusual % directive")
    operands = values if isinstance(values, tuple) else [values]
    operands = list(values.values()) if isinstance(values, dict) else operands
    _check_formatted(template, len(directives), operands)
    return str(template % values)


def _joined(separator: str, items: Any) -> str:
    if not isinstance(items, list | tuple):
        raise OpaqueValue("its items are not in a list")
    if sum(map(len, items)) + len(separator) * len(items) > MAX_TEXT:
        raise OpaqueValue(_TOO_LONG)
    return separator.join(items)


def _range(*numbers: int) -> list[int]:
    items = range(*numbers)
    if len(items) > MAX_ITEMS:
        raise OpaqueValue(_TOO_MANY)
    return list(items)


def _repeated(value: Any, times: int) -> Any:
    limit = MAX_TEXT if isinstance(value, str) else MAX_ITEMS
    if times > 0 and (len(value) * times > limit or weight(value) * times > MAX_WEIGHT):
        raise OpaqueValue("it is too long")
    return value * times


def _operation(sign: ast.operator, left: Any, right: Any) -> Any:
    match sign, left, right:
        case ast.Mod(), str(), _:
            return _percent(left, right)
        case ast.Add(), str() | list() | tuple(), _:
            return left + right
        case ast.Mult(), str() | list() | tuple(), int():
            return _repeated(left, right)
        case ast.Mult(), int(), str() | list() | tuple():
            return _repeated(right, left)
        case (ast.Div(), PurePath(), str() | PurePath()) | (ast.Div(), str(), PurePath()):
            if weight([left, right]) > MAX_TEXT:
                raise OpaqueValue(_TOO_LONG)
            return left / right
    function = _ARITHMETIC.get(type(sign))
    if function is None or not (isinstance(left, _Number) and isinstance(right, _Number)):
        raise OpaqueValue("it is an operation that is not computed here")
    return function(left, right)


_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def _absolute(path: str | PurePath) -> str:
    return os.path.normpath(path)


def _absolute_path(path: PurePath, strict: bool = False) -> PurePath:
    return PurePath(os.path.normpath(path))


def _home_path(path: str) -> str:
    if os.fspath(path).startswith("~"):
        raise OpaqueValue("it is in the home folder")
    return os.fspath(path)


_CONSTANTS: dict[str, str] = {
    "os.curdir": os.curdir,
    "os.pardir": os.pardir,
    "os.sep": os.sep,
    "os.path.sep": os.sep,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "str": _to_text,
    "int": int,
    "float": float,
    "list": list,
    "tuple": tuple,
    "range": _range,
    "os.getcwd": lambda: os.curdir,
    "os.fspath": os.fspath,
    "os.path.join": os.path.join,
    "os.path.dirname": os.path.dirname,
    "os.path.basename": os.path.basename,
    "os.path.normpath": os.path.normpath,
    "os.path.abspath": _absolute,
    "os.path.realpath": _absolute,
    "os.path.expanduser": _home_path,
    "pathlib.Path.cwd": PurePath,
    # Without an import it comes from a cell or module that is not here.
    **dict.fromkeys(("pathlib.Path", "pathlib.PurePath", "Path"), PurePath),
    **dict.fromkeys(("pathlib.PosixPath", "pathlib.PurePosixPath"), PurePath),
}
_PATH_ATTRIBUTES = frozenset({"parent", "parents", "name", "stem", "suffix"})
# Methods, and the type that has them.
_METHODS: dict[str, tuple[type, Callable[..., Any]]] = {
    "format": (str, _format_text),
    "join": (str, _joined),
    "joinpath": (PurePath, PurePath.joinpath),
    "as_posix": (PurePath, PurePath.as_posix),
    "resolve": (PurePath, _absolute_path),
    "absolute": (PurePath, _absolute_path),
}
# Methods that leave a list or dictionary as it is.
_READING_METHODS = frozenset({"index", "count", "copy", "keys", "values", "items", "get"})
