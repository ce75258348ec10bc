"""One way to put a setting into a target, whatever the language: instance type, instance count and compute.

`place` decides by what is there: nothing, the same, another value, a binding, or something that cannot be read.
`Target.state` reads it, `Plan.write` writes; which slots a kind keeps is in `kinds.KINDS`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from arc_toolkit.azureml.documents import Setting, State, Target
from arc_toolkit.azureml.kinds import Family, Role, Slot
from arc_toolkit.azureml.plan import Plan
from arc_toolkit.edit.yaml_editor import Path

DEFAULT_COMPUTE = ("settings", "default_compute")


def place(plan: Plan, target: Target, settings: Sequence[Setting]) -> list[Setting]:
    """Write the settings that differ from what a target has. Those that were written; why not is reported."""
    different = []
    for setting in settings:
        rule = setting.rule
        if not plan.wants(rule, target) or plan.ignored(rule, target, setting.path):
            continue
        if (why := plan.unsupported(target, setting.slot)) is not None:
            plan.found(rule, "note", f"not set on {target.shown}", target.at, reason=why)
            continue
        match target.state(setting):
            case State.ABSENT | State.DIFFERENT:
                different.append(setting)
            case State.EQUAL:
                plan.says_equal(target, setting)
            case State.BOUND:
                # Whoever bound it chose so: no fault.
                reason = f"it is bound to {target.written(setting.path)}"
                at = target.place_of(setting.path)
                plan.found(rule, "note", _not_changed(target, setting), at, reason=reason)
            case State.OPAQUE:
                reason = target.opaque_reason(setting.path)
                plan.found(rule, "warning", _not_changed(target, setting), target.at, reason=reason)
    return plan.write(target, different) if different else []


def _not_changed(target: Target, setting: Setting) -> str:
    return f"{setting.path[-1]} of {target.shown} is not changed"


def resource_settings(plan: Plan) -> list[Setting]:
    """Instance type and count as far as they are asked for."""
    asked = (
        (Slot.INSTANCE_TYPE, plan.settings.instance_type),
        (Slot.INSTANCE_COUNT, plan.settings.instance_count),
    )
    return [Setting(slot.rule, slot, value) for slot, value in asked if value is not None]


def place_resources(plan: Plan, exposed: Collection[tuple[Target, Slot]] = ()) -> None:
    """Instance type and count, except what is bound to an input of the pipeline."""
    settings = resource_settings(plan)
    for target in plan.targets() if settings else ():
        if target.kind.family == Family.PIPELINE:
            continue  # its steps have them
        if target.parent is not None and target.kind.role == Role.COMPONENT:
            continue  # written in place inside of a step, which overrides it
        if plan.leaves_to_parameters(target):
            continue
        place(plan, target, [setting for setting in settings if (target, setting.slot) not in exposed])


def place_compute(plan: Plan) -> None:
    """`compute` of jobs, the default of pipelines, and steps that name a compute of their own."""
    if plan.settings.compute is None:
        return
    value = plan.compute_reference(plan.settings.compute)
    for target in plan.targets():
        if plan.unsupported(target, Slot.COMPUTE) is not None:
            continue
        own = target.text("compute") is not None
        paths: list[Path] = [("compute",)] if own else []
        if target.kind.family == Family.PIPELINE:
            if target.text(*DEFAULT_COMPUTE) is not None or (not own and plan.adds_default_compute):
                paths.insert(0, DEFAULT_COMPUTE)
        elif not own and plan.needs_compute(target):
            paths = [("compute",)]
        place(plan, target, [Setting("compute", Slot.COMPUTE, value, path) for path in paths])
