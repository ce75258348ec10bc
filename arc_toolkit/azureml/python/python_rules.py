"""Rules about Python code that need no setting: the misspelt AMLARC_PRESTEP, `set_resources` that stays, v1.5 sweeps.

`set_resources` of a known step and `sweep(instance_type=...)` are mended in `v2.py`, where their targets are.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from arc_toolkit.azureml.python.planner import Planner
from arc_toolkit.azureml.python.v2 import SET_RESOURCES
from arc_toolkit.azureml.threads import PRESTEP, RESTEP
from arc_toolkit.edit.python_editor import Place
from arc_toolkit.edit.python_source import Source

AMLARC_RESTEP = "amlarc-restep"
LEGACY_SWEEP = "legacy-sweep"
IGNORE_WITHOUT_REASON = "ignore-without-reason"


def look(planner: Planner) -> None:
    for source in planner.module.sources:
        if RESTEP in source.text:
            _misspelt(planner, source)
        for line in planner.ignores_of(source).without_reason:
            message = "an ignore without a reason does not count: `# arc-toolkit: ignore[rule] reason`"
            planner.finding(IGNORE_WITHOUT_REASON, "warning", message, source, ast.Pass(lineno=line, col_offset=0))
    _uses(planner)


def _misspelt(planner: Planner, source: Source) -> None:
    """AMLARC_RESTEP in string literals and keyword arguments; nothing reads that name."""
    for top in source.body:
        for node, in_f_string in _nodes(top):
            place = Place(source, source.body, top)
            if isinstance(node, ast.keyword) and node.arg == RESTEP:
                text, fixed = PRESTEP, True
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and RESTEP in node.value:
                written = "" if in_f_string else source.slice(node)
                text = written.replace(RESTEP, PRESTEP)
                fixed = written.count(RESTEP) == node.value.count(RESTEP)
            else:
                continue
            if not planner.allows(AMLARC_RESTEP, source, node.lineno):
                continue
            reason = "" if fixed else "it is part of an f-string or written with escapes"
            message = f"{RESTEP} is read by nothing: the name is {PRESTEP}"
            with planner.changes.record() as fix:
                if fixed and isinstance(node, ast.keyword):
                    planner.changes.rename_argument(place, node, text)
                elif fixed and isinstance(node, ast.Constant):
                    planner.changes.replace(place, node, text)
            planner.finding(
                AMLARC_RESTEP,
                "error",
                message,
                source,
                node,
                reason=reason,
                fix=fix if fixed else None,
                title=f"Rename {RESTEP} to {PRESTEP}",
            )


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


def _uses(planner: Planner) -> None:
    known = {id(use) for target in planner.targets if not target.refusal for use in target.uses}
    swept: set[tuple[int, str]] = set()
    for scope in planner.module.scopes:
        for name, uses in scope.uses.items():
            for use in uses:
                if use.how == "call" and use.path == ("set_resources",) and id(use) not in known:
                    planner.finding(
                        SET_RESOURCES,
                        "warning",
                        f"{name}.set_resources() writes into the component that all its steps share: assign"
                        " resources = JobResourceConfiguration(...) instead",
                        use.spot.source,
                        use.spot.stmt,
                        reason=f"it is not certain which step {name} is",
                    )
                elif use.path[:2] == ("runsettings", "sweep") and (id(scope), name) not in swept:
                    swept.add((id(scope), name))
                    asked = planner.settings.sweep_to_v2
                    planner.finding(
                        LEGACY_SWEEP,
                        "warning",
                        f"{name} is a sweep of SDK v1.5, which takes no instance type",
                        use.spot.source,
                        use.spot.stmt,
                        reason="it is not converted, see there" if asked else "convert it with --sweep-to-v2",
                    )
