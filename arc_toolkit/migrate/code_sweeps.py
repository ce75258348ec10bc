"""Sweeps of SDK v1.5 in Python source as `command_node.sweep(...)` of azure-ai-ml.

Rewritten if every value is plain:

    step = sweep_func(lr=uniform(0.1, 1.0))             step = sweep_func(lr=Uniform(...))
    step.runsettings.sweep.algorithm = "random"    ->   step = step.sweep(...)
    step.runsettings.sweep.limits.configure(...)        step.resources = ...

`SweepReader` reads calls of `azureml.train.hyperdrive` into a `LegacySpec`, for `hyperdrive.py` too
(signatures of azureml-train-core 1.62). All else is a finding with its line and the reason.
"""

from __future__ import annotations

import ast
import os.path
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from arc_toolkit.azureml.python.python_plan import PythonPlan
from arc_toolkit.azureml.python.resolve import SdkResolver
from arc_toolkit.azureml.python.sdk_objects import (
    RESOURCES_CLASS,
    RESOURCES_MODULE,
    Component,
    PipelineFunction,
)
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.edit.code.editor import StatementSite
from arc_toolkit.edit.code.layout import replace_statement
from arc_toolkit.edit.code.names import Binding, Scope, Statement, Use, short
from arc_toolkit.edit.code.values import OpaqueValue, call_arguments
from arc_toolkit.edit.files.edits import Refused
from arc_toolkit.migrate.legacy_spec import SWEEP_RULE, LegacySpec, parse_spec, read_or_none
from arc_toolkit.migrate.search_space import (
    DISTRIBUTIONS,
    POLICIES,
    call_lines,
    call_text,
    distribution_text,
    literal,
    sweep_arguments,
    sweep_body,
)
from arc_toolkit.migrate.v1_values import HYPERDRIVE, PipelineParameter, V1Values
from arc_toolkit.migrate.v2_jobs import resources

SWEEP_MODULE = "azure.ai.ml.sweep"
# Class of hyperdrive -> the policy_type of v1.5 and its parameters in their order.
_POLICY_CLASSES: dict[str, tuple[str, tuple[str, ...]]] = {
    "NoTerminationPolicy": ("default", ()),
    **{policy.v2_class: (kind, policy.v1_order) for kind, policy in POLICIES.items()},
}
_SECTIONS = ("objective", "limits", "early_termination")
_RESOURCES = {
    **{name: name for name in ("instance_type", "instance_count")},
    "node_count": "instance_count",
}
# AMLARC's migration note (2023) says so; no public client can show it.
_V15_HINT = (
    ". This file is of SDK v1.5, whose pipelines are said to take the v2 sweep; if yours does not, "
    "move its imports and `dsl.pipeline` to azure.ai.ml"
)


class SweepReader:
    """Reads one sweep into a v1.5 spec whose places are lines of the Python source."""

    def __init__(self, resolver: SdkResolver, statement: Statement) -> None:
        self.statement = statement
        self.values = V1Values(resolver)
        self.spec = LegacySpec("", {"search_space": {}, "objective": {}, "limits": {}})
        # Uses of imported hyperdrive names in the statement, which go with the edit.
        self.names: set[int] = set()

    def name(self, node: ast.expr, statement: Statement) -> str:
        """`choice` for `choice` and `hd.choice` of hyperdrive; "" for others."""
        path = self.values.import_path(node, statement) or ""
        return path.rpartition(".")[2] if path.startswith(f"{HYPERDRIVE}.") else ""

    def called(self, node: ast.expr, statement: Statement) -> str:
        return self.name(node.func, statement) if isinstance(node, ast.Call) else ""

    def drop_name(self, node: ast.expr, statement: Statement) -> None:
        """This use of a hyperdrive name goes with the edit."""
        if isinstance(node, ast.Name) and statement is self.statement:
            self.names.add(id(node))

    def put(self, node: ast.expr, value: Any, *keys: str) -> None:
        """A value of the spec, and where it is written."""
        self.spec.places[keys] = node.lineno, node.col_offset + 1
        section = self.spec.data
        for key in keys[:-1]:
            section = section.setdefault(key, {})
            if not isinstance(section, dict):
                raise Refused(f"{'.'.join(keys)} is set in two ways", line=node.lineno)
        section[keys[-1]] = value

    def put_distribution(self, node: ast.expr, statement: Statement, name: str) -> bool:
        """`choice(1, 2)` or `uniform(0, 1)` into the search space; whether it is one."""
        kind = self.called(node, statement)
        if kind not in DISTRIBUTIONS or not isinstance(node, ast.Call):
            return False
        if kind == "choice":
            if node.keywords:
                raise Refused(f"{name}: choice takes no keyword arguments", line=node.lineno)
            items = [self.value(item, statement, f"a value of {name}") for item in node.args]
            if len(items) == 1 and isinstance(items[0], list | tuple):
                items = list(items[0])
            drawn = {"values": [list(item) if isinstance(item, tuple) else item for item in items]}
        else:
            drawn = self._arguments(node, statement, DISTRIBUTIONS[kind].keys, f"{kind} of {name}")
        self.put(node, {"type": kind, **drawn}, "search_space", name)
        self.drop_name(node.func, statement)
        return True

    def put_policy(self, node: ast.expr, statement: Statement) -> bool:
        """`BanditPolicy(...)` into early_termination; whether it is a policy."""
        kind = self.called(node, statement)
        if kind not in _POLICY_CLASSES or not isinstance(node, ast.Call):
            return False
        policy_type, order = _POLICY_CLASSES[kind]
        arguments = self._arguments(node, statement, order, kind)
        self.put(node, {"policy_type": policy_type, **arguments}, "early_termination")
        self.drop_name(node.func, statement)
        return True

    def value(self, node: ast.expr, statement: Statement, label: str) -> Any:
        """A plain value; not the default of a PipelineParameter, since callers may change it."""
        try:
            value = self.values.plain(node, statement)
        except OpaqueValue:
            value = PipelineParameter("", None)
        if isinstance(value, PipelineParameter):
            raise Refused(f"{label} is not a plain value: {short(node)}", line=node.lineno)
        return value

    def _arguments(
        self, call: ast.Call, statement: Statement, order: tuple[str, ...], label: str
    ) -> dict[str, Any]:
        """The plain arguments of a call by name; None is as if not given."""
        arguments = call_arguments(call, order, statement)
        if len(call.args) > len(order):
            raise Refused(f"{label} has more arguments than it takes", line=call.lineno)
        if arguments.rest:
            raise Refused(f"{label} takes **arguments that cannot be read", line=call.lineno)
        if unknown := [name for name in arguments.values if name not in order]:
            raise Refused(f"{label} has no argument {unknown[0]}", line=call.lineno)
        values = {
            name: self.value(*bound, f"{name} of {label}")
            for name, bound in arguments.values.items()
        }
        return {name: value for name, value in values.items() if value is not None}

    def body(self) -> dict[str, Any]:
        """The v2 sweep; refused if v2 has no place for something in it."""
        body = sweep_body(self.spec)
        for note in self.spec.notes:
            if note.severity == "warning":
                raise Refused(note.message, line=note.line)
        return body


@dataclass
class SweepChange:
    """One sweep that was read completely: it is written completely, or not at all."""

    statement: Statement
    reader: SweepReader
    name: str
    # The call that makes the step and gets the distributions as arguments; its statement.
    site: Statement
    call: ast.Call
    # Why the component of the call has to change.
    reason: str
    # Statements with their new text; "" takes one out.
    statements: list[tuple[Statement, str]] = field(default_factory=list)
    # Classes of azure.ai.ml.sweep that the new text needs.
    classes: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        body = self.reader.body()
        self.arguments = sweep_arguments(body, self.classes)
        self.distributions = {
            name: distribution_text(drawn, self.classes)
            for name, drawn in body["search_space"].items()
        }

    def replace(self, statement: Statement, text: str) -> None:
        """`Refused` here if it cannot be done."""
        replace_statement(statement.source, statement.stmt, text)
        self.statements.append((statement, text))


def convert_steps(plan: PythonPlan) -> None:
    """The changes for all sweeps, or none if the imports cannot be changed, and their findings."""
    changes = []
    for scope, name, uses in _step_sweeps(plan):
        statement = uses[0].statement
        if not plan.covers(SWEEP_RULE, plan.at(statement)):
            try:
                changes.append(step_change(plan, scope, name, uses))
            except Refused as refused:
                report_refusal(plan, statement, refused)
    try:
        imports = _changed_imports(plan, changes) if changes else []
    except Refused as refused:
        for change in changes:
            report_refusal(plan, change.statement, refused)
        return
    edits = plan.writer.changes
    for site, lines, text in imports:
        for line in lines:
            edits.insert_before(site, line)
        if text is not None:
            edits.replace(site, site.stmt, text)
    for change in changes:
        for name, text in change.distributions.items():
            edits.set(change.site, change.call, name, text)
        for statement, text in change.statements:
            edits.replace(statement, statement.stmt, text)
        message = f"runsettings.sweep of {change.name} is written as {change.name}.sweep(...)"
        plan.add_finding(SWEEP_RULE, "note", message, plan.at(change.statement), applied=True)
        message = f"{ast.unparse(change.call.func)} has to be a command component now"
        at = plan.at(change.statement, change.call)
        plan.add_finding(SWEEP_RULE, "warning", message, at, reason=change.reason, applied=True)


def report_refusal(plan: PythonPlan, statement: Statement, refused: Refused) -> None:
    """A finding for a sweep that is not changed, at its line or at the line of the reason."""
    is_here = refused.line in (0, statement.stmt.lineno)
    node = statement.stmt if is_here else ast.Pass(lineno=refused.line, col_offset=0)
    at = plan.at(statement, node)
    message = "the sweep is not rewritten"
    plan.add_finding(SWEEP_RULE, "warning", message, at, reason=refused.reason)


def _resources_text(settings: Settings, old: dict[str, str]) -> str:
    """`JobResourceConfiguration(...)`: the command line wins over the old settings."""
    texts = {name: literal(value) for name, value in resources(settings).items()}
    texts |= {name: text for name, text in old.items() if not getattr(settings, name)}
    return call_text(RESOURCES_CLASS, texts)


# --- imports ---


def _changed_imports(
    plan: PythonPlan, changes: list[SweepChange]
) -> list[tuple[StatementSite, list[str], str | None]]:
    """For each import of hyperdrive: lines before it, and its new text (None: it stays)."""
    sources = plan.module.sources
    sites = [
        StatementSite(source, source.body, stmt)
        for source in sources
        for stmt in source.body
        if _imports_hyperdrive(stmt)
    ]
    if not sites:
        raise Refused("hyperdrive is not imported at the top of the file")
    classes = {name for change in changes for name in change.classes}
    imported = {name for site in sites for name in _imported_names(site.stmt)}
    uses = [
        node
        for source in sources
        for node in chain.from_iterable(map(ast.walk, source.body))
        if isinstance(node, ast.Name) and node.id in imported
    ]
    dropped = {identity for change in changes for identity in change.reader.names}
    used = {node.id for node in uses if id(node) not in dropped}
    if clash := used & classes:
        raise Refused(f"{', '.join(sorted(clash))} of hyperdrive is used in other places too")
    # Only what the conversion made useless goes; a name that nothing here uses may be for others.
    useless = ({node.id for node in uses} - used) | (classes & imported)
    lines = _new_imports(plan, changes, classes, imported)
    result = []
    for site in sites:
        text = _without_names(site.stmt, useless)
        result.append((site, lines, text))
        lines = []
        try:
            replace_statement(site.source, site.stmt, text or "")
        except Refused as refused:
            if text is not None:
                raise Refused(f"{refused.reason} (import of hyperdrive)") from None
    return result


def _imports_hyperdrive(stmt: ast.stmt) -> bool:
    match stmt:
        case ast.ImportFrom(module=str(module), names=names, level=0):
            paths = [module, *(f"{module}.{alias.name}" for alias in names)]
        case ast.Import(names=names):
            paths = [alias.name for alias in names]
        case _:
            return False
    return any(f"{path}.".startswith(f"{HYPERDRIVE}.") for path in paths)


def _imported_names(stmt: ast.stmt) -> dict[str, ast.alias]:
    """The names that a statement imports from hyperdrive; not the module itself."""
    if not isinstance(stmt, ast.ImportFrom) or not (stmt.module or "").startswith(HYPERDRIVE):
        return {}
    return {alias.asname or alias.name: alias for alias in stmt.names}


def _without_names(stmt: ast.stmt, names: set[str]) -> str | None:
    """An import from hyperdrive without these names; None if it has none of them."""
    aliases = _imported_names(stmt)
    others = [alias for name, alias in aliases.items() if name not in names]
    if not isinstance(stmt, ast.ImportFrom) or len(others) == len(aliases):
        return None
    return ast.unparse(ast.ImportFrom(stmt.module, others, 0)) if others else ""


def _new_imports(
    plan: PythonPlan, changes: list[SweepChange], classes: set[str], imported: set[str]
) -> list[str]:
    """The imports that are missing; refused if one of the names means something else."""
    lines = []
    for module, names in ((RESOURCES_MODULE, [RESOURCES_CLASS]), (SWEEP_MODULE, sorted(classes))):
        missing = []
        for name in names:
            bindings = [plan.resolver.binding(name, change.statement) for change in changes]
            others = [
                bound
                for bound in bindings
                if not (isinstance(bound, Binding) and bound.value == f"{module}.{name}")
            ]
            for bound in others:
                if isinstance(bound, Binding) and name not in imported:
                    line = bound.statement.stmt.lineno
                    raise Refused(f"the name {name} means something else in line {line}")
            if others:
                missing.append(name)
        if missing:
            lines.append(f"from {module} import {', '.join(missing)}")
    return lines


# --- run settings of a step ---


def _step_sweeps(plan: PythonPlan) -> Iterator[tuple[Scope, str, list[Use]]]:
    """The steps with sweep settings; those in one block are one sweep."""
    for scope in plan.module.scopes:
        for name, uses in scope.uses.items():
            blocks: dict[tuple[int, int], list[Use]] = {}
            for use in uses:
                if use.how != "argument" and use.path[:2] == ("runsettings", "sweep"):
                    made = plan.resolver.binding(name, use.statement)
                    blocks.setdefault((id(made), id(use.statement.body)), []).append(use)
            yield from ((scope, name, settings) for settings in blocks.values())


def step_change(plan: PythonPlan, scope: Scope, name: str, sweeps: list[Use]) -> SweepChange:
    """The conversion of one step."""
    statement = sweeps[0].statement
    made = plan.resolver.binding(name, statement)
    call = made.value if isinstance(made, Binding) else None
    if (
        not isinstance(made, Binding)
        or not isinstance(call, ast.Call)
        or made.statement.body is not statement.body
        or not _is_plain_assignment(made.statement.stmt)
    ):
        reason = (
            "is not made by one call in the same block, so its settings may come from elsewhere"
        )
        raise Refused(f"{name} {reason}")
    settings = [
        use
        for use in scope.uses[name]
        if use.how != "argument"
        and use.path[0] == "runsettings"
        and plan.resolver.binding(name, use.statement) is made
    ]
    _refuse_other_uses(name, made, settings, sweeps[-1])
    reader = SweepReader(plan.resolver, made.statement)
    component = plan.resolver.object_of(call.func, made.statement)
    spec = _sweep_spec(plan, component)
    if spec is not None:
        _put_spec(reader, spec, {str(keyword.arg) for keyword in call.keywords})
    for keyword in call.keywords:
        reader.put_distribution(keyword.value, made.statement, str(keyword.arg))
    if not reader.spec.data["search_space"]:
        raise Refused(
            f"no argument of the call of {name} is a hyperdrive distribution that is imported "
            "here, so the search space is in its spec, which is not found here: convert that with "
            "`patch --sweep-to-v2`"
        )
    old: dict[str, str] = {}
    compute = ""
    for use in settings:
        compute = _put_setting(reader, use, old) or compute
    reason = (
        "`.sweep()` belongs to a command node: load what `patch --sweep-to-v2` writes for the "
        "sweep's spec"
    )
    origins = (plan.resolver.pipeline(scope), component)
    if any(
        isinstance(origin, PipelineFunction | Component) and origin.generation == "v1.5"
        for origin in origins
    ):
        reason += _V15_HINT
    if spec is None:
        reason += (
            ". That spec is not found here: what it sets and this code does not repeat is not in "
            ".sweep(...)"
        )
    change = SweepChange(statement, reader, name, made.statement, call, reason)
    if plan.settings.compute:
        compute = literal(plan.settings.compute.removeprefix("azureml:"))
    *others, last = settings
    column = last.statement.stmt.col_offset
    lines = [
        call_lines(f"{name} = {name}.sweep", change.arguments, column),
        f"{name}.resources = {_resources_text(plan.settings, old)}",
        *([f"{name}.compute = {compute}"] if compute else []),
    ]
    for use in others:
        change.replace(use.statement, "")
    change.replace(last.statement, "\n".join(lines))
    return change


def _sweep_spec(plan: PythonPlan, component: object) -> LegacySpec | None:
    """The v1.5 SweepComponent that a step is made of, if its file is here."""
    if not isinstance(component, Component) or not component.file:
        return None
    path = os.path.normpath(os.path.join(plan.resolver.folder, component.file))
    data = read_or_none(plan.project.read, path)
    spec = parse_spec(path, data) if data is not None else None
    return spec if spec is not None and "sweep" in str(spec.data.get("type", "")).lower() else None


def _put_spec(reader: SweepReader, spec: LegacySpec, passed: set[str]) -> None:
    """The values of the spec, which the code may replace; the call has the arguments `passed`."""
    data = reader.spec.data
    for section in (*_SECTIONS, "search_space"):
        items = spec.mapping(section).items()
        data[section] = {key: item for key, item in items if key not in passed}
    if "algorithm" in spec.data:
        data["algorithm"] = spec.data["algorithm"]
    metric = data["objective"].get("primary_metric")
    if isinstance(metric, dict):  # a default and the others that v1.5 allows
        data["objective"]["primary_metric"] = metric.get("default")


def _is_plain_assignment(stmt: ast.stmt) -> bool:
    return isinstance(stmt, ast.Assign) and len(stmt.targets) == 1


def _refuse_other_uses(name: str, made: Binding, settings: list[Use], last: Use) -> None:
    """No other use of the name before its last sweep setting; all its settings are readable."""
    body = made.statement.body
    for use in settings:
        stmt = use.statement.stmt
        if use.statement.body is not body:
            raise Refused("its runsettings are set in another block too", line=stmt.lineno)
        if not isinstance(stmt, ast.Expr) and not _is_plain_assignment(stmt):
            raise Refused("this is not a plain assignment", line=stmt.lineno)
    statements = {id(use.statement.stmt) for use in settings}
    for stmt in body[body.index(made.statement.stmt) + 1 : body.index(last.statement.stmt)]:
        if id(stmt) not in statements and any(
            isinstance(node, ast.Name) and node.id == name for node in ast.walk(stmt)
        ):
            reason = f"{name} is used before its last sweep setting, when it is not a sweep yet"
            raise Refused(reason, line=stmt.lineno)


def _put_setting(reader: SweepReader, use: Use, texts: dict[str, str]) -> str:
    """One `runsettings` statement into the spec or the resources; gives the text of the compute."""
    node, statement = use.value, use.statement
    text = statement.source.slice

    def put(item: ast.expr, *keys: str) -> None:
        label = "the algorithm" if keys == ("algorithm",) else ".".join(keys)
        reader.put(item, reader.value(item, statement, label), *keys)

    match use.path[1:]:
        case ("sweep", "algorithm"):
            put(node, "algorithm")
        case ("sweep", section, "configure") if section in _SECTIONS and isinstance(node, ast.Call):
            for key, item in _keywords(node, section):
                put(item, section, key)
        case ("sweep", "early_termination") if reader.put_policy(node, reader.statement):
            pass
        case ("sweep", section, *key) if section in _SECTIONS and len(key) < 2:
            put(node, section, *key)
        case ("resource_layout", "configure") if isinstance(node, ast.Call):
            for key, item in _keywords(node, "resource_layout"):
                texts[_resource(key, item)] = text(item)
        case ("resource_layout", key):
            texts[_resource(key, node)] = text(node)
        case ("target",):
            return text(node)
        case ("configure",) if isinstance(node, ast.Call) and [
            item.arg for item in node.keywords
        ] == ["target"]:
            return text(node.keywords[0].value)
        case path:
            name = f"runsettings.{'.'.join(path)}"
            raise Refused(f"{name} has no equivalent on a v2 sweep", line=node.lineno)
    return ""


def _keywords(call: ast.Call, section: str) -> Iterator[tuple[str, ast.expr]]:
    for keyword in call.keywords:
        if call.args or keyword.arg is None:
            reason = f"{section}.configure takes **arguments that cannot be read"
            raise Refused(reason, line=call.lineno)
        yield keyword.arg, keyword.value


def _resource(key: str, node: ast.expr) -> str:
    if key not in _RESOURCES:
        raise Refused(f"resource_layout.{key} has no equivalent on a v2 sweep", line=node.lineno)
    return _RESOURCES[key]
