"""A grace period that is longer than the notice of an eviction."""

from __future__ import annotations

from arc_toolkit.findings import Rule
from arc_toolkit.placement.place_plan import PlacePlan
from arc_toolkit.placement.rules._on_spot import advise, cloud_of, spot_pods
from arc_toolkit.placement.spot import CLOUDS
from arc_toolkit.placement.workload_decisions import decide_grace, shown_spec


def _check(plan: PlacePlan) -> None:
    for workload, spec in spot_pods(plan):
        grace, notice = spec.text("terminationGracePeriodSeconds"), CLOUDS[cloud_of(spec)].notice
        is_too_long = grace is not None and grace.isdigit() and int(grace) > notice
        if not (spec.shape.has_grace and is_too_long):
            continue
        message = (
            f"{shown_spec(workload, spec)}: a grace period of {grace} s, "
            f"with a notice of at most {notice} s"
        )
        decision = decide_grace(workload, spec, plan.settings, notice)
        advice = advise(plan, workload, [decision], f"`place --grace {notice}s`")
        reason = "the pod is killed in the middle of what it does then"
        remedy = advice.sentence("sets it")
        at = spec.get("terminationGracePeriodSeconds") or spec.node
        plan.report(RULE, message, at, f"{reason}; {remedy}" if remedy else reason)


RULE = Rule("grace-longer-than-notice", "warning", check=_check)
