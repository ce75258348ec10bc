"""A v1 ParallelRunStep with its ParallelRunConfig as a v2 pipeline job with one parallel step.

Source: Microsoft Learn, "Upgrade parallel run step to SDK v2", and the v2 parallel schema of azure-ai-ml. The fields
come from `parallel_run_source`; a value that the code does not say is written as a comment, or as SET_ME where v2 needs
one, and is a warning.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from arc_toolkit.azureml.documents import FILE_STYLE
from arc_toolkit.azureml.python.parallel_runs import EQUIVALENTS, find_parallel_runs
from arc_toolkit.azureml.python.python_plan import PythonPlan
from arc_toolkit.edit.yaml.writer import Comment, file_text
from arc_toolkit.migrate.forms import (
    DEFAULT_INSTANCE_COUNT,
    DEFAULT_INSTANCE_TYPE,
    SCHEMA,
    UNSET,
    asset,
    binding,
    filled,
)
from arc_toolkit.migrate.new_jobs import add_job
from arc_toolkit.migrate.parallel_run_source import read_fields
from arc_toolkit.migrate.trial import legal
from arc_toolkit.migrate.v1_data import Data, Output
from arc_toolkit.migrate.v1_forms import (
    Ports,
    data_notes,
    input_mode,
    input_spec,
    input_type,
)

PRS_RULE = "prs-to-v2"
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
_KNOWN = {*EQUIVALENTS, *_ARGUMENTS, "name", "description", "instance_type", "more_variables"}
# v1's defaults where v2's differ: v1 takes 10 files a mini batch, or 1 MB of a table; v2 takes 1.
_FILES, _TABLE = "10", "1MB"
_SIZE = re.compile(r"\d+[kKmMgG][bB]")
_NUMBERS = (
    "run_max_try",
    "run_invocation_timeout",
    "node_count",
    "process_count_per_node",
    "error_threshold",
)
# Fields that have a value in the v2 text whatever happens, so that no comment is needed for them.
_ALWAYS = {
    "compute_target",
    "entry_script",
    "environment",
    "node_count",
    "inputs",
    "name",
    "source_directory",
}


def convert_parallel_runs(plan: PythonPlan) -> None:
    """A YAML file for each ParallelRunStep, and findings for all that is not one to one."""
    settings = plan.settings
    for step, config in find_parallel_runs(plan.resolver):
        made = step or config
        assert made is not None
        at = plan.at(made.statement, made.call)
        if plan.covers(PRS_RULE, at):
            continue
        fields = read_fields(step, config, plan.resolver)
        for name, value in (
            ("instance_type", settings.instance_type),
            ("compute_target", settings.compute),
            ("node_count", settings.instance_count),
        ):
            if value is not None:
                fields.values[name] = value
                fields.unknown.pop(name, None)
        text, notes = to_yaml(fields.values, fields.unknown)
        name = str(fields.values.get("name") or "parallel").lower()
        add_job(plan, re.sub(r"[^a-z0-9]+", "_", name).strip("_"), "parallel", text)
        if fields.unknown:
            words = ", ".join(f"{field} ({text})" for field, text in fields.unknown.items())
            message = f"these values are not in this file, write them in by hand: {words}"
            plan.add_finding(PRS_RULE, "warning", message, at, applied=True)
        for note in (*fields.notes, *notes):
            plan.add_finding(PRS_RULE, "note", note, at)


def to_yaml(
    values: Mapping[str, object], unknown: Mapping[str, str] | None = None
) -> tuple[str, list[str]]:
    """The v2 text, and notes about all that is not one to one. `unknown` are fields with the text of the code."""
    notes: list[str] = []
    unknown = dict(unknown or {})
    old: dict[str, Any] = {key: value for key, value in values.items() if value is not None}
    kinds = {
        **dict.fromkeys(_NUMBERS, (int, "a whole number")),
        "environment_variables": (dict, "a mapping"),
    }
    for key, (kind, words) in kinds.items():
        if not isinstance(old.get(key, kind()), kind):
            notes.append(f"{key} is {old.pop(key)!r}, not {words}: it is not written")
    notes += [
        f"{key} has no equivalent in a v2 parallel step and is not written"
        for key in old
        if key not in _KNOWN
    ]
    ports = Ports()
    split = [ports.add_data(item) for item in _split(old)]
    if not split:
        split = [ports.add_data(Data("data"))]
        notes.append("the inputs are not known: one named data is written for them")
    for item in old.get("side_inputs") or []:
        ports.add_data(item)
    arguments = ports.command_line([*(old.get("arguments") or []), *_program_arguments(old, notes)])
    rows = _rows(old, ports, notes)
    step = _step(old, unknown, split, ports, arguments, rows, notes)
    notes += data_notes(ports)
    if "instance_type" not in old:
        notes.append(
            f"no instance type is given: {DEFAULT_INSTANCE_TYPE} is written, which v1 always used"
        )
    if unset := [
        key
        for key in ("compute_target", "entry_script", "environment")
        if key not in {*old, *unknown}
    ]:
        notes.append(f"{UNSET} is written for {', '.join(unset)}, which the code does not set")
    name = legal(str(old.get("name") or "parallel"), component=True)
    # Where `patch --compute` looks too: it finds nothing to change then.
    settings: dict[str, Any] = {"default_compute": step["compute"]}
    if old.get("allow_reuse") is False:
        settings[Comment("allow_reuse=False: an inline step has no is_deterministic.")] = None
        settings["force_rerun"] = True
    count = old.get("node_count", UNSET if "node_count" in unknown else DEFAULT_INSTANCE_COUNT)
    out = {
        Comment(f"{MARK} from a v1 ParallelRunStep."): None,
        "$schema": SCHEMA.format("pipelineJob"),
        "type": "pipeline",
        "display_name": str(old.get("name") or name),
        "description": str(old.get("description", "")),
        "inputs": {
            Comment("Where and how wide it runs."): None,
            "instance_type": str(old.get("instance_type", DEFAULT_INSTANCE_TYPE)),
            "instance_count": count,
            **{item: input_spec(data) for item, data in ports.data.items()},
            **ports.parameters,
        },
        "outputs": {
            item: {"type": "uri_file" if item == rows else "uri_folder"} for item in ports.outputs
        },
        "settings": settings,
        "jobs": {name: step},
    }
    return file_text(filled(out), FILE_STYLE), notes


def _split(old: dict[str, Any]) -> list[Data]:
    """The inputs that are split. The size of a mini batch says whether one of unknown kind is a table."""
    table = _SIZE.fullmatch(str(old.get("mini_batch_size", "")))
    files = str(old.get("mini_batch_size", "")).isdigit()
    inputs = old.get("inputs") or []
    return [
        item if item.kind else replace(item, kind="table" if table else "file" if files else "")
        for item in inputs
    ]


def _step(
    old: dict[str, Any],
    unknown: dict[str, str],
    split: list[str],
    ports: Ports,
    arguments: str,
    rows: str | None,
    notes: list[str],
) -> dict[Any, Any]:
    if len(split) > 1:
        notes.append(
            f"v2 splits one input into mini batches: {split[0]}; {', '.join(split[1:])} are passed whole"
        )
    size = str(old["mini_batch_size"]) if "mini_batch_size" in old else None
    if size is None and not {"partition_keys", "mini_batch_size"} & {*old, *unknown}:
        table = ports.data[split[0]].kind == "table"
        size = _TABLE if table else _FILES
        kind = (
            "a table"
            if table
            else "files, which for a table is 1MB"
            if not ports.data[split[0]].kind
            else "files"
        )
        notes.append(f"mini_batch_size is {size}, v1's default for {kind}; v2's is 1")
    retries = None
    if "run_max_try" in old:
        retries = max(0, old["run_max_try"] - 1)
        notes.append(
            f"run_max_try {old['run_max_try']} counts tries and max_retries {retries} counts retries: "
            "one less (Microsoft's own table maps them 1:1)"
        )
    same = {new: old[key] for key, new in _SAME.items() if key in old}
    variables = {**(old.get("environment_variables") or {}), **old.get("more_variables", {})}
    comments: dict[Any, Any] = {
        Comment(f"{EQUIVALENTS.get(key, key)}: v1's {key} is {text}"): None
        for key, text in unknown.items()
        if key not in {*_ALWAYS, *old, "**"}
    }
    return filled(
        {
            "type": "parallel",
            **comments,
            "compute": asset(str(old.get("compute_target") or UNSET)),
            "resources": {
                "instance_type": binding("instance_type"),
                "instance_count": binding("instance_count"),
            },
            "inputs": {
                **{name: _step_input(name, data) for name, data in ports.data.items()},
                **{name: binding(name) for name in ports.parameters},
            },
            "outputs": {name: binding(name, "outputs") for name in ports.outputs},
            "input_data": f"${{{{inputs.{split[0]}}}}}",
            "mini_batch_size": size,
            **{
                key: list(value) if isinstance(value, tuple) else value
                for key, value in same.items()
            },
            "retry_settings": filled(
                {"max_retries": retries, "timeout": old.get("run_invocation_timeout")}
            ),
            # On the step: neither a parallel component nor its task keeps them.
            "environment_variables": {str(key): str(value) for key, value in variables.items()},
            "task": filled(
                {
                    "type": "run_function",
                    "code": str(old.get("source_directory") or "."),
                    "entry_script": str(old.get("entry_script") or UNSET),
                    "program_arguments": arguments,
                    "environment": _environment(old),
                    "append_row_to": f"${{{{outputs.{rows}}}}}" if rows else None,
                }
            ),
        }
    )


def _step_input(name: str, data: Data) -> Any:
    """A binding; with its type and mode where the step reads it in another way than by default."""
    if mode := input_mode(data):
        return {"type": input_type(data), "path": binding(name), "mode": mode}
    return binding(name)


def _environment(old: dict[str, Any]) -> str:
    name = str(old.get("environment") or UNSET)
    return asset(name if ":" in name or "@" in name else f"{name}@latest")


def _program_arguments(old: dict[str, Any], notes: list[str]) -> list[str]:
    words = []
    for key in _ARGUMENTS:
        if key in old:
            words += [f"--{key}", str(old[key])]
            notes.append(f"{key} is an argument of the program in v2: --{key}")
    return words


def _rows(old: dict[str, Any], ports: Ports, notes: list[str]) -> str | None:
    """The output that rows are appended to, a file; None for summary_only."""
    given = old.get("output")
    appends = str(old.get("output_action", "append_row")).lower() == "append_row"
    is_folder = isinstance(given, Output) and legal(given.name) in ports.outputs
    if given is not None:
        ports.add_output(given)
    if not appends:
        return None
    name = given.name if isinstance(given, Output) else "output"
    rows = ports.add_output(Output(f"{name}_rows" if is_folder else name))
    # v1's default file name, which v2 has no setting for.
    file = old.get("append_row_file_name", "parallel_run_step.txt")
    why = f", because the script gets the folder {legal(name)} itself" if is_folder else ""
    notes.append(
        f"rows are appended to the output {rows}, a file{why}: let its path end with {file} to keep the name"
    )
    return rows
