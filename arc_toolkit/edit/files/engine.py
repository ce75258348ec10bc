"""The one loop over a file, whatever its language: read, plan, prove, plan again.

    bytes -> read -> text -> plan -> operations on an editor -> prove -> new text -> plan again
    -> nothing left to do -> bytes

A `FileTask` reads and plans; its plan (`plan.py`) has the editor and the proof of the language.
Nothing is written here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

from arc_toolkit.edit.files.discover import Skipped
from arc_toolkit.edit.files.edits import Refused, Unreadable
from arc_toolkit.edit.files.plan import FailedGroups, FilePlan
from arc_toolkit.findings import FileResult, Finding, without_changes


class FileText(Protocol):
    """A file that was read, in the form that its language is planned and edited in."""

    @property
    def encoding(self) -> str: ...

    @property
    def size(self) -> int:
        """In characters."""

    def encode(self) -> bytes:
        """The bytes of the file; `Refused` if they cannot be proved."""


T = TypeVar("T", bound=FileText)
P = TypeVar("P", bound=FilePlan[Any])


class FileTask(ABC, Generic[T, P]):
    """What a command does with the files of one language."""

    @abstractmethod
    def read(self, path: str, data: bytes) -> T:
        """The text of a file; `Unreadable` if it is damaged, or not for this command."""

    @abstractmethod
    def plan(self, text: T, before: P | None, failed_groups: FailedGroups) -> P | None:
        """Everything that is asked for, as a plan; None if the text cannot have anything of
        interest.

        `before` is the plan whose result is planned once more: only operations count then, not
        findings.
        """

    def take_over(self, text: T) -> T:
        """The text after the changes of another task, as this one plans it."""
        return text

    def why_unchanged(self, plan: P) -> str:
        """Why there is nothing to change, if no finding says so."""
        return ""


@dataclass(frozen=True, slots=True)
class ProvenChanges(Generic[T, P]):
    """A plan, and the text after its operations: the same text if nothing changes."""

    plan: P
    text: T
    # Why nothing changes although something was asked for.
    refused: str | None = None


def process_file(path: str, data: bytes, *tasks: FileTask[T, P]) -> FileResult:
    """The result of tasks on one file, each on the text after the one before it."""
    findings: list[Finding] = []
    new_files: list[tuple[str, bytes]] = []
    unchanged = ""
    try:
        first = text = tasks[0].read(path, data)
        for task in tasks:
            text = task.take_over(text) if text is not first else text
            changes = prove_changes(task, text)
            if changes is None:
                continue
            plan = changes.plan
            for finding in plan.findings:  # fixes count in the text of the file
                findings.append(finding if text is first else replace(finding, fix=None))
            new_files += plan.new_files
            text = changes.text
            if changes.refused is not None:
                return _refuse(path, data, findings, changes.refused, text)
            if text is first:
                unchanged = task.why_unchanged(plan)
        after = text.encode() if text is not first else None
    except Unreadable as error:
        return FileResult(path, data, skipped=Skipped.of(path, error))
    except UnicodeEncodeError as error:
        missing = error.object[error.start : error.end]
        reason = f"its encoding, {text.encoding}, has no {missing!r}"
        return _refuse(path, data, findings, reason, text)
    except Refused as refusal:
        return _refuse(path, data, findings, refusal.reason, text)
    return FileResult(
        path,
        data,
        after,
        tuple(findings),
        unchanged=unchanged if after is None else "",
        new_files=tuple(new_files),
        encoding=text.encoding,
    )


def _refuse(
    path: str, data: bytes, findings: list[Finding], reason: str, text: FileText
) -> FileResult:
    return FileResult(path, data, None, without_changes(findings), reason, encoding=text.encoding)


def prove_changes(task: FileTask[T, P], text: T) -> ProvenChanges[T, P] | None:
    """The plan of a text, carried out and proved.

    A group of operations that cannot be proved does not take the others with it: the text is
    planned again without it.
    """
    failed_groups: FailedGroups = {}
    refused = None
    for _ in range(2):
        plan = task.plan(text, None, failed_groups)
        if plan is None:
            break
        try:
            return _prove(task, plan, text)
        except Refused as refusal:
            refused = refused or ProvenChanges(plan, text, refusal.reason)
            failed_groups = plan.find_failing(text.size) if not failed_groups else {}
        finally:
            plan.close()
        if not failed_groups:
            break
    return refused


def _prove(task: FileTask[T, P], plan: P, text: T) -> ProvenChanges[T, P]:
    if plan.is_empty:
        return ProvenChanges(plan, text, next(iter(plan.refusals), None))
    after: T = plan.prove(text)
    second = task.plan(after, plan, plan.failed_groups)
    if second is not None:
        try:
            plan.compare(second)
        finally:
            second.close()
    return ProvenChanges(plan, after)
