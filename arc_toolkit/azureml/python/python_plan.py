"""The plan for a Python file or notebook: its targets, its findings, and its changes by
`PythonWriter`.
"""

from __future__ import annotations

import ast
import os.path
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

from arc_toolkit.azureml.apply_settings import apply_settings
from arc_toolkit.azureml.apply_threads import not_set
from arc_toolkit.azureml.documents import Parameter, Setting, Target
from arc_toolkit.azureml.evidence import FrameworkEvidence, evidence_in_command
from arc_toolkit.azureml.kinds import Family, Slot
from arc_toolkit.azureml.plan import Plan, Values
from arc_toolkit.azureml.python import sdk_objects as sdk
from arc_toolkit.azureml.python.expose_python import PythonExposer
from arc_toolkit.azureml.python.module import Module, read_module
from arc_toolkit.azureml.python.python_targets import (
    SETTINGS,
    CodeValue,
    PythonPipeline,
    PythonTarget,
    named_values,
)
from arc_toolkit.azureml.python.python_writer import PythonWriter
from arc_toolkit.azureml.python.resolve import SdkResolver
from arc_toolkit.azureml.python.sdk_objects import Builder, Step, Sweep
from arc_toolkit.azureml.python.steps import build_documents, find_targets
from arc_toolkit.azureml.references import ProjectFiles
from arc_toolkit.azureml.rules import run_rules
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.azureml.threads import PRESTEP, RESTEP
from arc_toolkit.edit.code.code_text import CodeText, read_notebook, read_source
from arc_toolkit.edit.code.editor import StatementSite, quoted
from arc_toolkit.edit.code.nodes import CodeMark, place_node
from arc_toolkit.edit.code.source import Source, decode, parse, quiet
from arc_toolkit.edit.files.diff import LineMap
from arc_toolkit.edit.files.edits import Edit, Refused, SkipCause, Unreadable
from arc_toolkit.edit.files.engine import FileTask, process_file
from arc_toolkit.edit.files.plan import FailedGroups, GroupKey, Ignores, Operation, find_ignores
from arc_toolkit.edit.yaml.nodes import KeyPath, YamlNode
from arc_toolkit.file_io import read_raw
from arc_toolkit.findings import FileResult, Finding, Fix, Language

# More steps of a file than this that are not changed for the same reason are one finding.
MAX_LISTED_STEPS = 10
_DEFAULT_COMPUTE = ("settings", "default_compute")


class PythonValues(Values):
    """The values of targets in code."""

    def own(self, target: Target, name: str, *path: str | int) -> str | None:
        """A step has what its command object will have."""
        place = (name, *path)
        if isinstance(target, PythonTarget) and (*target.path, *place) not in self.pending:
            template = target.template
            if template is not None and (*template.path, *place) in self.pending:
                target = template if target.inherits(place) else target
        return super().own(target, name, *path)


class PythonPlan(Plan):
    """The plan for one module; the cells of a notebook are one module too."""

    language: Language = "python"

    def __init__(
        self,
        module: Module,
        project: ProjectFiles,
        settings: Settings,
        path: str,
        first: PythonPlan | None = None,
        failed_groups: FailedGroups | None = None,
    ) -> None:
        super().__init__(
            path, project, settings, Ignores(), before=first, failed_groups=failed_groups
        )
        self.values = PythonValues(path, project, settings.expose_parameters)
        self.module = module
        self._is_tree_whole = True
        self.resolver = SdkResolver(
            module, path, project, Family(settings.assume) if settings.assume else None
        )
        self.python_targets = find_targets(module, self.resolver)
        self.python_pipelines, self.documents = build_documents(self.python_targets, self.resolver)
        # By source; hardly any file has one.
        self._ignores = {
            id(source): ignores
            for source in module.sources
            if (ignores := find_ignores(source.text)) != Ignores()
        }

    def step_names(self) -> Iterator[str]:
        return (name for target in self.python_targets for name in _names(target))

    def families(self) -> Iterator[str]:
        for target in self.python_targets:
            yield target.base_family
            if Family.DISTRIBUTED in self.settings.kinds and self.values.is_distributed(target):
                yield Family.DISTRIBUTED

    def new_editor(self) -> PythonWriter:
        return PythonWriter(self.resolver)

    @property
    def writer(self) -> PythonWriter:
        writer: PythonWriter = self.editor
        return writer

    @property
    def is_empty(self) -> bool:
        return not self.writer.changes

    def prove(self, text: CodeText) -> CodeText:
        self.writer.edits()  # `Refused` while the syntax tree is whole
        self._is_tree_whole = False
        return text.changed(self.writer.changes)

    def find_failing(self, size: int) -> dict[GroupKey, str]:
        """The groups without a safe place in the text; the proof of more uses up the syntax tree."""
        reasons: dict[GroupKey, str] = {}
        for key, operation in self._groups if self._is_tree_whole else ():
            try:
                self._edits_of(operation)
            except Refused as refusal:
                reasons[key] = refusal.reason
        return reasons

    def _edits_of(self, operation: Operation) -> tuple[Edit, ...]:
        """What one group changes in the text."""
        writer = self.new_editor()
        operation(writer)
        writer.finish()
        return tuple(writer.edits())

    def close(self) -> None:
        self.module.close()

    def at(
        self, site: StatementSite, node: ast.expr | ast.stmt | ast.keyword | None = None
    ) -> YamlNode:
        """A statement or a part of it, for a finding."""
        return place_node(site.source, node or site.stmt)

    # --- findings ---

    def locate(self, at: YamlNode) -> tuple[int, int, str]:
        mark = at.start_mark
        assert isinstance(mark, CodeMark)
        if mark.source.label:  # of a cell, only the line of the file is known
            return mark.line + 1, 1, f"{mark.source.label} line {mark.source_line}: "
        return mark.line + 1, mark.column + 1, ""

    def covers(self, rule: str, at: YamlNode) -> bool:
        if not self._ignores:
            return False
        mark = at.start_mark
        assert isinstance(mark, CodeMark)
        ignores = self._ignores.get(id(mark.source))
        if ignores is not None and ignores.covers(rule, mark.source_line):
            return True
        return any(rule in other.lines.get(0, ()) for other in self._ignores.values())

    def refuse(self, rule: str, message: str, at: YamlNode, reason: str) -> None:
        """One step that is not changed does not make the file one that is refused."""
        self.warn(rule, message, at, reason)

    def ignores(self) -> Iterator[tuple[Ignores, Callable[[int], YamlNode]]]:
        for source in self.module.sources:
            if id(source) in self._ignores:
                yield self._ignores[id(source)], partial(_line, source)

    def fix(self, title: str, safe: bool, operation: Operation, usable: bool) -> Fix | None:
        edits = self._edits_of(operation)
        if usable:
            self.perform((title, *edits), operation)
        return None if self.is_second else Fix(title, safe, edits)

    # --- which targets ---

    def targets(self) -> Iterator[Target]:
        yield from self.python_pipelines
        for target in self.python_targets:
            if not target.refusal and not (target.is_trial and target.generation == "v1.5"):
                yield target

    def chosen(self, target: Target) -> bool:
        steps, kinds = self.settings.steps, self.settings.kinds
        if not isinstance(target, PythonTarget):
            return not (steps or kinds)  # a pipeline has more steps than those
        if kinds and target.family != Family.OTHER:
            distributed = Family.DISTRIBUTED in kinds and self.values.is_distributed(target)
            if not self.settings.selects_kind(target.base_family, distributed):
                return False
        return not steps or any(name in steps for name in _names(target))

    def ignored(self, rule: str, target: Target, path: KeyPath = ()) -> bool:
        if not self._ignores:
            return False
        value = target.get(*path) if path else None
        statements = [value.statement] if isinstance(value, CodeValue) else []
        if isinstance(target, PythonTarget):
            statements += [target.statement, *(use.statement for use in target.holders(path))]
        places = [self.at(statement) for statement in statements]
        return any(self.covers(rule, place) for place in places) or super().ignored(
            rule, target, path
        )

    def report_refusals(self) -> None:
        """Targets that were asked for and must not be changed."""
        requested = [rule for rule in self.settings.placed if self.settings.wants(rule)]
        refused: dict[str, list[PythonTarget]] = {}
        for target in self.python_targets if requested else ():
            is_wanted = (target.name or not target.is_trial) and self.chosen(target)
            if target.refusal and is_wanted and not self._inherits_all(target):
                refused.setdefault(target.refusal, []).append(target)
        for reason, targets in refused.items():
            message = "{} is not changed"
            if len(targets) > MAX_LISTED_STEPS:
                message = f"{{}} and {len(targets) - 1} more are not changed"
                targets = targets[:1]
            for target in targets:
                text = message.format(target.shown)
                self.add_finding(requested[0], "warning", text, target.at, reason=reason)

    # --- what a target takes ---

    def unsupported(self, target: Target, slot: Slot) -> str | None:
        if not isinstance(target, PythonTarget):
            return super().unsupported(target, slot)
        if slot in (Slot.INSTANCE_TYPE, Slot.INSTANCE_COUNT):
            if target.legacy_sweep:
                how = "convert it with --sweep-to-v2"
                if self.settings.sweep_to_v2:
                    how = "it is not converted, see there"
                return f"a SweepComponent takes no instance type: {how}"
            if target.set_resources_problem and self.settings.wants("set-resources"):
                return "set_resources is not changed, see there"
        if slot == Slot.COMPUTE and isinstance(target.made, Builder):
            return None  # command(...) takes it, also where a sweep is made of it
        return super().unsupported(target, slot)

    def needs_compute(self, target: Target) -> bool:
        """Whether nothing else says where a step or job runs."""
        if not isinstance(target, PythonTarget):
            return False
        first = target
        if isinstance(target.made, Builder | Sweep):
            # A step in a pipeline that was made of this command object, else the object itself.
            first = self._first_steps.get(id(target), target)
        if first.pipeline is None or self.settings.steps or self.settings.kinds:
            return True
        function = first.pipeline.function
        pipeline = next(item for item in self.python_pipelines if item.function is function)
        return not (pipeline.node.value or self._sets_default_compute)

    @cached_property
    def exposer(self) -> PythonExposer:
        return PythonExposer(self, self.resolver, self.python_pipelines, self.python_targets)

    @cached_property
    def _first_steps(self) -> dict[int, PythonTarget]:
        """Command object -> the first step in a pipeline that is made of it."""
        steps = [target for target in self.python_targets if target.pipeline and target.template]
        return {id(target.template): target for target in reversed(steps)}

    @cached_property
    def _sets_default_compute(self) -> bool:
        scopes = self.module.scopes
        return any(
            use.path == _DEFAULT_COMPUTE
            for scope in scopes
            for uses in scope.uses.values()
            for use in uses
        )

    def evidence(self, target: Target) -> tuple[FrameworkEvidence, ...]:
        evidence = super().evidence(target)
        if target.reference:
            where = "the name of the component file"
            evidence += tuple(evidence_in_command(os.path.basename(target.reference), where))
        return tuple(dict.fromkeys(evidence))

    # --- changes ---

    def write(self, target: Target, settings: Sequence[Setting]) -> list[Setting]:
        assert isinstance(target, PythonTarget | PythonPipeline)
        written = []
        for setting in settings:
            where = (*target.path, *setting.path)
            message = f"{setting.path[-1]} of {target.shown} is not changed"
            operation = partial(self._write_setting, target=target, setting=setting)
            if self.attempt(setting.rule, message, target.at, operation, where):
                self.values.pending[where] = setting.value
                written.append(setting)
        return written

    def _write_setting(
        self, writer: PythonWriter, target: PythonTarget | PythonPipeline, setting: Setting
    ) -> None:
        match setting.value:
            case Parameter(name=text):
                pass
            case int(number):
                text = str(number)
            case value:
                text = quoted(str(value), target.statement.source)
        node = target.get(*setting.path)
        own = node if isinstance(node, CodeValue) and not node.inherited else None
        if own is not None and own.constant is not None and self._moves_alike(own, setting):
            constant, statement = own.constant
            writer.changes.replace(statement, constant, text)
            return
        if isinstance(target, PythonPipeline):
            assert isinstance(node, CodeValue)
            writer.changes.replace(node.statement, node.expression, text)
            return
        if self._leaks(target, setting):
            raise Refused("its resources are those of its component, which another step uses too")
        in_call = setting.slot == Slot.COMPUTE or not self._exposes(target)
        writer.write(target, setting, text, in_call=in_call)

    def _moves_alike(self, node: CodeValue, setting: Setting) -> bool:
        """Whether a value is a constant of the module, and all its uses get this setting: then the
        constant is changed.
        """
        if isinstance(setting.value, Parameter):
            return False
        name = getattr(node.expression, "id", "")
        paths = (setting.path, *((_DEFAULT_COMPUTE,) if setting.slot == Slot.COMPUTE else ()))
        moving = {
            id(value.expression)
            for target in self.targets()
            for path in paths
            if isinstance(value := target.get(*path), CodeValue)
            and self.wants(setting.rule, target)
            and not self.ignored(setting.rule, target, path)
        }
        return all(
            id(part) in moving
            for source in self.module.sources
            if name in source.text
            for stmt in source.body
            for part in ast.walk(stmt)
            if isinstance(part, ast.Name) and part.id == name and isinstance(part.ctx, ast.Load)
        )

    def _leaks(self, target: PythonTarget, setting: Setting) -> bool:
        """Whether a value would reach a step that was not asked for: `node.resources.x = ...` and
        `set_resources` write into the component of a file, which its steps share.
        """
        if (
            setting.path[0] != "resources"
            or target.generation != "v2"
            or target.builder is not None
        ):
            return False
        calls = target.set_resources
        rule = "set-resources"
        is_converted = calls and self.settings.wants(rule) and not target.set_resources_problem
        if is_converted and not self.covers(rule, self.at(calls[0].statement)):
            return False
        if target.named(("resources",)) or not (target.field_assignments or calls):
            return False
        return target.component is not None and id(target.component) in self._components_of_others

    @cached_property
    def _components_of_others(self) -> set[int]:
        """The components of the steps that `--step` and `--kind` do not name."""
        return {id(target.component) for target in self.python_targets if not self.chosen(target)}

    def inherits(self, target: Target, path: KeyPath) -> bool:
        """A step copies its command object, and a sweep has the resources of its trial: each is
        written once.
        """
        if not isinstance(target, PythonTarget) or target.owns(path):
            return False
        is_entity = isinstance(target.made, Builder) and target.made.is_entity
        is_swept = target.is_trial and (is_entity or isinstance(target.made, Step))
        if is_swept and path[:1] != Slot.VARIABLES.path:
            return True  # the sweep gets it
        if path[0] == "resources" and (target.has_resource_statements or self._exposes(target)):
            return False
        return target.inherits(path) and self._gets_settings(target.template)

    def _exposes(self, target: PythonTarget) -> bool:
        return self.settings.expose_parameters and self.exposer.exposes(target.pipeline)

    def _gets_settings(self, template: PythonTarget | None) -> bool:
        return template is not None and self.chosen(template) and not template.refusal

    def _inherits_all(self, target: PythonTarget) -> bool:
        """Whether a step needs nothing of its own: its command object gets all, and nothing is said
        about it here.
        """
        own = any(use.how == "argument" or use.path[0] in SETTINGS for use in target.uses)
        return not own and not self._exposes(target) and self._gets_settings(target.template)

    def replace_restep(self, target: Target, value: str) -> bool:
        """The rule amlarc-restep renames the key in the same run; where it must not, the variable
        is added.
        """
        assert isinstance(target, PythonTarget)
        node = target.own_value((*Slot.VARIABLES.path, RESTEP))
        if node is None or not self.settings.wants("amlarc-restep"):
            setting = Setting("threads", Slot.VARIABLES, value, (*Slot.VARIABLES.path, PRESTEP))
            return not self.inherits(target, setting.path) and bool(self.write(target, [setting]))
        if not isinstance(node.expression, ast.Constant):
            not_set(self, target, f"its {RESTEP} is not a literal")
            return False
        if node.value == value:
            return True
        text, place, old = quoted(value, node.statement.source), node.statement, node.expression

        def replace_value(writer: PythonWriter) -> None:
            writer.changes.replace(place, old, text)

        return self.attempt("threads", f"not set on {target.shown}", target.at, replace_value)


def _names(target: PythonTarget) -> Iterator[str]:
    """What `--step` knows a target by: its variable, and the `name=` of a command object."""
    if target.name:
        yield target.name
    if isinstance(target.made, Builder):
        name = (named_values(target.call) or {}).get("name")
        if isinstance(name, ast.Constant) and isinstance(name.value, str):
            yield name.value


def _line(source: Source, line: int) -> YamlNode:
    return place_node(source, ast.Pass(lineno=line, col_offset=0))


def make_plan(
    module: Module,
    project: ProjectFiles,
    settings: Settings,
    path: str,
    first: PythonPlan | None = None,
    failed_groups: FailedGroups | None = None,
) -> PythonPlan:
    """Everything that is to be changed and said about one file; `first` is the plan of the run
    before.
    """
    plan = PythonPlan(module, project, settings, path, first, failed_groups)
    apply_settings(plan, lambda: plan.exposer)
    plan.report_refusals()
    run_rules(plan, "\n".join(source.text for source in module.sources))
    plan.writer.finish()
    return plan


# --- files ------------------------------------------------------------------------------------------

_ACTIONS = tuple(word.decode() for word in sdk.ACTIONS)
# Module, project, settings, path, the plan of the run before, failed groups -> plan.
MakePlan = Callable[
    [Module, ProjectFiles, Settings, str, PythonPlan | None, FailedGroups], PythonPlan
]


@dataclass(frozen=True)
class PythonTask(FileTask[CodeText, PythonPlan]):
    """Settings and rules, or conversions, for one file."""

    _path: str
    _settings: Settings
    _project: ProjectFiles
    _read: Callable[[bytes], CodeText]
    _make: MakePlan
    _note: Callable[[PythonPlan], None] | None

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
        plan = self._make(module, self._project, self._settings, self._path, before, failed_groups)
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


def _patch(
    path: str,
    data: bytes,
    settings: Settings,
    project: ProjectFiles | None = None,
    convert: MakePlan | None = None,
    note: Callable[[PythonPlan], None] | None = None,
    *,
    read: Callable[[bytes], CodeText],
) -> FileResult:
    """What the settings and rules make of one file; `project` has the files around it, and
    `convert` plans the conversions that come before the settings.
    """
    project = project or ProjectFiles(read_raw)
    makes = (make_plan,) if convert is None else (convert, make_plan)
    with quiet():
        tasks = [PythonTask(path, settings, project, read, make, note) for make in makes]
        return process_file(path, data, *tasks)


patch_source = partial(_patch, read=_read_source)
# The code cells, as one module.
patch_notebook = partial(_patch, read=_read_notebook)
