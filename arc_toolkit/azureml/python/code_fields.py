"""What code says about a step, sweep or job, as the fields that YAML would have for it: one set of
rules reads both.

    job = command(instance_type="big", environment_variables={"A": "1"}, compute=COMPUTE)
    job.resources.instance_count = 2

    {("resources", "instance_type"): big, ("environment_variables", "A"): 1,
     ("compute",): ${{COMPUTE}}, ("resources", "instance_count"): 2}

A value that is not known without running the code is bound: `${{expression}}`, as in YAML a value
that comes from an input. Nothing here changes code; a value keeps its expression and statement, for
whoever does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath

import yaml

from arc_toolkit.azureml.python.resolve import SdkResolver
from arc_toolkit.azureml.python.sdk_objects import RESOURCE_ARGUMENTS
from arc_toolkit.edit.code.names import Statement, Use, last_name, short
from arc_toolkit.edit.code.nodes import CodeMark
from arc_toolkit.edit.code.values import OpaqueValue
from arc_toolkit.edit.yaml.nodes import INT, STR

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
        match value:
            case bool():
                return CodeValue(str(value).lower(), expression, statement)
            case int():
                return CodeValue(str(value), expression, statement, INT)
            case str() | PurePath():
                return CodeValue(str(value), expression, statement)
        return CodeValue(f"${{{{{short(expression)}}}}}", expression, statement, opaque=opaque)

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
