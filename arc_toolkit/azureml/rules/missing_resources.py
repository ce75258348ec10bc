"""`node.resources.x = ...` where `resources` is None."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from arc_toolkit.azureml.plan import Plan
from arc_toolkit.findings import Rule

if TYPE_CHECKING:
    from arc_toolkit.azureml.python.python_plan import PythonPlan


def _check(plan: Plan) -> None:
    code = cast("PythonPlan", plan)
    for target in code.python_targets:
        giver = target.resources_giver if target.generation == "v2" else ""
        for use in target.uses if giver else ():
            if use.how == "argument" or use.path[0] not in ("resources", "set_resources"):
                continue
            if len(use.path) == 1:
                break  # there are resources from here on
            message = (
                f"{target.name}.resources is None, since {giver} has no resources (AttributeError)"
            )
            reason = f"write {target.name}.resources = JobResourceConfiguration(...)"
            plan.report(RULE, message, code.at(use.statement), reason=reason)


RULE = Rule("missing-resources", "error", language="python", check=_check, needs=(".resources.",))
