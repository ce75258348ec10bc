"""Python files and notebooks with workloads, for the engine."""

from __future__ import annotations

from collections.abc import Callable

from arc_toolkit.edit.code.code_text import CodeText, read_notebook, read_source
from arc_toolkit.edit.code.source import quiet
from arc_toolkit.edit.files.edits import SkipCause, Unreadable
from arc_toolkit.edit.files.engine import FileTask, process_file
from arc_toolkit.edit.files.plan import FailedGroups
from arc_toolkit.findings import FileResult, Finding
from arc_toolkit.placement.code.code_plan import CodePlan, make_code_plan, read_code
from arc_toolkit.placement.place_plan import SPOT, PlaceSettings

# One of these is in all code that makes pods in a way that is known here.
_WORDS = (b"apiVersion", b"kfp", b"kubernetes", b"kubeflow")


def place_code(
    path: str, data: bytes, settings: PlaceSettings, note: Callable[[CodePlan], None]
) -> FileResult:
    """What the settings make of one file; `note` sees its plan."""
    with quiet():
        return process_file(path, data, WorkloadCodeTask(path, settings, note))


class WorkloadCodeTask(FileTask[CodeText, CodePlan]):
    """Settings for the workloads and pipelines in one file."""

    def __init__(
        self, path: str, settings: PlaceSettings, note: Callable[[CodePlan], None]
    ) -> None:
        self._path = path
        self._settings = settings
        self._note = note

    def read(self, path: str, data: bytes) -> CodeText:
        if not any(word in data for word in _WORDS):
            raise _foreign()
        return read_notebook(data) if path.lower().endswith(".ipynb") else read_source(data)

    def plan(
        self, text: CodeText, before: CodePlan | None, failed_groups: FailedGroups
    ) -> CodePlan:
        plan = make_code_plan(self._path, read_code(text.sources), self._settings)
        if before is None:
            if plan.is_foreign:
                raise _foreign()
            self._note(plan)
            plan.findings[:0] = [
                Finding(
                    SPOT,
                    "warning",
                    f"{cell.where}: left as it is",
                    self._path,
                    cell.file_line,
                    1,
                    reason=cell.reason,
                )
                for cell in text.broken
            ]
        return plan


def _foreign() -> Unreadable:
    return Unreadable("no Kubernetes workloads", cause=SkipCause.FOREIGN)
