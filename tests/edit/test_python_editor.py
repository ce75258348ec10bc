"""Statements that become others: the same as text and on the tree, and refused where something would be lost."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from arc_toolkit.edit.code.code_text import same
from arc_toolkit.edit.code.editor import Changes, StatementSite
from arc_toolkit.edit.code.source import Source, parse
from arc_toolkit.edit.files.edits import Refused, apply_edits


def replaced(text: str, line: int, new: str) -> str:
    """The text with the statement of a line replaced; it parses to the changed tree."""
    source = Source(text, parse(text))
    body = next(
        node.body
        for node in [ast.Module(source.body, []), *ast.walk(ast.Module(source.body, []))]
        if isinstance(node, ast.Module | ast.FunctionDef)
        and any(stmt.lineno == line for stmt in node.body)
    )
    stmt = next(stmt for stmt in body if stmt.lineno == line)
    changes = Changes()
    changes.replace(
        StatementSite(source, source.body if body is source.body else body, stmt), stmt, new
    )
    ((_, edits),) = changes.edits().values()
    after = apply_edits(text, edits)
    changes.apply()
    assert same(source.body, parse(after))
    return after


@pytest.mark.parametrize(
    ("before", "line", "new", "after"),
    [
        ("a = 1\nb = 2\n", 1, "c = 3", "c = 3\nb = 2\n"),
        ("a = 1\nb = 2\n", 1, "", "b = 2\n"),
        ("a = 1\nb = 2", 2, "", "a = 1\n"),
        ("def f():\n\ta = 1  # why\n\treturn\n", 2, "", "def f():\n\t# why\n\treturn\n"),
        (
            "def f():\r\n  a = 1\r\n",
            2,
            "b = (\n    2\n)\nc = 3",
            "def f():\r\n  b = (\r\n      2\r\n  )\r\n  c = 3\r\n",
        ),
        ('a = ("#",\n  2)  # why\n', 1, "b = 2", "b = 2  # why\n"),
    ],
)
def test_a_statement_becomes_others_or_goes(before: str, line: int, new: str, after: str) -> None:
    assert replaced(before, line, new) == after


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a = 1; b = 2\n", "another statement is on the same line"),
        ("a = 1;\n", "another statement is on the same line"),
        ("a = (1,  # one\n  2)\n", "a comment inside the statement would be lost"),
        ('a = ("#",  # one\n  2)\n', "a comment inside the statement would be lost"),
    ],
)
def test_a_statement_that_shares_its_lines_is_refused(text: str, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        replaced(text, 1, "c = 3")


def changed(text: str, change: Callable[[Changes, StatementSite], None]) -> str:
    """The text after a change of its last statement; it parses to the changed tree."""
    source = Source(text, parse(text))
    changes = Changes()
    change(changes, StatementSite(source, source.body, source.body[-1]))
    ((_, edits),) = changes.edits().values()
    after = apply_edits(text, edits)
    changes.apply()
    assert same(source.body, parse(after))
    return after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a = []\n", "a = [1]\n"),
        ("a = [0]\n", "a = [0, 1]\n"),
        ("a = [\n    0,  # none\n]\n", "a = [\n    0,  # none\n    1,\n]\n"),
    ],
)
def test_a_list_gets_an_item_once(before: str, after: str) -> None:
    def change(changes: Changes, site: StatementSite) -> None:
        assert isinstance(site.stmt, ast.Assign)
        assert isinstance(site.stmt.value, ast.List)
        for _ in range(2):
            changes.append_item(site, site.stmt.value, "1")

    assert changed(before, change) == after


def test_an_expression_gets_a_name() -> None:
    assert changed("f(\n  1)  # why\n", lambda changes, site: changes.name_value(site, "a")) == (
        "a = f(\n  1)  # why\n"
    )


@pytest.mark.parametrize(
    ("before", "names", "after"),
    [
        ("from m import b\n", ["a"], "from m import b, a\n"),
        ("from m import b\n", ["c", "a"], "from m import b, a, c\n"),
        (
            "from m import b as x  # why\n",
            ["c" * 50, "a" * 50],
            f"from m import (\n    b as x,\n    {'a' * 50},\n    {'c' * 50},\n)  # why\n",
        ),
        (
            "from m import (\n    b,\n)\n",
            ["c", "a"],
            "from m import (\n    b,\n    a,\n    c,\n)\n",
        ),
    ],
)
def test_an_import_gets_names(before: str, names: list[str], after: str) -> None:
    def change(changes: Changes, site: StatementSite) -> None:
        assert isinstance(site.stmt, ast.ImportFrom)
        for name in names:
            changes.set(site, site.stmt, name, "")

    assert changed(before, change) == after
