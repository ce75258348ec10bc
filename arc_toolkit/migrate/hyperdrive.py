"""Calls of `azureml.train.hyperdrive` and v1.5 run settings in Python source, read as the v1.5 spec of a sweep.

Plain values are read, and followed through variables; everything else is `Refused` with its line. Signatures are those
of azureml-train-core 1.6x.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from arc_toolkit.azureml.python.python_plan import PythonPlan
from arc_toolkit.azureml.python.resolve import SdkResolver
from arc_toolkit.azureml.python.sdk_objects import RESOURCES_CLASS, RESOURCES_MODULE
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.edit.code.editor import StatementSite
from arc_toolkit.edit.code.expressions import short
from arc_toolkit.edit.code.layout import replace_statement
from arc_toolkit.edit.code.names import Binding, Statement, find_bindings
from arc_toolkit.edit.files.edits import Refused
from arc_toolkit.migrate import space
from arc_toolkit.migrate.forms import DEFAULT_INSTANCE_COUNT, DEFAULT_INSTANCE_TYPE
from arc_toolkit.migrate.legacy_spec import RULE, LegacySpec
from arc_toolkit.migrate.space import distribution_text, literal, sweep_arguments
from arc_toolkit.migrate.v1_data import V1Data
from arc_toolkit.migrate.v1_values import NotPlain, PipelineParameter, arguments

MODULE = "azureml.train.hyperdrive"

# Class -> the policy_type of v1.5 and its parameters in their order.
POLICIES: dict[str, tuple[str, tuple[str, ...]]] = {
    "NoTerminationPolicy": ("default", ()),
    **{policy.v2_class: (kind, policy.v1_order) for kind, policy in space.POLICIES.items()},
}
SAMPLINGS = {
    "RandomParameterSampling": "random",
    "GridParameterSampling": "grid",
    "BayesianParameterSampling": "bayesian",
}


class HyperdriveReader:
    """Reads one sweep into a v1.5 spec whose places are lines of the Python source."""

    def __init__(self, resolver: SdkResolver, statement: Statement) -> None:
        self._resolver = resolver
        # From where names are looked up, and the statement that is read.
        self.statement = self._home = statement
        self.values = V1Data(resolver)
        self.spec = LegacySpec("", {"search_space": {}, "objective": {}, "limits": {}})
        # Uses of imported hyperdrive names that were read, and go with what they are in.
        self.names: set[int] = set()

    def name(self, node: ast.expr | None) -> str:
        """`choice` for `choice`, `hd.choice` and `azureml.train.hyperdrive.choice`; "" for anything else."""
        path = self._resolver.path(node, self.statement) if node is not None else None
        if path is None and isinstance(node, ast.Name):  # from azureml.train.hyperdrive import *
            bindings = find_bindings(
                node.id, self.statement, lambda name: name.startswith(f"{MODULE}.")
            )
            path = (
                bindings[0].value
                if len(bindings) == 1 and isinstance(bindings[0].value, str)
                else None
            )
        return path.rpartition(".")[2] if path is not None and path.startswith(f"{MODULE}.") else ""

    def called(self, node: ast.expr | None) -> str:
        return self.name(node.func) if isinstance(node, ast.Call) else ""

    def take(self, node: ast.expr) -> None:
        """This use of a hyperdrive name goes with the edit."""
        if isinstance(node, ast.Name) and self.statement is self._home:
            self.names.add(id(node))

    @contextmanager
    def follow(self, node: ast.expr) -> Iterator[ast.expr]:
        """What a variable is bound to, read from where it is bound; other nodes are themselves."""
        before = self.statement
        made, self.statement = self.values.follow(node, self.statement)
        try:
            yield made
        finally:
            self.statement = before

    def put(self, node: ast.expr, value: Any, *keys: str) -> None:
        """A value of the spec, and where it is written."""
        self.spec.places[keys] = node.lineno, node.col_offset + 1
        inner = self.spec.data
        for key in keys[:-1]:
            inner = inner.setdefault(key, {})
            if not isinstance(inner, dict):
                raise Refused(f"{'.'.join(keys)} is set in two ways", line=node.lineno)
        inner[keys[-1]] = value

    def distribution(self, node: ast.expr, name: str) -> bool:
        """`choice(1, 2)` or `uniform(0, 1)` into the search space; whether it is one."""
        kind = self.called(node)
        if kind not in space.DISTRIBUTIONS or not isinstance(node, ast.Call):
            return False
        drawn: dict[str, Any]
        if kind == "choice":
            if node.keywords:
                raise Refused(f"{name}: choice takes no keyword arguments", line=node.lineno)
            values = [self.value(item, f"a value of {name}") for item in node.args]
            if len(values) == 1 and isinstance(values[0], list | tuple):
                values = list(values[0])
            drawn = {"values": [list(item) if isinstance(item, tuple) else item for item in values]}
        else:
            drawn = self.arguments(node, space.DISTRIBUTIONS[kind].keys, f"{kind} of {name}")
        self.put(node, {"type": kind, **drawn}, "search_space", name)
        self.take(node.func)
        return True

    def policy(self, node: ast.expr) -> bool:
        """`BanditPolicy(...)` into early_termination; whether it is a policy."""
        kind = self.called(node)
        if kind not in POLICIES or not isinstance(node, ast.Call):
            return False
        policy_type, order = POLICIES[kind]
        self.put(
            node,
            {"policy_type": policy_type, **self.arguments(node, order, kind)},
            "early_termination",
        )
        self.take(node.func)
        return True

    def value(self, node: ast.expr, what: str) -> Any:
        """A plain value; the default of a PipelineParameter is not one here, since callers may change it."""
        try:
            plain = self.values.plain(node, self.statement)
        except NotPlain:
            plain = None
        if isinstance(plain, PipelineParameter) or (plain is None and not _constant_none(node)):
            raise Refused(f"{what} is not a plain value: {short(node)}", line=node.lineno)
        return plain

    def arguments(self, call: ast.Call, order: tuple[str, ...], what: str) -> dict[str, Any]:
        """The plain arguments of a call by name; those that are None are as if not given."""
        given = arguments(call, order, self.statement)
        if len(call.args) > len(order):
            raise Refused(f"{what} has more arguments than it takes", line=call.lineno)
        if given.rest:
            raise Refused(f"{what} takes **arguments that cannot be read", line=call.lineno)
        for name in given.values:
            if name not in order:
                raise Refused(f"{what} has no argument {name}", line=call.lineno)
        out = {
            name: self.value(node, f"{name} of {what}") for name, (node, _) in given.values.items()
        }
        return {name: item for name, item in out.items() if item is not None}

    def body(self) -> dict[str, Any]:
        """What v2 says about the sweep; refused where something of it has no place in v2."""
        body = space.sweep_body(self.spec)
        for note in self.spec.notes:
            if note.severity == "warning":
                raise Refused(note.message, line=note.line)
        return body


def _constant_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


SWEEP_MODULE = "azure.ai.ml.sweep"


@dataclass
class SweepChange:
    """One sweep that was read completely: it is written completely, or not at all."""

    statement: Statement
    reader: HyperdriveReader
    message: str = ""
    # A warning, its reason and the node that it is about.
    warning: tuple[str, str, ast.expr] | None = None
    expressions: list[tuple[Statement, ast.expr, str]] = field(default_factory=list)
    # Calls that get another argument.
    arguments_added: list[tuple[Statement, ast.Call, str, str]] = field(default_factory=list)
    # Statements with what they become; "" takes one out.
    statements: list[tuple[Statement, str]] = field(default_factory=list)
    # Classes of azure.ai.ml.sweep that the new text needs.
    classes: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.body = self.reader.body()
        self.arguments = sweep_arguments(self.body, self.classes)
        self.distributions = {
            name: distribution_text(drawn, self.classes)
            for name, drawn in self.body["search_space"].items()
        }

    def replace(self, statement: Statement, text: str) -> None:
        replace_statement(
            statement.source, statement.stmt, text
        )  # refused here where it cannot be done
        self.statements.append((statement, text))


def resources_text(settings: Settings, old: dict[str, str]) -> str:
    """`JobResourceConfiguration(...)`: what was asked for, else what the old settings say, else the defaults."""
    kind = literal(settings.instance_type) if settings.instance_type else old.get("instance_type")
    count = (
        literal(settings.instance_count) if settings.instance_count else old.get("instance_count")
    )
    kind, count = kind or literal(DEFAULT_INSTANCE_TYPE), count or literal(DEFAULT_INSTANCE_COUNT)
    return f"{RESOURCES_CLASS}(instance_type={kind}, instance_count={count})"


def refuse(plan: PythonPlan, statement: Statement, refused: Refused) -> None:
    """A finding for a sweep that is not changed, at its line or at the line of the reason."""
    here = refused.line in (0, statement.stmt.lineno)
    node = statement.stmt if here else ast.Pass(lineno=refused.line, col_offset=0)
    plan.add_finding(
        RULE,
        "warning",
        "the sweep is not rewritten",
        plan.at(statement, node),
        reason=refused.reason,
    )


def commit(plan: PythonPlan, changes: list[SweepChange]) -> None:
    """All changes to the plan, or none where the imports cannot be changed."""
    if not changes:
        return
    try:
        imports = _imports(plan, changes)
    except Refused as refused:
        for change in changes:
            refuse(plan, change.statement, refused)
        return
    for place, lines, text in imports:
        for line in lines:
            plan.writer.changes.insert_before(place, line)
        if text is not None:
            plan.writer.changes.replace(place, place.stmt, text)
    for change in changes:
        for statement, node, text in change.expressions:
            plan.writer.changes.replace(statement, node, text)
        for statement, call, name, text in change.arguments_added:
            plan.writer.changes.set(statement, call, name, text)
        for statement, text in change.statements:
            plan.writer.changes.replace(statement, statement.stmt, text)
        plan.add_finding(RULE, "note", change.message, plan.at(change.statement), applied=True)
        if change.warning is not None:
            message, reason, node = change.warning
            plan.add_finding(
                RULE,
                "warning",
                message,
                plan.at(change.statement, node),
                reason=reason,
                applied=True,
            )


def _imports(
    plan: PythonPlan, changes: list[SweepChange]
) -> list[tuple[StatementSite, list[str], str | None]]:
    """For each import of hyperdrive: lines before it, and what it becomes (None: it stays)."""
    anchors = [
        StatementSite(source, source.body, stmt)
        for source in plan.module.sources
        for stmt in source.body
        if _imports_hyperdrive(stmt)
    ]
    if not anchors:
        raise Refused("hyperdrive is not imported at the top of the file")
    classes = {name for change in changes for name in change.classes}
    imported = {name for anchor in anchors for name in _imported_names(anchor.stmt)}
    uses = [
        node
        for source in plan.module.sources
        for node in chain.from_iterable(map(ast.walk, source.body))
        if isinstance(node, ast.Name) and node.id in imported
    ]
    read = {identity for change in changes for identity in change.reader.names}
    used = {node.id for node in uses if id(node) not in read}
    if clash := used & classes:
        raise Refused(f"{', '.join(sorted(clash))} of hyperdrive is used in other places too")
    # Only what the conversion made useless goes; a name that nothing here uses may be for others.
    useless = ({node.id for node in uses} - used) | (classes & imported)
    lines = _new_imports(plan, changes, classes, imported)
    result: list[tuple[StatementSite, list[str], str | None]] = []
    for anchor in anchors:
        result.append((anchor, lines, _without(anchor.stmt, useless)))
        lines = []
        try:
            replace_statement(anchor.source, anchor.stmt, "")
        except Refused as refused:
            if result[-1][2] is not None:
                raise Refused(f"{refused.reason} (import of hyperdrive)") from None
    return result


def _imports_hyperdrive(stmt: ast.stmt) -> bool:
    if isinstance(stmt, ast.ImportFrom):
        names = [stmt.module or "", *(f"{stmt.module}.{alias.name}" for alias in stmt.names)]
        return not stmt.level and any(
            name == MODULE or name.startswith(f"{MODULE}.") for name in names
        )
    return isinstance(stmt, ast.Import) and any(
        alias.name.startswith(MODULE) for alias in stmt.names
    )


def _imported_names(stmt: ast.stmt) -> dict[str, ast.alias]:
    """What a statement imports from hyperdrive; not the module itself."""
    if not isinstance(stmt, ast.ImportFrom) or not (stmt.module or "").startswith(MODULE):
        return {}
    return {alias.asname or alias.name: alias for alias in stmt.names}


def _without(stmt: ast.stmt, names: set[str]) -> str | None:
    """An import from hyperdrive without these names; None where it has none of them."""
    every = _imported_names(stmt)
    kept = [alias for name, alias in every.items() if name not in names]
    if not isinstance(stmt, ast.ImportFrom) or len(kept) == len(every):
        return None
    return ast.unparse(ast.ImportFrom(stmt.module, kept, 0)) if kept else ""


def _new_imports(
    plan: PythonPlan, changes: list[SweepChange], classes: set[str], imported: set[str]
) -> list[str]:
    """The imports that are missing; refused where one of the names means something else."""
    missing: dict[str, list[str]] = {}
    for module, names in ((RESOURCES_MODULE, [RESOURCES_CLASS]), (SWEEP_MODULE, sorted(classes))):
        for name in names:
            for change in changes:
                bound = plan.resolver.binding(name, change.statement)
                if isinstance(bound, Binding) and bound.value == f"{module}.{name}":
                    continue
                if isinstance(bound, Binding) and name not in imported:
                    raise Refused(
                        f"the name {name} means something else in line {bound.statement.stmt.lineno}"
                    )
                if name not in missing.setdefault(module, []):
                    missing[module].append(name)
    return [f"from {module} import {', '.join(names)}" for module, names in missing.items()]
