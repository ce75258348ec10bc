"""Environment variables where azure-ai-ml loads and then drops them."""

from __future__ import annotations

from arc_toolkit.azureml.kinds import Family, Role, TargetKind
from arc_toolkit.azureml.plan import Plan
from arc_toolkit.edit.yaml.nodes import pairs
from arc_toolkit.findings import Rule


def _check(plan: Plan) -> None:
    for target in plan.known_targets():
        own = target.own.get("environment_variables")
        if own is None or target.kind.variables or target.kind.role in (Role.SPEC, Role.V15_STEP):
            continue
        if target.kind.family == Family.OTHER:  # not known, so it may keep them
            continue
        if names := ", ".join(pairs(own[1])):
            why = (
                target.kind.why
                if target.kind.resources
                else f"a {target.kind.name} has no environment variables"
            )
            plan.report(
                RULE, f"{names} never reaches the job: {why}", own[0], reason=_way_out(target.kind)
            )


def _way_out(kind: TargetKind) -> str:
    if kind.family == Family.SWEEP and kind.role == Role.JOB:
        return "put them under `trial:`"
    if kind.family == Family.SWEEP:
        return "export them in the trial's command instead"
    if kind.family == Family.PIPELINE:
        return "put them on its steps"
    if not kind.resources and kind.role != Role.COMPONENT:
        return ""
    return "put them on the job, or on each pipeline step that uses this component"


RULE = Rule(
    "dropped-environment-variables",
    "error",
    language="yaml, python",
    check=_check,
    needs=("environment_variables",),
)
