"""The plan for one YAML file: its changes are operations of the YAML editor."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import yaml

from arc_toolkit.azureml.documents import Setting, SourceFile, Target
from arc_toolkit.azureml.kinds import Slot
from arc_toolkit.azureml.plan import Plan
from arc_toolkit.azureml.references import ProjectFiles
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.azureml.threads import PRESTEP, RESTEP
from arc_toolkit.edit.files.plan import (
    MAX_REPARSE_CHARS,
    FailedGroups,
    Ignores,
    Operation,
    find_ignores,
)
from arc_toolkit.edit.yaml.editor import YamlEditor
from arc_toolkit.edit.yaml.nodes import KeyPath, YamlNode, YamlText
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
        "settings": _HEAD,
        "inputs": _HEAD,
    },
    # Variables are upper case by custom; their values are always strings, and are seen to be.
    quoted=str.isupper,
    plain=re.compile(r"\$\{\{[A-Za-z0-9_.]+\}\}"),
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
    ) -> None:
        ignored_lines = find_ignores(file.yaml.text)
        super().__init__(
            file.path, project, settings, ignored_lines, in_folder, before, failed_groups
        )
        self.file = file
        self.documents = file.documents
        self._proofs = 0

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

    def step_names(self) -> Iterator[str]:
        return (step.name for document in self.documents for step in document.steps)
