"""A v1 ParallelRunStep with its ParallelRunConfig as a v2 pipeline job with one parallel step.

Source: Microsoft Learn, "Upgrade parallel run step to SDK v2", and the v2 parallel schema of azure-ai-ml. The fields
come as literals that were found in Python source; what could not be read there is simply not among them.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from arc_toolkit.azureml.migrate.interface import legal
from arc_toolkit.azureml.migrate.sweep_plan import DEFAULT_INSTANCE_COUNT, DEFAULT_INSTANCE_TYPE, SCHEMA, UNSET
from arc_toolkit.azureml.yaml_style import FILE_STYLE
from arc_toolkit.edit.yaml_writer import Comment, file_text

MARK = "Written by `arc-toolkit patch --prs-to-v2`"

# v1 field -> key of the v2 step, as it is.
_SAME = {
    "process_count_per_node": "max_concurrency_per_instance",
    "error_threshold": "error_threshold",
    "allowed_failed_count": "mini_batch_error_threshold",
    "logging_level": "logging_level",
    "partition_keys": "partition_keys",
}
# v1 fields that v2 takes as arguments of the entry script's program.
_ARGUMENTS = (
    "allowed_failed_percent",
    "task_overhead_timeout",
    "progress_update_timeout",
    "first_task_creation_timeout",
    "resource_monitor_interval",
    "copy_logs_to_parent",
)
_KNOWN = {
    *_SAME,
    *_ARGUMENTS,
    *(
        "name",
        "description",
        "parallel_run_config",
        "environment",
        "source_directory",
        "entry_script",
        "arguments",
    ),
    *("inputs", "side_inputs", "output", "output_action", "append_row_file_name", "compute_target", "node_count"),
    *("instance_type", "mini_batch_size", "run_invocation_timeout", "run_max_try", "environment_variables"),
    "allow_reuse",
}
# v1's defaults where v2's differ: v1 takes 10 files a mini batch (or 1 MB of a table), v2 takes 1.
_MINI_BATCH_SIZE = "10"


def to_yaml(fields: Mapping[str, object]) -> tuple[str, list[str]]:
    """The v2 text, and notes about all that is not one to one."""
    notes: list[str] = []
    given = {key: value for key, value in fields.items() if value is not None}
    for key, kind in (("run_max_try", int), ("environment_variables", dict)):
        if not isinstance(given.get(key, kind()), kind):
            notes.append(f"{key} is {given.pop(key)!r}, no {kind.__name__}: it is not written")
    for key in given:
        if key not in _KNOWN:
            notes.append(f"{key} has no equivalent in a v2 parallel step and is not written")

    inputs = _names(given, "inputs", "data", notes)
    side = _names(given, "side_inputs", None, notes)
    output = _output(given, notes)
    step = _step(given, inputs, side, output, notes)
    name = legal(str(given.get("name") or "parallel"), component=True)
    out: dict[str, Any] = {
        Comment(f"{MARK} from a v1 ParallelRunStep."): None,
        "$schema": SCHEMA.format("pipelineJob"),
        "type": "pipeline",
        "display_name": str(given.get("name") or name),
    }
    if "description" in given:
        out["description"] = str(given["description"])
    out["inputs"] = {
        Comment("Where and how wide it runs."): None,
        "instance_type": _instance_type(given, notes),
        "instance_count": given.get("node_count", DEFAULT_INSTANCE_COUNT),
    }
    for one in (*inputs, *side):
        out["inputs"][one] = {
            "type": "uri_folder",
            Comment("path: azureml:NAME@latest, or a folder or URL; a tabular dataset is an mltable"): None,
        }
    if inputs or side:
        notes.append(f"give a path to {', '.join((*inputs, *side))} before the job is submitted")
    if output:
        out["outputs"] = {output: {"type": "uri_file" if _appends(given) else "uri_folder"}}
    if "compute_target" not in given:
        notes.append(f"compute_target is not known: {UNSET} stands for it")
    # Where `patch --compute` looks too: it finds nothing to change then.
    out["settings"] = {"default_compute": _compute(given)}
    if given.get("allow_reuse") is False:
        out["settings"] |= {
            Comment("allow_reuse=False: an inline step has no is_deterministic."): None,
            "force_rerun": True,
        }
    out["jobs"] = {name: step}
    return file_text(out, FILE_STYLE), notes


def _step(given: dict[str, Any], inputs: list[str], side: list[str], output: str | None, notes: list[str]) -> Any:
    step: dict[str, Any] = {
        "type": "parallel",
        "compute": _compute(given),
        "resources": {
            "instance_type": "${{parent.inputs.instance_type}}",
            "instance_count": "${{parent.inputs.instance_count}}",
        },
        "inputs": {one: f"${{{{parent.inputs.{one}}}}}" for one in (*inputs, *side)},
    }
    if output:
        step["outputs"] = {output: f"${{{{parent.outputs.{output}}}}}"}
    step["input_data"] = f"${{{{inputs.{inputs[0]}}}}}"
    if len(inputs) > 1:
        notes.append(
            f"v2 splits one input into mini batches: {inputs[0]}; {', '.join(inputs[1:])} are passed whole"
        )
    if "mini_batch_size" in given:
        step["mini_batch_size"] = str(given["mini_batch_size"])
    elif "partition_keys" not in given:
        step["mini_batch_size"] = _MINI_BATCH_SIZE
        notes.append(
            f"mini_batch_size is {_MINI_BATCH_SIZE}, v1's default for files (v2's is 1); for a tabular dataset "
            "v1's is 1MB"
        )
    for old, new in _SAME.items():
        if old in given:
            value = given[old]
            step[new] = list(value) if isinstance(value, tuple | list) else value
    retry = {}
    if isinstance(given.get("run_max_try"), int):
        retry["max_retries"] = max(0, given["run_max_try"] - 1)
        notes.append(
            f"run_max_try {given['run_max_try']} counts tries and max_retries {retry['max_retries']} counts retries: "
            "one less (Microsoft's own table maps them 1:1)"
        )
    if "run_invocation_timeout" in given:
        retry["timeout"] = given["run_invocation_timeout"]
    if retry:
        step["retry_settings"] = retry
    if variables := given.get("environment_variables"):
        # On the step: neither a parallel component nor its task keeps them.
        step["environment_variables"] = {str(key): str(value) for key, value in variables.items()}
    step["task"] = _task(given, output, notes)
    return step


def _task(given: dict[str, Any], output: str | None, notes: list[str]) -> dict[str, Any]:
    task: dict[str, Any] = {"type": "run_function"}
    task["code"] = str(given.get("source_directory") or ".")
    task["entry_script"] = str(given.get("entry_script") or UNSET)
    if "entry_script" not in given:
        notes.append(f"entry_script is not known: {UNSET} stands for it")
    arguments = [str(one) for one in _list(given.get("arguments"))]
    for key in _ARGUMENTS:
        if key in given:
            arguments += [f"--{key}", str(given[key])]
            notes.append(f"{key} is an argument of the program in v2: --{key}")
    if arguments:
        task["program_arguments"] = shlex.join(arguments)
    environment = str(given.get("environment") or f"{UNSET}@latest")
    if "environment" not in given:
        notes.append(f"the environment is not known: {UNSET} stands for it")
    elif ":" not in environment and "@" not in environment:
        environment += "@latest"
    task["environment"] = environment if environment.startswith("azureml:") else f"azureml:{environment}"
    if output and _appends(given):
        task["append_row_to"] = f"${{{{outputs.{output}}}}}"
    return task


def _compute(given: dict[str, Any]) -> str:
    compute = str(given.get("compute_target") or UNSET)
    return compute if compute.startswith("azureml:") else f"azureml:{compute}"


def _instance_type(given: dict[str, Any], notes: list[str]) -> str:
    if "instance_type" in given:
        return str(given["instance_type"])
    notes.append(f"no instance type is given: {DEFAULT_INSTANCE_TYPE} is written, which v1 always used")
    return DEFAULT_INSTANCE_TYPE


def _appends(given: dict[str, Any]) -> bool:
    return bool(given.get("output_action", "append_row") == "append_row")


def _output(given: dict[str, Any], notes: list[str]) -> str | None:
    name = given.get("output")
    if name is None and not _appends(given):
        return None
    output = legal(str(name or "output"))
    if _appends(given):
        # v1's default file name, which v2 has no setting for.
        file = given.get("append_row_file_name", "parallel_run_step.txt")
        notes.append(
            f"rows are appended to the output {output}, a file: let its path end with {file} to keep the name"
        )
    return output


def _names(given: dict[str, Any], key: str, default: str | None, notes: list[str]) -> list[str]:
    names = [legal(str(one)) for one in _list(given.get(key))]
    if not names and default:
        notes.append(f"the {key} are not known: one named {default} stands for them")
        return [default]
    return list(dict.fromkeys(names))


def _list(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]
