"""Statements that become others: the same as text and on the tree, and refused where something would be lost."""

from __future__ import annotations

import ast

import pytest

from arc_toolkit.edit.edits import Refused, apply_edits
from arc_toolkit.edit.python_editor import Changes, StatementSite
from arc_toolkit.edit.python_proof import same
from arc_toolkit.edit.python_source import Source, parse


def replaced(text: str, line: int, new: str) -> str:
    """The text with the statement of a line replaced; it parses to the changed tree."""
    source = Source(text, parse(text))
    body = next(
        node.body
        for node in [ast.Module(source.body, []), *ast.walk(ast.Module(source.body, []))]
        if isinstance(node, ast.Module | ast.FunctionDef) and any(stmt.lineno == line for stmt in node.body)
    )
    stmt = next(stmt for stmt in body if stmt.lineno == line)
    changes = Changes()
    changes.replace(StatementSite(source, source.body if body is source.body else body, stmt), stmt, new)
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
