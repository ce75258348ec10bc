"""Which name means what, per scope: imports, assignments, functions, and the statements that set attributes.

Statements are walked once, expressions only where they are the value of a statement, so that this costs a small
part of parsing. What a name *means* for AzureML is decided in `meaning.py`.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from arc_toolkit.edit.python_editor import StatementSite
from arc_toolkit.edit.python_source import Source

# Words that a call worth looking at has, and the names that these were imported as.
_WORDS = ("command", "parallel_run_function", "sweep", "set_resources", "ParallelRun")
_OUTPUTS = re.compile(r"(?<!\w)(\w*)\.outputs")
_RENAMED = re.compile(r"(?:command|parallel_run_function|ParallelRun\w+)[ \t]+as[ \t]+(\w+)")

# Words without which a function makes no step and sets nothing; `@` is for decorated functions inside of it.
_FUNCTION_WORDS = (
    *_WORDS,
    *("@", "load_component", "from_yaml", "from_func", "Component", "components", "resources", "runsettings"),
    *("default_compute", "azure.", "mldesigner", "HyperDriveConfig"),
)
# Calls at module level whose results are not components, for certain.
_HARMLESS_MAKERS = frozenset({"getLogger", "Path", "join", "getenv", "open", "dict", "list", "set"})

BlockKind = Literal["scope", "if", "loop", "except", "plain"]
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


@dataclass(eq=False, slots=True)
class Block:
    """A list of statements: the body of a module, function, branch, loop or with."""

    kind: BlockKind
    parent: Block | None = None

    def within(self, other: Block) -> bool:
        """Whether this block is `other` or inside of it."""
        block: Block | None = self
        while block is not None:
            if block is other:
                return True
            block = block.parent
        return False

    def is_conditional(self, until: Block | None = None) -> bool:
        """Whether this block runs once, not at all or several times, seen from `until`."""
        return self.has("if", "loop", "except", until=until)

    def has(self, *kinds: BlockKind, until: Block | None = None) -> bool:
        """Whether this block is in one of these kinds, below `until`."""
        block: Block | None = self
        while block is not None and block is not until:
            if block.kind in kinds:
                return True
            block = block.parent
        return False


@dataclass(eq=False, slots=True)
class Statement(StatementSite):
    """A place, with its scope, its block and its order in the scope."""

    scope: Scope
    block: Block
    order: int

    def is_certain_before(self, other: Statement) -> bool:
        """Whether this statement has run whenever `other`, later or in an inner scope, runs."""
        return not self.block.is_conditional() or other.block.within(self.block)


@dataclass(eq=False, slots=True)
class Binding:
    """One way a name gets its value. `value` is an expression, a function, an import path, or None: not known."""

    name: str
    statement: Statement
    value: ast.expr | ast.FunctionDef | str | None
    why: str = ""  # for None: `a parameter`, `a loop variable`


@dataclass(eq=False, slots=True)
class Use:
    """A statement about a name: `name.a.b = value`, `name.a["k"] = value`, `name.a.b(...)`, or `call(name)`.

    `path` is ("a", "b"), with ("a", "[k]") for a literal subscript; an argument has the callee's last word.
    """

    how: Literal["assign", "call", "argument"]
    path: tuple[str, ...]
    statement: Statement
    value: ast.expr  # what is assigned, or the call


@dataclass(eq=False)
class Scope:
    """A module, function, class body or lambda, with the names bound in it."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | None
    parent: Scope | None
    statement: Statement | None = None
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    uses: dict[str, list[Use]] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)
    # Every simple statement, and the functions of this scope.
    statements: list[Statement] = field(default_factory=list)


@dataclass(eq=False)
class Module:
    """All scopes of one file or notebook."""

    sources: Sequence[Source]
    scopes: list[Scope] = field(default_factory=list)

    @property
    def top(self) -> Scope:
        return self.scopes[0]

    @cached_property
    def _mentions(self) -> dict[int, list[int]]:
        words = list(_WORDS)
        for source in self.sources:
            if " as " in source.text:
                words += _RENAMED.findall(source.text)
        return {id(source): source.lines_with(words) for source in self.sources}

    @cached_property
    def read_steps(self) -> set[str]:
        """Names whose `.outputs` are read somewhere."""
        return {name for source in self.sources for name in _OUTPUTS.findall(source.text)}

    def mentions(self, statement: Statement) -> bool:
        """Whether a word of interest is in the lines of a statement: only then its expressions are walked."""
        lines = self._mentions[id(statement.source)]
        index = bisect_left(lines, statement.stmt.lineno)
        return index < len(lines) and lines[index] <= (statement.stmt.end_lineno or statement.stmt.lineno)


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
    walker.finish([*_FUNCTION_WORDS, *makers])
    return module


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


def last_name(function: ast.expr) -> str:
    """`join` for `join`, `path.join` and `f().join`."""
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _bind(
    scope: Scope, name: str, statement: Statement, value: ast.expr | ast.FunctionDef | str | None, why: str = ""
) -> None:
    scope.bindings.setdefault(name, []).append(Binding(name, statement, value, why))


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
            case _:
                return None


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
