"""A v1 ScriptRunConfig as the trial of a v2 sweep job: what it runs, where, with which data.

Signature: azureml-core 1.61. What is set on it, or on its run configuration, after it is made counts as well.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from arc_toolkit.edit.code.expressions import last_name, short
from arc_toolkit.edit.code.names import Statement
from arc_toolkit.edit.files.edits import Refused
from arc_toolkit.migrate.forms import DEFAULT_INSTANCE_COUNT
from arc_toolkit.migrate.parallel_run_source import script_arguments
from arc_toolkit.migrate.v1_data import V1Data
from arc_toolkit.migrate.v1_forms import Ports
from arc_toolkit.migrate.v1_values import NotPlain, Unsaid, arguments

_ORDER = (
    *(
        "source_directory",
        "script",
        "arguments",
        "run_config",
        "_telemetry_values",
        "compute_target",
    ),
    *(
        "environment",
        "distributed_job_config",
        "resume_from",
        "max_run_duration_seconds",
        "command",
    ),
    "docker_runtime_config",
)
# Settings of a RunConfiguration -> the argument of ScriptRunConfig that means the same.
_RUN_SETTINGS = {
    "target": "compute_target",
    "environment": "environment",
    "node_count": "node_count",
}
_HARMLESS = frozenset({"HyperDriveConfig", "submit", "print", "display"})
# v1 configuration -> v2 distribution; its arguments in order, with their defaults.
_DISTRIBUTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "MpiConfiguration": ("mpi", {"process_count_per_node": 1, "node_count": 1}),
    "PyTorchConfiguration": (
        "pytorch",
        {"communication_backend": "Nccl", "process_count": None, "node_count": 1},
    ),
    "TensorflowConfiguration": ("tensorflow", {"worker_count": 1, "parameter_server_count": 1}),
}


@dataclass
class ScriptRun:
    """What a ScriptRunConfig says; `unknown` are values that the code does not say, with its text."""

    code: str = "."
    command: str = ""
    compute: str = ""
    environment: str = ""
    variables: dict[str, str] = field(default_factory=dict)
    distribution: dict[str, Any] | None = None
    instance_count: int = DEFAULT_INSTANCE_COUNT
    timeout: int | None = None
    ports: Ports = field(default_factory=Ports)
    unknown: dict[str, str] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)


def read_script_run(
    node: ast.expr, call: ast.Call, where: Statement, until: Statement, values: V1Data
) -> ScriptRun:
    """A ScriptRunConfig, as it is at the statement that uses it."""
    given = arguments(call, _ORDER, where)
    if given.rest:
        raise Refused(f"ScriptRunConfig takes {given.rest}, which cannot be read", line=call.lineno)
    run = ScriptRun()
    fields = given.values
    fields.update(_later(node, until, values, run, ("run_config",)))
    if "run_config" in fields:
        fields.update(_later(*fields.pop("run_config"), values, run, ()))
    _command(run, fields, values, call)
    for name in (
        "source_directory",
        "compute_target",
        "environment",
        "max_run_duration_seconds",
        "node_count",
    ):
        if name in fields:
            try:
                _plain_field(run, name, *fields[name], values)
            except NotPlain:
                run.unknown[name] = short(fields[name][0])
    if "distributed_job_config" in fields:
        _distribution(run, *fields["distributed_job_config"], values)
    run.lost += [name for name in ("resume_from", "docker_runtime_config") if name in fields]
    return run


def _plain_field(
    run: ScriptRun, name: str, node: ast.expr, where: Statement, values: V1Data
) -> None:
    match name:
        case "source_directory":
            run.code = str(values.plain(node, where) or ".")
        case "compute_target":
            run.compute = values.named(node, where)
        case "environment":
            run.environment = values.environment(node, where)
            run.variables = values.variables(node, where)
        case "node_count":
            run.instance_count = int(values.plain(node, where))
        case "max_run_duration_seconds":
            run.timeout = values.plain(node, where)


def _later(
    node: ast.expr, until: Statement, values: V1Data, run: ScriptRun, prefix: tuple[str, ...]
) -> Iterator[tuple[str, tuple[ast.expr, Statement]]]:
    """Settings of a run configuration after it is made; `prefix` is where it is in the object."""
    binding = values.binding(node, until)
    for use in values.uses(binding, until) if binding is not None else ():
        path = use.path[len(prefix) :] if use.path[: len(prefix)] == prefix else ()
        if use.how == "assign" and len(path) == 1 and path[0] in _RUN_SETTINGS:
            yield _RUN_SETTINGS[path[0]], (use.value, use.statement)
        elif use.how == "assign" and use.path == ("arguments",):
            yield "arguments", (use.value, use.statement)
        elif use.path[-1] not in _HARMLESS:
            run.lost.append(f"{short(node)}.{'.'.join(use.path)}")


def _command(
    run: ScriptRun, fields: dict[str, tuple[ast.expr, Statement]], values: V1Data, call: ast.Call
) -> None:
    words: list[Any] = []
    for name in ("command", "arguments") if "command" in fields else ("script", "arguments"):
        if name in fields:
            try:
                words += script_arguments(*fields[name], values)
            except NotPlain:
                raise Refused(
                    f"{name} of ScriptRunConfig cannot be read: {short(fields[name][0])}"
                ) from None
    if "command" in fields and len(words) == 1 and isinstance(words[0], str):
        run.command = words[0]
        return
    if not words or isinstance(words[0], Unsaid):
        raise Refused("the script of ScriptRunConfig cannot be read", line=call.lineno)
    run.command = run.ports.command_line(words)
    if "command" not in fields:
        run.command = f"python {run.command}"
    if run.ports.unsaid:
        run.unknown["arguments"] = ", ".join(run.ports.unsaid)


def _distribution(run: ScriptRun, node: ast.expr, statement: Statement, values: V1Data) -> None:
    made, where = values.follow(node, statement)
    kind, defaults = (
        _DISTRIBUTIONS.get(last_name(made.func), ("", {}))
        if isinstance(made, ast.Call)
        else ("", {})
    )
    if not kind or not isinstance(made, ast.Call):
        run.unknown["distributed_job_config"] = short(node)
        return
    try:
        given = {
            key: values.plain(*item)
            for key, item in arguments(made, tuple(defaults), where).values.items()
        }
    except NotPlain:
        run.unknown["distributed_job_config"] = short(made)
        return
    read = {**defaults, **{key: value for key, value in given.items() if value is not None}}
    if kind == "tensorflow":
        run.distribution = {"type": kind, **read}
        run.instance_count = read["worker_count"]
        return
    run.instance_count = read["node_count"]
    # v1 counts all processes of PyTorch, v2 those of one node; without a count v1 starts one per node.
    processes = read.get("process_count_per_node") or max(
        1, (read["process_count"] or 0) // read["node_count"]
    )
    run.distribution = {"type": kind, "process_count_per_instance": processes}
