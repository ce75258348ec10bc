"""Sweeps of SDK v1.5 and v1 in Python source as `command_node.sweep(...)` of azure-ai-ml.

Two shapes are rewritten, and only where every value is a literal:

    step = sweep_func(train=data, lr=uniform(0.1, 1.0))         step = sweep_func(train=data, lr=Uniform(...))
    step.runsettings.sweep.algorithm = "random"           ->    step = step.sweep(primary_metric=..., ...)
    step.runsettings.sweep.objective.configure(...)             step.resources = JobResourceConfiguration(...)

and `HyperDriveConfig(run_config=node, ...)` where `node` is an azure-ai-ml `command(...)`. All else is a finding with
its line and the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from arc_toolkit.azureml.library import Library
from arc_toolkit.azureml.migrate.hyperdrive_config import config_change, config_statements
from arc_toolkit.azureml.migrate.legacy_spec import RULE
from arc_toolkit.azureml.migrate.runsettings_sweep import step_change, step_sweeps
from arc_toolkit.azureml.migrate.sweep_change import SweepChange, commit, refuse
from arc_toolkit.azureml.python.names import Module, Statement
from arc_toolkit.azureml.python.python_plan import PythonPlan
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.edit.edits import Refused


def plan_sweeps(
    module: Module, library: Library, settings: Settings, path: str, first: PythonPlan | None = None
) -> PythonPlan:
    """The changes for all sweeps of a module, and a finding for each; `first` is the plan of the run before."""
    plan = PythonPlan(module, library, settings, path, first)
    changes = []
    for statement, read in _sweeps(plan):
        if not plan.covers(RULE, plan.at(statement.source, statement.stmt)):
            try:
                changes.append(read())
            except Refused as refused:
                refuse(plan, statement, refused)
    commit(plan, changes)
    return plan


def _sweeps(plan: PythonPlan) -> Iterator[tuple[Statement, Callable[[], SweepChange]]]:
    """Where each sweep is, and what reads it."""
    for scope in plan.module.scopes:
        for name, uses in step_sweeps(plan, scope):
            yield uses[0].statement, partial(step_change, plan, scope, name, uses)
        for statement in config_statements(plan, scope):
            yield statement, partial(config_change, plan, statement)
