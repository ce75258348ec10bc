"""Pods that tolerate the taint of spot nodes without asking for them."""

from __future__ import annotations

from arc_toolkit.findings import Rule
from arc_toolkit.placement.field_inheritance import pods_of
from arc_toolkit.placement.manifests import PodSpec
from arc_toolkit.placement.place_plan import PlacePlan
from arc_toolkit.placement.rules._on_spot import (
    Advice,
    chooses_nodes,
    names_spot_taint,
    spot_advice,
)
from arc_toolkit.placement.spot import (
    CLOUDS,
    SpotPolicy,
    SpotPreference,
    is_on_spot,
    required_preferences,
)
from arc_toolkit.placement.workload_decisions import shown_spec


def _check(plan: PlacePlan) -> None:
    for workload in plan.workloads:
        if workload.kind.kind == "DaemonSet":
            continue  # runs on every node that it tolerates, as intended
        for spec in pods_of(workload):
            if _only_tolerates(spec):
                message = (
                    f"{shown_spec(workload, spec)} tolerates spot nodes without asking for them"
                )
                policies = (SpotPolicy.REQUIRE, SpotPolicy.PREFER)
                advices = [spot_advice(plan, workload, spec, policy) for policy in policies]
                plan.report(RULE, message, spec.node, _reason(advices))


def _only_tolerates(spec: PodSpec) -> bool:
    return (
        names_spot_taint(spec)
        and not is_on_spot(spec)
        and SpotPreference.AWAY not in required_preferences(spec, CLOUDS["aks"].label)
        and not chooses_nodes(spec)
    )


def _reason(advices: list[Advice]) -> str:
    commands = [advice.command for advice in advices if advice.command]
    return Advice(" or ".join(commands), advices[0].refusal).sentence("adds a node affinity")


RULE = Rule("spot-toleration-only", "warning", check=_check)
