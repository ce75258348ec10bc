"""A v1 ParallelRunStep with its ParallelRunConfig as a v2 pipeline job with one parallel step.

Source: Microsoft Learn, "Upgrade parallel run step to SDK v2", and the v2 parallel schema of azure-ai-ml. The fields
come as literals of the Python source; what could not be read there is not among them.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from arc_toolkit.azureml.documents import FILE_STYLE
from arc_toolkit.azureml.migrate.forms import (
    DEFAULT_INSTANCE_COUNT,
    DEFAULT_INSTANCE_TYPE,
    SCHEMA,
    UNSET,
    asset,
    binding,
    filled,
)
from arc_toolkit.azureml.migrate.trial import legal
from arc_toolkit.azureml.rules.prs_instance_type import EQUIVALENTS
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
_KNOWN = {*EQUIVALENTS, *_ARGUMENTS, "name", "description", "parallel_run_config", "instance_type"}
# v1's defaults where v2's differ: v1 takes 10 files a mini batch (or 1 MB of a table), v2 takes 1.
_MINI_BATCH_SIZE = "10"


def to_yaml(fields: Mapping[str, object]) -> tuple[str, list[str]]:
    """The v2 text, and notes about all that is not one to one."""
    notes: list[str] = []
    old: dict[str, Any] = {key: value for key, value in fields.items() if value is not None}
    for key, kind in (("run_max_try", int), ("environment_variables", dict)):
        if not isinstance(old.get(key, kind()), kind):
            notes.append(f"{key} is {old.pop(key)!r}, not {kind.__name__}: it is not written")
    notes += [
        f"{key} has no equivalent in a v2 parallel step and is not written" for key in old if key not in _KNOWN
    ]

    split = _names(old, "inputs")
    if not split:
        split = ["data"]
        notes.append("the inputs are not known: one named data is written for them")
    inputs = [*split, *_names(old, "side_inputs")]
    output = _output(old, notes)
    step = _step(old, split, inputs, output, notes)
    notes.append(f"set a path for {', '.join(inputs)} before the job is submitted")
    if "instance_type" not in old:
        notes.append(f"no instance type is given: {DEFAULT_INSTANCE_TYPE} is written, which v1 always used")
    if "compute_target" not in old:
        notes.append(f"compute_target is not known: {UNSET} is written for it")
    name = legal(str(old.get("name") or "parallel"), component=True)
    path = Comment("path: azureml:NAME@latest, or a folder or URL; a tabular dataset is an mltable")
    # Where `patch --compute` looks too: it finds nothing to change then.
    settings: dict[str, Any] = {"default_compute": step["compute"]}
    if old.get("allow_reuse") is False:
        settings[Comment("allow_reuse=False: an inline step has no is_deterministic.")] = None
        settings["force_rerun"] = True
    out = {
        Comment(f"{MARK} from a v1 ParallelRunStep."): None,
        "$schema": SCHEMA.format("pipelineJob"),
        "type": "pipeline",
        "display_name": str(old.get("name") or name),
        "description": str(old.get("description", "")),
        "inputs": {
            Comment("Where and how wide it runs."): None,
            "instance_type": str(old.get("instance_type", DEFAULT_INSTANCE_TYPE)),
            "instance_count": old.get("node_count", DEFAULT_INSTANCE_COUNT),
            **{item: {"type": "uri_folder", path: None} for item in inputs},
        },
        "outputs": {output: {"type": "uri_file" if _appends(old) else "uri_folder"}} if output else None,
        "settings": settings,
        "jobs": {name: step},
    }
    return file_text(filled(out), FILE_STYLE), notes


def _step(
    old: dict[str, Any], split: list[str], inputs: list[str], output: str | None, notes: list[str]
) -> dict[str, Any]:
    if len(split) > 1:
        notes.append(f"v2 splits one input into mini batches: {split[0]}; {', '.join(split[1:])} are passed whole")
    size = str(old["mini_batch_size"]) if "mini_batch_size" in old else None
    if size is None and "partition_keys" not in old:
        size = _MINI_BATCH_SIZE
        why = "v1's default for files (v2's is 1); for a tabular dataset v1's is 1MB"
        notes.append(f"mini_batch_size is {size}, {why}")
    retries = None
    if "run_max_try" in old:
        retries = max(0, old["run_max_try"] - 1)
        notes.append(
            f"run_max_try {old['run_max_try']} counts tries and max_retries {retries} counts retries: "
            "one less (Microsoft's own table maps them 1:1)"
        )
    same = {new: old[key] for key, new in _SAME.items() if key in old}
    return filled(
        {
            "type": "parallel",
            "compute": asset(str(old.get("compute_target") or UNSET)),
            "resources": {"instance_type": binding("instance_type"), "instance_count": binding("instance_count")},
            "inputs": {item: binding(item) for item in inputs},
            "outputs": {output: binding(output, "outputs")} if output else None,
            "input_data": f"${{{{inputs.{split[0]}}}}}",
            "mini_batch_size": size,
            **{key: list(value) if isinstance(value, tuple) else value for key, value in same.items()},
            "retry_settings": filled({"max_retries": retries, "timeout": old.get("run_invocation_timeout")}),
            # On the step: neither a parallel component nor its task keeps them.
            "environment_variables": {
                str(key): str(value) for key, value in old.get("environment_variables", {}).items()
            },
            "task": _task(old, output, notes),
        }
    )


def _task(old: dict[str, Any], output: str | None, notes: list[str]) -> dict[str, Any]:
    if "entry_script" not in old:
        notes.append(f"entry_script is not known: {UNSET} is written for it")
    arguments = [str(item) for item in _list(old.get("arguments"))]
    for key in _ARGUMENTS:
        if key in old:
            arguments += [f"--{key}", str(old[key])]
            notes.append(f"{key} is an argument of the program in v2: --{key}")
    environment = str(old.get("environment") or UNSET)
    if "environment" not in old:
        notes.append(f"the environment is not known: {UNSET} is written for it")
    if ":" not in environment and "@" not in environment:
        environment += "@latest"
    return filled(
        {
            "type": "run_function",
            "code": str(old.get("source_directory") or "."),
            "entry_script": str(old.get("entry_script") or UNSET),
            "program_arguments": shlex.join(arguments),
            "environment": asset(environment),
            "append_row_to": f"${{{{outputs.{output}}}}}" if output and _appends(old) else None,
        }
    )


def _appends(old: dict[str, Any]) -> bool:
    return bool(old.get("output_action", "append_row") == "append_row")


def _output(old: dict[str, Any], notes: list[str]) -> str | None:
    name = old.get("output")
    if name is None and not _appends(old):
        return None
    output = legal(str(name or "output"))
    if _appends(old):
        # v1's default file name, which v2 has no setting for.
        file = old.get("append_row_file_name", "parallel_run_step.txt")
        notes.append(
            f"rows are appended to the output {output}, a file: let its path end with {file} to keep the name"
        )
    return output


def _names(old: dict[str, Any], key: str) -> list[str]:
    """The names under a key as v2 takes them, each once."""
    return list(dict.fromkeys(legal(str(item)) for item in _list(old.get(key))))


def _list(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]
