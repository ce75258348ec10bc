"""What a plan asks of an editor: the same operations for manifests in YAML and in Python code."""

from __future__ import annotations

from typing import Protocol

from arc_toolkit.edit.yaml.nodes import KeyPath
from arc_toolkit.edit.yaml.proof import Value


class SpecEditor(Protocol):
    """Collects operations on the objects of one file; what cannot be done safely raises `Refused`."""

    @property
    def empty(self) -> bool: ...

    def set(self, path: KeyPath, value: Value) -> None:
        """Put a value at a path; missing mappings are made."""

    def append(self, path: KeyPath, item: Value) -> None:
        """Put an item at the end of a list, unless it has that item; a missing list is made."""


class RecordedOperations:
    """What a decision asks for, to be done later: deciding costs more than doing it."""

    def __init__(self) -> None:
        self.calls: list[tuple[bool, KeyPath, Value]] = []

    @property
    def empty(self) -> bool:
        return not self.calls

    def set(self, path: KeyPath, value: Value) -> None:
        self.calls.append((False, path, value))

    def append(self, path: KeyPath, item: Value) -> None:
        self.calls.append((True, path, item))

    def replay(self, editor: SpecEditor) -> None:
        for appends, path, value in self.calls:
            (editor.append if appends else editor.set)(path, value)
