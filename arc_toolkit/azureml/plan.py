"""The plan for one file: its targets, its values, what is to change, and the findings so far.

Settings and rules speak to a `Plan` and read `Target`s; none of them knows a language. `YamlPlan`
and `PythonPlan` write values into theirs.
"""

from __future__ import annotations

import os.path
import re
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import yaml

from arc_toolkit.azureml.documents import (
    RESOURCE_KEYS,
    Document,
    Setting,
    SourceFile,
    State,
    Target,
    is_bound,
)
from arc_toolkit.azureml.evidence import FrameworkEvidence
from arc_toolkit.azureml.kinds import KINDS, TRIALS, Family, Role, Slot
from arc_toolkit.azureml.references import ProjectFiles
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.azureml.threads import PRESTEP, RESTEP
from arc_toolkit.edit.files.edits import Refused
from arc_toolkit.edit.files.plan import (
    MAX_REPARSE_CHARS,
    FailedGroups,
    FilePlan,
    Ignores,
    Operation,
    find_ignores,
)
from arc_toolkit.edit.yaml.editor import YamlEditor
from arc_toolkit.edit.yaml.nodes import INT, KeyPath, YamlNode, YamlText, pairs, text_of
from arc_toolkit.edit.yaml.writer import YamlStyle
from arc_toolkit.findings import Fix, Language, Rule, Severity

# `${{inputs.x}}`, and `${{parent.inputs.x}}` in a step.
_BINDING = re.compile(r"\$\{\{\s*(parent\.)?inputs\.([A-Za-z0-9_]+)\s*\}\}")
# Pipelines in pipelines.
MAX_PIPELINE_DEPTH = 20
_PIPELINE_COMPONENT = KINDS[Family.PIPELINE, Role.COMPONENT]
# A target may have its component, or its trial, written in place.
_INLINE = ("component", "trial")


class Values:
    """The values of the targets of one file, during a run.

    pending    written by this run
    own        pending, or in the file already
    effective  own, or of the sweep around a trial, or of the component that a step names
    resolved   without `${{inputs.x}}`: the default of the input, or what other files pass to it
    """

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
        if target.kind.role in TRIALS and target.parent is not None:
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
            step = target.parent if target.kind.role in TRIALS and target.parent else target
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


class Plan(FilePlan[Any]):
    """The state of one file while its settings are placed and its rules run."""

    language: Language

    def __init__(
        self,
        path: str,
        project: ProjectFiles,
        settings: Settings,
        ignored_lines: Ignores,
        in_folder: bool = True,
        before: Plan | None = None,
        failed_groups: FailedGroups | None = None,
    ) -> None:
        super().__init__(path, ignored_lines, failed_groups)
        self.project = project
        self.settings = settings
        # Whether a folder was given, so that "nothing uses it" means something.
        self.in_folder = in_folder
        # Only the edits of a second run count, not its findings.
        self.is_second = before is not None
        self.documents: tuple[Document, ...] = ()
        self._known_targets: list[Target] | None = None
        self.values = Values(path, project, settings.expose_parameters)
        # What rules have found out about the file, for each other.
        self.rule_facts: dict[Hashable, Any] = {}
        # True once any target already has a requested value.
        self.already_as_requested = False
        self._evidence: dict[KeyPath, tuple[FrameworkEvidence, ...]] = {}

    # --- what each language does its own way ------------------------------------------------------

    @abstractmethod
    def ignores(self) -> Iterator[tuple[Ignores, Callable[[int], YamlNode]]]:
        """The inline ignores, each with a function from its lines to places."""

    @abstractmethod
    def fix(self, title: str, safe: bool, operation: Operation, usable: bool) -> Fix | None:
        """The fix as data, made in this file as well if it is usable; `Refused` if it cannot be
        made.
        """

    @abstractmethod
    def write(self, target: Target, settings: Sequence[Setting]) -> list[Setting]:
        """Write values into a target. Those that were written; why another was not is reported."""

    @abstractmethod
    def replace_restep(self, target: Target, value: str) -> bool:
        """AMLARC_RESTEP of a target becomes AMLARC_PRESTEP with this value."""

    @abstractmethod
    def step_names(self) -> Iterable[str]:
        """The names that `--step` knows."""

    def families(self) -> Iterator[str]:
        """The names of `--kind` that select a target."""
        for target in self.known_targets():
            yield target.kind.family
            if Family.DISTRIBUTED in self.settings.kinds and self.values.is_distributed(target):
                yield Family.DISTRIBUTED

    def targets(self) -> Iterable[Target]:
        """Everything that settings may go to."""
        return self.known_targets()

    def known_targets(self) -> Sequence[Target]:
        """Everything that is known well enough for rules to judge it."""
        if self._known_targets is None:
            documents = self.documents
            self._known_targets = [item for document in documents for item in document.targets]
        return self._known_targets

    def unsupported(self, target: Target, slot: Slot) -> str | None:
        """Why a target does not take a setting; None where it does."""
        return None if slot in target.kind.slots else target.kind.why

    def inherits(self, target: Target, path: KeyPath) -> bool:
        """Whether a target gets a value by way of another target, which is given it."""
        return False

    def compute_reference(self, name: str) -> str:
        """How the language names a compute of the workspace."""
        return name

    def needs_compute(self, target: Target) -> bool:
        """Whether a job or step without a compute of its own is given one."""
        return target.kind.role == Role.JOB or bool(self.settings.steps or self.settings.kinds)

    # --- findings ---------------------------------------------------------------------------------

    def report(
        self,
        rule: Rule,
        message: str,
        at: YamlNode,
        *,
        reason: str = "",
        fix: Operation | None = None,
        title: str = "",
        applied: bool = False,
    ) -> None:
        """A finding of a rule. `fix` changes the file if it may be used; an ignored finding is not
        fixed.
        """
        if not self.settings.wants(rule.id) or self.covers(rule.id, at):
            return
        change = None
        if fix is not None:
            usable = rule.fix == "safe" or self.settings.unsafe_fixes
            try:
                # A setting of this run may have fixed it already.
                change = self.fix(title, rule.fix == "safe", fix, usable and not applied)
                applied = applied or usable
            except Refused as refusal:
                reason = f"{reason}; {refusal.reason}" if reason else refusal.reason
        self.add_finding(rule.id, rule.severity, message, at, reason, fix=change, applied=applied)

    # --- which targets ----------------------------------------------------------------------------

    def wants(self, rule: str, target: Target) -> bool:
        """Whether a setting is to be placed on this target: `--only`, `--skip`, `--step`, `--kind`,
        ignores.
        """
        return (
            self.settings.wants(rule) and not self.covers(rule, target.at) and self.chosen(target)
        )

    def chosen(self, target: Target) -> bool:
        """Whether `--step` and `--kind` name this target."""
        settings = self.settings
        if settings.steps and target.step_name not in settings.steps:
            return False
        return not settings.kinds or settings.selects_kind(
            target.kind.family, self.values.is_distributed(target)
        )

    def ignored(self, rule: str, target: Target, path: KeyPath = ()) -> bool:
        """Whether an inline ignore is at a target, or on a line of the keys and values on the way
        to `path`.
        """
        places = [target.at]
        node: YamlNode | None = target.node
        for step in path:
            key, node = pairs(node).get(str(step), (None, None))
            places += [part for part in (key, node) if part is not None]
        return any(self.covers(rule, place) for place in places)

    # --- settings into targets --------------------------------------------------------------------

    def place(self, target: Target, settings: Sequence[Setting]) -> list[Setting]:
        """Write the settings that differ from the values of a target. Those that were written; why
        not is reported.
        """
        different = [setting for setting in settings if self._differs(target, setting)]
        if not different:
            return []
        return self.write(target, [*different, *self._repeated(target, different)])

    def _differs(self, target: Target, setting: Setting) -> bool:
        rule, path = setting.rule, setting.path
        severity: Severity
        if not self.wants(rule, target) or self.ignored(rule, target, path):
            return False
        if (why := self.unsupported(target, setting.slot)) is not None:
            # A setting that a kind cannot have is not a fault; a step of unknown kind may need it.
            severity = "warning" if target.is_unknown_step else "note"
            self.add_finding(rule, severity, f"not set on {target.shown}", target.at, why)
            return False
        if self.inherits(target, path):
            return False
        message = f"{path[-1]} of {target.shown} is not changed"
        match target.state(setting):
            case State.EQUAL:
                self.already_as_requested = True
            case State.BOUND:
                # An input is there to be given: no fault.
                severity = "note" if target.is_bound(path) else "warning"
                reason = f"it is bound to {target.written(path)}"
                self.add_finding(rule, severity, message, target.place_of(path), reason)
            case State.OPAQUE:
                self.warn(rule, message, target.at, target.opaque_reason(path))
            case State.ABSENT | State.DIFFERENT:
                return True
        return False

    def _repeated(self, target: Target, settings: Sequence[Setting]) -> list[Setting]:
        """What else the component says in the `resources` that the target's would replace."""
        new = {setting.path[-1]: setting for setting in settings if setting.path[0] == "resources"}
        if self.language == "python" or not new:
            return []
        rule = next(iter(new.values())).rule
        repeated = []
        for name, (_, node) in pairs(self.values.replaced_resources(target)).items():
            text = text_of(node)
            if name in new or name not in RESOURCE_KEYS or text is None or is_bound(text):
                continue
            if self.values.own(target, "resources", name) is None:
                value = int(text) if node.tag == INT and text.isdigit() else text
                repeated.append(Setting(rule, Slot.INSTANCE_TYPE, value, ("resources", name)))
        return repeated

    def requested_resources(self) -> dict[Slot, str | int | None]:
        """Instance type and count as they were asked for."""
        return {
            Slot.INSTANCE_TYPE: self.settings.instance_type,
            Slot.INSTANCE_COUNT: self.settings.instance_count,
        }

    def report_other_file(self, target: Target, rule: str) -> None:
        """A pipeline that is a component in another place: its steps are set there, or not at all."""
        written = target.text("component")
        if self.language == "python":  # there `component` is an expression
            written = os.path.basename(target.reference) if target.reference else None
        if written is None or not self.wants(rule, target):
            return
        reason = (
            f"the steps of {written} are in the workspace or a registry: set it where that "
            "component is written"
        )
        if target.reference is not None:
            if self.project.is_given(target.reference):
                return
            reason = f"its steps are in {written}: give that file too"
        message = f"not set on the steps of {target.shown}"
        self.warn(rule, message, target.at, reason)

    # --- what a target is like --------------------------------------------------------------------

    def variables(self, target: Target) -> dict[str, str]:
        """The environment variables of a target as they are written now."""
        rows = pairs(target.get("environment_variables"))
        return {name: text_of(value) or "" for name, (_, value) in rows.items()}

    def evidence(self, target: Target) -> tuple[FrameworkEvidence, ...]:
        if target.path not in self._evidence:
            self._evidence[target.path] = self.project.evidence.of_target(target, self.path)
        return self._evidence[target.path]

    def has_no_evidence(self, target: Target) -> bool:
        """Whether it was looked for and nothing was found."""
        return self._evidence.get(target.path) == ()


# --- YAML -------------------------------------------------------------------------------------------

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
