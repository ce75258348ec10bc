"""Pods that tolerate the taint of spot nodes and are not pulled there."""

from __future__ import annotations

from arc_toolkit.findings import Rule
from arc_toolkit.placement.place_plan import PlacePlan
from arc_toolkit.placement.rules._on_spot import chooses_nodes, is_on_spot, names_spot_taint, shown
from arc_toolkit.placement.spot import CLOUDS, Pull, pulls


def _check(plan: PlacePlan) -> None:
    for workload in plan.workloads:
        if workload.kind.kind == "DaemonSet":
            continue  # runs on every node that it tolerates, which is what is wanted
        for spec in workload.pod_specs:
            away = Pull.AWAY in pulls(spec, CLOUDS["aks"].label)
            if (
                names_spot_taint(spec)
                and not is_on_spot(spec)
                and not away
                and not chooses_nodes(spec)
            ):
                message = (
                    f"{shown(workload, spec)} tolerates spot nodes, but nothing pulls it there"
                )
                plan.report(
                    RULE,
                    message,
                    spec.node,
                    "`place --spot require` or `--spot prefer` adds a node affinity",
                )


RULE = Rule("spot-toleration-only", "warning", check=_check)
