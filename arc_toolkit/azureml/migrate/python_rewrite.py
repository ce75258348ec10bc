"""What both rewrites of Python sweeps share: the arguments of `.sweep(...)`, resources, edits and imports."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from arc_toolkit.azureml.migrate import hyperdrive, space
from arc_toolkit.azureml.migrate.forms import literal, policy_expression
from arc_toolkit.azureml.migrate.legacy_spec import RULE, LegacySpec
from arc_toolkit.azureml.migrate.sweep_plan import DEFAULT_INSTANCE_COUNT, DEFAULT_INSTANCE_TYPE
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.edit.edits import Edit, Refused
from arc_toolkit.edit.python_source import Source
from arc_toolkit.findings import Finding

WIDTH = 100
NOT_REWRITTEN = "the sweep is not rewritten"


@dataclass
class Work:
    """What one file gets."""

    source: Source
    names: hyperdrive.Names
    settings: Settings
    edits: list[Edit] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    classes: set[str] = field(default_factory=set)
    # hyperdrive names in the source that are rewritten, and with them go.
    gone: set[int] = field(default_factory=set)


def attempt(work: Work, node: ast.stmt, do: Callable[[Work], str]) -> None:
    """Do all of one sweep or none of it: what is refused on the way is a finding."""
    trial = Work(work.source, work.names, work.settings)
    try:
        message = do(trial)
    except Refused as refused:
        line = refused.line or node.lineno
        column = node.col_offset + 1 if line == node.lineno else 0
        work.findings.append(Finding(RULE, "warning", NOT_REWRITTEN, "", line, column, reason=refused.reason))
        return
    work.edits += trial.edits
    work.classes |= trial.classes
    work.gone |= trial.gone
    work.findings.append(Finding(RULE, "note", message, "", node.lineno, node.col_offset + 1, applied=True))
    work.findings += trial.findings


def sweep_arguments(work: Work, spec: dict[str, Any]) -> list[str]:
    """The arguments of `.sweep(...)`, through the same rules as a spec in YAML."""
    source = LegacySpec("", spec)
    arguments = {
        **{key: literal(item) for key, item in reversed(space.objective(source).items())},
        "sampling_algorithm": literal(space.algorithm(source)),
        **{key: literal(item) for key, item in space.limits(source).items()},
    }
    if policy := space.early_termination(source):
        arguments["early_termination_policy"] = policy_expression(policy)
        work.classes.add(space.POLICIES[policy["type"]].v2_class)
    if warning := next((note for note in source.notes if note.severity == "warning"), None):
        raise Refused(warning.message)
    return [f"{key}={text}" for key, text in arguments.items()]


def laid_out(head: str, arguments: list[str], glue: str) -> str:
    """`head(arguments)`, one argument a line where it would be long; `glue` is a line break and the indent."""
    line = f"{head}({', '.join(arguments)})"
    if len(line) + len(glue) <= WIDTH:
        return line
    return f"{head}({glue}    " + f",{glue}    ".join(arguments) + f",{glue})"


def resources(work: Work, given: dict[str, str]) -> str:
    """`JobResourceConfiguration(...)`: what was asked for, else what the old settings say, else the defaults."""
    settings = work.settings
    kind = literal(settings.instance_type) if settings.instance_type else given.get("instance_type")
    count = literal(settings.instance_count) if settings.instance_count else given.get("instance_count")
    kind, count = kind or literal(DEFAULT_INSTANCE_TYPE), count or literal(DEFAULT_INSTANCE_COUNT)
    return f"JobResourceConfiguration(instance_type={kind}, instance_count={count})"


def forget(work: Work, node: ast.expr) -> None:
    """A use of a hyperdrive name that goes with the edit."""
    if isinstance(node, ast.Name):
        work.gone.add(id(node))


def alone(work: Work, stmt: ast.stmt) -> int:
    """The start of a statement that has its lines for itself, and no comment inside."""
    source = work.source
    start, end = source.start(stmt), source.end(stmt)
    before = source.text[source.line_start(start) : start]
    after = source.text[end : source.line_end(end)].strip()
    if before.strip() or (after and not after.startswith("#")):
        raise Refused("another statement stands on the same line", line=stmt.lineno)
    inner = source.text[start:end]
    if "#" in inner and "#" not in ast.unparse(stmt):
        raise Refused("a comment inside the settings would be lost", line=stmt.lineno)
    return start


def delete(work: Work, stmt: ast.stmt) -> None:
    """Take a statement's lines out; a comment after it stays."""
    source = work.source
    start, end = alone(work, stmt), source.end(stmt)
    stop = source.line_end(end)
    if source.text[end:stop].strip():
        work.edits.append(Edit(start, end + len(source.text[end:stop]) - len(source.text[end:stop].lstrip()), ""))
        return
    following = [one for one in source.starts if one > end]
    work.edits.append(Edit(source.line_start(start), following[0] if following else stop, ""))


def imports(work: Work, tree: ast.Module) -> None:
    """azure-ai-ml's imports at the place of hyperdrive's; those go where nothing of them is left."""
    source = work.source
    new = ["from azure.ai.ml.entities import JobResourceConfiguration"]
    if work.classes:
        new.append(f"from azure.ai.ml.sweep import {', '.join(sorted(work.classes))}")
    uses = list(work.names.uses(tree))
    left = {node.id for node in uses if id(node) not in work.gone}
    # Only what the rewrite made useless goes; a name that nothing here uses may be for others.
    useless = ({node.id for node in uses} - left) | (work.classes - left)
    anchors = [node for node in work.names.imports if node in tree.body]
    if clash := left & work.classes:
        withdraw(work, f"{', '.join(sorted(clash))} of hyperdrive is used in other places too")
    elif not anchors:
        withdraw(work, "hyperdrive is not imported at the top of the file")
    for node in anchors if work.edits else ():
        glue = source.newline + source.indent(source.start(node))
        if isinstance(node, ast.ImportFrom) and node.module != "azureml.train":
            kept = [alias for alias in node.names if (alias.asname or alias.name) not in useless]
            words = ", ".join(f"{one.name} as {one.asname}" if one.asname else one.name for one in kept)
            old = [f"from {node.module} import {words}"] if kept else []
        else:
            old = [source.slice(node)]
        if new or old:
            work.edits.append(Edit(source.start(node), source.end(node), glue.join((*new, *old))))
        else:
            delete(work, node)
        new = []


def withdraw(work: Work, reason: str) -> None:
    """No edit after all: what was to be rewritten is reported with the reason."""
    work.edits.clear()
    work.findings[:] = [
        replace(one, severity="warning", message=NOT_REWRITTEN, reason=reason, applied=False)
        for one in work.findings
        if one.applied
    ] + [one for one in work.findings if not one.applied and one.message == NOT_REWRITTEN]
