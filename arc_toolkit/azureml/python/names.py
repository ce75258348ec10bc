"""Which name means what, per scope: imports, assignments, functions, and the statements that set attributes.

`read_names.py` fills this in. What a name *means* for AzureML is decided in `meaning.py`.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from arc_toolkit.edit.python_editor import StatementSite
from arc_toolkit.edit.python_source import Source

# Words that a call worth looking at has, and the names that these were imported as.
WORDS = (
    *("command", "parallel_run_function", "sweep", "set_resources", "ParallelRun"),
    *("CommandJob", "SweepJob", "ParallelJob", "ScriptRunConfig", "Step(", "Estimator("),
    *("PyTorch(", "TensorFlow(", "SKLearn("),
)
_NAME_AT_END = re.compile(r"\w*\Z")
_LONGEST_NAME = 100
_RENAMED = re.compile(r"(?:command|parallel_run_function|ParallelRun\w+)[ \t]+as[ \t]+(\w+)")

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
    # Every simple statement, and the functions of this scope.
    statements: list[Statement] = field(default_factory=list)


@dataclass(eq=False)
class Module:
    """All scopes of one file or notebook."""

    sources: Sequence[Source]
    scopes: list[Scope] = field(default_factory=list)
    # Calls of what makes steps here: `train(`, `self.train(`.
    makers: list[str] = field(default_factory=list)

    @property
    def top(self) -> Scope:
        return self.scopes[0]

    def close(self) -> None:
        """Free the trees now: scopes and their statements know each other, so only the collector would."""
        for scope in self.scopes:
            scope.bindings.clear()
            scope.uses.clear()
            scope.statements.clear()

    @cached_property
    def _mentions(self) -> dict[int, list[int]]:
        words = [*WORDS, *self.makers]
        for source in self.sources:
            if " as " in source.text:
                words += _RENAMED.findall(source.text)
        return {id(source): source.lines_with(words) for source in self.sources}

    @cached_property
    def read_steps(self) -> set[str]:
        """Names whose `.outputs` are read somewhere."""
        # An expression for the name and the word together would try every character of the text.
        befores = (before for source in self.sources for before in source.text.split(".outputs")[:-1])
        return {match[0] for before in befores if (match := _NAME_AT_END.search(before[-_LONGEST_NAME:]))}

    def mentions(self, statement: Statement) -> bool:
        """Whether a word of interest is in the lines of a statement: only then its expressions are walked."""
        lines = self._mentions[id(statement.source)]
        index = bisect_left(lines, statement.stmt.lineno)
        return index < len(lines) and lines[index] <= (statement.stmt.end_lineno or statement.stmt.lineno)
