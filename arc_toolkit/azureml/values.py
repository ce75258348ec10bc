"""The values of the targets of one file: pending, own, effective and resolved.

pending     written by this run own         pending, or in the file already effective   own, or of
the sweep around a trial, or of the component that a step names resolved    without `${{inputs.x}}`:
the default of the input, or the values that other files pass to it
"""

from __future__ import annotations

import re
from typing import Any

from arc_toolkit.azureml.documents import Target, is_bound
from arc_toolkit.azureml.kinds import KINDS, Family, Role, Slot
from arc_toolkit.azureml.references import ProjectFiles
from arc_toolkit.edit.yaml.nodes import KeyPath, YamlNode

# `${{inputs.x}}`, and `${{parent.inputs.x}}` in a step.
_BINDING = re.compile(r"\$\{\{\s*(parent\.)?inputs\.([A-Za-z0-9_]+)\s*\}\}")
# Pipelines in pipelines.
MAX_PIPELINE_DEPTH = 20
_PIPELINE_COMPONENT = KINDS[Family.PIPELINE, Role.COMPONENT]
# A target may have its component, or its trial, written in place.
_INLINE = ("component", "trial")


class Values:
    """What the targets of one file have, during a run."""

    def __init__(self, path: str, project: ProjectFiles, exposes: bool = False) -> None:
        self.pending: dict[KeyPath, Any] = {}
        self._path = path
        self._project = project
        # Exposed parameters have the same value everywhere.
        self._exposes = exposes
        self._passed: dict[str, set[str]] = {}

    def own(self, target: Target, name: str, *path: str | int) -> str | None:
        """The text at a path of a target as it will be."""
        if self.pending:
            value = self.pending.get((*target.path, name, *path))
            if value is not None:
                return str(value)
        return target.text(name, *path)

    def will_have(self, path: KeyPath) -> bool:
        """Whether this run writes at a path of the file or below it."""
        return any(pending[: len(path)] == path for pending in self.pending)

    def effective(self, target: Target, name: str, *path: str) -> str | None:
        """The value that counts when the target runs."""
        first, *rest = map(str, target.path_of((name, *path)))
        if (own := self.own(target, first, *rest)) is not None:
            return own
        is_step = target.kind.role == Role.STEP
        if path and name in ("resources", "distribution") and name in target.fields and is_step:
            return None  # those of a step replace those of its component
        if target.kind.role.is_trial and target.parent is not None:
            return self.effective(target.parent, name, *path)
        for inline in _INLINE:
            if inline in target.fields and (value := target.text(inline, name, *path)) is not None:
                return value
        document = self._project.referenced(target)
        return document.root.text(name, *path) if document else None

    def is_distributed(self, target: Target) -> bool:
        """Whether a v2 target, or the component or trial that it names, has a `distribution`."""
        holders = ((), *((inline,) for inline in _INLINE))
        if any(target.get(*holder, "distribution") is not None for holder in holders):
            return True
        document = self._project.referenced(target)
        return document is not None and document.root.get("distribution") is not None

    def replaced_resources(self, target: Target) -> YamlNode | None:
        """The `resources` of a component or trial that those of the target itself would replace.

        azure-ai-ml sends a step's `resources` in place of its component's, and a sweep's in place
        of its trial's.
        """
        if target.get("resources") is not None:
            return None
        for inline in _INLINE:
            if (node := target.get(inline, "resources")) is not None:
                return node
        document = self._project.referenced(target)
        return document.root.get("resources") if document else None

    def instance_type(self, target: Target) -> str | None:
        """The instance type that a target will run on; None where none is set, or it is bound to no
        default.
        """
        return self.resolved(target, self.effective(target, *Slot.INSTANCE_TYPE.path))

    def resolved(self, target: Target, text: str | None) -> str | None:
        """A value of a target, or of the input that it is bound to; None if that has none, or one
        of several.
        """
        values = self.possible(target, text)
        return next(iter(values)) if len(values) == 1 else None

    def possible(self, target: Target, text: str | None, depth: int = 0) -> set[str]:
        """Every value that a text of a target can stand for.

        `${{parent.inputs.kind}}` in a step of a pipeline component whose input `kind` has the
        default `a`: {"a"}. If two pipelines of the run pass `b` and `c` to it: {"b", "c"}.
        """
        if text is None or not is_bound(text):
            return set() if text is None else {text}
        match = _BINDING.fullmatch(text.strip())
        if match is None or depth > MAX_PIPELINE_DEPTH:
            return set()
        of_parent, name = match.groups()
        holder: Target | None = target
        if of_parent:
            step = target.parent if target.kind.role.is_trial and target.parent else target
            holder = step.parent
        if holder is None:
            return set()
        if passed := self._passed_by_users(holder, name, depth + 1):
            return passed
        paths = (("inputs", name), ("inputs", name, "default"), ("inputs", name, "value"))
        value = next(filter(None, (self.own(holder, *path) for path in paths)), None)
        if value is None and (document := self._project.referenced(holder)):
            value = document.root.text("inputs", name, "default")
        return self.possible(holder, value, depth + 1)

    def _passed_by_users(self, pipeline: Target, name: str, depth: int) -> set[str]:
        """The values that steps of other files pass to an input of this pipeline; none if no step
        uses it.
        """
        is_component = pipeline.kind is _PIPELINE_COMPONENT and pipeline.parent is None
        if not is_component or self._exposes:
            return set()
        if name not in self._passed:
            self._passed[name] = set()  # also for two pipelines that name each other
            default = pipeline.text("inputs", name, "default")
            for file, step in self._project.users(self._path, Family.PIPELINE):
                text = step.text("inputs", name) or default
                self._passed[name] |= Values(file.path, self._project).possible(step, text, depth)
        return self._passed[name]
