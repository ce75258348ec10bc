"""Which AzureML document this is, and which settings each kind keeps: the one table to change.

Facts: loading every kind with azure-ai-ml 1.35 and looking at the REST body it would send. A field that is
accepted and then dropped is no place for a setting.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from arc_toolkit.edit.yaml_nodes import Node, get, pairs, text_of


@dataclass(frozen=True, slots=True)
class Kind:
    """One row: what the kind is called, and which fields it keeps."""

    name: str
    compute: bool
    # resources.instance_type and resources.instance_count
    resources: bool
    # environment_variables
    variables: bool
    # Why it does not keep what it does not keep.
    why: str = ""
    # What `--kind` names: command, parallel, sweep, ...
    family: str = field(init=False)
    # job, component, step, trial or spec (v1.5)
    role: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "family", self.name.partition(" ")[0])
        object.__setattr__(self, "role", self.name.rpartition(" ")[2])


_DROPS = "a v2 component loads `environment_variables` and drops them"
_SPEC = "a v1.5 spec has no place for resources: they are run settings of the pipeline's step"
_SPARK = "Spark takes a fixed list of VM sizes, not an instance type"
_PIPELINE = "a pipeline has no resources of its own: its steps have"
_FOREIGN = "this kind does not run on Kubernetes"

KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        # name                    compute  resources variables
        Kind("command job", True, True, True),
        Kind("command component", False, True, False, _DROPS),
        Kind("command step", True, True, True),
        Kind("parallel component", False, True, False, _DROPS),
        Kind("parallel step", True, True, True),
        Kind("sweep job", True, True, False, "a sweep job has its environment variables in its trial"),
        Kind("sweep trial", False, True, True),
        Kind("sweep step", True, True, False, "a sweep step in a pipeline loses environment variables"),
        # The trial of a sweep step that is written in place: kept in the dict, absent in the REST body.
        Kind("sweep step trial", False, True, False, "a sweep step in a pipeline loses environment variables"),
        Kind("automl job", True, True, True),
        Kind("automl step", True, True, True),
        Kind("pipeline job", True, False, False, _PIPELINE),
        Kind("pipeline component", False, False, False, _PIPELINE),
        Kind("pipeline step", False, False, False, _PIPELINE),
        Kind("spark job", False, False, False, _SPARK),
        Kind("spark component", False, False, False, _SPARK),
        Kind("spark step", False, False, False, _SPARK),
        Kind("import job", False, False, False, _FOREIGN),
        Kind("import step", False, False, False, _FOREIGN),
        Kind("finetuning job", False, False, False, _FOREIGN),
        Kind("finetuning step", False, False, False, _FOREIGN),
        Kind("other step", False, False, False, "the kind of this step is not known"),
        # Component SDK v1.5
        Kind("command spec", False, False, True, _SPEC),
        Kind("distributed spec", False, False, True, _SPEC),
        Kind("parallel spec", False, False, True, _SPEC),
        Kind("sweep spec", False, False, True, _SPEC),
        Kind("other spec", False, False, False, _SPEC),
        # Not a job at all, and none of `patch`'s business: `validate` checks it.
        Kind("instance type", False, False, False, "an InstanceType"),
    )
}

_SPECS = {
    "commandcomponent": "command spec",
    "distributedcomponent": "distributed spec",
    "parallelcomponent": "parallel spec",
    "sweepcomponent": "sweep spec",
}
_V2_TYPES = frozenset(["command", "parallel", "sweep", "pipeline", "spark", "automl", "import", "finetuning"])
_V1_SCHEMA = re.compile(r"componentsdk\.|azureml/sdk-(?:1-5|2-0)/")
_SCHEMA_NAME = re.compile(r"([A-Za-z]+?)(job|component)?(?:\.schema)?\.json$", re.IGNORECASE)
# Keys that only a job has; a component that has one by mistake is still told by its schema.
_JOB_KEYS = ("compute", "experiment_name", "settings", "services", "queue_settings")
_COMPONENT_KEYS = ("name", "version", "is_deterministic")

# A file without any of these at the start of a line is not composed at all.
HINTS = re.compile(
    r"""
    ^["']?(?:\$schema|type|command|jobs|trial|apiVersion)["']?[ \t]*:
    | ^\s*\{                                         # all in braces, as in JSON
    | \A(?:[ \t]*(?:\#[^\n]*)?\r?\n)*[ \t]+[^\s#]    # all of it indented
    """,
    re.MULTILINE | re.VERBOSE,
)


def recognise(root: Node) -> tuple[Kind | None, str]:
    """The kind of a document, by `type`, then `$schema`, then shape; or None and what it is instead."""
    own = pairs(root)
    declared = (text_of(own["type"][1]) if "type" in own else None) or ""
    schema = (text_of(own["$schema"][1]) if "$schema" in own else None) or ""
    name = declared.partition("@")[0]
    if spec := _SPECS.get(name.lower()):
        return KINDS[spec], ""
    if name in _V2_TYPES:
        return _by_type(name, schema, own)
    if name.endswith("Component"):
        return KINDS["other spec"], ""
    if schema and not name:
        return _by_schema(schema)
    if schema:
        return None, f"an AzureML document of type {name}, which has no compute"
    return _by_shape(root, own, name)


def _by_type(name: str, schema: str, own: Mapping[str, object]) -> tuple[Kind | None, str]:
    role = "component" if "component" in schema.lower() else "job" if "job" in schema.lower() else ""
    if name in ("sweep", "automl", "import", "finetuning"):
        role = "job"
    elif name == "parallel":
        role = "component"
    elif not role:
        if not schema and not _looks_like_azureml(name, own):
            return None, "not AzureML"
        is_job = any(key in own for key in _JOB_KEYS) or not any(key in own for key in _COMPONENT_KEYS)
        role = "job" if is_job else "component"
    return KINDS[f"{name} {role}"], ""


def _looks_like_azureml(name: str, own: Mapping[str, object]) -> bool:
    """`type: command` stands in many kinds of files; with these keys beside it, it is ours."""
    wanted = {"command": ("command",), "pipeline": ("jobs",), "spark": ("entry", "code")}
    return all(key in own for key in wanted.get(name, ()))


def _by_schema(schema: str) -> tuple[Kind | None, str]:
    match = _SCHEMA_NAME.search(schema)
    if match is None:
        return None, "not AzureML"
    name, role = match[1].lower(), (match[2] or "").lower()
    if _V1_SCHEMA.search(schema) and role == "component":
        # The specification: without `type` it is a CommandComponent.
        return KINDS[_SPECS.get(name + role, "command spec")], ""
    if role and (kind := KINDS.get(f"{name} {role}")):
        return kind, ""
    if "azureml" in schema.lower():
        return None, f"an AzureML document ({match[0].removesuffix('.json').removesuffix('.schema')}), no job"
    return None, "not AzureML"


def _by_shape(root: Node, own: Mapping[str, tuple[Node, Node]], declared: str) -> tuple[Kind | None, str]:
    if (text_of(get(root, "apiVersion")) or "").startswith("amlarc.azureml.com/"):
        return KINDS["instance type"], ""
    if declared:
        return None, "not AzureML"
    if "jobs" in own and "on" not in own:
        steps = [pairs(step) for _, step in pairs(own["jobs"][1]).values()]
        if steps and any("component" in step or "trial" in step or _is_command(step) for step in steps):
            return KINDS["pipeline job"], ""
    if {"trial", "search_space", "objective"} <= own.keys():
        return KINDS["sweep job"], ""
    if _is_command(own) and ({"compute", "inputs", "code"} & own.keys()):
        return KINDS["command job"], ""
    return None, "not AzureML"


def _is_command(own: Mapping[str, tuple[Node, Node]]) -> bool:
    return "command" in own and "environment" in own and "runs-on" not in own


def step_kind(own: Mapping[str, tuple[Node, Node]], step: Node, referenced: Kind | None) -> Kind:
    """The kind of a pipeline's step; `referenced` is the kind of the component file it names, where it is known."""
    declared = text_of(own["type"][1] if "type" in own else get(step, "type")) or ""
    if not declared:
        if get(step, "trial") is not None:
            declared = "sweep"
        elif get(step, "task") is not None:
            declared = "parallel"
        elif get(step, "jobs") is not None:
            declared = "pipeline"
        elif referenced is not None:
            declared = referenced.family
        else:
            inline = text_of(get(step, "component", "type"))
            # azure-ai-ml takes a step without `type` for a command.
            declared = inline or "command"
    return KINDS.get(f"{declared} step", KINDS["other step"])
