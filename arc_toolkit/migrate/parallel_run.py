"""A v1 ParallelRunStep with its ParallelRunConfig as a v2 pipeline job with one parallel step.

A value that the code does not say is a warning, and a comment in the job, or SET_ME if v2 needs it.
Source: Microsoft Learn, "Upgrade parallel run step to SDK v2", and the v2 parallel schema.
"""

from __future__ import annotations

import ast
import os.path
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import yaml

from arc_toolkit.azureml.python.parallel_runs import (
    CONFIG,
    CONFIG_ORDER,
    EQUIVALENTS,
    REQUIRED,
    STEP,
    STEP_ORDER,
    PrsCall,
    find_parallel_runs,
)
from arc_toolkit.azureml.python.python_plan import PythonPlan
from arc_toolkit.azureml.python.resolve import SdkResolver
from arc_toolkit.edit.code.names import Binding, Statement, short
from arc_toolkit.edit.code.values import CallArguments, OpaqueValue, call_arguments
from arc_toolkit.edit.yaml.writer import Comment
from arc_toolkit.migrate.trial import legal_name
from arc_toolkit.migrate.v1_values import (
    Data,
    Output,
    Ports,
    V1Fields,
    V1Values,
    input_mode,
    input_type,
)
from arc_toolkit.migrate.v2_jobs import (
    DEFAULT_INSTANCE_COUNT,
    DEFAULT_INSTANCE_TYPE,
    UNSET,
    add_job,
    asset,
    binding,
    environment_asset,
    filled,
    job_text,
    report_job,
)

PRS_RULE = "prs-to-v2"
MARK = "Written by `arc-toolkit patch --prs-to-v2`"
# Names of fields in a file of a config.
_FILE_FIELDS = {"compute_target_name": "compute_target", "environment_name": "environment"}
# Keys of such a file that are not fields of a config.
_OTHER_KEYS = ("input_format", "version", "more_variables", *STEP_ORDER)
# Methods of a config that do not change it, and calls that take it as it is.
_HARMLESS = frozenset({"save_to_yaml", STEP, "print", "display", "type", "str", "repr"})


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
        text, notes = parallel_job(fields.values, fields.unknown)
        name = str(fields.values.get("name") or "parallel").lower()
        add_job(plan, re.sub(r"[^a-z0-9]+", "_", name).strip("_"), "parallel", text)
        report_job(plan, PRS_RULE, at, fields.unknown, [*fields.notes, *notes])


# --- from the code ---


def read_fields(step: PrsCall | None, config: PrsCall | None, resolver: SdkResolver) -> V1Fields:
    """All fields of a step and its config, or of a config alone."""
    values = V1Values(resolver)
    fields = V1Fields(values)
    if config is not None:
        arguments = call_arguments(config.call, CONFIG_ORDER, config.statement)
        _read_changes(arguments, config, step.statement if step else None, fields)
        fields.read(arguments)
    if step is not None:
        arguments = call_arguments(step.call, STEP_ORDER, step.statement)
        holder = arguments.values.pop("parallel_run_config", None)
        text = short(holder[0]) if holder is not None else "nothing"
        made = values.follow(*holder) if holder is not None else None
        if config is not None and made is not None and made[0] is not config.call:
            fields.notes.append(f"{text} is taken for the one {CONFIG} of the file")
        elif config is None and (made is None or not _read_file(*made, resolver, fields)):
            reason = "which is not made here: its fields are not known"
            fields.notes.append(f"parallel_run_config is {text}, {reason}")
            fields.unknown |= dict.fromkeys(REQUIRED, f"a part of {text}")
        fields.read(arguments)
    fields.notes += values.remarks
    return fields


def _read_changes(
    arguments: CallArguments, config: PrsCall, until: Statement | None, fields: V1Fields
) -> None:
    """What is set on the config after it is made, into its arguments."""
    match config.statement.stmt:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if value is config.call:
            made = Binding(name, config.statement, config.call)
        case _:
            return
    for use in fields.reader.uses(made, until):
        is_assigned = use.how == "assign"
        is_certain = use.statement.is_certain_before(until or config.statement)
        if use.how == "argument":
            if use.path[0] not in _HARMLESS:
                line = use.statement.source.file_line(use.statement.stmt.lineno)
                reason = f"gets the config in line {line}: what it sets is not read"
                fields.notes.append(f"{use.path[0]}() {reason}")
        elif is_assigned and len(use.path) == 1 and is_certain:
            arguments.values[use.path[0]] = use.value, use.statement
        elif is_assigned and use.path[0] == "environment_variables" and len(use.path) == 2:
            variables = fields.values.setdefault("more_variables", {})
            try:
                value = fields.reader.plain(use.value, use.statement)
                variables[use.path[1][1:-1]] = value
            except OpaqueValue:
                fields.unknown["environment_variables"] = short(use.value)
        elif use.path[-1] not in _HARMLESS:
            fields.unknown[".".join(use.path)] = short(use.value)


def _read_file(
    made: ast.expr, statement: Statement, resolver: SdkResolver, fields: V1Fields
) -> bool:
    """`ParallelRunConfig.load_yaml(ws, "config.yml")`: a file as `save_to_yaml` writes it."""
    match made:
        case ast.Call(func=ast.Attribute(attr="load_yaml", value=holder)):
            path = call_arguments(made, ("workspace", "path"), statement).values.get("path")
            name = resolver.text(*path) if path is not None else None
        case _:
            return False
    if name is None or resolver.role(holder, statement).name != CONFIG:
        return False
    try:
        content = yaml.safe_load(resolver.project.read(os.path.join(resolver.folder, name)))
    except (OSError, ValueError, yaml.YAMLError):
        return False
    config = content.get("parallel_run_config") if isinstance(content, dict) else None
    if not isinstance(config, dict):
        return False
    values = {
        _FILE_FIELDS.get(str(key), str(key)): value
        for key, value in config.items()
        if value is not None and key not in _OTHER_KEYS
    }
    version = values.pop("environment_version", None)
    if version is not None and "environment" in values:
        values["environment"] = f"{values['environment']}:{version}"
    fields.values |= values
    fields.notes.append(f"the fields of parallel_run_config are those of {name}")
    return True


# --- to YAML ---

# v1 field -> key of the v2 step, with the same value.
_SAME = {
    "process_count_per_node": "max_concurrency_per_instance",
    "error_threshold": "error_threshold",
    "allowed_failed_count": "mini_batch_error_threshold",
    "logging_level": "logging_level",
    "partition_keys": "partition_keys",
}
# v1 fields that v2 takes as arguments of the entry script's program.
_ARGUMENTS = (
    *("allowed_failed_percent", "task_overhead_timeout", "progress_update_timeout"),
    *("first_task_creation_timeout", "resource_monitor_interval", "copy_logs_to_parent"),
)
_FIELDS = {*EQUIVALENTS, *_ARGUMENTS, "name", "description", "instance_type", "more_variables"}
_SIZE = re.compile(r"\d+[kKmMgG][bB]")
_NUMBERS = (
    *("run_max_try", "run_invocation_timeout", "node_count", "process_count_per_node"),
    "error_threshold",
)
# Fields that have a value in the v2 text whatever happens: no comment is needed for them.
_ALWAYS = {
    *("compute_target", "entry_script", "environment", "node_count", "inputs", "name"),
    "source_directory",
}


def parallel_job(
    values: Mapping[str, object], unknown: Mapping[str, str] | None = None
) -> tuple[str, list[str]]:
    """The v2 text, and notes about all that is not one to one.

    `unknown` are fields that the code does not say, with its text: {"node_count": "nodes"}.
    """
    notes: list[str] = []
    unknown = unknown or {}
    old: dict[str, Any] = {key: value for key, value in values.items() if value is not None}
    kinds = {
        **dict.fromkeys(_NUMBERS, (int, "a whole number")),
        "environment_variables": (dict, "a mapping"),
    }
    for key, (kind, kind_name) in kinds.items():
        if not isinstance(old.get(key, kind()), kind):
            notes.append(f"{key} is {old.pop(key)!r}, not {kind_name}: it is not written")
    for key in (key for key in old if key not in _FIELDS):
        notes.append(f"{key} has no equivalent in a v2 parallel step and is not written")
    ports = Ports()
    split = [ports.add_data(item) for item in _split_inputs(old)]
    if not split:
        split = [ports.add_data(Data("data"))]
        notes.append("the inputs are not known: one named data is written for them")
    for item in old.get("side_inputs") or []:
        ports.add_data(item)
    words = list(old.get("arguments") or [])
    for key in (key for key in _ARGUMENTS if key in old):
        words += [f"--{key}", str(old[key])]
        notes.append(f"{key} is an argument of the program in v2: --{key}")
    arguments = ports.command_line(words)
    rows = _rows_output(old, ports, notes)
    step = _step(old, unknown, split, ports, arguments, rows, notes)
    notes += ports.notes()
    if "instance_type" not in old:
        reason = f"{DEFAULT_INSTANCE_TYPE} is written, which v1 always used"
        notes.append(f"no instance type is given: {reason}")
    needed = ("compute_target", "entry_script", "environment")
    if unset := [key for key in needed if key not in {*old, *unknown}]:
        notes.append(f"{UNSET} is written for {', '.join(unset)}, which the code does not set")
    name = legal_name(str(old.get("name") or "parallel"), component=True)
    # Where `patch --compute` looks too: it finds nothing to change then.
    settings: dict[Any, Any] = {"default_compute": step["compute"]}
    if old.get("allow_reuse") is False:
        settings[Comment("allow_reuse=False: an inline step has no is_deterministic.")] = None
        settings["force_rerun"] = True
    count = UNSET if "node_count" in unknown else DEFAULT_INSTANCE_COUNT
    outputs = {
        item: {"type": "uri_file" if item == rows else "uri_folder"} for item in ports.outputs
    }
    sections = {
        "description": str(old.get("description", "")),
        "inputs": {
            Comment("Where and how wide it runs."): None,
            "instance_type": str(old.get("instance_type", DEFAULT_INSTANCE_TYPE)),
            "instance_count": old.get("node_count", count),
            **ports.job_inputs(),
        },
        "outputs": outputs,
        "settings": settings,
        "jobs": {name: step},
    }
    title = str(old.get("name") or name)
    return job_text("pipeline", f"{MARK} from a v1 {STEP}.", title, sections), notes


def _split_inputs(old: dict[str, Any]) -> list[Data]:
    """The inputs that are split. The size of a mini batch tells files from tables."""
    size = str(old.get("mini_batch_size", ""))
    kind = "table" if _SIZE.fullmatch(size) else "file" if size.isdigit() else ""
    return [item if item.kind else replace(item, kind=kind) for item in old.get("inputs") or []]


def _rows_output(old: dict[str, Any], ports: Ports, notes: list[str]) -> str | None:
    """The output that rows are appended to, a file; None for summary_only."""
    output = old.get("output")
    name = output.name if isinstance(output, Output) else "output"
    is_folder = legal_name(name) in ports.outputs and output is not None
    if output is not None:
        ports.add_output(output)
    if str(old.get("output_action", "append_row")).lower() != "append_row":
        return None
    rows = ports.add_output(Output(f"{name}_rows" if is_folder else name))
    # v1's default file name, which v2 has no setting for.
    file = old.get("append_row_file_name", "parallel_run_step.txt")
    script = f", because the script gets the folder {legal_name(name)} itself" if is_folder else ""
    hint = f"let its path end with {file} to keep the name"
    notes.append(f"rows are appended to the output {rows}, a file{script}: {hint}")
    return rows


def _mini_batch_size(
    old: dict[str, Any], unknown: Mapping[str, str], kind: str, notes: list[str]
) -> str | None:
    """The size; v1's default where v2's differs: 10 files, or 1 MB of a table."""
    if "mini_batch_size" in old:
        return str(old["mini_batch_size"])
    if {"partition_keys", "mini_batch_size"} & {*old, *unknown}:
        return None
    kinds = {"table": "a table", "file": "files", "": "files, which for a table is 1MB"}
    size = "1MB" if kind == "table" else "10"
    notes.append(f"mini_batch_size is {size}, v1's default for {kinds[kind]}; v2's is 1")
    return size


def _step(
    old: dict[str, Any],
    unknown: Mapping[str, str],
    split: list[str],
    ports: Ports,
    arguments: str,
    rows: str | None,
    notes: list[str],
) -> dict[Any, Any]:
    first, *others = split
    if others:
        whole = f"{', '.join(others)} are passed whole"
        notes.append(f"v2 splits one input into mini batches: {first}; {whole}")
    size = _mini_batch_size(old, unknown, ports.data[first].kind, notes)
    retries = None
    if "run_max_try" in old:
        retries = max(0, old["run_max_try"] - 1)
        notes.append(
            f"run_max_try {old['run_max_try']} counts tries and max_retries {retries} counts "
            "retries: one less (Microsoft's own table maps them 1:1)"
        )
    variables = {**(old.get("environment_variables") or {}), **old.get("more_variables", {})}
    comments = [
        Comment(f"{EQUIVALENTS.get(key, key)}: v1's {key} is {text}")
        for key, text in unknown.items()
        if key not in {*_ALWAYS, *old, "**"}
    ]
    task = {
        "type": "run_function",
        "code": str(old.get("source_directory") or "."),
        "entry_script": str(old.get("entry_script") or UNSET),
        "program_arguments": arguments,
        "environment": environment_asset(str(old.get("environment") or UNSET)),
        "append_row_to": f"${{{{outputs.{rows}}}}}" if rows else None,
    }
    step: dict[Any, Any] = {
        "type": "parallel",
        **dict.fromkeys(comments),
        "compute": asset(str(old.get("compute_target") or UNSET)),
        "resources": {name: binding(name) for name in ("instance_type", "instance_count")},
        "inputs": {
            **{name: _step_input(name, data) for name, data in ports.data.items()},
            **{name: binding(name) for name in ports.parameters},
        },
        "outputs": {name: binding(name, "outputs") for name in ports.outputs},
        "input_data": f"${{{{inputs.{first}}}}}",
        "mini_batch_size": size,
    }
    for key, new in _SAME.items():
        value = old.get(key)
        step[new] = list(value) if isinstance(value, tuple) else value
    timeout = old.get("run_invocation_timeout")
    step["retry_settings"] = filled({"max_retries": retries, "timeout": timeout})
    # On the step: neither a parallel component nor its task keeps them.
    step["environment_variables"] = {str(key): str(value) for key, value in variables.items()}
    return filled({**step, "task": filled(task)})


def _step_input(name: str, data: Data) -> Any:
    """A binding, with type and mode if the step does not read it in the default way."""
    if mode := input_mode(data):
        return {"type": input_type(data), "path": binding(name), "mode": mode}
    return binding(name)
