"""Something that serves requests, keeps data or is used by people, on spot nodes."""

from __future__ import annotations

from arc_toolkit.findings import Rule
from arc_toolkit.placement.place_plan import PlacePlan
from arc_toolkit.placement.place_workloads import refusal_of
from arc_toolkit.placement.rules._on_spot import is_on_spot


def _check(plan: PlacePlan) -> None:
    for workload in plan.workloads:
        reason = refusal_of(workload) or ("it serves requests" if workload.kind.serves else "")
        if reason and any(is_on_spot(spec) for spec in workload.pod_specs):
            plan.report(RULE, f"{workload.shown} is on spot nodes", workload.node, reason)


RULE = Rule("serving-on-spot", "warning", check=_check)
