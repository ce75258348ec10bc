"""Everything that was asked for, into every target of a file, whatever its language.

`Plan.place` puts one setting into a target; here is which setting goes to which target.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from arc_toolkit.azureml.apply_threads import place_threads
from arc_toolkit.azureml.documents import Setting, Target
from arc_toolkit.azureml.expose import expose_parameters
from arc_toolkit.azureml.kinds import Family, Role, Slot
from arc_toolkit.azureml.plan import Plan
from arc_toolkit.edit.yaml.nodes import KeyPath, get, text_of

DEFAULT_COMPUTE = ("settings", "default_compute")


def apply_settings(plan: Plan) -> None:
    """Everything that was asked for."""
    exposed = expose_parameters(plan) if plan.settings.expose_parameters else ()
    place_resources(plan, exposed)
    place_compute(plan)
    if plan.settings.threads not in (None, "off"):
        place_threads(plan)


def place_resources(plan: Plan, exposed: Collection[tuple[Target, Slot]] = ()) -> None:
    """Instance type and count, except what is bound to an input of the pipeline."""
    asked = [
        Setting(slot.rule, slot, value)
        for slot, value in plan.requested_resources().items()
        if value is not None
    ]
    for target in plan.targets() if asked else ():
        if target.kind.family == Family.PIPELINE:
            plan.report_other_file(target, asked[0].rule)
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
        plan.place(target, settings)


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
    workers = _value_here(plan, target, *path)
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
    servers = _value_here(plan, target, "distribution", "parameter_server_count") or "0"
    is_one_each = workers == _count_before(plan, target) and servers == "0"
    if is_one_each and plan.language == "yaml" and target.text(*path) is not None:
        return [Setting(rule, Slot.INSTANCE_COUNT, count, path)]
    message = f"worker_count of {target.shown} is {workers}"
    why = "change it by hand" if is_one_each else "its workers are not one per instance"
    plan.add_finding(rule, "warning", message, target.place_of(path), reason=f"it {follows}: {why}")
    return []


def _value_here(plan: Plan, target: Target, name: str, *path: str) -> str | None:
    """A value of a target; that of its component file only if this run does not change it there."""
    if name in target.own or _is_changed_in_component(plan, target):
        return target.text(name, *path)
    return plan.values.effective(target, name, *path)


def _is_changed_in_component(plan: Plan, target: Target) -> bool:
    """Whether what depends on the count is changed or reported in the component that a step names."""
    filtered = plan.settings.steps or plan.settings.kinds
    return target.reference is not None and plan.library.is_given(target.reference) and not filtered


def _other_nodes(plan: Plan, target: Target, count: str) -> list[str]:
    """Arguments of the command with another number of nodes, also by an input, which each step may give another."""
    command = plan.values.effective(target, "command") or ""
    if "node" not in command and "machines" not in command:  # cheap, and false nearly always
        return []
    is_own = "command" in target.own or not _is_changed_in_component(plan, target)
    arguments = []
    for match in _NODES.finditer(command):
        number = plan.values.resolved(target, match[1])
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
    counts.append(text_of(get(plan.values.replaced_resources(target), "instance_count")))
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
        if plan.unsupported(target, Slot.COMPUTE) is not None and not (
            own and target.is_unknown_step
        ):
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
        plan.place(target, [Setting("compute", Slot.COMPUTE, value, path) for path in paths])


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
