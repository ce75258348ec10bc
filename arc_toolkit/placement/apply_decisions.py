"""Carrying out the decisions of `place` for the workloads of one file."""

from __future__ import annotations

from collections.abc import Iterable

from arc_toolkit.placement.decisions import PlacementDecision
from arc_toolkit.placement.manifests import UnknownObject, Workload
from arc_toolkit.placement.pipelines import (
    KIND,
    CompiledPipeline,
    decide_pipeline,
    is_chosen_pipeline,
)
from arc_toolkit.placement.place_plan import GRACE, RETRIES, SPOT, PlacePlan, PlaceSettings
from arc_toolkit.placement.workload_decisions import (
    chosen_specs,
    decide_grace,
    decide_retries,
    decide_spot,
    long_grace_note,
    refuse_duplicate_key,
)


def place_objects(plan: PlacePlan) -> None:
    """All settings, for every chosen workload of a file."""
    settings = plan.settings
    is_filtered = bool(settings.kinds or settings.names)
    for entry in plan.objects:
        if isinstance(entry, UnknownObject):
            if settings.spot is not None and settings.wants(SPOT) and not is_filtered:
                _refuse_unknown(plan, entry)
            continue
        plan.kinds.add(entry.kind.kind.lower())
        plan.names.add(entry.name)
        plan.roles |= {spec.role for spec in entry.pod_specs}
        if is_chosen(entry, settings):
            _place_workload(plan, entry)


def place_pipelines(plan: PlacePlan, pipelines: Iterable[CompiledPipeline]) -> None:
    """All settings, for every chosen pipeline of a file."""
    for pipeline in pipelines:
        plan.kinds.add(KIND)
        plan.names.add(pipeline.name)
        plan.roles |= {task.name.lower() for task in pipeline.tasks}
        if is_chosen_pipeline(pipeline, plan.settings):
            for decision in decide_pipeline(pipeline, plan.settings):
                _apply(plan, decision)


def needs_platform(plan: PlacePlan, pipelines: Iterable[CompiledPipeline], documents: int) -> bool:
    """Whether a decision changes settings of the platform in a document that does not exist yet."""
    return any(
        change.path[0] == documents
        for pipeline in pipelines
        if is_chosen_pipeline(pipeline, plan.settings)
        for decision in decide_pipeline(pipeline, plan.settings)
        if not plan.covers(decision.setting, decision.node)
        for change in decision.changes
    )


def is_chosen(workload: Workload, settings: PlaceSettings) -> bool:
    is_kind = not settings.kinds or workload.kind.kind.lower() in settings.kinds
    return is_kind and (not settings.names or workload.name in settings.names)


def _refuse_unknown(plan: PlacePlan, entry: UnknownObject) -> None:
    where = ".".join(str(step) for step in entry.template[1:])
    kind = f"{entry.api_version} {entry.kind}"
    plan.refuse(
        SPOT,
        f"{entry.kind} {entry.name} is not changed: {kind} is not a known kind",
        entry.node,
        f"it has a pod template at {where}: add tolerations and affinity there by hand",
    )


def _place_workload(plan: PlacePlan, workload: Workload) -> None:
    """A workload that is refused as a whole is not touched at all; else each role by itself."""
    settings, specs = plan.settings, chosen_specs(workload, plan.settings)
    if not plan.is_proved and (duplicate := refuse_duplicate_key(workload)) is not None:
        _apply(plan, duplicate)
        return
    if settings.spot is not None and settings.wants(SPOT):
        decisions = decide_spot(workload, settings)
        refused = {id(decision) for decision in decisions if not _apply(plan, decision)}
        on_spot = [decision for decision in decisions if decision.policy is settings.spot]
        if on_spot and refused.issuperset(map(id, on_spot)):
            return
        # A role off spot nodes keeps its grace period.
        off_spot = {
            id(decision.spec)
            for decision in decisions
            if id(decision) in refused or decision.policy is not settings.spot
        }
        specs = [spec for spec in specs if id(spec) not in off_spot]
    if settings.grace is not None and settings.wants(GRACE):
        for spec in specs:
            _apply(plan, decide_grace(workload, spec, settings, settings.grace))
        if (note := long_grace_note(workload, settings, settings.grace)) is not None:
            plan.add_finding(note.rule, note.severity, note.message, workload.node, note.reason)
    if settings.retries is not None and settings.wants(RETRIES):
        retries = decide_retries(workload, settings, settings.retries)
        if retries is not None:
            _apply(plan, retries)


def _apply(plan: PlacePlan, decision: PlacementDecision) -> bool:
    """Carry out a decision; False if it is refused."""
    setting, message, node = decision.setting, decision.message, decision.node
    refusals = len(plan.refusals)
    if decision.refusal is not None:
        plan.refuse(setting, message, node, decision.refusal.reason)
    elif not decision.changes or plan.attempt(setting, message, node, decision.apply):
        for note in decision.notes:
            plan.add_finding(note.rule, note.severity, note.message, node, note.reason)
    return len(plan.refusals) == refusals
