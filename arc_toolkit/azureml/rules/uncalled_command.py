"""`node = command(...)` in a pipeline function, which makes no step unless it is called."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, cast

from arc_toolkit.azureml.plan import Plan
from arc_toolkit.azureml.python.sdk_names import LEAF_ATTRIBUTES
from arc_toolkit.findings import Rule

if TYPE_CHECKING:
    from arc_toolkit.azureml.python.python_plan import PythonPlan
    from arc_toolkit.azureml.python.python_targets import PythonTarget

# What is read or set of a command object without a step being made of it.
_HARMLESS = LEAF_ATTRIBUTES | {
    *(
        "outputs",
        "inputs",
        "name",
        "display_name",
        "description",
        "tags",
        "properties",
        "identity",
        "services",
    ),
    *("set_limits", "set_queue_settings", "queue_settings", "environment", "code", "command"),
}


def _check(plan: Plan) -> None:
    code = cast("PythonPlan", plan)
    for target in code.python_targets:
        builder = target.builder
        if (
            builder is None
            or builder.call is not target.call
            or builder.is_entity
            or target.refusal
        ):
            continue
        if (
            target.pipeline is not None
            and target.name
            and _is_only_described(target, target.pipeline.function)
        ):
            message = f"{target.name} is not a step of {target.pipeline.function.name}: it is never called"
            reason = f"write {target.name} = {ast.unparse(target.call.func)}(...)(), with its inputs in the second call"
            plan.report(RULE, message, target.at, reason=reason)


def _is_only_described(target: PythonTarget, function: ast.FunctionDef) -> bool:
    """Whether the function only reads and sets attributes of the name that holds a command object."""
    attributes = {
        id(node.value): node.attr
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    }
    names = (
        node for node in ast.walk(function) if isinstance(node, ast.Name) and node.id == target.name
    )
    loads = [node for node in names if isinstance(node.ctx, ast.Load)]
    return all(attributes.get(id(node)) in _HARMLESS for node in loads)


RULE = Rule(
    "uncalled-command",
    "error",
    language="python",
    check=_check,
    needs=("command(", "parallel_run_function("),
)
