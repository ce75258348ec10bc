"""Kubernetes manifests and code for `batch.run`: settings of `place`, rules of `check`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial

import yaml

from arc_toolkit.edit.files.discover import CODE_ENDINGS, ENDINGS, Problem, foreign_yaml
from arc_toolkit.edit.files.edits import Refused, SkipCause, Unreadable, apply_edits
from arc_toolkit.edit.files.engine import FileTask, process_file
from arc_toolkit.edit.files.plan import FailedGroups, find_ignores
from arc_toolkit.edit.yaml.editor import YamlEditor
from arc_toolkit.edit.yaml.nodes import KeyPath, YamlNode, YamlText, compose, get, read, text_of
from arc_toolkit.findings import FileResult, Finding
from arc_toolkit.ignore_rules import IGNORE_RULES, ignore_problems
from arc_toolkit.placement.always_on import RunEvidence
from arc_toolkit.placement.decisions import place_objects
from arc_toolkit.placement.intents import with_intents
from arc_toolkit.placement.manifests import (
    UnknownObject,
    Workload,
    expand,
    is_manifest,
    read_objects,
)
from arc_toolkit.placement.pipelines import read_pipelines, with_platform
from arc_toolkit.placement.place_plan import (
    PLACE_SETTINGS,
    SPOT,
    STYLE,
    PlacePlan,
    PlaceSettings,
)
from arc_toolkit.text import plural

# JSON is YAML: what `kubectl get -o json` writes.
PLACE_ENDINGS = (*ENDINGS, ".json")


# What Argo fills in when it runs a template.
_PARAMETER = re.compile(r"\{\{[^\n{}]*\}\}")
# What Argo does with a manifest so that its pods are made of it.
_CREATING = ("create", "apply", "replace", None)


class ManifestPlan(PlacePlan):
    """The plan of a file of manifests, or of the text of one in a field of another.

    `first_line` is the line of the file before that text.
    """

    proves_groups = True

    def __init__(
        self,
        path: str,
        source: YamlText,
        settings: PlaceSettings,
        objects: tuple[Workload | UnknownObject, ...],
        failed_groups: FailedGroups | None = None,
        first_line: int = 0,
    ) -> None:
        ignores = with_intents(find_ignores(source.text), source.text)
        super().__init__(path, settings, objects, ignores, failed_groups)
        self.source = source
        self._first_line = first_line

    def new_editor(self) -> YamlEditor:
        return YamlEditor(self.source, STYLE)

    def prove(self, text: YamlText) -> YamlText:
        after, documents = self.editor.finish()
        return YamlText(after, text.bom, documents)

    def locate(self, at: YamlNode) -> tuple[int, int, str]:
        line, column, prefix = super().locate(at)
        return line + self._first_line, column, prefix

    def inner_plans(
        self, workload: Workload
    ) -> Iterator[tuple[KeyPath, yaml.ScalarNode, ManifestPlan]]:
        """A plan for each text in a workload that is a manifest, with its path and node."""
        for spec_path in workload.kind.texts:
            for path, node, _ in expand(workload.node, spec_path):
                action = text_of(get(workload.node, *path[:-1], "action"))
                if not isinstance(node, yaml.ScalarNode) or "apiVersion" not in node.value:
                    continue
                if action in _CREATING:
                    # Marks of the same length, so that places in both texts are the same.
                    text = _PARAMETER.sub(lambda match: "x" * len(match[0]), node.value)
                    source = YamlText(text, False, compose(text))
                    first_line = (
                        self._first_line + node.start_mark.line + (node.style in ("|", ">"))
                    )
                    objects = tuple(
                        _with_own_name(entry, node.value) for entry in read_objects(source)
                    )
                    plan = ManifestPlan(
                        self.path, source, self.settings, objects, first_line=first_line
                    )
                    yield (*workload.path, *path), node, plan

    def place_texts(self, workload: Workload) -> None:
        message = f"{workload.shown}: the manifest in it is not changed"
        try:
            for path, node, plan in self.inner_plans(workload):
                place_objects(plan)
                self.take_over(plan)
                if plan.is_empty:
                    continue
                plan.editor.finish()
                text = apply_edits(node.value, plan.editor.edits())
                self.attempt(SPOT, message, node, partial(_set_text, path, text))
        except (Refused, Unreadable) as error:
            self.refuse(SPOT, message, workload.node, error.reason)

    def take_over(self, plan: ManifestPlan) -> None:
        """What was found in a text."""
        self.findings += plan.findings
        self.refusals += plan.refusals
        self.left_alone += plan.left_alone
        self.kinds |= plan.kinds
        self.names |= plan.names
        self.roles |= plan.roles


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

    def why_unchanged(self, plan: ManifestPlan) -> str:
        return plan.why_unchanged


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
        for workload in plan.workloads:
            with suppress(Unreadable):  # `place` reports it
                for _, _, inner in plan.inner_plans(workload):
                    run_manifest_rules(inner)
                    plan.take_over(inner)
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
        self._evidence = RunEvidence()
        self._settings = replace(settings, evidence=self._evidence)
        self.prepare = self._evidence.add

    def process(self, path: str, data: bytes) -> FileResult:
        """The findings of one file; skipped if it has no workload."""
        self.prepare(path, data)
        return process_file(path, data, RulesTask(path, self._settings))


class PlaceFiles:
    """Places the workloads of manifests and of Python code in memory."""

    subject = "Kubernetes workloads"
    endings = PLACE_ENDINGS

    def __init__(self, settings: PlaceSettings) -> None:
        self._evidence = RunEvidence()
        self._settings = replace(settings, evidence=self._evidence)
        self._kinds: set[str] = set()
        self._names: set[str] = set()
        self._roles: set[str] = set()
        self._left_alone: Counter[tuple[str, str]] = Counter()

    def prepare(self, path: str, data: bytes) -> None:
        """What the file says about workloads in other files."""
        if not path.lower().endswith(CODE_ENDINGS):
            self._evidence.add(path, data)

    def process(
        self, path: str, data: bytes, *, in_folder: bool, named: bool = False
    ) -> FileResult:
        if path.lower().endswith(CODE_ENDINGS):
            from arc_toolkit.placement.code.code_plan import place_code

            return place_code(path, data, self._settings, self._note)
        self.prepare(path, data)
        result = process_file(path, data, ManifestTask(path, self._settings, self._note))
        if result.skipped is None or result.skipped.cause is not SkipCause.FOREIGN:
            return result
        reason = result.skipped.reason
        return replace(result, skipped=foreign_yaml(path, data, reason, named=named))

    def _note(self, plan: PlacePlan) -> None:
        self._kinds |= plan.kinds
        self._names |= plan.names
        self._roles |= plan.roles
        self._left_alone.update(plan.left_alone)

    @property
    def summary(self) -> Iterator[str]:
        """`not placed: 3 Deployments, 1 StatefulSet: it is always on; ...`, for each reason."""
        reasons: dict[str, list[str]] = {}
        for (kind, reason), count in sorted(self._left_alone.items()):
            reasons.setdefault(reason, []).append(plural(count, kind))
        for reason, kinds in reasons.items():
            yield f"not placed: {', '.join(kinds)}: {reason}"

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


def _with_own_name(entry: Workload | UnknownObject, text: str) -> Workload | UnknownObject:
    """An object that was read with marks in place of parameters, with its name as it is."""
    node = get(entry.node, "metadata", "name") or get(entry.node, "metadata", "generateName")
    if node is None:
        return entry
    return replace(entry, name=text[node.start_mark.index : node.end_mark.index].strip("'\""))


def _set_text(path: KeyPath, text: str, editor: YamlEditor) -> None:
    editor.set(path, text)


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
