"""Sweep settings in Python, v1.5 and v1, as `command_node.sweep(...)` of azure-ai-ml.

Two shapes are rewritten, and only where every value is a literal:

    step = sweep_func(train=data, lr=uniform(0.1, 1.0))         step = sweep_func(train=data, lr=Uniform(...))
    step.runsettings.sweep.algorithm = "random"           ->    step = step.sweep(primary_metric=..., ...)
    step.runsettings.sweep.objective.configure(...)             step.resources = JobResourceConfiguration(...)

and `HyperDriveConfig(run_config=node, ...)` where `node` is an azure-ai-ml `command(...)`. All else is a finding with
its line and the reason. The caller puts its path into the findings.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from arc_toolkit.azureml.migrate import hyperdrive, space
from arc_toolkit.azureml.migrate.forms import expression, literal
from arc_toolkit.azureml.migrate.hyperdrive_config import configs
from arc_toolkit.azureml.migrate.legacy_spec import RULE
from arc_toolkit.azureml.migrate.python_rewrite import (
    Work,
    alone,
    attempt,
    delete,
    forget,
    imports,
    laid_out,
    resources,
    sweep_arguments,
    withdraw,
)
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.edit.edits import Edit, Refused, apply_edits
from arc_toolkit.edit.python_source import Source
from arc_toolkit.findings import Finding

# AMLARC's migration note (2023) says so; no public client can show it.
_OF_V15 = (
    ". This file is of SDK v1.5, whose pipelines are said to take the v2 sweep; if yours does not, move its imports "
    "and `dsl.pipeline` to azure.ai.ml"
)
SECTIONS = ("objective", "limits", "early_termination")
_RESOURCES = {"instance_type": "instance_type", "instance_count": "instance_count", "node_count": "instance_count"}


@dataclass
class _Step:
    """One step: the call that makes it, its sweep statements and what they say, as a v1.5 spec would."""

    name: str
    made: ast.Assign
    body: list[ast.stmt]
    statements: list[ast.stmt] = field(default_factory=list)
    spec: dict[str, Any] = field(default_factory=dict)
    # Source text of what the old run settings say about resources and compute.
    resources: dict[str, str] = field(default_factory=dict)
    compute: str | None = None


def convert(tree: ast.Module, text: str, settings: Settings) -> tuple[list[Edit], list[Finding]]:
    """Edits for the sweeps that can be proved, and findings for all; the findings' path is empty."""
    if "runsettings.sweep" not in text and "hyperdrive" not in text:
        return [], []
    work = Work(Source(text, tree.body), hyperdrive.Names(tree), settings)
    for body in _bodies(tree):
        _legacy_steps(work, body)
        configs(work, body)
    if work.edits:
        imports(work, tree)
    try:
        ast.parse(apply_edits(text, work.edits))
    except (SyntaxError, Refused) as error:
        withdraw(work, f"the new text would not hold: {error}")
    return work.edits, sorted(work.findings, key=lambda finding: finding.line)


def _bodies(tree: ast.Module) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            body = getattr(node, name, None)
            if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
                yield body


# --- step.runsettings.sweep.* --------------------------------------------------------------------------------------


def _legacy_steps(work: Work, body: list[ast.stmt]) -> None:
    names: dict[str, ast.stmt] = {}
    for stmt in body:
        target = _setting(stmt)
        if target is not None and target[1][:2] == ["runsettings", "sweep"]:
            names.setdefault(target[0], stmt)
    for name, first in names.items():
        attempt(work, first, lambda trial, name=name: _legacy_step(trial, body, name))  # type: ignore[misc]


def _setting(stmt: ast.stmt) -> tuple[str, list[str], ast.expr | ast.Call] | None:
    """(`step`, its attributes, the value or the call) of `step.a.b = value` or `step.a.b.configure(...)`."""
    if isinstance(stmt, ast.Assign) and len(stmt.targets) == 1:
        target, given = stmt.targets[0], stmt.value
    elif isinstance(stmt, ast.Expr) and isinstance(stmt.value, ast.Call):
        target, given = stmt.value.func, stmt.value
    else:
        return None
    path: list[str] = []
    while isinstance(target, ast.Attribute):
        path.insert(0, target.attr)
        target = target.value
    return (target.id, path, given) if isinstance(target, ast.Name) and path else None


def _runsetting(stmt: ast.stmt, name: str) -> tuple[list[str], ast.expr] | None:
    """What `name.runsettings.x.y = value` sets, and to what."""
    found = _setting(stmt)
    return (found[1][1:], found[2]) if found and found[0] == name and found[1][0] == "runsettings" else None


def _legacy_step(work: Work, body: list[ast.stmt], name: str) -> str:
    step = _gathered(work, body, name)
    call = step.made.value
    assert isinstance(call, ast.Call)
    drawn = [keyword for keyword in call.keywords if work.names.called(keyword.value) in space.DISTRIBUTIONS]
    if not drawn:
        raise Refused(
            f"no argument of the call of {name} is a hyperdrive distribution that is imported here, so the search "
            "space is in its spec: convert that with `patch --sweep-to-v2`"
        )
    for keyword in drawn:
        inner = keyword.value
        assert isinstance(inner, ast.Call)
        kind = work.names.called(inner)
        assert kind is not None
        new = expression(hyperdrive.distribution(inner, kind, str(keyword.arg)), work.classes)
        work.edits.append(Edit(work.source.start(inner), work.source.end(inner), new))
        forget(work, inner.func)
    *others, last = step.statements
    glue = work.source.newline + work.source.indent(work.source.start(last))
    lines = [
        laid_out(f"{name} = {name}.sweep", sweep_arguments(work, step.spec), glue),
        f"{name}.resources = {resources(work, step.resources)}",
    ]
    compute = literal(work.settings.compute.removeprefix("azureml:")) if work.settings.compute else step.compute
    if compute:
        lines.append(f"{name}.compute = {compute}")
    for stmt in others:
        delete(work, stmt)
    work.edits.append(Edit(alone(work, last), work.source.end(last), glue.join(lines)))
    work.findings.append(
        Finding(
            RULE,
            "warning",
            f"{ast.unparse(call.func)} has to be a command component now",
            "",
            call.lineno,
            call.col_offset + 1,
            reason="`.sweep()` belongs to a command node: load what `patch --sweep-to-v2` writes for the sweep's spec"
            + (_OF_V15 if "azure.ml.component" in work.source.text else ""),
        )
    )
    return f"runsettings.sweep of {name} is written as {name}.sweep(...)"


def _gathered(work: Work, body: list[ast.stmt], name: str) -> _Step:
    """The step's call and settings; refused where the name is used for anything else before the last of them."""
    settings = [index for index, stmt in enumerate(body) if (found := _setting(stmt)) and found[0] == name]
    sweeps = [
        index for index in settings if (_setting(body[index]) or ("", [""]))[1][:2] == ["runsettings", "sweep"]
    ]
    made = [
        index
        for index, stmt in enumerate(body[: sweeps[0]])
        if isinstance(stmt, ast.Assign)
        and [ast.unparse(target) for target in stmt.targets] == [name]
        and isinstance(stmt.value, ast.Call)
    ]
    if len(made) != 1:
        raise Refused(f"{name} is not made by one call in the same block, so its settings may come from elsewhere")
    start = body[made[0]]
    assert isinstance(start, ast.Assign)
    step = _Step(name, start, body)
    for index in range(made[0] + 1, len(body)):
        stmt = body[index]
        found = _setting(stmt)
        if found and found[0] == name and found[1][0] == "runsettings":
            _take(work, step, found[1][1:], found[2])
            step.statements.append(stmt)
        elif index < sweeps[-1] and any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(stmt)):
            raise Refused(
                f"{name} is used before its last sweep setting, when it is no sweep yet", line=stmt.lineno
            )
    return step


def _take(work: Work, step: _Step, path: list[str], given: ast.expr) -> None:
    """One `runsettings` statement into the step's spec, resources or compute."""
    match path:
        case ["sweep", "algorithm"]:
            step.spec["algorithm"] = hyperdrive.value(given, "the algorithm")
        case ["sweep", section, "configure"] if section in SECTIONS and isinstance(given, ast.Call):
            step.spec.setdefault(section, {}).update(_keywords(given, section))
        case ["sweep", "early_termination"]:
            kind = work.names.called(given)
            if kind in hyperdrive.POLICIES and isinstance(given, ast.Call):
                step.spec["early_termination"] = hyperdrive.policy(given, str(kind))
                forget(work, given.func)
            else:
                step.spec["early_termination"] = hyperdrive.value(given, "early_termination")
        case ["sweep", section] if section in SECTIONS:
            step.spec[section] = hyperdrive.value(given, section)
        case ["sweep", section, key] if section in SECTIONS:
            step.spec.setdefault(section, {})[key] = hyperdrive.value(given, f"{section}.{key}")
        case ["resource_layout", "configure"] if isinstance(given, ast.Call):
            for keyword in given.keywords:
                _resource(work, step, str(keyword.arg), keyword.value)
        case ["resource_layout", key]:
            _resource(work, step, key, given)
        case ["target"]:
            step.compute = work.source.slice(given)
        case ["configure"] if isinstance(given, ast.Call) and [one.arg for one in given.keywords] == ["target"]:
            step.compute = work.source.slice(given.keywords[0].value)
        case _:
            raise Refused(f"runsettings.{'.'.join(path)} has no equivalent on a v2 sweep", line=given.lineno)


def _keywords(call: ast.Call, section: str) -> dict[str, Any]:
    if call.args or any(keyword.arg is None for keyword in call.keywords):
        raise Refused(f"{section}.configure takes **arguments that cannot be read", line=call.lineno)
    return {str(one.arg): hyperdrive.value(one.value, f"{section}.{one.arg}") for one in call.keywords}


def _resource(work: Work, step: _Step, key: str, given: ast.expr) -> None:
    if key not in _RESOURCES:
        raise Refused(f"resource_layout.{key} has no equivalent on a v2 sweep", line=given.lineno)
    step.resources[_RESOURCES[key]] = work.source.slice(given)
