"""Rules about keys that azure-ai-ml rejects, drops or does not read, and values of the wrong shape.

The table data/azureml_keys.csv has the keys at each place of each kind: those of its schemas, and
those of the specification of v1.5. Any other key is a `ForeignKey`. It has one explanation, and one
rule reports it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cache

import yaml

from arc_toolkit.azureml.documents import Target
from arc_toolkit.azureml.kinds import KINDS, TRIALS, Family, Role, Slot, TargetKind
from arc_toolkit.azureml.plan import Plan
from arc_toolkit.azureml.rules import target_rule
from arc_toolkit.edit.yaml.editor import YamlEditor
from arc_toolkit.edit.yaml.nodes import MERGE, KeyPath, YamlNode, get, is_null, pairs, text_of
from arc_toolkit.findings import rule
from arc_toolkit.resources import data_rows
from arc_toolkit.text import nearest

_VARIABLES = Slot.VARIABLES.path[0]
_COMPUTE = Slot.COMPUTE.path[0]
# The mappings of a target with a list of keys in the table.
MAPPINGS = (
    *("resources", "distribution", "limits", "task", "retry_settings", "queue_settings"),
    "settings",
)
# Mappings with keys of the author's choice.
_FREE_MAPPINGS = (_VARIABLES, "inputs", "outputs", "jobs")
# Names of the SDK v1, and where they are in v2.
_LEGACY_NAMES = {
    "node_count": "resources.instance_count",
    "process_count_per_node": "distribution.process_count_per_instance",
    "compute_target": "compute",
    "source_directory": "code",
    "arguments": "command",
    "run_invocation_timeout": "retry_settings.timeout",
    "run_max_try": "retry_settings.max_retries",
    "vm_size": "resources.instance_type",
}
_LEGACY_PLACES = ("", "resources", "distribution")
# What a container of Kubernetes asks for; here the instance type has it.
_CONTAINER_KEYS = ("limits", "requests", "cpu", "cpus", "memory", "gpu", "gpus")
_MIN_LIKENESS = 0.85  # `source` and `resources` are 0.8 alike and mean different things
# Mappings in which azure-ai-ml rejects an unknown key of a job, trial or step, and drops one of a
# component.
_STRICT_MAPPINGS = ("resources", "distribution", "limits", "queue_settings")
_STRICT_STEPS = (Family.COMMAND, Family.PARALLEL, Family.SPARK)
# Keys of a job or step that are sometimes written below its `environment`.
_BESIDE_ENVIRONMENT = (_VARIABLES, "resources", _COMPUTE, "distribution")
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


@cache
def _table() -> dict[tuple[str, str, str], frozenset[str]]:
    return {
        (row["family"], row["role"], row["below"]): frozenset(row["keys"].split())
        for row in data_rows("azureml_keys.csv")
    }


def _accepted_keys(kind: TargetKind, below: str = "") -> frozenset[str] | None:
    """The keys at the top of a kind, or below one of its mappings; None where any key may be."""
    family = "" if kind.role == Role.SPEC else kind.family
    return _table().get((family, kind.role, below))


def _accepts(kind: TargetKind, name: str, below: str = "") -> bool:
    return name in (_accepted_keys(kind, below) or ())


class Explanation(Enum):
    """Why azure-ai-ml does not accept a key at its place, the most certain reason first."""

    # A name of the SDK v1; the right name is that of v2.
    LEGACY = "legacy"
    # It belongs below another mapping, beside its mapping, or (without a right place) on the step.
    MISPLACED = "misplaced"
    # A letter or two away from a key of the place.
    MISSPELT = "misspelt"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """A key of a target, or below one of its mappings, that azure-ai-ml does not accept."""

    target: Target
    below: str
    name: str
    key: YamlNode
    value: YamlNode
    explanation: Explanation
    # The right name or mapping; empty if the key belongs beside the mapping, or on the step.
    right: str = ""

    @property
    def path(self) -> KeyPath:
        return (*self.target.path, *((self.below,) if self.below else ()), self.name)


def _foreign_keys(plan: Plan, explanation: Explanation) -> Iterator[ForeignKey]:
    if "foreign keys" not in plan.rule_facts:
        plan.rule_facts["foreign keys"] = [
            item for target in plan.known_targets() for item in _find_keys(target)
        ]
    return (item for item in plan.rule_facts["foreign keys"] if item.explanation == explanation)


def _find_keys(target: Target) -> Iterator[ForeignKey]:
    places = {"": target.fields}
    for mapping in MAPPINGS:
        if mapping in target.fields:
            places[mapping] = pairs(target.fields[mapping][1])
    for below, fields in places.items():
        accepted = _accepted_keys(target.kind, below)
        if accepted is None or accepted.issuperset(fields):
            continue
        for name, (key, value) in fields.items():
            if name not in accepted and name != "<<":
                explained = _explain(target, below, name, accepted)
                if explained is not None:
                    yield ForeignKey(target, below, name, key, value, *explained)


def _explain(
    target: Target, below: str, name: str, accepted: frozenset[str]
) -> tuple[Explanation, str] | None:
    """Why a key is not accepted, and the right name or mapping.

    None if azure-ai-ml takes any key there, or another rule reports this one.
    """
    kind = target.kind
    near = nearest(name.lower(), accepted, cutoff=_MIN_LIKENESS)
    if kind.role == Role.SPEC:
        return (Explanation.MISSPELT, near) if near else None
    if below == "distribution" and target.text(below, "type") == "ray":
        return None  # a preview, whose keys come and go
    if name in _LEGACY_NAMES and below in _LEGACY_PLACES:
        is_parallel = name == "process_count_per_node" and kind.family == Family.PARALLEL
        right = "max_concurrency_per_instance" if is_parallel else _LEGACY_NAMES[name]
        return Explanation.LEGACY, right
    if name == _VARIABLES and not below:  # dropped-environment-variables
        return None
    # On a step that names a component they win over `resources`.
    is_resource = name in (Slot.INSTANCE_TYPE.path[-1], Slot.INSTANCE_COUNT.path[-1])
    if is_resource and not below and target.overrides_resources:
        return None
    if (place := _right_place(kind, below, name)) is not None:
        return Explanation.MISPLACED, place
    if near:
        return Explanation.MISSPELT, near
    is_strict = below in _STRICT_MAPPINGS if below else _is_strict(target)
    return (Explanation.UNKNOWN, "") if is_strict else None


def _right_place(kind: TargetKind, below: str, name: str) -> str | None:
    """The mapping of a key; empty for the target or its step; None if no place has the key."""
    if below == "resources" and name in _CONTAINER_KEYS:
        return None
    if below and (_accepts(kind, name) or (below == "task" and name == _VARIABLES)):
        return ""
    mappings = [mapping for mapping in MAPPINGS if _accepts(kind, name, mapping)]
    if len(mappings) == 1:
        return mappings[0]
    # Components have no `compute`, and pipelines and AutoML components no `resources`: steps do.
    if name == _COMPUTE and kind.role == Role.COMPONENT:
        return ""
    if below:
        return None
    if kind.role == Role.TRIAL and _accepts(KINDS[Family.SWEEP, Role.JOB], name):
        return ""
    has_steps = kind.role == Role.COMPONENT or kind is KINDS[Family.PIPELINE, Role.JOB]
    return "" if name == "resources" and not kind.resources and has_steps else None


def _is_strict(target: Target) -> bool:
    """Whether azure-ai-ml 1.35 rejects a key that it does not know at the top of a target.

    It does for jobs, the trials of sweep jobs and inline steps, not for other steps and components.
    """
    kind = target.kind
    if kind.role == Role.STEP:
        return kind.family in _STRICT_STEPS and "component" not in target.fields
    return kind.role in (Role.JOB, Role.TRIAL)


@rule("error")
def unknown_key(plan: Plan) -> None:
    for item in _foreign_keys(plan, Explanation.UNKNOWN):
        place = f"`{item.below}` of {item.target.shown}" if item.below else item.target.shown
        effect = "dropped" if item.target.kind.role == Role.COMPONENT else "rejected"
        is_of_container = item.below == "resources" and item.name in _CONTAINER_KEYS
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
    if item.target.get(*([item.below] if item.below else []), right) is not None:
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


def _moved_values(item: ForeignKey) -> dict[KeyPath, str | int]:
    """The values of a misplaced key by their right paths; empty if the fix cannot move it.

    `instance_count: 2` at the top of a component becomes {(0, "resources", "instance_count"): 2}.
    """
    target, name = item.target, item.name
    if item.below == "task" and name == _VARIABLES:
        variables = pairs(item.value)
        has_texts = all(isinstance(value, yaml.ScalarNode) for _, value in variables.values())
        if target.kind.role != Role.STEP or name in target.fields or not has_texts:
            return {}
        path = (*target.path, name)
        return {(*path, key): text_of(value) or "" for key, (_, value) in variables.items()}
    text = text_of(item.value)
    if item.below or not item.right or text is None or target.owns((item.right, name)):
        return {}
    return {(*target.path, item.right, name): int(text) if text.isdigit() else text}


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
    if kind.role in TRIALS:
        return f"a {kind.name} has no `{name}`: it belongs to the sweep, beside `trial`"
    if name == _COMPUTE:
        return f"a {kind.name} has no `compute`: its step has, or the pipeline's default_compute"
    return f"a {kind.name} has no `{name}`: {kind.why}"


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
        return _accepts(kind, name)
    return bool(_accepted_keys(kind, name))


@target_rule("error", needs=("compute", "instance_", "command", "code"))
def not_a_value(plan: Plan, target: Target) -> None:
    for path in _SINGLE_VALUES if target.kind.role != Role.SPEC else ():
        first, *rest = path
        key, node = target.fields.get(first, (None, None))
        value = get(node, *rest)
        if key is None or value is None or isinstance(value, yaml.ScalarNode):
            continue
        if not _accepts(target.kind, path[-1], first if rest else ""):
            continue
        preview_key, form = _PREVIEW_MAPPINGS.get(".".join(path), ("", ""))
        is_preview = bool(preview_key) and get(value, preview_key) is not None
        message = f"`{'.'.join(path)}` of {target.shown} has to be a single value"
        reason = f"today it is {form}" if is_preview else ""
        plan.report(not_a_value, message, value if rest else key, reason=reason)
