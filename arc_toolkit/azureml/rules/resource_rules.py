"""Rules about instance types and instance counts."""

from __future__ import annotations

from arc_toolkit.azureml.documents import Target, is_bound
from arc_toolkit.azureml.kinds import Family, Role, Slot
from arc_toolkit.azureml.plan import Plan
from arc_toolkit.azureml.rules import target_rule
from arc_toolkit.azureml.rules.compute_facts import compute_facts
from arc_toolkit.azureml.threads import gpus_of, launched_processes
from arc_toolkit.kube.labels import name_problem
from arc_toolkit.text import nearest

_TYPE = Slot.INSTANCE_TYPE.path
_COUNT = Slot.INSTANCE_COUNT.path
_MAX_LISTED_TYPES = 5


@target_rule("warning", language="yaml, python")
def missing_instance_type(plan: Plan, target: Target) -> None:
    if not target.kind.resources or target.kind.role not in (Role.JOB, Role.STEP):
        return
    evidence = compute_facts(plan, target).kubernetes
    if evidence and plan.values.effective(target, *_TYPE) is None:
        defaults = "it gets 0.1 CPU and 2 GiB (limit 2 CPU)"
        message = f"{target.shown} names no instance type: {defaults}"
        reason = f"{evidence}; `patch --instance-type NAME` sets one"
        plan.report(missing_instance_type, message, target.at, reason=reason)


@target_rule("error", language="yaml, python")
def unknown_instance_type(plan: Plan, target: Target) -> None:
    types = plan.settings.instance_types
    path = target.path_of(_TYPE)
    name = plan.values.own(target, *map(str, path)) if target.kind.resources else None
    if not name or is_bound(name) or name in types:
        return
    if types:
        near = nearest(name, types)
        listed = ", ".join(sorted(types)[:_MAX_LISTED_TYPES])
        message = f"no instance type {name} in --instance-types"
        reason = f"did you mean {near}?" if near else f"there are {listed}"
    else:  # an instance type is a name in Kubernetes
        message = name_problem(name) or ""
        reason = compute_facts(plan, target).kubernetes if message else ""
    if reason:
        node = target.get(*path) or target.at
        plan.report(unknown_instance_type, message, node, reason=reason)


@target_rule("error", needs=("instance_count",))
def invalid_instance_count(plan: Plan, target: Target) -> None:
    path = target.path_of(_COUNT)
    text = target.text(*path)
    if not text or not target.kind.resources or is_bound(text):
        return
    if not (text.isascii() and text.isdigit() and int(text) >= 1):
        problem = "it has to be a whole number from 1"
        message = f"`instance_count: {text}` of {target.shown}: {problem}"
        plan.report(invalid_instance_count, message, target.place_of(path))


@target_rule("error", language="yaml, python", needs=("instance_count",))
def bound_instance_count(plan: Plan, target: Target) -> None:
    path = target.path_of(_COUNT)
    node = target.get(*path)
    if node is None or not target.kind.resources or not target.is_bound(path):
        return
    if path != _COUNT:
        message = "a bound `instance_count` beside `component` is rejected (not a valid integer)"
        reason = "bind it below `resources`"
    elif target.kind.role != Role.STEP:
        value = f"`instance_count: {target.text(*path)}`"
        message = f"a {target.kind.name} rejects {value} (not a valid integer)"
        reason = "bind it on the pipeline's step: `patch --expose-parameters`"
    elif target.kind.family == Family.COMMAND and not (
        target.get("component") and target.owns(path)
    ):
        message = "an inline command step rejects a bound instance_count (`component` missing)"
        reason = "move the job to a component file"
    else:
        return
    plan.report(bound_instance_count, message, node, reason=reason)


@target_rule("warning", language="yaml, python", needs=("instance_count",))
def gpus_without_distribution(plan: Plan, target: Target) -> None:
    kind = target.kind
    if kind.family != Family.COMMAND or kind.role not in (Role.JOB, Role.STEP, Role.COMPONENT):
        return
    path = target.path_of(_COUNT)
    count = plan.values.own(target, *map(str, path)) or ""
    if not count.isdigit() or int(count) < 2:
        return
    gpus = gpus_of(plan.values.instance_type(target), plan.settings) or 0
    if gpus < 2 or plan.values.is_distributed(target):
        return
    if not launched_processes(plan.values.effective(target, "command")):
        request = f"{target.shown} asks for {count} x {gpus} GPUs"
        message = f"{request} and has no distribution: one process uses one"
        plan.report(gpus_without_distribution, message, target.get(*path) or target.at)
