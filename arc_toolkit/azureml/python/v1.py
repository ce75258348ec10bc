"""SDK v1: ParallelRunStep, which cannot name an instance type, and its fields for a v2 `parallel` step."""

from __future__ import annotations

import ast
import os.path
import re
from collections.abc import Iterator
from itertools import count

from arc_toolkit.azureml.python.names import Binding, Spot, calls_in
from arc_toolkit.azureml.python.planner import Planner, constant

PRS = "prs-instance-type"

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


def look(planner: Planner) -> None:
    """A finding for each ParallelRunConfig; with `--prs-to-v2` a YAML file for each."""
    calls = list(_calls(planner))
    configs = {id(call): (spot, call) for role, spot, call in calls if role == "ParallelRunConfig"}
    used: set[int] = set()
    for role, spot, call in calls:
        if role == "ParallelRunStep":
            config = _config(planner, spot, call)
            if config is not None:
                used.add(id(config[1]))
            _report(planner, spot, call, config)
    for identity, (spot, call) in configs.items():
        if identity not in used:
            _report(planner, spot, call, None)


def _calls(planner: Planner) -> Iterator[tuple[str, Spot, ast.Call]]:
    if not any("ParallelRun" in source.text for source in planner.module.sources):
        return
    for scope in planner.module.scopes:
        for spot in scope.spots:
            if planner.module.mentions(spot):
                for call in calls_in(spot.stmt):
                    role = planner.meanings.role(call.func, spot)
                    if role in ("ParallelRunConfig", "ParallelRunStep"):
                        yield role, spot, call


def _config(planner: Planner, spot: Spot, call: ast.Call) -> tuple[Spot, ast.Call] | None:
    """The ParallelRunConfig(...) that a step is given."""
    for keyword in call.keywords:
        if keyword.arg == "parallel_run_config":
            value = keyword.value
            if isinstance(value, ast.Name):
                found = planner.meanings.binding(value.id, spot)
                if isinstance(found, Binding) and isinstance(found.value, ast.Call):
                    return found.spot, found.value
            if isinstance(value, ast.Call):
                return spot, value
    return None


def _report(planner: Planner, spot: Spot, call: ast.Call, config: tuple[Spot, ast.Call] | None) -> None:
    fields: dict[str, object] = {}
    unknown: dict[str, str] = {}
    for place, item in ((config or (spot, None)), (spot, call)):
        for keyword in item.keywords if item is not None else ():
            name = keyword.arg
            if name is None:
                unknown["**"] = ast.unparse(keyword.value)
            elif name != "parallel_run_config":
                value = _value(planner, name, keyword.value, place)
                if value is None:
                    unknown[name] = ast.unparse(keyword.value)
                else:
                    fields[name] = value
    there = [name for name in (*fields, *unknown) if name in EQUIVALENTS]
    mapped = ", ".join(f"{name} -> {EQUIVALENTS[name]}" for name in dict.fromkeys(there))
    convert = planner.settings.prs_to_v2 and planner.allows("prs-to-v2", spot.source, call.lineno)
    planner.finding(
        PRS,
        "warning",
        "ParallelRunStep of SDK v1 cannot name an instance type, so on Kubernetes it always gets the default one:"
        " a v2 parallel step can",
        spot.source,
        call,
        reason=(f"v2: {mapped}" if mapped else "") + ("" if convert else "; --prs-to-v2 writes it as YAML"),
    )
    if convert:
        _convert(planner, spot, call, fields, unknown)


# Fields that name things of a workspace: what counts is the name in the call that made them.
_NAMED = frozenset({"environment", "compute_target", "inputs", "side_inputs", "output"})


def _value(planner: Planner, field: str, node: ast.expr, spot: Spot, depth: int = 0) -> object | None:
    """A literal, the default of a PipelineParameter, or the name of a dataset, environment, compute or output."""
    try:
        return ast.literal_eval(node)  # type: ignore[no-any-return]
    except (ValueError, TypeError):
        pass
    if depth > 5:
        return None
    match node:
        case ast.List(elts=items) | ast.Tuple(elts=items) if field in _NAMED:
            values = [_value(planner, field, item, spot, depth + 1) for item in items]
            return None if None in values else values
        case ast.Name(id=name):
            found = planner.meanings.binding(name, spot)
            value = None
            if isinstance(found, Binding) and isinstance(found.value, ast.expr):
                value = _value(planner, field, found.value, found.spot, depth + 1)
            # A dataset or output without a name of its own goes by that of its variable.
            return name if value is None and field in ("inputs", "side_inputs", "output") else value
        case ast.Call(func=function):
            last = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            if last == "PipelineParameter":
                return constant(node, "default_value")
            if field not in _NAMED:
                return None
            texts = [
                item.value for item in node.args if isinstance(item, ast.Constant) and isinstance(item.value, str)
            ]
            named = constant(node, "name") or (texts[0] if texts else None)
            if last in ("as_named_input", "get", "Environment", "ComputeTarget", "PipelineData") or named:
                return named
            # `dataset.as_named_input("x").as_mount()`
            if isinstance(function, ast.Attribute):
                return _value(planner, field, function.value, spot, depth + 1)
    return None


def _convert(
    planner: Planner, spot: Spot, call: ast.Call, fields: dict[str, object], unknown: dict[str, str]
) -> None:
    from arc_toolkit.azureml.migrate import parallel_run as prs

    settings = planner.settings
    if settings.instance_type is not None:
        fields["instance_type"] = settings.instance_type
    if settings.compute is not None:
        fields["compute_target"] = settings.compute
    if settings.instance_count is not None:
        fields["node_count"] = settings.instance_count
    text, notes = prs.to_yaml(fields)
    name = fields.get("name")
    stem = re.sub(r"[^a-z0-9]+", "_", str(name).lower()).strip("_") if name else "parallel"
    folder, file = os.path.split(planner.path)
    taken = {path for path, _ in planner.new_files}
    names = (f"{stem}_{number}" if number > 1 else stem for number in count(1))
    targets = (os.path.join(folder, f"{os.path.splitext(file)[0]}.{name}.parallel.yml") for name in names)
    planner.new_files.append((next(path for path in targets if path not in taken), text.encode()))
    for field, written in unknown.items():
        notes.append(f"{field} is {written}, which is not a literal: write it in by hand")
    for note in notes:
        planner.finding("prs-to-v2", "note", note, spot.source, call)
