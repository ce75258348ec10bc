"""The plan for one YAML file: its changes are operations of the YAML editor."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import yaml

from arc_toolkit.azureml.documents import RESOURCE_KEYS, Setting, SourceFile, Target
from arc_toolkit.azureml.expose import EXPOSE
from arc_toolkit.azureml.expose_yaml import (
    InnerParameters,
    move_to_component,
    parameter_name,
    pass_on,
    report_root,
)
from arc_toolkit.azureml.kinds import Family, Role, Slot
from arc_toolkit.azureml.plan import Plan
from arc_toolkit.azureml.references import ProjectFiles
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.azureml.threads import PRESTEP, RESTEP
from arc_toolkit.edit.files.ignores import Ignores, find_ignores
from arc_toolkit.edit.files.plan import MAX_REPARSE_CHARS, FailedGroups, Operation
from arc_toolkit.edit.yaml.editor import YamlEditor
from arc_toolkit.edit.yaml.nodes import KeyPath, YamlNode, YamlText, construct, pairs, text_of
from arc_toolkit.edit.yaml.writer import YamlStyle
from arc_toolkit.findings import Fix, Language

# What a pipeline begins with.
_HEAD = frozenset({"type", "name", "version", "display_name", "description", "experiment_name"})
# Where a new key goes, and what is quoted.
EDIT_STYLE = YamlStyle(
    neighbours={
        "resources": ("compute", "component", "trial", "environment", "code", "command"),
        "environment_variables": (
            "environment",
            "component",
            "trial",
            "compute",
            "code",
            "command",
        ),
        "compute": ("component", "trial", "environment", "code", "command"),
        "component": ("type",),
        "settings": _HEAD,
        "inputs": _HEAD,
    },
    # Variables are upper case by custom; their values are always strings, and are seen to be.
    quoted=str.isupper,
    plain=re.compile(r"\$\{\{[A-Za-z0-9_.]+\}\}|\./[A-Za-z0-9_./-]+"),
)
# Names of computes that are not references to a compute of the workspace.
_BARE_COMPUTES = frozenset(["local", "serverless"])


class YamlPlan(Plan):
    """The plan for a YAML file: its changes are operations of the YAML editor."""

    language: Language = "yaml"
    proves_groups = True

    def __init__(
        self,
        file: SourceFile,
        project: ProjectFiles,
        settings: Settings,
        in_folder: bool = True,
        before: YamlPlan | None = None,
        failed_groups: FailedGroups | None = None,
        inner_parameters: InnerParameters | None = None,
    ) -> None:
        ignored_lines = find_ignores(file.yaml.text)
        super().__init__(
            file.path, project, settings, ignored_lines, in_folder, before, failed_groups
        )
        self.file = file
        self.documents = file.documents
        self._proofs = 0
        self._parameters: dict[tuple[KeyPath, Slot], str] = {}
        # Where the steps of a pipeline are bound to inputs, with the text there.
        self.bindings: dict[Target, list[tuple[KeyPath, str]]] = {}
        self._steps: dict[KeyPath, Target] = {}
        # The parameters of the pipeline files that steps of this one name, after this run.
        self.inner_parameters = inner_parameters or {}
        # Keys of steps that move into `resources`.
        self._moved: set[int] = set()

    def new_editor(self) -> YamlEditor:
        return YamlEditor(self.file.yaml, EDIT_STYLE)

    @property
    def is_empty(self) -> bool:
        return bool(self.editor.empty)

    def prove(self, text: YamlText) -> YamlText:
        after, documents = self.editor.finish()
        return YamlText(after, text.bom, documents)

    def ignores(self) -> Iterator[tuple[Ignores, Callable[[int], YamlNode]]]:
        def node(line: int) -> YamlNode:
            mark = yaml.Mark("", 0, line - 1, 0, None, 0)
            return yaml.ScalarNode("", "", mark, mark)

        yield self.ignored_lines, node

    def ignored(self, rule: str, target: Target, path: KeyPath = ()) -> bool:
        return bool(self.ignored_lines.lines) and super().ignored(rule, target, path)

    def compute_reference(self, name: str) -> str:
        """`azureml:NAME`, unless it is a reference, a resource id, or one of the two names that
        need none.
        """
        if name.startswith(("azureml:", "/", "${{")) or name in _BARE_COMPUTES:
            return name
        return f"azureml:{name}"

    # --- edits ------------------------------------------------------------------------------------

    def write(self, target: Target, settings: Sequence[Setting]) -> list[Setting]:
        return [
            setting
            for setting in settings
            if self.set(setting.rule, target, setting.path, setting.value)
        ]

    def set(self, rule: str, target: Target, path: KeyPath, value: object) -> bool:
        """Put a value below a target; a refusal becomes a finding."""
        where = (*target.path, *path)
        value = value if isinstance(value, (int, dict)) else str(value)
        if not self.edit(rule, target, where, partial(YamlEditor.set, path=where, value=value)):
            return False
        self.values.pending[where] = value
        return True

    def edit(self, rule: str, target: Target, where: KeyPath, operation: Operation) -> bool:
        """One operation at a place of the file; a refusal becomes a finding."""
        return self.attempt(rule, f"not set on {target.shown}", target.at, operation, where)

    def fix(self, title: str, safe: bool, operation: Operation, usable: bool) -> Fix | None:
        alone = self.new_editor()
        operation(alone)
        if usable:
            self.perform((title, *alone.edits()), operation)
        elif self._proofs * len(self.file.yaml.text) < MAX_REPARSE_CHARS:
            self._proofs += 1  # others are proved when `patch` makes them
            alone.finish()
        return None if self.is_second else Fix(title, safe, tuple(alone.edits()))

    def replace_restep(self, target: Target, value: str) -> bool:
        path = (*target.path, *Slot.VARIABLES.path, RESTEP)
        new = value if value != target.text(*Slot.VARIABLES.path, RESTEP) else None
        if not self.edit("threads", target, path, lambda editor: editor.rename(path, PRESTEP, new)):
            return False
        self.values.pending[path] = value
        return True

    # --- exposed parameters -----------------------------------------------------------------------

    def step_names(self) -> Iterator[str]:
        return (step.name for document in self.documents for step in document.steps)

    def pipelines(self) -> Iterator[tuple[Target, list[Target]]]:
        for document in self.documents:
            root = document.root
            if root.kind.family == Family.PIPELINE:
                yield (
                    root,
                    [
                        step
                        for step in document.steps
                        if step.kind.resources and step.parent is root
                    ],
                )

    def leaves_to_parameters(self, target: Target) -> bool:
        step = target if target.kind.role == Role.STEP else target.parent
        pipeline = step.parent if step is not None else None
        return self.settings.expose_parameters and pipeline is not None and pipeline.parent is None

    def expose_others(self) -> None:
        """A pipeline that uses another one passes the parameters of that one on."""
        for document in self.documents:
            if document.root.kind.family != Family.PIPELINE:
                report_root(self, document.root)
            for step in document.steps:
                if step.kind.family == Family.PIPELINE and step.parent is document.root:
                    pass_on(self, document.root, step)

    def step(self, pipeline: Target, name: str) -> Target | None:
        """A step of a pipeline by its name."""
        if not self._steps:
            self._steps = {
                target.path: target
                for target in self.known_targets()
                if target.kind.role == Role.STEP
            }
        return self._steps.get((*pipeline.path, "jobs", name))

    def parameter(self, pipeline: Target, slot: Slot) -> str:
        key = (pipeline.path, slot)
        if key not in self._parameters:
            self._parameters[key] = parameter_name(self, pipeline, slot)
        return self._parameters[key]

    def declared_default(self, pipeline: Target, name: str) -> str | None:
        return text_of(pipeline.get("inputs", name)) or pipeline.text("inputs", name, "default")

    def declare(self, pipeline: Target, slot: Slot, default: str | int) -> bool:
        """A plain value in a job, a typed one with a default in a component."""
        path: KeyPath = ("inputs", self.parameter(pipeline, slot))
        declared = pipeline.get(*path)
        own = pairs(declared)
        if pipeline.kind.role == Role.COMPONENT and declared is None:
            kind = "string" if slot == Slot.INSTANCE_TYPE else "integer"
            return self.set(EXPOSE, pipeline, path, {"type": kind, "default": default})
        if pipeline.kind.role == Role.COMPONENT or own:
            is_value = pipeline.kind.role != Role.COMPONENT and "value" in own
            path = (*path, "value" if is_value else "default")
        return pipeline.text(*path) == str(default) or self.set(EXPOSE, pipeline, path, default)

    def bind(self, step: Target, slot: Slot) -> bool:
        """A count cannot be bound beside keys that win over `resources`, nor in an inline command
        step.
        """
        if step.overrides_resources:
            names = (slot.path[-1],) if slot != Slot.INSTANCE_COUNT else RESOURCE_KEYS
            return all(
                self._move_below_resources(step, name, slot)
                for name in names
                if name in step.fields
            )
        inline = step.kind.family == Family.COMMAND and step.get("component") is None
        return not (inline and slot == Slot.INSTANCE_COUNT) or move_to_component(self, step)

    def _move_below_resources(self, step: Target, name: str, slot: Slot) -> bool:
        key, node = step.fields[name]
        if id(key) in self._moved:
            return True
        self._moved.add(id(key))
        path = (*step.path, name)
        if not self.edit(EXPOSE, step, path, partial(YamlEditor.remove, path=path)):
            return False
        planned = self.values.own(step, "resources", name) is not None or name == slot.path[-1]
        return planned or self.set(EXPOSE, step, ("resources", name), construct(node))
