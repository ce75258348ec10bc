"""A v2 component that no pipeline in the given folders uses."""

from __future__ import annotations

from arc_toolkit.azureml.kinds import Role
from arc_toolkit.azureml.plan import Plan
from arc_toolkit.findings import Rule


def _check(plan: Plan) -> None:
    reason = "settings that a component cannot hold (environment variables, compute) have no step to go to"
    for root in (document.root for document in plan.documents if plan.in_folder):
        if root.kind.role == Role.COMPONENT and not plan.library.uses(plan.path):
            message = f"nothing in the given paths uses {root.kind.name} `{root.name}`"
            plan.report(RULE, message, root.at, reason=reason)


RULE = Rule("unused-component", "note", check=_check)
