"""A workload on spot nodes that does not survive an eviction."""

from __future__ import annotations

from dataclasses import replace

from arc_toolkit.edit.files.edits import Refused
from arc_toolkit.findings import Rule
from arc_toolkit.kube.workloads import Retry
from arc_toolkit.placement.manifests import PodSpec, Workload, makes_pod
from arc_toolkit.placement.place_plan import PlacePlan
from arc_toolkit.placement.retries import on_spot_nodes, set_retries
from arc_toolkit.placement.rules._on_spot import is_on_spot
from arc_toolkit.placement.spec_editor import RecordedOperations

# How often errors are tried again; evictions are survived without a number of one's own. A RayJob has no other field.
_LIMITS = frozenset(("backoffLimit", "maxRetry", "maxRestarts"))
# Lost workers and executors are made again in any case; only a new head or driver is a retry.
_ONLY_COORDINATORS = (Retry.RAY_JOB, Retry.SPARK)


def _check(plan: PlacePlan) -> None:
    for workload in plan.workloads:
        there = [spec for spec in workload.pod_specs if is_on_spot(spec)]
        if workload.kind.retry in _ONLY_COORDINATORS:
            there = [spec for spec in there if spec.coordinator]
        if there and (reason := _reason(_parts(workload, there))):
            message = (
                f"{workload.shown} is on spot nodes, and an eviction counts as an error or ends it"
            )
            plan.report(RULE, message, workload.node, reason)


def _parts(workload: Workload, there: list[PodSpec]) -> Workload:
    """Of an Argo workflow of which only some templates are there, those and what holds for all templates."""
    if workload.kind.retry is not Retry.ARGO or not all(map(makes_pod, there)):
        return workload
    specs = (spec for spec in workload.pod_specs if spec in there or not makes_pod(spec))
    return replace(workload, pod_specs=tuple(specs))


def _reason(workload: Workload) -> str:
    """Why an eviction is not survived; empty if it is."""
    asked = RecordedOperations()
    try:
        set_retries(asked, on_spot_nodes(workload, is_on_spot), 3)
    except Refused as refusal:
        return str(refusal)
    limits = frozenset() if workload.kind.retry is Retry.RAY_JOB else _LIMITS
    is_more = any(path[-1] not in limits for _, path, _ in asked.calls)
    return "`place --retries N` sets what its kind needs" if is_more else ""


RULE = Rule("no-retry-on-spot", "warning", check=_check)
