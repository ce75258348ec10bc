"""A workload on spot nodes that does not survive an eviction."""

from __future__ import annotations

from dataclasses import replace

from arc_toolkit.findings import Rule
from arc_toolkit.kube.workloads import Retry
from arc_toolkit.placement.decisions import Obstacle, PlacementDecision
from arc_toolkit.placement.field_inheritance import pods_of
from arc_toolkit.placement.manifests import PodSpec, Workload, makes_pod
from arc_toolkit.placement.place_plan import PlacePlan
from arc_toolkit.placement.rules._on_spot import advise
from arc_toolkit.placement.spot import is_on_spot
from arc_toolkit.placement.workload_decisions import decide_retries

# How often errors are retried; evictions are survived without such a number.
_LIMITS = frozenset(("backoffLimit", "maxRetry", "maxRestarts"))
# Lost workers and executors are recreated in any case; only a new head or driver is a retry.
_ONLY_COORDINATORS = (Retry.RAY_JOB, Retry.SPARK)
_RETRIES = 3


def _check(plan: PlacePlan) -> None:
    for workload in plan.workloads:
        on_spot = [spec for spec in pods_of(workload) if is_on_spot(spec)]
        if workload.kind.retry in _ONLY_COORDINATORS:
            on_spot = [spec for spec in on_spot if spec.coordinator]
        if not on_spot:
            continue
        decision = decide_retries(_part_on_spot(workload, on_spot), plan.settings, _RETRIES)
        if decision is None or (reason := _reason(plan, workload, decision)) is None:
            continue
        message = (
            f"{workload.shown} is on spot nodes, and an eviction counts as an error or ends it"
        )
        plan.report(RULE, message, workload.node, reason)


def _part_on_spot(workload: Workload, on_spot: list[PodSpec]) -> Workload:
    """Of an Argo workflow only the templates on spot nodes, and what holds for all templates."""
    if workload.kind.retry is not Retry.ARGO:
        return workload
    paths = {spec.path for spec in on_spot}
    specs = (spec for spec in workload.pod_specs if spec.path in paths or not makes_pod(spec))
    return replace(workload, pod_specs=tuple(specs))


def _reason(plan: PlacePlan, workload: Workload, decision: PlacementDecision) -> str | None:
    """Why an eviction is not survived, or what helps; None if it is survived, or not known."""
    if decision.refusal is not None:
        is_elsewhere = decision.refusal.obstacle is Obstacle.ELSEWHERE
        return None if is_elsewhere else decision.refusal.reason
    # A RayJob has no other field than its limit.
    limits = frozenset() if workload.kind.retry is Retry.RAY_JOB else _LIMITS
    if any(change.path[-1] not in limits for change in decision.changes):
        whole = decide_retries(workload, plan.settings, _RETRIES)
        advice = advise(plan, workload, [whole] if whole else [], "`place --retries N`")
        return advice.sentence("sets what its kind needs")
    return next((note.reason for note in decision.notes), None)


RULE = Rule("no-retry-on-spot", "warning", check=_check)
