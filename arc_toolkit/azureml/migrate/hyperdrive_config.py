"""`HyperDriveConfig(run_config=node, ...)` as `node(...).sweep(...)`, where `node` is an azure-ai-ml command."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from arc_toolkit.azureml.kinds import Family
from arc_toolkit.azureml.migrate.hyperdrive import SAMPLINGS, HyperdriveReader, value
from arc_toolkit.azureml.migrate.interface import legal
from arc_toolkit.azureml.migrate.python_text import call_lines, call_text
from arc_toolkit.azureml.migrate.sweep_change import SweepChange, resources_text
from arc_toolkit.azureml.python.meaning import Builder
from arc_toolkit.azureml.python.names import Scope, Statement
from arc_toolkit.azureml.python.python_plan import PythonPlan
from arc_toolkit.edit.edits import Refused

# Argument -> where a v1.5 spec has it.
_VALUES = {
    "primary_metric_name": ("objective", "primary_metric"),
    "max_total_runs": ("limits", "max_total_trials"),
    "max_concurrent_runs": ("limits", "max_concurrent_trials"),
    "max_duration_minutes": ("limits", "timeout_minutes"),
}
_KNOWN = (*_VALUES, "hyperparameter_sampling", "primary_metric_goal", "policy", "run_config")


def config_statements(plan: PythonPlan, scope: Scope) -> Iterator[Statement]:
    """The assignments of a HyperDriveConfig."""
    for statement in scope.statements:
        if isinstance(statement.stmt, ast.Assign):
            reader = HyperdriveReader(plan.meanings, statement)
            if reader.called(statement.stmt.value) == "HyperDriveConfig":
                yield statement


def config_change(plan: PythonPlan, statement: Statement) -> SweepChange:
    """The conversion of one config."""
    stmt, reader = statement.stmt, HyperdriveReader(plan.meanings, statement)
    assert isinstance(stmt, ast.Assign)
    call = stmt.value
    assert isinstance(call, ast.Call)
    unknown = [str(keyword.arg) for keyword in call.keywords if keyword.arg not in _KNOWN]
    if call.args or unknown:
        odd = ", ".join(unknown) or "positional arguments"
        raise Refused(f"HyperDriveConfig with {odd} cannot be read")
    if len(stmt.targets) != 1 or not isinstance(stmt.targets[0], ast.Name):
        raise Refused("HyperDriveConfig is not assigned to one name")
    name = stmt.targets[0].id
    values = {str(keyword.arg): keyword.value for keyword in call.keywords}
    reader.take(call.func)
    for key, at in _VALUES.items():
        if key in values:
            reader.put(values[key], value(values[key], key), *at)
    goal = values.get("primary_metric_goal")
    if isinstance(goal, ast.Attribute) and reader.name(goal.value) == "PrimaryMetricGoal":
        reader.put(goal, goal.attr.lower(), "objective", "goal")
        reader.take(goal.value)
    policy = values.get("policy")
    no_policy = policy is None or (isinstance(policy, ast.Constant) and policy.value is None)
    if policy is not None and not no_policy and not reader.policy(policy):
        raise Refused("policy is not given as a hyperdrive call inside HyperDriveConfig")
    _read_sampling(reader, values.get("hyperparameter_sampling"))
    change = SweepChange(statement, reader)

    run = values.get("run_config")
    node = statement.source.slice(run) if run is not None else "node"
    function = f"{name} = {call_text(node, change.distributions)}.sweep"
    made = plan.meanings.of(run, statement) if run is not None else None
    if not (isinstance(made, Builder) and made.family is Family.COMMAND):
        text = call_text(function, change.arguments)
        raise Refused(f"{node} is not an azure-ai-ml command; once it is, write {text}")
    sweep = call_lines(function, change.arguments, stmt.col_offset)
    change.replace(statement, f"{sweep}\n{name}.resources = {resources_text(plan.settings, {})}")
    change.message = f"HyperDriveConfig is written as {node}(...).sweep(...)"
    return change


def _read_sampling(reader: HyperdriveReader, node: ast.expr | None) -> None:
    """`RandomParameterSampling({...})` into the algorithm and the search space."""
    kind = reader.called(node)
    if kind not in SAMPLINGS or not isinstance(node, ast.Call):
        raise Refused("hyperparameter_sampling is not given as a hyperdrive call inside HyperDriveConfig")
    spaces = [*node.args, *(keyword.value for keyword in node.keywords)]
    if len(spaces) != 1 or not isinstance(spaces[0], ast.Dict):
        raise Refused(f"the parameter space of {kind} is not a literal dict", line=node.lineno)
    reader.put(node, SAMPLINGS[kind], "algorithm")
    reader.take(node.func)
    for key, item in zip(spaces[0].keys, spaces[0].values, strict=True):
        name = value(key, "a parameter's name") if key is not None else None
        if not isinstance(name, str) or not reader.distribution(item, legal(name.lstrip("-"))):
            raise Refused(f"{name or '**'} in {kind} is not a hyperdrive distribution", line=item.lineno)
