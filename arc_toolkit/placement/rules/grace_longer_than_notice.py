"""A grace period that is longer than the notice of an eviction."""

from __future__ import annotations

from arc_toolkit.findings import Rule
from arc_toolkit.placement.place_plan import PlacePlan
from arc_toolkit.placement.rules._on_spot import cloud_of, shown, spot_specs


def _check(plan: PlacePlan) -> None:
    for workload, spec in spot_specs(plan):
        grace, notice = spec.text("terminationGracePeriodSeconds"), cloud_of(spec).notice
        if grace is not None and grace.isdigit() and int(grace) > notice:
            message = f"{shown(workload, spec)}: a grace period of {grace} s, with a notice of at most {notice} s"
            at = spec.get("terminationGracePeriodSeconds") or spec.node
            plan.report(
                RULE,
                message,
                at,
                "the pod is killed in the middle of what it does then; `place --grace` sets it",
            )


RULE = Rule("grace-longer-than-notice", "warning", check=_check)
