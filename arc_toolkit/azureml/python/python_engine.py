"""Python files and notebooks for the engine: settings and rules on the targets in their code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from arc_toolkit.azureml.python import sdk_objects as sdk
from arc_toolkit.azureml.python.module import Module, read_module
from arc_toolkit.azureml.python.python_plan import PythonPlan, make_plan
from arc_toolkit.azureml.references import ProjectFiles
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.edit.code.code_text import CodeText, read_notebook, read_source
from arc_toolkit.edit.code.source import Source, decode, parse, quiet
from arc_toolkit.edit.files.diff import LineMap
from arc_toolkit.edit.files.edits import SkipCause, Unreadable
from arc_toolkit.edit.files.engine import FileTask, process_file
from arc_toolkit.edit.files.plan import FailedGroups
from arc_toolkit.file_io import read_raw
from arc_toolkit.findings import FileResult, Finding

_ACTIONS = tuple(word.decode() for word in sdk.ACTIONS)
# Module, project, settings, path and the plan of the run before -> plan.
MakePlan = Callable[[Module, ProjectFiles, Settings, str, PythonPlan | None], PythonPlan]


def patch_source(
    path: str,
    data: bytes,
    settings: Settings,
    project: ProjectFiles | None = None,
    convert: MakePlan | None = None,
    note: Callable[[PythonPlan], None] | None = None,
) -> FileResult:
    """What the settings and rules make of one Python file; `project` has the files around it.

    `convert` plans the conversions that come before the settings.
    """
    return _patch(path, data, settings, project, convert, note, _read_source)


def patch_notebook(
    path: str,
    data: bytes,
    settings: Settings,
    project: ProjectFiles | None = None,
    convert: MakePlan | None = None,
    note: Callable[[PythonPlan], None] | None = None,
) -> FileResult:
    """What the settings and rules make of the code cells of one notebook, as one module."""
    return _patch(path, data, settings, project, convert, note, _read_notebook)


def _patch(
    path: str,
    data: bytes,
    settings: Settings,
    project: ProjectFiles | None,
    convert: MakePlan | None,
    note: Callable[[PythonPlan], None] | None,
    read: Callable[[bytes], CodeText],
) -> FileResult:
    project = project or ProjectFiles(read_raw)
    makes = (make_plan,) if convert is None else (convert, make_plan)
    with quiet():
        tasks = [PythonTask(path, settings, project, read, make, note) for make in makes]
        return process_file(path, data, *tasks)


class PythonTask(FileTask[CodeText, PythonPlan]):
    """Settings and rules, or conversions, for one file."""

    def __init__(
        self,
        path: str,
        settings: Settings,
        project: ProjectFiles,
        read: Callable[[bytes], CodeText],
        make: MakePlan,
        note: Callable[[PythonPlan], None] | None,
    ) -> None:
        self._path = path
        self._settings = settings
        self._project = project
        self._read = read
        self._make = make
        self._note = note

    def read(self, path: str, data: bytes) -> CodeText:
        return self._read(data)

    def take_over(self, text: CodeText) -> CodeText:
        """Lines are reported as those of the file."""
        rows = zip(text.originals, text.sources, strict=True)
        return replace(text, sources=[_with_lines_of(*row) for row in rows])

    def plan(
        self, text: CodeText, before: PythonPlan | None, failed_groups: FailedGroups
    ) -> PythonPlan | None:
        if not text.cells and not _may_have_targets(text.data):
            return None
        module = read_module(text.sources)
        plan = self._make(module, self._project, self._settings, self._path, before)
        if before is None:
            if self._note is not None:
                self._note(plan)
            findings = plan.findings
            if text.broken and self._settings.placed:
                findings = [*self._broken_cells(text), *findings]
            plan.findings = sorted(
                dict.fromkeys(findings), key=lambda finding: (finding.line, finding.column)
            )
        return plan

    def _broken_cells(self, text: CodeText) -> list[Finding]:
        """A warning for each cell that something may have been asked for in vain."""
        return [
            Finding(
                "instance-type",
                "warning",
                f"{cell.where}: left as it is",
                self._path,
                cell.file_line,
                1,
                reason=cell.reason,
            )
            for cell in text.broken
            if any(word in cell.text for word in _ACTIONS)
        ]


def _read_source(data: bytes) -> CodeText:
    if _is_candidate(data):
        return read_source(data)
    # What is wrong with a file that imports an SDK comes first.
    if b"import" in data and sdk.IMPORT.search(data) is not None:
        parse(decode(data)[0])
    raise Unreadable("no AzureML code", cause=SkipCause.FOREIGN)


def _read_notebook(data: bytes) -> CodeText:
    text = read_notebook(data)
    if not _is_candidate(data):
        raise Unreadable("no AzureML code", cause=SkipCause.FOREIGN)
    return text


def _is_candidate(data: bytes) -> bool:
    """Whether a file has to be parsed: the key words of the SDKs, or the misspelt variable."""
    if sdk.MISSPELT in data:
        return True
    if b"azure" not in data and b"mldesigner" not in data:
        return False
    return any(word in data for word in sdk.KEY_WORDS) and any(word in data for word in sdk.ACTIONS)


def _may_have_targets(data: bytes) -> bool:
    """Whether a file that is parsed can have a target or break a rule: most files that only name an
    SDK cannot.
    """
    words = (sdk.MISSPELT, b"arc-toolkit:")
    return any(word in data for word in words) or sdk.TARGET_WORDS.search(data) is not None


def _with_lines_of(old: Source, new: Source) -> Source:
    places = LineMap(new.text, old.text)
    lines = (places.position(line, 1)[0] for line in range(1, len(new.starts) + 1))
    return replace(new, file_lines=tuple(map(old.file_line, lines)))
