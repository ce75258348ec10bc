"""The settings of `place`, its decisions as data, and the plan of one file.

`place` carries decisions out; the rules of `check` read them, and so neither can recommend what the
other refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from arc_toolkit.edit.files.edits import Refused
from arc_toolkit.edit.files.plan import FailedGroups, FilePlan, Ignores
from arc_toolkit.edit.yaml.nodes import KeyPath, YamlNode, items_of
from arc_toolkit.edit.yaml.proof import Value, has_value
from arc_toolkit.edit.yaml.writer import YamlStyle
from arc_toolkit.findings import Rule, Severity
from arc_toolkit.placement.always_on import RunEvidence
from arc_toolkit.placement.manifests import PodSpec, UnknownObject, Workload, expand
from arc_toolkit.placement.spot import CLOUDS, SpotCapacity, SpotPolicy

# What `--only` and `--skip` take beside the rules, and what findings about a setting carry as their
# rule.
SPOT, GRACE, RETRIES = "spot", "grace", "retries"
PLACE_SETTINGS = (SPOT, GRACE, RETRIES)
# Rules of `check`.
COORDINATOR, LONG_GRACE = "coordinator-on-spot", "grace-longer-than-notice"
SERVING = "serving-on-spot"

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
    """The options of `place`, and the evidence in the files of the run."""

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
    evidence: RunEvidence | None = None

    def wants(self, rule: str) -> bool:
        return rule not in self.skip and (not self.only or rule in self.only)


class SetElsewhere(Refused):
    """A refusal because another object has the field."""


class FieldChange(NamedTuple):
    """A value to put at a path, or an item to put at the end of the list there."""

    path: KeyPath
    value: Value
    is_item: bool = False


class Note(NamedTuple):
    """A finding beside a decision: what a user should know about it."""

    rule: str
    severity: Severity
    message: str
    reason: str


@dataclass(eq=False)
class PlacementDecision:
    """What `place` would do about one setting, of a pod spec or of a whole workload.

    There are changes, or none because all is as it should be, or a refusal.
    """

    workload: Workload
    setting: str
    # The message of a finding if it is refused.
    message: str
    spec: PodSpec | None = None
    # Where the pods of the spec are to run; AVOID for a coordinator that stays off spot nodes.
    policy: SpotPolicy | None = None
    refusal: Refused | None = None
    changes: list[FieldChange] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    @property
    def node(self) -> YamlNode:
        """Where a finding about it is."""
        return self.spec.node if self.spec is not None else self.workload.node

    def by(self, operation: Callable[[PlacementDecision], None]) -> PlacementDecision:
        """The changes and notes that `operation` makes, or the refusal that it raises."""
        try:
            operation(self)
        except Refused as refusal:
            self.refusal = refusal
        return self

    def set(self, path: KeyPath, value: Value) -> None:
        """Put a value at a path; a value that the workload already has is not a change."""
        if not has_value(self._at(path), value):
            self.changes.append(FieldChange(path, value))

    def append(self, path: KeyPath, item: Value) -> None:
        """Put an item at the end of a list, unless it has that item."""
        if not any(has_value(child, item) for child in items_of(self._at(path))):
            self.changes.append(FieldChange(path, item, is_item=True))

    def note(self, rule: str, severity: Severity, message: str, reason: str) -> None:
        self.notes.append(Note(rule, severity, f"{self.workload.shown}{message}", reason))

    def _at(self, path: KeyPath) -> YamlNode | None:
        depth = len(self.workload.path)
        # The settings of the platform of a kfp pipeline are outside of its node.
        return self.workload.get(*path[depth:]) if path[:depth] == self.workload.path else None

    def apply(self, editor: Any) -> None:
        """Make the changes with the editor of the file, in YAML or code."""
        if self.refusal is not None:
            raise self.refusal
        for path, value, is_item in self.changes:
            (editor.append if is_item else editor.set)(path, value)


class PlacePlan(FilePlan[Any]):
    """The operations on the workloads of one file, and what was found.

    Only the editor knows whether the objects are written in YAML or in Python.
    """

    def __init__(
        self,
        path: str,
        settings: PlaceSettings,
        objects: tuple[Workload | UnknownObject, ...],
        ignored_lines: Ignores,
        failed_groups: FailedGroups | None = None,
    ) -> None:
        super().__init__(path, ignored_lines, failed_groups)
        self.settings = settings
        self.objects = objects
        # What the file has, for options that name something which is not there.
        self.kinds: set[str] = set()
        self.names: set[str] = set()
        self.roles: set[str] = set()
        # The kinds of workloads that are not placed, with the reason.
        self.left_alone: list[tuple[str, str]] = []
        # The numbers of the documents that change.
        self.changed_documents: set[str | int] = set()

    @property
    def is_empty(self) -> bool:
        return bool(self.editor.empty)

    def leave(self, workload: Workload, reason: str) -> None:
        """A workload that is not for spot nodes, and that nobody asked for."""
        self.left_alone.append((workload.kind.kind, reason))
        message = f"{workload.shown} is not placed"
        self.add_finding(SERVING, "note", message, workload.node, reason)

    @property
    def why_unchanged(self) -> str:
        return next((f"{kind}: {reason}" for kind, reason in self.left_alone), "")

    def place_texts(self, workload: Workload) -> None:
        """Place the manifests that are texts in a workload."""
        for path in workload.kind.texts:
            for _, node, _ in expand(workload.node, path):
                reason = "it is text inside of code: place it by hand"
                self.refuse(
                    SPOT, f"{workload.shown}: a manifest in it is not changed", node, reason
                )

    @property
    def workloads(self) -> Iterator[Workload]:
        return (entry for entry in self.objects if isinstance(entry, Workload))

    def report(self, rule: Rule, message: str, at: YamlNode, reason: str = "") -> None:
        """What a rule found."""
        self.add_finding(rule.id, rule.severity, message, at, reason)
