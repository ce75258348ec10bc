"""`HyperDriveConfig(run_config=node, ...)` as `node(...).sweep(...)`, where `node` is an azure-ai-ml command."""

from __future__ import annotations

import ast
from typing import Any

from arc_toolkit.azureml.migrate import hyperdrive, space
from arc_toolkit.azureml.migrate.forms import expression
from arc_toolkit.azureml.migrate.interface import legal
from arc_toolkit.azureml.migrate.python_rewrite import (
    Work,
    alone,
    attempt,
    forget,
    laid_out,
    resources,
    sweep_arguments,
)
from arc_toolkit.edit.edits import Edit, Refused

_CONFIG = (
    "hyperparameter_sampling",
    "primary_metric_name",
    "primary_metric_goal",
    "max_total_runs",
    "max_concurrent_runs",
    "max_duration_minutes",
    "policy",
    "run_config",
)


def configs(work: Work, body: list[ast.stmt]) -> None:
    for index, stmt in enumerate(body):
        if isinstance(stmt, ast.Assign) and work.names.called(stmt.value) == "HyperDriveConfig":
            attempt(work, stmt, lambda trial, stmt=stmt, index=index: _config(trial, body[:index], stmt))  # type: ignore[misc]


def _config(work: Work, before: list[ast.stmt], stmt: ast.Assign) -> str:
    call = stmt.value
    assert isinstance(call, ast.Call)
    if call.args or any(keyword.arg not in _CONFIG for keyword in call.keywords):
        odd = [str(keyword.arg) for keyword in call.keywords if keyword.arg not in _CONFIG] or [
            "positional arguments"
        ]
        raise Refused(f"HyperDriveConfig with {', '.join(odd)} cannot be read")
    given = {str(keyword.arg): keyword.value for keyword in call.keywords}
    if len(stmt.targets) != 1 or not isinstance(stmt.targets[0], ast.Name):
        raise Refused("HyperDriveConfig is not assigned to one name")
    name = stmt.targets[0].id
    spec: dict[str, Any] = {"objective": {}, "limits": {}}
    for key, section, new in (
        ("primary_metric_name", "objective", "primary_metric"),
        ("max_total_runs", "limits", "max_total_trials"),
        ("max_concurrent_runs", "limits", "max_concurrent_trials"),
        ("max_duration_minutes", "limits", "timeout_minutes"),
    ):
        if key in given:
            spec[section][new] = hyperdrive.value(given[key], key)
    goal = given.get("primary_metric_goal")
    if isinstance(goal, ast.Attribute) and work.names.of(goal.value) == "PrimaryMetricGoal":
        spec["objective"]["goal"] = goal.attr.lower()
        forget(work, goal.value)
    if "policy" in given and not (isinstance(given["policy"], ast.Constant) and given["policy"].value is None):
        policy = given["policy"]
        kind = work.names.called(policy)
        if kind not in hyperdrive.POLICIES or not isinstance(policy, ast.Call):
            raise Refused("policy is not given as a hyperdrive call inside HyperDriveConfig")
        spec["early_termination"] = hyperdrive.policy(policy, str(kind))
        forget(work, policy.func)
    sampled = _sampling(work, given.get("hyperparameter_sampling"), spec)
    arguments = sweep_arguments(work, spec)
    run = given.get("run_config")
    made = _resolved(run, before) if run is not None else None
    values = ", ".join(f"{key}={text}" for key, text in sampled.items())
    if not (isinstance(made, ast.Call) and ast.unparse(made.func).split(".")[-1] == "command"):
        node = ast.unparse(run) if run is not None else "node"
        text = f"{name} = {node}({values}).sweep({', '.join(arguments)})"
        raise Refused(f"{node} is no azure-ai-ml command; once it is, write {text}")
    assert isinstance(run, ast.expr)
    glue = work.source.newline + work.source.indent(work.source.start(stmt))
    text = laid_out(f"{work.source.slice(run)}({values}).sweep", arguments, glue)
    after = f"{glue}{name}.resources = {resources(work, {})}"
    alone(work, stmt)
    work.edits.append(Edit(work.source.start(call), work.source.end(call), text + after))
    forget(work, call.func)
    return f"HyperDriveConfig is written as {ast.unparse(run)}(...).sweep(...)"


def _sampling(work: Work, node: ast.expr | None, spec: dict[str, Any]) -> dict[str, str]:
    """Parameter -> distribution of `RandomParameterSampling({...})`."""
    kind = work.names.called(node) if node is not None else None
    if kind not in hyperdrive.SAMPLINGS or not isinstance(node, ast.Call):
        raise Refused("hyperparameter_sampling is not given as a hyperdrive call inside HyperDriveConfig")
    space_node = node.args[0] if node.args else node.keywords[0].value if node.keywords else None
    if not isinstance(space_node, ast.Dict) or len(node.args) + len(node.keywords) != 1:
        raise Refused(f"the parameter space of {kind} is no literal dict", line=node.lineno)
    spec["algorithm"] = hyperdrive.SAMPLINGS[kind]
    forget(work, node.func)
    out = {}
    for key, item in zip(space_node.keys, space_node.values, strict=True):
        name = hyperdrive.value(key, "a parameter's name") if key is not None else None
        drawn = work.names.called(item)
        if not isinstance(name, str) or drawn not in space.DISTRIBUTIONS or not isinstance(item, ast.Call):
            raise Refused(f"{name or '**'} in {kind} is no hyperdrive distribution", line=item.lineno)
        new = legal(name.lstrip("-"))
        out[new] = expression(hyperdrive.distribution(item, drawn, new), work.classes)
        forget(work, item.func)
    return out


def _resolved(node: ast.expr, before: list[ast.stmt]) -> ast.expr:
    """What a name was last given in the statements before, if it was given once; else the node itself."""
    if not isinstance(node, ast.Name):
        return node
    found = [
        stmt.value
        for stmt in before
        if isinstance(stmt, ast.Assign) and [ast.unparse(target) for target in stmt.targets] == [node.id]
    ]
    return found[0] if len(found) == 1 else node
