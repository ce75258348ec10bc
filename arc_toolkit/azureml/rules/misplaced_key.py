"""Keys that are spelt well and stand where nothing reads them."""

from __future__ import annotations

import yaml

from arc_toolkit.azureml.documents import Target
from arc_toolkit.azureml.kinds import Family, Role
from arc_toolkit.azureml.plan import Plan
from arc_toolkit.edit.yaml_editor import Editor
from arc_toolkit.edit.yaml_nodes import Node, pairs, text_of
from arc_toolkit.findings import Rule

# What is never at the top of a job, step, trial or component.
_BELOW_RESOURCES = ("instance_type", "instance_count", "shm_size", "docker_args")


def _check(plan: Plan) -> None:
    for target in plan.known_targets():
        own = target.own
        if target.kind.resources:
            for name in _BELOW_RESOURCES:
                if name in own:
                    _to_resources(plan, target, name, own[name])
        if target.kind.role == Role.SPEC and "resources" in own:
            message = "a v1.5 spec has no `resources`: they are run settings of the step"
            plan.report(RULE, message, own["resources"][0])
        if target.kind.role == Role.COMPONENT and "compute" in own:
            message = f"a {target.kind.name} has no `compute`: its step has, or the pipeline's default_compute"
            plan.report(RULE, message, own["compute"][0])
        task = pairs(target.get("task"))
        if target.kind.family == Family.PARALLEL and "environment_variables" in task:
            _from_task(plan, target, task["environment_variables"])
        for outer in ("environment", "resources"):
            inner = pairs(target.get(outer))
            if "environment_variables" in inner and target.kind.role != Role.SPEC:
                message = f"`environment_variables` below `{outer}` are not read: they belong beside it"
                plan.report(RULE, message, inner["environment_variables"][0])


def _to_resources(plan: Plan, target: Target, name: str, pair: tuple[Node, Node]) -> None:
    value = text_of(pair[1])
    number = int(value) if value and value.isdigit() and name == "instance_count" else value

    def fix(editor: Editor) -> None:
        editor.remove((*target.path, name))
        editor.set((*target.path, "resources", name), number or "")

    movable = value is not None and target.text("resources", name) is None
    message = f"`{name}` of {target.shown} is read below `resources` only"
    title = f"Move `{name}` below `resources`"
    plan.report(RULE, message, pair[0], fix=fix if movable else None, title=title)


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
`task.environment_variables` of a parallel step is dropped; so is `instance_type` at the top of a component (it belongs
below `resources`), `compute` of a v2 component, and `resources` in a v1.5 spec. None of them gives an error. The fix
moves the key where that can be done within the file; it is unsafe because a setting that had no effect so far begins to
have one.""",
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
    needs=("compute", "instance_", "environment_variables", "shm_size", "docker_args", "resources"),
)
