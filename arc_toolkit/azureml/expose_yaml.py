"""What `--expose-parameters` writes in YAML: inputs of pipelines, and component files of inline
steps.

A leaf cannot have such inputs: `instance_count: ${{inputs.x}}` is rejected there, so only pipelines
get them. An inline command step cannot bind its count either: its job moves to a component file
beside the pipeline.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import yaml

from arc_toolkit.azureml.documents import FILE_STYLE, Parameter, Target
from arc_toolkit.azureml.expose import EXPOSE, parameter_names
from arc_toolkit.azureml.kinds import Family, Role, Slot
from arc_toolkit.azureml.values import MAX_PIPELINE_DEPTH
from arc_toolkit.edit.files.edits import Refused, Unreadable
from arc_toolkit.edit.yaml.editor import YamlEditor
from arc_toolkit.edit.yaml.nodes import KeyPath, YamlNode, compose, construct, get, pairs, text_of
from arc_toolkit.edit.yaml.proof import has_value, is_same_but_for
from arc_toolkit.edit.yaml.writer import file_text

if TYPE_CHECKING:
    from arc_toolkit.azureml.yaml_plan import YamlPlan

_SCHEMA = "https://azuremlschemas.azureedge.net/latest/commandComponent.schema.json"
# What of an inline command job belongs to a component; the rest is the step's.
_COMPONENT_KEYS = ("command", "code", "environment", "distribution")
# Of pipeline files, by their full path: the input for each slot, and its default.
InnerParameters = Mapping[str, Mapping[Slot, tuple[str, str]]]


def report_root(plan: YamlPlan, root: Target) -> None:
    """Why what is not a pipeline has no parameters."""
    kind = root.kind
    if kind.role == Role.SPEC:
        message = "a v1.5 spec has no place for parameters of resources"
        reason = (
            "pass them from `@dsl.pipeline` parameters to "
            "`runsettings.resource_layout.configure(...)`"
        )
    elif not kind.resources or plan.project.uses(plan.path):
        return
    else:
        message = f"a {kind.name} cannot expose its resources"
        reason = (
            "azure-ai-ml rejects `instance_count: ${{inputs.x}}` in it: only a pipeline has such "
            "inputs"
        )
    plan.add_finding(EXPOSE, "note", message, root.at, reason=reason)


# --- the inputs of a pipeline ---------------------------------------------------------------------


def parameter_name(plan: YamlPlan, pipeline: Target, slot: Slot) -> str:
    """The input for a slot: of the slot's name, unless the pipeline has such an input for something
    else.
    """
    return next(name for name in parameter_names(slot) if _is_free(plan, pipeline, slot, name))


def _steps(pipeline: Target, targets: Iterable[Target]) -> dict[str, Target]:
    return {
        step.name: step
        for step in targets
        if step.kind.role == Role.STEP and step.parent is pipeline
    }


def _is_free(
    plan: YamlPlan,
    pipeline: Target,
    slot: Slot,
    name: str,
    steps: Mapping[str, Target] | None = None,
    depth: int = 0,
) -> bool:
    """Whether there is no such input, or all that it is used for is this slot."""
    declared = pipeline.get("inputs", name)
    if declared is None:
        return True
    value = construct(declared)
    literal = value.get("default", value.get("value")) if isinstance(value, dict) else value
    kind = value.get("type") if isinstance(value, dict) else None
    is_count = slot == Slot.INSTANCE_COUNT
    if kind not in (None, "integer" if is_count else "string") or (
        isinstance(value, dict) and "enum" in value
    ):
        return False
    if literal is not None and (
        isinstance(literal, bool) or not isinstance(literal, int if is_count else str)
    ):
        return False
    text = f"${{{{parent.inputs.{name}}}}}"
    if pipeline not in plan.bindings:  # both slots ask
        plan.bindings[pipeline] = list(_bindings(pipeline.get("jobs")))
    places = [path for path, value in plan.bindings[pipeline] if text in value]
    steps = steps if steps is not None else _steps(pipeline, plan.known_targets()) if places else {}
    return all(_is_for(plan, steps, slot, path, depth) for path in places)


def _is_for(
    plan: YamlPlan, steps: Mapping[str, Target], slot: Slot, path: KeyPath, depth: int
) -> bool:
    """Whether a place below `jobs` takes the value of a slot; an inner pipeline may take it as its
    own input.
    """
    if path[1:] in (slot.path, slot.path[1:]):
        return True
    step = steps.get(str(path[0])) if path[1:-1] == ("inputs",) else None
    if (
        step is None
        or step.kind.family != Family.PIPELINE
        or str(path[-1]) not in parameter_names(slot)
    ):
        return False
    inner = plan.project.referenced(step) if depth < MAX_PIPELINE_DEPTH else None
    if inner is None:
        return True
    return _is_free(
        plan, inner.root, slot, str(path[-1]), _steps(inner.root, inner.targets), depth + 1
    )


def _bindings(node: YamlNode | None, path: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    """The paths and the text of the scalars that have a binding to an input in them."""
    below: Iterable[tuple[str | int, YamlNode]] = ()
    if isinstance(node, yaml.SequenceNode):
        below = enumerate(node.value)
    elif isinstance(node, yaml.MappingNode):
        below = ((str(key.value), value) for key, value in node.value)
    for name, value in below:
        if not isinstance(value, yaml.ScalarNode):
            yield from _bindings(value, (*path, name))
        elif "${{parent.inputs." in value.value:
            yield (*path, name), value.value


# --- a pipeline in a pipeline ---------------------------------------------------------------------


def pass_on(plan: YamlPlan, outer: Target, step: Target) -> None:
    """What the pipeline of a step exposes, `outer` exposes too."""
    for slot, (name, default) in plan.inner_parameters.get(step.reference or "", {}).items():
        path = ("inputs", name)
        own = plan.parameter(outer, slot)
        is_passed = step.text(*path) == str(Parameter(own))
        if (step.is_bound(path) and not is_passed) or not plan.wants(EXPOSE, step):
            continue
        if any(plan.ignored(rule, step, path) for rule in (slot.rule, EXPOSE)):
            continue
        asked = getattr(plan.settings, slot.path[-1]) if plan.settings.wants(slot.rule) else None
        inner = step.text(*path) or default
        declared = plan.values.own(outer, "inputs", own) or plan.values.own(
            outer, "inputs", own, "default"
        )
        if asked is None and not is_passed and declared not in (None, inner):
            reason = (
                f"the defaults differ ({inner}, and {declared} of the parameter): use --{slot.rule}"
            )
            message = f"{name} is not passed on to {step.shown}"
            plan.warn(EXPOSE, message, step.place_of(path), reason)
            continue
        value = int(inner) if slot == Slot.INSTANCE_COUNT and inner.isdigit() else inner
        has_value = asked is None and declared is not None
        if (has_value or plan.declare(outer, slot, asked or value)) and not is_passed:
            plan.set(EXPOSE, step, path, Parameter(own))


# --- an inline command step -----------------------------------------------------------------------


def move_to_component(plan: YamlPlan, step: Target) -> bool:
    """An inline step cannot bind its count (azure-ai-ml: "component missing"): its job becomes a
    component file.
    """
    stem = os.path.basename(plan.path).rpartition(".")[0] or "pipeline"
    name = re.sub(r"[^a-z0-9_]+", "_", f"{stem}_{step.name}".lower()).strip("_")
    name = name if name[:1].isalpha() else f"c_{name}"
    file = f"{stem}.{step.name}.yml"
    head = _head(plan, step, name)
    moved = [key for key in step.fields if key in _COMPONENT_KEYS]
    taken: dict[str, str] = {}

    def move(editor: YamlEditor) -> None:
        # `component` takes the place of `command`, so that one line stays even where nothing else
        # does.
        for key in moved:
            if key not in taken:  # it is tried first
                taken[key] = editor.lines((*step.path, key), comments=key != "command")
            if key != "command":
                editor.remove((*step.path, key), comments=True)
        editor.rename((*step.path, "command"), "component", f"./{file}")
        if "type" not in step.fields:
            editor.set((*step.path, "type"), "command")

    problem = "standard input has no folder for its component" if plan.path == "-" else None
    if head is None:
        problem = "the types of its inputs are not known"
    if "environment" not in step.fields:
        problem = "it has no environment, which a component must have"
    try:
        if problem is None:
            plan.perform((EXPOSE, *step.path), move)
    except Refused as refusal:
        problem = refusal.reason
        plan.refusals.append(problem)
    if problem is not None or head is None:
        message = f"instance_count of step `{step.name}` is not exposed"
        why = (
            "an inline command step cannot bind its count, and moving it to a component file fails"
        )
        plan.warn(EXPOSE, message, step.at, f"{why}: {problem}")
        return False
    path = os.path.join(os.path.dirname(plan.path), file)
    plan.new_files.append(
        (path, _file(head, {key: step.get(key) for key in moved}, taken).encode())
    )
    reason = "an inline command step cannot bind its instance_count"
    plan.add_finding(
        EXPOSE, "note", f"step `{step.name}` moves to {file}", step.at, reason=reason, applied=True
    )
    return True


def _file(head: dict[str, Any], body: dict[str, YamlNode | None], taken: dict[str, str]) -> str:
    """The component: what is moved is written as its author wrote it, with its comments, if that
    can stand alone.
    """
    text = file_text(head, FILE_STYLE) + "".join(taken.values())
    try:
        is_same = _means(compose(text), head, body)
    except Unreadable:  # an alias whose anchor is not in it
        is_same = False
    if is_same:
        return text
    return file_text({**head, **{key: construct(node) for key, node in body.items()}}, FILE_STYLE)


def _means(
    documents: tuple[YamlNode | None, ...], head: dict[str, Any], body: dict[str, YamlNode | None]
) -> bool:
    """Whether a text has these values, and what these nodes of another text mean, and nothing else."""
    root = documents[0] if len(documents) == 1 else None
    own = root.value if isinstance(root, yaml.MappingNode) else []
    return [key.value for key, _ in own] == [*head, *body] and all(
        is_same_but_for(None, body[key.value], node, set())
        if key.value in body
        else has_value(node, head[key.value])
        for key, node in own
    )


def _head(plan: YamlPlan, step: Target, name: str) -> dict[str, Any] | None:
    """What a component has and an inline job has not; None where it is not known."""
    inputs = {
        key: _input(plan, step, construct(node))
        for key, (_, node) in pairs(step.get("inputs")).items()
    }
    outputs = {
        key: _output(step, construct(node)) for key, (_, node) in pairs(step.get("outputs")).items()
    }
    if None in inputs.values() or step.text("command") is None:
        return None
    asked = {
        "instance_type": plan.settings.instance_type,
        "instance_count": plan.settings.instance_count,
    }
    sections = {
        "inputs": inputs,
        "outputs": outputs,
        # As every other component of the run gets them.
        "resources": {field: value for field, value in asked.items() if value is not None},
    }
    head = {"$schema": _SCHEMA, "type": "command", "name": name, "version": "1"}
    return {**head, **{key: value for key, value in sections.items() if value}}


_LITERALS = {bool: "boolean", int: "integer", float: "number", str: "string"}
_PARENT = re.compile(r"\$\{\{parent\.(inputs|outputs)\.([A-Za-z_]\w*)\}\}")
_OTHER = re.compile(r"\$\{\{parent\.jobs\.([^.}]+)\.(inputs|outputs)\.([A-Za-z_]\w*)\}\}")
_FOLDER = {"type": "uri_folder"}


def _input(plan: YamlPlan, step: Target, value: Any, depth: int = 0) -> dict[str, Any] | None:
    """The component's input for what a step passes, as azure-ai-ml makes it of an inline step
    (entities/_job/pipeline/_component_translatable.py): a literal, a typed input, or what a binding
    leads to.
    """
    pipeline = step.parent
    if isinstance(value, dict):
        bound = value.get("path", value.get("value"))
        if "type" not in value and isinstance(bound, str) and "${{" in bound:
            return _input(plan, step, bound, depth)
        if "value" in value:
            return _typed_literal(value["value"])
        return {"type": str(value.get("type", "uri_folder"))}
    if not isinstance(value, str) or "${{" not in value:
        return {"type": _LITERALS[type(value)]} if type(value) in _LITERALS else None
    if pipeline is None or depth > 20:
        return None
    if match := _PARENT.fullmatch(value.strip()):
        declared = construct(pipeline.get(match[1], match[2]))
        if match[1] == "outputs":
            return _output(step, value)
        port = _input(plan, step, declared, depth + 1) if declared is not None else None
        mode = declared.get("mode") if isinstance(declared, dict) else None
        return {**port, "mode": mode} if port and isinstance(mode, str) else port
    if match := _OTHER.fullmatch(value.strip()):
        return _of_step(plan, step, match[1], match[2], match[3], depth)
    return None


def _typed_literal(value: Any) -> dict[str, Any] | None:
    """The type of `{value: 1000}`: 0 and 1 become booleans and other numbers integers, in this
    order (InputLiteralValueSchema in _schema/job/input_output_entry.py).
    """
    if isinstance(value, int | float):
        return {"type": "boolean" if value in (0, 1) else "integer"}
    return {"type": "string"} if isinstance(value, str) else None


def _of_step(
    plan: YamlPlan, step: Target, name: str, section: str, port: str, depth: int
) -> dict[str, Any] | None:
    """The type of an input or output of another step: its component says it first."""
    source = plan.step(step.parent, name) if step.parent is not None else None
    if source is None:
        return None
    document = plan.project.referenced(source)
    for declared in (source.get("component"), document.root.node if document else None):
        if kind := text_of(get(declared, section, port, "type")):
            return {"type": kind}
    value = construct(source.get(section, port))
    if section == "inputs":
        return _input(plan, source, value, depth + 1)
    if source.kind.family == Family.AUTOML:
        return {"type": "mltable"}
    return _output(source, value)


def _output(step: Target, value: Any) -> dict[str, Any]:
    """The component's output: its own type, that of the pipeline's output which it is bound to, or
    a folder.
    """
    if (
        isinstance(value, str)
        and step.parent is not None
        and (match := _PARENT.fullmatch(value.strip()))
    ):
        value = construct(step.parent.get(match[1], match[2]))
    return (
        {"type": str(value.get("type", "uri_folder"))} if isinstance(value, dict) else dict(_FOLDER)
    )
