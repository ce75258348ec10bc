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
    id="dropped-environment-variables",
    severity="error",
    fix="none",
    summary="environment variables in a place that loses them",
    why="""\
A v2 *component* takes `environment_variables` without complaint and drops them: the field is in no schema of a
component, and it is absent from the request that is sent (azure-ai-ml 1.35). The same holds for a sweep *step* and
for the trial of a sweep in a pipeline; a standalone sweep job keeps them under `trial` only. A job and a command,
parallel or automl step keep them, and so does a v1.5 spec.""",
    before="""\
# train.yml, a v2 component
type: command
environment_variables:
  OMP_NUM_THREADS: "8"
""",
    after="""\
# pipeline.yml
jobs:
  train:
    type: command
    component: ./train.yml
    environment_variables:
      OMP_NUM_THREADS: "8"
""",
    language="yaml, python",
    check=_check,
    needs=("environment_variables",),
)
