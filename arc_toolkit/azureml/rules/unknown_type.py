"""A `type` that is none of AzureML's, or not one of a job's inputs."""

from __future__ import annotations

import difflib

from arc_toolkit.azureml.documents import Target
from arc_toolkit.azureml.kinds import KINDS, Family, Role, type_family, type_names
from arc_toolkit.azureml.plan import Plan
from arc_toolkit.edit.yaml.nodes import get, pairs, text_of
from arc_toolkit.findings import Rule

# Steps of the previews of 2021.
_PREVIEW = ("component", "component_job")
# Kinds of internal components, which azure-ai-ml takes as well.
_INTERNAL = (
    "scope",
    "hdinsight",
    "hemera",
    "starlite",
    "ae365exepool",
    "aetherbridge",
    "itp",
    "scopecomponent",
)
# What the input of a job may be (azure-ai-ml 1.35, _schema/job/input_output_entry.py). A component declares types; a
# job has values.
_DATA = ("uri_file", "uri_folder", "mltable", "mlflow_model", "custom_model", "triton_model")
_LITERALS = ("string", "integer", "number", "boolean")
_STEPS = (Family.COMMAND, Family.PARALLEL, Family.SWEEP, Family.PIPELINE)


def _check(plan: Plan) -> None:
    for target in plan.known_targets():
        role = target.kind.role
        if "inputs" in target.own:
            _check_inputs(plan, target)
        if role not in (Role.JOB, Role.COMPONENT, Role.STEP) or "type" not in target.own:
            continue
        if role == Role.STEP and target.kind.family != Family.OTHER:
            continue
        declared = (target.text("type") or "").partition("@")[0]
        if (
            not declared
            or type_family(declared)
            or declared.endswith("Component")
            or declared in _INTERNAL
        ):
            continue
        near = difflib.get_close_matches(declared.lower(), type_names(), n=1, cutoff=0.8)
        reason = f"did you mean `{near[0]}`?" if near else ""
        if declared in _PREVIEW and role == Role.STEP:
            reason = "today it is the type of the component: `type: command`"
        message = f"`type: {declared}` of {target.shown} is not a type of AzureML: it is rejected"
        plan.report(RULE, message, target.own["type"][1], reason=reason)


def _check_inputs(plan: Plan, target: Target) -> None:
    # Declared types tell a component from a job, so that it has to be a job for certain.
    is_job = (
        target.kind is KINDS[Family.PIPELINE, Role.JOB]
        and "job" in (target.text("$schema") or "").lower()
        and not plan.library.uses(plan.path)
    )
    if not (is_job or (target.kind.role == Role.STEP and target.kind.family in _STEPS)):
        return
    for name, (_, node) in pairs(target.own["inputs"][1]).items():
        at = get(node, "type")
        declared = text_of(at)
        if at is None or declared is None or "${{" in declared or declared.lower() in _DATA:
            continue
        reason = f"an input of a job is one of {', '.join(_DATA)}, or a plain value"
        if declared.lower() in _LITERALS:
            reason = f"only components declare it: `{name}: VALUE`"
        message = f"`type: {declared}` of input `{name}` of {target.shown} is rejected"
        plan.report(RULE, message, at, reason=reason)


RULE = Rule("unknown-type", "error", check=_check, needs=("type",))
