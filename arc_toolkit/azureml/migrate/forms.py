"""The v2 texts: the trial as a command component, and the sweep as pipeline step, standalone job or Python module."""

from __future__ import annotations

import keyword
import posixpath
from typing import Any

from arc_toolkit.azureml.migrate import placeholders
from arc_toolkit.azureml.migrate.exports import exports
from arc_toolkit.azureml.migrate.interface import PYTHON_NAMES, Input, legal
from arc_toolkit.azureml.migrate.python_text import distribution_text, literal, sweep_arguments
from arc_toolkit.azureml.migrate.sweep_plan import MARK, SCHEMA, UNSET, SweepPlan
from arc_toolkit.azureml.yaml_style import FILE_STYLE
from arc_toolkit.edit.yaml_writer import Comment, file_text
from arc_toolkit.resources import render


def component(plan: SweepPlan, docker: Any) -> dict[str, Any]:
    """The v2 command component."""
    taken, source = plan.trial, plan.trial.source
    name = legal(
        str(source.data.get("name") or posixpath.basename(plan.component_path).split(".")[0]), component=True
    )
    if source.data.get("name") and name != source.data["name"]:
        message = f"the component is named {name}: v2 names are lower case letters, digits and underscores"
        source.note(message, "name")
    out: dict[str, Any] = {
        "$schema": SCHEMA.format("commandComponent"),
        "type": "command",
        "name": name,
        "version": str(source.data.get("version") or "1"),
    }
    for key in ("display_name", "description"):
        if source.data.get(key):
            out[key] = str(source.data[key])
    if tags := source.mapping("tags"):
        out["tags"] = {str(key): str(value) for key, value in tags.items()}
    out[Comment("As the sweep says, for which v1.5's default is false; v2 reuses runs by default.")] = None
    out["is_deterministic"] = plan.sweep.data.get("is_deterministic") is True
    if taken.inputs:
        out["inputs"] = {one.name: one.spec for one in taken.inputs.values()}
    if taken.outputs:
        out["outputs"] = taken.outputs
    out["code"] = taken.code
    if taken.includes:
        out["additional_includes"] = taken.includes
    prefix = "" if plan.settings.sweep_as == "job" else exports(plan.variables, plan.cores)
    if plan.cores is not None and f"={plan.cores}" in prefix:
        out[
            Comment(
                f"{plan.cores} threads are for {plan.instance_type}: another instance type wants another number."
            )
        ] = None
    out["command"] = prefix + _component_command(plan)
    out["environment"] = docker
    if taken.distribution:
        out["distribution"] = taken.distribution
    # For whoever uses the component without the sweep.
    if plan.asked:
        out["resources"] = plan.asked
    return out


def _component_command(plan: SweepPlan) -> str:
    def place(ref: placeholders.Placeholder) -> str:
        return f"${{{{{ref.kind}.{ref.name}}}}}"

    def group(one: placeholders.OptionalGroup) -> str:
        inner = placeholders.inner_text(one, place)
        # v2 drops a group when an optional input of it is not given; around others it is not a group.
        return f"$[[{inner}]]" if any(plan.trial.inputs[name].optional for name in one.names("inputs")) else inner

    return placeholders.render(plan.trial.parts, place, group)


def step(plan: SweepPlan) -> str:
    """A pipeline job with one sweep step; what can be set is an input of the pipeline."""
    kind, count = resource_names(plan)
    trial = posixpath.relpath(plan.component_path, plan.folder or ".")
    inputs: dict[str, Any] = {one.name: _value(one) for one in plan.fixed}
    bound: dict[str, Any] = {one.name: f"${{{{parent.inputs.{one.name}}}}}" for one in plan.fixed}
    for one in plan.left_out:
        inputs[Comment(f"optional: {one.name}: {one.spec['type'] if one.port else 'a value'}")] = None
        bound[Comment(f"optional: {one.name}: ${{{{parent.inputs.{one.name}}}}}")] = None
    out: dict[str, Any] = {
        **_head(plan, "pipelineJob", "pipeline"),
        "inputs": {
            Comment("Where and how wide each trial runs."): None,
            kind: plan.instance_type,
            count: plan.instance_count,
            **inputs,
        },
    }
    if plan.trial.outputs:
        out["outputs"] = {name: _output(spec) for name, spec in plan.trial.outputs.items()}
    out["settings"] = {"default_compute": plan.compute}
    trial = trial if trial.startswith("../") else f"./{trial}"
    node: dict[str, Any] = {"type": "sweep", "trial": trial, **plan.body}
    if plan.fixed:
        node["inputs"] = bound
    if plan.trial.outputs:
        node["outputs"] = {name: f"${{{{parent.outputs.{name}}}}}" for name in plan.trial.outputs}
    node["resources"] = {
        "instance_type": f"${{{{parent.inputs.{kind}}}}}",
        "instance_count": f"${{{{parent.inputs.{count}}}}}",
    }
    out["jobs"] = {"sweep": node}
    return file_text(out, FILE_STYLE)


def job(plan: SweepPlan, docker: Any) -> str:
    """A standalone sweep job. It holds its trial inline: v2 has no reference to a component there."""
    taken = plan.trial
    out: dict[str, Any] = {**_head(plan, "sweepJob", "sweep"), "compute": plan.compute}
    command = _job_command(plan)
    if inputs := {one.name: _value(one) for one in plan.fixed}:
        out["inputs"] = inputs
    if taken.outputs:
        out["outputs"] = {name: _output(spec) for name, spec in taken.outputs.items()}
    name = posixpath.relpath(plan.component_path, plan.folder or ".")
    without = ", without its environment variables" if plan.variables else ""
    trial: dict[str, Any] = {
        Comment(f"A sweep job holds its trial inline; {name} is the same trial as a component{without}."): None,
        "code": plan.move(taken.code),
        "command": command,
        "environment": docker,
    }
    if plan.variables:
        trial["environment_variables"] = plan.variables
    if taken.distribution:
        trial["distribution"] = taken.distribution
    if plan.asked:
        trial["resources"] = plan.asked
    out["trial"] = trial
    out |= plan.body
    out["resources"] = {"instance_type": plan.instance_type, "instance_count": plan.instance_count}
    if taken.includes:
        plan.sweep.warn(
            f"a sweep job takes no additional includes: copy {', '.join(taken.includes)} beside the code, "
            "or use --as step"
        )
    return file_text(out, FILE_STYLE)


def python(plan: SweepPlan) -> str:
    """A Python module with a pipeline function for azure-ai-ml."""
    kind, count = resource_names(plan)
    required = [one.name for one in plan.fixed if not one.has_default]
    defaults = [(one.name, literal(one.spec["default"])) for one in plan.fixed if one.has_default]
    defaults += [(kind, literal(plan.instance_type)), (count, literal(plan.instance_count))]
    used: set[str] = set()
    swept = [(name, distribution_text(drawn, used)) for name, drawn in plan.swept.items()]
    settings = sweep_arguments(plan.body, used)
    taken = {*plan.trial.inputs, kind, count, *PYTHON_NAMES, *keyword.kwlist}
    local = {word: _free(word, taken) for word in ("trial", "node", "sweep")}
    function = _free(legal(str(plan.sweep.data.get("name") or "sweep"), component=True), taken)
    return render(
        "sweep_pipeline.py.j2",
        mark=MARK,
        origin=plan.origin,
        literal=literal,
        title=plan.title,
        description=str(plan.sweep.data.get("description") or ""),
        tags=plan.tags,
        function=function,
        component=posixpath.relpath(plan.component_path, plan.folder or "."),
        classes=sorted(used),
        required=required,
        defaults=defaults,
        left_out=[one.name for one in plan.left_out],
        swept=swept,
        settings=settings,
        outputs=list(plan.trial.outputs),
        compute=plan.compute.removeprefix("azureml:"),
        kind=kind,
        count=count,
        local=local,
    )


def resource_names(plan: SweepPlan) -> tuple[str, str]:
    """The pipeline's inputs for instance type and count; a trial may have inputs of these names itself."""
    taken = {name.lower() for name in plan.trial.inputs}
    return _free("instance_type", taken), _free("instance_count", taken)


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name = f"sweep_{name}"
    return name


def _head(plan: SweepPlan, schema: str, kind: str) -> dict[str, Any]:
    out: dict[str, Any] = {
        Comment(f"{MARK} from {plan.origin}."): None,
        "$schema": SCHEMA.format(schema),
        "type": kind,
        "display_name": plan.title,
    }
    if plan.sweep.data.get("description"):
        out["description"] = str(plan.sweep.data["description"])
    if plan.tags:
        out["tags"] = plan.tags
    return out


def _value(one: Input) -> Any:
    if one.has_default:
        return one.spec["default"]
    if not one.port:
        return UNSET
    out: dict[str, Any] = {"type": one.spec["type"]}
    out[Comment("path: azureml:NAME@latest, or a folder, file or URL")] = None
    if "mode" in one.spec:
        out["mode"] = one.spec["mode"]
    return out


def _output(spec: dict[str, Any]) -> dict[str, Any]:
    return {key: spec[key] for key in ("type", "mode") if key in spec}


def _job_command(plan: SweepPlan) -> str:
    """The trial's command of a standalone job: swept inputs are `search_space`, and there are no optional groups."""
    missing = {one.name for one in plan.left_out}

    def place(ref: placeholders.Placeholder) -> str:
        if ref.kind == "inputs" and ref.name in missing:
            raise plan.trial.source.refuse(
                f"the command uses the optional input {ref.name} outside of brackets, and a job has no value for it: "
                f"write [--{ref.name} {{inputs.{ref.name}}}] or give it a default",
                "inputs",
                ref.name,
            )
        swept = ref.kind == "inputs" and ref.name in plan.swept
        return f"${{{{{'search_space' if swept else ref.kind}.{ref.name}}}}}"

    def group(one: placeholders.OptionalGroup) -> str | None:
        return None if one.names("inputs") & missing else placeholders.inner_text(one, place)

    return placeholders.render(plan.trial.parts, place, group)
