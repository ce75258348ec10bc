"""Files as documents, and documents as targets: the jobs, steps, trials and components that
settings go onto.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING

import yaml

from arc_toolkit.azureml.kinds import (
    CONTROL_TYPES,
    KINDS,
    SPEC_TYPES,
    V2_TYPES,
    Family,
    Role,
    Slot,
    TargetKind,
)
from arc_toolkit.edit.files.edits import SkipCause, Unreadable
from arc_toolkit.edit.yaml.nodes import (
    KeyPath,
    YamlNode,
    YamlText,
    compose,
    decode,
    get,
    pairs,
    text_of,
)
from arc_toolkit.edit.yaml.writer import YamlStyle

if TYPE_CHECKING:
    from arc_toolkit.azureml.references import ProjectFiles

# How new AzureML files are written: a long command breaks before its arguments, `$[[...]]` being an
# optional one.
FILE_STYLE = YamlStyle(fold_before=("-", "$[["))


# Key text -> (key node, value node).
NodePairs = Mapping[str, tuple[YamlNode, YamlNode]]
_OWN_RESOURCES = (KINDS[Family.COMMAND, Role.STEP], KINDS[Family.PARALLEL, Role.STEP])


# What `resources` has, of a step or a component.
RESOURCE_KEYS = (
    "instance_type",
    "instance_count",
    "shm_size",
    "docker_args",
    "locations",
    "max_instance_count",
)


def is_bound(text: str | None) -> bool:
    """`${{parent.inputs.x}}`: a value that another place gives."""
    return text is not None and "${{" in text


def items_below(
    node: YamlNode | None, path: KeyPath = ()
) -> Iterator[tuple[KeyPath, YamlNode | None, YamlNode]]:
    """Path, key (none in a sequence) and value of all that is below a node, in the order of the
    file.
    """
    rows: Iterable[tuple[str | int, YamlNode | None, YamlNode]] = ()
    if isinstance(node, yaml.MappingNode):
        rows = ((str(key.value), key, value) for key, value in node.value)
    elif isinstance(node, yaml.SequenceNode):
        rows = ((index, None, value) for index, value in enumerate(node.value))
    for name, key, value in rows:
        yield (*path, name), key, value
        if not isinstance(value, yaml.ScalarNode):
            yield from items_below(value, (*path, name))


class State(Enum):
    """What a target has where a setting belongs."""

    ABSENT = "absent"
    EQUAL = "equal"
    DIFFERENT = "different"
    # Another place gives the value.
    BOUND = "bound"
    # Something is there that cannot be read.
    OPAQUE = "opaque"


@dataclass(frozen=True, slots=True)
class Parameter:
    """An input of the pipeline, as the value of a step's setting."""

    name: str

    def __str__(self) -> str:
        return f"${{{{parent.inputs.{self.name}}}}}"


@dataclass(frozen=True, slots=True)
class Setting:
    """A value for a slot. `rule` is the name that `--only`, `--skip` and inline ignores know it by."""

    rule: str
    slot: Slot
    value: str | int | Parameter
    # Below the target; the slot's own where none is given.
    path: KeyPath = ()

    def __post_init__(self) -> None:
        if not self.path:
            object.__setattr__(self, "path", self.slot.path)

    def on(self, target: Target) -> Setting:
        """The same where it counts on a target."""
        path = target.path_of(self.path)
        return self if path is self.path else Setting(self.rule, self.slot, self.value, path)


@dataclass(slots=True, eq=False)
class Target:
    """A job, step, trial, component or spec, in YAML or in code. Not changed once it is read; not
    frozen, for speed.
    """

    kind: TargetKind
    # The step's name; for a root the component's name or the file's.
    name: str
    path: KeyPath
    node: yaml.MappingNode
    # Where a finding about the whole target points: its key, or the document's first key.
    at: YamlNode
    parent: Target | None = None
    # The component or trial file that it names, as a path; None for an inline or a registered one.
    reference: str | None = None
    # The keys of `node`: asked for often, so made once.
    fields: dict[str, tuple[YamlNode, YamlNode]] = field(init=False)

    def __post_init__(self) -> None:
        self.fields = pairs(self.node)

    def read(self, node: yaml.MappingNode) -> None:
        """Take what `node` says; a target in code is read after it is found."""
        self.node, self.fields = node, pairs(node)

    def get(self, name: str | int, *path: str | int) -> YamlNode | None:
        pair = self.fields.get(str(name))
        if pair is None:
            return get(self.node, name, *path) if "<<" in self.fields else None
        return get(pair[1], *path) if path else pair[1]

    def text(self, name: str | int, *path: str | int) -> str | None:
        # As text_of(get()), without the calls: most keys are not there.
        pair = self.fields.get(str(name))
        if pair is None:
            return text_of(get(self.node, name, *path)) if "<<" in self.fields else None
        return text_of(get(pair[1], *path) if path else pair[1])

    def state(self, setting: Setting) -> State:
        """What is there, compared with a setting."""
        text = self.text(*setting.path)
        if text is None:
            return State.ABSENT
        if text == str(setting.value):
            return State.EQUAL
        return State.BOUND if is_bound(text) else State.DIFFERENT

    def path_of(self, path: KeyPath) -> KeyPath:
        """Where the value counts that belongs at a path: a step's own `instance_type` wins over its
        `resources`.
        """
        if path[0] == "resources" and path[-1] in self.fields and self.overrides_resources:
            return path[1:]
        return path

    @property
    def overrides_resources(self) -> bool:
        """Whether keys of its own win over its `resources`.

        azure-ai-ml passes the keys of a step that names a component to `set_resources`
        (entities/_builders/command.py and parallel.py). It rejects them on an inline step, and
        ignores them on a sweep.
        """
        return self.kind in _OWN_RESOURCES and "component" in self.fields

    @property
    def step_name(self) -> str | None:
        """The name of the step that it is, or that it is written in."""
        step = self if self.kind.role == Role.STEP else self.parent
        return step.name if step is not None and step.kind.role == Role.STEP else None

    @property
    def is_unknown_step(self) -> bool:
        return self.kind.family == Family.OTHER and self.kind.role == Role.STEP

    def owns(self, path: KeyPath) -> bool:
        """Whether it has a value of its own at a path."""
        return self.text(*path) is not None

    def is_bound(self, path: KeyPath) -> bool:
        """Whether an input gives the value at a path."""
        return is_bound(self.text(*path))

    def written(self, path: KeyPath) -> str:
        """The value at a path as it is written, for a message."""
        return self.text(*path) or ""

    def opaque_reason(self, path: KeyPath) -> str:
        """Why the value at a path cannot be read."""
        return f"its {path[0]} cannot be read"

    def place_of(self, path: KeyPath) -> YamlNode:
        """Where a finding about a value points."""
        return self.get(*path) or self.at

    @property
    def shown(self) -> str:
        """`step train` or `command component`."""
        if self.kind.role in (Role.STEP, Role.V15_STEP):
            return f"step `{self.name}`" if self.name else "a step without a name"
        return self.kind.name


@dataclass(frozen=True, slots=True, eq=False)
class Document:
    """One document of a file: its kind and its targets, the root first."""

    index: int
    root: Target
    targets: tuple[Target, ...]

    @property
    def steps(self) -> Iterator[Target]:
        return (target for target in self.targets if target.kind.role == Role.STEP)


@dataclass(frozen=True, slots=True, eq=False)
class SourceFile:
    """A file that holds at least one AzureML document."""

    path: str
    data: bytes
    yaml: YamlText
    documents: tuple[Document, ...]


# --- which kind of document -----------------------------------------------------------------------

_V1_SCHEMA = re.compile(r"componentsdk\.|azureml/sdk-(?:1-5|2-0)/")
_SCHEMA_NAME = re.compile(r"([A-Za-z]+?)(job|component)?(?:\.schema)?\.json$", re.IGNORECASE)
_DEPLOYMENT = re.compile(
    r"([A-Za-z]*(?:Deployment|Endpoint|Schedule))(?:\.schema)?\.json$", re.IGNORECASE
)
# Keys that only a job has; a component that has one by mistake is recognised by its schema all the
# same.
_JOB_KEYS = frozenset({"compute", "experiment_name", "settings", "services", "queue_settings"})
_COMPONENT_KEYS = frozenset({"version", "is_deterministic"})
# `type: command` is in many kinds of files; with these keys beside it, it is AzureML.
_NEEDED_KEYS = {Family.COMMAND: {"command"}, Family.SPARK: {"entry", "code"}}
# Families with one role in files of their own.
_ONLY_ROLES = {
    Family.SWEEP: Role.JOB,
    Family.FINETUNING: Role.JOB,
    Family.PARALLEL: Role.COMPONENT,
}
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
    fields = pairs(root)
    declared, schema = (
        (text_of(fields[key][1]) if key in fields else None) or "" for key in ("type", "$schema")
    )
    # `pipelineComponentBatchDeployment` has `type: pipeline`, and no jobs
    if match := _DEPLOYMENT.search(schema):
        return None, f"an AzureML document ({match[1]}), not a job"
    name = declared.partition("@")[0]
    if family := SPEC_TYPES.get(name.lower()):
        return KINDS[family, Role.SPEC], ""
    if family := V2_TYPES.get(name):
        return _by_type(family, schema, fields, is_used), ""
    if name.endswith("Component"):
        return KINDS[Family.OTHER, Role.SPEC], ""
    if schema and not name:
        return _by_schema(schema)
    if schema:  # a `type` that is misspelt does not make it another document
        kind = None if _V1_SCHEMA.search(schema) else _by_schema(schema)[0]
        return kind, "" if kind else f"an AzureML document of type {name}, not a job"
    if (text_of(get(root, "apiVersion")) or "").startswith("amlarc.azureml.com/"):
        return None, "an InstanceType: see `arc-toolkit validate`"
    return (None if name else _by_shape(fields, is_used)), ""


def schema_family(schema: str) -> Family | None:
    """The family that the `$schema` of a v2 file names."""
    match = _SCHEMA_NAME.search(schema)
    return V2_TYPES.get(match[1].lower()) if match and match[2] else None


def _by_type(family: Family, schema: str, fields: NodePairs, is_used: bool) -> TargetKind | None:
    if family in _ONLY_ROLES:
        return KINDS[family, _ONLY_ROLES[family]]
    is_spark, is_pipeline = family == Family.SPARK, family == Family.PIPELINE
    has_component_keys = not _COMPONENT_KEYS.isdisjoint(fields)
    has_job_keys = not _JOB_KEYS.isdisjoint(fields) or (is_spark and "resources" in fields)
    says_component, says_job = (word in schema.lower() for word in ("component", "job"))
    if is_spark and _V1_SCHEMA.search(schema):  # of v1.5: the same `type`, and keys of its own
        is_job = says_job or (has_job_keys and not has_component_keys)
        return KINDS[Family.SPARK, Role.JOB] if is_job else KINDS[Family.OTHER, Role.SPEC]
    role = Role.COMPONENT if says_component else Role.JOB if says_job else None
    if role == Role.JOB and schema_family(schema) not in (None, family) and has_component_keys:
        role = None  # the `$schema` of something else says nothing
    # A step uses it, whatever its `$schema` says, unless it is a job in all else.
    if is_used and (has_component_keys or not (role == Role.JOB and has_job_keys)):
        role = Role.COMPONENT
    if role is None and family in (Family.AUTOML, Family.IMPORT, Family.DATA_TRANSFER):
        role = Role.COMPONENT if has_component_keys else Role.JOB
    elif role is None:
        is_empty = is_pipeline and "jobs" not in fields and "component" not in fields
        if not schema and (is_empty or not fields.keys() >= _NEEDED_KEYS.get(family, set())):
            return None
        # A pipeline job may have a name; a pipeline component without `version` looks the same.
        is_named = has_component_keys or ("name" in fields and not is_pipeline)
        role = Role.COMPONENT if is_named and not has_job_keys else Role.JOB
    return KINDS[family, role]


def _by_schema(schema: str) -> tuple[TargetKind | None, str]:
    match = _SCHEMA_NAME.search(schema)
    if match is None:
        return None, ""
    name, role = match[1].lower(), (match[2] or "").lower()
    if _V1_SCHEMA.search(schema) and role == Role.COMPONENT:
        # The specification: without `type` it is a CommandComponent.
        return KINDS[SPEC_TYPES.get(name + role, Family.COMMAND), Role.SPEC], ""
    if role and name in V2_TYPES and (kind := KINDS.get((V2_TYPES[name], Role(role)))):
        return kind, ""
    if "azureml" in schema.lower():
        document = match[0].removesuffix(".json").removesuffix(".schema")
        return None, f"an AzureML document ({document}), not a job"
    return None, ""


def _by_shape(fields: NodePairs, is_used: bool) -> TargetKind | None:
    if is_used and _is_command(fields):
        return KINDS[Family.COMMAND, Role.COMPONENT]
    if "jobs" in fields and "on" not in fields:
        for _, step in pairs(fields["jobs"][1]).values():
            inner = pairs(step)
            if "component" in inner or "trial" in inner or _is_command(inner):
                return KINDS[Family.PIPELINE, Role.JOB]
    if {"trial", "search_space", "objective"} <= fields.keys():
        return KINDS[Family.SWEEP, Role.JOB]
    if _is_command(fields) and not fields.keys().isdisjoint(("compute", "inputs", "code")):
        return KINDS[Family.COMMAND, Role.JOB]
    return None


def _is_command(fields: NodePairs) -> bool:
    return "command" in fields and "environment" in fields and "runs-on" not in fields


def _step_kind(step: Target, component: TargetKind | None) -> TargetKind:
    """The kind of a step, which may be that of the component file that it names."""
    declared = step.text("type")
    if not declared:
        shapes = (family for key, family in _STEP_SHAPES if step.get(key) is not None)
        named = component.family if component is not None else step.text("component", "type")
        # azure-ai-ml takes a step without `type` for a command.
        declared = next(shapes, None) or named or "command"
    declared = declared.lower()  # the type of a step may have capitals, that of a file may not
    family = Family.CONTROL if declared in CONTROL_TYPES else V2_TYPES.get(declared, Family.OTHER)
    return KINDS.get((family, Role.STEP), KINDS[Family.OTHER, Role.STEP])


# --- files ----------------------------------------------------------------------------------------


def parse(path: str, data: bytes, project: ProjectFiles) -> SourceFile:
    """The file's documents; `Unreadable` with a reason where there is none."""
    text, bom = decode(data)
    if "$schema" not in text and not has_hint(text):
        raise Unreadable("not AzureML", cause=SkipCause.FOREIGN)
    source = YamlText(text, bom, compose(text))
    return of_nodes(path, data, source, project)


def of_nodes(path: str, data: bytes, source: YamlText, project: ProjectFiles) -> SourceFile:
    """The same from nodes that are composed already."""
    documents = []
    other = ""
    for index, root in enumerate(source.documents):
        if isinstance(root, yaml.MappingNode) and root.value:
            kind, description = recognise(root, bool(project.uses(path) & {"component", "trial"}))
            if kind is not None:
                documents.append(_document(index, path, root, kind, project))
            elif description:
                other = description
    if not documents:
        raise Unreadable(other or "not AzureML", cause=SkipCause.FOREIGN)
    return SourceFile(path, data, source, tuple(documents))


def _document(
    index: int, path: str, root: yaml.MappingNode, kind: TargetKind, project: ProjectFiles
) -> Document:
    stem = os.path.basename(path).rpartition(".")[0] or os.path.basename(path)
    target = Target(kind, stem, (index,), root, root.value[0][0])
    target.name = target.text("name") or stem
    snapshot = (target.text("code") or "") if kind.role == Role.SPEC else ""
    written = target.text("component" if kind.family == Family.PIPELINE else "trial")
    target.reference = project.find(written, path, snapshot)
    targets = [target]
    if kind.family == Family.SWEEP and kind.role == Role.JOB:
        targets += _trial(target, Role.TRIAL)
    if kind.family == Family.PIPELINE:
        targets += _steps(target, path, project)
    return Document(index, target, tuple(targets))


def _steps(pipeline: Target, path: str, project: ProjectFiles) -> Iterator[Target]:
    for name, (key, node) in pairs(pipeline.get("jobs")).items():
        if not isinstance(node, yaml.MappingNode):
            continue
        step = Target(
            KINDS[Family.OTHER, Role.STEP],
            name,
            (*pipeline.path, "jobs", name),
            node,
            key,
            pipeline,
        )
        reference = project.find(step.text("component"), path)
        needs_kind = reference is not None and step.get("type") is None
        kind = _step_kind(step, project.kind_of(reference) if needs_kind and reference else None)
        step.kind = kind
        step.reference = (
            project.find(step.text("trial"), path) if kind.family == Family.SWEEP else reference
        )
        yield step
        if kind.family == Family.SWEEP:
            yield from _trial(step, Role.STEP_TRIAL)
        inline = step.get("component")
        if isinstance(inline, yaml.MappingNode):
            component = KINDS.get((kind.family, Role.COMPONENT))
            if component is not None:
                yield Target(component, name, (*step.path, "component"), inline, key, step)
        if step.get("jobs") is not None:
            yield from _steps(step, path, project)


def _trial(sweep: Target, role: Role) -> Iterator[Target]:
    trial = sweep.get("trial")
    if isinstance(trial, yaml.MappingNode):
        key = sweep.fields["trial"][0] if "trial" in sweep.fields else sweep.at
        yield Target(
            KINDS[Family.SWEEP, role], sweep.name, (*sweep.path, "trial"), trial, key, sweep
        )


# These three are asked for about five times per file, first for all files of a run and then for
# each; a new `ProjectFiles` forgets them, since a run may start in another folder.
@lru_cache(maxsize=4096)
def local_reference(written: str | None, path: str) -> str | None:
    """The file that `component: ./train.yml` or `trial: file:./spec.yaml` in `path` names; None for
    others.
    """
    if written is None or written.startswith("azureml:") or "${{" in written:
        return None
    written = written.removeprefix("file:")
    if not written.lower().endswith((".yml", ".yaml")):
        return None
    return os.path.normpath(os.path.join(folder_of(path), written))


@lru_cache(maxsize=4096)
def full_path(path: str) -> str:
    return os.path.abspath(path)


@lru_cache(maxsize=4096)
def folder_of(path: str) -> str:
    """The full path of the folder of a file."""
    return os.path.dirname(full_path(path))
