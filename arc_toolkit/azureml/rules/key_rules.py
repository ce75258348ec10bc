"""Rules about keys that azure-ai-ml rejects, drops or does not read, and values of the wrong shape.

`schema_keys` explains every key that azure-ai-ml does not accept; each explanation belongs to one
rule.
"""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from arc_toolkit.azureml.documents import Target
from arc_toolkit.azureml.kinds import Family, Role, Slot
from arc_toolkit.azureml.plan import Plan
from arc_toolkit.azureml.rules import target_rule
from arc_toolkit.azureml.rules.schema_keys import (
    CONTAINER_KEYS,
    MAPPINGS,
    Explanation,
    ForeignKey,
    foreign_keys,
    known_keys,
)
from arc_toolkit.edit.yaml.editor import YamlEditor
from arc_toolkit.edit.yaml.nodes import MERGE, KeyPath, YamlNode, get, is_null, pairs, text_of
from arc_toolkit.findings import rule

_VARIABLES = Slot.VARIABLES.path[0]
_COMPUTE = Slot.COMPUTE.path[0]
# Keys of a job or step that are sometimes written below its `environment`.
_BESIDE_ENVIRONMENT = (_VARIABLES, "resources", _COMPUTE, "distribution")
# Mappings with keys of the author's choice.
_FREE_MAPPINGS = (_VARIABLES, "inputs", "outputs", "jobs")
_SINGLE_VALUES: tuple[tuple[str, ...], ...] = (
    Slot.COMPUTE.path,
    Slot.INSTANCE_TYPE.path,
    Slot.INSTANCE_COUNT.path,
    ("settings", "default_compute"),
    ("command",),
    ("code",),
    ("task", "code"),
    ("task", "entry_script"),
)
# Mappings of the previews of 2021: a key of each, and the form of today.
_PREVIEW_MAPPINGS = {
    "compute": ("target", "`compute: azureml:NAME`, and `resources.instance_count`"),
    "code": ("local_path", "`code: FOLDER`"),
}


def _foreign_keys(plan: Plan, explanation: Explanation) -> Iterator[ForeignKey]:
    return (item for item in foreign_keys(plan) if item.explanation == explanation)


@rule("error")
def unknown_key(plan: Plan) -> None:
    for item in _foreign_keys(plan, Explanation.UNKNOWN):
        place = f"`{item.below}` of {item.target.shown}" if item.below else item.target.shown
        effect = "dropped" if item.target.kind.role == Role.COMPONENT else "rejected"
        is_of_container = item.below == "resources" and item.name in CONTAINER_KEYS
        reason = "CPU, memory and GPUs are those of the instance type" if is_of_container else ""
        message = f"{place} has no key `{item.name}`: it is {effect}"
        plan.report(unknown_key, message, item.key, reason=reason)


@rule("error")
def legacy_key(plan: Plan) -> None:
    for item in _foreign_keys(plan, Explanation.LEGACY):
        message = f"`{item.name}` is a key of the SDK v1: in v2 it is `{item.right}`"
        plan.report(legacy_key, message, item.key)


@rule("error", fix="unsafe")
def misspelt_key(plan: Plan) -> None:
    for item in _foreign_keys(plan, Explanation.MISSPELT):
        _report_misspelt(plan, item)


def _report_misspelt(plan: Plan, item: ForeignKey) -> None:
    kind, right = item.target.kind.name, item.right
    place = f"`{item.below}` of a {kind}" if item.below else f"a {kind}"
    message = f"`{item.name}` is not a key of {place}"
    right_path = (*item.path[:-1], right)
    if item.sibling(right) is not None:
        plan.report(misspelt_key, f"{message}; `{right}` is there too", item.key)
        return
    is_set = plan.values.will_have(right_path)
    if is_set and not isinstance(item.value, yaml.ScalarNode):
        message = f"{message}; this run adds `{right}`"
        plan.report(misspelt_key, message, item.key, reason="merge them by hand")
        return

    def fix(editor: YamlEditor) -> None:
        if is_set:  # the right key gets the value of this run
            editor.remove(item.path)
        else:
            editor.rename(item.path, right)

    plan.report(
        misspelt_key,
        f"{message}: `{right}` is meant",
        item.key,
        reason="after renaming, a setting takes effect that had none so far",
        fix=fix,
        title=f"Remove `{item.name}`" if is_set else f"Rename `{item.name}` to `{right}`",
    )


@rule("error", fix="unsafe")
def misplaced_key(plan: Plan) -> None:
    for item in _foreign_keys(plan, Explanation.MISPLACED):
        _report_misplaced(plan, item)
    for target in plan.known_targets():
        for key, message in _unread_keys(target):
            plan.report(misplaced_key, message, key)


def _report_misplaced(plan: Plan, item: ForeignKey) -> None:
    moved = _moved_values(item)

    def fix(editor: YamlEditor) -> None:
        editor.remove(item.path)
        for path, value in moved.items():
            if path not in plan.values.pending:  # else it gets the value of this run
                editor.set(path, value)

    destination = f"below `{item.right}`" if item.right else "to the step"
    plan.report(
        misplaced_key,
        _misplaced_message(item),
        item.key,
        fix=fix if moved else None,
        title=f"Move `{item.name}` {destination}",
    )


def _misplaced_message(item: ForeignKey) -> str:
    kind, name = item.target.kind, item.name
    if item.below == "task" and name == _VARIABLES:
        return "a parallel `task` has no `environment_variables`: they belong to the step"
    if item.below:
        # A component has no compute of its own.
        is_of_step = kind.role == Role.COMPONENT and name == _COMPUTE
        place = "to its step" if is_of_step else "beside it"
        place = f"below `{item.right}`" if item.right else place
        return f"`{name}` below `{item.below}` is not read: it belongs {place}"
    if item.right:
        return f"`{name}` of {item.target.shown} is read below `{item.right}` only"
    if kind.role.is_trial:
        return f"a {kind.name} has no `{name}`: it belongs to the sweep, beside `trial`"
    if name == _COMPUTE:
        return f"a {kind.name} has no `compute`: its step has, or the pipeline's default_compute"
    return f"a {kind.name} has no `{name}`: {kind.why}"


def _moved_values(item: ForeignKey) -> dict[KeyPath, str | int]:
    """The values of a misplaced key by their right paths; empty if the fix cannot move it.

    `instance_count: 2` at the top of a component becomes {(0, "resources", "instance_count"): 2}.
    """
    target, name = item.target, item.name
    if item.below == "task" and name == _VARIABLES:
        values = [value for _, value in pairs(item.value).values()]
        if (
            target.kind.role != Role.STEP
            or name in target.fields
            or not all(isinstance(value, yaml.ScalarNode) for value in values)
        ):
            return {}
        return {
            (*target.path, name, variable): text_of(value) or ""
            for variable, (_, value) in pairs(item.value).items()
        }
    text = text_of(item.value)
    if item.below or not item.right or text is None or target.text(item.right, name) is not None:
        return {}
    return {(*target.path, item.right, name): int(text) if text.isdigit() else text}


def _unread_keys(target: Target) -> Iterator[tuple[YamlNode, str]]:
    """Keys that the schema has, but that nothing reads in this file; each with a message."""
    fields = target.fields
    if target.kind.role == Role.SPEC:
        if "resources" in fields and target.kind.family != Family.OTHER:
            message = "a v1.5 spec has no `resources`: they are run settings of the step"
            yield fields["resources"][0], message
        return
    for slot in (Slot.INSTANCE_TYPE, Slot.INSTANCE_COUNT) if target.overrides_resources else ():
        if target.path_of(slot.path) != slot.path and target.owns(slot.path):
            name = slot.path[-1]
            message = f"`{name}` below `resources` is not read: the one beside `component` wins"
            yield target.place_of(slot.path), message
    if "environment" in fields:
        environment = pairs(fields["environment"][1])
        for name in _BESIDE_ENVIRONMENT:
            if name in environment:
                message = f"`{name}` below `environment` is not read: it belongs beside it"
                yield environment[name][0], message


@target_rule("error")
def duplicate_key(plan: Plan, target: Target) -> None:
    for node in (target.node, target.get("resources"), target.get(_VARIABLES)):
        if not isinstance(node, yaml.MappingNode):
            continue
        names: set[str] = set()
        for key, _ in node.value if len(pairs(node)) < len(node.value) else ():
            if not isinstance(key, yaml.ScalarNode) or key.tag == MERGE:
                continue
            if key.value in names:
                message = f"`{key.value}` is a duplicate key: only the last one counts"
                plan.report(duplicate_key, message, key)
            names.add(key.value)


@target_rule("error")
def not_a_mapping(plan: Plan, target: Target) -> None:
    for name in (*MAPPINGS, *_FREE_MAPPINGS):
        key, node = target.fields.get(name, (None, None))
        if key is None or isinstance(node, yaml.MappingNode) or not _is_mapping(target, name):
            continue
        if not is_null(node):
            message = f"`{name}` of {target.shown} has to be a mapping"
            plan.report(not_a_mapping, message, key)
        elif not plan.values.will_have((*target.path, name)):
            reason = 'azure-ai-ml rejects null ("Field may not be null"): remove the key'
            message = f"`{name}` of {target.shown} is empty"
            plan.report(not_a_mapping, message, key, reason=reason)


def _is_mapping(target: Target, name: str) -> bool:
    """Whether the schema of a target has this mapping: `task` of a data transfer is text."""
    kind = target.kind
    if kind.role == Role.SPEC:
        return False
    if name == _VARIABLES:
        return kind.variables
    if name in _FREE_MAPPINGS:
        return name in (known_keys(kind) or ())
    return bool(known_keys(kind, name))


@target_rule("error", needs=("compute", "instance_", "command", "code"))
def not_a_value(plan: Plan, target: Target) -> None:
    for path in _SINGLE_VALUES if target.kind.role != Role.SPEC else ():
        first, *rest = path
        key, node = target.fields.get(first, (None, None))
        value = get(node, *rest)
        if key is None or value is None or isinstance(value, yaml.ScalarNode):
            continue
        if path[-1] not in (known_keys(target.kind, first if rest else "") or ()):
            continue
        preview_key, form = _PREVIEW_MAPPINGS.get(".".join(path), ("", ""))
        is_preview = bool(preview_key) and get(value, preview_key) is not None
        message = f"`{'.'.join(path)}` of {target.shown} has to be a single value"
        reason = f"today it is {form}" if is_preview else ""
        plan.report(not_a_value, message, value if rest else key, reason=reason)
