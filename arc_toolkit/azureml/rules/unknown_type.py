"""A `type` that is none of AzureML's."""

from __future__ import annotations

import difflib

from arc_toolkit.azureml.kinds import Family, Role, type_family, type_names
from arc_toolkit.azureml.plan import Plan
from arc_toolkit.findings import Rule

# Steps of the previews of 2021.
_PREVIEW = ("component", "component_job")
# Kinds of internal components, which azure-ai-ml takes as well.
_INTERNAL = ("scope", "hdinsight", "hemera", "starlite", "ae365exepool", "aetherbridge", "itp", "scopecomponent")


def _check(plan: Plan) -> None:
    for target in plan.known_targets():
        role = target.kind.role
        if role not in (Role.JOB, Role.COMPONENT, Role.STEP) or "type" not in target.own:
            continue
        if role == Role.STEP and target.kind.family != Family.OTHER:
            continue
        declared = (target.text("type") or "").partition("@")[0]
        if not declared or type_family(declared) or declared.endswith("Component") or declared in _INTERNAL:
            continue
        near = difflib.get_close_matches(declared.lower(), type_names(), n=1, cutoff=0.8)
        reason = f"did you mean `{near[0]}`?" if near else ""
        if declared in _PREVIEW and role == Role.STEP:
            reason = "today it is the type of the component: `type: command`"
        message = f"`type: {declared}` of {target.shown} is not a type of AzureML: it is rejected"
        plan.report(RULE, message, target.own["type"][1], reason=reason)


RULE = Rule(
    id="unknown-type",
    severity="error",
    fix="none",
    summary="a `type` that AzureML does not have",
    why="""\
azure-ai-ml rejects a job, component or step whose `type` it does not know. Nothing can be set there either, because
what takes an instance type depends on the kind. `type: component` and `component_job` were those of the previews of
2021.""",
    before="""\
jobs:
  train:
    type: component
    component: ./train.yml
""",
    after="""\
jobs:
  train:
    type: command
    component: ./train.yml
""",
    check=_check,
    needs=("type",),
)
