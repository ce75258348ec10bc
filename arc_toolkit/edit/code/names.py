"""Which name means what, per scope: imports, assignments, functions, and the statements that set
attributes.

`ScopeReader` reads the scopes in one walk over the statements, and looks at expressions only where
they are the value of one: it costs a small part of parsing. What a name *means* for an SDK is for
its package to decide. Below are the dotted name that an expression is, a short text of it for messages,
and the calls inside of a statement.
"""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from arc_toolkit.edit.code.editor import StatementSite
from arc_toolkit.edit.code.source import Source

BlockKind = Literal["scope", "if", "loop", "except", "plain"]


@dataclass(eq=False, slots=True)
class Block:
    """A list of statements: the body of a module, function, branch, loop or with."""

    kind: BlockKind
    parent: Block | None = None

    def outward(self, until: Block | None = None) -> Iterator[Block]:
        """This block and those around it, below `until`."""
        block: Block | None = self
        while block is not None and block is not until:
            yield block
            block = block.parent

    def within(self, other: Block) -> bool:
        """Whether this block is `other` or inside of it."""
        return any(block is other for block in self.outward())

    def is_conditional(self, until: Block | None = None) -> bool:
        """Whether this block runs once, not at all or several times, seen from `until`."""
        return self.has("if", "loop", "except", until=until)

    def has(self, *kinds: BlockKind, until: Block | None = None) -> bool:
        """Whether this block is in one of these kinds, below `until`."""
        return any(block.kind in kinds for block in self.outward(until))


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
    """One way a name gets its value. `value` is an expression, a function, an import path, or None:
    not known.
    """

    name: str
    statement: Statement
    value: ast.expr | ast.FunctionDef | str | None
    why: str = ""  # for None: `a parameter`, `a loop variable`


@dataclass(eq=False, slots=True)
class Use:
    """A statement about a name: `name.a.b = value`, `name.a["k"] = value`, `name.a.b(...)`, or
    `call(name)`.

    `path` is ("a", "b"), with ("a", "[k]") for a literal subscript; an argument has the callee's
    last word.
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
    # The names that imports bind, in their order: a large file has many other names.
    imported: dict[str, None] = field(default_factory=dict)
    # Every simple statement, and the functions of this scope.
    statements: list[Statement] = field(default_factory=list)


@dataclass(eq=False)
class CodeScopes:
    """All scopes of one file or notebook."""

    sources: Sequence[Source]
    scopes: list[Scope] = field(default_factory=list)

    @property
    def top(self) -> Scope:
        return self.scopes[0]

    def close(self) -> None:
        """Free the trees now: scopes and their statements know each other, so only the collector
        would.
        """
        for scope in self.scopes:
            scope.bindings.clear()
            scope.uses.clear()
            scope.statements.clear()


def find_bindings(
    name: str, statement: Statement, is_known: Callable[[str], bool]
) -> list[Binding]:
    """What may have bound a name, seen from a place; `is_known` says whether `from module import *`
    brought it.
    """
    for scope in outward(statement.scope):
        if bindings := scope.bindings.get(name):
            if scope is not statement.scope:
                return bindings
            before = bisect_left(bindings, statement.order, key=lambda item: item.statement.order)
            return bindings[:before] or bindings
        for module in scope.stars:
            if is_known(f"{module}.{name}"):
                return [Binding(name, statement, f"{module}.{name}")]
    return []


def certain_binding(bindings: Sequence[Binding], statement: Statement) -> Binding | None:
    """The binding that holds at a place whatever happens at run time."""
    if bindings and (len(bindings) == 1 or bindings[-1].statement.is_certain_before(statement)):
        return bindings[-1]
    return None


def outward(scope: Scope | None) -> list[Scope]:
    """The scope and those around it."""
    scopes = []
    while scope is not None:
        scopes.append(scope)
        scope = scope.parent
    return scopes


def is_before(first: Statement, second: Statement) -> bool:
    """Whether `first` is before `second`, or before the function (of the same scope) that holds it."""
    statement: Statement | None = second
    while statement is not None:
        if statement.scope is first.scope:
            return first.order < statement.order
        statement = statement.scope.statement
    return True


# --- reading ---

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
# Statements whose own expressions may make a step, and the places that a parameter or import can go
# beside.
_LISTED = {
    *(ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return, ast.ImportFrom),
    *(ast.FunctionDef, ast.AsyncFunctionDef),
    *(ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith),
}


class ScopeReader:
    """Walks the sources of `code` as one module: its top first, so that it can be looked at, then
    its functions.
    """

    def __init__(self, code: CodeScopes) -> None:
        self.code = code
        self.order = 0
        self.later: list[tuple[ast.FunctionDef | ast.AsyncFunctionDef, Scope, Source]] = []
        top, block = Scope(None, None), Block("scope")
        code.scopes.append(top)
        for source in code.sources:
            self.walk(source.body, top, block, source)

    def finish(self, words: Sequence[str] | None = None, names: Collection[str] = ()) -> None:
        """Walk the functions that have one of the words or names (None: all), after the scopes
        around them, since they see their last bindings. A function around another has its words
        too.
        """
        lines = {
            id(source): source.lines_with([*(words or ()), *names]) for source in self.code.sources
        }
        while self.later:
            function, inner, source = self.later.pop(0)
            at = lines[id(source)]
            index = bisect_left(at, function.lineno)
            # A function inside of one that matters may use what that one binds.
            if (
                words is None
                or function.decorator_list
                or inner.parent is not self.code.top
                or (index < len(at) and at[index] <= (function.end_lineno or function.lineno))
            ):
                self.code.scopes.append(inner)
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
            bodies = [part.body for part in parts] if name in ("handlers", "cases") else [parts]
            for body in bodies:
                self.walk(body, statement.scope, Block(kind, statement.block), statement.source)

    # --- what a statement itself binds, sets or calls ---

    def _expression(self, stmt: ast.Expr, statement: Statement) -> None:
        if isinstance(call := stmt.value, ast.Call):
            _add_place("call", call.func, call, statement)
            _add_arguments(call, statement)

    def _import(self, stmt: ast.Import, statement: Statement) -> None:
        for alias in stmt.names:
            local = alias.asname or alias.name.partition(".")[0]
            _bind_import(statement, local, alias.name if alias.asname else local)

    def _import_from(self, stmt: ast.ImportFrom, statement: Statement) -> None:
        base = "." * stmt.level + (stmt.module or "")
        for alias in stmt.names:
            if alias.name == "*":
                statement.scope.stars.append(base)
            else:
                # `from . import name` is `.name`, as `from .module import name` is `.module.name`.
                path = f"{base}{alias.name}" if base.endswith(".") else f"{base}.{alias.name}"
                _bind_import(statement, alias.asname or alias.name, path)

    def _function(self, stmt: ast.FunctionDef | ast.AsyncFunctionDef, statement: Statement) -> None:
        scope = statement.scope
        value = stmt if isinstance(stmt, ast.FunctionDef) else None
        _bind(scope, stmt.name, statement, value, "an async function")
        # A class body is not seen from its methods.
        parent = scope.parent if isinstance(scope.node, ast.ClassDef) else scope
        inner = Scope(stmt, parent, statement)
        for argument in ast.iter_child_nodes(stmt.args):
            if isinstance(argument, ast.arg):
                _bind(inner, argument.arg, statement, None, "a parameter")
        self.later.append((stmt, inner, statement.source))

    def _class(self, stmt: ast.ClassDef, statement: Statement) -> None:
        _bind(statement.scope, stmt.name, statement, None, "a class")
        inner = Scope(stmt, statement.scope, statement)
        self.code.scopes.append(inner)
        self.walk(stmt.body, inner, Block("scope"), statement.source)

    def _loop(self, stmt: ast.For | ast.AsyncFor, statement: Statement) -> None:
        _bind_targets(stmt.target, statement, "a loop variable")

    def _with(self, stmt: ast.With | ast.AsyncWith, statement: Statement) -> None:
        for item in stmt.items:
            if item.optional_vars is not None:
                _bind_targets(item.optional_vars, statement, "made by a with statement")

    def _assignment(
        self, stmt: ast.Assign | ast.AnnAssign | ast.AugAssign, statement: Statement
    ) -> None:
        value = stmt.value
        if isinstance(value, ast.Call):
            _add_arguments(value, statement)
        for target in stmt.targets if isinstance(stmt, ast.Assign) else [stmt.target]:
            if isinstance(stmt, ast.AugAssign) and isinstance(target, ast.Name):
                _bind(statement.scope, target.id, statement, None, "changed in place")
            elif value is not None:
                _assign(target, value, statement)


_READERS: dict[type[ast.stmt], Callable[[ScopeReader, Any, Statement], None]] = {
    **dict.fromkeys((ast.Assign, ast.AnnAssign, ast.AugAssign), ScopeReader._assignment),
    ast.Expr: ScopeReader._expression,
    ast.Import: ScopeReader._import,
    ast.ImportFrom: ScopeReader._import_from,
    **dict.fromkeys((ast.FunctionDef, ast.AsyncFunctionDef), ScopeReader._function),
    ast.ClassDef: ScopeReader._class,
    **dict.fromkeys((ast.For, ast.AsyncFor), ScopeReader._loop),
    **dict.fromkeys((ast.With, ast.AsyncWith), ScopeReader._with),
}


def _assign(target: ast.expr, value: ast.expr, statement: Statement) -> None:
    """What one target of an assignment becomes; of several on both sides (`a, b = f(), g()`) each
    its own.
    """
    match target, value:
        case ast.Name(), _:
            _bind(statement.scope, target.id, statement, value)
        case ast.Attribute() | ast.Subscript(), _:
            _add_place("assign", target, value, statement)
        case ast.Tuple() | ast.List(), ast.Tuple() | ast.List() if len(target.elts) == len(
            value.elts
        ) and not any(isinstance(item, ast.Starred) for item in (*target.elts, *value.elts)):
            for item, part in zip(target.elts, value.elts, strict=True):
                _assign(item, part, statement)
        case _:
            _bind_targets(target, statement, "unpacked from several values")


def _bind_targets(target: ast.expr, statement: Statement, why: str) -> None:
    match target:
        case ast.Name():
            _bind(statement.scope, target.id, statement, None, why)
        case ast.Tuple() | ast.List():
            for item in target.elts:
                _bind_targets(item, statement, why)
        case ast.Starred():
            _bind_targets(target.value, statement, why)


def _add_place(
    how: Literal["assign", "call"], place: ast.expr, value: ast.expr, statement: Statement
) -> None:
    """What happens at `name.a`, or, with an index that is not text, at `name[0].a`."""
    parts = chain(place)
    name, *path = place_parts(place) or ("",) if parts is None else (parts[0], *parts[1])
    if path:
        _add_use(name, Use(how, tuple(path), statement, value))


def _add_use(name: str, use: Use) -> None:
    use.statement.scope.uses.setdefault(name, []).append(use)


def _add_arguments(call: ast.Call, statement: Statement) -> None:
    for argument in [*call.args, *[keyword.value for keyword in call.keywords]]:
        if isinstance(argument, ast.Name):
            _add_use(argument.id, Use("argument", (last_name(call.func),), statement, call))


def _bind_import(statement: Statement, local: str, path: str) -> None:
    statement.scope.imported[local] = None
    _bind(statement.scope, local, statement, path)


def _bind(
    scope: Scope,
    name: str,
    statement: Statement,
    value: ast.expr | ast.FunctionDef | str | None,
    why: str = "",
) -> None:
    scope.bindings.setdefault(name, []).append(Binding(name, statement, value, why))


# --- expressions ---


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
_BODIES = frozenset({"body", "orelse", "finalbody", "handlers", "decorator_list", "cases"})


def calls_in(node: ast.AST) -> Iterator[ast.Call]:
    """Every call below a statement, without the bodies of compound statements and of functions."""
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
