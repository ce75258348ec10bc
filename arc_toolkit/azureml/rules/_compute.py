"""What the compute of a target is: Kubernetes, something else, or not known. Not a rule itself."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from arc_toolkit.azureml.documents import Target, is_bound
from arc_toolkit.azureml.plan import Plan
from arc_toolkit.edit.yaml.nodes import text_of

_KUBERNETES = re.compile(r"(?i)(?:^|[^a-z])(?:k8s|kubernetes|aks|amlarc|arc)(?![a-z])")
# The names that the samples of AzureML give to clusters of VMs (AmlCompute), and computes that need no name.
_CLUSTER_OF_VMS = re.compile(
    r"(?i)^(?:serverless|local)$|(?:cpu|gpu)s?[-_]?cluster|amlcompute|aml[-_]compute"
)
# `Standard_NC6`: a VM size is the instance type of a serverless job; no name in Kubernetes has capitals or `_`.
_VM_SIZE = re.compile(r"(?i)^(?:standard|basic|singularity)[_.]")


class ComputeFacts(NamedTuple):
    """What is known about the compute of a target."""

    # Why it is taken for Kubernetes; empty where nothing says so.
    kubernetes: str
    # Whether it is one of VMs, which have just the cores that a process sees.
    is_elsewhere: bool


def kubernetes(plan: Plan, target: Target) -> str:
    """Why the compute is taken for Kubernetes; empty where nothing says so."""
    return compute_facts(plan, target).kubernetes


def compute_facts(plan: Plan, target: Target) -> ComputeFacts:
    """Found once for a target: four rules ask."""
    facts = plan.computes.get(target.path)
    if facts is None:
        compute = _compute(plan, target)
        facts = ComputeFacts(
            _why_kubernetes(plan, target, compute), _is_elsewhere(plan, target, compute)
        )
        plan.computes[target.path] = facts
    return facts


def _why_kubernetes(plan: Plan, target: Target, compute: str | None) -> str:
    if compute and _matches(_KUBERNETES, compute):
        return f"compute {compute} looks like Kubernetes"
    if any(name.startswith("AMLARC_") for name in plan.variables(target)):
        return "it sets AMLARC variables"
    if (
        plan.settings.instance_types
        and compute
        and not text_of(target.get("queue_settings", "job_tier"))
    ):
        return "--instance-types says that the cluster is Kubernetes"
    return ""


def _is_elsewhere(plan: Plan, target: Target, compute: str | None) -> bool:
    if compute and _matches(_CLUSTER_OF_VMS, compute):
        return True
    if text_of(target.get("queue_settings", "job_tier")):
        return True
    instance_type = plan.instance_type(target)  # last, because it may be in another file
    return instance_type is not None and _VM_SIZE.match(instance_type) is not None


# A run has few computes, each in many files.
@lru_cache(maxsize=256)
def _matches(pattern: re.Pattern[str], compute: str) -> bool:
    return pattern.search(compute.removeprefix("azureml:")) is not None


def _compute(plan: Plan, target: Target) -> str | None:
    holder: Target | None = target
    while holder is not None:
        compute = plan.planned(holder, "compute") or plan.planned(
            holder, "settings", "default_compute"
        )
        if compute is not None:
            return plan.resolved(holder, compute) if is_bound(compute) else compute
        holder = holder.parent
    return None
