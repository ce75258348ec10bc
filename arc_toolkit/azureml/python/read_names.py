"""Reads the scopes of a module: one walk over its statements, expressions only where they are the value of one.

So this costs a small part of parsing.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any

from arc_toolkit.azureml.python.expressions import chain, last_name
from arc_toolkit.azureml.python.names import WORDS, Binding, Block, BlockKind, Module, Scope, Statement, Use
from arc_toolkit.edit.python_source import Source

# Words without which a function makes no step and sets nothing; `@` is for decorated functions inside of it.
_FUNCTION_WORDS = (
    *WORDS,
    *("@", "load_component", "from_yaml", "from_func", "Component", "components", "resources", "runsettings"),
    *("default_compute", "azure.", "mldesigner", "HyperDriveConfig"),
)
_COMPONENT_MAKERS = frozenset(
    {"load_component", "from_yaml", "from_func", "CommandComponent", "ParallelComponent", "partial"}
)
_HELD = re.compile(
    r"self\.(\w+)[ \t]*(?::[^=\n]+)?=[ \t]*[\w.]*(?:load_component|from_yaml|Component|command)\w*\("
)
# Calls at module level whose results are not components, for certain.
_HARMLESS_MAKERS = frozenset({"getLogger", "Path", "join", "getenv", "open", "dict", "list", "set"})

# The parts of compound statements that hold statements, and what blocks they are.
_LOOP: tuple[tuple[str, BlockKind], ...] = (("body", "loop"), ("orelse", "plain"))
_TRY: tuple[tuple[str, BlockKind], ...] = (
    *(("body", "plain"), ("handlers", "except")),
    *(("orelse", "plain"), ("finalbody", "plain")),
)
_BLOCKS: dict[type[ast.stmt], tuple[tuple[str, BlockKind], ...]] = {
    ast.If: (("body", "if"), ("orelse", "if")),
    **dict.fromkeys((ast.For, ast.AsyncFor, ast.While), _LOOP),
    **dict.fromkeys((ast.With, ast.AsyncWith), (("body", "plain"),)),
    **dict.fromkeys((ast.Try, ast.TryStar), _TRY),
    ast.Match: (("cases", "if"),),
}
# Statements whose own expressions may make a step, and the places that a parameter or import can go beside.
_LISTED = {
    *(ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return, ast.ImportFrom),
    *(ast.FunctionDef, ast.AsyncFunctionDef),
    *(ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith),
}


def read_module(sources: Sequence[Source]) -> Module:
    """Walk the statements of the sources, as one module.

    Functions without a decorator are walked only when a word in their lines says that they may matter.
    """
    module = Module(sources)
    scope = Scope(None, None)
    module.scopes.append(scope)
    walker = _Walker(module)
    block = Block("scope")
    for source in sources:
        walker.walk(source.body, scope, block, source)
    makers = [
        name
        for name, bindings in scope.bindings.items()
        if any(_may_make_steps(name, binding.value) for binding in bindings)
    ]
    module.makers = [
        f"{name}(" for name, bindings in scope.bindings.items() if any(map(_makes_component, bindings))
    ]
    module.makers += {
        f"self.{name}("
        for source in sources
        if "self." in source.text and "omponent" in source.text
        for name in _HELD.findall(source.text)
    }
    walker.finish([*_FUNCTION_WORDS, *makers, *module.makers])
    return module


def _makes_component(binding: Binding) -> bool:
    value = binding.value
    return isinstance(value, ast.Call) and last_name(value.func) in _COMPONENT_MAKERS


def _may_make_steps(name: str, value: ast.expr | ast.FunctionDef | str | None) -> bool:
    """Whether what a module binds may be called for a step elsewhere: not sure, but sure enough not to miss one."""
    if isinstance(value, str):  # `command as make`: the words know it by its own name only
        renamed = value.startswith(("azure", "mldesigner")) and not value.endswith(name)
        return renamed or value.startswith("azure.ai.ml.automl")
    if isinstance(value, ast.FunctionDef):
        return bool(value.decorator_list)
    if isinstance(value, ast.Call):
        parts = chain(value.func)
        return parts is None or (parts[1] or parts)[-1] not in _HARMLESS_MAKERS
    return isinstance(value, ast.expr) and not isinstance(value, ast.Constant)


class _Walker:
    def __init__(self, module: Module) -> None:
        self.module = module
        self.order = 0
        self.later: list[tuple[ast.FunctionDef | ast.AsyncFunctionDef, Scope, Source]] = []

    def finish(self, words: Sequence[str]) -> None:
        """Walk the functions that have one of the words, after the scopes around them, since they see their last
        bindings. A function around another has its words too."""
        lines = {id(source): source.lines_with(words) for source in self.module.sources}
        while self.later:
            function, inner, source = self.later.pop(0)
            at = lines[id(source)]
            index = bisect_left(at, function.lineno)
            # A function inside of one that matters may use what that one binds.
            if (
                function.decorator_list
                or inner.parent is not self.module.top
                or (index < len(at) and at[index] <= (function.end_lineno or function.lineno))
            ):
                self.module.scopes.append(inner)
                self.walk(function.body, inner, Block("scope"), source)

    def walk(self, body: list[ast.stmt], scope: Scope, block: Block, source: Source) -> None:
        for stmt in body:
            self.order += 1
            statement = Statement(source, body, stmt, scope, block, self.order)
            kind = type(stmt)
            if kind in _LISTED:
                scope.statements.append(statement)
            if kind in _READERS:
                _READERS[kind](self, stmt, statement)
            if kind in _BLOCKS:
                self._blocks(stmt, statement)

    def _blocks(self, stmt: ast.stmt, statement: Statement) -> None:
        for name, kind in _BLOCKS[type(stmt)]:
            parts = getattr(stmt, name)
            for inner in [part.body for part in parts] if name in ("handlers", "cases") else [parts]:
                self.walk(inner, statement.scope, Block(kind, statement.block), statement.source)

    # --- what a statement itself binds, sets or calls ------------------------------------------------------------

    def _expression(self, stmt: ast.Expr, statement: Statement) -> None:
        if isinstance(call := stmt.value, ast.Call):
            if (parts := chain(call.func)) is not None and parts[1]:
                _add_use(parts[0], Use("call", parts[1], statement, call))
            _add_arguments(call, statement)

    def _import(self, stmt: ast.Import, statement: Statement) -> None:
        for alias in stmt.names:
            local = alias.asname or alias.name.partition(".")[0]
            _bind(statement.scope, local, statement, alias.name if alias.asname else local)

    def _import_from(self, stmt: ast.ImportFrom, statement: Statement) -> None:
        base = "." * stmt.level + (stmt.module or "")
        for alias in stmt.names:
            if alias.name == "*":
                statement.scope.stars.append(base)
            else:
                _bind(statement.scope, alias.asname or alias.name, statement, f"{base}.{alias.name}")

    def _function(self, stmt: ast.FunctionDef | ast.AsyncFunctionDef, statement: Statement) -> None:
        scope = statement.scope
        value = stmt if isinstance(stmt, ast.FunctionDef) else None
        _bind(scope, stmt.name, statement, value, "an async function")
        # A class body is not seen from its methods.
        parent = scope.parent if isinstance(scope.node, ast.ClassDef) else scope
        inner = Scope(stmt, parent, statement)
        names = stmt.args
        for argument in (*names.posonlyargs, *names.args, *names.kwonlyargs, names.vararg, names.kwarg):
            if argument is not None:
                _bind(inner, argument.arg, statement, None, "a parameter")
        self.later.append((stmt, inner, statement.source))

    def _class(self, stmt: ast.ClassDef, statement: Statement) -> None:
        _bind(statement.scope, stmt.name, statement, None, "a class")
        inner = Scope(stmt, statement.scope, statement)
        self.module.scopes.append(inner)
        self.walk(stmt.body, inner, Block("scope"), statement.source)

    def _loop(self, stmt: ast.For | ast.AsyncFor, statement: Statement) -> None:
        _bind_targets(stmt.target, statement, "a loop variable")

    def _with(self, stmt: ast.With | ast.AsyncWith, statement: Statement) -> None:
        for item in stmt.items:
            if item.optional_vars is not None:
                _bind_targets(item.optional_vars, statement, "made by a with statement")

    def _assignment(self, stmt: ast.Assign | ast.AnnAssign | ast.AugAssign, statement: Statement) -> None:
        value = stmt.value
        if isinstance(value, ast.Call):
            _add_arguments(value, statement)
        for target in stmt.targets if isinstance(stmt, ast.Assign) else [stmt.target]:
            if isinstance(target, ast.Name):
                if isinstance(stmt, ast.AugAssign):
                    _bind(statement.scope, target.id, statement, None, "changed in place")
                elif value is not None:
                    _bind(statement.scope, target.id, statement, value)
            elif isinstance(target, ast.Attribute | ast.Subscript):
                parts = chain(target)
                if parts is not None and value is not None and parts[1]:
                    _add_use(parts[0], Use("assign", parts[1], statement, value))
            else:
                _bind_targets(target, statement, "unpacked from several values")


_READERS: dict[type[ast.stmt], Callable[[_Walker, Any, Statement], None]] = {
    **dict.fromkeys((ast.Assign, ast.AnnAssign, ast.AugAssign), _Walker._assignment),
    ast.Expr: _Walker._expression,
    ast.Import: _Walker._import,
    ast.ImportFrom: _Walker._import_from,
    **dict.fromkeys((ast.FunctionDef, ast.AsyncFunctionDef), _Walker._function),
    ast.ClassDef: _Walker._class,
    **dict.fromkeys((ast.For, ast.AsyncFor), _Walker._loop),
    **dict.fromkeys((ast.With, ast.AsyncWith), _Walker._with),
}


def _bind_targets(target: ast.expr, statement: Statement, why: str) -> None:
    match target:
        case ast.Name():
            _bind(statement.scope, target.id, statement, None, why)
        case ast.Tuple() | ast.List():
            for item in target.elts:
                _bind_targets(item, statement, why)
        case ast.Starred():
            _bind_targets(target.value, statement, why)


def _add_use(name: str, use: Use) -> None:
    use.statement.scope.uses.setdefault(name, []).append(use)


def _add_arguments(call: ast.Call, statement: Statement) -> None:
    for argument in [*call.args, *[keyword.value for keyword in call.keywords]]:
        if isinstance(argument, ast.Name):
            _add_use(argument.id, Use("argument", (last_name(call.func),), statement, call))


def _bind(
    scope: Scope, name: str, statement: Statement, value: ast.expr | ast.FunctionDef | str | None, why: str = ""
) -> None:
    scope.bindings.setdefault(name, []).append(Binding(name, statement, value, why))
