"""Sweeps of SDK v1.5 and v1 in Python source as `command_node.sweep(...)` of azure-ai-ml.

Rewritten where every value is plain:

    step = sweep_func(train=data, lr=uniform(0.1, 1.0))         step = sweep_func(train=data, lr=Uniform(...))
    step.runsettings.sweep.algorithm = "random"           ->    step = step.sweep(primary_metric=..., ...)
    step.runsettings.sweep.objective.configure(...)             step.resources = JobResourceConfiguration(...)

`hyperdrive_config.py` converts HyperDriveConfig. All else is a finding with its line and the reason.
"""

from __future__ import annotations

import ast
import os.path
from collections.abc import Callable, Iterator
from functools import partial

from arc_toolkit.azureml.python.python_plan import PythonPlan
from arc_toolkit.azureml.python.sdk_objects import Component, PipelineFunction
from arc_toolkit.edit.code.names import Binding, Scope, Statement, Use
from arc_toolkit.edit.files.edits import Refused
from arc_toolkit.migrate.hyperdrive import (
    HyperdriveReader,
    SweepChange,
    commit,
    refuse,
    resources_text,
)
from arc_toolkit.migrate.hyperdrive_config import configs
from arc_toolkit.migrate.legacy_spec import RULE, LegacySpec, parse_spec, read_or_none
from arc_toolkit.migrate.space import call_lines, literal


def convert_sweeps(plan: PythonPlan) -> None:
    """The changes for all sweeps of a module, and a finding for each."""
    changes = []
    for statement, read in _sweeps(plan):
        if not plan.covers(RULE, plan.at(statement)):
            try:
                if (change := read()) is not None:
                    changes.append(change)
            except Refused as refused:
                refuse(plan, statement, refused)
    commit(plan, changes)


def _sweeps(plan: PythonPlan) -> Iterator[tuple[Statement, Callable[[], SweepChange | None]]]:
    """Where each sweep is, and what reads it."""
    for scope in plan.module.scopes:
        for name, uses in step_sweeps(plan, scope):
            yield uses[0].statement, partial(step_change, plan, scope, name, uses)
    yield from configs(plan)


# AMLARC's migration note (2023) says so; no public client can show it.
_OF_V15 = (
    ". This file is of SDK v1.5, whose pipelines are said to take the v2 sweep; if yours does not, move its imports "
    "and `dsl.pipeline` to azure.ai.ml"
)
_SECTIONS = ("objective", "limits", "early_termination")
_RESOURCES = {
    "instance_type": "instance_type",
    "instance_count": "instance_count",
    "node_count": "instance_count",
}


def step_sweeps(plan: PythonPlan, scope: Scope) -> Iterator[tuple[str, list[Use]]]:
    """The names that are steps with sweep settings, each with its settings in one block, in order."""
    for name, uses in scope.uses.items():
        blocks: dict[tuple[int, int], list[Use]] = {}
        for use in uses:
            if use.how != "argument" and use.path[:2] == ("runsettings", "sweep"):
                made = plan.resolver.binding(name, use.statement)
                blocks.setdefault((id(made), id(use.statement.body)), []).append(use)
        yield from ((name, settings) for settings in blocks.values())


def step_change(plan: PythonPlan, scope: Scope, name: str, sweeps: list[Use]) -> SweepChange:
    """The conversion of one step."""
    statement = sweeps[0].statement
    made = plan.resolver.binding(name, statement)
    if not (isinstance(made, Binding) and made.statement.body is statement.body and _is_call(made)):
        raise Refused(
            f"{name} is not made by one call in the same block, so its settings may come from elsewhere"
        )
    call = made.value
    assert isinstance(call, ast.Call)
    settings = [
        use
        for use in scope.uses[name]
        if use.how != "argument"
        and use.path[0] == "runsettings"
        and plan.resolver.binding(name, use.statement) is made
    ]
    _refuse_other_uses(name, made, settings, sweeps[-1])
    reader = HyperdriveReader(plan.resolver, made.statement)
    spec = _sweep_spec(plan, made)
    if spec is not None:
        _take_spec(reader, spec, {str(keyword.arg) for keyword in call.keywords})
    of_spec = list(reader.spec.data["search_space"])
    drawn = [
        keyword for keyword in call.keywords if reader.distribution(keyword.value, str(keyword.arg))
    ]
    if not drawn and not of_spec:
        raise Refused(
            f"no argument of the call of {name} is a hyperdrive distribution that is imported here, so the search "
            "space is in its spec, which is not found here: convert that with `patch --sweep-to-v2`"
        )
    resources: dict[str, str] = {}
    compute = ""
    for use in settings:
        compute = _take(reader, use, resources) or compute
    change = SweepChange(statement, reader)
    change.expressions += [
        (made.statement, keyword.value, change.distributions[str(keyword.arg)]) for keyword in drawn
    ]
    change.arguments_added += [
        (made.statement, call, item, change.distributions[item]) for item in of_spec
    ]
    if plan.settings.compute:
        compute = literal(plan.settings.compute.removeprefix("azureml:"))
    *others, last = settings
    lines = [
        call_lines(f"{name} = {name}.sweep", change.arguments, last.statement.stmt.col_offset),
        f"{name}.resources = {resources_text(plan.settings, resources)}",
        *([f"{name}.compute = {compute}"] if compute else []),
    ]
    for use in others:
        change.replace(use.statement, "")
    change.replace(last.statement, "\n".join(lines))
    reason = (
        "`.sweep()` belongs to a command node: load what `patch --sweep-to-v2` writes for the sweep's spec"
        + _OF_V15 * _is_v15(plan, scope, made)
    )
    if spec is None:
        reason += ". That spec is not found here: what it sets and this code does not repeat is not in .sweep(...)"
    change.message = f"runsettings.sweep of {name} is written as {name}.sweep(...)"
    change.warning = f"{ast.unparse(call.func)} has to be a command component now", reason, call
    return change


def _sweep_spec(plan: PythonPlan, made: Binding) -> LegacySpec | None:
    """The v1.5 SweepComponent that a step is made of, if its file is here."""
    assert isinstance(made.value, ast.Call)
    component = plan.resolver.object_of(made.value.func, made.statement)
    if not isinstance(component, Component) or not component.file:
        return None
    path = os.path.normpath(os.path.join(plan.resolver.folder, component.file))
    data = read_or_none(plan.library.read, path)
    spec = parse_spec(path, data) if data is not None else None
    return spec if spec is not None and "sweep" in str(spec.data.get("type", "")).lower() else None


def _take_spec(reader: HyperdriveReader, spec: LegacySpec, passed: set[str]) -> None:
    """What the spec says, below all that the code sets; parameters that the call gives are the code's."""
    data = reader.spec.data
    for section in (*_SECTIONS, "search_space"):
        data[section] = {
            key: item for key, item in spec.mapping(section).items() if key not in passed
        }
    if "algorithm" in spec.data:
        data["algorithm"] = spec.data["algorithm"]
    metric = data["objective"].get("primary_metric")
    if isinstance(metric, dict):  # a default and the others that v1.5 allows
        data["objective"]["primary_metric"] = metric.get("default")


def _is_v15(plan: PythonPlan, scope: Scope, made: Binding) -> bool:
    """Whether the step's pipeline, or the component that it is made of, is of SDK v1.5."""
    pipeline = plan.resolver.pipeline(scope)
    assert isinstance(made.value, ast.Call)
    component = plan.resolver.object_of(made.value.func, made.statement)
    return any(
        isinstance(origin, PipelineFunction | Component) and origin.generation == "v1.5"
        for origin in (pipeline, component)
    )


def _is_call(made: Binding) -> bool:
    stmt = made.statement.stmt
    return (
        isinstance(stmt, ast.Assign) and len(stmt.targets) == 1 and isinstance(made.value, ast.Call)
    )


def _refuse_other_uses(name: str, made: Binding, settings: list[Use], last: Use) -> None:
    """Nothing else may use the name before its last sweep setting, and all its settings have to be readable."""
    body = made.statement.body
    taken = {id(use.statement.stmt) for use in settings}
    for use in settings:
        stmt = use.statement.stmt
        if use.statement.body is not body:
            raise Refused("its runsettings are set in another block too", line=stmt.lineno)
        if not isinstance(stmt, ast.Expr) and not (
            isinstance(stmt, ast.Assign) and len(stmt.targets) == 1
        ):
            raise Refused("this is not a plain assignment", line=stmt.lineno)
    for stmt in body[body.index(made.statement.stmt) + 1 : body.index(last.statement.stmt)]:
        if id(stmt) not in taken and any(
            isinstance(node, ast.Name) and node.id == name for node in ast.walk(stmt)
        ):
            reason = f"{name} is used before its last sweep setting, when it is not a sweep yet"
            raise Refused(reason, line=stmt.lineno)


def _take(reader: HyperdriveReader, use: Use, resources: dict[str, str]) -> str:
    """One `runsettings` statement into the spec or the resources; gives the text of the compute."""
    node, source = use.value, use.statement.source
    match use.path[1:]:
        case ("sweep", "algorithm"):
            reader.put(node, reader.value(node, "the algorithm"), "algorithm")
        case ("sweep", section, "configure") if section in _SECTIONS and isinstance(node, ast.Call):
            for keyword in _keywords(node, section):
                reader.put(
                    keyword.value,
                    reader.value(keyword.value, f"{section}.{keyword.arg}"),
                    section,
                    str(keyword.arg),
                )
        case ("sweep", "early_termination") if reader.policy(node):
            pass
        case ("sweep", section) if section in _SECTIONS:
            reader.put(node, reader.value(node, section), section)
        case ("sweep", section, key) if section in _SECTIONS:
            reader.put(node, reader.value(node, f"{section}.{key}"), section, key)
        case ("resource_layout", "configure") if isinstance(node, ast.Call):
            for keyword in _keywords(node, "resource_layout"):
                resources[_resource(keyword.arg, keyword.value)] = source.slice(keyword.value)
        case ("resource_layout", key):
            resources[_resource(key, node)] = source.slice(node)
        case ("target",):
            return source.slice(node)
        case ("configure",) if isinstance(node, ast.Call) and [
            item.arg for item in node.keywords
        ] == ["target"]:
            return source.slice(node.keywords[0].value)
        case path:
            raise Refused(
                f"runsettings.{'.'.join(path)} has no equivalent on a v2 sweep", line=node.lineno
            )
    return ""


def _keywords(call: ast.Call, section: str) -> list[ast.keyword]:
    if call.args or any(keyword.arg is None for keyword in call.keywords):
        raise Refused(
            f"{section}.configure takes **arguments that cannot be read", line=call.lineno
        )
    return call.keywords


def _resource(key: str | None, node: ast.expr) -> str:
    if key not in _RESOURCES:
        raise Refused(f"resource_layout.{key} has no equivalent on a v2 sweep", line=node.lineno)
    return _RESOURCES[key]
