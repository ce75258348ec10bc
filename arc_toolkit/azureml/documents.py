"""Files as documents, and documents as targets: the jobs, steps, trials and components that
settings go onto.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Protocol

import yaml

from arc_toolkit.azureml.kinds import (
    KINDS,
    Family,
    Role,
    Slot,
    TargetKind,
    has_hint,
    recognise,
    step_kind,
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

# How new AzureML files are written: a long command breaks before its arguments, `$[[...]]` being an
# optional one.
FILE_STYLE = YamlStyle(fold_before=("-", "$[["))


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


class ReferenceResolver(Protocol):
    """The files that a file names, and how others use it."""

    def kind_of(self, path: str) -> TargetKind | None:
        """What a component file is: a step without `type` is what its component is."""

    def find(self, written: str | None, path: str, snapshot: str = "") -> str | None:
        """The full path of the component or trial file that `path` names."""

    def uses(self, path: str) -> set[str]:
        """How other files use this one."""


def parse(path: str, data: bytes, resolver: ReferenceResolver) -> SourceFile:
    """The file's documents; `Unreadable` with a reason where there is none."""
    text, bom = decode(data)
    if "$schema" not in text and not has_hint(text):
        raise Unreadable("not AzureML", cause=SkipCause.FOREIGN)
    source = YamlText(text, bom, compose(text))
    return of_nodes(path, data, source, resolver)


def of_nodes(path: str, data: bytes, source: YamlText, resolver: ReferenceResolver) -> SourceFile:
    """The same from nodes that are composed already."""
    documents = []
    other = ""
    for index, root in enumerate(source.documents):
        if isinstance(root, yaml.MappingNode) and root.value:
            kind, description = recognise(root, bool(resolver.uses(path) & {"component", "trial"}))
            if kind is not None:
                documents.append(_document(index, path, root, kind, resolver))
            elif description:
                other = description
    if not documents:
        raise Unreadable(other or "not AzureML", cause=SkipCause.FOREIGN)
    return SourceFile(path, data, source, tuple(documents))


def _document(
    index: int, path: str, root: yaml.MappingNode, kind: TargetKind, resolver: ReferenceResolver
) -> Document:
    stem = os.path.basename(path).rpartition(".")[0] or os.path.basename(path)
    target = Target(kind, stem, (index,), root, root.value[0][0])
    target.name = target.text("name") or stem
    snapshot = (target.text("code") or "") if kind.role == Role.SPEC else ""
    written = target.text("component" if kind.family == Family.PIPELINE else "trial")
    target.reference = resolver.find(written, path, snapshot)
    targets = [target]
    if kind.family == Family.SWEEP and kind.role == Role.JOB:
        targets += _trial(target, Role.TRIAL)
    if kind.family == Family.PIPELINE:
        targets += _steps(target, path, resolver)
    return Document(index, target, tuple(targets))


def _steps(pipeline: Target, path: str, resolver: ReferenceResolver) -> Iterator[Target]:
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
        reference = resolver.find(step.text("component"), path)
        needs_kind = reference is not None and step.get("type") is None
        kind = step_kind(
            step.fields, node, resolver.kind_of(reference) if needs_kind and reference else None
        )
        step.kind = kind
        step.reference = (
            resolver.find(step.text("trial"), path) if kind.family == Family.SWEEP else reference
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
            yield from _steps(step, path, resolver)


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
