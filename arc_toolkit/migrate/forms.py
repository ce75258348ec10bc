"""The v2 texts: the trial as a command component, and the sweep as pipeline step, standalone job or Python module."""

from __future__ import annotations

import keyword
import posixpath
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from arc_toolkit.azureml.documents import FILE_STYLE
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.azureml.threads import PRESTEP, RESTEP, cores_of
from arc_toolkit.edit.yaml.writer import Comment, file_text
from arc_toolkit.migrate.legacy_spec import LegacySpec
from arc_toolkit.migrate.placeholders import (
    OptionalGroup,
    Placeholder,
    inner_text,
    render_parts,
)
from arc_toolkit.migrate.space import distribution_text, literal, sweep_arguments
from arc_toolkit.migrate.trial import PYTHON_NAMES, Input, Trial, legal
from arc_toolkit.resources import render

# What Kubernetes compute gives a job that names no type (Microsoft Learn, instance types): 2 CPU and 2 GiB at most.
DEFAULT_INSTANCE_TYPE = "defaultinstancetype"
DEFAULT_INSTANCE_COUNT = 1
# In place of what v1.5 gets from the caller; a job with it fails at once.
UNSET = "SET_ME"

MARK = "Written by `arc-toolkit patch --sweep-to-v2`"
SCHEMA = "https://azuremlschemas.azureedge.net/latest/{}.schema.json"


def filled(tree: dict[str, Any]) -> dict[str, Any]:
    """A mapping without the keys that have no value; a comment has none and stays."""
    return {
        key: value
        for key, value in tree.items()
        if isinstance(key, Comment) or value not in (None, {}, [], "")
    }


def binding(name: str, section: str = "inputs") -> str:
    """How a step names an input or output of its pipeline."""
    return f"${{{{parent.{section}.{name}}}}}"


def asset(name: str) -> str:
    """`azureml:name`, however the name is given."""
    return name if name.startswith("azureml:") else f"azureml:{name}"


@dataclass
class SweepPlan:
    """Everything that the three forms are written from."""

    sweep: LegacySpec
    trial: Trial
    settings: Settings
    body: dict[str, Any]
    variables: dict[str, str]
    component_path: str

    def __post_init__(self) -> None:
        data, settings = self.sweep.data, self.settings
        self.swept: dict[str, dict[str, Any]] = self.body["search_space"]
        self.folder = posixpath.dirname(self.sweep.path)
        self.component = posixpath.relpath(self.component_path, self.folder or ".")
        self.title = str(data.get("display_name") or data.get("name") or "sweep")
        self.description = str(data.get("description") or "")
        words = [str(data[key]) for key in ("name", "version") if data.get(key)]
        # `sweep_spec.yaml (v1.5 SweepComponent lightgbm.sweep 1.0.6)`
        self.origin = (
            f"{posixpath.basename(self.sweep.path)} ({' '.join(['v1.5 SweepComponent', *words])})"
        )
        self.tags = {key: str(value) for key, value in self.sweep.mapping("tags").items()}
        if words:  # a job has no component name and version
            self.tags["v1_5_component"] = ":".join(words)
        self.instance_type = settings.instance_type or DEFAULT_INSTANCE_TYPE
        self.instance_count = settings.instance_count or DEFAULT_INSTANCE_COUNT
        # What the user asked for, which `patch` writes on components and trials too.
        asked = {"instance_type": settings.instance_type, "instance_count": settings.instance_count}
        self.resources = filled(asked)
        self.compute = asset(settings.compute or UNSET)
        # Cores of the instance type that was asked for, where it is known.
        self.cores = cores_of(settings.instance_type, settings)[0]
        not_swept = [item for item in self.trial.inputs.values() if item.name not in self.swept]
        # Inputs that have, or need, a value; and optional ones without a value.
        self.constants = [item for item in not_swept if item.has_default or not item.optional]
        self.absent = [item for item in not_swept if item.optional and not item.has_default]

    def move(self, path: str) -> str:
        """A path beside the trial as one beside the sweep."""
        if posixpath.isabs(path) or "://" in path or path.startswith("azureml:"):
            return path
        between = posixpath.relpath(
            posixpath.dirname(self.trial.source.path) or ".", self.folder or "."
        )
        moved = posixpath.normpath(posixpath.join(between, path))
        return moved if moved.startswith(".") else f"./{moved}"


_GET_CORES_CALL = re.compile(r"`\s*get_cores\s*`|\$\(\s*get_cores\s*\)")
# `get_cores` is known only inside AMLARC's own pre-step. In a command its nearest equal is the container's CPU limit
# (cgroup v2, then v1; whole cores, at least 1), and all cores where there is no limit.
GET_CORES = (
    "command -v get_cores > /dev/null || get_cores() { "
    "set -- $(cat /sys/fs/cgroup/cpu.max 2> /dev/null "
    "|| cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us /sys/fs/cgroup/cpu/cpu.cfs_period_us 2> /dev/null); "
    'if [ "$1" -gt 0 ] 2> /dev/null; then echo $(( $1 > $2 ? $1 / $2 : 1 )); else nproc; fi; }'
)


def merged(trial: LegacySpec, sweep: LegacySpec) -> dict[str, str]:
    """The trial's variables and, over them, those of the sweep; every value a string."""
    both = {**trial.mapping("environment_variables"), **sweep.mapping("environment_variables")}
    out = {}
    for name, value in both.items():
        if name == RESTEP and PRESTEP not in both:
            trial.note(
                f"{RESTEP}, which nothing reads, is written as {PRESTEP}",
                "environment_variables",
                name,
            )
            name = PRESTEP
        out[str(name)] = "" if value is None else str(value)
    return out


def exports(variables: Mapping[str, str], cores: int | None) -> str:
    """Shell text that sets the variables and does what AMLARC_PRESTEP would, ending where a command can follow."""
    lines = []
    plain = {name: value for name, value in variables.items() if name != PRESTEP}
    if plain:
        lines.append(
            "export " + " ".join(f"{name}={shlex.quote(value)}" for name, value in plain.items())
        )
    prestep = variables.get(PRESTEP, "").strip().rstrip(";").rstrip()
    if "get_cores" in prestep and cores is not None:
        prestep = _GET_CORES_CALL.sub(str(cores), prestep)
    if "get_cores" in prestep:
        lines.append(GET_CORES)
    if prestep:
        lines.append(prestep)
    # A comment or a line continuation in the pre-step would take in what follows on the same line.
    glue = "\n" if "\n" in prestep or "#" in prestep else "; "
    return glue.join(lines) + glue if lines else ""


def component(plan: SweepPlan, environment: Any) -> dict[str, Any]:
    """The v2 command component."""
    trial, spec = plan.trial, plan.trial.source
    old = spec.data.get("name")
    name = legal(str(old or posixpath.basename(plan.component_path).split(".")[0]), component=True)
    if old and name != old:
        spec.note(
            f"the component is named {name}: v2 names are lower case letters, digits and underscores",
            "name",
        )
    prefix = "" if plan.settings.sweep_as == "job" else exports(plan.variables, plan.cores)
    out = {
        "$schema": SCHEMA.format("commandComponent"),
        "type": "command",
        "name": name,
        "version": str(spec.data.get("version") or "1"),
        "display_name": str(spec.data.get("display_name") or ""),
        "description": str(spec.data.get("description") or ""),
        "tags": {key: str(value) for key, value in spec.mapping("tags").items()},
        Comment(
            "As the sweep says, for which v1.5's default is false; v2 reuses runs by default."
        ): None,
        "is_deterministic": plan.sweep.data.get("is_deterministic") is True,
        "inputs": {item.name: item.spec for item in trial.inputs.values()},
        "outputs": trial.outputs,
        "code": trial.code,
        "additional_includes": trial.includes,
    }
    if plan.cores is not None and f"={plan.cores}" in prefix:
        words = f"{plan.cores} threads are for {plan.instance_type}: another instance type wants another number."
        out[Comment(words)] = None
    return filled(
        {
            **out,
            "command": prefix + _component_command(plan),
            "environment": environment,
            "distribution": trial.distribution,
            # For whoever uses the component without the sweep.
            "resources": plan.resources,
        }
    )


def _component_command(plan: SweepPlan) -> str:
    def place(item: Placeholder) -> str:
        return f"${{{{{item.kind}.{item.name}}}}}"

    def keep(group: OptionalGroup) -> str:
        inner = inner_text(group.parts, place)
        # v2 drops a group when an optional input of it is not given; around others it is not a group.
        optional = any(plan.trial.inputs[name].optional for name in group.names("inputs"))
        return f"$[[{inner}]]" if optional else inner

    return render_parts(plan.trial.parts, place, keep)


def step(plan: SweepPlan) -> str:
    """A pipeline job with one sweep step; what can be set is an input of the pipeline."""
    kind, count = resource_names(plan)
    inputs: dict[str, Any] = {item.name: _value(item) for item in plan.constants}
    bound: dict[str, Any] = {item.name: binding(item.name) for item in plan.constants}
    for item in plan.absent:
        inputs[
            Comment(f"optional: {item.name}: {item.spec['type'] if item.port else 'a value'}")
        ] = None
        bound[Comment(f"optional: {item.name}: {binding(item.name)}")] = None
    node = {
        "type": "sweep",
        "trial": plan.component if plan.component.startswith("../") else f"./{plan.component}",
        **plan.body,
        "inputs": bound if plan.constants else None,
        "outputs": {name: binding(name, "outputs") for name in plan.trial.outputs},
        "resources": {"instance_type": binding(kind), "instance_count": binding(count)},
    }
    out = {
        **_head(plan, "pipelineJob", "pipeline"),
        "inputs": {
            Comment("Where and how wide each trial runs."): None,
            kind: plan.instance_type,
            count: plan.instance_count,
            **inputs,
        },
        "outputs": _outputs(plan),
        "settings": {"default_compute": plan.compute},
        "jobs": {"sweep": filled(node)},
    }
    return file_text(filled(out), FILE_STYLE)


def job(plan: SweepPlan, environment: Any) -> str:
    """A standalone sweep job. It holds its trial inline: v2 has no reference to a component there."""
    includes = plan.trial.includes
    if includes:
        words = f"copy {', '.join(includes)} beside the code, or use --as step"
        plan.sweep.warn(f"a sweep job takes no additional includes: {words}")
    without = ", without its environment variables" if plan.variables else ""
    same = f"{plan.component} is the same trial as a component{without}"
    trial = {
        Comment(f"A sweep job holds its trial inline; {same}."): None,
        "code": plan.move(plan.trial.code),
        "command": _job_command(plan),
        "environment": environment,
        "environment_variables": plan.variables,
        "distribution": plan.trial.distribution,
        "resources": plan.resources,
    }
    out = {
        **_head(plan, "sweepJob", "sweep"),
        "compute": plan.compute,
        "inputs": {item.name: _value(item) for item in plan.constants},
        "outputs": _outputs(plan),
        "trial": filled(trial),
        **plan.body,
        "resources": {"instance_type": plan.instance_type, "instance_count": plan.instance_count},
    }
    return file_text(filled(out), FILE_STYLE)


def python(plan: SweepPlan) -> str:
    """A Python module with a pipeline function for azure-ai-ml."""
    kind, count = resource_names(plan)
    defaults = [
        (item.name, literal(item.spec["default"])) for item in plan.constants if item.has_default
    ]
    used: set[str] = set()
    reserved = {*plan.trial.inputs, kind, count, *PYTHON_NAMES, *keyword.kwlist}
    return render(
        "sweep_pipeline.py.j2",
        mark=MARK,
        origin=plan.origin,
        literal=literal,
        title=plan.title,
        description=plan.description,
        tags=plan.tags,
        function=_free(
            legal(str(plan.sweep.data.get("name") or "sweep"), component=True), reserved
        ),
        component=plan.component,
        required=[item.name for item in plan.constants if not item.has_default],
        defaults=[
            *defaults,
            (kind, literal(plan.instance_type)),
            (count, literal(plan.instance_count)),
        ],
        left_out=[item.name for item in plan.absent],
        swept=[(name, distribution_text(drawn, used)) for name, drawn in plan.swept.items()],
        settings=sweep_arguments(plan.body, used),
        classes=sorted(used),
        outputs=list(plan.trial.outputs),
        compute=plan.compute.removeprefix("azureml:"),
        kind=kind,
        count=count,
        local={word: _free(word, reserved) for word in ("trial", "node", "sweep")},
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
    return {
        Comment(f"{MARK} from {plan.origin}."): None,
        "$schema": SCHEMA.format(schema),
        "type": kind,
        "display_name": plan.title,
        "description": plan.description,
        "tags": plan.tags,
    }


def _value(item: Input) -> Any:
    if item.has_default:
        return item.spec["default"]
    if not item.port:
        return UNSET
    path = Comment("path: azureml:NAME@latest, or a folder, file or URL")
    return filled({"type": item.spec["type"], path: None, "mode": item.spec.get("mode")})


def _outputs(plan: SweepPlan) -> dict[str, Any]:
    return {
        name: {key: spec[key] for key in ("type", "mode") if key in spec}
        for name, spec in plan.trial.outputs.items()
    }


def _job_command(plan: SweepPlan) -> str:
    """The trial's command of a standalone job: swept inputs are `search_space`, and there are no optional groups."""
    missing = {item.name for item in plan.absent}

    def place(item: Placeholder) -> str:
        if item.kind == "inputs" and item.name in missing:
            raise plan.trial.source.refuse(
                f"the command uses the optional input {item.name} outside of brackets, and a job has no value for it: "
                f"write [--{item.name} {{inputs.{item.name}}}] or give it a default",
                *("inputs", item.name),
            )
        kind = "search_space" if item.kind == "inputs" and item.name in plan.swept else item.kind
        return f"${{{{{kind}.{item.name}}}}}"

    def keep(group: OptionalGroup) -> str | None:
        return None if group.names("inputs") & missing else inner_text(group.parts, place)

    return render_parts(plan.trial.parts, place, keep)
