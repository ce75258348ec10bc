"""`--expose-parameters`: instance type and count as inputs of a pipeline, bound in its steps.

The default of an input is what was asked for, else the one value that all steps have, else (for a count that no step
says) 1, which is what the SDKs assume. Steps that differ are not made equal: the input is refused.
"""

from __future__ import annotations

from arc_toolkit.azureml.documents import Parameter, Setting, State, Target
from arc_toolkit.azureml.kinds import Slot
from arc_toolkit.azureml.place import place
from arc_toolkit.azureml.plan import Plan

RULE = "expose-parameters"


def expose_parameters(plan: Plan) -> set[tuple[Target, Slot]]:
    """Bind the steps of every pipeline; the steps and slots that are bound to an input."""
    exposed: set[tuple[Target, Slot]] = set()
    if not plan.settings.wants(RULE):
        return exposed
    asked = {Slot.INSTANCE_TYPE: plan.settings.instance_type, Slot.INSTANCE_COUNT: plan.settings.instance_count}
    for pipeline, steps in plan.pipelines():
        slots: dict[Slot, list[Target]] = {}
        for slot, value in asked.items():
            # An ignore of the setting itself keeps a step's value as much as one of expose-parameters.
            free = [
                step
                for step in steps
                if plan.wants(RULE, step)
                and not any(plan.ignored(rule, step, slot.value) for rule in (slot.rule, RULE))
            ]
            default = value if plan.settings.wants(slot.rule) else None
            if free and default is None:
                default = _default(plan, pipeline, free, slot)
            if free and default is not None and plan.declare(pipeline, slot, default):
                slots[slot] = free
        exposed |= {(step, slot) for step in steps for slot in slots}
        for step in steps:
            for setting in [_binding(slot) for slot, free in slots.items() if step in free]:
                if step.state(setting) in (State.BOUND, State.EQUAL) or plan.bind(step, setting.slot):
                    place(plan, step, [setting])
    plan.expose_others()
    return exposed


def _binding(slot: Slot) -> Setting:
    return Setting(RULE, slot, Parameter(slot.value[-1]))


def _default(plan: Plan, pipeline: Target, steps: list[Target], slot: Slot) -> str | int | None:
    """The default of the new input, without a change to what the steps get; None after a finding that says why."""
    name = slot.value[-1]
    unbound = [
        step for step in steps if step.state(_binding(slot)) not in (State.BOUND, State.OPAQUE, State.EQUAL)
    ]
    values = {plan.effective(step, *slot.value) for step in unbound}
    known = sorted(value for value in values if value is not None)
    declared = plan.declared_default(pipeline, name)
    option = f"use --{slot.rule}"
    reason = ""
    if len(values) > 1 and known:
        shown = ", ".join(known) + (" and none" if None in values else "")
        reason = f"its steps differ ({shown}): {option} to use one value for all"
    elif known and declared is not None and known[0] != declared:
        reason = f"its steps have {known[0]}, and the default of the parameter is {declared!r}: {option}"
    elif not known and declared is None and slot == Slot.INSTANCE_TYPE:
        reason = f"no step says which: {option}"
    if reason:
        plan.found(RULE, "warning", f"{name} is not exposed", pipeline.at, reason=reason)
        return None
    value = known[0] if known else declared or "1"
    return int(value) if slot == Slot.INSTANCE_COUNT and value.isdigit() else value
