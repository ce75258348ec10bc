"""AzureML files for `batch.run`, each to the task of its language; and the task of YAML files."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from arc_toolkit.azureml.apply_settings import apply_settings
from arc_toolkit.azureml.documents import SourceFile, of_nodes, parse
from arc_toolkit.azureml.expose import InnerParameters, YamlExposer
from arc_toolkit.azureml.kinds import Family, Role, Slot
from arc_toolkit.azureml.plan import Plan, YamlPlan
from arc_toolkit.azureml.references import ProjectFiles
from arc_toolkit.azureml.rules import run_rules
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.edit.files.discover import ENDINGS, Problem, Skipped, foreign_yaml
from arc_toolkit.edit.files.edits import SkipCause, Unreadable
from arc_toolkit.edit.files.engine import FileTask, process_file
from arc_toolkit.edit.files.plan import FailedGroups
from arc_toolkit.edit.yaml.nodes import YamlText
from arc_toolkit.file_io import read_raw
from arc_toolkit.findings import FileResult

if TYPE_CHECKING:
    from arc_toolkit.azureml.python.python_plan import MakePlan

# Standard input has no ending to go by: no YAML mapping has an import at the start of a line.
_PYTHON = re.compile(rb"^(?:from[ \t]+[\w.]+[ \t]+import|import[ \t]+[A-Za-z_])", re.MULTILINE)
# Sees the first plan of a file.
NotePlan = Callable[[Plan], None]


class Conversions(Protocol):
    """Older generations to v2, which `migrate` has and this package does not know."""

    def convert_spec(
        self, path: str, data: bytes, settings: Settings, project: ProjectFiles
    ) -> FileResult | None:
        """The result for a YAML file with something to convert."""

    def plan_code(self, settings: Settings) -> MakePlan | None:
        """The plan of the conversions in code, which comes before that of the settings."""


class AzureMLFiles:
    """Patches AzureML YAML, Python and notebooks in memory."""

    subject = "AzureML jobs, components or pipelines"
    endings = ENDINGS

    def __init__(
        self,
        settings: Settings,
        by_folder: Mapping[str, Settings] | None = None,
        conversions: Conversions | None = None,
    ) -> None:
        self._settings = settings
        self._conversions = conversions
        # The closest folder first: its settings hold for the files below it.
        self._by_folder = sorted(
            (by_folder or {}).items(), key=lambda item: len(item[0]), reverse=True
        )
        self._project = ProjectFiles(read_raw)
        # For options that name a step or a kind which no file has.
        self._steps: set[str] = set()
        self._families: set[str] = set()

    def prepare(self, path: str, data: bytes) -> None:
        self._project.note_uses(path, data)

    def _settings_for(self, path: str) -> Settings:
        if not self._by_folder:
            return self._settings
        place = os.path.abspath(path)
        return next(
            (
                settings
                for folder, settings in self._by_folder
                if place.startswith(os.path.join(folder, ""))
            ),
            self._settings,
        )

    def process(
        self, path: str, data: bytes, *, in_folder: bool, named: bool = False
    ) -> FileResult:
        settings = self._settings_for(path)
        ending = path.rpartition(".")[2].lower()
        is_source = ending == "py" or (path == "-" and _PYTHON.search(data))
        is_notebook = ending == "ipynb" or (
            path == "-" and data.lstrip()[:1] == b"{" and b'"cells"' in data
        )
        if not is_source and not is_notebook:
            result = patch_yaml(path, data, settings, self._project, in_folder, self._note)
            if self._conversions is not None and result.skipped is None:
                converted = self._conversions.convert_spec(path, data, settings, self._project)
                return converted or result
            if result.skipped is None or result.skipped.cause is not SkipCause.FOREIGN:
                return result
            return FileResult(
                path, data, skipped=foreign_yaml(path, data, result.skipped.reason, named=named)
            )
        from arc_toolkit.azureml.python.python_plan import patch_notebook, patch_source

        patch = patch_source if is_source else patch_notebook
        convert = self._conversions.plan_code(settings) if self._conversions is not None else None
        return patch(path, data, settings, self._project, convert, self._note)

    def _note(self, plan: Plan) -> None:
        if self._settings.steps or self._settings.kinds:
            self._steps.update(plan.step_names())
            self._families.update(plan.families())

    def finish(self) -> Iterator[Problem]:
        for option, names, available in (
            ("--step", self._settings.steps, self._steps),
            ("--kind", self._settings.kinds, self._families),
        ):
            for name in (name for name in names if name not in available):
                listed = ", ".join(sorted(available)) or "none"
                yield Problem("", f"{option} {name} matches nothing; there are: {listed}")


# --- YAML -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class YamlTask(FileTask[YamlText, YamlPlan]):
    """Settings and rules for one file."""

    _file: SourceFile
    _settings: Settings
    _project: ProjectFiles
    _in_folder: bool
    _inner_parameters: InnerParameters
    _note: NotePlan | None

    def read(self, path: str, data: bytes) -> YamlText:
        return self._file.yaml

    def plan(
        self, text: YamlText, before: YamlPlan | None, failed_groups: FailedGroups
    ) -> YamlPlan:
        file = self._file
        if before is not None:
            file = of_nodes(file.path, text.encode(), text, self._project)
        plan = YamlPlan(file, self._project, self._settings, self._in_folder, before, failed_groups)
        if self._note is not None and before is None:
            self._note(plan)
        apply_settings(plan, lambda: YamlExposer(plan, self._inner_parameters))
        run_rules(plan, text.text)
        return plan

    def why_unchanged(self, plan: YamlPlan) -> str:
        requested = [rule for rule in plan.settings.placed if plan.settings.wants(rule)]
        if not requested:
            return "nothing in it needs a fix"
        if plan.already_as_requested:
            return "already up to date"
        if not any(plan.wants(requested[0], target) for target in plan.known_targets()):
            return "nothing in it is selected (--step, --kind, or an inline ignore)"
        if requested == ["threads"]:
            return "no evidence of LightGBM or FAISS in what it runs"
        return "no job or step here supports these settings"


def patch_yaml(
    path: str,
    data: bytes,
    settings: Settings,
    project: ProjectFiles,
    in_folder: bool = True,
    note: NotePlan | None = None,
    inner: dict[str, dict[Slot, tuple[str, str]]] | None = None,
) -> FileResult:
    """What the settings and rules make of one file; `inner` has the parameters of pipeline files
    looked at before.
    """
    try:
        file = project.parse(path, data)
    except Unreadable as error:
        return FileResult(path, data, skipped=Skipped.of(path, error))
    inner = {} if inner is None else inner
    if settings.expose_parameters:
        _expose_inner(file, settings, project, in_folder, inner)
    return process_file(path, data, YamlTask(file, settings, project, in_folder, inner, note))


def _expose_inner(
    file: SourceFile,
    settings: Settings,
    project: ProjectFiles,
    in_folder: bool,
    inner: dict[str, dict[Slot, tuple[str, str]]],
) -> None:
    """The parameters of the pipeline files that a file names, as this run leaves them: a pipeline
    passes them on.

    This is decided before the file is planned, the innermost pipelines first.
    """
    for document in file.documents:
        for step in document.steps:
            path = step.reference
            if step.kind.family != Family.PIPELINE or path is None or path in inner:
                continue
            inner[path] = {}  # also for two pipelines that name each other
            if not project.is_given(path):
                continue  # its steps get nothing by this run, which is reported
            try:
                data = project.read(path)
                name = project.given_path(path)
                result = patch_yaml(name, data, settings, project, in_folder, inner=inner)
                after = parse(path, result.after or data, project)
            except (OSError, Unreadable):
                continue
            root = after.documents[0].root
            exposer = YamlExposer(YamlPlan(after, project, settings), inner)
            for slot in (Slot.INSTANCE_TYPE, Slot.INSTANCE_COUNT):
                parameter = exposer.parameter(root, slot)
                default = root.text("inputs", parameter, "default")
                if root.kind.role == Role.COMPONENT and default is not None:
                    inner[path][slot] = parameter, default
