"""Everything that was asked for, into every target of a file, whatever its language.

`Plan.place` puts one setting into a target; here is which setting goes to which target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from arc_toolkit.azureml.apply_threads import place_threads
from arc_toolkit.azureml.documents import Setting, Target
from arc_toolkit.azureml.expose import Exposer, expose_parameters
from arc_toolkit.azureml.kinds import TRIALS, Family, Role, Slot
from arc_toolkit.azureml.plan import MAX_PIPELINE_DEPTH, Plan
from arc_toolkit.edit.yaml.nodes import KeyPath, get, text_of


def apply_settings(plan: Plan, make_exposer: Callable[[], Exposer]) -> None:
    """Everything that was asked for."""
    place_resources(plan, make_exposer() if plan.settings.expose_parameters else None)
    place_compute(plan)
    if plan.settings.threads not in (None, "off"):
        place_threads(plan)


def place_resources(plan: Plan, exposer: Exposer | None) -> None:
    """Instance type and count: literal values, or bound to an input of the pipeline."""
    exposed = expose_parameters(plan, exposer) if exposer is not None else set()
    requested = [
        Setting(slot.rule, slot, value)
        for slot, value in plan.requested_resources().items()
        if value is not None
    ]
    for target in plan.targets() if requested else ():
        kind = target.kind
        if kind.family == Family.PIPELINE:
            plan.report_other_file(target, requested[0].rule)
        if kind.family in (Family.PIPELINE, Family.CONTROL):
            continue  # its steps have them
        if target.parent is not None and kind.role == Role.COMPONENT:
            continue  # written in place inside of a step, which overrides it
        if exposer is not None and exposer.leaves_to_parameters(target):
            continue
        free = [item for item in requested if (target, item.slot) not in exposed]
        settings = [setting.on(target) for setting in free]
        if any(setting.slot is Slot.INSTANCE_COUNT for setting in free):
            settings += _follow_count(plan, target)
        plan.place(target, settings)


_COUNT = Slot.INSTANCE_COUNT.path
_WORKERS = ("distribution", "worker_count")
_SERVERS = ("distribution", "parameter_server_count")


def _follow_count(plan: Plan, target: Target) -> list[Setting]:
    """`worker_count` of TensorFlow, which depends on the count: changed with it, or reported.

    `--instance-count 4` on a job with `worker_count: 2` and 2 instances sets `worker_count: 4`.
    Microsoft Learn: the default of worker_count is the number of instances.
    """
    count, rule = plan.settings.instance_count, Slot.INSTANCE_COUNT.rule
    workers = _value_here(plan, target, *_WORKERS)
    at = target.path_of(_COUNT)
    if count is None or workers in (None, str(count)) or target.is_bound(at):
        return []
    is_wanted = target.kind.resources and plan.wants(rule, target)
    if not is_wanted or plan.ignored(rule, target, at):
        return []
    servers = _value_here(plan, target, *_SERVERS) or "0"
    is_one_each = workers == _count_before(plan, target) and servers == "0"
    if is_one_each and plan.language == "yaml" and target.owns(_WORKERS):
        return [Setting(rule, Slot.INSTANCE_COUNT, count, _WORKERS)]
    message = f"worker_count of {target.shown} is {workers}"
    why = "change it by hand" if is_one_each else "its workers are not one per instance"
    reason = f"it does not follow --instance-count {count}: {why}"
    plan.warn(rule, message, target.place_of(_WORKERS), reason)
    return []


def _value_here(plan: Plan, target: Target, name: str, *path: str) -> str | None:
    """A value of a target; that of its component file only if this run does not change it there."""
    filtered = plan.settings.steps or plan.settings.kinds
    is_given = target.reference is not None and plan.project.is_given(target.reference)
    if name in target.fields or (is_given and not filtered):
        return target.text(name, *path)
    return plan.values.effective(target, name, *path)


def _count_before(plan: Plan, target: Target) -> str:
    """The count that a target has without this run."""
    holders = (target, target.parent) if target.kind.role in TRIALS else (target,)
    counts = [holder.text(*holder.path_of(_COUNT)) for holder in holders if holder]
    counts.append(text_of(get(plan.values.replaced_resources(target), "instance_count")))
    return next((count for count in counts if count is not None), "1")


# Steps that run on a compute of another kind, or on none.
_ELSEWHERE = (Family.SPARK, Family.IMPORT, Family.DATA_TRANSFER, Family.FINETUNING, Family.CONTROL)
_COMPUTE = Slot.COMPUTE.path
_DEFAULT_COMPUTE = ("settings", "default_compute")


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
        has_compute = target.owns(_COMPUTE)
        is_supported = plan.unsupported(target, Slot.COMPUTE) is None
        if not is_supported and not (has_compute and target.is_unknown_step):
            continue
        needs_compute = has_compute
        paths: list[KeyPath] = []
        if target.kind.family == Family.PIPELINE:
            steps = steps_of.get(id(target), [])
            running = [step for step in _leaves(plan, steps) if step.kind.family not in _ELSEWHERE]
            if steps and not running:
                continue
            needs_default = not steps or not all(step.owns(_COMPUTE) for step in running)
            is_added = needs_default and not has_compute and plan.language == "yaml"
            if target.owns(_DEFAULT_COMPUTE) or is_added:
                paths.append(_DEFAULT_COMPUTE)
        elif not has_compute:
            needs_compute = plan.needs_compute(target)
        if needs_compute:
            paths.append(_COMPUTE)
        plan.place(target, [Setting("compute", Slot.COMPUTE, value, path) for path in paths])


def _leaves(plan: Plan, steps: Iterable[Target], depth: int = 0) -> Iterator[Target]:
    """The steps of a pipeline; a nested pipeline is replaced by its steps, if they can be read."""
    for step in steps:
        is_pipeline = step.kind.family == Family.PIPELINE and depth < MAX_PIPELINE_DEPTH
        document = plan.project.referenced(step) if is_pipeline else None
        if document is not None and any(document.steps):
            inner = (item for item in document.steps if item.parent is document.root)
            yield from _leaves(plan, inner, depth + 1)
        else:
            yield step
