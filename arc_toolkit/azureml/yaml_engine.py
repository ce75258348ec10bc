"""One YAML file through settings, rules, edits and proof. Pure, but for what `Library` reads."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import yaml

from arc_toolkit.azureml.documents import RESOURCE_KEYS, Setting, SourceFile, Target, of_nodes
from arc_toolkit.azureml.kinds import KINDS, Family, Role, Slot
from arc_toolkit.azureml.library import Library
from arc_toolkit.azureml.place import EXPOSE, place_settings
from arc_toolkit.azureml.plan import Operation, Plan
from arc_toolkit.azureml.rules import run_rules
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.azureml.threads import PRESTEP, RESTEP
from arc_toolkit.edit.files.discover import Skipped
from arc_toolkit.edit.files.edits import Refused, Unreadable
from arc_toolkit.edit.files.ignores import Ignores, find_ignores
from arc_toolkit.edit.yaml.editor import Editor, KeyPath
from arc_toolkit.edit.yaml.nodes import YamlNode, YamlText, construct, pairs, place, text_of
from arc_toolkit.edit.yaml.writer import YamlStyle
from arc_toolkit.findings import FileResult, Fix, Language, without_changes

# What a pipeline begins with.
_HEAD = frozenset({"type", "name", "version", "display_name", "description", "experiment_name"})
# Where a new key goes, and what is quoted.
EDIT_STYLE = YamlStyle(
    neighbours={
        "resources": ("compute", "component", "trial", "environment", "code", "command"),
        "environment_variables": (
            "environment",
            "component",
            "trial",
            "compute",
            "code",
            "command",
        ),
        "compute": ("component", "trial", "environment", "code", "command"),
        "component": ("type",),
        "settings": _HEAD,
        "inputs": _HEAD,
    },
    # Variables are upper case by custom; their values are always strings, and are seen to be.
    quoted=str.isupper,
    plain=re.compile(r"\$\{\{[A-Za-z0-9_.]+\}\}|\./[A-Za-z0-9_./-]+"),
)
# Names of computes that are not references to a compute of the workspace.
_BARE_COMPUTES = frozenset(["local", "serverless"])
# Characters to read again for finding the one edit of a file that cannot be made.
_BEARABLE = 2_000_000


class YamlPlan(Plan):
    """The plan for a YAML file: its changes are operations of the YAML editor."""

    language: Language = "yaml"

    def __init__(
        self,
        file: SourceFile,
        library: Library,
        settings: Settings,
        in_folder: bool = True,
        before: YamlPlan | None = None,
        blocked: Mapping[KeyPath, str] | None = None,
    ) -> None:
        super().__init__(file.path, library, settings, in_folder, before)
        self.file = file
        self.documents = file.documents
        self.editor = Editor(file.yaml, EDIT_STYLE)
        self.refusals: list[str] = []
        self._ignores = find_ignores(file.yaml.text)
        self._everything = not (
            settings.only
            or settings.skip
            or settings.steps
            or settings.kinds
            or self._ignores.lines
        )
        # What was tried on its own and cannot be made, by rule and path, with the reason.
        self._blocked: Mapping[KeyPath, str] = blocked or (before._blocked if before else {})
        self._operations: list[tuple[str, KeyPath, Operation]] = []
        self._proofs = 0
        self._parameters: dict[tuple[KeyPath, Slot], str] = {}
        # Where the steps of a pipeline are bound to inputs, with the text there.
        self.bindings: dict[Target, list[tuple[KeyPath, str]]] = {}
        self._steps: dict[KeyPath, Target] = {}
        # What other files pass to the inputs of this pipeline.
        self._passed: dict[str, set[str]] = {}
        # Keys of steps that move into `resources`.
        self._moved: set[int] = set()

    def locate(self, at: YamlNode) -> tuple[int, int, str]:
        return *place(at), ""

    def covers(self, rule: str, at: YamlNode) -> bool:
        return self._ignores.covers(rule, place(at)[0])

    def ignores(self) -> Iterator[tuple[Ignores, Callable[[int], YamlNode]]]:
        def node(line: int) -> YamlNode:
            mark = yaml.Mark("", 0, line - 1, 0, None, 0)
            return yaml.ScalarNode("", "", mark, mark)

        yield self._ignores, node

    def wants(self, rule: str, target: Target) -> bool:
        return self._everything or super().wants(rule, target)

    def ignored(self, rule: str, target: Target, path: KeyPath = ()) -> bool:
        return bool(self._ignores.lines) and super().ignored(rule, target, path)

    def compute_reference(self, name: str) -> str:
        """`azureml:NAME`, unless it is a reference, a resource id, or one of the two names that need none."""
        if name.startswith(("azureml:", "/", "${{")) or name in _BARE_COMPUTES:
            return name
        return f"azureml:{name}"

    def passed_values(self, pipeline: Target, name: str, depth: int) -> set[str]:
        is_component = (
            pipeline.kind is KINDS[Family.PIPELINE, Role.COMPONENT] and pipeline.parent is None
        )
        # Exposed parameters have the same value everywhere.
        if not is_component or self.settings.expose_parameters:
            return set()
        if name not in self._passed:
            self._passed[name] = set()  # also for two pipelines that name each other
            default = pipeline.text("inputs", name, "default")
            for file, step in self.library.users(self.path, Family.PIPELINE):
                around = YamlPlan(file, self.library, self.settings)
                self._passed[name] |= around.possible_values(
                    step, step.text("inputs", name) or default, depth
                )
        return self._passed[name]

    # --- edits -----------------------------------------------------------------------------------------------

    def write(self, target: Target, settings: Sequence[Setting]) -> list[Setting]:
        return [
            setting
            for setting in settings
            if self.set(setting.rule, target, setting.path, setting.value)
        ]

    def set(self, rule: str, target: Target, path: KeyPath, value: object) -> bool:
        """Put a value below a target; a refusal becomes a finding."""
        where = (*target.path, *path)
        value = value if isinstance(value, (int, dict)) else str(value)
        if not self.edit(rule, target, where, partial(Editor.set, path=where, value=value)):
            return False
        self.expect(where, value)
        return True

    def edit(self, rule: str, target: Target, where: KeyPath, operation: Operation) -> bool:
        """One operation at a place of the file; a refusal becomes a finding."""
        try:
            if self._blocked and (rule, *where) in self._blocked:
                raise Refused(self._blocked[(rule, *where)])
            operation(self.editor)
        except Refused as refusal:
            self.refusals.append(str(refusal))
            self.add_finding(
                rule, "warning", f"not set on {target.shown}", target.at, reason=str(refusal)
            )
            return False
        self._operations.append((rule, where, operation))
        return True

    def attempt(self, operations: Operation) -> None:
        """Several operations, all or none: they are tried on an editor of their own first."""
        operations(self.editor.fresh())
        operations(self.editor)

    def fix(self, title: str, safe: bool, operation: Operation, usable: bool) -> Fix | None:
        alone = self.editor.fresh()
        operation(alone)
        if usable:
            operation(self.editor)  # proved together with all other changes of the file
        elif (
            self._proofs * len(self.file.yaml.text) < _BEARABLE
        ):  # later ones are proved when `patch` makes them
            self._proofs += 1
            alone.finish()
        return None if self.is_second else Fix(title, safe, tuple(alone.edits()))

    def replace_restep(self, target: Target, value: str) -> bool:
        path = (*target.path, *Slot.VARIABLES.path, RESTEP)
        new = value if value != target.text(*Slot.VARIABLES.path, RESTEP) else None
        if not self.edit("threads", target, path, lambda editor: editor.rename(path, PRESTEP, new)):
            return False
        self.expect(path, value)
        return True

    def culprits(self) -> dict[KeyPath, str]:
        """After a refusal of the whole: the operations that cannot be made on their own either, with the reason."""
        reasons: dict[KeyPath, str] = {}
        if len(self._operations) * len(self.file.yaml.text) > _BEARABLE:
            return reasons
        for rule, path, operation in self._operations:
            editor = self.editor.fresh()
            try:
                operation(editor)
                editor.finish()
            except Refused as refusal:
                reasons[(rule, *path)] = str(refusal)
        return reasons

    # --- exposed parameters ----------------------------------------------------------------------------------

    def pipelines(self) -> Iterator[tuple[Target, list[Target]]]:
        for document in self.documents:
            root = document.root
            if root.kind.family == Family.PIPELINE:
                yield (
                    root,
                    [
                        step
                        for step in document.steps
                        if step.kind.resources and step.parent is root
                    ],
                )

    def leaves_to_parameters(self, target: Target) -> bool:
        step = target if target.kind.role == Role.STEP else target.parent
        pipeline = step.parent if step is not None else None
        return self.settings.expose_parameters and pipeline is not None and pipeline.parent is None

    def expose_others(self) -> None:
        """A pipeline that uses another one passes the parameters of that one on."""
        from arc_toolkit.azureml.expose_yaml import pass_on, report_root

        for document in self.documents:
            if document.root.kind.family != Family.PIPELINE:
                report_root(self, document.root)
            for step in document.steps:
                if step.kind.family == Family.PIPELINE and step.parent is document.root:
                    pass_on(self, document.root, step)

    def step(self, pipeline: Target, name: str) -> Target | None:
        """A step of a pipeline by its name."""
        if not self._steps:
            self._steps = {
                target.path: target
                for target in self.known_targets()
                if target.kind.role == Role.STEP
            }
        return self._steps.get((*pipeline.path, "jobs", name))

    def parameter(self, pipeline: Target, slot: Slot) -> str:
        from arc_toolkit.azureml.expose_yaml import parameter_name

        key = (pipeline.path, slot)
        if key not in self._parameters:
            self._parameters[key] = parameter_name(self, pipeline, slot)
        return self._parameters[key]

    def declared_default(self, pipeline: Target, name: str) -> str | None:
        return text_of(pipeline.get("inputs", name)) or pipeline.text("inputs", name, "default")

    def declare(self, pipeline: Target, slot: Slot, default: str | int) -> bool:
        """A plain value in a job, a typed one with a default in a component."""
        path: KeyPath = ("inputs", self.parameter(pipeline, slot))
        declared = pipeline.get(*path)
        own = pairs(declared)
        if pipeline.kind.role == Role.COMPONENT and declared is None:
            kind = "string" if slot == Slot.INSTANCE_TYPE else "integer"
            return self.set(EXPOSE, pipeline, path, {"type": kind, "default": default})
        if pipeline.kind.role == Role.COMPONENT or own:
            is_value = pipeline.kind.role != Role.COMPONENT and "value" in own
            path = (*path, "value" if is_value else "default")
        return pipeline.text(*path) == str(default) or self.set(EXPOSE, pipeline, path, default)

    def bind(self, step: Target, slot: Slot) -> bool:
        """A count cannot be bound beside keys that win over `resources`, nor in an inline command step."""
        from arc_toolkit.azureml.expose_yaml import move_to_component

        if step.overrides_resources:
            names = (slot.path[-1],) if slot != Slot.INSTANCE_COUNT else RESOURCE_KEYS
            return all(
                self._move_below_resources(step, name, slot) for name in names if name in step.own
            )
        inline = step.kind.family == Family.COMMAND and step.get("component") is None
        return not (inline and slot == Slot.INSTANCE_COUNT) or move_to_component(self, step)

    def _move_below_resources(self, step: Target, name: str, slot: Slot) -> bool:
        key, node = step.own[name]
        if id(key) in self._moved:
            return True
        self._moved.add(id(key))
        path = (*step.path, name)
        if not self.edit(EXPOSE, step, path, partial(Editor.remove, path=path)):
            return False
        planned = self.planned(step, "resources", name) is not None or name == slot.path[-1]
        return planned or self.set(EXPOSE, step, ("resources", name), construct(node))


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
    plan = make_plan(file, library, settings, in_folder)
    try:
        after = _after(plan)
    except Refused as refusal:
        # One edit that cannot be made does not take the others with it.
        culprits = plan.culprits()
        refused = FileResult(path, data, None, without_changes(plan.findings), str(refusal))
        if not culprits:
            return refused
        plan = make_plan(file, library, settings, in_folder, blocked=culprits)
        try:
            after = _after(plan)
        except Refused:
            return refused
    refused_edit = next(iter(plan.refusals), None) if after is None else None
    unchanged = _why_unchanged(plan) if after is None else ""
    findings, new_files = tuple(plan.findings), tuple(plan.new_files)
    return FileResult(path, data, after, findings, refused_edit, unchanged, new_files=new_files)


def _why_unchanged(plan: YamlPlan) -> str:
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


def _after(plan: YamlPlan) -> bytes | None:
    """The proven new bytes; None where there is nothing to do."""
    if plan.editor.empty:
        return None
    file, settings = plan.file, plan.settings
    text, nodes = plan.editor.finish()
    after = file.yaml.encode(text)
    # Resources and compute compare what is at the very path that the proof has just found to be as asked, and threads
    # need evidence, which is in none of them; only pipelines have parameters. Everything else is planned a second time,
    # on the new text.
    has_threads = settings.threads not in (None, "off") and (
        settings.threads != "auto" or plan.has_evidence
    )
    has_parameters = settings.expose_parameters and any(plan.pipelines())
    if has_threads or has_parameters or not plan.editor.only_sets:
        again = of_nodes(file.path, after, YamlText(text, file.yaml.bom, nodes), plan.library)
        if not make_plan(again, plan.library, settings, plan.in_folder, before=plan).editor.empty:
            raise Refused("a second run would change it again")
    return after


def make_plan(
    file: SourceFile,
    library: Library,
    settings: Settings,
    in_folder: bool,
    before: YamlPlan | None = None,
    blocked: Mapping[KeyPath, str] | None = None,
) -> YamlPlan:
    """All edits and findings for a file; with `before`, its second run, only the edits."""
    plan = YamlPlan(file, library, settings, in_folder, before, blocked)
    place_settings(plan)
    run_rules(plan, file.yaml.text)
    return plan
