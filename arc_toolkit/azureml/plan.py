"""The plan for one file: what is known about it, what is to change, and the findings so far.

Settings (`place.py`) and rules speak to a `Plan` and read `Target`s; none of them knows a language. `YamlPlan` and
`PythonPlan` write values into theirs.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from arc_toolkit.azureml.documents import Document, Setting, Target, is_bound
from arc_toolkit.azureml.kinds import Role, Slot
from arc_toolkit.azureml.library import Library
from arc_toolkit.azureml.schema_keys import ForeignKey, foreign_keys
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.azureml.threads import FrameworkEvidence
from arc_toolkit.edit.files.edits import Refused
from arc_toolkit.edit.files.ignores import Ignores
from arc_toolkit.edit.files.plan import FailedGroups, FilePlan, Operation
from arc_toolkit.edit.yaml.nodes import KeyPath, YamlNode, pairs, text_of
from arc_toolkit.findings import Fix, Language, Rule, Severity

# `${{inputs.x}}`, and `${{parent.inputs.x}}` in a step.
_BINDING = re.compile(r"\$\{\{\s*(parent\.)?inputs\.([A-Za-z0-9_]+)\s*\}\}")
# Pipelines in pipelines.
_DEEPEST = 20


def parameter_names(slot: Slot) -> Iterator[str]:
    """What the input for a slot may be called, the best first."""
    field = slot.path[-1]
    yield field
    yield f"job_{field}"
    yield from (f"job_{field}_{number}" for number in range(2, 100))


class Plan(FilePlan[Any]):
    """The state of one file while its settings are placed and its rules run."""

    language: Language

    def __init__(
        self,
        path: str,
        library: Library,
        settings: Settings,
        ignored_lines: Ignores,
        in_folder: bool = True,
        before: Plan | None = None,
        failed_groups: FailedGroups | None = None,
    ) -> None:
        super().__init__(path, ignored_lines, failed_groups)
        self.library = library
        self.settings = settings
        # Whether a folder was given, so that "nothing uses it" means something.
        self.in_folder = in_folder
        # Only the edits of a second run count, not its findings.
        self.is_second = before is not None
        self.documents: tuple[Document, ...] = ()
        self._targets: list[Target] | None = None
        self._foreign: list[ForeignKey] | None = None
        self._planned: dict[KeyPath, Any] = {}
        # What rules know about the compute of a target, by its path.
        self.computes: dict[KeyPath, Any] = {}
        # Whether a target has a value that was asked for.
        self.has_asked = False
        # By path, so that the second run of the same file (`before`) need not look again; unless a fix was made, which
        # may bring evidence: a misspelt `environment` names no framework until it is renamed.
        is_same = before is not None and not any(
            item.fix and item.applied for item in before.findings
        )
        self._evidence: dict[KeyPath, tuple[FrameworkEvidence, ...]] = (
            before._evidence if before and is_same else {}
        )

    # --- what each language does its own way -----------------------------------------------------------------

    @abstractmethod
    def ignores(self) -> Iterator[tuple[Ignores, Callable[[int], YamlNode]]]:
        """The inline ignores, each with a function from its lines to places."""

    @abstractmethod
    def fix(self, title: str, safe: bool, operation: Operation, usable: bool) -> Fix | None:
        """The fix as data, made in this file as well if it is usable; `Refused` if it cannot be made."""

    @abstractmethod
    def write(self, target: Target, settings: Sequence[Setting]) -> list[Setting]:
        """Write values into a target. Those that were written; why another was not is reported."""

    @abstractmethod
    def pipelines(self) -> Iterator[tuple[Target, list[Target]]]:
        """The pipelines, each with the steps that may be bound to its inputs."""

    @abstractmethod
    def declare(self, pipeline: Target, slot: Slot, default: str | int) -> bool:
        """An input of a pipeline with a default; why it cannot be declared is reported."""

    @abstractmethod
    def declared_default(self, pipeline: Target, name: str) -> str | None:
        """The default of an input that a pipeline has already."""

    @abstractmethod
    def replace_restep(self, target: Target, value: str) -> bool:
        """AMLARC_RESTEP of a target becomes AMLARC_PRESTEP with this value."""

    def targets(self) -> Iterable[Target]:
        """Everything that settings may go to."""
        return self.known_targets()

    def known_targets(self) -> Sequence[Target]:
        """Everything that is known well enough for rules to judge it."""
        if self._targets is None:  # most rules ask for them
            self._targets = [target for document in self.documents for target in document.targets]
        return self._targets

    def foreign_keys(self) -> Sequence[ForeignKey]:
        """The keys of targets that azure-ai-ml does not know where they are."""
        if self._foreign is None:
            self._foreign = list(foreign_keys(self.known_targets()))
        return self._foreign

    def unsupported(self, target: Target, slot: Slot) -> str | None:
        """Why a target does not take a setting; None where it does."""
        return None if slot in target.kind.slots else target.kind.why

    def inherits(self, target: Target, path: KeyPath) -> bool:
        """Whether a target gets a value by way of another target, which is given it."""
        return False

    def parameter(self, pipeline: Target, slot: Slot) -> str:
        """The name of the input that is exposed for a slot."""
        return slot.path[-1]

    def bind(self, step: Target, slot: Slot) -> bool:
        """Make ready for binding a slot of a step to an input; False where that cannot be done."""
        return True

    @abstractmethod
    def expose_others(self) -> None:
        """Expose the resources of what is not a pipeline, where the language has a way."""

    def leaves_to_parameters(self, target: Target) -> bool:
        """Whether a target gets no literal resources, because exposed parameters go around it."""
        return False

    def compute_reference(self, name: str) -> str:
        """How the language names a compute of the workspace."""
        return name

    def needs_compute(self, target: Target) -> bool:
        """Whether a job or step without a compute of its own is given one."""
        return target.kind.role == Role.JOB or bool(self.settings.steps or self.settings.kinds)

    # --- findings --------------------------------------------------------------------------------------------

    def add_finding(
        self,
        rule: str,
        severity: Severity,
        message: str,
        at: YamlNode,
        reason: str = "",
        *,
        fix: Fix | None = None,
        applied: bool = False,
    ) -> None:
        """A finding, unless it is ignored or not asked for."""
        if self.settings.wants(rule):
            super().add_finding(rule, severity, message, at, reason, fix=fix, applied=applied)

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
        """A finding of a rule. `fix` changes the file if it may be used; an ignored finding is not fixed."""
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
        self.add_finding(
            rule.id, rule.severity, message, at, reason=reason, fix=change, applied=applied
        )

    # --- which targets ---------------------------------------------------------------------------------------

    def wants(self, rule: str, target: Target) -> bool:
        """Whether a setting is to be placed on this target: `--only`, `--skip`, `--step`, `--kind`, ignores."""
        settings = self.settings
        if not settings.wants(rule) or self.covers(rule, target.at):
            return False
        if settings.kinds and not settings.kinds_of(
            target.kind.family, self.is_distributed(target)
        ):
            return False
        if settings.steps:
            step = target if target.kind.role == Role.STEP else target.parent
            return step is not None and step.kind.role == Role.STEP and step.name in settings.steps
        return True

    def is_distributed(self, target: Target) -> bool:
        """Whether a v2 target, or the component or trial that it names, has a `distribution`."""
        holders = ((), ("component",), ("trial",))
        if any(target.get(*holder, "distribution") is not None for holder in holders):
            return True
        document = self.library.referenced(target)
        return document is not None and document.root.get("distribution") is not None

    def ignored(self, rule: str, target: Target, path: KeyPath = ()) -> bool:
        """Whether an inline ignore is at a target, or on a line of the keys and values on the way to `path`."""
        places = [target.at]
        node: YamlNode | None = target.node
        for step in path:
            key, node = pairs(node).get(str(step), (None, None))
            places += [part for part in (key, node) if part is not None]
        return any(self.covers(rule, place) for place in places)

    # --- what a target is like -------------------------------------------------------------------------------

    def planned(self, target: Target, name: str, *path: str | int) -> str | None:
        """The text at a path as it will be: what is planned, else what is there."""
        if self._planned:
            value = self._planned.get((*target.path, name, *path))
            if value is not None:
                return str(value)
        return target.text(name, *path)

    def is_planned(self, path: KeyPath) -> bool:
        return path in self._planned

    def is_filled(self, path: KeyPath) -> bool:
        """Whether something will be below a path where nothing is now."""
        return any(planned[: len(path)] == path for planned in self._planned)

    def expect(self, path: KeyPath, value: Any) -> None:
        """A value that will be at a path of the file."""
        self._planned[path] = value

    def effective(self, target: Target, name: str, *path: str) -> str | None:
        """A value of a target, or of the sweep around it, or of the component that it names."""
        first, *rest = map(str, target.path_of((name, *path)))
        if (own := self.planned(target, first, *rest)) is not None:
            return own
        if (
            path
            and name in ("resources", "distribution")
            and name in target.own
            and target.kind.role == Role.STEP
        ):
            return None  # those of a step replace those of its component
        if target.kind.role.is_trial and target.parent is not None:
            return self.effective(target.parent, name, *path)
        for inline in ("component", "trial"):
            if inline in target.own and (value := target.text(inline, name, *path)) is not None:
                return value
        document = self.library.referenced(target)
        return document.root.text(name, *path) if document else None

    def replaced_resources(self, target: Target) -> YamlNode | None:
        """The `resources` of a component or trial that those of the target itself would replace.

        azure-ai-ml sends a step's `resources` in place of its component's, and a sweep's in place of its trial's.
        """
        if target.get("resources") is not None:
            return None
        for inline in ("component", "trial"):
            if (node := target.get(inline, "resources")) is not None:
                return node
        document = self.library.referenced(target)
        return document.root.get("resources") if document else None

    def instance_type(self, target: Target) -> str | None:
        """The instance type that a target will run on; None where none is set, or it is bound to no default."""
        return self.resolved(target, self.effective(target, *Slot.INSTANCE_TYPE.path))

    def resolved(self, target: Target, text: str | None) -> str | None:
        """A value of a target, or of the input that it is bound to; None where that has none, or one of several."""
        values = self.possible_values(target, text)
        return next(iter(values)) if len(values) == 1 else None

    def possible_values(self, target: Target, text: str | None, depth: int = 0) -> set[str]:
        """What a value of a target can be: if it is bound to an input, the default of that, or what is passed to it."""
        if text is None or not is_bound(text):
            return set() if text is None else {text}
        match = _BINDING.fullmatch(text.strip())
        if match is None or depth > _DEEPEST:
            return set()
        of_parent, name = match.groups()
        holder: Target | None = target
        if of_parent:
            holder = (
                target.parent.parent
                if target.kind.role.is_trial and target.parent
                else target.parent
            )
        if holder is None:
            return set()
        if passed := self.passed_values(holder, name, depth + 1):
            return passed
        value = self.planned(holder, "inputs", name) or self.planned(
            holder, "inputs", name, "default"
        )
        value = value or self.planned(holder, "inputs", name, "value")
        if value is None and (document := self.library.referenced(holder)):
            value = document.root.text("inputs", name, "default")
        return self.possible_values(holder, value, depth + 1)

    def passed_values(self, pipeline: Target, name: str, depth: int) -> set[str]:
        """What the steps of other files that use this pipeline pass to an input of it; nothing where there are none."""
        return set()

    def variables(self, target: Target) -> dict[str, str]:
        """The environment variables of a target as they are written now."""
        node = target.get("environment_variables")
        return (
            {name: text_of(value) or "" for name, (_, value) in pairs(node).items()} if node else {}
        )

    def evidence(self, target: Target) -> tuple[FrameworkEvidence, ...]:
        if target.path not in self._evidence:
            self._evidence[target.path] = self.library.evidence(target, self.path)
        return self._evidence[target.path]

    def has_no_evidence(self, target: Target) -> bool:
        """Whether it was looked for and nothing was found."""
        return self._evidence.get(target.path) == ()

    @property
    def has_evidence(self) -> bool:
        """Whether anything was found for a target so far."""
        return any(self._evidence.values())
