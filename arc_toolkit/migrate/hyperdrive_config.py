"""HyperDriveConfig of SDK v1: as `.sweep(...)` where its trial is an azure-ai-ml command, else as a v2 sweep job.

    src = ScriptRunConfig(...)                                     train.py (not changed)
    config = HyperDriveConfig(run_config=src, ...)           ->    train.config.sweep.yml

The calls that it is given may be variables. Signature: azureml-train-core 1.62.
"""

from __future__ import annotations

import ast
import os.path
from collections.abc import Callable, Iterator
from functools import partial

from arc_toolkit.azureml.kinds import Family
from arc_toolkit.azureml.python.python_plan import PythonPlan
from arc_toolkit.azureml.python.sdk_objects import Builder
from arc_toolkit.edit.code.expressions import calls_in, short
from arc_toolkit.edit.code.names import Statement
from arc_toolkit.edit.files.edits import Refused
from arc_toolkit.migrate.hyperdrive import (
    SAMPLINGS,
    HyperdriveReader,
    SweepChange,
    resources_text,
)
from arc_toolkit.migrate.hyperdrive_job import sweep_job
from arc_toolkit.migrate.legacy_spec import RULE
from arc_toolkit.migrate.new_jobs import add_job
from arc_toolkit.migrate.script_run_source import read_script_run
from arc_toolkit.migrate.space import call_lines, call_text
from arc_toolkit.migrate.trial import legal
from arc_toolkit.migrate.v1_values import arguments

NAME = "HyperDriveConfig"
# Argument -> where a v1.5 spec has it.
_VALUES = {
    "primary_metric_name": ("objective", "primary_metric"),
    "max_total_runs": ("limits", "max_total_trials"),
    "max_concurrent_runs": ("limits", "max_concurrent_trials"),
    "max_duration_minutes": ("limits", "timeout_minutes"),
}
# v1 ends a run after a week if it is not told otherwise; the default of v2 is another one.
_MINUTES = 10_080
_ORDER = (
    *("hyperparameter_sampling", "primary_metric_name", "primary_metric_goal", "max_total_runs"),
    *(
        "max_concurrent_runs",
        "max_duration_minutes",
        "policy",
        "estimator",
        "run_config",
        "resume_from",
    ),
    *("resume_child_runs", "pipeline", "debug_flag", "custom_run_id"),
)
# What a v2 sweep has no place for.
_LOST = ("resume_from", "resume_child_runs", "debug_flag", "custom_run_id")


def configs(plan: PythonPlan) -> Iterator[tuple[Statement, Callable[[], SweepChange | None]]]:
    """Where each config is, and what converts it."""
    for scope in plan.module.scopes:
        for statement in scope.statements:
            for call in calls_in(statement.stmt):
                if HyperdriveReader(plan.resolver, statement).called(call) == NAME:
                    yield statement, partial(config_change, plan, statement, call)


def config_change(plan: PythonPlan, statement: Statement, call: ast.Call) -> SweepChange | None:
    """The change of the code for one config, or none where a job is written beside it."""
    reader = HyperdriveReader(plan.resolver, statement)
    given = arguments(call, _ORDER, statement)
    unknown = [name for name in given.values if name not in _ORDER] + (
        [given.rest] if given.rest else []
    )
    if unknown:
        raise Refused(f"{NAME} with {', '.join(unknown)} cannot be read")
    values = {name: node for name, (node, _) in given.values.items()}
    run = values.get("run_config")
    if run is None:
        other = next((name for name in ("estimator", "pipeline") if name in values), None)
        raise Refused(
            f"{NAME} has {f'the {other} {short(values[other])}' if other else 'nothing'} to run: "
            "only a run_config that is a ScriptRunConfig is converted"
        )
    reader.take(call.func)
    _read(reader, values)
    flags = _read_sampling(reader, values.get("hyperparameter_sampling"))
    lost = [name for name in _LOST if name in values]
    made, where = reader.values.follow(run, statement)
    path = plan.resolver.path(made.func, where) if isinstance(made, ast.Call) else None
    if isinstance(made, ast.Call) and path is not None and path.endswith("ScriptRunConfig"):
        _write_job(plan, statement, reader, flags, lost, (run, made, where))
        return None
    if lost:
        raise Refused(f"{NAME} with {', '.join(lost)} has no equivalent in v2")
    return _in_place(plan, statement, call, run, reader)


def _read(reader: HyperdriveReader, values: dict[str, ast.expr]) -> None:
    """The metric, the limits and the policy into the spec."""
    for key, at in _VALUES.items():
        if key in values and (value := reader.value(values[key], key)) is not None:
            reader.put(values[key], value, *at)
    reader.spec.data["limits"].setdefault("timeout_minutes", _MINUTES)
    goal = values.get("primary_metric_goal")
    if goal is not None:
        with reader.follow(goal) as made:
            if isinstance(made, ast.Attribute) and reader.name(made.value) == "PrimaryMetricGoal":
                reader.put(made, made.attr.lower(), "objective", "goal")
                reader.take(made.value)
    policy = values.get("policy")
    if policy is not None:
        with reader.follow(policy) as made:
            none = isinstance(made, ast.Constant) and made.value is None
            if not none and not reader.policy(made):
                raise Refused(f"policy is not a hyperdrive call: {short(made)}", line=made.lineno)


def _read_sampling(reader: HyperdriveReader, given: ast.expr | None) -> dict[str, str]:
    """`RandomParameterSampling({...})` into the algorithm and the search space; gives the script's options by name."""
    if given is None:
        raise Refused("hyperparameter_sampling is missing")
    flags = {}
    with reader.follow(given) as made:
        kind = reader.called(made)
        if kind not in SAMPLINGS or not isinstance(made, ast.Call):
            raise Refused(
                f"hyperparameter_sampling is not a hyperdrive call: {short(made)}", line=made.lineno
            )
        reader.put(made, SAMPLINGS[kind], "algorithm")
        reader.take(made.func)
        order = (
            "parameter_space",
            "properties",
            "supported_distributions",
            "distributions_validators",
        )
        spaces = arguments(made, order, reader.statement)
        if len(spaces.values) != 1 or spaces.rest:
            raise Refused(f"the parameter space of {kind} is not a dict", line=made.lineno)
        with reader.follow(spaces.values["parameter_space"][0]) as space:
            if not isinstance(space, ast.Dict):
                raise Refused(
                    f"the parameter space of {kind} is not a dict: {short(space)}",
                    line=space.lineno,
                )
            for key, item in zip(space.keys, space.values, strict=True):
                name = reader.value(key, "a parameter's name") if key is not None else None
                with reader.follow(item) as drawn:
                    if not isinstance(name, str) or not reader.distribution(
                        drawn, legal(name.lstrip("-"))
                    ):
                        raise Refused(
                            f"{name or '**'} in {kind} is not a hyperdrive distribution",
                            line=item.lineno,
                        )
                flags[legal(name.lstrip("-"))] = name if name.startswith("-") else f"--{name}"
    return flags


def _write_job(
    plan: PythonPlan,
    statement: Statement,
    reader: HyperdriveReader,
    flags: dict[str, str],
    lost: list[str],
    trial: tuple[ast.expr, ast.Call, Statement],
) -> None:
    """The sweep job beside the file, and a finding for all that is not one to one."""
    node, call, where = trial
    run = read_script_run(node, call, where, statement, reader.values)
    body = reader.body()
    stmt = statement.stmt
    target = stmt.targets[0] if isinstance(stmt, ast.Assign) else None
    name = legal(target.id, component=True) if isinstance(target, ast.Name) else "hyperdrive"
    text, notes = sweep_job(name, body, flags, run, plan.settings)
    file = add_job(plan, name, "sweep", text)
    at = plan.at(statement)
    plan.add_finding(
        RULE, "note", f"{NAME} is written as a v2 sweep job: {os.path.basename(file)}", at
    )
    if lost or run.lost:
        plan.add_finding(
            RULE,
            "warning",
            f"{', '.join(lost + run.lost)}: not carried over, v2 has no equivalent",
            at,
            applied=True,
        )
    if run.unknown:
        words = ", ".join(f"{field} ({text})" for field, text in run.unknown.items())
        plan.add_finding(
            RULE,
            "warning",
            f"these values are not in this file, write them in by hand: {words}",
            at,
            applied=True,
        )
    for note in (*reader.values.remarks, *(item.message for item in reader.spec.notes), *notes):
        plan.add_finding(RULE, "note", note, at)


def _in_place(
    plan: PythonPlan, statement: Statement, call: ast.Call, run: ast.expr, reader: HyperdriveReader
) -> SweepChange:
    """A config over an azure-ai-ml command becomes its sweep."""
    stmt = statement.stmt
    targets = stmt.targets if isinstance(stmt, ast.Assign) and stmt.value is call else []
    if len(targets) != 1 or not isinstance(targets[0], ast.Name):
        raise Refused(f"{NAME} is not assigned to one name")
    name = targets[0].id
    change = SweepChange(statement, reader)
    node = statement.source.slice(run)
    function = f"{name} = {call_text(node, change.distributions)}.sweep"
    made = plan.resolver.object_of(run, statement)
    if not (isinstance(made, Builder) and made.family is Family.COMMAND):
        text = call_text(function, change.arguments)
        raise Refused(
            f"{node} is neither a ScriptRunConfig nor an azure-ai-ml command; once it is, write {text}"
        )
    sweep = call_lines(function, change.arguments, stmt.col_offset)
    change.replace(statement, f"{sweep}\n{name}.resources = {resources_text(plan.settings, {})}")
    change.message = f"{NAME} is written as {node}(...).sweep(...)"
    return change
