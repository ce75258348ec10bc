"""The text that an expression stands for, where it is plain: literals, constants, f-strings, and paths.

Paths are followed through `os.path` and `pathlib`, from `__file__` and the working directory. Nothing is run.
"""

from __future__ import annotations

import ast
import os.path
from collections.abc import Callable, Sequence

from arc_toolkit.edit.code.expressions import chain, last_name
from arc_toolkit.edit.code.names import Statement

_DEEPEST = 20
# What an expression that is not text by itself stands for: another expression, and its statement.
Bound = Callable[[ast.expr, Statement], tuple[ast.expr, Statement] | None]
# The text that it is in another module.
Elsewhere = Callable[[ast.expr, Statement], str | None]

# Calls and methods that leave a path what it is, as far as finding a file goes.
_SAME = frozenset(
    {
        "str",
        "fspath",
        "abspath",
        "realpath",
        "normpath",
        "expanduser",
        "resolve",
        "absolute",
        "as_posix",
    }
    | {"Path", "PurePath", "PosixPath", "PurePosixPath"}
)
_JOINS = frozenset({"join", "joinpath", "Path", "PurePath", "PosixPath", "PurePosixPath"})
_WORKING_FOLDERS = frozenset({"getcwd", "cwd"})


class Texts:
    """Reads the texts of one module; `path` is its own, and `bound` says what names and attributes stand for.

    `unknown` is what a part of a text becomes that is known only when the code runs; without it, all of it is unknown.
    """

    def __init__(
        self, path: str, bound: Bound, unknown: str = "", elsewhere: Elsewhere | None = None
    ) -> None:
        self.path = path
        self.bound = bound
        self.unknown = unknown
        self.elsewhere = elsewhere

    def of(self, node: ast.expr, statement: Statement, depth: int = 0) -> str | None:
        """The text, or None where it is known only when the code runs."""
        if depth > _DEEPEST:
            return None
        match node:
            case ast.Constant(value=str(value)):
                return value
            case ast.Name(id="__file__"):
                return self.path
            case ast.BinOp(left=left, op=ast.Add() | ast.Div() | ast.Mod() as op, right=right):
                return self._operation(left, op, right, statement, depth)
            case ast.JoinedStr(values=values):
                parts = [
                    part.value if isinstance(part, ast.FormattedValue) else part for part in values
                ]
                texts = self._all(parts, statement, depth)
                return None if texts is None else "".join(texts)
            case ast.Attribute(attr="parent", value=value):
                text = self.of(value, statement, depth + 1)
                return None if text is None else os.path.dirname(text)
            case ast.Subscript(
                value=ast.Attribute(attr="parents", value=value), slice=ast.Constant(value=int(up))
            ):
                text = self.of(value, statement, depth + 1)
                for _ in range(up + 1 if text is not None else 0):
                    text = os.path.dirname(text or "")
                return text
            case ast.Call():
                return self._call(node, statement, depth)
            case ast.Attribute() if (dotted := chain(node)) and dotted in _CONSTANTS:
                return _CONSTANTS[dotted]
            case ast.Name() | ast.Attribute():
                bound = self.bound(node, statement)
                if bound is not None:
                    return self.of(*bound, depth + 1)
                return None if self.elsewhere is None else self.elsewhere(node, statement)
        return None

    def _operation(
        self, left: ast.expr, op: ast.operator, right: ast.expr, statement: Statement, depth: int
    ) -> str | None:
        operands = (
            right.elts if isinstance(op, ast.Mod) and isinstance(right, ast.Tuple) else [right]
        )
        first, rest = self.of(left, statement, depth + 1), self._all(operands, statement, depth)
        if first is None or rest is None:
            return None
        if isinstance(op, ast.Mod):
            return _formatted(lambda: first % tuple(rest))
        return first + rest[0] if isinstance(op, ast.Add) else os.path.join(first, rest[0])

    def _call(self, call: ast.Call, statement: Statement, depth: int) -> str | None:
        function, name = call.func, last_name(call.func)
        if name in _WORKING_FOLDERS and not call.args:
            return "."
        # A method of a path or text: its receiver comes first; `os.path.join` and `Path` have none.
        receiver = (
            self.of(function.value, statement, depth + 1)
            if isinstance(function, ast.Attribute)
            else None
        )
        if name == "format" and receiver is not None:
            texts = self._all(call.args, statement, depth)
            named = self._all([keyword.value for keyword in call.keywords], statement, depth)
            if texts is None or named is None:
                return None
            names = {
                keyword.arg or "": text for keyword, text in zip(call.keywords, named, strict=True)
            }
            arguments = tuple(texts)
            return _formatted(lambda: receiver.format(*arguments, **names))
        if call.keywords and name not in ("resolve",):
            return None
        if name == "join" and receiver is not None:
            items = (
                call.args[0].elts
                if len(call.args) == 1 and isinstance(call.args[0], ast.List | ast.Tuple)
                else []
            )
            texts = self._all(items, statement, depth) if items else None
            return None if texts is None else receiver.join(texts)
        texts = self._all(call.args, statement, depth)
        if texts is None:
            return None
        texts = [*([receiver] if receiver is not None else []), *texts]
        if name == "dirname" and len(texts) == 1:
            return os.path.dirname(texts[0])
        if name in _JOINS:
            return os.path.join(*texts) if texts else "."
        return texts[0] if name in _SAME and len(texts) == 1 else None

    def _all(self, nodes: Sequence[ast.expr], statement: Statement, depth: int) -> list[str] | None:
        texts = []
        for node in nodes:
            text = self.of(node, statement, depth + 1)
            if text is None and not self.unknown:
                return None
            texts.append(self.unknown if text is None else text)
        return texts


_CONSTANTS = {
    ("os", ("curdir",)): ".",
    ("os", ("pardir",)): "..",
    ("os", ("sep",)): os.sep,
    ("os", ("path", "sep")): os.sep,
}


def _formatted(make: Callable[[], str]) -> str | None:
    try:
        return make()
    except (
        TypeError,
        ValueError,
        LookupError,
    ):  # not what the text asks for: so will be the program
        return None
