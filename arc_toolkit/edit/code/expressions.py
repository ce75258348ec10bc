"""Expressions: the dotted name that one is, a short text for messages, and the calls inside of a
statement.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator


def last_name(function: ast.expr) -> str:
    """`join` for `join`, `path.join` and `f().join`."""
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def chain(node: ast.expr) -> tuple[str, tuple[str, ...]] | None:
    """`a.b["k"].c` as ("a", ("b", "[k]", "c")); None when it does not begin with a name."""
    path: list[str] = []
    while True:
        match node:
            case ast.Attribute():
                path.append(node.attr)
                node = node.value
            case ast.Name():
                return node.id, tuple(reversed(path))
            case ast.Subscript(slice=ast.Constant(value=str(key))):
                path.append(f"[{key}]")
                node = node.value
            case ast.Subscript(
                value=ast.Attribute(attr="jobs")
            ):  # a step of a job, by a name that is not a literal
                path.append("[]")
                node = node.value
            case _:
                return None


def dotted(node: ast.expr) -> str:
    """`a.b.c` as written, for messages; much cheaper than `ast.unparse`."""
    parts = chain(node)
    return ".".join((parts[0], *parts[1])) if parts else "an expression"


def unparsed(node: ast.expr) -> str:
    """The text of an expression, however deep it is or large its numbers are."""
    try:
        return ast.unparse(node)
    except (RecursionError, ValueError):
        return "an expression"


def short(node: ast.expr) -> str:
    """An expression for a message."""
    text = unparsed(node)
    return text if len(text) <= 60 else text[:57] + "..."


# Values of node attributes that hold no call: positions, names, literals.
_LEAVES = frozenset({int, str, type(None), ast.Name, ast.Constant, ast.Load, ast.Store, ast.alias})
_PLAIN = frozenset({ast.Name, ast.Constant})


def _is_plain(call: ast.Call) -> bool:
    """Whether a call holds no other one, seen at a glance: `f(a, b=c.d.e)`."""
    values: list[ast.expr] = [call.func, *call.args, *(keyword.value for keyword in call.keywords)]
    for value in values:
        while isinstance(value, ast.Attribute):
            value = value.value
        if value.__class__ not in _PLAIN:
            return False
    return True


_BODIES = frozenset({"body", "orelse", "finalbody", "handlers", "decorator_list", "cases"})


def calls_in(node: ast.AST) -> Iterator[ast.Call]:
    """Every call below a statement, without the bodies of compound statements and of functions."""
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
        node = node.value
    if isinstance(node, ast.Call) and _is_plain(node):
        yield node
        return
    stack: list[ast.AST] = [node]
    while stack:
        item = stack.pop()
        if isinstance(item, ast.Call):
            yield item
        for name, child in item.__dict__.items():
            kind = child.__class__
            if kind is list:
                if name not in _BODIES:
                    stack += [part for part in child if part.__class__ not in _LEAVES]
            elif kind not in _LEAVES:
                stack.append(child)


def parts_of(stmt: ast.stmt) -> Iterator[ast.expr]:
    """Every expression of a statement, outer ones first, without the bodies of compound statements
    and functions.
    """
    level: list[ast.AST] = [stmt]
    while level:
        below: list[ast.AST] = []
        for item in level:
            if isinstance(item, ast.expr):
                yield item
            for name, child in ast.iter_fields(item):
                children = child if isinstance(child, list) else [child]
                if not (isinstance(item, ast.stmt) and name in _BODIES):
                    below += [part for part in children if isinstance(part, ast.AST)]
        level = below


def place_parts(node: ast.expr) -> tuple[str, ...]:
    """`a.b["k"][0].c` as ("a", "b", "k", "[]", "c"); empty when it does not begin with a name."""
    path: list[str] = []
    while not isinstance(node, ast.Name):
        match node:
            case ast.Attribute():
                path.append(node.attr)
            case ast.Subscript(slice=ast.Constant(value=str(key))):
                path.append(key)
            case ast.Subscript():
                path.append("[]")
            case _:
                return ()
        node = node.value
    return (node.id, *reversed(path))
