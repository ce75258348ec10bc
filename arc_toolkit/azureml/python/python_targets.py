"""What a target in code is: a step, sweep or command object, with what is said about it and where
more can be said.
"""

from __future__ import annotations

import ast
import os.path
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

import yaml

from arc_toolkit.azureml.documents import Parameter, Setting, State, Target, is_bound
from arc_toolkit.azureml.kinds import Family, Role, Slot, TargetKind
from arc_toolkit.azureml.python import sdk_objects as sdk
from arc_toolkit.azureml.python.resolve import SdkResolver
from arc_toolkit.azureml.python.sdk_objects import (
    RESOURCE_ARGUMENTS,
    Builder,
    Component,
    PipelineFunction,
    Step,
    Sweep,
    UnknownSdkObject,
    V1Job,
)
from arc_toolkit.edit.code.editor import quoted
from arc_toolkit.edit.code.names import Statement, Use, last_name, short
from arc_toolkit.edit.code.nodes import CodeMark
from arc_toolkit.edit.code.values import OpaqueValue
from arc_toolkit.edit.files.edits import Refused
from arc_toolkit.edit.yaml.nodes import INT, STR, KeyPath, YamlNode, pairs, text_of

FieldPath = tuple[str, ...]
Fields = dict[FieldPath, "CodeValue"]

_VARIABLES: FieldPath = ("environment_variables",)
_DISTRIBUTION: FieldPath = ("distribution",)
_TYPE_AND_COUNT = (("resources", "instance_type"), ("resources", "instance_count"))
# Keyword arguments and attributes -> where YAML has the same.
_PATHS: Mapping[str, FieldPath] = {
    **{name: ("resources", name) for name in RESOURCE_ARGUMENTS},
    **{name: (name,) for name in ("command", "code", "compute", "distribution", "environment")},
    **{name: (name,) for name in ("environment_variables", "component")},
    "max_concurrency_per_instance": ("max_concurrency_per_instance",),
    "program_arguments": ("task", "program_arguments"),
    # SDK v1.5
    "node_count": ("resources", "instance_count"),
    "process_count_per_node": ("max_concurrency_per_instance",),
    "target": ("compute",),
}
_DECORATOR: Mapping[str | None, FieldPath] = {
    "default_compute": ("settings", "default_compute"),
    "default_compute_target": ("settings", "default_compute"),
    "compute": ("compute",),
}
# Between a step and its settings in SDK v1.5, and the `resources` of v2.
_BETWEEN = frozenset({"runsettings", "resource_layout", "parallel", "resources"})
# Attributes that take several values at once.
_HOLDERS = frozenset(
    {
        ("resources",),
        ("set_resources",),
        ("runsettings", "configure"),
        ("runsettings", "parallel", "configure"),
        ("runsettings", "resource_layout", "configure"),
    }
)
# The classes of azure.ai.ml for a `distribution`, and its `type`.
_DISTRIBUTIONS = {
    "MpiDistribution": "mpi",
    "PyTorchDistribution": "pytorch",
    "TensorFlowDistribution": "tensorflow",
    "RayDistribution": "ray",
}


class CodeValue(yaml.ScalarNode):
    """A value in code: its text as in YAML, its expression, and the statement that this is in.

    `opaque`: what holds it cannot be read, so nothing can be written beside it either. `inherited`:
    copied from what the target is made of, while nothing says it about the target itself.
    `constant`: the literal that the name in the expression is bound to, and its statement.
    """

    def __init__(
        self,
        text: str,
        expression: ast.expr,
        statement: Statement,
        tag: str = STR,
        *,
        opaque: bool = False,
    ) -> None:
        mark = CodeMark(statement.source, expression)
        super().__init__(tag, text, mark, mark)
        self.expression = expression
        self.statement = statement
        self.opaque = opaque
        self.inherited = False
        self.constant: tuple[ast.Constant, Statement] | None = None


def named_values(holder: ast.expr) -> dict[str, ast.expr] | None:
    """The named values of a call or dict display; None when some come from `**`, or for anything
    else.
    """
    names: list[object]
    if isinstance(holder, ast.Call):
        names = [keyword.arg for keyword in holder.keywords]
        values = [keyword.value for keyword in holder.keywords]
    elif isinstance(holder, ast.Dict):
        names = [key and getattr(key, "value", ...) for key in holder.keys]
        values = holder.values
    else:
        return None
    pairs = zip(names, values, strict=True)
    return None if None in names else {key: item for key, item in pairs if isinstance(key, str)}


def is_dict(node: ast.expr) -> bool:
    """`{...}`, or `dict(...)` with names only."""
    if isinstance(node, ast.Call):
        return getattr(node.func, "id", "") == "dict" and not node.args
    return isinstance(node, ast.Dict)


class FieldReader:
    """Reads the fields that the calls and statements of one module set."""

    def __init__(self, resolver: SdkResolver) -> None:
        self._resolver = resolver

    def value(
        self, expression: ast.expr, statement: Statement, *, opaque: bool = False
    ) -> CodeValue:
        """An expression as the text that YAML would have."""
        try:
            value = None if opaque else self._resolver.value(expression, statement)
        except OpaqueValue:
            value = None
        if not isinstance(value, bool | int | str | PurePath):
            return CodeValue(f"${{{{{short(expression)}}}}}", expression, statement, opaque=opaque)
        text = str(value).lower() if isinstance(value, bool) else str(value)
        made = CodeValue(text, expression, statement, INT if type(value) is int else STR)
        if isinstance(expression, ast.Name):
            bound, place = self._bound(expression, statement)
            if isinstance(bound, ast.Constant):
                made.constant = bound, place
        return made

    # --- calls ---

    def call_fields(self, call: ast.Call, statement: Statement) -> Fields:
        """The arguments of `command(...)`, `parallel_run_function(...)` or `.sweep(...)`."""
        fields: Fields = {}
        for keyword in call.keywords:
            if keyword.arg == "task" and isinstance(keyword.value, ast.Call):
                for path, value in self.call_fields(keyword.value, statement).items():
                    fields[path if path[0] == "task" else ("task", *path)] = value
            elif keyword.arg == "resources":
                self._set_resources(keyword.value, statement, fields)
            elif keyword.arg is not None:
                self._set(fields, keyword.arg, keyword.value, statement)
        for keyword in call.keywords:
            # It may say more than can be read.
            for path in (*_TYPE_AND_COUNT, ("compute",), _VARIABLES) if keyword.arg is None else ():
                fields.setdefault(path, self.value(keyword.value, statement, opaque=True))
        return fields

    def decorator_fields(self, function: ast.FunctionDef, statement: Statement) -> Fields:
        """What the decorator of a pipeline sets."""
        fields: Fields = {}
        for decorator in function.decorator_list:
            for keyword in decorator.keywords if isinstance(decorator, ast.Call) else ():
                if (path := _DECORATOR.get(keyword.arg)) is not None:
                    fields[path] = self.value(keyword.value, statement)
        return fields

    def _set(self, fields: Fields, name: str, expression: ast.expr, statement: Statement) -> None:
        path = _PATHS.get(name)
        if path is None:
            return
        if isinstance(expression, ast.Constant) and expression.value is None:
            fields.pop(path, None)
        elif path == _VARIABLES:
            self._set_variables(fields, expression, statement)
        elif path == _DISTRIBUTION:
            self._set_distribution(fields, expression, statement)
        elif path == ("environment",):
            for inner, value in self._environment(expression, statement):
                fields[(*path, *inner)] = value
        else:
            fields[path] = self.value(expression, statement)

    def _set_variables(self, fields: Fields, expression: ast.expr, statement: Statement) -> None:
        _remove(fields, _VARIABLES)
        names = named_values(expression) if is_dict(expression) else None
        if names is None:
            fields[_VARIABLES] = self.value(expression, statement, opaque=True)
        for name, value in (names or {}).items():
            fields[*_VARIABLES, name] = self.value(value, statement)

    def _set_distribution(self, fields: Fields, expression: ast.expr, statement: Statement) -> None:
        """`MpiDistribution(...)` or a dict; anything else is one value that cannot be read."""
        _remove(fields, _DISTRIBUTION)
        holder, place = self._bound(expression, statement)
        kind = _DISTRIBUTIONS.get(last_name(holder.func)) if isinstance(holder, ast.Call) else None
        names = named_values(holder)
        if names is None or not (kind or (is_dict(holder) and "type" in names)):
            fields[_DISTRIBUTION] = self.value(expression, statement)
            return
        for name, value in names.items():
            fields[*_DISTRIBUTION, name] = self.value(value, place)
        if kind:
            fields[*_DISTRIBUTION, "type"] = CodeValue(kind, expression, statement)

    def _environment(
        self, expression: ast.expr, statement: Statement
    ) -> Iterator[tuple[FieldPath, CodeValue]]:
        """`environment="name"`, or the literals of the `Environment(...)` that it names."""
        holder, place = self._bound(expression, statement)
        if not isinstance(holder, ast.Call):
            yield (), self.value(expression, statement)
            return
        for keyword in holder.keywords:
            if keyword.arg == "build" and isinstance(keyword.value, ast.Call):
                for inner in keyword.value.keywords:
                    if inner.arg in ("path", "dockerfile_path"):
                        yield ("build", inner.arg), self.value(inner.value, place)
            elif keyword.arg in ("image", "conda_file", "name"):
                yield (keyword.arg,), self.value(keyword.value, place)

    def _bound(self, node: ast.expr, statement: Statement) -> tuple[ast.expr, Statement]:
        bound = None
        if isinstance(node, ast.Name):
            bound = self._resolver.bound_expression(node, statement)
        return bound or (node, statement)

    # --- statements ---

    def apply_uses(
        self, uses: Sequence[Use], fields: Fields, made: Statement, *, is_v15: bool = False
    ) -> None:
        """Statements about a step after the one that made it; the last one counts."""
        for use in uses:
            # Run settings are of SDK v1.5, all else is of v2; an SDK does not know the words of the
            # other.
            if use.how == "argument" or (use.path[0] == "runsettings") != is_v15:
                continue
            if use.path == ("resources",):
                self._set_resources(use.value, use.statement, fields)
            elif use.path in _HOLDERS:
                self._set_several(use.value, use.statement, fields)
            elif use.how == "assign":
                self._assign(use, fields)
            # A value that is set under a condition may be set or not.
            if use.statement.block.is_conditional(made.block):
                for path, value in fields.items():
                    if value.statement is use.statement:
                        fields[path] = self.value(value.expression, use.statement, opaque=True)

    def _assign(self, use: Use, fields: Fields) -> None:
        path = tuple(part for part in use.path if part not in _BETWEEN)
        whole = fields.get(path[:1])
        if len(path) == 1:
            self._set(fields, path[0], use.value, use.statement)
        elif len(path) == 2 and path[:1] == _VARIABLES and (whole is None or whole.inherited):
            fields.pop(_VARIABLES, None)
            fields[*_VARIABLES, path[1][1:-1]] = self.value(use.value, use.statement)
        elif len(path) == 2 and path[:1] == _DISTRIBUTION and whole is None:
            fields[path] = self.value(use.value, use.statement)

    def _set_resources(self, expression: ast.expr, statement: Statement, fields: Fields) -> None:
        """A new object: nothing of the old one stays."""
        _remove(fields, ("resources",))
        is_readable = is_dict(expression) or self._resolver.makes_resources(expression, statement)
        if isinstance(expression, ast.Call) and not is_readable:
            self._set_opaque_resources(expression, statement, fields)
        elif not (isinstance(expression, ast.Constant) and expression.value is None):
            self._set_several(expression, statement, fields)

    def _set_several(self, holder: ast.expr, statement: Statement, fields: Fields) -> None:
        names = named_values(holder)
        if names is None:
            self._set_opaque_resources(holder, statement, fields)
        for name, value in (names or {}).items():
            self._set(fields, name, value, statement)

    def _set_opaque_resources(
        self, expression: ast.expr, statement: Statement, fields: Fields
    ) -> None:
        for path in _TYPE_AND_COUNT:
            fields[path] = self.value(expression, statement, opaque=True)


def _remove(fields: Fields, prefix: FieldPath) -> None:
    for path in [path for path in fields if path[:1] == prefix]:
        del fields[path]


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

    def is_bound(self, path: KeyPath) -> bool:
        """Whether an input gives the value; another expression may be a plain number."""
        expression = getattr(self.get(*path), "expression", None)
        text = expression.value if isinstance(expression, ast.Constant) else None
        return isinstance(text, str) and is_bound(text)


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
        """As in YAML, or by a parameter of the pipeline function."""
        node = self.own_value(path)
        if node is not None and isinstance(node.expression, ast.Name) and self.pipeline is not None:
            return node.expression.id in parameters_of(self.pipeline.function)
        return CodeTarget.is_bound(self, path)

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
        literal = node.constant[0] if node.constant is not None else expression
        if isinstance(literal, ast.Constant):
            return State.EQUAL if literal.value == value else State.DIFFERENT
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
