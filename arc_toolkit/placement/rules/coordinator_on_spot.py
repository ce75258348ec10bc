"""A role whose loss ends or restarts everything, on spot nodes."""

from __future__ import annotations

from arc_toolkit.findings import Rule
from arc_toolkit.placement.manifests import Workload
from arc_toolkit.placement.place_plan import PlacePlan
from arc_toolkit.placement.rules._on_spot import spot_advice, spot_pods
from arc_toolkit.placement.spot import SpotPolicy, is_on_spot, requires_spot


def _check(plan: PlacePlan) -> None:
    for workload, spec in spot_pods(plan):
        if spec.coordinator:
            message = (
                f"{workload.shown}: {spec.role} is on spot nodes, "
                "and its eviction ends or restarts everything"
            )
            advice = spot_advice(plan, workload, spec, _policy_of_workers(workload))
            reason = advice.sentence("keeps it off and leaves the workers where they are")
            plan.report(RULE, message, spec.node, reason)


def _policy_of_workers(workload: Workload) -> SpotPolicy:
    """The policy with which `place` leaves the workers where they are."""
    workers = [spec for spec in workload.pod_specs if not spec.coordinator]
    if any(requires_spot(spec) for spec in workers):
        return SpotPolicy.REQUIRE
    return SpotPolicy.PREFER if any(is_on_spot(spec) for spec in workers) else SpotPolicy.AVOID


RULE = Rule("coordinator-on-spot", "warning", check=_check)
