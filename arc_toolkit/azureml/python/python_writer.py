"""Settings into code, in the form that each SDK has for them.

SDK v2: keyword arguments of a command object, or `node.resources = JobResourceConfiguration(...)`;
v1.5: `step.runsettings.resource_layout.configure(...)`. New statements are collected and written by
`finish`, one for each step and kind of setting; values that are there are replaced where they are.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from arc_toolkit.azureml.documents import Parameter, Setting
from arc_toolkit.azureml.kinds import Slot
from arc_toolkit.azureml.python import sdk_objects as sdk
from arc_toolkit.azureml.python.python_targets import PythonTarget, is_dict
from arc_toolkit.azureml.python.resolve import SdkResolver
from arc_toolkit.azureml.python.sdk_objects import Builder, Sweep, is_resources_class
from arc_toolkit.edit.code.editor import Changes, StatementSite, quoted
from arc_toolkit.edit.code.imports import NeededImports
from arc_toolkit.edit.code.names import Binding, Statement, Use, short
from arc_toolkit.edit.code.source import Source
from arc_toolkit.edit.files.edits import Edit, Refused


@dataclass
class _NewStatements:
    """What is to be said about a target after the statement that makes it."""

    target: PythonTarget
    # The callee of the new `resources`, and what of a command object it has to repeat.
    callee: str = ""
    repeated: dict[str, str] = field(default_factory=dict)
    resources: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    compute: str = ""


class PythonWriter:
    """Collects the changes of one file."""

    def __init__(self, resolver: SdkResolver) -> None:
        self.resolver = resolver
        self.changes = Changes()
        # Values written so far: a value is refused before anything of it is written.
        self.change_count = 0
        self._new: dict[int, _NewStatements] = {}
        # Function and name of the parameters to add, with their defaults; whether a step is bound
        # to one.
        self._parameters: dict[tuple[int, str], Callable[[], None]] = {}

    def edits(self) -> list[Edit]:
        """The edits of the whole file's text."""
        return [
            edit for source, own in self.changes.edits().values() for edit in source.in_file(own)
        ]

    # --- values ---

    def write(self, target: PythonTarget, setting: Setting, text: str, *, in_call: bool) -> None:
        """A value where it is already, else where it belongs; `Refused` where it has no place.

        `in_call`: a command object takes it as an argument of its call.
        """
        node = target.own_value(setting.path)
        if node is not None and not target.is_rejected(node, setting):
            if isinstance(setting.value, Parameter) and setting.slot == Slot.INSTANCE_COUNT:
                self._check_bound_count(target)
            self.changes.replace(node.statement, node.expression, text)
        elif setting.slot == Slot.VARIABLES:
            self._add_variable(target, str(setting.path[-1]), text)
        elif setting.slot == Slot.COMPUTE:
            if isinstance(target.made, Builder | Sweep):
                self.changes.set(target.statement, target.call, "compute", text)
            else:
                self._statements(target).compute = text
        else:
            self._write_resource(target, str(setting.path[-1]), text, in_call, setting.value)
        self.change_count += 1
        if isinstance(setting.value, Parameter) and target.pipeline is not None:
            self.bind(target.pipeline.function, setting.value.name)

    def _write_resource(
        self,
        target: PythonTarget,
        name: str,
        text: str,
        in_call: bool,
        value: str | int | Parameter,
    ) -> None:
        holders = target.resource_holders
        others = [
            use for use in target.uses if use.how == "assign" and use.path[:1] == ("resources",)
        ]
        if isinstance(value, Parameter) and name == "instance_count":
            self._check_bound_count(target)
        if holders:
            self._fill(holders[0].statement, holders[0].value, name, text)
        elif others and target.generation == "v2":
            # `node.resources.x = ...` is there, so `resources` is not None: one more of the same
            # kind.
            self.changes.insert_after(
                others[-1].statement, f"{target.name}.resources.{name} = {text}"
            )
        elif isinstance(target.made, Builder) and in_call and not target.made.is_entity:
            self.changes.set(target.statement, target.call, name, text)
        else:
            self.add_resource(target, name, text)

    def _check_bound_count(self, target: PythonTarget) -> None:
        """A dict takes numbers only, and so does the component, which
        `node.resources.instance_count = x` writes into unless the node has resources of its own
        (azure-ai-ml 1.35.2: "int() argument must be ...").
        """
        if target.generation != "v2":
            return
        holders = target.resource_holders
        in_dict = any(is_dict(use.value) for use in holders)
        in_component = (
            target.builder is None and not holders and target.named(("resources", "instance_count"))
        )
        if in_dict or in_component:
            raise Refused(
                "a bound count in these resources fails to serialize, so it stays a literal"
            )

    def add_resource(
        self, target: PythonTarget, name: str, text: str, *, keep: bool = False
    ) -> None:
        """Into the new resources of a target; with `keep` unless it says that already."""
        new = self._statements(target)
        if target.generation == "v2":
            new.repeated, new.callee = (
                target.inherited_resources(),
                self.resources_class(target.statement),
            )
        new.resources[name] = new.resources.get(name, text) if keep else text

    def assign_resources(self, target: PythonTarget, use: Use) -> None:
        """`node.set_resources(...)` becomes an assignment, which repeats what the call would have
        kept.
        """
        call = use.value
        assert isinstance(call, ast.Call)
        there = {keyword.arg for keyword in call.keywords}
        for name, text in target.inherited_resources().items():
            if name not in there:
                self.changes.set(use.statement, call, name, text, keep=True)
        assert isinstance(call.func, ast.Attribute)
        holder = use.statement.source.slice(call.func.value)
        self.changes.call_to_assignment(
            use.statement, f"{holder}.resources", self.resources_class(use.statement)
        )

    def _add_variable(self, target: PythonTarget, name: str, text: str) -> None:
        holder = target.variables_holder
        habit = [
            use
            for use in target.uses
            if use.how == "assign" and use.path[:-1] == target.variables_path
        ]
        if holder is not None:
            self._fill(*holder, name, text)
        elif habit:
            path = ".".join((target.name, *target.variables_path))
            self.changes.insert_after(
                habit[-1].statement, f"{path}[{quoted(name, target.statement.source)}] = {text}"
            )
        else:
            self._statements(target).variables[name] = text

    def _fill(self, site: StatementSite, holder: ast.expr, name: str, text: str) -> None:
        if isinstance(holder, ast.Call | ast.Dict):
            self.changes.set(site, holder, name, text)
        else:
            raise Refused(f"it comes from {short(holder)}, which is made elsewhere")

    def _statements(self, target: PythonTarget) -> _NewStatements:
        return self._new.setdefault(id(target), _NewStatements(target))

    def on_bound(self, function: ast.FunctionDef, name: str, add: Callable[[], None]) -> None:
        """What to do when a step of this function is bound to this parameter."""
        self._parameters[id(function), name] = add

    def bind(self, function: ast.FunctionDef, name: str) -> None:
        """Something is bound to a parameter: it is added if it is not there."""
        self._parameters.get((id(function), name), lambda: None)()

    def finish(self) -> None:
        """Write the new statements."""
        for new in self._new.values():
            target, name, source = new.target, new.target.name, new.target.statement.source
            is_v2 = target.generation == "v2"
            if new.resources:
                order = [*new.repeated, *sorted(new.resources, key=sdk.RESOURCE_ARGUMENTS.index)]
                values = {**new.repeated, **new.resources}
                arguments = ", ".join(f"{key}={values[key]}" for key in dict.fromkeys(order))
                statement = f"{name}.runsettings.resource_layout.configure({arguments})"
                if isinstance(target.made, Builder) and target.made.is_entity:
                    self.changes.set(
                        target.statement, target.call, "resources", f"{new.callee}({arguments})"
                    )
                else:
                    if is_v2:
                        statement = f"{name}.resources = {new.callee}({arguments})"
                    self.changes.insert_after(target.statement, statement)
            if new.variables and isinstance(target.made, Builder):
                variables = _display(new.variables, source)
                self.changes.set(target.statement, target.call, "environment_variables", variables)
            elif new.variables:
                path = ".".join((name, *target.variables_path))
                lines = [f"{path} = {_display(new.variables, source)}"]
                if (
                    target.template is not None
                ):  # it has those of its command object, and keeps them
                    lines = [
                        f"{path}[{quoted(key, source)}] = {text}"
                        for key, text in new.variables.items()
                    ]
                for line in lines:
                    self.changes.insert_after(target.statement, line)
            if new.compute:
                attribute = "compute" if is_v2 else "runsettings.target"
                self.changes.insert_after(target.statement, f"{name}.{attribute} = {new.compute}")
        self._new.clear()

    # --- imports ---

    @cached_property
    def _imports(self) -> NeededImports:
        return NeededImports(self.changes, self.resolver.module.top)

    def resources_class(self, statement: Statement) -> str:
        """The local name of JobResourceConfiguration, imported where it has to be; `Refused` when
        it cannot.
        """
        return self._imports.local_name(
            statement,
            sdk.RESOURCES_MODULE,
            sdk.RESOURCES_CLASS,
            is_it=is_resources_class,
            is_near=_is_sdk,
            is_taken=isinstance(self.resolver.binding(sdk.RESOURCES_CLASS, statement), Binding),
        )


def _display(variables: Mapping[str, str], source: Source) -> str:
    return (
        "{" + ", ".join(f"{quoted(name, source)}: {text}" for name, text in variables.items()) + "}"
    )


def _is_sdk(module: str) -> bool:
    return module == "azure.ai.ml" or module.startswith("azure.ai.ml.")
