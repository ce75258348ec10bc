"""A v1 ParallelRunStep with its ParallelRunConfig as a v2 pipeline job with one parallel step.

A value that the code does not say is a comment in the job, or SET_ME if v2 needs it.
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
    REQUIRED,
    STEP,
    PrsCall,
    find_parallel_runs,
)
from arc_toolkit.azureml.python.python_plan import PythonPlan
from arc_toolkit.azureml.python.resolve import SdkResolver
from arc_toolkit.edit.code.names import Binding, Statement, short
from arc_toolkit.edit.code.values import CallArguments, OpaqueValue, call_arguments
from arc_toolkit.edit.yaml.writer import Comment
from arc_toolkit.migrate.ledger import Ledger, argument_rows, signature
from arc_toolkit.migrate.v1_values import Data, Output, Ports, V1Fields, V1Values
from arc_toolkit.migrate.v2_jobs import (
    DEFAULT_INSTANCE_COUNT,
    DEFAULT_INSTANCE_TYPE,
    UNSET,
    add_job,
    asset,
    binding,
    environment_value,
    filled,
    job_text,
    legal_name,
)

PRS_RULE = "prs-to-v2"
MARK = "Written by `arc-toolkit patch --prs-to-v2`"
# Names of fields in a file of a config.
_FILE_FIELDS = {"compute_target_name": "compute_target", "environment_name": "environment"}
# Methods of a config that do not change it, and calls that take it as it is.
_HARMLESS = frozenset({"save_to_yaml", STEP, "print", "display", "type", "str", "repr"})


def convert_parallel_runs(plan: PythonPlan) -> None:
    """A YAML file for each ParallelRunStep, and its ledger."""
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
                fields.ledger.replace(name, "the command line says it")
        text = parallel_job(fields.values, fields.ledger)
        name = re.sub(r"[^a-z0-9]+", "_", str(fields.values.get("name") or "parallel").lower())
        file = add_job(plan, name.strip("_"), "parallel", text)
        message = f"{STEP} is written as a v2 pipeline job: {file}"
        fields.ledger.report(plan, PRS_RULE, message, at)


# --- from the code ---


def read_fields(step: PrsCall | None, config: PrsCall | None, resolver: SdkResolver) -> V1Fields:
    """All fields of a step and its config, or of a config alone."""
    fields = V1Fields(V1Values(resolver))
    ledger = fields.ledger
    if config is not None:
        arguments = call_arguments(config.call, signature(CONFIG), config.statement)
        _read_changes(arguments, config, step.statement if step else None, fields)
        fields.read(CONFIG, arguments)
    if step is not None:
        arguments = call_arguments(step.call, signature(STEP), step.statement)
        holder = arguments.values.pop("parallel_run_config", None)
        text = short(holder[0]) if holder is not None else "nothing"
        made = fields.reader.follow(*holder) if holder is not None else None
        ledger.read(STEP, ["parallel_run_config"])
        if config is not None and made is not None and made[0] is not config.call:
            ledger.note("parallel_run_config", f"{text} is taken for the one {CONFIG} of the file")
        elif config is None and (made is None or not _read_file(*made, resolver, fields)):
            reason = f"it is {text}, which is not made here: its fields are not known"
            ledger.by_hand("parallel_run_config", reason)
            ledger.read(CONFIG, REQUIRED)
            for name in REQUIRED:
                ledger.by_hand(name, f"a part of {text}", CONFIG)
        fields.read(STEP, arguments)
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
        if use.path[-1] in _HARMLESS:
            continue
        if use.how == "argument":
            line = use.statement.source.file_line(use.statement.stmt.lineno)
            reason = f"gets the config in line {line}: what it sets is not read"
            fields.ledger.by_hand(f"{use.path[0]}()", reason, CONFIG)
        elif is_assigned and len(use.path) == 1 and is_certain:
            arguments.values[use.path[0]] = use.value, use.statement
        elif is_assigned and use.path[0] == "environment_variables" and len(use.path) == 2:
            variables = fields.values.setdefault("more_variables", {})
            try:
                value = fields.reader.plain(use.value, use.statement)
                variables[use.path[1][1:-1]] = value
            except OpaqueValue:
                fields.ledger.by_hand("environment_variables", short(use.value))
        else:
            fields.ledger.by_hand(".".join(use.path), short(use.value), CONFIG)


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
    values = {_FILE_FIELDS.get(str(key), str(key)): value for key, value in config.items()}
    values = {key: value for key, value in values.items() if value is not None}
    version = values.pop("environment_version", None)
    if version is not None and "environment" in values:
        values["environment"] = f"{values['environment']}:{version}"
    fields.ledger.read(CONFIG, values)
    fields.ledger.note("parallel_run_config", f"its fields are those of {name}")
    fields.values |= {key: value for key, value in values.items() if key in signature(CONFIG)}
    return True


# --- to YAML ---

# Fields that v2 has under the name in the table, with the same value.
_SAME = (
    *("process_count_per_node", "error_threshold", "allowed_failed_count", "logging_level"),
    "partition_keys",
)
_SIZE = re.compile(r"\d+[kKmMgG][bB]")
_NUMBERS = (
    *("run_max_try", "run_invocation_timeout", "node_count", "process_count_per_node"),
    "error_threshold",
)
# Fields that have a value in the v2 text whatever happens: no comment is needed for them.
_ALWAYS = {
    *("compute_target", "entry_script", "environment", "node_count", "inputs", "name"),
    *("source_directory", "parallel_run_config", "**"),
}


def parallel_job(values: Mapping[str, object], ledger: Ledger) -> str:
    """The v2 text; the ledger knows the fields that the code does not say, and gets the rest."""
    unknown = ledger.unknown
    old: dict[str, Any] = {key: value for key, value in values.items() if value is not None}
    kinds = {
        **dict.fromkeys(_NUMBERS, (int, "a whole number")),
        "environment_variables": (dict, "a mapping"),
    }
    for key, (kind, kind_name) in kinds.items():
        if not isinstance(old.get(key, kind()), kind):
            ledger.note(key, f"{old.pop(key)!r} is not {kind_name}: it is not written", "lost")
    ports = Ports()
    split = [ports.add_data(item) for item in _split_inputs(old)]
    if not split:
        split = [ports.add_data(Data("data"))]
        ledger.by_hand("inputs", "one named data is written for them")
    for item in old.get("side_inputs") or []:
        ports.add_data(item)
    words = list(old.get("arguments") or [])
    percent = "allowed_failed_percent"
    words += [f"--{percent}", str(old[percent])] if percent in old else []
    arguments = ports.command_line(words)
    rows, row_file = _rows_output(old, ports, ledger)
    step = _step(old, unknown, split, ports, arguments, rows, ledger)
    ports.report(ledger)
    if "instance_type" not in old:
        reason = f"no instance type is given: {DEFAULT_INSTANCE_TYPE}, which v1 always used"
        ledger.added("resources.instance_type", reason)
    for key in ("compute_target", "entry_script", "environment"):
        if key not in old and key not in unknown:
            ledger.by_hand(key, f"the code does not set it: {UNSET} is written")
    name = legal_name(str(old.get("name") or "parallel"), component=True)
    # Where `patch --compute` looks too: it finds nothing to change then.
    settings: dict[Any, Any] = {"default_compute": step["compute"]}
    if old.get("allow_reuse") is False:
        settings[Comment("allow_reuse=False: an inline step has no is_deterministic.")] = None
        settings["force_rerun"] = True
    count = UNSET if "node_count" in unknown else DEFAULT_INSTANCE_COUNT
    sections = {
        "description": str(old.get("description", "")),
        "inputs": {
            Comment("Where and how wide it runs."): None,
            "instance_type": str(old.get("instance_type", DEFAULT_INSTANCE_TYPE)),
            "instance_count": old.get("node_count", count),
            **ports.job_inputs(),
        },
        "outputs": {
            key: item.job_output(row_file if key == rows else "")
            for key, item in ports.outputs.items()
        },
        "settings": settings,
        "jobs": {name: step},
    }
    title = str(old.get("name") or name)
    return job_text("pipeline", f"{MARK} from a v1 {STEP}.", title, sections)


def _split_inputs(old: dict[str, Any]) -> list[Data]:
    """The inputs that are split. A mini batch of `10KB` is a part of a table; `10` may be both."""
    is_table = _SIZE.fullmatch(str(old.get("mini_batch_size", "")))
    inputs: list[Data] = old.get("inputs") or []
    return [replace(item, kind="table") if is_table and not item.kind else item for item in inputs]


def _rows_output(old: dict[str, Any], ports: Ports, ledger: Ledger) -> tuple[str, str]:
    """The output that rows are appended to and its file; empty for summary_only."""
    output = old.get("output")
    made = output if isinstance(output, Output) else Output("output")
    is_folder = legal_name(made.name) in ports.outputs and output is not None
    if str(old.get("output_action", "append_row")).lower() != "append_row":
        if output is not None:
            ports.add_output(made)
        return "", ""
    rows = ports.add_output(replace(made, name=f"{made.name}_rows") if is_folder else made)
    # v1's default file name, which v2 has no setting for.
    file = str(old.get("append_row_file_name", "parallel_run_step.txt"))
    script = f", because the script gets the folder {legal_name(made.name)} itself"
    reason = f"rows are appended to the output {rows}, a file{script if is_folder else ''}"
    if not made.path:
        reason += f": let its path end with {file} to keep the name"
    ledger.note("output", reason)
    return rows, file


def _mini_batch_size(old: dict[str, Any], unknown: Mapping[str, str], ledger: Ledger) -> str | None:
    """The size; v1's default where v2's differs: 10 files, or 1 MB of a table."""
    if "mini_batch_size" in old:
        return str(old["mini_batch_size"])
    if {"partition_keys", "mini_batch_size"} & {*old, *unknown}:
        return None
    kind = next((item.kind for item in old.get("inputs") or []), "")
    kinds = {"table": "a table", "file": "files", "": "files, which for a table is 1MB"}
    size = "1MB" if kind == "table" else "10"
    ledger.added("mini_batch_size", f"{size}, v1's default for {kinds[kind]}; v2's is 1")
    return size


def _step(
    old: dict[str, Any],
    unknown: Mapping[str, str],
    split: list[str],
    ports: Ports,
    arguments: str,
    rows: str,
    ledger: Ledger,
) -> dict[Any, Any]:
    first, *others = split
    if others:
        whole = f"{', '.join(others)} are passed whole"
        ledger.by_hand("inputs", f"v2 splits one input into mini batches: {first}; {whole}")
    retries = None
    if "run_max_try" in old:
        retries = max(0, old["run_max_try"] - 1)
        ledger.note(
            "run_max_try",
            f"{old['run_max_try']} counts tries and max_retries {retries} counts retries: one "
            "less (Microsoft's own table maps them 1:1)",
        )
    variables = {**(old.get("environment_variables") or {}), **old.get("more_variables", {})}
    places = {**argument_rows()[STEP], **argument_rows()[CONFIG]}
    comments = [
        Comment(f"{places[key].becomes if key in places else key}: v1's {key} is {text}")
        for key, text in unknown.items()
        if key not in {*_ALWAYS, *old}
    ]
    task = {
        "type": "run_function",
        "code": str(old.get("source_directory") or "."),
        "entry_script": str(old.get("entry_script") or UNSET),
        "program_arguments": arguments,
        "environment": environment_value(old.get("environment")),
        "append_row_to": f"${{{{outputs.{rows}}}}}" if rows else None,
    }
    step: dict[Any, Any] = {
        "type": "parallel",
        **dict.fromkeys(comments),
        "compute": asset(str(old.get("compute_target") or UNSET)),
        "resources": {name: binding(name) for name in ("instance_type", "instance_count")},
        "inputs": {
            **{name: data.step_input(name) for name, data in ports.data.items()},
            **{name: binding(name) for name in ports.parameters},
        },
        "outputs": {name: binding(name, "outputs") for name in ports.outputs},
        "input_data": f"${{{{inputs.{first}}}}}",
        "mini_batch_size": _mini_batch_size(old, unknown, ledger),
    }
    for key in _SAME:
        value = old.get(key)
        step[places[key].becomes] = list(value) if isinstance(value, tuple) else value
    timeout = old.get("run_invocation_timeout")
    step["retry_settings"] = filled({"max_retries": retries, "timeout": timeout})
    # On the step: neither a parallel component nor its task keeps them.
    step["environment_variables"] = {str(key): str(value) for key, value in variables.items()}
    return filled({**step, "task": filled(task)})
