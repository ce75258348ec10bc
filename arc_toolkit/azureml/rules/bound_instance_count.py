"""An instance count bound in a place where azure-ai-ml rejects it."""

from __future__ import annotations

from arc_toolkit.azureml.kinds import Family, Role, Slot
from arc_toolkit.azureml.plan import Plan
from arc_toolkit.findings import Rule

_COUNT = Slot.INSTANCE_COUNT.path


def _check(plan: Plan) -> None:
    for target in plan.known_targets():
        path = target.path_of(_COUNT)
        node = target.get(*path)
        if node is None or not target.kind.resources or not target.is_bound(path):
            continue
        if path != _COUNT:
            message = (
                "a bound `instance_count` beside `component` is rejected (not a valid integer)"
            )
            plan.report(RULE, message, node, reason="bind it below `resources`")
            continue
        if target.kind.role != Role.STEP:
            value = target.text(*_COUNT)
            message = (
                f"a {target.kind.name} rejects `instance_count: {value}` (not a valid integer)"
            )
            reason = "bind it on the pipeline's step: `patch --expose-parameters`"
            plan.report(RULE, message, node, reason=reason)
        elif target.kind.family == Family.COMMAND and not (
            target.get("component") and target.owns(_COUNT)
        ):
            message = "an inline command step rejects a bound instance_count (`component` missing)"
            plan.report(RULE, message, node, reason="move the job to a component file")


RULE = Rule(
    "bound-instance-count",
    "error",
    language="yaml, python",
    check=_check,
    needs=("instance_count",),
)
