"""Whether the compute of a target is Kubernetes, a cluster of VMs, or unknown."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from arc_toolkit.azureml.documents import Target, is_bound
from arc_toolkit.azureml.plan import Plan

_KUBERNETES = re.compile(r"(?i)(?:^|[^a-z])(?:k8s|kubernetes|aks|amlarc|arc)(?![a-z])")
# Names of clusters of VMs (AmlCompute) in the samples of AzureML, and computes without a name.
_CLUSTER_OF_VMS = re.compile(
    r"(?i)^(?:serverless|local)$|(?:cpu|gpu)s?[-_]?cluster|amlcompute|aml[-_]compute"
)
# `Standard_NC6`: the instance type of a serverless job is a VM size, no name in Kubernetes.
_VM_SIZE = re.compile(r"(?i)^(?:standard|basic|singularity)[_.]")


class ComputeFacts(NamedTuple):
    # Why the compute counts as Kubernetes; empty without evidence.
    kubernetes: str
    # Whether it is a cluster of VMs, where a process sees the cores that it may use.
    is_elsewhere: bool


def compute_facts(plan: Plan, target: Target) -> ComputeFacts:
    """Decided once for each target."""
    facts: ComputeFacts | None = plan.rule_facts.get(target.path)
    if facts is None:
        facts = plan.rule_facts[target.path] = _decide(plan, target)
    return facts


def _decide(plan: Plan, target: Target) -> ComputeFacts:
    compute = _compute(plan, target)
    is_serverless = bool(target.text("queue_settings", "job_tier"))
    evidence = ""
    if compute and _matches(_KUBERNETES, compute):
        evidence = f"compute {compute} looks like Kubernetes"
    elif any(name.startswith("AMLARC_") for name in plan.variables(target)):
        evidence = "it sets AMLARC variables"
    elif plan.settings.instance_types and compute and not is_serverless:
        evidence = "--instance-types says that the cluster is Kubernetes"
    is_elsewhere = is_serverless or bool(compute and _matches(_CLUSTER_OF_VMS, compute))
    # Asked last, because the instance type may be in another file.
    is_elsewhere = is_elsewhere or bool(_VM_SIZE.match(plan.values.instance_type(target) or ""))
    return ComputeFacts(evidence, is_elsewhere)


# A run has few computes, each in many files.
@lru_cache(maxsize=256)
def _matches(pattern: re.Pattern[str], compute: str) -> bool:
    return pattern.search(compute.removeprefix("azureml:")) is not None


def _compute(plan: Plan, target: Target) -> str | None:
    holder: Target | None = target
    while holder is not None:
        compute = plan.values.own(holder, "compute")
        compute = compute or plan.values.own(holder, "settings", "default_compute")
        if compute is not None:
            return plan.values.resolved(holder, compute) if is_bound(compute) else compute
        holder = holder.parent
    return None
