"""A role whose loss ends or restarts everything, on spot nodes."""

from __future__ import annotations

from arc_toolkit.findings import Rule
from arc_toolkit.placement.place_plan import PlacePlan
from arc_toolkit.placement.rules._on_spot import spot_specs


def _check(plan: PlacePlan) -> None:
    for workload, spec in spot_specs(plan):
        if spec.coordinator:
            message = f"{workload.shown}: {spec.role} is on spot nodes, and its eviction ends or restarts everything"
            plan.report(
                RULE,
                message,
                spec.node,
                "`place --spot require` keeps it off and leaves the workers there",
            )


RULE = Rule("coordinator-on-spot", "warning", check=_check)
