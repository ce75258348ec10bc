"""Keys that are spelt well and stand where nothing reads them."""

from __future__ import annotations

import yaml

from arc_toolkit.azureml.documents import Target
from arc_toolkit.azureml.kinds import Family, Role, Slot
from arc_toolkit.azureml.plan import Plan
from arc_toolkit.azureml.schema_keys import Explanation, ForeignKey
from arc_toolkit.edit.yaml.editor import Editor
from arc_toolkit.edit.yaml.nodes import YamlNode, pairs, text_of
from arc_toolkit.findings import Rule

_RESOURCES = (Slot.INSTANCE_TYPE, Slot.INSTANCE_COUNT)
# Keys of a job or step that are written below its `environment` by mistake.
_BESIDE_ENVIRONMENT = ("environment_variables", "resources", "compute", "distribution")


def _check(plan: Plan) -> None:
    for item in plan.foreign_keys():
        if item.explanation == Explanation.MISPLACED:
            _report(plan, item)
    for target in plan.known_targets():
        own = target.own
        if target.kind.role == Role.SPEC:
            if "resources" in own and target.kind.family != Family.OTHER:
                message = "a v1.5 spec has no `resources`: they are run settings of the step"
                plan.report(RULE, message, own["resources"][0])
            continue
        for slot in _RESOURCES if target.overrides_resources else ():
            if target.path_of(slot.path) != slot.path and target.owns(slot.path):
                message = f"`{slot.path[-1]}` below `resources` is not read: the one beside `component` wins"
                plan.report(RULE, message, target.place_of(slot.path))
        if "environment" in own and (inner := pairs(own["environment"][1])):
            for name in _BESIDE_ENVIRONMENT:
                if name in inner:
                    message = f"`{name}` below `environment` is not read: it belongs beside it"
                    plan.report(RULE, message, inner[name][0])


def _report(plan: Plan, item: ForeignKey) -> None:
    target, kind, name = item.target, item.target.kind, item.name
    if item.below == "task" and name == "environment_variables":
        _from_task(plan, target, (item.key, item.value))
    elif item.below and item.right:
        plan.report(
            RULE,
            f"`{name}` below `{item.below}` is not read: it belongs below `{item.right}`",
            item.key,
        )
    elif item.below:
        message = f"`{name}` below `{item.below}` is not read: it belongs "
        # A component has no compute of its own.
        is_of_step = kind.role == Role.COMPONENT and name == Slot.COMPUTE.path[0]
        plan.report(RULE, message + ("to its step" if is_of_step else "beside it"), item.key)
    elif item.right:
        _move_below(plan, target, item.right, name)
    elif kind.role.is_trial:
        plan.report(
            RULE,
            f"a {kind.name} has no `{name}`: it belongs to the sweep, beside `trial`",
            item.key,
        )
    elif name == Slot.COMPUTE.path[0]:
        message = f"a {kind.name} has no `compute`: its step has, or the pipeline's default_compute"
        plan.report(RULE, message, item.key)
    else:
        plan.report(RULE, f"a {kind.name} has no `{name}`: {kind.why}", item.key)


def _move_below(plan: Plan, target: Target, mapping: str, name: str) -> None:
    key, node = target.own[name]
    value = text_of(node)
    number = int(value) if value and value.isdigit() else value

    def fix(editor: Editor) -> None:
        editor.remove((*target.path, name))
        if not plan.is_planned((*target.path, mapping, name)):  # else it gets the value of this run
            editor.set((*target.path, mapping, name), number or "")

    movable = value is not None and target.text(mapping, name) is None
    message = f"`{name}` of {target.shown} is read below `{mapping}` only"
    title = f"Move `{name}` below `{mapping}`"
    plan.report(RULE, message, key, fix=fix if movable else None, title=title)


def _from_task(plan: Plan, target: Target, pair: tuple[YamlNode, YamlNode]) -> None:
    message = "a parallel `task` has no `environment_variables`: they belong to the step"
    own = pairs(pair[1])
    movable = target.kind.role == Role.STEP and "environment_variables" not in target.own

    def fix(editor: Editor) -> None:
        editor.remove((*target.path, "task", "environment_variables"))
        for name, (_, value) in own.items():
            editor.set((*target.path, "environment_variables", name), text_of(value) or "")

    scalars = all(isinstance(value, yaml.ScalarNode) for _, value in own.values())
    title = "Move `environment_variables` to the step"
    plan.report(
        RULE, message, pair[0], fix=fix if movable and own and scalars else None, title=title
    )


RULE = Rule("misplaced-key", "error", fix="unsafe", check=_check)
