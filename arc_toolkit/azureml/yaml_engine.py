"""One YAML file through settings, rules, edits and proof. Pure, but for what `Library` reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module

from arc_toolkit.azureml.documents import SourceFile, of_nodes
from arc_toolkit.azureml.expose import expose
from arc_toolkit.azureml.kinds import KINDS, Family, Role
from arc_toolkit.azureml.library import Library
from arc_toolkit.azureml.place_resources import place_compute, place_resources
from arc_toolkit.azureml.place_threads import place_threads
from arc_toolkit.azureml.rules import all_rules
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.azureml.work import Work
from arc_toolkit.edit.discover import Skipped
from arc_toolkit.edit.edits import Refused, Unreadable
from arc_toolkit.edit.yaml_editor import Path
from arc_toolkit.edit.yaml_nodes import YamlText
from arc_toolkit.findings import FileResult, Rule, without_changes

Read = Callable[[str], bytes]


def patch_yaml(
    path: str, data: bytes, settings: Settings, library: Library, read: Read, *, in_folder: bool = True
) -> FileResult:
    """What the settings and rules make of one file. Nothing is written."""
    try:
        file = library.parse(path, data)
    except Unreadable as error:
        return FileResult(path, data, skipped=Skipped.of(path, error))
    if settings.steps or settings.kinds:
        for document in file.documents:
            library.steps |= {step.name for step in document.steps}
            library.families |= {target.kind.family for target in document.targets}
    has_sweep_spec = any(document.root.kind is KINDS[Family.SWEEP, Role.SPEC] for document in file.documents)
    if settings.sweep_to_v2 and has_sweep_spec and settings.wants("sweep-to-v2"):
        converted: FileResult = import_module("arc_toolkit.azureml.migrate.sweep").convert(
            path, data, settings, read
        )
        return converted
    work = plan(file, library, settings, in_folder)
    try:
        after = _after(work)
    except Refused as refusal:
        # One edit that cannot be made does not take the others with it.
        culprits = work.culprits()
        refused = FileResult(path, data, None, without_changes(work.findings), str(refusal))
        if not culprits:
            return refused
        work = plan(file, library, settings, in_folder, blocked=culprits)
        try:
            after = _after(work)
        except Refused:
            return refused
    findings, new_files = tuple(work.findings), tuple(work.new_files)
    if after is None:
        return FileResult(path, data, None, findings, next(iter(work.refusals), None), new_files=new_files)
    return FileResult(path, data, after, findings, new_files=new_files)


def _after(work: Work) -> bytes | None:
    """The proven new bytes; None where there is nothing to do."""
    if work.editor.empty:
        return None
    file, settings = work.file, work.settings
    text, nodes = work.editor.finish()
    after = file.yaml.encode(text)
    # Resources and compute compare what stands at the very path that the proof has just found to be as asked;
    # everything else is planned a second time, on the new text.
    if not (work.editor.only_sets and settings.threads in (None, "off") and not settings.expose_parameters):
        again = of_nodes(file.path, after, YamlText(text, file.yaml.bom, nodes), work.library.kind_of)
        if not plan(again, work.library, settings, work.in_folder, before=work).editor.empty:
            raise Refused("a second run would change it again")
    return after


def plan(
    file: SourceFile,
    library: Library,
    settings: Settings,
    in_folder: bool,
    before: Work | None = None,
    blocked: Mapping[Path, str] | None = None,
) -> Work:
    """All edits and findings for a file; with `before`, its second run, only the edits."""
    work = Work(file, library, settings, in_folder=in_folder, before=before, blocked=blocked)
    chosen, needed = _chosen(settings.only, settings.skip, before is not None)
    text = file.yaml.text
    words = {word for word in needed if word in text}
    checks = [rule.check for rule in chosen if rule.check and (not rule.needs or not words.isdisjoint(rule.needs))]
    for document in file.documents:
        if settings.places_anything:
            place_resources(work, document)
            place_compute(work, document)
            if settings.expose_parameters:
                expose(work, document)
            place_threads(work, document)
        for check in checks:
            check(work, document)
    return work


@cache
def _chosen(
    only: frozenset[str], skip: frozenset[str], fixes_only: bool
) -> tuple[tuple[Rule, ...], frozenset[str]]:
    """The rules that may run, and the words that some of them look for."""
    settings = Settings(only=only, skip=skip)
    rules = tuple(
        rule
        for rule in all_rules().values()
        if rule.check is not None and settings.wants(rule.id) and (rule.fix != "none" or not fixes_only)
    )
    return rules, frozenset(word for rule in rules for word in rule.needs)
