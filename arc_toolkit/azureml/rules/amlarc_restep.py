"""AMLARC_RESTEP where AMLARC_PRESTEP is meant, in keys and in text."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, cast

import yaml

from arc_toolkit.azureml.plan import Plan
from arc_toolkit.azureml.threads import PRESTEP, RESTEP
from arc_toolkit.edit.yaml.editor import Editor, KeyPath
from arc_toolkit.edit.yaml.nodes import YamlNode
from arc_toolkit.findings import Rule

if TYPE_CHECKING:
    from arc_toolkit.azureml.python.python_plan import PythonPlan
    from arc_toolkit.azureml.python.python_writer import PythonWriter
    from arc_toolkit.edit.code.editor import StatementSite

_MESSAGE = f"{RESTEP} has no effect: the variable is called {PRESTEP}"
_TITLE = f"Rename {RESTEP} to {PRESTEP}"


def _check(plan: Plan) -> None:
    if plan.language == "python":
        _check_code(cast("PythonPlan", plan))
        return
    for document in plan.documents:
        for path, node, is_key in _places(document.root.node, (document.index,), set()):

            def fix(editor: Editor, at: KeyPath = path, key: bool = is_key) -> None:
                if key:
                    editor.rename(at, PRESTEP)
                else:
                    editor.replace(at, RESTEP, PRESTEP)

            plan.report(RULE, _MESSAGE, node, fix=fix, title=_TITLE, applied=plan.is_planned(path))


def _places(
    node: YamlNode, path: KeyPath, seen: set[int]
) -> Iterator[tuple[KeyPath, YamlNode, bool]]:
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.ScalarNode):
        if RESTEP in node.value:
            yield path, node, False
    elif isinstance(node, yaml.SequenceNode):
        for index, child in enumerate(node.value):
            yield from _places(child, (*path, index), seen)
    elif isinstance(node, yaml.MappingNode):
        for key, child in node.value:
            if key.value == RESTEP:
                yield (*path, key.value), key, True
            yield from _places(child, (*path, key.value), seen)


def _check_code(plan: PythonPlan) -> None:
    """In string literals and keyword arguments."""
    from arc_toolkit.edit.code.editor import StatementSite

    for source in plan.module.sources:
        for top in source.body if RESTEP in source.text else ():
            taken = _siblings_of_the_right_name(top)
            for node, in_f_string in _nodes(top):
                is_argument = isinstance(node, ast.keyword) and node.arg == RESTEP
                if not is_argument and not (
                    isinstance(node, ast.Constant) and _sets_variable(node.value)
                ):
                    continue
                assert isinstance(node, ast.keyword | ast.Constant)
                written = RESTEP if is_argument else "" if in_f_string else source.slice(node)
                reason = ""
                if id(node) in taken:
                    reason = f"{PRESTEP} is set beside it: remove one of the two"
                elif written.count(RESTEP) != (1 if is_argument else str(node.value).count(RESTEP)):
                    reason = "it is part of an f-string or written with escapes"
                at = StatementSite(source, source.body, top)
                fix = partial(_replace, at=at, node=node, text=written.replace(RESTEP, PRESTEP))
                where = plan.at(at, node)
                plan.report(
                    RULE, _MESSAGE, where, reason=reason, fix=None if reason else fix, title=_TITLE
                )


def _sets_variable(value: object) -> bool:
    """The name alone, as a key, or an assignment in shell text; a mention in prose is neither."""
    return isinstance(value, str) and (value == RESTEP or f"{RESTEP}=" in value)


def _siblings_of_the_right_name(top: ast.stmt) -> set[int]:
    """The keys and arguments that cannot be renamed, because the same dictionary or call has the right name too."""
    taken: set[int] = set()
    for node in ast.walk(top):
        names: list[tuple[object, ast.AST]] = []
        if isinstance(node, ast.Call):
            names = [(keyword.arg, keyword) for keyword in node.keywords]
        elif isinstance(node, ast.Dict):
            names = [(key.value, key) for key in node.keys if isinstance(key, ast.Constant)]
        if any(name == PRESTEP for name, _ in names):
            taken |= {id(place) for name, place in names if name == RESTEP}
    return taken


def _replace(
    writer: PythonWriter, at: StatementSite, node: ast.keyword | ast.Constant, text: str
) -> None:
    writer.changes.replace(at, node, text)


def _nodes(top: ast.stmt) -> Iterator[tuple[ast.AST, bool]]:
    """All nodes that may hold the name, and whether they are inside of an f-string; no docstrings."""
    stack: list[tuple[ast.AST, bool]] = [(top, False)]
    while stack:
        node, in_f_string = stack.pop()
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        yield node, in_f_string
        inside = in_f_string or isinstance(node, ast.JoinedStr)
        stack.extend((child, inside) for child in ast.iter_child_nodes(node))


RULE = Rule(
    "amlarc-restep", "error", fix="safe", language="yaml, python", check=_check, needs=(RESTEP,)
)
