"""Keys that azure-ai-ml rejects or drops, and that are like no key of the place."""

from __future__ import annotations

from arc_toolkit.azureml.kinds import Role
from arc_toolkit.azureml.plan import Plan
from arc_toolkit.azureml.schema_keys import CONTAINER_KEYS, Explanation, ForeignKey
from arc_toolkit.findings import Rule


def _check(plan: Plan) -> None:
    for item in plan.foreign_keys():
        if item.explanation == Explanation.UNKNOWN:
            where = f"`{item.below}` of {item.target.shown}" if item.below else item.target.shown
            effect = "dropped" if item.target.kind.role == Role.COMPONENT else "rejected"
            plan.report(
                RULE,
                f"{where} has no key `{item.name}`: it is {effect}",
                item.key,
                reason=_hint(item),
            )


def _hint(item: ForeignKey) -> str:
    if item.below == "resources" and item.name in CONTAINER_KEYS:
        return "CPU, memory and GPUs are those of the instance type"
    return ""


RULE = Rule("unknown-key", "error", check=_check)
