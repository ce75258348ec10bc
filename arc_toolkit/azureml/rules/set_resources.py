"""`node.set_resources(...)` in SDK v2, which writes into the component that all nodes share."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from arc_toolkit.azureml.plan import Plan
from arc_toolkit.azureml.python.meaning import Builder
from arc_toolkit.findings import Rule

if TYPE_CHECKING:
    from arc_toolkit.azureml.python.python_plan import PythonPlan
    from arc_toolkit.azureml.python.python_targets import PythonTarget
    from arc_toolkit.azureml.python.python_writer import PythonWriter
    from arc_toolkit.edit.code.names import Use


def _check(plan: Plan) -> None:
    code = cast("PythonPlan", plan)
    known = {}
    for target in code.python_targets:
        for use in target.set_resources if target.generation == "v2" and not target.refusal else ():
            known[id(use)] = target
    for scope in code.module.scopes:
        for name, uses in scope.uses.items():
            for use in uses:
                if use.how == "call" and use.path == ("set_resources",):
                    _report(code, name, use, known.get(id(use)))


def _report(plan: PythonPlan, name: str, use: Use, target: PythonTarget | None) -> None:
    message = f"{name}.set_resources() writes into the component that all its steps share"
    way_out = "assign resources = JobResourceConfiguration(...) instead"
    at = plan.at(use.statement)
    if target is None and isinstance(plan.meanings.of_name(name, use.statement), Builder):
        return  # a job of its own, whose component nothing shares
    if target is None:
        plan.report(
            RULE, f"{message}: {way_out}", at, reason=f"it is not certain which step {name} is"
        )
        return

    def fix(writer: PythonWriter) -> None:
        writer.assign_resources(target, use)

    problem = target.set_resources_problem
    message = f"{message}, and a bound instance_count then fails to serialize: {way_out}"
    plan.report(
        RULE,
        message,
        at,
        reason=problem,
        fix=None if problem else fix,
        title=f"Assign {name}.resources",
    )


RULE = Rule(
    "set-resources",
    "warning",
    fix="safe",
    language="python",
    check=_check,
    needs=("set_resources",),
)
