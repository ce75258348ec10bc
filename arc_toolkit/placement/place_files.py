"""The engine of `place` for `batch.run`: each file through plan, edits and proof."""

from __future__ import annotations

from collections.abc import Iterator

from arc_toolkit.edit.files.discover import CODE_ENDINGS, ENDINGS, Problem, Skipped, foreign_yaml
from arc_toolkit.edit.files.edits import Refused, Unreadable
from arc_toolkit.edit.yaml.nodes import YamlText, read
from arc_toolkit.findings import FileResult, Finding, without_changes
from arc_toolkit.ignore_rules import OF_UNKNOWN_RULE, WITHOUT_REASON, ignore_problems
from arc_toolkit.placement.manifests import is_manifest
from arc_toolkit.placement.pipelines import (
    place_pipelines,
    read_pipelines,
    with_platform,
    without_platform,
)
from arc_toolkit.placement.place_plan import PLACE_SETTINGS, ManifestPlan, PlacePlan, PlaceSettings
from arc_toolkit.placement.place_workloads import place_objects

# JSON is YAML: what `kubectl get -o json` writes.
PLACE_ENDINGS = (*ENDINGS, ".json")


class CheckedManifests:
    """Checks Kubernetes manifests against the rules."""

    def __init__(self, settings: PlaceSettings) -> None:
        self._settings = settings

    def process(self, path: str, data: bytes) -> FileResult:
        """The findings of one file; skipped if it has no workload."""
        try:
            source = _manifests(data) if b"apiVersion" in data else None
        except Unreadable as error:
            return FileResult(path, data, skipped=Skipped.of(path, error))
        if source is None:
            return _skip(path, data)
        from arc_toolkit.placement.rules import manifest_rules, run_manifest_rules

        plan = ManifestPlan(path, source, self._settings)
        if not plan.objects:
            return _skip(path, data)
        run_manifest_rules(plan)
        known = (*PLACE_SETTINGS, *manifest_rules(), WITHOUT_REASON.id, OF_UNKNOWN_RULE.id)
        plan.findings += [
            Finding(rule.id, rule.severity, message, path, line, 1, reason)
            for rule, line, message, reason in ignore_problems(plan.ignores, known)
            if self._settings.wants(rule.id)
        ]
        return FileResult(path, data, findings=tuple(plan.findings))


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
            from arc_toolkit.placement.code.code_files import place_code

            return place_code(path, data, self._settings, self._note)
        try:
            source = _manifests(data) if _has_word(data) else None
        except Unreadable as error:
            return FileResult(path, data, skipped=Skipped.of(path, error))
        if source is None:
            return _skip(path, data, named)
        plan = _plan(path, with_platform(source), self._settings)
        self._note(plan)
        try:
            after = _proved(plan)
        except Refused as refusal:
            return FileResult(path, data, None, without_changes(plan.findings), str(refusal))
        refused = next(iter(plan.refusals), None) if after is None else None
        return FileResult(path, data, after, tuple(plan.findings), refused)

    def _note(self, plan: PlacePlan) -> None:
        self._kinds |= plan.kinds
        self._names |= plan.names
        self._roles |= plan.roles

    def finish(self) -> Iterator[Problem]:
        settings = self._settings
        for option, names, known in (
            ("--kind", settings.kinds, self._kinds),
            ("--name", settings.names, self._names),
            ("--role", settings.roles, self._roles),
        ):
            for name in sorted(names - known):
                there = ", ".join(sorted(filter(None, known))) or "none"
                yield Problem("", f"{option} {name} matches nothing; there are: {there}")


def _has_word(data: bytes) -> bool:
    return b"apiVersion" in data or b"deploymentSpec" in data


def _plan(
    path: str, source: YamlText, settings: PlaceSettings, is_proved: bool = False
) -> ManifestPlan:
    plan = ManifestPlan(path, source, settings, is_proved)
    place_objects(plan)
    if "deploymentSpec" in source.text:
        place_pipelines(plan, read_pipelines(plan.source))
    return plan


def _manifests(data: bytes) -> YamlText | None:
    """The documents of a file, if one of them is a Kubernetes object, or the file is a pipeline of kfp."""
    source = read(data)
    known = any(is_manifest(document) for document in source.documents)
    return source if known or any(read_pipelines(source)) else None


def _skip(path: str, data: bytes, named: bool = False) -> FileResult:
    return FileResult(
        path, data, skipped=foreign_yaml(path, data, "not a Kubernetes manifest", named=named)
    )


def _proved(plan: ManifestPlan) -> bytes | None:
    """The new bytes, after the editor's proof and a second run that changes nothing; None if nothing changes."""
    if plan.editor.empty:
        return None
    after = without_platform(*plan.editor.finish(marks=bool(plan.ignores.lines)))
    again = _plan(plan.path, after, plan.settings, is_proved=True)
    if not again.editor.empty:
        raise Refused("a second run would change it again")
    return plan.source.encode(after.text)
