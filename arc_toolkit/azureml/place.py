"""What was asked for, into every target of a file, whatever its language: one way to put a setting into a target.

`place` decides by what is there: nothing, the same, another value, a binding, or something that cannot be read.
`Target.state` reads it, `Plan.write` writes; which slots a kind keeps is in `kinds.KINDS`. Threads are placed in
`place_threads.py`.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from arc_toolkit.azureml.documents import RESOURCE_KEYS, Parameter, Setting, State, Target, is_bound
from arc_toolkit.azureml.kinds import Family, Role, Slot
from arc_toolkit.azureml.plan import Plan
from arc_toolkit.edit.yaml.nodes import INT, KeyPath, get, pairs, text_of
from arc_toolkit.findings import Severity

DEFAULT_COMPUTE = ("settings", "default_compute")


def place_settings(plan: Plan) -> None:
    """Everything that was asked for."""
    exposed = expose_parameters(plan) if plan.settings.expose_parameters else ()
    place_resources(plan, exposed)
    place_compute(plan)
    if plan.settings.threads not in (None, "off"):
        from arc_toolkit.azureml.place_threads import place_threads

        place_threads(plan)


def place(plan: Plan, target: Target, settings: Sequence[Setting]) -> list[Setting]:
    """Write the settings that differ from what a target has. Those that were written; why not is reported."""
    different = []
    for setting in settings:
        rule = setting.rule
        if not plan.wants(rule, target) or plan.ignored(rule, target, setting.path):
            continue
        if (why := plan.unsupported(target, setting.slot)) is not None:
            # What a kind cannot have is not a fault; a step of unknown kind may need it.
            severity: Severity = "warning" if _is_unknown(target) else "note"
            plan.add_finding(rule, severity, f"not set on {target.shown}", target.at, reason=why)
            continue
        if plan.inherits(target, setting.path):
            continue
        match target.state(setting):
            case State.EQUAL:
                plan.has_asked = True
            case State.ABSENT | State.DIFFERENT:
                different.append(setting)
            case State.BOUND:
                # Whoever bound it chose so: no fault.
                reason = f"it is bound to {target.written(setting.path)}"
                at = target.place_of(setting.path)
                plan.add_finding(rule, "note", _not_changed(target, setting), at, reason=reason)
            case State.OPAQUE:
                reason = target.opaque_reason(setting.path)
                plan.add_finding(
                    rule, "warning", _not_changed(target, setting), target.at, reason=reason
                )
    return (
        plan.write(target, [*different, *_repeated(plan, target, different)]) if different else []
    )


def _repeated(plan: Plan, target: Target, settings: Sequence[Setting]) -> list[Setting]:
    """What else the component says in the `resources` that the target's would replace."""
    new = {setting.path[-1]: setting for setting in settings if setting.path[0] == "resources"}
    if plan.language == "python" or not new:
        return []
    rule = next(iter(new.values())).rule
    repeated = []
    for name, (_, node) in pairs(plan.replaced_resources(target)).items():
        text = text_of(node)
        if name in new or name not in RESOURCE_KEYS or text is None or is_bound(text):
            continue
        if plan.planned(target, "resources", name) is None:
            value = int(text) if node.tag == INT and text.isdigit() else text
            repeated.append(Setting(rule, Slot.INSTANCE_TYPE, value, ("resources", name)))
    return repeated


def _is_unknown(target: Target) -> bool:
    return target.kind.family == Family.OTHER and target.kind.role == Role.STEP


def _not_changed(target: Target, setting: Setting) -> str:
    return f"{setting.path[-1]} of {target.shown} is not changed"


def _asked(plan: Plan) -> dict[Slot, str | int | None]:
    return {
        Slot.INSTANCE_TYPE: plan.settings.instance_type,
        Slot.INSTANCE_COUNT: plan.settings.instance_count,
    }


def place_resources(plan: Plan, exposed: Collection[tuple[Target, Slot]] = ()) -> None:
    """Instance type and count, except what is bound to an input of the pipeline."""
    asked = [
        Setting(slot.rule, slot, value) for slot, value in _asked(plan).items() if value is not None
    ]
    for target in plan.targets() if asked else ():
        if target.kind.family == Family.PIPELINE:
            report_other_file(plan, target, asked[0].rule)
        if target.kind.family in (Family.PIPELINE, Family.CONTROL):
            continue  # its steps have them
        if target.parent is not None and target.kind.role == Role.COMPONENT:
            continue  # written in place inside of a step, which overrides it
        if plan.leaves_to_parameters(target):
            continue
        settings = [
            setting.on(target) for setting in asked if (target, setting.slot) not in exposed
        ]
        if any(setting.slot is Slot.INSTANCE_COUNT for setting in settings):
            settings += _follow_count(plan, target)
        place(plan, target, settings)


def report_other_file(plan: Plan, target: Target, rule: str) -> None:
    """A pipeline that is a component in another place: its steps are set there, or not at all."""
    written = target.text("component")
    if plan.language == "python":  # there `component` is an expression
        written = os.path.basename(target.reference) if target.reference else None
    if written is None or not plan.wants(rule, target):
        return
    reason = f"the steps of {written} are in the workspace or a registry: set it where that component is written"
    if target.reference is not None:
        if plan.library.is_given(target.reference):
            return
        reason = f"its steps are in {written}: give that file too"
    plan.add_finding(
        rule, "warning", f"not set on the steps of {target.shown}", target.at, reason=reason
    )


# Arguments that say on how many nodes a program runs: of torchrun, LightGBM, Lightning, Accelerate.
_NODES = re.compile(
    r"(?<!\S)--?(?:(?:n|num[-_]?)nodes|node[-_]count|num[-_]machines)(?:[ \t]+|=)(\d+|\$\{\{[\w.]+\}\})(?!\S)"
)


def _follow_count(plan: Plan, target: Target) -> list[Setting]:
    """What depends on the count: changed with it, or reported."""
    count, rule = plan.settings.instance_count, Slot.INSTANCE_COUNT.rule
    at = target.path_of(Slot.INSTANCE_COUNT.path)
    if count is None or target.is_bound(at) or not target.kind.resources:
        return []
    path = ("distribution", "worker_count")
    workers = _of_step(plan, target, *path)
    nodes = _other_nodes(plan, target, str(count))
    most = target.text("resources", "max_instance_count") or ""
    is_above = most.isdigit() and int(most) < count
    if not (nodes or is_above) and workers in (None, str(count)):
        return []
    if not plan.wants(rule, target) or plan.ignored(rule, target, at):
        return []
    follows = f"does not follow --instance-count {count}"
    for argument in nodes:
        message = f"the command of {target.shown} has {argument}"
        at_command = target.place_of(("command",))
        plan.add_finding(
            rule,
            "warning",
            message,
            at_command,
            reason=f"the argument {follows}: change it by hand",
        )
    if is_above:
        message = f"max_instance_count of {target.shown} is {most}"
        at_most = target.place_of(("resources", "max_instance_count"))
        plan.add_finding(
            rule, "warning", message, at_most, reason=f"the maximum {follows}: change it by hand"
        )
    if workers in (None, str(count)):
        return []
    # Of TensorFlow; Microsoft Learn: the default of worker_count is the number of instances.
    servers = _of_step(plan, target, "distribution", "parameter_server_count") or "0"
    is_one_each = workers == _count_before(plan, target) and servers == "0"
    if is_one_each and plan.language == "yaml" and target.text(*path) is not None:
        return [Setting(rule, Slot.INSTANCE_COUNT, count, path)]
    message = f"worker_count of {target.shown} is {workers}"
    why = "change it by hand" if is_one_each else "its workers are not one per instance"
    plan.add_finding(rule, "warning", message, target.place_of(path), reason=f"it {follows}: {why}")
    return []


def _of_step(plan: Plan, target: Target, name: str, *path: str) -> str | None:
    """A value of a target; that of its component file only if this run does not change it there."""
    if name in target.own or _is_changed_there(plan, target):
        return target.text(name, *path)
    return plan.effective(target, name, *path)


def _is_changed_there(plan: Plan, target: Target) -> bool:
    """Whether what depends on the count is changed or reported in the component that a step names."""
    filtered = plan.settings.steps or plan.settings.kinds
    return target.reference is not None and plan.library.is_given(target.reference) and not filtered


def _other_nodes(plan: Plan, target: Target, count: str) -> list[str]:
    """Arguments of the command with another number of nodes, also by an input, which each step may give another."""
    command = plan.effective(target, "command") or ""
    if "node" not in command and "machines" not in command:  # cheap, and false nearly always
        return []
    is_own = "command" in target.own or not _is_changed_there(plan, target)
    arguments = []
    for match in _NODES.finditer(command):
        number = plan.resolved(target, match[1])
        if (
            number is not None
            and number.isdigit()
            and number != count
            and (is_own or "${{" in match[1])
        ):
            shown = f" ({number})" if "${{" in match[1] else ""
            arguments.append(match[0] + shown)
    return arguments


def _count_before(plan: Plan, target: Target) -> str:
    """The count that a target has without this run."""
    holders = (target, target.parent) if target.kind.role.is_trial else (target,)
    counts = [
        holder.text(*holder.path_of(Slot.INSTANCE_COUNT.path)) for holder in holders if holder
    ]
    counts.append(text_of(get(plan.replaced_resources(target), "instance_count")))
    return next((count for count in counts if count is not None), "1")


# Steps that run on a compute of another kind, or on none.
_ELSEWHERE = (Family.SPARK, Family.IMPORT, Family.DATA_TRANSFER, Family.FINETUNING, Family.CONTROL)


def place_compute(plan: Plan) -> None:
    """`compute` of jobs, the default of pipelines, and steps that name a compute of their own."""
    if plan.settings.compute is None:
        return
    value = plan.compute_reference(plan.settings.compute)
    steps_of: dict[int, list[Target]] = {}
    for target in plan.known_targets():
        if target.kind.role == Role.STEP:
            steps_of.setdefault(id(target.parent), []).append(target)
    for target in plan.targets():
        own = target.owns(("compute",))
        if plan.unsupported(target, Slot.COMPUTE) is not None and not (own and _is_unknown(target)):
            continue
        paths: list[KeyPath] = [("compute",)] if own else []
        if target.kind.family == Family.PIPELINE:
            steps = steps_of.get(id(target), [])
            running = [step for step in _leaves(plan, steps) if step.kind.family not in _ELSEWHERE]
            if steps and not running:
                continue
            has_default = target.text(*DEFAULT_COMPUTE) is not None
            needs_default = not steps or not all(step.owns(("compute",)) for step in running)
            if has_default or (needs_default and not own and plan.language == "yaml"):
                paths.insert(0, DEFAULT_COMPUTE)
        elif not own and plan.needs_compute(target):
            paths = [("compute",)]
        place(plan, target, [Setting("compute", Slot.COMPUTE, value, path) for path in paths])


def _leaves(plan: Plan, steps: Iterable[Target], depth: int = 0) -> Iterator[Target]:
    """The steps of a pipeline, with those of the pipelines that it uses in place of these, if they can be read."""
    for step in steps:
        document = (
            plan.library.referenced(step)
            if step.kind.family == Family.PIPELINE and depth < 9
            else None
        )
        if document is not None and any(document.steps):
            yield from _leaves(
                plan,
                (inner for inner in document.steps if inner.parent is document.root),
                depth + 1,
            )
        else:
            yield step


EXPOSE = "expose-parameters"


def expose_parameters(plan: Plan) -> set[tuple[Target, Slot]]:
    """Bind the steps of every pipeline; the steps and slots that are bound to an input."""
    exposed: set[tuple[Target, Slot]] = set()
    if not plan.settings.wants(EXPOSE):
        return exposed
    for pipeline, steps in plan.pipelines():
        slots: dict[Slot, set[Target]] = {}
        for slot, value in _asked(plan).items():
            # An ignore of the setting itself keeps a step's value as much as one of expose-parameters.
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
            place(
                plan,
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
    """The default of the new input, without a change to what the steps get; None after a finding that says why."""
    name = plan.parameter(pipeline, slot)
    binding = _binding(plan, pipeline, slot)
    unbound = [
        step
        for step in steps
        if step.state(binding) not in (State.BOUND, State.OPAQUE, State.EQUAL)
    ]
    values = {plan.effective(step, *slot.path) for step in unbound}
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
