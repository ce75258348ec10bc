"""Steps, sweeps and jobs in code as the trees that YAML would have for them, so that one set of rules reads both.

A value that is not known without running the code is bound: `${{expression}}`, as in YAML a value that comes from an
input. Nothing here changes code; a value keeps its expression and statement, for whoever does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import PurePath

import yaml

from arc_toolkit.azureml.python.resolve import SdkResolver
from arc_toolkit.edit.code.expressions import last_name, short
from arc_toolkit.edit.code.names import Statement, Use
from arc_toolkit.edit.code.nodes import CodeMark
from arc_toolkit.edit.code.values import OpaqueValue
from arc_toolkit.edit.yaml.nodes import INT, STR

KeyPath = tuple[str, ...]
Fields = dict[KeyPath, "CodeValue"]

_VARIABLES: KeyPath = ("environment_variables",)
_DISTRIBUTION: KeyPath = ("distribution",)
_RESOURCES = ("instance_type", "instance_count", "shm_size", "docker_args", "locations")
# Keyword arguments and attributes -> where YAML has the same.
_PATHS: Mapping[str, KeyPath] = {
    **{name: ("resources", name) for name in _RESOURCES},
    **{name: (name,) for name in ("command", "code", "compute", "distribution", "environment")},
    **{
        name: (name,)
        for name in ("environment_variables", "max_concurrency_per_instance", "component")
    },
    "program_arguments": ("task", "program_arguments"),
    # SDK v1.5
    "node_count": ("resources", "instance_count"),
    "process_count_per_node": ("max_concurrency_per_instance",),
    "target": ("compute",),
}
_DECORATOR: Mapping[str, KeyPath] = {
    "default_compute": ("settings", "default_compute"),
    "default_compute_target": ("settings", "default_compute"),
    "compute": ("compute",),
}
# Between a step and its settings in SDK v1.5, and the `resources` of v2.
_BETWEEN = frozenset({"runsettings", "resource_layout", "parallel", "resources"})
# What says several values at once.
HOLDERS = frozenset(
    {
        ("resources",),
        ("set_resources",),
        ("runsettings", "configure"),
        ("runsettings", "parallel", "configure"),
        ("runsettings", "resource_layout", "configure"),
    }
)
_ENVIRONMENT = ("image", "conda_file", "name")
# The classes of azure.ai.ml for a `distribution`, and its `type`.
_DISTRIBUTIONS = {
    "MpiDistribution": "mpi",
    "PyTorchDistribution": "pytorch",
    "TensorFlowDistribution": "tensorflow",
    "RayDistribution": "ray",
}


class CodeValue(yaml.ScalarNode):
    """A value in code: its text as in YAML, the expression that says it, and the statement that this is in."""

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
        # What holds it cannot be read, so that nothing can be written beside it either.
        self.opaque = opaque
        # Copied from what the target is made of: nothing says it about the target itself.
        self.inherited = False


def named_values(holder: ast.Call | ast.Dict) -> dict[str, ast.expr] | None:
    """The named values of a call or dict display; None when some come from `**`."""
    if isinstance(holder, ast.Call):
        if any(keyword.arg is None for keyword in holder.keywords):
            return None
        return {
            keyword.arg: keyword.value for keyword in holder.keywords if keyword.arg is not None
        }
    if any(key is None for key in holder.keys):
        return None
    pairs = zip(holder.keys, holder.values, strict=True)
    return {
        key.value: value
        for key, value in pairs
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    }


def is_dict(node: ast.expr) -> bool:
    """`{...}`, or `dict(...)` with names only."""
    if isinstance(node, ast.Call):
        return getattr(node.func, "id", "") == "dict" and not node.args
    return isinstance(node, ast.Dict)


class CodeReader:
    """Reads what code says about steps and jobs."""

    def __init__(self, resolver: SdkResolver) -> None:
        self.resolver = resolver

    def value(
        self, expression: ast.expr, statement: Statement, *, opaque: bool = False
    ) -> CodeValue:
        """An expression as the text that YAML would have."""
        try:
            constant = None if opaque else self.resolver.value(expression, statement)
        except OpaqueValue:
            constant = None
        if isinstance(constant, bool):
            return CodeValue(str(constant).lower(), expression, statement)
        if isinstance(constant, int):
            return CodeValue(str(constant), expression, statement, INT)
        if isinstance(constant, str | PurePath):
            return CodeValue(str(constant), expression, statement)
        return CodeValue(f"${{{{{short(expression)}}}}}", expression, statement, opaque=opaque)

    # --- calls -----------------------------------------------------------------------------------------------------

    def call(self, call: ast.Call, statement: Statement) -> Fields:
        """The arguments of `command(...)`, `parallel_run_function(...)` or `.sweep(...)`."""
        fields: Fields = {}
        for keyword in call.keywords:
            if keyword.arg == "task" and isinstance(keyword.value, ast.Call):
                for path, value in self.call(keyword.value, statement).items():
                    fields[path if path[0] == "task" else ("task", *path)] = value
            elif keyword.arg == "resources":
                self._resources(keyword.value, statement, fields)
            elif keyword.arg is not None:
                self._set(fields, keyword.arg, keyword.value, statement)
        for keyword in call.keywords:
            if keyword.arg is None:
                # It may say more than can be read.
                for name in (*_RESOURCES[:2], "compute", *_VARIABLES):
                    fields.setdefault(
                        _PATHS[name], self.value(keyword.value, statement, opaque=True)
                    )
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
            fields |= {
                (*path, *rest): value for rest, value in self._environment(expression, statement)
            }
        else:
            fields[path] = self.value(expression, statement)

    def _set_variables(self, fields: Fields, expression: ast.expr, statement: Statement) -> None:
        for path in [path for path in fields if path[:1] == _VARIABLES]:
            del fields[path]
        names = None
        if isinstance(expression, ast.Call | ast.Dict) and is_dict(expression):
            names = named_values(expression)
        if names is None:
            fields[_VARIABLES] = self.value(expression, statement, opaque=True)
        else:
            fields |= {
                (*_VARIABLES, name): self.value(value, statement) for name, value in names.items()
            }

    def _set_distribution(self, fields: Fields, expression: ast.expr, statement: Statement) -> None:
        """`MpiDistribution(...)` or a dict; anything else is one value that cannot be read."""
        for path in [path for path in fields if path[:1] == _DISTRIBUTION]:
            del fields[path]
        holder, place = expression, statement
        if isinstance(expression, ast.Name):
            holder, place = self.resolver.bound_expression(expression, statement) or (
                expression,
                statement,
            )
        kind = _DISTRIBUTIONS.get(last_name(holder.func)) if isinstance(holder, ast.Call) else None
        names = named_values(holder) if isinstance(holder, ast.Call | ast.Dict) else None
        if names is None or not (kind or is_dict(holder)) or not (kind or "type" in names):
            fields[_DISTRIBUTION] = self.value(expression, statement)
            return
        fields |= {
            (*_DISTRIBUTION, name): self.value(value, place) for name, value in names.items()
        }
        if kind:
            fields[*_DISTRIBUTION, "type"] = CodeValue(kind, expression, statement)

    def _environment(
        self, expression: ast.expr, statement: Statement
    ) -> Iterator[tuple[KeyPath, CodeValue]]:
        """`environment="name"`, or the literals of the `Environment(...)` that it names."""
        value = self.value(expression, statement)
        if isinstance(expression, ast.Name):
            expression, statement = self.resolver.bound_expression(expression, statement) or (
                expression,
                statement,
            )
        if not isinstance(expression, ast.Call):
            yield (), value
            return
        for keyword in expression.keywords:
            if keyword.arg == "build" and isinstance(keyword.value, ast.Call):
                for inner in keyword.value.keywords:
                    if inner.arg in ("path", "dockerfile_path"):
                        yield ("build", inner.arg), self.value(inner.value, statement)
            elif keyword.arg in _ENVIRONMENT:
                yield (keyword.arg,), self.value(keyword.value, statement)

    # --- statements --------------------------------------------------------------------------------------------------

    def uses(self, uses: list[Use], fields: Fields, made: Statement, is_v15: bool) -> None:
        """Statements about a step after the one that made it; the last word counts."""
        for use in uses:
            # Run settings are of SDK v1.5, all else is of v2; an SDK does not know the words of the other.
            if use.how == "argument" or (use.path[0] == "runsettings") != is_v15:
                continue
            if use.path in HOLDERS:
                self._holder(use, fields)
            elif use.how == "assign":
                steps = tuple(step for step in use.path if step not in _BETWEEN)
                others = fields.get(_VARIABLES)
                if (
                    steps[:1] == _VARIABLES
                    and len(steps) == 2
                    and (others is None or others.inherited)
                ):
                    fields.pop(_VARIABLES, None)
                    fields[(*_VARIABLES, steps[1][1:-1])] = self.value(use.value, use.statement)
                elif steps[:1] == _DISTRIBUTION and len(steps) == 2 and _DISTRIBUTION not in fields:
                    fields[steps] = self.value(use.value, use.statement)
                elif len(steps) == 1:
                    self._set(fields, steps[0], use.value, use.statement)
            # What is set under a condition may be set or not.
            if use.statement.block.is_conditional(made.block):
                for path, value in fields.items():
                    if value.statement is use.statement:
                        fields[path] = self.value(value.expression, use.statement, opaque=True)

    def _holder(self, use: Use, fields: Fields) -> None:
        if use.path == ("resources",):
            self._resources(use.value, use.statement, fields)
        else:
            names = named_values(use.value) if isinstance(use.value, ast.Call | ast.Dict) else None
            self._set_resources(names, use.value, use.statement, fields)

    def _resources(self, expression: ast.expr, statement: Statement, fields: Fields) -> None:
        """A new object: nothing of the old one is kept."""
        for path in [path for path in fields if path[:1] == ("resources",)]:
            del fields[path]
        names = named_values(expression) if isinstance(expression, ast.Call | ast.Dict) else None
        if isinstance(expression, ast.Call) and not (
            is_dict(expression) or self.resolver.makes_resources(expression, statement)
        ):
            names = None
        if not (isinstance(expression, ast.Constant) and expression.value is None):
            self._set_resources(names, expression, statement, fields)

    def _set_resources(
        self,
        names: Mapping[str, ast.expr] | None,
        expression: ast.expr,
        statement: Statement,
        fields: Fields,
    ) -> None:
        if names is None:
            for name in _RESOURCES[:2]:
                fields[_PATHS[name]] = self.value(expression, statement, opaque=True)
        for name, value in (names or {}).items():
            self._set(fields, name, value, statement)

    def pipeline(self, function: ast.FunctionDef, statement: Statement) -> Fields:
        """What the decorator of a pipeline says."""
        fields: Fields = {}
        for decorator in function.decorator_list:
            for keyword in decorator.keywords if isinstance(decorator, ast.Call) else ():
                if (path := _DECORATOR.get(keyword.arg or "")) is not None:
                    fields[path] = self.value(keyword.value, statement)
        return fields
