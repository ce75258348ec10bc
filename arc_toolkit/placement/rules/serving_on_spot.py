"""Something that serves requests, keeps data or is used by people, on spot nodes."""

from __future__ import annotations

from arc_toolkit.findings import Rule
from arc_toolkit.placement.field_inheritance import pods_of
from arc_toolkit.placement.place_plan import PlacePlan
from arc_toolkit.placement.spot import is_on_spot
from arc_toolkit.placement.workload_decisions import spot_refusal


def _check(plan: PlacePlan) -> None:
    for workload in plan.workloads:
        reason = spot_refusal(workload)
        if reason and any(map(is_on_spot, pods_of(workload))):
            plan.report(RULE, f"{workload.shown} is on spot nodes", workload.node, reason)


RULE = Rule("serving-on-spot", "warning", check=_check)
