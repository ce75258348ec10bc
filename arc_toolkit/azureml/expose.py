"""`--expose-parameters`: the resources of the steps of a pipeline become inputs of it, whatever the
language.
"""

from __future__ import annotations

from collections.abc import Iterator

from arc_toolkit.azureml.documents import Parameter, Setting, State, Target
from arc_toolkit.azureml.kinds import Slot
from arc_toolkit.azureml.plan import Plan

EXPOSE = "expose-parameters"


def parameter_names(slot: Slot) -> Iterator[str]:
    """What the input for a slot may be called, the best first."""
    field = slot.path[-1]
    yield field
    yield f"job_{field}"
    yield from (f"job_{field}_{number}" for number in range(2, 100))


def expose_parameters(plan: Plan) -> set[tuple[Target, Slot]]:
    """Bind the steps of every pipeline; the steps and slots that are bound to an input."""
    exposed: set[tuple[Target, Slot]] = set()
    if not plan.settings.wants(EXPOSE):
        return exposed
    for pipeline, steps in plan.pipelines():
        slots: dict[Slot, set[Target]] = {}
        for slot, value in plan.requested_resources().items():
            # An ignore of the setting itself keeps a step's value as much as one of
            # expose-parameters.
            free = [
                step
                for step in steps
                if plan.wants(EXPOSE, step)
                and not any(plan.ignored(rule, step, slot.path) for rule in (slot.rule, EXPOSE))
            ]
            default = value if plan.settings.wants(slot.rule) else None
            if free and default is None:
                default = _default(plan, pipeline, free, slot)
            if free and default is not None and plan.declare(pipeline, slot, default):
                slots[slot] = set(free)
        exposed |= {(step, slot) for step in steps for slot in slots}
        bindings = {slot: _binding(plan, pipeline, slot) for slot in slots}
        for step in steps:
            plan.place(
                step,
                [
                    bindings[slot]
                    for slot, free in slots.items()
                    if step in free and _binds(plan, step, bindings[slot])
                ],
            )
    plan.expose_others()
    return exposed


def _binds(plan: Plan, step: Target, setting: Setting) -> bool:
    """Whether a step takes the binding; why not is reported."""
    if step.is_bound(step.path_of(setting.path)):
        return True  # to this input, or to another, which `place` reports
    if not plan.bind(step, setting.slot):
        return False
    if (
        setting.slot == Slot.INSTANCE_COUNT
        and step.text("distribution", "worker_count") is not None
    ):
        message = f"worker_count of {step.shown} does not follow the parameter"
        reason = "without it, TensorFlow has one worker per instance: remove it"
        plan.add_finding(
            EXPOSE,
            "warning",
            message,
            step.place_of(("distribution", "worker_count")),
            reason=reason,
        )
    return True


def _binding(plan: Plan, pipeline: Target, slot: Slot) -> Setting:
    return Setting(EXPOSE, slot, Parameter(plan.parameter(pipeline, slot)))


def _default(plan: Plan, pipeline: Target, steps: list[Target], slot: Slot) -> str | int | None:
    """The default of the new input, without a change to what the steps get; None after a finding
    that says why.
    """
    name = plan.parameter(pipeline, slot)
    binding = _binding(plan, pipeline, slot)
    unbound = [
        step
        for step in steps
        if step.state(binding) not in (State.BOUND, State.OPAQUE, State.EQUAL)
    ]
    values = {plan.values.effective(step, *slot.path) for step in unbound}
    known = sorted(value for value in values if value is not None)
    declared = plan.declared_default(pipeline, name)
    option = f"use --{slot.rule}"
    reason = ""
    if len(values) > 1 and known:
        shown = ", ".join(known) + (" and none" if None in values else "")
        reason = f"its steps differ ({shown}): {option} to use one value for all"
    elif known and declared is not None and known[0] != declared:
        reason = (
            f"its steps have {known[0]}, and the default of the parameter is {declared!r}: {option}"
        )
    elif not known and declared is None and slot == Slot.INSTANCE_TYPE:
        reason = f"no step says which: {option}"
    if reason:
        plan.add_finding(EXPOSE, "warning", f"{name} is not exposed", pipeline.at, reason=reason)
        return None
    value = known[0] if known else declared or "1"
    return int(value) if slot == Slot.INSTANCE_COUNT and value.isdigit() else value
