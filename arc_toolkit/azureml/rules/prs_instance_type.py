"""ParallelRunStep of SDK v1, which cannot name an instance type, and its fields for a v2 `parallel` step."""

from __future__ import annotations

import ast
import os.path
import re
from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, cast

from arc_toolkit.azureml.plan import Plan
from arc_toolkit.findings import Rule

if TYPE_CHECKING:
    from arc_toolkit.azureml.python.names import Statement
    from arc_toolkit.azureml.python.python_plan import PythonPlan

# v1 (ParallelRunConfig, ParallelRunStep) -> v2 `parallel` step, for the finding.
# Source: Microsoft Learn, "Upgrade parallel run step to SDK v2"; `parallel_run_function` of azure-ai-ml 1.35.2.
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


def _check(any_plan: Plan) -> None:
    """A finding for each ParallelRunConfig; with `--prs-to-v2` a YAML file for each."""
    plan = cast("PythonPlan", any_plan)
    calls = list(_calls(plan))
    configs = {id(call): (statement, call) for role, statement, call in calls if role == "ParallelRunConfig"}
    used: set[int] = set()
    for role, statement, call in calls:
        if role == "ParallelRunStep":
            config = _config(plan, statement, call)
            if config is not None:
                used.add(id(config[1]))
            _report(plan, statement, call, config)
    for identity, (statement, call) in configs.items():
        if identity not in used:
            _report(plan, statement, call, None)


def _calls(plan: PythonPlan) -> Iterator[tuple[str, Statement, ast.Call]]:
    from arc_toolkit.azureml.python.expressions import calls_in

    for scope in plan.module.scopes:
        for statement in scope.statements:
            if plan.module.mentions(statement):
                for call in calls_in(statement.stmt):
                    role = plan.meanings.role(call.func, statement).name
                    if role in ("ParallelRunConfig", "ParallelRunStep"):
                        yield role, statement, call


def _config(plan: PythonPlan, statement: Statement, call: ast.Call) -> tuple[Statement, ast.Call] | None:
    """The ParallelRunConfig(...) that a step is given."""
    for keyword in call.keywords:
        if keyword.arg == "parallel_run_config":
            value = keyword.value
            if isinstance(value, ast.Name):
                bound = plan.meanings.bound(value.id, statement)
                if bound is not None and isinstance(bound[0], ast.Call):
                    return bound[1], bound[0]
            if isinstance(value, ast.Call):
                return statement, value
    return None


def _report(
    plan: PythonPlan, statement: Statement, call: ast.Call, config: tuple[Statement, ast.Call] | None
) -> None:
    fields: dict[str, object] = {}
    unknown: dict[str, str] = {}
    for place, item in ((config or (statement, None)), (statement, call)):
        for keyword in item.keywords if item is not None else ():
            name = keyword.arg
            if name is None:
                unknown["**"] = ast.unparse(keyword.value)
            elif name != "parallel_run_config":
                value = _value(plan, name, keyword.value, place)
                if value is None:
                    unknown[name] = ast.unparse(keyword.value)
                else:
                    fields[name] = value
    there = [name for name in (*fields, *unknown) if name in EQUIVALENTS]
    mapped = ", ".join(f"{name} -> {EQUIVALENTS[name]}" for name in dict.fromkeys(there))
    at = plan.at(statement, call)
    convert = plan.settings.prs_to_v2 and plan.settings.wants("prs-to-v2") and not plan.covers("prs-to-v2", at)
    plan.report(
        RULE,
        "ParallelRunStep of SDK v1 cannot name an instance type, so on Kubernetes it always gets the default one:"
        " a v2 parallel step can",
        at,
        reason=(f"v2: {mapped}" if mapped else "") + ("" if convert else "; --prs-to-v2 writes it as YAML"),
    )
    if convert:
        _convert(plan, statement, call, fields, unknown)


def _literal(call: ast.Call, name: str) -> str | int | None:
    """A keyword argument that is a literal string or number."""
    for keyword in call.keywords:
        if keyword.arg == name and isinstance(keyword.value, ast.Constant):
            value = keyword.value.value
            return value if isinstance(value, str | int) else None
    return None


# Fields that name things of a workspace: what counts is the name in the call that made them.
_NAMED = frozenset({"environment", "compute_target", "inputs", "side_inputs", "output"})


def _value(plan: PythonPlan, field: str, node: ast.expr, statement: Statement, depth: int = 0) -> object | None:
    """A literal, the default of a PipelineParameter, or the name of a dataset, environment, compute or output."""
    try:
        return ast.literal_eval(node)  # type: ignore[no-any-return]
    except (ValueError, TypeError):
        pass
    if depth > 5:
        return None
    match node:
        case ast.List(elts=items) | ast.Tuple(elts=items) if field in _NAMED:
            values = [_value(plan, field, item, statement, depth + 1) for item in items]
            return None if None in values else values
        case ast.Name(id=name):
            bound = plan.meanings.bound(name, statement)
            value = _value(plan, field, *bound, depth + 1) if bound is not None else None
            # A dataset or output without a name of its own goes by that of its variable.
            return name if value is None and field in ("inputs", "side_inputs", "output") else value
        case ast.Call(func=function):
            last = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            if last == "PipelineParameter":
                return _literal(node, "default_value")
            if field not in _NAMED:
                return None
            texts = [
                item.value for item in node.args if isinstance(item, ast.Constant) and isinstance(item.value, str)
            ]
            named = _literal(node, "name") or (texts[0] if texts else None)
            if last in ("as_named_input", "get", "Environment", "ComputeTarget", "PipelineData") or named:
                return named
            # `dataset.as_named_input("x").as_mount()`
            if isinstance(function, ast.Attribute):
                return _value(plan, field, function.value, statement, depth + 1)
    return None


def _convert(
    plan: PythonPlan, statement: Statement, call: ast.Call, fields: dict[str, object], unknown: dict[str, str]
) -> None:
    from arc_toolkit.azureml.migrate import parallel_run as prs

    settings = plan.settings
    if settings.instance_type is not None:
        fields["instance_type"] = settings.instance_type
    if settings.compute is not None:
        fields["compute_target"] = settings.compute
    if settings.instance_count is not None:
        fields["node_count"] = settings.instance_count
    text, notes = prs.to_yaml(fields)
    name = fields.get("name")
    stem = re.sub(r"[^a-z0-9]+", "_", str(name).lower()).strip("_") if name else "parallel"
    folder, file = os.path.split(plan.path)
    taken = {path for path, _ in plan.new_files}
    names = (f"{stem}_{number}" if number > 1 else stem for number in count(1))
    targets = (os.path.join(folder, f"{os.path.splitext(file)[0]}.{name}.parallel.yml") for name in names)
    plan.new_files.append((next(path for path in targets if path not in taken), text.encode()))
    for field, written in unknown.items():
        notes.append(f"{field} is {written}, which is not a literal: write it in by hand")
    for note in notes:
        plan.add_finding("prs-to-v2", "note", note, plan.at(statement, call))


RULE = Rule(
    id="prs-instance-type",
    severity="warning",
    fix="none",
    summary="a v1 ParallelRunStep cannot name an instance type",
    why="""\
`ParallelRunConfig` has no field for it, and `ParallelRunStep` takes no run configuration: on Kubernetes it always runs
on the default instance type. The v2 `parallel` step takes one; `patch --prs-to-v2` writes it.""",
    before="""\
config = ParallelRunConfig(entry_script="score.py", node_count=2, mini_batch_size="5", ...)
""",
    after="""\
type: parallel
resources:
  instance_type: 32cpu128g
  instance_count: 2
mini_batch_size: "5"
""",
    language="python",
    check=_check,
    needs=("ParallelRun",),
)
