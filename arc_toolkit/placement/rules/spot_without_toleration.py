"""Pods that ask for spot nodes of AKS and do not tolerate their taint."""

from __future__ import annotations

from arc_toolkit.findings import Rule
from arc_toolkit.kube.taints import SPOT_TAINT
from arc_toolkit.placement.place_plan import PlacePlan
from arc_toolkit.placement.rules._on_spot import cloud_of, spot_advice, spot_pods
from arc_toolkit.placement.spot import SpotPolicy, requires_spot, tolerates
from arc_toolkit.placement.workload_decisions import shown_spec


def _check(plan: PlacePlan) -> None:
    for workload, spec in spot_pods(plan):
        if cloud_of(spec) != "aks" or tolerates(spec, SPOT_TAINT):
            continue
        is_required = requires_spot(spec)
        policy = SpotPolicy.REQUIRE if is_required else SpotPolicy.PREFER
        advice = spot_advice(plan, workload, spec, policy)
        pods = f"{shown_spec(workload, spec)} {'asks for' if is_required else 'prefers'} spot nodes"
        message = f"{pods} and does not tolerate their taint"
        # A coordinator is moved off spot nodes instead.
        effect = "keeps it off spot nodes" if spec.coordinator else "adds the toleration"
        plan.report(RULE, message, spec.node, advice.sentence(effect))


RULE = Rule("spot-without-toleration", "error", check=_check)
