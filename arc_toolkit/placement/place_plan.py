"""What `place` was asked for, and the plan of one file: its operations, findings and refusals."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from arc_toolkit.edit.files.edits import Refused
from arc_toolkit.edit.files.ignores import Ignores, find_ignores
from arc_toolkit.edit.yaml.editor import Editor
from arc_toolkit.edit.yaml.nodes import YamlNode, YamlText, place
from arc_toolkit.edit.yaml.writer import YamlStyle
from arc_toolkit.findings import Finding, Rule, Severity
from arc_toolkit.placement.manifests import UnknownObject, Workload, read_objects
from arc_toolkit.placement.spec_editor import RecordedOperations, SpecEditor
from arc_toolkit.placement.spot import CLOUDS, SpotCapacity, SpotPolicy

# What `--only` and `--skip` take beside the rules, and what findings about a setting carry as their rule.
SPOT, GRACE, RETRIES = "spot", "grace", "retries"
PLACE_SETTINGS = (SPOT, GRACE, RETRIES)
# Rules of `check`.
COORDINATOR, LONG_GRACE = "coordinator-on-spot", "grace-longer-than-notice"

_SCALARS = (
    "restartPolicy",
    "schedulerName",
    "priorityClassName",
    "serviceAccountName",
    "hostNetwork",
)
STYLE = YamlStyle(
    neighbours={
        "terminationGracePeriodSeconds": _SCALARS,
        "tolerations": ("terminationGracePeriodSeconds", *_SCALARS),
        "affinity": ("terminationGracePeriodSeconds", *_SCALARS),
    }
)


@dataclass(frozen=True, slots=True)
class PlaceSettings:
    """What was asked for on the command line."""

    spot: SpotPolicy | None = None
    capacity: SpotCapacity = CLOUDS["aks"]
    grace: int | None = None
    retries: int | None = None
    # The release of Kubeflow Trainer, for TrainJobs that do not show it.
    trainer: str | None = None
    # Only these; empty means all. Kinds and roles are compared without case.
    kinds: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()
    only: frozenset[str] = frozenset()
    skip: frozenset[str] = frozenset()

    def wants(self, rule: str) -> bool:
        return rule not in self.skip and (not self.only or rule in self.only)


@dataclass
class PlacePlan(ABC):
    """The operations on one file and what was found; `editor` collects the operations.

    Only the editor knows whether the objects are written in YAML or in Python.
    """

    path: str
    settings: PlaceSettings
    objects: tuple[Workload | UnknownObject, ...]
    ignores: Ignores
    findings: list[Finding] = field(default_factory=list)
    # What was asked for and could not be done.
    refusals: list[str] = field(default_factory=list)
    # What the file has, for options that name something which is not there.
    kinds: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    roles: set[str] = field(default_factory=set)
    # What the editor was asked for.
    done: RecordedOperations = field(default_factory=RecordedOperations)
    # Of the second run, after a proof that only what was asked for is new: no key can be there twice.
    is_proved: bool = False

    @property
    @abstractmethod
    def editor(self) -> SpecEditor: ...

    @abstractmethod
    def new_editor(self) -> SpecEditor:
        """An editor of the same file without any operation, to try some."""

    @abstractmethod
    def restart(self) -> None:
        """Go on with a new editor, because an operation was refused after others of its group."""

    @property
    def workloads(self) -> Iterator[Workload]:
        return (entry for entry in self.objects if isinstance(entry, Workload))

    def add(
        self,
        rule: str,
        severity: Severity,
        message: str,
        at: YamlNode,
        reason: str = "",
        *,
        applied: bool = False,
    ) -> None:
        """A finding, unless a comment ignores it there."""
        line, column = place(at)
        if not self.ignores.covers(rule, line):
            self.findings.append(
                Finding(
                    rule, severity, message, self.path, line, column, reason=reason, applied=applied
                )
            )

    def report(self, rule: Rule, message: str, at: YamlNode, reason: str = "") -> None:
        """What a rule found."""
        self.add(rule.id, rule.severity, message, at, reason)

    def refuse(self, rule: str, message: str, at: YamlNode, reason: str) -> None:
        """What was asked for and is not done."""
        if not self.ignores.covers(rule, place(at)[0]):
            self.refusals.append(reason)
            self.add(rule, "warning", message, at, reason)

    def attempt(
        self, rule: str, message: str, at: YamlNode, operation: Callable[[SpecEditor], None]
    ) -> bool:
        """Several operations, all or none; a refusal becomes a finding."""
        if self.ignores.lines and self.ignores.covers(rule, place(at)[0]):
            return False
        asked = RecordedOperations()
        try:
            operation(asked)
            asked.replay(self.editor)
        except Refused as refusal:
            if asked.calls:
                self.restart()
                self.done.replay(self.editor)
            self.refuse(rule, message, at, str(refusal))
            return False
        self.done.calls += asked.calls
        return True


class ManifestPlan(PlacePlan):
    """The plan of a file of manifests."""

    def __init__(
        self, path: str, source: YamlText, settings: PlaceSettings, is_proved: bool = False
    ) -> None:
        objects = tuple(read_objects(source))
        super().__init__(path, settings, objects, find_ignores(source.text), is_proved=is_proved)
        self.source = source
        self._editor = Editor(source, STYLE)

    @property
    def editor(self) -> Editor:
        return self._editor

    def new_editor(self) -> Editor:
        return self._editor.fresh()

    def restart(self) -> None:
        self._editor = self.new_editor()
