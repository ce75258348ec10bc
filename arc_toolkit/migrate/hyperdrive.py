"""HyperDriveConfig of SDK v1 over a ScriptRunConfig as a v2 sweep job beside the file.

    src = ScriptRunConfig(...)                                     train.py (not changed)
    config = HyperDriveConfig(run_config=src, ...)           ->    train.config.sweep.yml

v1 adds the drawn values to the script's arguments (`--name value`), so they end the command here.

Sources: Microsoft Learn, "Upgrade hyperparameter tuning to SDK v2", and the v2 sweep job schema of
azure-ai-ml. Signatures: azureml-core 1.61, azureml-train-core 1.62.
"""

from __future__ import annotations

import ast
import os.path
from dataclasses import dataclass, field
from typing import Any

from arc_toolkit.azureml.python.python_plan import PythonPlan
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.edit.code.names import Statement, calls_in, last_name, short
from arc_toolkit.edit.code.values import Bound, CallArguments, call_arguments
from arc_toolkit.edit.files.edits import Refused
from arc_toolkit.migrate.code_sweeps import SweepReader, report_refusal
from arc_toolkit.migrate.legacy_spec import SWEEP_RULE
from arc_toolkit.migrate.trial import legal_name
from arc_toolkit.migrate.v1_values import Ports, Unsaid, V1Fields, V1Values
from arc_toolkit.migrate.v2_jobs import (
    DEFAULT_INSTANCE_COUNT,
    DEFAULT_INSTANCE_TYPE,
    SWEEP_MARK,
    UNSET,
    add_job,
    asset,
    environment_asset,
    filled,
    job_text,
    report_job,
    resources,
)

NAME = "HyperDriveConfig"
_SAMPLINGS = {
    "RandomParameterSampling": "random",
    "GridParameterSampling": "grid",
    "BayesianParameterSampling": "bayesian",
}
# Argument -> where a v1.5 spec has it.
_SPEC_KEYS = {
    "primary_metric_name": ("objective", "primary_metric"),
    "max_total_runs": ("limits", "max_total_trials"),
    "max_concurrent_runs": ("limits", "max_concurrent_trials"),
    "max_duration_minutes": ("limits", "timeout_minutes"),
}
# v1 ends a run after a week by default; the default of v2 is another one.
_DEFAULT_MINUTES = 10_080
# Arguments without a place in a v2 sweep.
_LOST = ("resume_from", "resume_child_runs", "debug_flag", "custom_run_id")
_ORDER = (
    *("hyperparameter_sampling", "primary_metric_name", "primary_metric_goal", "max_total_runs"),
    *("max_concurrent_runs", "max_duration_minutes", "policy", "estimator", "run_config"),
    *("resume_from", "resume_child_runs", "pipeline", "debug_flag", "custom_run_id"),
)
_SAMPLING_ORDER = (
    *("parameter_space", "properties", "supported_distributions", "distributions_validators"),
)
_SCRIPT_ORDER = (
    *("source_directory", "script", "arguments", "run_config", "_telemetry_values"),
    *("compute_target", "environment", "distributed_job_config", "resume_from"),
    *("max_run_duration_seconds", "command", "docker_runtime_config"),
)
# Settings of a RunConfiguration -> the argument of ScriptRunConfig that means the same.
_RUN_SETTINGS = {"target": "compute_target"} | {
    name: name for name in ("environment", "node_count", "arguments")
}
_HARMLESS = frozenset({NAME, "submit", "print", "display"})
# v1 configuration -> v2 distribution; its arguments in order, all 1 by default.
_DISTRIBUTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "MpiConfiguration": ("mpi", ("process_count_per_node", "node_count")),
    "PyTorchConfiguration": ("pytorch", ("communication_backend", "process_count", "node_count")),
    "TensorflowConfiguration": ("tensorflow", ("worker_count", "parameter_server_count")),
}


def convert_configs(plan: PythonPlan) -> None:
    """A sweep job for each config, or a finding."""
    for scope in plan.module.scopes:
        for statement in scope.statements:
            for call in calls_in(statement.stmt):
                is_config = SweepReader(plan.resolver, statement).called(call, statement) == NAME
                if is_config and not plan.covers(SWEEP_RULE, plan.at(statement)):
                    try:
                        _convert_config(plan, statement, call)
                    except Refused as refused:
                        report_refusal(plan, statement, refused)


def _convert_config(plan: PythonPlan, statement: Statement, call: ast.Call) -> None:
    reader = SweepReader(plan.resolver, statement)
    arguments = call_arguments(call, _ORDER, statement)
    values = arguments.values
    unknown = [name for name in (*values, arguments.rest) if name and name not in _ORDER]
    if unknown:
        raise Refused(f"{NAME} with {', '.join(unknown)} cannot be read")
    if "run_config" not in values:
        other = next((name for name in ("estimator", "pipeline") if name in values), None)
        text = f"the {other} {short(values[other][0])}" if other else "nothing"
        hint = "only a run_config that is a ScriptRunConfig is converted"
        raise Refused(f"{NAME} has {text} to run: {hint}")
    _read_config(reader, values)
    options = _read_sampling(reader, values)
    run = values["run_config"]
    made, where = reader.values.follow(*run)
    path = reader.values.import_path(made.func, where) if isinstance(made, ast.Call) else None
    if not isinstance(made, ast.Call) or not (path or "").endswith("ScriptRunConfig"):
        raise Refused(f"{short(run[0])} is not a ScriptRunConfig", line=run[0].lineno)
    script = read_script_run(run, made, where, reader.values)
    script.lost[:0] = [name for name in _LOST if name in values]
    _write_job(plan, statement, reader, options, script)


def _read_config(reader: SweepReader, values: dict[str, Bound]) -> None:
    """The metric, the limits and the policy into the spec."""
    for key, at in _SPEC_KEYS.items():
        if key in values and (value := reader.value(*values[key], key)) is not None:
            reader.put(values[key][0], value, *at)
    reader.spec.data["limits"].setdefault("timeout_minutes", _DEFAULT_MINUTES)
    if "primary_metric_goal" in values:
        goal, where = reader.values.follow(*values["primary_metric_goal"])
        if (
            isinstance(goal, ast.Attribute)
            and reader.name(goal.value, where) == "PrimaryMetricGoal"
        ):
            reader.put(goal, goal.attr.lower(), "objective", "goal")
    if "policy" in values:
        policy, where = reader.values.follow(*values["policy"])
        is_null = isinstance(policy, ast.Constant) and policy.value is None
        if not is_null and not reader.put_policy(policy, where):
            reason = f"policy is not a hyperdrive call: {short(policy)}"
            raise Refused(reason, line=policy.lineno)


def _read_sampling(reader: SweepReader, values: dict[str, Bound]) -> dict[str, str]:
    """`RandomParameterSampling({...})` into the spec; gives the script's options by name.

    `{"--batch-size": choice(1, 2), "lr": uniform(0, 1)}` has the options
    {"batch_size": "--batch-size", "lr": "--lr"}.
    """
    if "hyperparameter_sampling" not in values:
        raise Refused("hyperparameter_sampling is missing")
    follow = reader.values.follow
    made, where = follow(*values["hyperparameter_sampling"])
    kind = reader.called(made, where)
    if kind not in _SAMPLINGS or not isinstance(made, ast.Call):
        reason = f"hyperparameter_sampling is not a hyperdrive call: {short(made)}"
        raise Refused(reason, line=made.lineno)
    reader.put(made, _SAMPLINGS[kind], "algorithm")
    spaces = call_arguments(made, _SAMPLING_ORDER, where)
    reason = f"the parameter space of {kind} is not a dict"
    if len(spaces.values) != 1 or spaces.rest:
        raise Refused(reason, line=made.lineno)
    space, where = follow(*spaces.values["parameter_space"])
    if not isinstance(space, ast.Dict):
        raise Refused(f"{reason}: {short(space)}", line=space.lineno)
    options = {}
    for key, item in zip(space.keys, space.values, strict=True):
        name = reader.value(key, where, "a parameter's name") if key is not None else None
        new = legal_name(str(name).lstrip("-"))
        if not isinstance(name, str) or not reader.put_distribution(*follow(item, where), new):
            reason = f"{name or '**'} in {kind} is not a hyperdrive distribution"
            raise Refused(reason, line=item.lineno)
        options[new] = name if name.startswith("-") else f"--{name}"
    return options


# --- a ScriptRunConfig as the trial of a sweep job ---


@dataclass
class ScriptRun:
    """What a ScriptRunConfig says, and what of it v2 has no place for."""

    fields: V1Fields
    ports: Ports = field(default_factory=Ports)
    command: str = ""
    distribution: dict[str, Any] | None = None
    instance_count: int = DEFAULT_INSTANCE_COUNT
    lost: list[str] = field(default_factory=list)


def read_script_run(run: Bound, call: ast.Call, where: Statement, values: V1Values) -> ScriptRun:
    """A ScriptRunConfig, with what is set on it and on its run configuration before it is used."""
    call_values = call_arguments(call, _SCRIPT_ORDER, where)
    if rest := call_values.rest:
        raise Refused(f"ScriptRunConfig takes {rest}, which cannot be read", line=call.lineno)
    arguments = call_values.values
    script = ScriptRun(V1Fields(values))
    arguments |= _later_settings(run, script, ("run_config",))
    if "run_config" in arguments:
        arguments |= _later_settings(arguments.pop("run_config"), script, ())
    lost = ("resume_from", "docker_runtime_config")
    script.lost += [name for name in lost if arguments.pop(name, None) is not None]
    distribution = arguments.pop("distributed_job_config", None)
    texts = {name: short(bound[0]) for name, bound in arguments.items()}
    script.fields.read(CallArguments(arguments))
    _read_command(script, texts, call)
    nodes = script.fields.values.get("node_count", script.instance_count)
    if isinstance(nodes, int):
        script.instance_count = nodes
    else:
        script.fields.unknown["node_count"] = repr(nodes)
    if distribution is not None:
        _read_distribution(script, *distribution)
    return script


def _later_settings(bound: Bound, script: ScriptRun, prefix: tuple[str, ...]) -> dict[str, Bound]:
    """Settings of a run configuration after it is made; `prefix` is where it is in the object."""
    settings = {}
    for use in script.fields.reader.later_uses(*bound):
        is_setting = use.path[:-1] == prefix or use.path == ("arguments",)
        name = _RUN_SETTINGS.get(use.path[-1]) if is_setting else None
        if use.how == "assign" and name is not None:
            settings[name] = use.value, use.statement
        elif use.path[-1] not in _HARMLESS:
            script.lost.append(f"{short(bound[0])}.{'.'.join(use.path)}")
    return settings


def _read_command(script: ScriptRun, texts: dict[str, str], call: ast.Call) -> None:
    fields = script.fields
    words: list[Any] = []
    first = "command" if "command" in texts else "script"
    for name in (first, "arguments"):
        if name in texts and name not in fields.values:
            raise Refused(f"{name} of ScriptRunConfig cannot be read: {texts[name]}")
        words += fields.values.get(name, [])
    if first == "command" and len(words) == 1 and isinstance(words[0], str):
        script.command = words[0]
        return
    if not words or isinstance(words[0], Unsaid):
        raise Refused("the script of ScriptRunConfig cannot be read", line=call.lineno)
    line = script.ports.command_line(words)
    script.command = line if first == "command" else f"python {line}"


def _read_distribution(script: ScriptRun, node: ast.expr, statement: Statement) -> None:
    values = script.fields.reader
    made, where = values.follow(node, statement)
    name = last_name(made.func) if isinstance(made, ast.Call) else ""
    kind, order = _DISTRIBUTIONS.get(name, ("", ()))
    counts: dict[str, Any] = dict.fromkeys(order, 1)
    if isinstance(made, ast.Call):
        arguments = call_arguments(made, order, where)
        arguments.values.pop("communication_backend", None)
        for key, bound in arguments.values.items():
            is_null = isinstance(bound[0], ast.Constant) and bound[0].value is None
            counts[key] = counts.get(key) if is_null else values.value_or_none(*bound)
        counts["**"] = not arguments.rest
    if not kind or not all(isinstance(count, int) and count > 0 for count in counts.values()):
        if not (isinstance(made, ast.Constant) and made.value is None):
            script.fields.unknown["distributed_job_config"] = short(made)
        return
    if kind == "tensorflow":
        script.distribution = {"type": kind, **{key: counts[key] for key in order}}
        script.instance_count = counts["worker_count"]
        return
    nodes = script.instance_count = counts["node_count"]
    # v1 counts all processes of PyTorch, v2 those of one node; v1's default is one per node.
    processes = counts.get("process_count_per_node") or max(1, counts["process_count"] // nodes)
    script.distribution = {"type": kind, "process_count_per_instance": processes}


def _write_job(
    plan: PythonPlan,
    statement: Statement,
    reader: SweepReader,
    options: dict[str, str],
    script: ScriptRun,
) -> None:
    """The sweep job beside the file, and a finding for all that is not one to one."""
    match statement.stmt:
        case ast.Assign(targets=[ast.Name(id=variable), *_]):
            name = legal_name(variable, component=True)
        case _:
            name = "hyperdrive"
    text, notes = _sweep_job(name, reader.body(), options, script, plan.settings)
    file = os.path.basename(add_job(plan, name, "sweep", text))
    at = plan.at(statement)
    plan.add_finding(SWEEP_RULE, "note", f"{NAME} is written as a v2 sweep job: {file}", at)
    if script.lost:
        message = f"{', '.join(script.lost)}: not carried over, v2 has no equivalent"
        plan.add_finding(SWEEP_RULE, "warning", message, at, applied=True)
    messages = [item.message for item in reader.spec.notes]
    notes = [*reader.values.remarks, *messages, *notes]
    report_job(plan, SWEEP_RULE, at, script.fields.unknown, notes)


def _sweep_job(
    title: str, body: dict[str, Any], options: dict[str, str], script: ScriptRun, settings: Settings
) -> tuple[str, list[str]]:
    """The text of the job, and notes."""
    values, ports = script.fields.values, script.ports
    notes = list(ports.notes())
    swept = " ".join(f"{option} ${{{{search_space.{name}}}}}" for name, option in options.items())
    compute, environment = (
        settings.compute or values.get("compute_target"),
        values.get("environment"),
    )
    places = (("compute", compute), ("environment", environment))
    if unset := [name for name, value in places if not value]:
        notes.append(f"{UNSET} is written for {' and '.join(unset)}")
    if not settings.instance_type:
        notes.append(f"no instance type is given: {DEFAULT_INSTANCE_TYPE} is written")
    limits = {**body["limits"], "trial_timeout": values.get("max_run_duration_seconds")}
    trial = {
        "code": str(values.get("source_directory") or "."),
        "command": f"{script.command} {swept}",
        "environment": environment_asset(environment or UNSET),
        "environment_variables": values.get("more_variables"),
        "distribution": script.distribution,
    }
    sections = {
        "compute": asset(compute or UNSET),
        "inputs": ports.job_inputs(),
        "outputs": {name: {"type": "uri_folder"} for name in ports.outputs},
        "trial": filled(trial),
        **body,
        "limits": filled(limits),
        "resources": resources(settings, script.instance_count),
    }
    return job_text("sweep", f"{SWEEP_MARK} from a v1 {NAME}.", title, sections), notes
