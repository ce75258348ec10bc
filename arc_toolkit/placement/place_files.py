"""Kubernetes manifests and code for `batch.run`: settings of `place`, rules of `check`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from arc_toolkit.edit.files.discover import CODE_ENDINGS, ENDINGS, Problem, foreign_yaml
from arc_toolkit.edit.files.edits import SkipCause, Unreadable
from arc_toolkit.edit.files.engine import FileTask, process_file
from arc_toolkit.edit.files.plan import FailedGroups, find_ignores
from arc_toolkit.edit.yaml.editor import YamlEditor
from arc_toolkit.edit.yaml.nodes import YamlText, read
from arc_toolkit.findings import FileResult, Finding
from arc_toolkit.ignore_rules import IGNORE_RULES, ignore_problems
from arc_toolkit.placement.decisions import place_objects
from arc_toolkit.placement.manifests import UnknownObject, Workload, is_manifest, read_objects
from arc_toolkit.placement.pipelines import read_pipelines, with_platform
from arc_toolkit.placement.place_plan import PLACE_SETTINGS, STYLE, PlacePlan, PlaceSettings

# JSON is YAML: what `kubectl get -o json` writes.
PLACE_ENDINGS = (*ENDINGS, ".json")


class ManifestPlan(PlacePlan):
    """The plan of a file of manifests."""

    proves_groups = True

    def __init__(
        self,
        path: str,
        source: YamlText,
        settings: PlaceSettings,
        objects: tuple[Workload | UnknownObject, ...],
        failed_groups: FailedGroups | None = None,
    ) -> None:
        super().__init__(path, settings, objects, find_ignores(source.text), failed_groups)
        self.source = source

    def new_editor(self) -> YamlEditor:
        return YamlEditor(self.source, STYLE)

    def prove(self, text: YamlText) -> YamlText:
        after, documents = self.editor.finish()
        return YamlText(after, text.bom, documents)


class ManifestTask(FileTask[YamlText, ManifestPlan]):
    """Settings for the workloads and compiled pipelines of one file; `note` sees its plan."""

    def __init__(
        self, path: str, settings: PlaceSettings, note: Callable[[PlacePlan], None]
    ) -> None:
        self._path = path
        self._settings = settings
        self._note = note

    def read(self, path: str, data: bytes) -> YamlText:
        return _manifests(data, b"apiVersion", b"deploymentSpec")

    def plan(
        self, text: YamlText, before: ManifestPlan | None, failed_groups: FailedGroups
    ) -> ManifestPlan:
        platform = with_platform(text)
        objects = (*read_objects(platform), *read_pipelines(platform))
        sources = (text,) if platform is text else (platform, text)
        for source in sources:
            plan = ManifestPlan(self._path, source, self._settings, objects, failed_groups)
            place_objects(plan, check_keys=before is None)
            if 1 in plan.changed_documents:
                break  # the second document is needed
        if before is None:
            self._note(plan)
        return plan


class RulesTask(FileTask[YamlText, ManifestPlan]):
    """The rules of `check` for one file; no rule has a fix."""

    def __init__(self, path: str, settings: PlaceSettings) -> None:
        self._path = path
        self._settings = settings

    def read(self, path: str, data: bytes) -> YamlText:
        return _manifests(data, b"apiVersion")

    def plan(
        self, text: YamlText, before: ManifestPlan | None, failed_groups: FailedGroups
    ) -> ManifestPlan:
        from arc_toolkit.placement.rules import manifest_rules, run_manifest_rules

        objects = tuple(read_objects(text))
        if not objects:
            raise _foreign()
        plan = ManifestPlan(self._path, text, self._settings, objects)
        run_manifest_rules(plan)
        names = (*PLACE_SETTINGS, *manifest_rules(), *IGNORE_RULES)
        plan.findings += [
            Finding(rule.id, rule.severity, message, self._path, line, 1, reason)
            for rule, line, message, reason in ignore_problems(plan.ignored_lines, names)
            if self._settings.wants(rule.id)
        ]
        return plan


class CheckedManifests:
    """Checks Kubernetes manifests against the rules."""

    def __init__(self, settings: PlaceSettings) -> None:
        self._settings = settings

    def process(self, path: str, data: bytes) -> FileResult:
        """The findings of one file; skipped if it has no workload."""
        return process_file(path, data, RulesTask(path, self._settings))


class PlaceFiles:
    """Places the workloads of manifests and of Python code in memory."""

    subject = "Kubernetes workloads"
    endings = PLACE_ENDINGS

    def __init__(self, settings: PlaceSettings) -> None:
        self._settings = settings
        self._kinds: set[str] = set()
        self._names: set[str] = set()
        self._roles: set[str] = set()

    def prepare(self, path: str, data: bytes) -> None:
        """Nothing in a manifest refers to another file."""

    def process(
        self, path: str, data: bytes, *, in_folder: bool, named: bool = False
    ) -> FileResult:
        if path.lower().endswith(CODE_ENDINGS):
            from arc_toolkit.placement.code.code_plan import place_code

            return place_code(path, data, self._settings, self._note)
        result = process_file(path, data, ManifestTask(path, self._settings, self._note))
        if result.skipped is None or result.skipped.cause is not SkipCause.FOREIGN:
            return result
        reason = result.skipped.reason
        return replace(result, skipped=foreign_yaml(path, data, reason, named=named))

    def _note(self, plan: PlacePlan) -> None:
        self._kinds |= plan.kinds
        self._names |= plan.names
        self._roles |= plan.roles

    def finish(self) -> Iterator[Problem]:
        settings = self._settings
        for option, names, present in (
            ("--kind", settings.kinds, self._kinds),
            ("--name", settings.names, self._names),
            ("--role", settings.roles, self._roles),
        ):
            for name in sorted(names - present):
                choices = ", ".join(sorted(filter(None, present))) or "none"
                yield Problem("", f"{option} {name} matches nothing; there are: {choices}")


def _manifests(data: bytes, *words: bytes) -> YamlText:
    """The documents of a file with a Kubernetes object or a compiled pipeline of kfp."""
    if not any(word in data for word in words):
        raise _foreign()
    source = read(data)
    has_object = any(is_manifest(document) for document in source.documents)
    if not has_object and not any(read_pipelines(source)):
        raise _foreign()
    return source


def _foreign() -> Unreadable:
    return Unreadable("not a Kubernetes manifest", cause=SkipCause.FOREIGN)
