"""AzureML YAML files for the engine: settings and rules on the documents of a file."""

from __future__ import annotations

from arc_toolkit.azureml.documents import SourceFile, of_nodes
from arc_toolkit.azureml.kinds import Family
from arc_toolkit.azureml.library import Library
from arc_toolkit.azureml.place import place_settings
from arc_toolkit.azureml.rules import run_rules
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.azureml.yaml_plan import YamlPlan
from arc_toolkit.edit.files.discover import Skipped
from arc_toolkit.edit.files.edits import Unreadable
from arc_toolkit.edit.files.engine import FileTask, process_file
from arc_toolkit.edit.files.plan import FailedGroups
from arc_toolkit.edit.yaml.nodes import YamlText
from arc_toolkit.findings import FileResult


class YamlTask(FileTask[YamlText, YamlPlan]):
    """Settings and rules for one file."""

    def __init__(self, file: SourceFile, settings: Settings, library: Library, in_folder: bool):
        self._file = file
        self._settings = settings
        self._library = library
        self._in_folder = in_folder

    def read(self, path: str, data: bytes) -> YamlText:
        return self._file.yaml

    def plan(
        self, text: YamlText, before: YamlPlan | None, failed_groups: FailedGroups
    ) -> YamlPlan:
        file = self._file
        if before is not None:
            file = of_nodes(file.path, text.encode(), text, self._library)
        return make_plan(
            file, self._library, self._settings, self._in_folder, before, failed_groups
        )

    def why_unchanged(self, plan: YamlPlan) -> str:
        asked = [rule for rule in plan.settings.placed if plan.settings.wants(rule)]
        if not asked:
            return "nothing in it needs a fix"
        if plan.has_asked:
            return "it has all that was asked for"
        if not any(plan.wants(asked[0], target) for target in plan.known_targets()):
            return "nothing in it is selected (--step, --kind, or an inline ignore)"
        if asked == ["threads"]:
            return "no evidence of LightGBM or FAISS in what it runs"
        return "nothing in it takes what was asked for"


def patch_yaml(
    path: str, data: bytes, settings: Settings, library: Library, in_folder: bool = True
) -> FileResult:
    """What the settings and rules make of one file. Nothing is written."""
    result, used = library.patched.pop(path, (None, None))
    if result is not None and used is settings and result.before == data:
        return result
    try:
        file = library.parse(path, data)
    except Unreadable as error:
        return FileResult(path, data, skipped=Skipped.of(path, error))
    if settings.steps or settings.kinds:
        for document in file.documents:
            library.steps |= {step.name for step in document.steps}
            library.families |= {target.kind.family for target in document.targets}
        if Family.DISTRIBUTED in settings.kinds:
            plan = YamlPlan(file, library, settings)
            library.families |= {
                Family.DISTRIBUTED for target in plan.known_targets() if plan.is_distributed(target)
            }
    return process_file(path, data, YamlTask(file, settings, library, in_folder))


def make_plan(
    file: SourceFile,
    library: Library,
    settings: Settings,
    in_folder: bool,
    before: YamlPlan | None = None,
    failed_groups: FailedGroups | None = None,
) -> YamlPlan:
    """All edits and findings for a file; with `before`, its second run, only the edits."""
    plan = YamlPlan(file, library, settings, in_folder, before, failed_groups)
    place_settings(plan)
    run_rules(plan, file.yaml.text)
    return plan
