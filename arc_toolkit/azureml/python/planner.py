"""The plan for one file: which target gets which value, in what form, and every finding about it.

`Planner` holds what the parts share: the settings, the targets, the changes and the findings. The forms of each SDK
are in `v2.py` and `v15.py`; nothing here looks at text but to copy it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Literal

from arc_toolkit.azureml.kinds import Family
from arc_toolkit.azureml.library import Library
from arc_toolkit.azureml.python import sdk_names as sdk
from arc_toolkit.azureml.python.meaning import Builder, Meanings, PipelineFunction, is_resources_class
from arc_toolkit.azureml.python.names import Binding, Module, Scope, Spot
from arc_toolkit.azureml.python.targets import Target, find_targets
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.edit.edits import Refused
from arc_toolkit.edit.ignores import Ignores, find_ignores
from arc_toolkit.edit.python_editor import Changes, Place, quoted
from arc_toolkit.edit.python_source import Source
from arc_toolkit.findings import Finding, Fix, Severity


def read_file(path: str) -> bytes:
    with open(path, "rb") as stream:
        return stream.read()


@dataclass(frozen=True)
class Wanted:
    """A value to be set: its setting, its name, its text, and the literal (None when it is a parameter)."""

    rule: str
    name: str
    text: str
    value: str | int | None = None

    @property
    def rules(self) -> tuple[str, ...]:
        """The names that an inline ignore keeps it out by: a parameter goes by its own setting too."""
        return (self.rule, self.name.replace("_", "-")) if self.rule == "expose-parameters" else (self.rule,)


Outcome = Literal["set", "equal", "bound"]


class Planner:
    """Collects the changes and findings of one file."""

    def __init__(
        self, module: Module, settings: Settings, path: str, folder: str, first: Planner | None = None
    ) -> None:
        self.module = module
        self.settings = settings
        self.path = path
        # The YAML files that the code names, and what those name: a second look reads none again.
        self.library: Library = first.library if first is not None else Library(read_file)
        self.meanings: Meanings = Meanings(module, folder, self.library)
        self.changes = Changes()
        # Only the changes of a second plan count, not its findings.
        self._is_second = first is not None
        self._findings: dict[Finding, None] = {}
        self.targets: list[Target] = find_targets(module, self.meanings)
        self.new_files: list[tuple[str, bytes]] = []
        # Scope -> local name of JobResourceConfiguration and where it is imported (or how this run adds it).
        self._imports: dict[int, tuple[str, Spot | Callable[[], None]] | None] = {}
        self._ignores: dict[int, Ignores] = {}

    @property
    def findings(self) -> tuple[Finding, ...]:
        """In the order of the text, each once."""
        return tuple(sorted(self._findings, key=lambda found: (found.line, found.column)))

    # --- findings ------------------------------------------------------------------------------------------------

    def allows(self, rule: str, source: Source, line: int) -> bool:
        """Whether `--only`, `--skip` and the comments in the code let a rule or setting work on a line."""
        return self.settings.wants(rule) and not self.ignored(rule, source, line)

    def ignored(self, rule: str, source: Source, line: int) -> bool:
        """Whether a comment keeps a rule or setting out of a line, or of the whole file."""
        return rule in self._ignored_everywhere or self.ignores_of(source).covers(rule, line)

    def ignores_of(self, source: Source) -> Ignores:
        if id(source) not in self._ignores:
            self._ignores[id(source)] = find_ignores(source.text)
        return self._ignores[id(source)]

    @cached_property
    def _ignored_everywhere(self) -> frozenset[str]:
        return frozenset().union(*(self.ignores_of(source).lines.get(0, ()) for source in self.module.sources))

    def kept(self, wanted: Wanted, place: Place, node: ast.expr) -> bool:
        """Whether a comment keeps the lines as they are that a value would be written into."""
        return any(
            self.ignored(rule, place.source, line)
            for rule in wanted.rules
            for line in {place.stmt.lineno, node.lineno}
        )

    def finding(
        self,
        rule: str,
        severity: Severity,
        message: str,
        source: Source,
        node: ast.stmt | ast.expr | ast.keyword,
        *,
        reason: str = "",
        fix: Changes | None = None,
        title: str = "",
        applied: bool = False,
    ) -> None:
        """A finding, unless it is ignored or not asked for. `fix` are those of the changes that fix it: all safe."""
        if self._is_second or not self.allows(rule, source, node.lineno):
            return
        where = f"{source.label} line {node.lineno}: " if source.label else ""
        found = Finding(
            rule,
            severity,
            where + message,
            self.path,
            source.file_line(node.lineno),
            1 if source.label else source.column(node),  # of a cell, only the line of the file is known
            reason,
            None if fix is None else _as_fix(title, fix),
            applied or fix is not None,
        )
        self._findings[found] = None

    def left(self, target: Target, wanted: Wanted, reason: str, severity: Severity = "warning") -> None:
        self._about(target, wanted.rule, severity, f"{wanted.name} is left as it is", reason=reason)

    def equal(self, target: Target, wanted: Wanted) -> None:
        self._about(target, wanted.rule, "note", f"{wanted.name} is already {wanted.text}", reason="nothing to do")

    def refused(self, target: Target) -> None:
        rule = next(iter(self.rules_asked()), "instance-type")
        self._about(target, rule, "warning", "left as it is", reason=target.refusal)

    def _about(self, target: Target, rule: str, severity: Severity, what: str, *, reason: str = "") -> None:
        message = f"{describe(target)}: {what}"
        self.finding(rule, severity, message, target.spot.source, target.call, reason=reason)

    def rules_asked(self) -> list[str]:
        settings = self.settings
        asked = {
            "instance-type": settings.instance_type is not None,
            "instance-count": settings.instance_count is not None,
            "compute": settings.compute is not None,
            "expose-parameters": settings.expose_parameters,
            "threads": settings.threads not in (None, "off"),
        }
        return [rule for rule, wanted in asked.items() if wanted and settings.wants(rule)]

    # --- values --------------------------------------------------------------------------------------------------

    @cached_property
    def resources_wanted(self) -> list[Wanted]:
        """Instance type and count as literals, as far as they are asked for."""
        settings = self.settings
        wanted = []
        if settings.instance_type is not None and settings.wants("instance-type"):
            text = quoted(settings.instance_type)
            wanted.append(Wanted("instance-type", "instance_type", text, settings.instance_type))
        if settings.instance_count is not None and settings.wants("instance-count"):
            count = settings.instance_count
            wanted.append(Wanted("instance-count", "instance_count", str(count), count))
        return wanted

    def compare(self, existing: ast.expr, wanted: Wanted) -> Outcome:
        """Whether a value that is there is to be replaced."""
        if wanted.value is None:  # a parameter
            if isinstance(existing, ast.Name) and existing.id == wanted.text:
                return "equal"
            return "set" if isinstance(existing, ast.Constant) else "bound"
        if isinstance(existing, ast.Constant):
            return "equal" if existing.value == wanted.value else "set"
        return "bound"

    def decide(self, target: Target, existing: ast.expr | None, wanted: Wanted, place: Place) -> bool:
        """Whether to write the value into the statement at `place`; why not is said here."""
        if self.kept(wanted, place, target.call if existing is None else existing):
            return False
        outcome = "set" if existing is None else self.compare(existing, wanted)
        if outcome == "equal":
            self.equal(target, wanted)
        elif outcome == "bound" and existing is not None:
            # Whoever bound it chose so: no fault.
            self.left(target, wanted, f"it is bound to {short(existing)}", "note")
        return outcome == "set"

    def fill(
        self, target: Target, place: Place, holder: ast.Call | ast.Dict, wanted: list[Wanted], alias: str = ""
    ) -> list[Wanted]:
        """Values into the keyword arguments of a call, or into a dict display; those that were written.

        `alias` is another spelling of instance_count in the same call (v1.5: node_count).
        """
        names = given(holder)
        if names is None:
            for item in wanted:
                self.left(target, item, f"the values come from ** in line {holder.lineno}")
            return []
        written = []
        for item in wanted:
            name = alias if alias in names and item.name == "instance_count" else item.name
            if self.decide(target, names.get(name), item, place):
                written.append(item)
                if isinstance(holder, ast.Call):
                    self.changes.set_argument(place, holder, name, item.text)
                else:
                    self.changes.set_item(place, holder, name, item.text)
        return written

    def chosen(self, target: Target) -> bool:
        """Whether `--step` and `--kind` name this target."""
        names = {target.name}
        if isinstance(target.meaning, Builder):
            names |= {value for value in (constant(target.call, "name"),) if isinstance(value, str)}
        return any(
            self.settings.wants_step(name, "" if target.family == Family.OTHER else target.family)
            for name in names
        )

    # --- imports -------------------------------------------------------------------------------------------------

    def resources_class(self, spot: Spot) -> str:
        """The local name of JobResourceConfiguration, imported where it has to be; `Refused` when it cannot."""
        for scope in _outward(spot.scope):
            if id(scope) not in self._imports:
                self._imports[id(scope)] = next(
                    (
                        (name, bindings[-1].spot)
                        for name, bindings in scope.bindings.items()
                        if isinstance(value := bindings[-1].value, str) and is_resources_class(value)
                    ),
                    None,
                )
            found = self._imports[id(scope)]
            if found is None:
                continue
            name, place = found
            if not isinstance(place, Spot):
                place()  # once more, for a fix that is recorded
                return name
            if _before(place, spot):
                return name
        taken = self.meanings.binding(sdk.RESOURCES_CLASS, spot)
        if isinstance(taken, Binding):
            raise Refused(f"the name {sdk.RESOURCES_CLASS} means something else here")
        self._import(spot)
        return sdk.RESOURCES_CLASS

    def _import(self, spot: Spot) -> None:
        line = f"from {sdk.RESOURCES_MODULE} import {sdk.RESOURCES_CLASS}"
        for scope in [self.module.top, *_outward(spot.scope)]:
            imports = [
                binding.spot
                for bindings in scope.bindings.values()
                for binding in bindings
                if isinstance(binding.value, str)
                and isinstance(binding.spot.stmt, ast.Import | ast.ImportFrom)
                and _is_sdk(binding.spot.stmt)
                and not (binding.spot.block.has("if") or binding.spot.block.has("except"))
                and _before(binding.spot, spot)
            ]
            imports.sort(key=lambda found: found.order)
            merged = [
                found
                for found in imports
                if isinstance(found.stmt, ast.ImportFrom) and found.stmt.module == sdk.RESOURCES_MODULE
            ]
            if merged and isinstance(merged[-1].stmt, ast.ImportFrom):
                add = partial(self.changes.add_import, merged[-1], merged[-1].stmt, sdk.RESOURCES_CLASS)
            elif imports:
                add = partial(self.changes.insert_after, imports[-1], line)
            else:
                continue
            break
        else:
            scope, source = self.module.top, spot.source
            first = next(stmt for stmt in source.body if not _is_preamble(stmt))
            add = partial(self.changes.insert_before, Place(source, source.body, first), line)
        self._imports[id(scope)] = sdk.RESOURCES_CLASS, add
        add()

    # --- pipelines -----------------------------------------------------------------------------------------------

    def pipelines(self) -> list[tuple[Spot, PipelineFunction]]:
        """All functions under `@dsl.pipeline`, with their places."""
        found = []
        for scope in self.module.scopes:
            pipeline = self.meanings.pipeline(scope)
            if pipeline is not None and scope.spot is not None:
                found.append((scope.spot, pipeline))
        return found


def make_plan(module: Module, settings: Settings, path: str, folder: str, first: Planner | None = None) -> Planner:
    """Everything that is to be changed and said about one file; `first` is the plan of the run before."""
    from arc_toolkit.azureml.python import place_compute as compute
    from arc_toolkit.azureml.python import python_rules as rules
    from arc_toolkit.azureml.python import v1, v2, v15
    from arc_toolkit.azureml.python.expose_python import Exposure

    planner = Planner(module, settings, path, folder, first)
    rules.look(planner)
    v1.look(planner)
    exposure = Exposure(planner)
    asked = bool(planner.rules_asked())
    compute.pipeline_defaults(planner)
    for target in planner.targets:
        chosen = asked and planner.chosen(target)
        if chosen and target.refusal and not v2.inherits_all(planner, target, exposure):
            planner.refused(target)
        if target.generation == "v2":
            v2.place(planner, target, exposure, chosen and not target.refusal)
        elif chosen and not target.refusal:
            v15.place(planner, target, exposure)
    exposure.finish()
    return planner


def _as_fix(title: str, changes: Changes) -> Fix | None:
    try:
        edits = tuple(edit for source, own in changes.edits().values() for edit in source.in_file(own))
    except Refused:  # so is the whole file, and that is reported
        return None
    return Fix(title, True, edits)


def describe(target: Target) -> str:
    kind = {Family.OTHER: "step", Family.SWEEP: "sweep"}.get(target.family, f"{target.family} step")
    if isinstance(target.meaning, Builder) and target.pipeline is None:
        kind = {Family.PARALLEL: "parallel_run_function"}.get(target.family, target.family)
    return f"{kind} {target.name}" if target.name else f"{kind} without a name"


def given(holder: ast.Call | ast.Dict) -> dict[str, ast.expr] | None:
    """The named values of a call or dict display; None when some come from `**`."""
    if isinstance(holder, ast.Call):
        if any(keyword.arg is None for keyword in holder.keywords):
            return None
        return {keyword.arg: keyword.value for keyword in holder.keywords if keyword.arg is not None}
    if any(key is None for key in holder.keys):
        return None
    pairs = zip(holder.keys, holder.values, strict=True)
    return {
        key.value: value for key, value in pairs if isinstance(key, ast.Constant) and isinstance(key.value, str)
    }


def constant(call: ast.Call, name: str) -> str | int | None:
    """A keyword argument that is a literal string or number."""
    for keyword in call.keywords:
        if keyword.arg == name and isinstance(keyword.value, ast.Constant):
            value = keyword.value.value
            return value if isinstance(value, str | int) else None
    return None


def short(node: ast.expr) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 60 else text[:57] + "..."


def _outward(scope: Scope | None) -> list[Scope]:
    found = []
    while scope is not None:
        found.append(scope)
        scope = scope.parent
    return found


def _before(first: Spot, second: Spot) -> bool:
    """Whether `first` stands before `second`, or before the function (of the same scope) that holds it."""
    spot: Spot | None = second
    while spot is not None:
        if spot.scope is first.scope:
            return first.order < spot.order
        spot = spot.scope.spot
    return True


def _is_sdk(stmt: ast.Import | ast.ImportFrom) -> bool:
    names = [stmt.module or ""] if isinstance(stmt, ast.ImportFrom) else [alias.name for alias in stmt.names]
    return any(name == "azure.ai.ml" or name.startswith("azure.ai.ml.") for name in names)


def _is_preamble(stmt: ast.stmt) -> bool:
    """A docstring or an import from __future__: an import may only come after it."""
    if isinstance(stmt, ast.ImportFrom):
        return stmt.module == "__future__"
    return isinstance(stmt, ast.Expr) and isinstance(stmt.value, ast.Constant)
