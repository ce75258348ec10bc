"""A job or step on a Kubernetes compute that names no instance type."""

from __future__ import annotations

from arc_toolkit.azureml.kinds import Role
from arc_toolkit.azureml.plan import Plan
from arc_toolkit.azureml.rules._compute import kubernetes
from arc_toolkit.findings import Rule


def _check(plan: Plan) -> None:
    for target in plan.known_targets():
        if target.kind.resources and target.kind.role in (Role.JOB, Role.STEP):
            evidence = kubernetes(plan, target)
            if evidence and plan.effective(target, "resources", "instance_type") is None:
                message = f"{target.shown} names no instance type: it gets 0.1 CPU and 2 GiB (limit 2 CPU)"
                reason = f"{evidence}; `patch --instance-type NAME` sets one"
                plan.report(RULE, message, target.at, reason=reason)


RULE = Rule("missing-instance-type", "warning", language="yaml, python", check=_check)
