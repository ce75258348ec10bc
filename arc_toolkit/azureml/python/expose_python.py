"""What `--expose-parameters` does in Python: the names of parameters, and how outer pipelines pass them on."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from arc_toolkit.azureml.expose import EXPOSE, parameter_names
from arc_toolkit.azureml.kinds import Slot
from arc_toolkit.azureml.python import sdk_objects as sdk
from arc_toolkit.azureml.python.python_targets import PythonPipeline
from arc_toolkit.azureml.python.sdk_objects import PipelineJob
from arc_toolkit.edit.code.expressions import calls_in, last_name
from arc_toolkit.edit.code.names import Statement

if TYPE_CHECKING:
    from arc_toolkit.azureml.python.python_plan import PythonPlan


def parameter_name(plan: PythonPlan, pipeline: PythonPipeline, slot: Slot) -> str:
    """The parameter for a slot: of the slot's name, unless the function has such a parameter for something else."""
    there = pipeline.parameters
    return next(
        name
        for name in parameter_names(slot)
        if name not in there or _is_for(plan, pipeline, name, slot)
    )


def _is_for(plan: PythonPlan, pipeline: PythonPipeline, name: str, slot: Slot) -> bool:
    """Whether a parameter is used for resources only; an inner pipeline may take it for its own."""
    fields = {slot.path[-1], *(("node_count",) if slot == Slot.INSTANCE_COUNT else ())}
    inner = {
        id(call): plan.parameter(plan.by_function[id(function)], slot)
        for _, function, _, call in _inner_calls(plan, pipeline)
    }
    right: set[int] = set()
    for node in ast.walk(pipeline.function):
        match node:
            case ast.Call(keywords=keywords) if id(node) in inner:
                right |= {id(item.value) for item in keywords if item.arg == inner[id(node)]}
            case ast.Call(keywords=keywords) if last_name(node.func) in sdk.TAKE_RESOURCES:
                right |= {id(item.value) for item in keywords if item.arg in fields}
            case ast.Dict(keys=keys, values=values):
                pairs = zip(keys, values, strict=True)
                right |= {
                    id(value) for key, value in pairs if getattr(key, "value", None) in fields
                }
            case ast.Assign(targets=[ast.Attribute(attr=attribute)], value=value) if (
                attribute in fields
            ):
                right.add(id(value))
    uses = (
        node
        for node in ast.walk(pipeline.function)
        if isinstance(node, ast.Name) and node.id == name
    )
    return all(id(node) in right for node in uses)


def pass_all_on(plan: PythonPlan) -> None:
    """A pipeline that calls another one passes the parameters of that one on."""
    calls = [call for pipeline in plan.python_pipelines for call in _inner_calls(plan, pipeline)]
    for _ in plan.python_pipelines:  # as deep as pipelines can be in each other
        before = len(plan.declared)
        for outer, inner, statement, call in calls:
            for slot in (Slot.INSTANCE_TYPE, Slot.INSTANCE_COUNT):
                _pass_on(plan, outer, inner, statement, call, slot)
        if len(plan.declared) == before:
            return


def _inner_calls(
    plan: PythonPlan, outer: PythonPipeline
) -> Iterator[tuple[PythonPipeline, ast.FunctionDef, Statement, ast.Call]]:
    scope = plan.resolver.scopes.get(id(outer.function))
    for statement in scope.statements if scope is not None else ():
        for call in calls_in(statement.stmt):
            sdk_object = plan.resolver.object_of(call, statement)
            if (
                isinstance(sdk_object, PipelineJob)
                and id(sdk_object.function.function) in plan.by_function
            ):
                yield outer, sdk_object.function.function, statement, call


def _pass_on(
    plan: PythonPlan,
    outer: PythonPipeline,
    inner: ast.FunctionDef,
    statement: Statement,
    call: ast.Call,
    slot: Slot,
) -> None:
    own, name = plan.parameter(outer, slot), plan.parameter(plan.by_function[id(inner)], slot)
    default = plan.declared.get((id(inner), name))
    if (
        default is None
        or any(keyword.arg in (name, None) for keyword in call.keywords)
        or not plan.chosen(outer)
    ):
        return
    there = plan.declared.get((id(outer.function), own))
    if there is None and not plan.declare(outer, slot, default):
        return
    if there is not None and there != default:
        reason = f"its pipelines have the defaults {there} and {default}"
        plan.add_finding(
            EXPOSE, "warning", f"{name} is not passed on", plan.at(statement, call), reason=reason
        )
        return
    plan.writer.bind(outer.function, own)
    plan.writer.changes.set(statement, call, name, own)
