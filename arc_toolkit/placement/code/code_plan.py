"""Python files and notebooks with workloads: the same decisions as for manifests, on code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from arc_toolkit.edit.code.code_text import CodeText, read_notebook, read_source
from arc_toolkit.edit.code.editor import Changes
from arc_toolkit.edit.code.imports import NeededImports
from arc_toolkit.edit.code.names import CodeScopes, ScopeReader
from arc_toolkit.edit.code.nodes import plain_data
from arc_toolkit.edit.code.source import Source, quiet
from arc_toolkit.edit.files.edits import Refused, SkipCause, Unreadable
from arc_toolkit.edit.files.engine import FileTask, process_file
from arc_toolkit.edit.files.plan import FailedGroups, FilePlan, Ignores, find_ignores
from arc_toolkit.edit.yaml.nodes import YamlText
from arc_toolkit.findings import FileResult, Finding
from arc_toolkit.placement.code.code_editor import CodeEditor
from arc_toolkit.placement.code.code_objects import CodeObjects, find_objects, hidden_specs
from arc_toolkit.placement.code.code_tasks import CodeTask, find_pipelines
from arc_toolkit.placement.code.sdk_models import FRAMEWORK_WORDS
from arc_toolkit.placement.decisions import is_chosen, place_objects
from arc_toolkit.placement.intents import with_intents
from arc_toolkit.placement.manifests import Workload, read_objects
from arc_toolkit.placement.place_plan import SPOT, PlacePlan, PlaceSettings

# One of these is in all code that makes pods in a way that is known here.
_WORDS = (b"apiVersion", b"kfp", b"kubernetes", b"kubeflow", *FRAMEWORK_WORDS)
_MAX_LINES = 10_000_000


class CodePlan(PlacePlan):
    """The plan of the objects in some sources, which are one module."""

    def __init__(self, path: str, code: CodeScopes, settings: PlaceSettings) -> None:
        self.found: CodeObjects = find_objects(code)
        count = len(self.found.documents)
        self.pipelines = find_pipelines(code, self.found.reader, settings.roles, count)
        workloads = [pipeline.workload for pipeline in self.pipelines]
        self.documents = [*self.found.documents, *(workload.node for workload in workloads)]
        self._tasks: dict[tuple[str | int, str | int], CodeTask] = {
            (number, role): task
            for number, pipeline in enumerate(self.pipelines, start=count)
            for role, task in pipeline.tasks.items()
        }
        objects = read_objects(YamlText("", False, tuple(self.found.documents)))
        super().__init__(path, settings, (*objects, *workloads), _ignores(code.sources))
        self.code = code

    def new_editor(self) -> CodeEditor:
        return CodeEditor(self.found.reader, self.documents, self._tasks)

    def prove(self, text: CodeText) -> CodeText:
        changes = Changes()
        self._expected = self.editor.expected()
        self.editor.write(changes, NeededImports(changes, self.code.top))
        after = text.changed(changes)
        sources = [_with_own_lines(source, number) for number, source in enumerate(after.sources)]
        return replace(after, sources=sources)

    def compare(self, second: FilePlan[Any]) -> None:
        assert isinstance(second, CodePlan)
        if [plain_data(document) for document in second.documents] != self._expected:
            raise Refused(
                "the edit would change something that was not asked for, "
                "probably because a name is shared"
            )
        super().compare(second)

    def close(self) -> None:
        self.code.close()

    @property
    def is_foreign(self) -> bool:
        return not (self.documents or self.found.loose)


def make_code_plan(path: str, code: CodeScopes, settings: PlaceSettings) -> CodePlan:
    """All settings, for every workload of a file; hidden workloads are reported."""
    plan = CodePlan(path, code, settings)
    if settings.spot is not None and settings.wants(SPOT):
        _report_hidden(plan)
        _report_tasks(plan)
    place_objects(plan)
    return plan


def _report_hidden(plan: CodePlan) -> None:
    """Pods that the code makes in a way that is not plain."""
    settings, hidden = plan.settings, set()
    for entry in plan.objects:
        if not isinstance(entry, Workload) or not is_chosen(entry, settings):
            continue
        for part in hidden_specs(entry.kind, entry.node):
            plan.refuse(SPOT, f"{entry.shown} is not changed", part, f"a part of it {part.reason}")
            hidden.add(id(entry))
    plan.objects = tuple(
        entry for entry in plan.objects if id(entry) not in hidden or _has_specs(entry)
    )
    for loose in plan.found.loose if not settings.kinds and not settings.names else ():
        if loose.is_certain:
            plan.refuse(SPOT, loose.message, loose.node, loose.reason)
        else:
            plan.add_finding(SPOT, "note", loose.message, loose.node, loose.reason)


def _report_tasks(plan: CodePlan) -> None:
    """Tasks of pipelines that are not plain."""
    roles = plan.settings.roles
    for pipeline in plan.pipelines:
        if not is_chosen(pipeline.workload, plan.settings):
            continue
        for task, node in pipeline.refused:
            plan.roles.add(task.role)
            if not roles or task.role in roles:
                message = f"{pipeline.workload.shown}, task {task.role} is not changed"
                plan.refuse(SPOT, message, node, task.reason)


def _has_specs(entry: object) -> bool:
    return isinstance(entry, Workload) and bool(entry.pod_specs)


def _ignores(sources: Sequence[Source]) -> Ignores:
    """The ignores of all sources, by the lines of the file."""
    lines: dict[int, frozenset[str]] = {}
    for source in sources:
        ignores = with_intents(find_ignores(source.text), source.text)
        for line, rules in ignores.lines.items():
            place = source.file_line(line) if line else 0
            lines[place] = lines.get(place, frozenset()) | rules
    return Ignores(lines)


def read_code(sources: Sequence[Source]) -> CodeScopes:
    code = CodeScopes(sources)
    ScopeReader(code).finish()
    return code


def _with_own_lines(source: Source, number: int) -> Source:
    """A changed source with line numbers of its own: they are not those of the file any more."""
    first = (number + 1) * _MAX_LINES
    return replace(source, file_lines=tuple(range(first, first + len(source.starts))))


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

    def why_unchanged(self, plan: CodePlan) -> str:
        return plan.why_unchanged


def _foreign() -> Unreadable:
    return Unreadable("no Kubernetes workloads", cause=SkipCause.FOREIGN)
