"""What `place` would do, as data: `place` applies decisions, the rules of `check` read them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol

from arc_toolkit.edit.files.edits import Refused
from arc_toolkit.edit.yaml.nodes import KeyPath, YamlNode, items_of
from arc_toolkit.edit.yaml.proof import Value, has_value
from arc_toolkit.findings import Severity
from arc_toolkit.placement.manifests import PodSpec, Workload
from arc_toolkit.placement.spot import SpotPolicy


class SpecEditor(Protocol):
    """Changes the objects of a file, in YAML or code; `Refused` where that is not safe."""

    def set(self, path: KeyPath, value: Value) -> None:
        """Put a value at a path; missing mappings are made."""

    def append(self, path: KeyPath, item: Value) -> None:
        """Put an item at the end of a list, unless it has that item; a missing list is made."""


class Obstacle(Enum):
    """Why `place` refuses something."""

    NOT_FOR_SPOT = "it must not run on spot capacity"
    CONTRADICTION = "the object itself says otherwise"
    NO_FIELD = "the kind has no field for it"
    ELSEWHERE = "another object has the field"
    MISSING_OPTION = "an option must say which"
    NOT_PLAIN = "the object cannot be changed as it is written"


class PlacementRefused(Refused):
    """A refusal with its obstacle, for code that decides by it; the reason is for people."""

    def __init__(self, obstacle: Obstacle, reason: str) -> None:
        super().__init__(reason)
        self.obstacle = obstacle


class FieldChange(NamedTuple):
    """A value to put at a path, or an item to put at the end of the list there."""

    path: KeyPath
    value: Value
    is_item: bool = False


class FieldChanges:
    """Collects changes of a workload; a value that it already has is not one."""

    def __init__(self, workload: Workload | None) -> None:
        self._workload = workload
        self.changes: list[FieldChange] = []

    def set(self, path: KeyPath, value: Value) -> None:
        if not has_value(self._node(path), value):
            self.changes.append(FieldChange(path, value))

    def append(self, path: KeyPath, item: Value) -> None:
        if not any(has_value(child, item) for child in items_of(self._node(path))):
            self.changes.append(FieldChange(path, item, is_item=True))

    def _node(self, path: KeyPath) -> YamlNode | None:
        workload = self._workload
        return workload.get(*path[len(workload.path) :]) if workload is not None else None


@dataclass(frozen=True, slots=True)
class Note:
    """A finding beside a decision: what a user should know about it."""

    rule: str
    severity: Severity
    message: str
    reason: str


@dataclass(frozen=True, slots=True)
class PlacementDecision:
    """What `place` would do about one setting, of a pod spec or of a whole workload.

    There are changes, or none because all is as it should be, or a refusal.
    """

    setting: str
    # The message of a finding if it is refused.
    message: str
    node: YamlNode
    changes: tuple[FieldChange, ...] = ()
    refusal: PlacementRefused | None = None
    notes: tuple[Note, ...] = ()
    spec: PodSpec | None = None
    # Where the pods of the spec are to run; AVOID for a coordinator that stays off spot nodes.
    policy: SpotPolicy | None = None

    def apply(self, editor: SpecEditor) -> None:
        if self.refusal is not None:
            raise self.refusal
        for path, value, is_item in self.changes:
            (editor.append if is_item else editor.set)(path, value)


def decide(
    workload: Workload | None,
    setting: str,
    message: str,
    node: YamlNode,
    operation: Callable[[SpecEditor], None],
    *,
    spec: PodSpec | None = None,
    policy: SpotPolicy | None = None,
    notes: tuple[Note, ...] = (),
) -> PlacementDecision:
    """The decision that `operation` makes: by its changes, or by the refusal that it raises."""
    collected = FieldChanges(workload)
    try:
        operation(collected)
    except PlacementRefused as refusal:
        return PlacementDecision(setting, message, node, (), refusal, notes, spec, policy)
    changes = tuple(collected.changes)
    return PlacementDecision(setting, message, node, changes, None, notes, spec, policy)
