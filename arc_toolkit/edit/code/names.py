"""Which name means what, per scope: imports, assignments, functions, and the statements that set attributes.

`python_scopes.py` fills this in. What a name *means* for an SDK is for its package to decide.
"""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from arc_toolkit.edit.code.editor import StatementSite
from arc_toolkit.edit.code.source import Source

BlockKind = Literal["scope", "if", "loop", "except", "plain"]


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
        """Free the trees now: scopes and their statements know each other, so only the collector would."""
        for scope in self.scopes:
            scope.bindings.clear()
            scope.uses.clear()
            scope.statements.clear()


def find_bindings(
    name: str, statement: Statement, is_known: Callable[[str], bool]
) -> list[Binding]:
    """What may have bound a name, seen from a place; `is_known` says whether `from module import *` brought it."""
    scope: Scope | None = statement.scope
    while scope is not None:
        if bindings := scope.bindings.get(name):
            if scope is statement.scope:
                before = bisect_left(
                    bindings, statement.order, key=lambda item: item.statement.order
                )
                return bindings[:before] or bindings
            return bindings
        for module in scope.stars:
            if is_known(f"{module}.{name}"):
                return [Binding(name, statement, f"{module}.{name}")]
        scope = scope.parent
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
