"""ParallelRunSteps of SDK v1 in Python code: which calls make a step and its config."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from arc_toolkit.edit.code.names import Statement, calls_in

if TYPE_CHECKING:
    from arc_toolkit.azureml.python.resolve import SdkResolver

# v1 (ParallelRunConfig, ParallelRunStep) -> v2 `parallel` step, for the finding.
# Source: Microsoft Learn, "Upgrade parallel run step to SDK v2"; `parallel_run_function` of
# azure-ai-ml 1.35.2.
EQUIVALENTS = {
    "environment": "task.environment",
    "source_directory": "task.code",
    "entry_script": "task.entry_script",
    "arguments": "task.program_arguments",
    "inputs": "input_data and inputs",
    "side_inputs": "inputs",
    "output": "outputs",
    "output_action": "task.append_row_to",
    "append_row_file_name": "the path of task.append_row_to",
    "compute_target": "compute",
    "node_count": "resources.instance_count",
    "process_count_per_node": "max_concurrency_per_instance",
    "mini_batch_size": "mini_batch_size",
    "error_threshold": "error_threshold",
    "allowed_failed_count": "mini_batch_error_threshold",
    "allowed_failed_percent": "task.program_arguments --allowed_failed_percent",
    "run_invocation_timeout": "retry_settings.timeout",
    "run_max_try": "retry_settings.max_retries, minus one",
    "logging_level": "logging_level",
    "partition_keys": "partition_keys",
    "environment_variables": "environment_variables",
    "allow_reuse": "is_deterministic",
}


CONFIG = "ParallelRunConfig"
STEP = "ParallelRunStep"
# Parameters in their order; azureml-pipeline-steps 1.62.
CONFIG_ORDER = (
    *("environment", "entry_script", "error_threshold", "output_action", "compute_target"),
    *("node_count", "process_count_per_node", "mini_batch_size", "source_directory"),
    *("description", "logging_level", "run_invocation_timeout", "run_max_try"),
    *("append_row_file_name", "allowed_failed_count", "allowed_failed_percent"),
    *("partition_keys", "environment_variables"),
)
STEP_ORDER = (
    *("name", "parallel_run_config", "inputs", "output", "side_inputs", "arguments"),
    "allow_reuse",
)
# Fields that have a value in every config.
REQUIRED = (
    *("environment", "entry_script", "compute_target", "node_count", "mini_batch_size"),
    "output_action",
)
# Names that are bound to names.
_MAX_DEPTH = 15


@dataclass(frozen=True)
class PrsCall:
    """A call that makes a step or a config, and its statement."""

    call: ast.Call
    statement: Statement


def find_parallel_runs(resolver: SdkResolver) -> Iterator[tuple[PrsCall | None, PrsCall | None]]:
    """Each step with its config (None: not found), and each config without a step."""
    calls: dict[str, list[PrsCall]] = {STEP: [], CONFIG: []}
    for scope in resolver.module.scopes:
        for statement in scope.statements:
            if resolver.module.mentions(statement):
                for call in calls_in(statement.stmt):
                    role = resolver.role(call.func, statement).name
                    if role in calls:
                        calls[role].append(PrsCall(call, statement))
    configs = calls[CONFIG]
    pairs = [(step, _config(step, configs, resolver)) for step in calls[STEP]]
    used = {id(config.call) for _, config in pairs if config is not None}
    free = [config for config in configs if id(config.call) not in used]
    # A single config that is passed through functions.
    if len(free) == 1 and len(configs) == 1:
        pairs = [(step, config or free.pop()) if free else (step, config) for step, config in pairs]
    yield from pairs
    yield from ((None, config) for config in free)


def _config(step: PrsCall, configs: list[PrsCall], resolver: SdkResolver) -> PrsCall | None:
    node = dict(zip(STEP_ORDER, step.call.args, strict=False)).get("parallel_run_config")
    for keyword in step.call.keywords:
        if keyword.arg == "parallel_run_config":
            node = keyword.value
    statement = step.statement
    for _ in range(_MAX_DEPTH):
        bound = resolver.bound_expression(node, statement) if isinstance(node, ast.Name) else None
        if bound is None:
            break
        node, statement = bound
    return next((config for config in configs if config.call is node), None)


def field_names(step: PrsCall | None, config: PrsCall | None) -> Iterator[str]:
    """The fields that the code sets."""
    if config is None:
        yield from REQUIRED
    for made, order in ((config, CONFIG_ORDER), (step, STEP_ORDER)):
        if made is not None:
            yield from order[: len(made.call.args)]
            yield from (keyword.arg for keyword in made.call.keywords if keyword.arg)
    stmt = config.statement.stmt if config is not None else None
    if config is not None and isinstance(stmt, ast.Assign) and stmt.value is config.call:
        for target in stmt.targets:
            uses = config.statement.scope.uses.get(getattr(target, "id", ""), ())
            yield from (use.path[0] for use in uses if use.how == "assign")
