"""The plan of one Python file or notebook: the same decisions as for manifests, on code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from arc_toolkit.edit.code.code_text import CodeText
from arc_toolkit.edit.code.editor import Changes
from arc_toolkit.edit.code.imports import NeededImports
from arc_toolkit.edit.code.names import CodeScopes, ScopeReader
from arc_toolkit.edit.code.nodes import plain_data
from arc_toolkit.edit.code.source import Source
from arc_toolkit.edit.files.edits import Refused
from arc_toolkit.edit.files.ignores import Ignores, find_ignores
from arc_toolkit.edit.files.plan import FilePlan
from arc_toolkit.edit.yaml.nodes import YamlText
from arc_toolkit.placement.apply_decisions import is_chosen, place_objects, place_pipelines
from arc_toolkit.placement.code.code_editor import CodeEditor
from arc_toolkit.placement.code.code_objects import CodeObjects, find_objects, hidden_specs
from arc_toolkit.placement.code.code_tasks import CodeTask, find_pipelines
from arc_toolkit.placement.manifests import Workload, read_objects
from arc_toolkit.placement.pipelines import is_chosen_pipeline
from arc_toolkit.placement.place_plan import SPOT, PlacePlan, PlaceSettings

_MOST_LINES = 10_000_000


class CodePlan(PlacePlan):
    """The plan of the objects in some sources, which are one module."""

    def __init__(self, path: str, code: CodeScopes, settings: PlaceSettings) -> None:
        self.found: CodeObjects = find_objects(code)
        count = len(self.found.documents)
        self.pipelines = find_pipelines(code, self.found.reader, settings.roles, count)
        self.documents = [
            *self.found.documents,
            *(pipeline.document for pipeline in self.pipelines),
        ]
        self._tasks: dict[tuple[str | int, str | int], CodeTask] = {
            (number, role): task
            for number, pipeline in enumerate(self.pipelines, start=count)
            for role, task in pipeline.tasks.items()
        }
        entries = tuple(read_objects(YamlText("", False, tuple(self.found.documents))))
        super().__init__(path, settings, entries, _ignores(code.sources))
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
    place_pipelines(plan, [pipeline.compiled for pipeline in plan.pipelines])
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
        plan.refuse(SPOT, loose.message, loose.node, loose.reason)


def _report_tasks(plan: CodePlan) -> None:
    """Tasks of pipelines that are not plain."""
    roles = plan.settings.roles
    for pipeline in plan.pipelines:
        if not is_chosen_pipeline(pipeline.compiled, plan.settings):
            continue
        for task, node in pipeline.refused:
            plan.roles.add(task.role)
            if not roles or task.role in roles:
                message = f"pipeline {pipeline.compiled.name}, task {task.role} is not changed"
                plan.refuse(SPOT, message, node, task.reason)


def _has_specs(entry: object) -> bool:
    return isinstance(entry, Workload) and bool(entry.pod_specs)


def _ignores(sources: Sequence[Source]) -> Ignores:
    """The ignores of all sources, by the lines of the file."""
    lines: dict[int, frozenset[str]] = {}
    for source in sources:
        for line, rules in find_ignores(source.text).lines.items():
            place = source.file_line(line) if line else 0
            lines[place] = lines.get(place, frozenset()) | rules
    return Ignores(lines)


def read_code(sources: Sequence[Source]) -> CodeScopes:
    code = CodeScopes(sources)
    ScopeReader(code).finish()
    return code


def _with_own_lines(source: Source, number: int) -> Source:
    """A changed source with line numbers of its own: they are not those of the file any more."""
    first = (number + 1) * _MOST_LINES
    return replace(source, file_lines=tuple(range(first, first + len(source.starts))))
