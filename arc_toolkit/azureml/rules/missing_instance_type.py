"""A job or step on a Kubernetes compute that names no instance type."""

from __future__ import annotations

import re

from arc_toolkit.azureml.documents import Target
from arc_toolkit.azureml.kinds import Role
from arc_toolkit.azureml.plan import Plan
from arc_toolkit.edit.yaml_nodes import text_of
from arc_toolkit.findings import Rule

_KUBERNETES = re.compile(r"(?i)(?:^|[^a-z])(?:k8s|kubernetes|aks|amlarc|arc)(?![a-z])")


def _check(plan: Plan) -> None:
    for target in plan.known_targets():
        if target.kind.resources and target.kind.role in (Role.JOB, Role.STEP):
            evidence = kubernetes(plan, target)
            if evidence and plan.effective(target, "resources", "instance_type") is None:
                message = f"{target.shown} names no instance type: it gets 0.1 CPU and 2 GiB (limit 2 CPU)"
                reason = f"{evidence}; `patch --instance-type NAME` sets one"
                plan.report(RULE, message, target.at, reason=reason)


def kubernetes(plan: Plan, target: Target) -> str:
    """Why the compute is taken for Kubernetes; empty where nothing says so."""
    compute = plan.planned(target, "compute")
    if compute is None and target.parent is not None:
        compute = plan.planned(target.parent, "settings", "default_compute") or plan.planned(
            target.parent, "compute"
        )
    if compute and _KUBERNETES.search(compute.removeprefix("azureml:")):
        return f"compute {compute} looks like Kubernetes"
    if any(name.startswith("AMLARC_") for name in plan.variables(target)):
        return "it sets AMLARC variables"
    if plan.settings.instance_types and compute and not text_of(target.get("queue_settings", "job_tier")):
        return "--instance-types says that the cluster is Kubernetes"
    return ""


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
