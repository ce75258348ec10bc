"""Imports that new code needs: the local name of what is imported already, or one more import
beside its neighbours.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from arc_toolkit.edit.code.editor import Changes, StatementSite
from arc_toolkit.edit.code.names import Scope, Statement, is_before, outward
from arc_toolkit.edit.code.source import Source
from arc_toolkit.edit.files.edits import Refused


class NeededImports:
    """The imports of one file; new ones are collected in `changes`."""

    def __init__(self, changes: Changes, top: Scope) -> None:
        self._changes = changes
        self._top = top
        # Scope and name -> the local name, and the statement that imports it, or that this run adds
        # it to or behind; of a new first statement, its source.
        self._names: dict[tuple[int, str], tuple[str, Statement | Source] | None] = {}

    def local_name(
        self,
        statement: Statement,
        module: str,
        name: str,
        *,
        is_it: Callable[[str], bool],
        is_near: Callable[[str], bool],
        is_taken: bool,
    ) -> str:
        """The local name of `module.name` at a statement, imported where it has to be; `Refused`
        when it cannot.

        `is_it` knows its import paths, `is_near` the modules beside whose imports a new one goes,
        and `is_taken` says whether the name means something else there.
        """
        for scope in outward(statement.scope):
            key = id(scope), name
            if key not in self._names:
                self._names[key] = next(
                    (
                        (local, last.statement)
                        for local in scope.imported
                        if isinstance((last := scope.bindings[local][-1]).value, str)
                        and is_it(last.value)
                    ),
                    None,
                )
            imported = self._names[key]
            if imported is not None and _is_there(imported[1], statement):
                return imported[0]
        if is_taken:
            raise Refused(f"the name {name} means something else here")
        scope, where = self._add(statement, module, name, is_near)
        self._names[id(scope), name] = name, where
        return name

    def _add(
        self, statement: Statement, module: str, name: str, is_near: Callable[[str], bool]
    ) -> tuple[Scope, Statement | Source]:
        """The scope of the new import, and the statement that it is in or behind."""
        line = f"from {module} import {name}"
        for scope in [self._top, *outward(statement.scope)]:
            imports = [
                binding.statement
                for local in scope.imported
                for binding in scope.bindings[local]
                if isinstance(binding.value, str)
                and isinstance(binding.statement.stmt, ast.Import | ast.ImportFrom)
                and any(map(is_near, _modules(binding.statement.stmt)))
                and not (binding.statement.block.has("if") or binding.statement.block.has("except"))
                and is_before(binding.statement, statement)
            ]
            imports.sort(key=lambda site: site.order)
            for site in reversed(imports):
                if isinstance(site.stmt, ast.ImportFrom) and site.stmt.module == module:
                    self._changes.set(site, site.stmt, name, "")
                    return scope, site
            if imports:
                self._changes.insert_after(imports[-1], line)
                return scope, imports[-1]
        source = statement.source
        first = next(stmt for stmt in source.body if not _is_preamble(stmt))
        self._changes.insert_before(StatementSite(source, source.body, first), line)
        return self._top, source


def _is_there(where: Statement | Source, statement: Statement) -> bool:
    """Whether an import has run by then: another cell of a notebook may come later."""
    return where is statement.source if isinstance(where, Source) else is_before(where, statement)


def _modules(stmt: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(stmt, ast.ImportFrom):
        return [stmt.module or ""]
    return [alias.name for alias in stmt.names]


def _is_preamble(stmt: ast.stmt) -> bool:
    """A docstring or an import from __future__: an import may only come after it."""
    if isinstance(stmt, ast.ImportFrom):
        return stmt.module == "__future__"
    return isinstance(stmt, ast.Expr) and isinstance(stmt.value, ast.Constant)
