"""`--expose-parameters`: instance type and count as inputs of a pipeline, bound in its steps.

A leaf cannot have them: `instance_count: ${{inputs.x}}` is rejected there. So a lone component gets a one-step
pipeline component around it, and a v1.5 spec a finding. An inline command step cannot bind its count either: its
job moves to a component file beside the pipeline.
"""

from __future__ import annotations

import os
import re
from typing import Any

import yaml

from arc_toolkit.azureml.documents import Document, Target
from arc_toolkit.azureml.kinds import Family, Role
from arc_toolkit.azureml.work import Work
from arc_toolkit.azureml.yaml_style import FILE_STYLE, is_bound
from arc_toolkit.edit.edits import Refused
from arc_toolkit.edit.yaml_editor import Editor
from arc_toolkit.edit.yaml_nodes import construct, pairs, text_of
from arc_toolkit.edit.yaml_writer import file_text

RULE = "expose-parameters"
SCHEMAS = "https://azuremlschemas.azureedge.net/latest"
FIELDS = ("instance_type", "instance_count")
# What of an inline command job belongs to a component; the rest is the step's.
_COMPONENT_KEYS = ("command", "code", "environment", "distribution")


def expose(work: Work, document: Document) -> None:
    """Expose what this document can expose; say why where it cannot."""
    root = document.root
    kind = root.kind
    if not work.settings.wants(RULE):
        return
    if kind.family == Family.PIPELINE:
        _expose_pipeline(work, document)
    elif kind.role == Role.SPEC:
        reason = "pass them from `@dsl.pipeline` parameters to `runsettings.resource_layout.configure(...)`"
        work.found(RULE, "note", "a v1.5 spec has no place for parameters of resources", root.at, reason=reason)
    elif kind.role == Role.COMPONENT and kind.resources:
        if not work.library.uses(work.file.path):
            _wrap(work, root)
    elif kind.resources:
        reason = "`instance_count: ${{inputs.x}}` is rejected in a job; make it a step of a pipeline"
        work.found(RULE, "note", f"a {kind.name} cannot expose its resources", root.at, reason=reason)


# --- pipelines -------------------------------------------------------------------------------------------------


def _expose_pipeline(work: Work, document: Document) -> None:
    root = document.root
    steps = [
        step for step in document.steps if step.kind.resources and work.wants(RULE, step) and step.parent is root
    ]
    if not steps:
        return
    if any(is_bound_elsewhere(step, field) for step in steps for field in FIELDS):
        message = "some resources of steps are bound to other inputs already; those stay"
        work.found(RULE, "note", message, root.at)
    for field, asked, fallback in (
        ("instance_type", work.settings.instance_type, None),
        ("instance_count", work.settings.instance_count, 1),
    ):
        # An ignore of the setting itself keeps a step's value as much as one of expose-parameters.
        rule = field.replace("_", "-")
        free = [step for step in steps if not work.ignored(rule, step, ("resources", field))]
        if not free:
            continue
        default = _default(work, free, field, asked, fallback)
        if default is None or not _declare(work, root, field, default):
            continue
        for step in free:
            _bind(work, step, field)


def is_bound_elsewhere(step: Target, field: str) -> bool:
    current = step.text("resources", field)
    return is_bound(current) and current != f"${{{{parent.inputs.{field}}}}}"


def _default(
    work: Work, steps: list[Target], field: str, asked: str | int | None, fallback: int | None
) -> str | int | None:
    """The default of the new input: what was asked, else what all steps have, else the fallback."""
    if asked is not None:
        return asked
    values = {work.effective(step, "resources", field) for step in steps}
    values = {value for value in values if not is_bound(value)}
    known = sorted(value for value in values if value is not None)
    option = "--" + field.replace("_", "-")
    at = steps[0].parent.at if steps[0].parent else steps[0].at
    if len(values) > 1 and known:
        shown = ", ".join(known) + (" and none" if None in values else "")
        reason = f"its steps differ ({shown}): give {option} to use one value for all"
        work.found(RULE, "warning", f"{field} is not exposed", at, reason=reason)
        return None
    if known:
        return int(known[0]) if known[0].isdigit() and field == "instance_count" else known[0]
    declared = steps[0].parent.get("inputs", field) if steps[0].parent else None
    if fallback is None and declared is None:
        reason = f"no step says which: give {option}"
        work.found(RULE, "warning", f"{field} is not exposed", at, reason=reason)
    if declared is not None:
        return text_of(declared) or _declared_default(declared) or fallback
    return fallback


def _declared_default(node: yaml.Node) -> str | None:
    own = pairs(node)
    return text_of(own["default"][1]) if "default" in own else None


def _declare(work: Work, root: Target, field: str, default: str | int) -> bool:
    """The input itself: a plain value in a job, a typed one with a default in a component."""
    declared = root.get("inputs", field)
    own = pairs(declared)
    if root.kind.role == Role.COMPONENT or own:
        key = "default" if root.kind.role == Role.COMPONENT else "value" if "value" in own else "default"
        if declared is None:
            kind = "string" if field == "instance_type" else "integer"
            return work.set(RULE, root, ("inputs", field), {"type": kind, "default": default})
        if text_of(root.get("inputs", field, key)) == str(default):
            return True
        return work.set(RULE, root, ("inputs", field, key), default)
    return text_of(declared) == str(default) or work.set(RULE, root, ("inputs", field), default)


def _bind(work: Work, step: Target, field: str) -> None:
    binding = f"${{{{parent.inputs.{field}}}}}"
    current = step.text("resources", field)
    if current == binding or is_bound(current):
        return
    inline = step.kind.family == Family.COMMAND and step.get("component") is None
    if inline and field == "instance_count" and not _move_to_component(work, step):
        return
    work.set(RULE, step, ("resources", field), binding)


# --- an inline command step ------------------------------------------------------------------------------------


def _move_to_component(work: Work, step: Target) -> bool:
    """An inline step cannot bind its count (azure-ai-ml: "component missing"): its job becomes a component file."""
    stem = os.path.basename(work.file.path).rpartition(".")[0] or "pipeline"
    name = re.sub(r"[^a-z0-9_]+", "_", f"{stem}_{step.name}".lower()).strip("_")
    name = name if name[:1].isalpha() else f"c_{name}"
    file = f"{stem}.{step.name}.yml"
    body = _component_of(work, step, name)
    problem = "standard input has no folder for its component" if work.file.path == "-" else None
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
            work.attempt(move)
    except Refused as refusal:
        problem = str(refusal)
        work.refusals.append(problem)
    if problem is not None or body is None:
        reason = (
            f"an inline command step cannot bind its count, and moving it to a component file fails: {problem}"
        )
        work.found(RULE, "warning", f"instance_count of step `{step.name}` is not exposed", step.at, reason=reason)
        return False
    path = os.path.join(os.path.dirname(work.file.path), file)
    work.new_files.append((path, file_text(body, FILE_STYLE).encode()))
    reason = "an inline command step cannot bind its instance_count"
    work.found(RULE, "note", f"step `{step.name}` moves to {file}", step.at, reason=reason, applied=True)
    return True


def _component_of(work: Work, step: Target, name: str) -> dict[str, Any] | None:
    inputs = {}
    for key, (_, value) in pairs(step.get("inputs")).items():
        kind = _input_type(step, construct(value))
        if kind is None:
            return None
        inputs[key] = {"type": kind}
    outputs = {}
    for key, (_, value) in pairs(step.get("outputs")).items():
        data = construct(value)
        outputs[key] = {"type": data.get("type", "uri_folder") if isinstance(data, dict) else "uri_folder"}
    body: dict[str, Any] = {
        "$schema": f"{SCHEMAS}/commandComponent.schema.json",
        "type": "command",
        "name": name,
        "version": "1",
    }
    if inputs:
        body["inputs"] = inputs
    if outputs:
        body["outputs"] = outputs
    for key in _COMPONENT_KEYS:
        if key in step.own:
            body[key] = construct(step.get(key))
    asked = {"instance_type": work.settings.instance_type, "instance_count": work.settings.instance_count}
    if resources := {field: value for field, value in asked.items() if value is not None}:
        # As every other component of the run gets them.
        body["resources"] = resources
    return body if isinstance(body.get("command"), str) else None


_PARENT = re.compile(r"\$\{\{parent\.inputs\.([A-Za-z_]\w*)\}\}")
_OUTPUT = re.compile(r"\$\{\{parent\.jobs\.([^.}]+)\.outputs\.([A-Za-z_]\w*)\}\}")


def _input_type(step: Target, value: Any) -> str | None:
    """The component's type for what a step passes: a literal, a typed input, or what a binding leads to."""
    if isinstance(value, dict):
        if "type" in value:
            return str(value["type"])
        return _input_type(step, value.get("path")) if isinstance(value.get("path"), str) else None
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    if not isinstance(value, str) or step.parent is None:
        return None
    if match := _PARENT.fullmatch(value.strip()):
        declared = construct(step.parent.get("inputs", match[1]))
        return None if isinstance(declared, str) and "${{" in declared else _input_type(step, declared)
    if match := _OUTPUT.fullmatch(value.strip()):
        produced = construct(step.parent.get("jobs", match[1], "outputs", match[2]))
        return str(produced.get("type", "uri_folder")) if isinstance(produced, dict) else "uri_folder"
    return None if "${{" in value else "string"


# --- a lone component ------------------------------------------------------------------------------------------


def _wrap(work: Work, leaf: Target) -> None:
    """A pipeline component of one step around a component, with its inputs and outputs and the two parameters."""
    stem = os.path.basename(work.file.path).rpartition(".")[0]
    instance_type = work.settings.instance_type or leaf.text("resources", "instance_type")
    if instance_type is None or is_bound(instance_type) or work.file.path == "-":
        reason = "no instance type to start from: give --instance-type"
        if work.file.path == "-":
            reason = "standard input has no folder for it"
        work.found(RULE, "warning", "no pipeline component is written around it", leaf.at, reason=reason)
        return
    count = work.settings.instance_count or leaf.text("resources", "instance_count") or 1
    inputs = construct(leaf.get("inputs")) or {}
    outputs = construct(leaf.get("outputs")) or {}
    ports = (
        [*inputs.values(), *outputs.values()] if isinstance(inputs, dict) and isinstance(outputs, dict) else [None]
    )
    if not all(isinstance(value, dict) for value in ports):
        reason = "an input or output of it has no type"
        work.found(RULE, "warning", "no pipeline component is written around it", leaf.at, reason=reason)
        return
    step: dict[str, Any] = {"type": str(leaf.kind.family), "component": f"./{os.path.basename(work.file.path)}"}
    if inputs:
        step["inputs"] = {name: f"${{{{parent.inputs.{name}}}}}" for name in inputs}
    if outputs:
        step["outputs"] = {name: f"${{{{parent.outputs.{name}}}}}" for name in outputs}
    step["resources"] = {field: f"${{{{parent.inputs.{field}}}}}" for field in FIELDS}
    name = re.sub(r"[^a-z0-9_]+", "_", leaf.name.lower()).strip("_")
    body: dict[str, Any] = {
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
    }
    if outputs:
        body["outputs"] = outputs
    body["jobs"] = {re.sub(r"[^a-z0-9_]+", "_", stem.lower()): step}
    path = os.path.join(os.path.dirname(work.file.path), f"{stem}.sized.yml")
    work.new_files.append((path, file_text(body, FILE_STYLE).encode()))
    reason = "a leaf component cannot bind instance_count to an input of its own"
    message = f"{os.path.basename(path)} exposes instance_type and instance_count"
    work.found(RULE, "note", message, leaf.at, reason=reason, applied=True)
