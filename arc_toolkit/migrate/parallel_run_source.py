"""The fields of a v1 ParallelRunStep and its ParallelRunConfig, read from Python code.

Signatures: azureml-pipeline-steps 1.62. What is set on the config after it is made counts as well.
"""

from __future__ import annotations

import ast
import os.path
from dataclasses import dataclass, field
from typing import Any

import yaml

from arc_toolkit.azureml.python.parallel_runs import (
    CONFIG,
    CONFIG_ORDER,
    REQUIRED,
    STEP,
    STEP_ORDER,
    PrsCall,
)
from arc_toolkit.azureml.python.resolve import SdkResolver
from arc_toolkit.edit.code.expressions import short
from arc_toolkit.edit.code.names import Binding, Statement
from arc_toolkit.migrate.v1_data import V1Data
from arc_toolkit.migrate.v1_values import (
    Arguments,
    NotPlain,
    PipelineParameter,
    Unsaid,
    arguments,
)

# Names of fields in a file of a config.
_IN_FILE = {"compute_target_name": "compute_target", "environment_name": "environment"}
# Methods of a config that do not change it, and calls that take it as what it is.
_HARMLESS = frozenset({"save_to_yaml", STEP, "print", "display", "type", "str", "repr"})


@dataclass
class PrsFields:
    """What the code says about one step: values, values that it does not say with their text, and remarks."""

    values: dict[str, Any] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def read_fields(step: PrsCall | None, config: PrsCall | None, resolver: SdkResolver) -> PrsFields:
    """All fields of a step and its config, or of a config alone."""
    values, fields = V1Data(resolver), PrsFields()
    if config is not None:
        given = arguments(config.call, CONFIG_ORDER, config.statement)
        _changes(given, config, step.statement if step else None, values, fields)
        _read(given, values, fields)
    if step is not None:
        given = arguments(step.call, STEP_ORDER, step.statement)
        holder = given.values.pop("parallel_run_config", None)
        if config is None:
            if holder is None or not _from_file(*values.follow(*holder), resolver, fields):
                text = short(holder[0]) if holder is not None else "nothing"
                fields.notes.append(
                    f"parallel_run_config is {text}, which is not made here: "
                    "its fields are not known"
                )
                fields.unknown |= dict.fromkeys(REQUIRED, f"a part of {text}")
        elif holder is not None and values.follow(*holder)[0] is not config.call:
            fields.notes.append(f"{short(holder[0])} is taken for the one {CONFIG} of the file")
        _read(given, values, fields)
    fields.notes += values.remarks
    return fields


def _from_file(
    made: ast.expr, statement: Statement, resolver: SdkResolver, fields: PrsFields
) -> bool:
    """`ParallelRunConfig.load_yaml(ws, "config.yml")`: what the file says, as `save_to_yaml` writes it."""
    if not (
        isinstance(made, ast.Call)
        and isinstance(made.func, ast.Attribute)
        and made.func.attr == "load_yaml"
    ):
        return False
    given = arguments(made, ("workspace", "path"), statement).values.get("path")
    name = resolver.text(*given) if given is not None else None
    if name is None or resolver.role(made.func.value, statement).name != CONFIG:
        return False
    try:
        content = yaml.safe_load(resolver.library.read(os.path.join(resolver.folder, name)))
    except (OSError, ValueError, yaml.YAMLError):
        return False
    config = content.get("parallel_run_config") if isinstance(content, dict) else None
    if not isinstance(config, dict):
        return False
    said: dict[str, Any] = {
        _IN_FILE.get(str(key), str(key)): value
        for key, value in config.items()
        if value is not None
    }
    version = said.pop("environment_version", None)
    if version is not None and "environment" in said:
        said["environment"] = f"{said['environment']}:{version}"
    fields.values |= {
        key: value for key, value in said.items() if key not in ("input_format", "version")
    }
    fields.notes.append(f"the fields of parallel_run_config are those of {name}")
    return True


def _changes(
    given: Arguments,
    config: PrsCall,
    until: Statement | None,
    values: V1Data,
    fields: PrsFields,
) -> None:
    """What is set on the config after it is made, into its arguments."""
    stmt = config.statement.stmt
    if not (
        isinstance(stmt, ast.Assign)
        and stmt.value is config.call
        and isinstance(stmt.targets[0], ast.Name)
    ):
        return
    for use in values.uses(Binding(stmt.targets[0].id, config.statement, config.call), until):
        line = use.statement.source.file_line(use.statement.stmt.lineno)
        if use.how == "argument":
            if use.path[0] not in _HARMLESS:
                fields.notes.append(
                    f"{use.path[0]}() gets the config in line {line}: what it sets is not read"
                )
        elif (
            use.how == "assign"
            and len(use.path) == 1
            and use.statement.is_certain_before(until or config.statement)
        ):
            given.values[use.path[0]] = use.value, use.statement
        elif use.how == "assign" and use.path[0] == "environment_variables" and len(use.path) == 2:
            try:
                fields.values.setdefault("more_variables", {})[use.path[1][1:-1]] = values.plain(
                    use.value, use.statement
                )
            except NotPlain:
                fields.unknown["environment_variables"] = short(use.value)
        elif use.path[-1] not in _HARMLESS:
            fields.unknown[".".join(use.path)] = short(use.value)


def _read(given: Arguments, values: V1Data, fields: PrsFields) -> None:
    for name, (node, statement) in given.values.items():
        try:
            value = _value(name, node, statement, values)
        except NotPlain:
            fields.values.pop(name, None)
            fields.unknown[name] = short(node)
            continue
        if isinstance(value, PipelineParameter):
            fields.notes.append(
                f"{name} is the PipelineParameter {value.name}: its default {value.default!r} is written"
            )
            value = value.default
        fields.values[name] = value
        fields.unknown.pop(name, None)
        if name == "arguments" and (
            unsaid := [item.text for item in value if isinstance(item, Unsaid)]
        ):
            fields.unknown[name] = ", ".join(unsaid)
        if name == "environment":
            try:
                variables = values.variables(node, statement)
            except NotPlain:
                fields.unknown["environment_variables"] = f"set on {short(node)}"
            else:
                fields.values["more_variables"] = {
                    **variables,
                    **fields.values.get("more_variables", {}),
                }
    if given.rest:
        fields.unknown["**"] = given.rest


def _value(name: str, node: ast.expr, statement: Statement, values: V1Data) -> Any:
    match name:
        case "environment":
            return values.environment(node, statement)
        case "compute_target":
            return values.named(node, statement)
        case "inputs" | "side_inputs":
            return [values.data(item, where) for item, where in _items(node, statement, values)]
        case "output":
            return values.output(node, statement)
        case "arguments":
            return script_arguments(node, statement, values)
    return values.plain(node, statement)


def script_arguments(node: ast.expr, statement: Statement, values: V1Data) -> list[Any]:
    """Arguments of a script: plain values, and the data, outputs and parameters among them."""
    try:
        items = _items(node, statement, values)
    except NotPlain:  # a list that is changed after it is made, or one with others in it
        return list(values.plain(node, statement))
    return [_argument(item, where, values) for item, where in items]


def _argument(node: ast.expr, statement: Statement, values: V1Data) -> Any:
    if values.is_output(node, statement):
        return values.output(node, statement)
    try:
        return values.plain(node, statement)
    except NotPlain:
        return (
            values.data(node, statement) if values.is_data(node, statement) else Unsaid(short(node))
        )


def _items(
    node: ast.expr, statement: Statement, values: V1Data
) -> list[tuple[ast.expr, Statement]]:
    """The expressions in a list, or the one that is given without a list."""
    made, where = values.follow(node, statement)
    if isinstance(made, ast.List | ast.Tuple):
        if isinstance(node, ast.Name) and values.is_changed(node, statement):
            raise NotPlain(f"{node.id} is changed after it is made")
        if any(isinstance(item, ast.Starred) for item in made.elts):
            raise NotPlain(f"it is {short(made)}")
        return [(item, where) for item in made.elts]
    return [(node, statement)]
