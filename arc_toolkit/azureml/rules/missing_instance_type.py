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


RULE = Rule(
    id="missing-instance-type",
    severity="warning",
    fix="none",
    summary="no instance type on a Kubernetes compute",
    why="""\
Without an instance type a job gets `defaultinstancetype`: a request of 0.1 CPU and 2 GiB, a limit of 2 CPU and 2 GiB
([Microsoft Learn](https://learn.microsoft.com/azure/machine-learning/how-to-manage-kubernetes-instance-types)). That
is enough for a hello world, and training ends with OOMKilled. A compute is taken for Kubernetes by its name (k8s,
kubernetes, aks, arc), by AMLARC variables, or because `--instance-types` is given. `patch --instance-type NAME` sets
one.""",
    before="""\
compute: azureml:aks-gpu
command: python train.py
""",
    after="""\
compute: azureml:aks-gpu
resources:
  instance_type: 32cpu128g
command: python train.py
""",
    language="yaml, python",
    check=_check,
)
