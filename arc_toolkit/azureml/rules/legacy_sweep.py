"""A v1.5 SweepComponent, which cannot name an instance type."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from arc_toolkit.azureml.kinds import Family, Role
from arc_toolkit.azureml.plan import Plan
from arc_toolkit.findings import Rule

if TYPE_CHECKING:
    from arc_toolkit.azureml.python.python_plan import PythonPlan


def _check(plan: Plan) -> None:
    if plan.language == "python":
        _check_code(cast("PythonPlan", plan))
        return
    for root in (document.root for document in plan.documents):
        if root.kind.family == Family.SWEEP and root.kind.role == Role.SPEC:
            message = (
                "a SweepComponent (v1.5) cannot name an instance type: it has to become a v2 sweep"
            )
            plan.report(
                RULE, message, root.at, reason="`patch --sweep-to-v2` writes the v2 sweep beside it"
            )


def _check_code(plan: PythonPlan) -> None:
    """`step.runsettings.sweep...`, once for each step."""
    asked = plan.settings.sweep_to_v2
    for scope in plan.module.scopes:
        for name, uses in scope.uses.items():
            sweeps = [use for use in uses if use.path[:2] == ("runsettings", "sweep")]
            if sweeps:
                message = f"{name} is a sweep of SDK v1.5, which takes no instance type"
                reason = (
                    "it is not converted, see there" if asked else "convert it with --sweep-to-v2"
                )
                plan.report(RULE, message, plan.at(sweeps[0].statement), reason=reason)


RULE = Rule(
    "legacy-sweep",
    "warning",
    language="yaml, python",
    check=_check,
    needs=("SweepComponent", "runsettings"),
)
