"""Names of components and steps that azure-ai-ml rejects."""

from __future__ import annotations

import re

from arc_toolkit.azureml.kinds import Role
from arc_toolkit.azureml.plan import Plan
from arc_toolkit.edit.yaml.nodes import YamlNode
from arc_toolkit.findings import Rule

# azure-ai-ml 1.35: `ComponentNameStr` and `PipelineNodeNameStr` of _schema/core/fields.py.
_COMPONENT = re.compile(r"[a-z][a-z0-9_]*")
_STEP = re.compile(r"[a-z_][a-z0-9_]*")


def _check(plan: Plan) -> None:
    for target in plan.known_targets():
        role = target.kind.role
        if role == Role.STEP and target.name and not _STEP.fullmatch(target.name):
            message = f"`{target.name}` is rejected as the name of a step"
            reason = "lower-case letters, digits and `_` only, and no digit in front"
            plan.report(RULE, message, target.at, reason=reason)
        elif role == Role.COMPONENT and target.parent is None:
            name = target.text("name") or ""
            if name and not _COMPONENT.fullmatch(name):
                _report(plan, name, target.place_of(("name",)))


def _report(plan: Plan, name: str, at: YamlNode) -> None:
    message = f"`{name}` is rejected as the name of a component"
    reason = "lower-case letters, digits and `_` only, and a letter in front"
    # Only the file of a component is read for a pipeline or deployment that names it, not its name.
    uses = plan.library.uses(plan.path)
    if uses and uses <= {"component", "trial"}:
        message += " that is registered or loaded by itself"
        plan.add_finding(
            RULE.id, "note", message, at, reason=f"{reason}; the files that use it do not mind"
        )
    else:
        plan.report(RULE, message, at, reason=reason)


RULE = Rule("invalid-name", "error", check=_check)
