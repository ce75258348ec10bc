"""Which AzureML document this is, and which settings each kind keeps: the one table to change.

Facts: loading every kind with azure-ai-ml 1.35 and looking at the REST body it would send. A field
that is accepted and then dropped is not a slot.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from functools import cached_property, lru_cache

from arc_toolkit.edit.yaml.nodes import YamlNode, get, pairs, text_of


class Family(StrEnum):
    """What a target does; the names are those of `--kind`."""

    COMMAND = "command"
    DISTRIBUTED = "distributed"
    PARALLEL = "parallel"
    SWEEP = "sweep"
    AUTOML = "automl"
    PIPELINE = "pipeline"
    SPARK = "spark"
    IMPORT = "import"
    DATA_TRANSFER = "data_transfer"
    # Branches and loops around steps.
    CONTROL = "control"
    FINETUNING = "finetuning"
    OTHER = "other"


class Role(StrEnum):
    """What a target is a part of."""

    JOB = "job"
    COMPONENT = "component"
    STEP = "step"
    TRIAL = "trial"
    # The trial of a sweep step that is written in place.
    STEP_TRIAL = "step trial"
    # Component SDK v1.5: a component file, and a step in Python code, which has its settings in
    # `runsettings`.
    SPEC = "spec"
    V15_STEP = "v1.5 step"

    @property
    def is_trial(self) -> bool:
        return self in (Role.TRIAL, Role.STEP_TRIAL)


class Slot(Enum):
    """A setting that a target may keep, and where: the path below the target."""

    INSTANCE_TYPE = ("resources", "instance_type")
    INSTANCE_COUNT = ("resources", "instance_count")
    COMPUTE = ("compute",)
    VARIABLES = ("environment_variables",)

    def __init__(self, *path: str) -> None:
        self.path = path
        # The name of the setting: `instance-type`.
        self.rule = path[-1].replace("_", "-")

    # Slots are in many sets; the hash of `Enum` is a function in Python.
    __hash__ = object.__hash__


_RESOURCES = frozenset({Slot.INSTANCE_TYPE, Slot.INSTANCE_COUNT})
_COMPUTE = frozenset({Slot.COMPUTE})
_VARIABLES = frozenset({Slot.VARIABLES})
_ALL = frozenset(Slot)
_NONE: frozenset[Slot] = frozenset()


@dataclass(frozen=True)
class TargetKind:
    """One row: what a target is, and which slots it keeps."""

    family: Family
    role: Role
    slots: frozenset[Slot]
    # Why it does not keep the others.
    why: str = ""

    @cached_property
    def name(self) -> str:
        """`command job`, `sweep step trial`: for messages."""
        return f"{self.family} {self.role}"

    @cached_property
    def resources(self) -> bool:
        return Slot.INSTANCE_TYPE in self.slots

    @cached_property
    def variables(self) -> bool:
        return Slot.VARIABLES in self.slots


_DROPS = "a v2 component loads `environment_variables` and drops them"
_LOSES = "a sweep in a pipeline loses environment variables"
_SPEC = "a v1.5 spec has no place for resources: they are run settings of the pipeline's step"
_SPARK = "Spark takes a fixed list of VM sizes, not an instance type"
_PIPELINE = "a pipeline has no resources of its own: its steps have"
_FOREIGN = "this kind does not run on Kubernetes"
_CONTROL = "a branch or loop has no resources of its own: its steps have"
_TRIAL = "a sweep job has its environment variables in its trial"
_V2_ROLES = (Role.JOB, Role.COMPONENT, Role.STEP)

_ROWS: tuple[tuple[Family, tuple[Role, ...], frozenset[Slot], str], ...] = (
    (Family.COMMAND, (Role.JOB, Role.STEP, Role.V15_STEP), _ALL, ""),
    (Family.COMMAND, (Role.COMPONENT,), _RESOURCES, _DROPS),
    (Family.COMMAND, (Role.SPEC,), _VARIABLES, _SPEC),
    (Family.DISTRIBUTED, (Role.V15_STEP,), _ALL, ""),
    (Family.DISTRIBUTED, (Role.SPEC,), _VARIABLES, _SPEC),
    (Family.PARALLEL, (Role.STEP, Role.V15_STEP), _ALL, ""),
    (Family.PARALLEL, (Role.COMPONENT,), _RESOURCES, _DROPS),
    (Family.PARALLEL, (Role.SPEC,), _VARIABLES, _SPEC),
    (Family.SWEEP, (Role.JOB,), _RESOURCES | _COMPUTE, _TRIAL),
    (Family.SWEEP, (Role.TRIAL,), _RESOURCES | _VARIABLES, ""),
    (Family.SWEEP, (Role.STEP,), _RESOURCES | _COMPUTE, _LOSES),
    # Kept in the dict, absent in the REST body.
    (Family.SWEEP, (Role.STEP_TRIAL,), _RESOURCES, _LOSES),
    (Family.SWEEP, (Role.SPEC,), _VARIABLES, _SPEC),
    (Family.SWEEP, (Role.V15_STEP,), _NONE, "a SweepComponent takes no instance type"),
    (Family.AUTOML, (Role.JOB, Role.STEP), _ALL, ""),
    (Family.AUTOML, (Role.COMPONENT,), _NONE, "an AutoML component has no resources: its step has"),
    (Family.PIPELINE, (Role.JOB,), _COMPUTE, _PIPELINE),
    (Family.PIPELINE, (Role.COMPONENT, Role.STEP), _NONE, _PIPELINE),
    (Family.SPARK, _V2_ROLES, _NONE, _SPARK),
    (Family.IMPORT, _V2_ROLES, _NONE, _FOREIGN),
    (Family.DATA_TRANSFER, _V2_ROLES, _NONE, _FOREIGN),
    (Family.CONTROL, (Role.STEP,), _NONE, _CONTROL),
    (Family.FINETUNING, (Role.JOB, Role.STEP), _NONE, _FOREIGN),
    (Family.OTHER, (Role.STEP,), _NONE, "the kind of this step is not known"),
    (Family.OTHER, (Role.SPEC,), _NONE, _SPEC),
)
KINDS: Mapping[tuple[Family, Role], TargetKind] = {
    (family, role): TargetKind(family, role, slots, why)
    for family, roles, slots, why in _ROWS
    for role in roles
}

_SPECS = {
    "commandcomponent": Family.COMMAND,
    "distributedcomponent": Family.DISTRIBUTED,
    "parallelcomponent": Family.PARALLEL,
    "sweepcomponent": Family.SWEEP,
}
_CONTROL_TYPES = ("if_else", "do_while", "parallel_for")
_NO_TYPES = (Family.DISTRIBUTED, Family.CONTROL, Family.OTHER)
_V2_TYPES = {str(family): family for family in Family if family not in _NO_TYPES}
_V1_SCHEMA = re.compile(r"componentsdk\.|azureml/sdk-(?:1-5|2-0)/")
_SCHEMA_NAME = re.compile(r"([A-Za-z]+?)(job|component)?(?:\.schema)?\.json$", re.IGNORECASE)
_DEPLOYMENT = re.compile(
    r"([A-Za-z]*(?:Deployment|Endpoint|Schedule))(?:\.schema)?\.json$", re.IGNORECASE
)
# Keys that only a job has; a component that has one by mistake is recognised by its schema all the
# same.
_JOB_KEYS = ("compute", "experiment_name", "settings", "services", "queue_settings")
_COMPONENT_KEYS = ("name", "version", "is_deterministic")
# `type: command` is in many kinds of files; with these keys beside it, it is AzureML.
_NEEDED_KEYS = {Family.COMMAND: ("command",), Family.SPARK: ("entry", "code")}
# What a step without `type` is, by its keys.
_STEP_SHAPES = (("trial", "sweep"), ("task", "parallel"), ("jobs", "pipeline"))

# What the line begins with that says that a file may be about AzureML.
_HINT = r"""
    ["']?(?:\$schema|type|command|jobs|trial)["']?[ \t]*:
    | ["']?apiVersion["']?[ \t]*:[ \t]*["']?amlarc\.
    | [^\S\n]*\{                                   # all in braces, as in JSON
"""
_FIRST_HINT = re.compile(
    rf"{_HINT} | (?:[ \t]*(?:\#[^\n]*)?\r?\n)*[ \t]+[^\s#]  # all of it indented", re.VERBOSE
)
# `re` looks for the newline first: `^` instead of it takes five times as long.
_LATER_HINT = re.compile(rf"\n(?:{_HINT})", re.VERBOSE)


def has_hint(text: str) -> bool:
    """Whether a file may be about AzureML; one that is not is not composed at all."""
    return _FIRST_HINT.match(text) is not None or _LATER_HINT.search(text) is not None


def recognise(root: YamlNode, is_used: bool = False) -> tuple[TargetKind | None, str]:
    """The kind of a document, by `type`, then `$schema`, then shape.

    `is_used` says that a step names the file, which makes it a component where nothing else says
    what it is. Or None and what it is instead: an empty text where nothing says that it is about
    AzureML at all.
    """
    own = pairs(root)
    declared = (text_of(own["type"][1]) if "type" in own else None) or ""
    schema = (text_of(own["$schema"][1]) if "$schema" in own else None) or ""
    if other := _deployment(
        schema
    ):  # `pipelineComponentBatchDeployment` has `type: pipeline`, and no jobs
        return None, f"an AzureML document ({other}), not a job"
    name = declared.partition("@")[0]
    if family := _SPECS.get(name.lower()):
        return KINDS[family, Role.SPEC], ""
    if family := _V2_TYPES.get(name):
        return _by_type(family, schema, own, is_used), ""
    if name.endswith("Component"):
        return KINDS[Family.OTHER, Role.SPEC], ""
    if schema and not name:
        return _by_schema(schema)
    if schema:  # a `type` that is misspelt does not make it another document
        kind = None if _V1_SCHEMA.search(schema) else _by_schema(schema)[0]
        return kind, "" if kind else f"an AzureML document of type {name}, not a job"
    if (text_of(get(root, "apiVersion")) or "").startswith("amlarc.azureml.com/"):
        return None, "an InstanceType: see `arc-toolkit validate`"
    return _by_shape(own, name, is_used), ""


# A run has few schemas, each in many files.
@lru_cache(maxsize=256)
def _deployment(schema: str) -> str:
    """The kind of a deployment, an endpoint or a schedule; nothing for other schemas."""
    match = _DEPLOYMENT.search(schema)
    return match[1] if match else ""


def type_family(declared: str) -> Family | None:
    """The family that `type` of a v2 file names."""
    return _V2_TYPES.get(declared)


def type_names() -> tuple[str, ...]:
    """Every `type` of a v2 file or step."""
    return (*_V2_TYPES, *_CONTROL_TYPES)


@lru_cache(maxsize=256)
def schema_family(schema: str) -> Family | None:
    """The family that the `$schema` of a v2 file names."""
    match = _SCHEMA_NAME.search(schema)
    return _V2_TYPES.get(match[1].lower()) if match and match[2] else None


# Schemas of v2 documents that are neither a job nor a component.
_ASSET = re.compile(
    r"azuremlschemas\.[^ ]*/"
    r"(environment|model|data|datastore\w*|\w*[cC]ompute|workspace|codeAsset)\.schema\.json$"
)


@lru_cache(maxsize=256)
def asset_schema(schema: str) -> str:
    """The kind of document, neither job nor component, that a `$schema` names; nothing for others."""
    match = _ASSET.search(schema)
    return match[1] if match else ""


def _by_type(
    family: Family, schema: str, own: Mapping[str, object], is_used: bool
) -> TargetKind | None:
    has_component_keys = any(key in own for key in _COMPONENT_KEYS[1:])
    if family == Family.SPARK and _V1_SCHEMA.search(
        schema
    ):  # of v1.5: the same `type`, and keys of its own
        has_job_keys = any(key in own for key in (*_JOB_KEYS, "resources"))
        is_job = "job" in schema.lower() or (has_job_keys and not has_component_keys)
        return KINDS[Family.SPARK, Role.JOB] if is_job else KINDS[Family.OTHER, Role.SPEC]
    role = (
        Role.COMPONENT
        if "component" in schema.lower()
        else Role.JOB
        if "job" in schema.lower()
        else None
    )
    if role == Role.JOB and schema_family(schema) not in (None, family) and has_component_keys:
        role = None  # the `$schema` of something else says nothing
    # A step uses it, whatever its `$schema` says, unless it is a job in all else.
    if is_used and (
        has_component_keys or not (role == Role.JOB and any(key in own for key in _JOB_KEYS))
    ):
        role = Role.COMPONENT
    if family in (Family.SWEEP, Family.FINETUNING):
        role = Role.JOB
    elif family in (Family.AUTOML, Family.IMPORT, Family.DATA_TRANSFER):
        role = role or (Role.COMPONENT if has_component_keys else Role.JOB)
    elif family == Family.PARALLEL:
        role = Role.COMPONENT
    elif role is None:
        is_empty = family == Family.PIPELINE and "jobs" not in own and "component" not in own
        if not schema and (is_empty or not all(key in own for key in _NEEDED_KEYS.get(family, ()))):
            return None
        # A pipeline job may have a name; a pipeline component without `version` looks the same.
        keys = _COMPONENT_KEYS if family != Family.PIPELINE else _COMPONENT_KEYS[1:]
        job_keys = (*_JOB_KEYS, "resources") if family == Family.SPARK else _JOB_KEYS
        is_job = any(key in own for key in job_keys) or not any(key in own for key in keys)
        role = Role.JOB if is_job else Role.COMPONENT
    return KINDS[family, role]


@lru_cache(maxsize=256)
def _by_schema(schema: str) -> tuple[TargetKind | None, str]:
    match = _SCHEMA_NAME.search(schema)
    if match is None:
        return None, ""
    name, role = match[1].lower(), (match[2] or "").lower()
    if _V1_SCHEMA.search(schema) and role == Role.COMPONENT:
        # The specification: without `type` it is a CommandComponent.
        return KINDS[_SPECS.get(name + role, Family.COMMAND), Role.SPEC], ""
    if role and name in _V2_TYPES and (kind := KINDS.get((_V2_TYPES[name], Role(role)))):
        return kind, ""
    if "azureml" in schema.lower():
        document = match[0].removesuffix(".json").removesuffix(".schema")
        return None, f"an AzureML document ({document}), not a job"
    return None, ""


def _by_shape(
    own: Mapping[str, tuple[YamlNode, YamlNode]], declared: str, is_used: bool
) -> TargetKind | None:
    if declared:
        return None
    if is_used and _is_command(own):
        return KINDS[Family.COMMAND, Role.COMPONENT]
    if "jobs" in own and "on" not in own:
        steps = [pairs(step) for _, step in pairs(own["jobs"][1]).values()]
        if steps and any(
            "component" in step or "trial" in step or _is_command(step) for step in steps
        ):
            return KINDS[Family.PIPELINE, Role.JOB]
    if {"trial", "search_space", "objective"} <= own.keys():
        return KINDS[Family.SWEEP, Role.JOB]
    if _is_command(own) and ({"compute", "inputs", "code"} & own.keys()):
        return KINDS[Family.COMMAND, Role.JOB]
    return None


def _is_command(own: Mapping[str, tuple[YamlNode, YamlNode]]) -> bool:
    return "command" in own and "environment" in own and "runs-on" not in own


def step_kind(
    own: Mapping[str, tuple[YamlNode, YamlNode]], step: YamlNode, referenced: TargetKind | None
) -> TargetKind:
    """The kind of a pipeline's step; `referenced` is the kind of the component file it names, where
    it is known.
    """
    declared = text_of(own["type"][1] if "type" in own else get(step, "type")) or ""
    if not declared:
        shapes = (family for key, family in _STEP_SHAPES if get(step, key) is not None)
        component = (
            referenced.family if referenced is not None else text_of(get(step, "component", "type"))
        )
        # azure-ai-ml takes a step without `type` for a command.
        declared = next(shapes, None) or component or "command"
    declared = declared.lower()  # the type of a step may have capitals, that of a file may not
    family = Family.CONTROL if declared in _CONTROL_TYPES else _V2_TYPES.get(declared, Family.OTHER)
    return KINDS.get((family, Role.STEP), KINDS[Family.OTHER, Role.STEP])
