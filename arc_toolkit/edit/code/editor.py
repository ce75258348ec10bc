"""The closed set of changes to Python code, each made twice: as text, and on the syntax tree for
the proof.

A plan collects changes here; `edits` gives the spans, `apply` changes the old tree as the new text
should read. Comparing that tree with the parsed new text proves that nothing else happened
(`proof.py`).
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from arc_toolkit.edit.code import layout
from arc_toolkit.edit.code.source import Source
from arc_toolkit.edit.files.edits import Edit


@dataclass(eq=False, slots=True)
class StatementSite:
    """Where a statement is: its text, and the list that holds it."""

    source: Source
    body: list[ast.stmt]
    stmt: ast.stmt


# Arguments, items of a dict display, imported names, parameters.
NamedValues = ast.Call | ast.Dict | ast.ImportFrom | ast.FunctionDef


@dataclass
class _OnNode:
    """What is to happen to one node."""

    site: StatementSite
    node: ast.AST
    values: dict[str, str] = field(default_factory=dict)
    drops: set[str] = field(default_factory=set)
    lines: list[str] = field(default_factory=list)
    before: list[str] = field(default_factory=list)
    text: str | None = None
    # What a statement that is an expression is assigned to, and another callee of its call, if any.
    assigned: tuple[str, str] | None = None
    items: list[str] = field(default_factory=list)


class Changes:
    """All changes to one file. The last word on a value counts, so that asking twice changes once."""

    def __init__(self) -> None:
        self._nodes: dict[int, _OnNode] = {}

    def __bool__(self) -> bool:
        return bool(self._nodes)

    def _on(self, site: StatementSite, node: ast.AST) -> _OnNode:
        return self._nodes.setdefault(id(node), _OnNode(site, node))

    # --- the operations ---

    def set(
        self, site: StatementSite, node: NamedValues, name: str, value: str, *, keep: bool = False
    ) -> None:
        """A named value: replaced, or added at the end; with `keep` unless it is to be set already.
        A name of an import has no value.
        """
        values = self._on(site, node).values
        values[name] = values.get(name, value) if keep else value

    def drop_argument(self, site: StatementSite, call: ast.Call, name: str) -> None:
        self._on(site, call).drops.add(name)

    def replace(
        self, site: StatementSite, node: ast.expr | ast.stmt | ast.keyword, text: str
    ) -> None:
        """An expression becomes another, a keyword argument gets another name, and the statement at
        `site` becomes those of `text`, or goes where there are none.
        """
        self._on(site, node).text = text

    def call_to_assignment(self, site: StatementSite, target: str, callee: str) -> None:
        """`node.set_resources(...)` becomes `target = callee(...)`; the arguments keep their text."""
        self._on(site, site.stmt).assigned = target, callee

    def name_value(self, site: StatementSite, name: str) -> None:
        """A statement that is an expression becomes `name = expression`."""
        self._on(site, site.stmt).assigned = name, ""

    def append_item(self, site: StatementSite, node: ast.List, text: str) -> None:
        """One more item at the end of a list."""
        items = self._on(site, node).items
        if text not in items:
            items.append(text)

    def insert_after(self, site: StatementSite, line: str) -> None:
        """A statement of its own after the one at `site`."""
        lines = self._on(site, site.stmt).lines
        if line not in lines:
            lines.append(line)

    def insert_before(self, site: StatementSite, line: str) -> None:
        lines = self._on(site, site.stmt).before
        if line not in lines:
            lines.append(line)

    # --- as text ---

    def edits(self) -> dict[int, tuple[Source, list[Edit]]]:
        """Edits by source; `Refused` when one has no safe place."""
        by_source: dict[int, tuple[Source, list[Edit]]] = {}
        for change in self._nodes.values():
            source = change.site.source
            edits = by_source.setdefault(id(source), (source, []))[1]
            edits += _edits(change, source)
        return by_source

    def spans(self) -> dict[int, list[tuple[int, int]]]:
        """By source, the lines of the statements that something happens in, as offsets."""
        spans: dict[int, list[tuple[int, int]]] = {}
        for change in self._nodes.values():
            spans.setdefault(id(change.site.source), []).append(
                layout.whole_lines(change.site.source, change.site.stmt)
            )
        return spans

    # --- on the tree ---

    def apply(self) -> None:
        """Change the old tree in place. It is of no other use afterwards."""
        # Each list of statements is made anew once, whatever the number of changes in it.
        bodies: dict[int, tuple[list[ast.stmt], dict[int, list[ast.stmt]]]] = {}
        for change in self._nodes.values():
            _apply(change)
            if (statements := _statements(change)) is not None:
                body = change.site.body
                bodies.setdefault(id(body), (body, {}))[1][id(change.site.stmt)] = statements
        for body, changed in bodies.values():
            body[:] = [new for stmt in body for new in changed.get(id(stmt), (stmt,))]


def _edits(change: _OnNode, source: Source) -> list[Edit]:
    node, edits = change.node, []
    if change.text is not None:
        if isinstance(node, ast.keyword):
            start = source.start(node)
            edits.append(Edit(start, start + len(node.arg or ""), change.text))
        elif isinstance(node, ast.stmt):
            edits.append(layout.replace_statement(source, node, change.text))
        elif isinstance(node, ast.expr):
            edits.append(_replacement(source, node, change.text))
    if change.assigned is not None and isinstance(node, ast.Expr):
        end = start = source.start(node)
        if change.assigned[1] and isinstance(node.value, ast.Call):
            end = source.end(node.value.func)
        edits.append(Edit(start, end, " = ".join(change.assigned)))
    if change.lines:
        edits.append(layout.after_statement(source, change.site.stmt, change.lines))
    if change.before:
        edits.append(layout.before_statement(source, change.site.stmt, change.before))
    new = dict(change.values)
    match node:
        case ast.Call():
            if change.drops:
                edits += layout.drop_arguments(source, node, change.drops)
            for keyword in node.keywords:
                if keyword.arg in new:
                    edits.append(_replacement(source, keyword.value, new.pop(keyword.arg)))
            if new:
                edits += layout.append_arguments(source, node, _named(new))
        case ast.Dict():
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value in new:
                    edits.append(_replacement(source, value, new.pop(key.value)))
            if new:
                items = [f"{quoted(name, source)}: {value}" for name, value in new.items()]
                edits += layout.append_dict_items(source, node, items)
        case ast.List() if change.items:
            last = source.span(node.elts[-1]) if node.elts else None
            edits += layout.append(source, last, source.end(node) - 1, change.items)
        case ast.ImportFrom():
            edits += layout.append_imports(source, node, sorted(new)) if new else []
        case ast.FunctionDef() if new:
            edits += layout.append_parameters(source, node, _named(new))
    return edits


def _named(values: dict[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in values.items()]


def _replacement(source: Source, node: ast.expr, text: str) -> Edit:
    return Edit(*source.span(node), text)


def _apply(change: _OnNode) -> None:
    node, new = change.node, dict(change.values)
    match node:
        case ast.Call():
            node.keywords = [
                keyword for keyword in node.keywords if keyword.arg not in change.drops
            ]
            for keyword in node.keywords:
                if keyword.arg in new:
                    keyword.value = expression(new.pop(keyword.arg))
            node.keywords += [
                ast.keyword(arg=name, value=expression(value)) for name, value in new.items()
            ]
        case ast.Dict():
            for index, key in enumerate(node.keys):
                if isinstance(key, ast.Constant) and key.value in new:
                    node.values[index] = expression(new.pop(key.value))
            node.keys += [ast.Constant(name) for name in new]
            node.values += [expression(value) for value in new.values()]
        case ast.List():
            node.elts += [expression(text) for text in change.items]
        case ast.ImportFrom():
            node.names += [ast.alias(name) for name in sorted(new)]
        case ast.FunctionDef():
            node.args.args += [ast.arg(name) for name in new]
            node.args.defaults += [expression(value) for value in new.values()]
    if change.assigned is not None and isinstance(node, ast.Expr):
        target, callee = change.assigned
        if callee and isinstance(node.value, ast.Call):
            node.value.func = expression(callee)
        _become(node, ast.Assign(targets=[expression(target)], value=node.value))
    if change.text is not None and isinstance(node, ast.keyword):
        node.arg = change.text
    elif change.text is not None and isinstance(node, ast.expr):
        _become(node, expression(change.text))


def _statements(change: _OnNode) -> list[ast.stmt] | None:
    """The statements in place of the one at the site, if it does not stay alone."""
    is_replaced = change.text is not None and isinstance(change.node, ast.stmt)
    if not (change.before or change.lines or is_replaced):
        return None
    own = ast.parse(change.text or "").body if is_replaced else [change.site.stmt]
    before, after = (
        ast.parse("\n".join(lines)).body if lines else [] for lines in (change.before, change.lines)
    )
    return [*before, *own, *after]


def _become(node: ast.AST, other: ast.AST) -> None:
    """The node becomes the other one in place, whoever holds it."""
    node.__class__ = other.__class__
    node.__dict__.clear()
    node.__dict__.update(other.__dict__)


def expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def quoted(text: str, source: Source) -> str:
    """A string literal, in the quotes that its file has."""
    plain = text.isprintable() and source.quote not in text and "\\" not in text
    return f"{source.quote}{text}{source.quote}" if plain else repr(text)
