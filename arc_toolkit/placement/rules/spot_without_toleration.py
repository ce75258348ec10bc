"""Pods that ask for spot nodes of AKS and do not tolerate their taint."""

from __future__ import annotations

from arc_toolkit.findings import Rule
from arc_toolkit.placement.place_plan import PlacePlan
from arc_toolkit.placement.rules._on_spot import TAINT, cloud_of, is_on_spot, requires_spot, shown
from arc_toolkit.placement.spot import CLOUDS, tolerates


def _check(plan: PlacePlan) -> None:
    for workload in plan.workloads:
        for spec in workload.pod_specs:
            if is_on_spot(spec) and cloud_of(spec) is CLOUDS["aks"] and not tolerates(spec, TAINT):
                asks, policy = (
                    ("asks for", "require") if requires_spot(spec) else ("prefers", "prefer")
                )
                message = (
                    f"{shown(workload, spec)} {asks} spot nodes and does not tolerate their taint"
                )
                plan.report(
                    RULE, message, spec.node, f"`place --spot {policy}` adds the toleration"
                )


RULE = Rule("spot-without-toleration", "error", check=_check)
