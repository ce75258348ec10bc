"""What `--expose-parameters` writes in YAML: inputs of pipelines, and the component files around their steps.

A leaf cannot have them: `instance_count: ${{inputs.x}}` is rejected there. So a lone component gets a one-step
pipeline component around it, and a v1.5 spec a finding. An inline command step cannot bind its count either: its
job moves to a component file beside the pipeline.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from arc_toolkit.azureml.documents import FILE_STYLE, Target, is_bound
from arc_toolkit.azureml.kinds import Role
from arc_toolkit.azureml.place import EXPOSE
from arc_toolkit.edit.edits import Refused
from arc_toolkit.edit.yaml_editor import Editor
from arc_toolkit.edit.yaml_nodes import construct, pairs
from arc_toolkit.edit.yaml_writer import file_text

if TYPE_CHECKING:
    from arc_toolkit.azureml.yaml_engine import YamlPlan

SCHEMAS = "https://azuremlschemas.azureedge.net/latest"
FIELDS = ("instance_type", "instance_count")
# What of an inline command job belongs to a component; the rest is the step's.
_COMPONENT_KEYS = ("command", "code", "environment", "distribution")


def expose_root(plan: YamlPlan, root: Target) -> None:
    """Expose the resources of what is not a pipeline, or say why that cannot be done."""
    kind = root.kind
    if kind.role == Role.SPEC:
        reason = "pass them from `@dsl.pipeline` parameters to `runsettings.resource_layout.configure(...)`"
        plan.add_finding(
            EXPOSE, "note", "a v1.5 spec has no place for parameters of resources", root.at, reason=reason
        )
    elif kind.role == Role.COMPONENT and kind.resources:
        if not plan.library.uses(plan.path):
            _wrap(plan, root)
    elif kind.resources:
        reason = "`instance_count: ${{inputs.x}}` is rejected in a job; make it a step of a pipeline"
        plan.add_finding(EXPOSE, "note", f"a {kind.name} cannot expose its resources", root.at, reason=reason)


# --- an inline command step ------------------------------------------------------------------------------------


def move_to_component(plan: YamlPlan, step: Target) -> bool:
    """An inline step cannot bind its count (azure-ai-ml: "component missing"): its job becomes a component file."""
    stem = os.path.basename(plan.path).rpartition(".")[0] or "pipeline"
    name = re.sub(r"[^a-z0-9_]+", "_", f"{stem}_{step.name}".lower()).strip("_")
    name = name if name[:1].isalpha() else f"c_{name}"
    file = f"{stem}.{step.name}.yml"
    body = _component_of(plan, step, name)
    problem = "standard input has no folder for its component" if plan.path == "-" else None
    if body is None:
        problem = "the types of its inputs are not known"

    def move(editor: Editor) -> None:
        # `component` takes the place of `command`, so that one line stays even where nothing else does.
        for key in _COMPONENT_KEYS[1:]:
            if key in step.own:
                editor.remove((*step.path, key))
        editor.rename((*step.path, "command"), "component", f"./{file}")
        if "type" not in step.own:
            editor.set((*step.path, "type"), "command")

    try:
        if problem is None:
            plan.attempt(move)
    except Refused as refusal:
        problem = str(refusal)
        plan.refusals.append(problem)
    if problem is not None or body is None:
        reason = (
            f"an inline command step cannot bind its count, and moving it to a component file fails: {problem}"
        )
        plan.add_finding(
            EXPOSE, "warning", f"instance_count of step `{step.name}` is not exposed", step.at, reason=reason
        )
        return False
    path = os.path.join(os.path.dirname(plan.path), file)
    plan.new_files.append((path, file_text(body, FILE_STYLE).encode()))
    reason = "an inline command step cannot bind its instance_count"
    plan.add_finding(EXPOSE, "note", f"step `{step.name}` moves to {file}", step.at, reason=reason, applied=True)
    return True


def _component_of(plan: YamlPlan, step: Target, name: str) -> dict[str, Any] | None:
    inputs = {key: _input_type(step, construct(value)) for key, (_, value) in pairs(step.get("inputs")).items()}
    outputs = {key: _port_type(construct(value)) for key, (_, value) in pairs(step.get("outputs")).items()}
    asked = {"instance_type": plan.settings.instance_type, "instance_count": plan.settings.instance_count}
    body: dict[str, Any] = {
        "$schema": f"{SCHEMAS}/commandComponent.schema.json",
        "type": "command",
        "name": name,
        "version": "1",
        "inputs": {key: {"type": kind} for key, kind in inputs.items()},
        "outputs": {key: {"type": kind} for key, kind in outputs.items()},
        **{key: construct(step.get(key)) for key in _COMPONENT_KEYS if key in step.own},
        # As every other component of the run gets them.
        "resources": {field: value for field, value in asked.items() if value is not None},
    }
    is_known = None not in inputs.values() and isinstance(body.get("command"), str)
    return _without_empty(body) if is_known else None


def _without_empty(body: dict[str, Any]) -> dict[str, Any]:
    sections = ("inputs", "outputs", "resources")
    return {key: value for key, value in body.items() if value or key not in sections}


def _port_type(value: Any) -> str:
    return str(value.get("type", "uri_folder")) if isinstance(value, dict) else "uri_folder"


_LITERALS = {bool: "boolean", int: "integer", float: "number"}
_PARENT = re.compile(r"\$\{\{parent\.inputs\.([A-Za-z_]\w*)\}\}")
_OUTPUT = re.compile(r"\$\{\{parent\.jobs\.([^.}]+)\.outputs\.([A-Za-z_]\w*)\}\}")


def _input_type(step: Target, value: Any) -> str | None:
    """The component's type for what a step passes: a literal, a typed input, or what a binding leads to."""
    if isinstance(value, dict):
        if "type" in value:
            return str(value["type"])
        return _input_type(step, value.get("path")) if isinstance(value.get("path"), str) else None
    if not isinstance(value, str) or step.parent is None:
        return _LITERALS.get(type(value))
    if match := _PARENT.fullmatch(value.strip()):
        declared = construct(step.parent.get("inputs", match[1]))
        return None if isinstance(declared, str) and "${{" in declared else _input_type(step, declared)
    if match := _OUTPUT.fullmatch(value.strip()):
        return _port_type(construct(step.parent.get("jobs", match[1], "outputs", match[2])))
    return None if "${{" in value else "string"


# --- a lone component ------------------------------------------------------------------------------------------


def _wrap(plan: YamlPlan, leaf: Target) -> None:
    """A pipeline component of one step around a component, with its inputs and outputs and the two parameters."""
    stem = os.path.basename(plan.path).rpartition(".")[0]
    instance_type = plan.settings.instance_type or leaf.text("resources", "instance_type")
    inputs, outputs = construct(leaf.get("inputs")) or {}, construct(leaf.get("outputs")) or {}
    problem = ""
    if plan.path == "-":
        problem = "standard input has no folder for it"
    elif instance_type is None or is_bound(instance_type):
        problem = "no instance type to start from: use --instance-type"
    elif not all(
        isinstance(ports, dict) and all(isinstance(value, dict) for value in ports.values())
        for ports in (inputs, outputs)
    ):
        problem = "an input or output of it has no type"
    if problem:
        plan.add_finding(EXPOSE, "warning", "no pipeline component is written around it", leaf.at, reason=problem)
        return
    count = plan.settings.instance_count or leaf.text("resources", "instance_count") or 1
    step = {
        "type": str(leaf.kind.family),
        "component": f"./{os.path.basename(plan.path)}",
        "inputs": {name: f"${{{{parent.inputs.{name}}}}}" for name in inputs},
        "outputs": {name: f"${{{{parent.outputs.{name}}}}}" for name in outputs},
        "resources": {field: f"${{{{parent.inputs.{field}}}}}" for field in FIELDS},
    }
    name = re.sub(r"[^a-z0-9_]+", "_", leaf.name.lower()).strip("_")
    body = {
        "$schema": f"{SCHEMAS}/pipelineComponent.schema.json",
        "type": "pipeline",
        "name": f"{name}_sized",
        "version": leaf.text("version") or "1",
        "display_name": f"{leaf.text('display_name') or leaf.name} (instance type and count as inputs)",
        "inputs": {
            **{name: value for name, value in inputs.items() if name not in FIELDS},
            "instance_type": {"type": "string", "default": instance_type},
            "instance_count": {"type": "integer", "default": int(count)},
        },
        "outputs": outputs,
        "jobs": {re.sub(r"[^a-z0-9_]+", "_", stem.lower()): _without_empty(step)},
    }
    path = os.path.join(os.path.dirname(plan.path), f"{stem}.sized.yml")
    plan.new_files.append((path, file_text(_without_empty(body), FILE_STYLE).encode()))
    reason = "a leaf component cannot bind instance_count to an input of its own"
    message = f"{os.path.basename(path)} exposes instance_type and instance_count"
    plan.add_finding(EXPOSE, "note", message, leaf.at, reason=reason, applied=True)
