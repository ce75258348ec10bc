"""What a target in code is: a step, sweep or command object, with what is said about it and where
more can be said.
"""

from __future__ import annotations

import ast
import os.path
from dataclasses import dataclass, field

import yaml

from arc_toolkit.azureml.documents import Parameter, Setting, State, Target, is_bound
from arc_toolkit.azureml.kinds import Family, Role, Slot, TargetKind
from arc_toolkit.azureml.python import sdk_objects as sdk
from arc_toolkit.azureml.python.code_fields import CodeValue, named_values
from arc_toolkit.azureml.python.sdk_objects import (
    Builder,
    Component,
    PipelineFunction,
    Step,
    Sweep,
    UnknownSdkObject,
    V1Job,
)
from arc_toolkit.edit.code.editor import quoted
from arc_toolkit.edit.code.names import Statement, Use, short
from arc_toolkit.edit.files.edits import Refused
from arc_toolkit.edit.yaml.nodes import KeyPath, YamlNode, pairs, text_of

# Attributes that the settings of `patch` go to.
SETTINGS = frozenset(
    {"resources", "set_resources", "runsettings", "environment_variables", "compute"}
)
_LAYOUT = ("runsettings", "resource_layout", "configure")
# A step whose component is not here, and whose settings prove that it takes them.
PROVEN_KIND = TargetKind(Family.OTHER, Role.STEP, frozenset(Slot))


_PLAIN_PARTS = ast.Constant | ast.List | ast.Load


class CodeTarget(Target):
    """A target in code: its values are expressions."""

    __slots__ = ()

    def written(self, path: KeyPath) -> str:
        node = self.get(*path)
        return short(node.expression) if isinstance(node, CodeValue) else ""


@dataclass(slots=True, eq=False, kw_only=True)
class PythonTarget(CodeTarget):
    """A step, sweep or command object that settings may go to."""

    generation: sdk.SdkVersion
    statement: Statement
    call: ast.Call
    made: Step | Builder | Sweep | V1Job | UnknownSdkObject
    pipeline: PipelineFunction | None = None
    uses: list[Use] = field(default_factory=list)
    refusal: str = ""
    # The sweep made of this step, if any: it takes the settings then.
    is_trial: bool = False
    # The command object that this step is made of, and copies.
    template: PythonTarget | None = None

    @property
    def family(self) -> Family:
        return self.kind.family

    @property
    def builder(self) -> Builder | None:
        """The command object whose settings this one has."""
        origin = self.made.origin if isinstance(self.made, Step) else self.made
        return origin if isinstance(origin, Builder) else None

    @property
    def component(self) -> Component | None:
        sdk_object = self.made.base if isinstance(self.made, Sweep) else self.made
        return (
            sdk_object.origin
            if isinstance(sdk_object, Step) and isinstance(sdk_object.origin, Component)
            else None
        )

    @property
    def legacy_sweep(self) -> bool:
        """Whether it is a sweep of SDK v1.5, which takes no instance type."""
        if self.generation != "v1.5":
            return False
        return self.family == Family.SWEEP or any(
            use.path[:2] == ("runsettings", "sweep") for use in self.uses
        )

    @property
    def is_sweep(self) -> bool:
        return isinstance(self.made, Sweep)

    @property
    def base_family(self) -> Family:
        """What `--kind` knows it by: a trial goes by what its command object is."""
        return self.builder.family if self.builder is not None else self.kind.family

    @property
    def set_resources(self) -> list[Use]:
        return [use for use in self.uses if use.how == "call" and use.path == ("set_resources",)]

    @property
    def field_assignments(self) -> list[Use]:
        """`node.resources.shm_size = ...`, which changes the resources that it has. `set_resources`
        does so too, and is replaced.
        """
        return [use for use in self.uses if use.how == "assign" and use.path[:-1] == ("resources",)]

    @property
    def set_resources_problem(self) -> str:
        """Why its `set_resources` cannot become an assignment."""
        calls = self.set_resources
        if not calls:
            return ""
        call = calls[0].value
        assert isinstance(call, ast.Call)
        if len(calls) > 1:
            return "it is called more than once"
        if self.named(("resources",)):
            return "resources is assigned as well"
        first = calls[0].statement.order
        if any(use.path[:1] == ("resources",) and use.statement.order < first for use in self.uses):
            # set_resources keeps it, because it adds to them.
            return "a value of its resources is set before"
        try:
            self.inherited_resources()
        except Refused as refusal:
            return refusal.reason
        if call.args or any(keyword.arg is None for keyword in call.keywords):
            return "its arguments come from ** or by position"
        return ""

    @property
    def has_resource_statements(self) -> bool:
        """Whether something is said about its resources after it is made."""
        return any(
            use.how != "argument" and use.path[0] in ("resources", "set_resources")
            for use in self.uses
        )

    @property
    def resource_holders(self) -> list[Use]:
        """What holds the resources of this target, and takes more of them."""
        if self.generation == "v2":
            return (
                self.set_resources[:1]
                or self.named(("resources",))[-1:]
                or self._resources_argument
            )
        return [use for use in self.named(_LAYOUT) if isinstance(use.value, ast.Call)][-1:]

    @property
    def _resources_argument(self) -> list[Use]:
        """`CommandJob(resources=...)`."""
        return [
            Use("assign", ("resources",), self.statement, keyword.value)
            for keyword in (self.call.keywords if isinstance(self.made, Builder) else ())
            if keyword.arg == "resources" and not (isinstance(keyword.value, ast.Constant))
        ]

    @property
    def variables_path(self) -> tuple[str, ...]:
        return (
            ("environment_variables",)
            if self.generation == "v2"
            else ("runsettings", "environment_variables")
        )

    @property
    def variables_holder(self) -> tuple[Statement, ast.expr] | None:
        """The dict of its environment variables, and the statement that it is in."""
        holders = [
            (use.statement, use.value)
            for use in self.named(self.variables_path)
            if use.how == "assign"
        ]
        if self.generation == "v1.5" and not holders:
            configured = [
                (use.statement, use.value) for use in self.named(("runsettings", "configure"))
            ]
        else:
            configured = [(self.statement, self.call)] if isinstance(self.made, Builder) else []
        for statement, call in configured if not holders else ():
            for keyword in call.keywords if isinstance(call, ast.Call) else ():
                if keyword.arg == "environment_variables":
                    holders.append((statement, keyword.value))
        return holders[-1] if holders else None

    @property
    def what_lacks_resources(self) -> str:
        """What makes this target without any resources; empty where that is not known."""
        if isinstance(self.made, Builder):
            names = {keyword.arg for keyword in self.call.keywords}
            if (
                None in names
                or names & {"resources", *sdk.RESOURCE_ARGUMENTS}
                or self.made.defaults is not None
            ):
                return ""
            return (
                f"its {self.made.family}(...)" if self.made.family == Family.COMMAND else "its call"
            )
        if self.template is not None:
            return (
                "" if self.template.has_resource_statements else self.template.what_lacks_resources
            )
        component = self.component
        if (
            component is None
            or component.document is None
            or component.document.root.get("resources") is not None
        ):
            return ""
        return os.path.basename(component.file)

    def inherited_resources(self) -> dict[str, str]:
        """What a new `resources` has to repeat of its command object or component; `Refused` where
        it is not plain.
        """
        texts: dict[str, str] = {}
        component = self.component
        document = component.document if component is not None else None
        for name in sdk.RESOURCE_ARGUMENTS:
            node = self.get("resources", name)
            if self.builder is None and not (isinstance(node, CodeValue) and node.inherited):
                node = None
            node = node or self.get("component", "resources", name)
            if isinstance(node, CodeValue):
                texts[name] = self._repeated_text(name, node)
            elif document is not None:
                value = document.root.get("resources", name)
                if value is not None:
                    texts[name] = self._text_of_file(name, value)
        return texts

    def _repeated_text(self, name: str, node: CodeValue) -> str:
        """A value of the command object, or of another step of the component, as it is written."""
        expression = node.expression
        parts = ast.walk(expression)
        if node.opaque or not all(isinstance(part, _PLAIN_PARTS) for part in parts):
            is_copy = self.builder is not None
            who = "its command object" if is_copy else "another step of its component"
            line = expression.lineno
            raise Refused(f"{who} sets {name} to {short(expression)}, in line {line}")
        return " ".join(node.statement.source.slice(expression).split())

    def _text_of_file(self, name: str, value: YamlNode) -> str:
        """A value of the component file as code."""
        text = text_of(value)
        if text is None or is_bound(text):
            problem = "which its own resources would replace"
            raise Refused(f"its component sets {name} to {text or 'a list'}, {problem}")
        is_number = name == "instance_count" and text.isdigit()
        return text if is_number else quoted(text, self.statement.source)

    def holders(self, path: tuple[str | int, ...]) -> list[Use]:
        """The statements that a value at a path would be written into."""
        if path[:1] == ("resources",):
            return self.resource_holders
        return self.named(self.variables_path) if path[:1] == ("environment_variables",) else []

    def is_rejected(self, node: CodeValue, setting: Setting) -> bool:
        """Whether a value is an argument where the call takes none: `resources` takes it.

        `sweep(instance_type=...)` raises TypeError, and `command(instance_count=...)` rejects a
        binding.
        """
        if setting.slot not in (Slot.INSTANCE_TYPE, Slot.INSTANCE_COUNT):
            return False
        is_argument = any(keyword.value is node.expression for keyword in self.call.keywords)
        return is_argument and (self.is_sweep or isinstance(setting.value, Parameter))

    def own_value(self, path: KeyPath) -> CodeValue | None:
        """What is said about this target itself, and not copied from its command object."""
        node = self.get(*path)
        return node if isinstance(node, CodeValue) and not node.inherited else None

    def owns(self, path: KeyPath) -> bool:
        node = self.get(*path)
        if isinstance(node, yaml.MappingNode):
            return any(self.owns((*path, name)) for name in pairs(node))
        return self.own_value(path) is not None

    def is_bound(self, path: KeyPath) -> bool:
        """As in YAML, or by a parameter of the pipeline function; any other expression may be a
        plain number.
        """
        node = self.get(*path)
        if isinstance(node, CodeValue) and isinstance(node.expression, ast.Name):
            names = parameters_of(self.pipeline.function) if self.pipeline is not None else ()
            return not node.inherited and node.expression.id in names
        return (
            isinstance(node, CodeValue)
            and isinstance(node.expression, ast.Constant)
            and isinstance(node.expression.value, str)
            and is_bound(node.expression.value)
        )

    def inherits(self, path: KeyPath) -> bool:
        """Whether it has what its command object says at a path, also if that is set later."""
        if self.template is None or self.owns(path):
            return False
        return not any(use.how == "assign" and use.path == path[:1] for use in self.uses)

    def opaque_reason(self, path: KeyPath) -> str:
        node = self.own_value(path[:1]) or self.own_value(path)
        if node is not None and node.opaque:
            expression = node.expression
            is_holder = (
                isinstance(expression, ast.Call | ast.Dict) and named_values(expression) is None
            )
            if is_holder or any(
                item.arg is None and item.value is expression for item in self.call.keywords
            ):
                return f"the values come from ** in line {expression.lineno}"
            return f"its {str(path[0]).replace('_', ' ')} are {short(expression)}, made elsewhere"
        habit = [
            use for use in self.uses if use.how == "assign" and use.path[:-1] == self.variables_path
        ]
        if path[:1] == Slot.VARIABLES.path and not all(
            isinstance(use.value, ast.Constant) for use in habit
        ):
            return "one of its environment variables is not a literal"
        return ""

    def place_of(self, path: KeyPath) -> YamlNode:
        return self.at

    def state(self, setting: Setting) -> State:
        if self.opaque_reason(setting.path):
            return State.OPAQUE
        node = self.own_value(setting.path)
        if node is None or self.is_rejected(node, setting):
            return State.ABSENT
        value, expression = setting.value, node.expression
        if isinstance(value, Parameter):
            if isinstance(expression, ast.Name) and expression.id == value.name:
                return State.EQUAL
            return State.DIFFERENT if isinstance(expression, ast.Constant) else State.BOUND
        if isinstance(expression, ast.Constant):
            return State.EQUAL if expression.value == value else State.DIFFERENT
        return State.BOUND

    def named(self, *paths: tuple[str, ...]) -> list[Use]:
        """What is said about these attributes, in order."""
        return [use for use in self.uses if use.how != "argument" and use.path in paths]


@dataclass(slots=True, eq=False, kw_only=True)
class PythonPipeline(CodeTarget):
    """A function under `@dsl.pipeline`, with what its decorator says; or a job made of it, with its
    settings.
    """

    statement: Statement
    function: ast.FunctionDef

    @property
    def parameters(self) -> dict[str, ast.expr | None]:
        return parameters_of(self.function)


def parameters_of(function: ast.FunctionDef) -> dict[str, ast.expr | None]:
    """The parameters of a function with their defaults."""
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    required = [None] * (len(positional) - len(arguments.defaults))
    defaults = (*required, *arguments.defaults, *arguments.kw_defaults)
    every = (*positional, *arguments.kwonlyargs)
    return {argument.arg: default for argument, default in zip(every, defaults, strict=True)}
