"""HyperDriveConfig of SDK v1 over a ScriptRunConfig as a v2 sweep job beside the file.

    src = ScriptRunConfig(...)                                     train.py (not changed)
    config = HyperDriveConfig(run_config=src, ...)           ->    train.config.sweep.yml

v1 adds the drawn values to the script's arguments (`--name value`), so they end the command here.

Sources: Microsoft Learn, "Upgrade hyperparameter tuning to SDK v2", and the v2 sweep job schema of
azure-ai-ml. Signatures: azureml-core 1.61, azureml-train-core 1.62.
"""

from __future__ import annotations

import ast
import re
import shlex
from typing import Any

from arc_toolkit.azureml.python.python_plan import PythonPlan
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.edit.code.names import Statement, calls_in, last_name, short
from arc_toolkit.edit.code.values import Bound, OpaqueValue, call_arguments
from arc_toolkit.edit.files.edits import Refused
from arc_toolkit.migrate.ledger import NO_PLACE, argument_rows, signature
from arc_toolkit.migrate.legacy_spec import SWEEP_RULE, LegacySpec
from arc_toolkit.migrate.search_space import DISTRIBUTIONS, POLICIES, sweep_body
from arc_toolkit.migrate.v1_values import (
    HYPERDRIVE,
    PipelineParameter,
    Ports,
    V1Fields,
    V1Values,
)
from arc_toolkit.migrate.v2_jobs import (
    DEFAULT_INSTANCE_COUNT,
    DEFAULT_INSTANCE_TYPE,
    SWEEP_MARK,
    UNSET,
    add_job,
    asset,
    environment_value,
    filled,
    job_text,
    legal_name,
    resources,
)

NAME = "HyperDriveConfig"
SCRIPT = "ScriptRunConfig"
_SAMPLINGS = {
    "RandomParameterSampling": "random",
    "GridParameterSampling": "grid",
    "BayesianParameterSampling": "bayesian",
}
# What v2 has of the properties of a random sampling.
_SAMPLING_PROPERTIES = ("seed", "rule", "logbase")
# Argument -> where a v1.5 spec has it.
_SPEC_KEYS = {
    "primary_metric_name": ("objective", "primary_metric"),
    "max_total_runs": ("limits", "max_total_trials"),
    "max_concurrent_runs": ("limits", "max_concurrent_trials"),
    "max_duration_minutes": ("limits", "timeout_minutes"),
}
# v1 ends a run after a week by default; the default of v2 is another one.
_DEFAULT_MINUTES = 10_080
# Class of hyperdrive -> the policy_type of v1.5 and its parameters in their order.
_POLICY_CLASSES: dict[str, tuple[str, tuple[str, ...]]] = {
    "NoTerminationPolicy": ("default", ()),
    **{policy.v2_class: (kind, policy.v1_order) for kind, policy in POLICIES.items()},
}
# Settings of a RunConfiguration after it is made -> the field that means the same.
_RUN_SETTINGS = {
    "target": "compute_target",
    "docker.shm_size": "shm_size",
    "docker.arguments": "docker_args",
    "kubernetescompute.instance_type": "instance_type",
    **{
        name: name
        for name in ("environment", "node_count", "arguments", "docker", "environment_variables")
    },
    "max_run_duration_seconds": "max_run_duration_seconds",
}
_HARMLESS = frozenset({NAME, "submit", "print", "display"})
# v1 configuration -> v2 distribution; the counts of each are 1 by default.
_DISTRIBUTIONS = {
    "MpiConfiguration": "mpi",
    "PyTorchConfiguration": "pytorch",
    "TensorflowConfiguration": "tensorflow",
}


def convert_configs(plan: PythonPlan) -> None:
    """A sweep job for each config, or a finding."""
    for scope in plan.module.scopes:
        for statement in scope.statements:
            for call in calls_in(statement.stmt):
                reader = SweepReader(plan, statement)
                if reader.called(call, statement) != NAME:
                    continue
                if plan.covers(SWEEP_RULE, plan.at(statement)):
                    continue
                try:
                    reader.convert(call)
                except Refused as refused:
                    _report_refusal(plan, statement, refused)


def _report_refusal(plan: PythonPlan, statement: Statement, refused: Refused) -> None:
    """A finding for a sweep that is not converted, at its line or at the line of the reason."""
    is_here = refused.line in (0, statement.stmt.lineno)
    node = statement.stmt if is_here else ast.Pass(lineno=refused.line, col_offset=0)
    at = plan.at(statement, node)
    message = "the sweep is not rewritten"
    plan.add_finding(SWEEP_RULE, "warning", message, at, reason=refused.reason)


class SweepReader:
    """Reads one sweep into a v1.5 spec whose places are lines of the Python source."""

    def __init__(self, plan: PythonPlan, statement: Statement) -> None:
        self.plan = plan
        self.statement = statement
        self.values = V1Values(plan.resolver)
        self.ledger = self.values.ledger
        empty: dict[str, Any] = {"search_space": {}, "objective": {}, "limits": {}}
        self.spec = LegacySpec("", empty, ledger=self.ledger)
        # v2's seed, rule and logbase of a random sampling.
        self.sampling: dict[str, Any] = {}

    def convert(self, call: ast.Call) -> None:
        arguments = call_arguments(call, signature(NAME), self.statement)
        values = arguments.values
        names = (*values, arguments.rest)
        unknown = [name for name in names if name and name not in signature(NAME)]
        if unknown:
            raise Refused(f"{NAME} with {', '.join(unknown)} cannot be read")
        if "run_config" not in values:
            other = next((name for name in ("estimator", "pipeline") if name in values), None)
            text = f"the {other} {short(values[other][0])}" if other else "nothing"
            hint = argument_rows()[NAME]["estimator"].reason
            raise Refused(f"{NAME} has {text} to run: {hint}")
        self.ledger.read(NAME, [name for name in values if not _is_null(values[name][0])])
        self._read_limits(values)
        options = self._read_sampling(values)
        body = sweep_body(self.spec)
        if self.sampling:
            body["sampling_algorithm"] = {"type": body["sampling_algorithm"], **self.sampling}
        run = values["run_config"]
        made, where = self.values.follow(*run)
        path = self.values.import_path(made.func, where) if isinstance(made, ast.Call) else None
        if not isinstance(made, ast.Call) or not (path or "").endswith(SCRIPT):
            raise Refused(f"{short(run[0])} is not a {SCRIPT}", line=run[0].lineno)
        script = ScriptRun(self.values)
        script.read_call(run, made, where)
        match self.statement.stmt:
            case ast.Assign(targets=[ast.Name(id=variable), *_]):
                name = legal_name(variable, component=True)
            case _:
                name = "hyperdrive"
        text = script.sweep_job(name, body, options, self.plan.settings)
        file = add_job(self.plan, name, "sweep", text)
        message = f"{NAME} is written as a v2 sweep job: {file}"
        self.ledger.report(self.plan, SWEEP_RULE, message, self.plan.at(self.statement))

    def name(self, node: ast.expr, statement: Statement) -> str:
        """`choice` for `choice` and `hd.choice` of hyperdrive; "" for others."""
        path = self.values.import_path(node, statement) or ""
        return path.rpartition(".")[2] if path.startswith(f"{HYPERDRIVE}.") else ""

    def called(self, node: ast.expr, statement: Statement) -> str:
        return self.name(node.func, statement) if isinstance(node, ast.Call) else ""

    def put(self, node: ast.expr, value: Any, *keys: str) -> None:
        """A value of the spec, and where it is written."""
        self.spec.places[keys] = node.lineno, node.col_offset + 1
        section = self.spec.data
        for key in keys[:-1]:
            section = section.setdefault(key, {})
        section[keys[-1]] = value

    def value(self, node: ast.expr, statement: Statement, label: str) -> Any:
        """A plain value; not the default of a PipelineParameter, since callers may change it."""
        try:
            value = self.values.plain(node, statement)
        except OpaqueValue:
            value = PipelineParameter("", None)
        if isinstance(value, PipelineParameter):
            raise Refused(f"{label} is not a plain value: {short(node)}", line=node.lineno)
        return value

    def _arguments(
        self, call: ast.Call, statement: Statement, order: tuple[str, ...], label: str
    ) -> dict[str, Any]:
        """The plain arguments of a call by name; None is as if not given."""
        arguments = call_arguments(call, order, statement)
        if len(call.args) > len(order):
            raise Refused(f"{label} has more arguments than it takes", line=call.lineno)
        if arguments.rest:
            raise Refused(f"{label} takes **arguments that cannot be read", line=call.lineno)
        if unknown := [name for name in arguments.values if name not in order]:
            raise Refused(f"{label} has no argument {unknown[0]}", line=call.lineno)
        values = {
            name: self.value(*bound, f"{name} of {label}")
            for name, bound in arguments.values.items()
        }
        return {name: value for name, value in values.items() if value is not None}

    def _put_distribution(self, node: ast.expr, statement: Statement, name: str) -> bool:
        """`choice(1, 2)` or `uniform(0, 1)` into the search space; whether it is one."""
        kind = self.called(node, statement)
        if kind not in DISTRIBUTIONS or not isinstance(node, ast.Call):
            return False
        if kind == "choice":
            if node.keywords:
                raise Refused(f"{name}: choice takes no keyword arguments", line=node.lineno)
            items = [self.value(item, statement, f"a value of {name}") for item in node.args]
            if len(items) == 1 and isinstance(items[0], list | tuple):
                items = list(items[0])
            drawn = {"values": [list(item) if isinstance(item, tuple) else item for item in items]}
        else:
            drawn = self._arguments(node, statement, DISTRIBUTIONS[kind].keys, f"{kind} of {name}")
        self.put(node, {"type": kind, **drawn}, "search_space", name)
        return True

    def _read_limits(self, values: dict[str, Bound]) -> None:
        """The metric, the limits and the policy into the spec."""
        for key, at in _SPEC_KEYS.items():
            if key in values and (value := self.value(*values[key], key)) is not None:
                self.put(values[key][0], value, *at)
        if "timeout_minutes" not in self.spec.data["limits"]:
            self.spec.data["limits"]["timeout_minutes"] = _DEFAULT_MINUTES
            self.ledger.added("limits.timeout", "a week, v1's default; v2 has another one")
        if "primary_metric_goal" in values:
            goal, where = self.values.follow(*values["primary_metric_goal"])
            if (
                isinstance(goal, ast.Attribute)
                and self.name(goal.value, where) == "PrimaryMetricGoal"
            ):
                self.put(goal, goal.attr.lower(), "objective", "goal")
        policy, where = self.values.follow(*values.get("policy", (_NULL, self.statement)))
        kind = self.called(policy, where)
        if kind in _POLICY_CLASSES and isinstance(policy, ast.Call):
            policy_type, order = _POLICY_CLASSES[kind]
            arguments = self._arguments(policy, where, order, kind)
            self.put(policy, {"policy_type": policy_type, **arguments}, "early_termination")
        elif not _is_null(policy):
            reason = f"policy is not a hyperdrive call: {short(policy)}"
            raise Refused(reason, line=policy.lineno)

    def _read_sampling(self, values: dict[str, Bound]) -> dict[str, str]:
        """`RandomParameterSampling({...})` into the spec; gives the script's options by name.

        `{"--batch-size": choice(1, 2), "lr": uniform(0, 1)}` has the options
        {"batch_size": "--batch-size", "lr": "--lr"}.
        """
        if "hyperparameter_sampling" not in values:
            raise Refused("hyperparameter_sampling is missing")
        follow = self.values.follow
        made, where = follow(*values["hyperparameter_sampling"])
        kind = self.called(made, where)
        if kind not in _SAMPLINGS or not isinstance(made, ast.Call):
            reason = f"hyperparameter_sampling is not a hyperdrive call: {short(made)}"
            raise Refused(reason, line=made.lineno)
        self.put(made, _SAMPLINGS[kind], "algorithm")
        arguments = call_arguments(made, signature(kind), where)
        reason = f"the parameter space of {kind} is not a dict"
        if "parameter_space" not in arguments.values or arguments.rest:
            raise Refused(reason, line=made.lineno)
        self.ledger.read(kind, arguments.values)
        if "properties" in arguments.values:
            self._read_properties(kind, self.value(*arguments.values["properties"], "properties"))
        space, where = follow(*arguments.values["parameter_space"])
        if not isinstance(space, ast.Dict):
            raise Refused(f"{reason}: {short(space)}", line=space.lineno)
        options = {}
        for key, item in zip(space.keys, space.values, strict=True):
            name = str(self.value(key, where, "a parameter's name")) if key is not None else "**"
            new = legal_name(name.lstrip("-"))
            if key is None or not self._put_distribution(*follow(item, where), new):
                reason = f"{name} in {kind} is not a hyperdrive distribution"
                raise Refused(reason, line=item.lineno)
            options[new] = name if name.startswith("-") else f"--{name}"
        return options

    def _read_properties(self, kind: str, properties: Any) -> None:
        """`properties={"seed": 42}` of a random sampling."""
        known = _SAMPLING_PROPERTIES if _SAMPLINGS[kind] == "random" else ()
        for key, value in properties.items() if isinstance(properties, dict) else ():
            if key in known:
                self.sampling[key] = value
            else:
                reason = f"v2 has no {key} for {_SAMPLINGS[kind]}"
                self.ledger.note("properties", reason, "lost")


_NULL = ast.Constant(None, lineno=0, col_offset=0)


def _is_null(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


# --- a ScriptRunConfig as the trial of a sweep job ---


class ScriptRun(V1Fields):
    """What a ScriptRunConfig says."""

    def __init__(self, reader: V1Values) -> None:
        super().__init__(reader)
        self.ports = Ports()
        self.command = ""
        self.distribution: dict[str, Any] | None = None
        self.instance_count = DEFAULT_INSTANCE_COUNT

    def read_call(self, run: Bound, call: ast.Call, where: Statement) -> None:
        """A ScriptRunConfig, with what is set on it and on its run configuration before it is used."""
        given = call_arguments(call, signature(SCRIPT), where)
        if given.rest:
            raise Refused(f"{SCRIPT} takes {given.rest}, which cannot be read", line=call.lineno)
        arguments = dict(given.values)
        self.ledger.read(SCRIPT, arguments)
        arguments |= self._later_settings(run, ("run_config",))
        if "run_config" in arguments:
            arguments |= self._later_settings(arguments.pop("run_config"), ())
        for name in ("resume_from", "_telemetry_values"):
            arguments.pop(name, None)
        distribution = arguments.pop("distributed_job_config", None)
        docker = arguments.pop("docker_runtime_config", arguments.pop("docker", None))
        self.read_values(arguments)
        self._read_command(arguments, call)
        nodes = self.values.get("node_count", self.instance_count)
        if isinstance(nodes, int):
            self.instance_count = nodes
        else:
            self.ledger.by_hand("node_count", repr(nodes))
        if distribution is not None:
            self._read_distribution(*distribution)
        if docker is not None:
            self._read_docker(*docker)

    def _later_settings(self, bound: Bound, prefix: tuple[str, ...]) -> dict[str, Bound]:
        """Settings of a run configuration after it is made; `prefix` is where it is in the object."""
        rows = argument_rows()["RunConfiguration"]
        settings = {}
        for use in self.reader.later_uses(*bound):
            is_inside = use.path[: len(prefix)] == prefix
            path = ".".join(use.path[len(prefix) :] if is_inside else use.path)
            if use.how == "argument" or use.path[-1] in _HARMLESS:
                continue
            name = _RUN_SETTINGS.get(path) if is_inside or path == "arguments" else None
            if use.how == "assign" and name is not None:
                self.ledger.read("RunConfiguration", [path])
                settings[name] = use.value, use.statement
            elif use.how == "assign" and path in rows and rows[path].outcome == "dropped":
                self.ledger.read("RunConfiguration", [path])
            else:
                label = f"{short(bound[0])}.{'.'.join(use.path)}"
                self.ledger.note(label, NO_PLACE, "lost")
        return settings

    def _read_command(self, arguments: dict[str, Bound], call: ast.Call) -> None:
        words: list[Any] = []
        first = "command" if "command" in arguments else "script"
        for name in (first, "arguments"):
            if name in arguments and name not in self.values:
                text = short(arguments[name][0])
                raise Refused(f"{name} of {SCRIPT} cannot be read: {text}")
            words += self.values.get(name, [])
        if first == "command" and len(words) == 1 and isinstance(words[0], str):
            self.command = words[0]
            return
        if not words or words[0] == UNSET:
            raise Refused(f"the script of {SCRIPT} cannot be read", line=call.lineno)
        line = self.ports.command_line(words)
        self.command = line if first == "command" else f"python {line}"

    def _read_docker(self, node: ast.expr, statement: Statement) -> None:
        """`DockerConfiguration(shm_size="2g")`."""
        made, where = self.reader.follow(node, statement)
        if not isinstance(made, ast.Call) or last_name(made.func) != "DockerConfiguration":
            self.ledger.by_hand("docker_runtime_config", short(made))
            return
        values = self.reader.account(made, where, "DockerConfiguration")
        for name, key in (("shm_size", "shm_size"), ("arguments", "docker_args")):
            if name in values:
                self.read_values({key: values[name]})

    def _read_distribution(self, node: ast.expr, statement: Statement) -> None:
        made, where = self.reader.follow(node, statement)
        if _is_null(made):
            return
        name = last_name(made.func) if isinstance(made, ast.Call) else ""
        kind = _DISTRIBUTIONS.get(name, "")
        order = signature(name) if kind else ()
        counts: dict[str, Any] = dict.fromkeys(order, 1)
        if kind and isinstance(made, ast.Call):
            given = call_arguments(made, order, where)
            self.ledger.read(name, given.values)
            for key, bound in given.values.items():
                is_default = key == "communication_backend" or _is_null(bound[0])
                counts[key] = counts.get(key) if is_default else self.reader.value_or_none(*bound)
            counts["**"] = not given.rest
        if not kind or not all(isinstance(count, int) and count > 0 for count in counts.values()):
            self.ledger.by_hand("distributed_job_config", short(made))
            return
        if kind == "tensorflow":
            self.distribution = {"type": kind, **{key: counts[key] for key in order}}
            self.instance_count = counts["worker_count"]
            return
        nodes = self.instance_count = counts["node_count"]
        # v1 counts all processes of PyTorch, v2 those of one node; v1's default is one per node.
        processes = counts.get("process_count_per_node") or max(1, counts["process_count"] // nodes)
        self.distribution = {"type": kind, "process_count_per_instance": processes}

    def sweep_job(
        self, title: str, body: dict[str, Any], options: dict[str, str], settings: Settings
    ) -> str:
        """The text of the job."""
        values, ports, ledger = self.values, self.ports, self.ledger
        ports.report(ledger)
        space = body["search_space"]
        swept = [f"{option} {_placeholder(name, space[name])}" for name, option in options.items()]
        compute = settings.compute or values.get("compute_target")
        if settings.compute:
            ledger.replace("compute_target", "the command line says it")
        unknown = ledger.unknown
        for place in ("compute_target", "environment"):
            is_set = values.get(place) or (place == "compute_target" and settings.compute)
            if not is_set and place not in unknown:
                ledger.by_hand(place, f"the code does not set it: {UNSET} is written")
        kind = settings.instance_type or values.get("instance_type")
        if not kind:
            reason = f"no instance type is given: {DEFAULT_INSTANCE_TYPE} is written"
            ledger.added("resources.instance_type", reason)
        docker = values.get("docker_args")
        docker = " ".join(map(str, docker)) if isinstance(docker, list) else docker
        limits = {**body["limits"], "trial_timeout": values.get("max_run_duration_seconds")}
        variables = values.get("environment_variables") or {}
        trial = {
            "code": str(values.get("source_directory") or "."),
            "command": " ".join((self.command, *swept)),
            "environment": environment_value(values.get("environment")),
            "environment_variables": {**variables, **values.get("more_variables", {})},
            "distribution": self.distribution,
        }
        sections = {
            "compute": asset(compute or UNSET),
            "inputs": ports.job_inputs(),
            "outputs": {name: item.job_output() for name, item in ports.outputs.items()},
            "trial": filled(trial),
            **body,
            "limits": filled(limits),
            "resources": filled(
                {
                    **resources(settings, self.instance_count),
                    "instance_type": kind or DEFAULT_INSTANCE_TYPE,
                    "shm_size": values.get("shm_size"),
                    "docker_args": docker,
                }
            ),
        }
        return job_text("sweep", f"{SWEEP_MARK} from a v1 {NAME}.", title, sections)


def _placeholder(name: str, drawn: dict[str, Any]) -> str:
    """Where a drawn value goes into the command, in quotes if the shell would split one.

    v1 gave it to the script without a shell.
    """
    text = f"${{{{search_space.{name}}}}}"
    values = [str(value) for value in drawn.get("values", ())]
    if all(shlex.quote(value) == value for value in values):
        return text
    if not any("'" in value for value in values):
        return f"'{text}'"
    if not any(re.search(r'["$`\\]', value) for value in values):
        return f'"{text}"'
    raise Refused(f"a value of {name} cannot be quoted for the shell")
