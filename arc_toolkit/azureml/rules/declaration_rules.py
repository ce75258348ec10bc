"""Rules about what a file declares itself to be: its type, schema and names."""

from __future__ import annotations

import re

from arc_toolkit.azureml.documents import Target, schema_family
from arc_toolkit.azureml.kinds import CONTROL_TYPES, KINDS, V2_TYPES, Family, Role
from arc_toolkit.azureml.plan import Plan
from arc_toolkit.azureml.rules import target_rule
from arc_toolkit.edit.yaml.nodes import YamlNode, get, pairs, text_of
from arc_toolkit.findings import rule
from arc_toolkit.text import nearest

# azure-ai-ml 1.35: `ComponentNameStr` and `PipelineNodeNameStr` of _schema/core/fields.py.
_COMPONENT_NAME = re.compile(r"[a-z][a-z0-9_]*")
_STEP_NAME = re.compile(r"[a-z_][a-z0-9_]*")
# Schemas of v2 documents that are neither a job nor a component.
_ASSET_SCHEMA = re.compile(
    r"azuremlschemas\.[^ ]*/"
    r"(environment|model|data|datastore\w*|\w*[cC]ompute|workspace|codeAsset)\.schema\.json$"
)
# Types of steps in the previews of 2021.
_PREVIEW_TYPES = ("component", "component_job")
# Types of internal components, which azure-ai-ml accepts as well.
_INTERNAL_TYPES = (
    *("scope", "hdinsight", "hemera", "starlite", "ae365exepool", "aetherbridge", "itp"),
    "scopecomponent",
)
# Inputs of a job (azure-ai-ml 1.35, _schema/job/input_output_entry.py). A component declares types;
# a job has values.
_DATA_TYPES = ("uri_file", "uri_folder", "mltable", "mlflow_model", "custom_model", "triton_model")
_LITERAL_TYPES = ("string", "integer", "number", "boolean")
_FAMILIES_WITH_INPUTS = (Family.COMMAND, Family.PARALLEL, Family.SWEEP, Family.PIPELINE)


@target_rule("error", needs=("type",))
def unknown_type(plan: Plan, target: Target) -> None:
    if "inputs" in target.fields and _is_used_as_job(plan, target):
        _check_input_types(plan, target)
    if "type" in target.fields:
        _check_type(plan, target)


def _check_type(plan: Plan, target: Target) -> None:
    role = target.kind.role
    is_unknown_step = role == Role.STEP and target.kind.family == Family.OTHER
    name = (target.text("type") or "").partition("@")[0]
    if not name or not (role in (Role.JOB, Role.COMPONENT) or is_unknown_step):
        return
    if name in V2_TYPES or name.endswith("Component") or name in _INTERNAL_TYPES:
        return
    near = nearest(name.lower(), (*V2_TYPES, *CONTROL_TYPES), cutoff=0.8)
    reason = f"did you mean `{near}`?" if near else ""
    if name in _PREVIEW_TYPES and role == Role.STEP:
        reason = "today it is the type of the component: `type: command`"
    message = f"`type: {name}` of {target.shown} is not a type of AzureML: it is rejected"
    plan.report(unknown_type, message, target.fields["type"][1], reason=reason)


def _is_used_as_job(plan: Plan, target: Target) -> bool:
    """Whether inputs are values: those of a step, or of a pipeline that cannot be a component."""
    if target.kind.role == Role.STEP:
        return target.kind.family in _FAMILIES_WITH_INPUTS
    return (
        target.kind is KINDS[Family.PIPELINE, Role.JOB]
        and "job" in (target.text("$schema") or "").lower()
        and not plan.project.uses(plan.path)
    )


def _check_input_types(plan: Plan, target: Target) -> None:
    for name, (_, value) in pairs(target.fields["inputs"][1]).items():
        node = get(value, "type")
        text = text_of(node)
        if node is None or text is None or "${{" in text or text.lower() in _DATA_TYPES:
            continue
        reason = f"an input of a job is one of {', '.join(_DATA_TYPES)}, or a plain value"
        if text.lower() in _LITERAL_TYPES:
            reason = f"only components declare it: `{name}: VALUE`"
        message = f"`type: {text}` of input `{name}` of {target.shown} is rejected"
        plan.report(unknown_type, message, node, reason=reason)


@rule("warning", needs=("$schema",))
def wrong_schema(plan: Plan) -> None:
    for root in (document.root for document in plan.documents):
        schema = root.text("$schema") or ""
        type_kind = V2_TYPES.get(root.text("type") or "")
        asset = _ASSET_SCHEMA.search(schema)
        schema_kind = schema_family(schema) or (asset[1] if asset else "")
        if type_kind and schema_kind and type_kind != schema_kind:
            message = f"`$schema` names the kind {schema_kind}, and `type` says {type_kind}"
        elif root.kind.role == Role.COMPONENT and schema_kind and "job" in schema.lower():
            message = f"`$schema` names a job, and this is a {root.kind.name}"
        else:
            continue
        plan.report(wrong_schema, message, root.fields["$schema"][0])


@target_rule("error")
def invalid_name(plan: Plan, target: Target) -> None:
    role = target.kind.role
    if role == Role.STEP and target.name and not _STEP_NAME.fullmatch(target.name):
        message = f"`{target.name}` is rejected as the name of a step"
        reason = "lower-case letters, digits and `_` only, and no digit in front"
        plan.report(invalid_name, message, target.at, reason=reason)
    elif role == Role.COMPONENT and target.parent is None:
        name = target.text("name")
        if name and not _COMPONENT_NAME.fullmatch(name):
            _report_component_name(plan, name, target.place_of(("name",)))


def _report_component_name(plan: Plan, name: str, node: YamlNode) -> None:
    message = f"`{name}` is rejected as the name of a component"
    reason = "lower-case letters, digits and `_` only, and a letter in front"
    # A pipeline or deployment that references the file does not read its name.
    uses = plan.project.uses(plan.path)
    if uses and uses <= {"component", "trial"}:
        message += " that is registered or loaded by itself"
        reason += "; the files that use it do not mind"
        plan.add_finding(invalid_name.id, "note", message, node, reason=reason)
    else:
        plan.report(invalid_name, message, node, reason=reason)
