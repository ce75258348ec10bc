"""Keys that are spelt well and stand where nothing reads them."""

from __future__ import annotations

import yaml

from arc_toolkit.azureml.documents import Target
from arc_toolkit.azureml.kinds import Role, Slot
from arc_toolkit.azureml.plan import Plan
from arc_toolkit.azureml.schema_keys import MAPPINGS, known_keys
from arc_toolkit.edit.yaml_editor import Editor
from arc_toolkit.edit.yaml_nodes import Node, pairs, text_of
from arc_toolkit.findings import Rule

_RESOURCES = (Slot.INSTANCE_TYPE, Slot.INSTANCE_COUNT)
# azure-ai-ml takes these on a step that names a component, and they win over `resources`.
_TAKEN_BY_STEPS = frozenset(slot.path[-1] for slot in _RESOURCES)


def _check(plan: Plan) -> None:
    for target in plan.known_targets():
        own, kind = target.own, target.kind
        if kind.role == Role.SPEC and "resources" in own:
            message = "a v1.5 spec has no `resources`: they are run settings of the step"
            plan.report(RULE, message, own["resources"][0])
        if kind.role == Role.COMPONENT and "compute" in own:
            message = f"a {kind.name} has no `compute`: its step has, or the pipeline's default_compute"
            plan.report(RULE, message, own["compute"][0])
        if kind.role == Role.COMPONENT and "resources" in own and not kind.resources:
            plan.report(RULE, f"a {kind.name} has no `resources`: {kind.why}", own["resources"][0])
        for slot in _RESOURCES if target.overrides_resources else ():
            if target.path_of(slot.path) != slot.path and target.owns(slot.path):
                message = f"`{slot.path[-1]}` below `resources` is not read: the one beside `component` wins"
                plan.report(RULE, message, target.place_of(slot.path))
        if "environment_variables" in (inner := pairs(target.get("environment"))) and kind.role != Role.SPEC:
            message = "`environment_variables` below `environment` are not read: they belong beside it"
            plan.report(RULE, message, inner["environment_variables"][0])
        if kind.role != Role.SPEC and (known := known_keys(kind)) is not None:
            _too_high(plan, target, known)
            _too_low(plan, target, known)


def _too_high(plan: Plan, target: Target, known: frozenset[str]) -> None:
    """Keys at the top that belong below one of the mappings."""
    taken = _TAKEN_BY_STEPS if target.overrides_resources else frozenset()
    for name in target.own.keys() - known - taken:
        below = [mapping for mapping in MAPPINGS if name in (known_keys(target.kind, mapping) or ())]
        if len(below) == 1:
            _move_below(plan, target, below[0], name)


def _too_low(plan: Plan, target: Target, known: frozenset[str]) -> None:
    """Keys below one of the mappings that belong beside it."""
    for mapping in MAPPINGS:
        if mapping not in target.own:
            continue
        inner = pairs(target.own[mapping][1])
        for name in inner.keys() - (known_keys(target.kind, mapping) or inner.keys()):
            if mapping == "task" and name == "environment_variables":
                _from_task(plan, target, inner[name])
            elif name in known:
                message = f"`{name}` below `{mapping}` is not read: it belongs beside it"
                plan.report(RULE, message, inner[name][0])
            elif (
                len(right := [other for other in MAPPINGS if name in (known_keys(target.kind, other) or ())]) == 1
            ):
                message = f"`{name}` below `{mapping}` is not read: it belongs below `{right[0]}`"
                plan.report(RULE, message, inner[name][0])


def _move_below(plan: Plan, target: Target, mapping: str, name: str) -> None:
    key, node = target.own[name]
    value = text_of(node)
    number = int(value) if value and value.isdigit() else value

    def fix(editor: Editor) -> None:
        editor.remove((*target.path, name))
        editor.set((*target.path, mapping, name), number or "")

    movable = value is not None and target.text(mapping, name) is None
    message = f"`{name}` of {target.shown} is read below `{mapping}` only"
    title = f"Move `{name}` below `{mapping}`"
    plan.report(RULE, message, key, fix=fix if movable else None, title=title)


def _from_task(plan: Plan, target: Target, pair: tuple[Node, Node]) -> None:
    message = "a parallel `task` has no `environment_variables`: they belong to the step"
    own = pairs(pair[1])
    movable = target.kind.role == Role.STEP and "environment_variables" not in target.own

    def fix(editor: Editor) -> None:
        editor.remove((*target.path, "task", "environment_variables"))
        for name, (_, value) in own.items():
            editor.set((*target.path, "environment_variables", name), text_of(value) or "")

    scalars = all(isinstance(value, yaml.ScalarNode) for _, value in own.values())
    title = "Move `environment_variables` to the step"
    plan.report(RULE, message, pair[0], fix=fix if movable and own and scalars else None, title=title)


RULE = Rule(
    id="misplaced-key",
    severity="error",
    fix="unsafe",
    summary="a key in a place where nothing reads it",
    why="""\
`task.environment_variables` of a parallel step is dropped; so is `instance_type` at the top of a component (it
belongs below `resources`), `compute` of a v2 component, `mini_batch_size` below a `task`, and `resources` in a v1.5
spec or an AutoML component. `instance_type` and `instance_count` beside `component` of a command or parallel step
are read, and win over those below `resources`. Most give no error. The keys of every place are those of
azure-ai-ml's own schemas. The fix moves the key where that can be done within the file; it is unsafe because a
setting that had no effect so far begins to have one.""",
    before="""\
jobs:
  score:
    type: parallel
    task:
      type: run_function
      entry_script: score.py
      environment_variables:
        OMP_NUM_THREADS: "1"
""",
    after="""\
jobs:
  score:
    type: parallel
    environment_variables:
      OMP_NUM_THREADS: "1"
    task:
      type: run_function
      entry_script: score.py
""",
    check=_check,
)
