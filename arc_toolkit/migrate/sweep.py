"""A v1.5 SweepComponent and its trial as v2: a command component, and a sweep over it.

The sweep is a pipeline with one sweep step, a standalone sweep job or a Python module. The old
files stay. What v2 has no place for is a finding; input that cannot be converted is refused.
"""

from __future__ import annotations

import keyword
import posixpath
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from arc_toolkit.azureml.documents import FILE_STYLE
from arc_toolkit.azureml.evidence import (
    FrameworkEvidence,
    evidence_in_code,
    evidence_in_command,
    evidence_in_dependencies,
)
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.azureml.threads import PRESTEP, RESTEP, cores_of, decide
from arc_toolkit.edit.files.edits import Refused
from arc_toolkit.edit.yaml.writer import Comment, file_text
from arc_toolkit.findings import FileResult, Finding, Severity
from arc_toolkit.migrate.legacy_spec import (
    SWEEP_RULE,
    LegacySpec,
    ReadFile,
    parse_spec,
    read_or_none,
)
from arc_toolkit.migrate.search_space import (
    distribution_text,
    literal,
    sweep_arguments,
    sweep_body,
)
from arc_toolkit.migrate.trial import (
    GROUP,
    PYTHON_NAMES,
    Trial,
    TrialInput,
    convert_environment,
    convert_trial,
    find_trial,
    kind_of,
)
from arc_toolkit.migrate.v2_jobs import (
    DEFAULT_INSTANCE_COUNT,
    DEFAULT_INSTANCE_TYPE,
    SCHEMA,
    SWEEP_MARK,
    UNSET,
    asset,
    binding,
    filled,
    job_text,
    legal_name,
    resources,
)
from arc_toolkit.resources import render


def convert(path: str, data: bytes, settings: Settings, read_file: ReadFile) -> FileResult:
    """The v2 files for a v1.5 sweep; a file that is not a v1.5 sweep comes back unchanged."""
    try:
        if path == "-":
            raise Refused("standard input has no folder to write into: give the sweep's file")
        sweep = parse_spec(path, data, "SweepComponent")
        if kind_of(sweep.data) != "sweepcomponent":
            return FileResult(path, data)
        new_files, threads = _convert(sweep, settings, read_file)
        before = {name: read_or_none(read_file, name) for name in new_files}
        for name, old in before.items():
            if old is not None and SWEEP_MARK.encode() not in old:
                reason = "already exists and was not written by this command: move it away"
                raise Refused(f"{name} {reason}")
    except Refused as refused:
        return FileResult(path, data, refused=refused.sentence(path))
    new_files = {name: text for name, text in new_files.items() if text.encode() != before[name]}
    if not new_files:  # an earlier run wrote them all
        return FileResult(path, data)
    names = ", ".join(posixpath.relpath(name, posixpath.dirname(path) or ".") for name in new_files)
    message = f"the v1.5 sweep is written as v2: {names}"
    entries = sweep.ledger.entries
    severity: Severity = "warning" if any(item.needs_person for item in entries) else "note"
    finding = Finding(SWEEP_RULE, severity, message, path, applied=True, ledger=entries)
    return FileResult(
        path,
        data,
        findings=(finding, *threads),
        new_files=tuple((name, text.encode()) for name, text in new_files.items()),
    )


def _convert(
    sweep: LegacySpec, settings: Settings, read_file: ReadFile
) -> tuple[dict[str, str], list[Finding]]:
    """The new files, and what is said about threads."""
    spec = find_trial(sweep, read_file)
    sweep.account(sweep.data)
    body = sweep_body(sweep)
    python = settings.sweep_as == "python"
    space = body["search_space"]
    trial, body["search_space"] = convert_trial(spec, sweep, space, read_file, python=python)
    stem = posixpath.splitext(posixpath.basename(sweep.path))[0]
    component_path = posixpath.join(posixpath.dirname(spec.path), f"{stem}.trial.v2.yaml")
    dockerfile = f"{stem}.trial.v2.dockerfile"
    environment = convert_environment(spec, read_file, trial.includes, dockerfile)
    variables, threads = _variables(sweep, trial, settings, environment.text, read_file)
    plan = SweepPlan(sweep, trial, settings, body, component_path, variables)
    _note_settings(plan)
    _note_variables(plan)
    header = f"{SWEEP_MARK} from {posixpath.basename(spec.path)}, the trial of {plan.origin}."
    files = {component_path: component_text(plan, header, environment.value)}
    for name, text in environment.new_files.items():
        files[name] = f"{text.rstrip()}\n# {header}\n"
    name = f"{legal_name(stem)}_v2.py" if python else f"{stem}.v2.yaml"
    if python:
        text = python_text(plan)
    elif settings.sweep_as == "job":
        text = sweep_job_text(plan, environment.moved(plan.move))
    else:
        text = step_text(plan)
    return {**files, posixpath.join(plan.folder, name): text}, threads


def _variables(
    sweep: LegacySpec, trial: Trial, settings: Settings, packages: str, read_file: ReadFile
) -> tuple[dict[str, str], list[Finding]]:
    """The variables of the trial, over them those of the sweep, and those of `--threads`."""
    section = "environment_variables"
    both = {**trial.source.mapping(section), **sweep.mapping(section)}
    variables = {}
    for name, value in both.items():
        if name == RESTEP and PRESTEP not in both:
            reason = f"{RESTEP}, which nothing reads, is written as {PRESTEP}"
            trial.source.note(reason, section, name)
            name = PRESTEP
        variables[str(name)] = "" if value is None else str(value)
    command = trial.plain_command
    evidence: list[FrameworkEvidence] = [
        *evidence_in_command(command),
        *evidence_in_dependencies(packages, "the environment"),
    ]
    folder = posixpath.join(posixpath.dirname(trial.source.path), trial.code)
    for word in (word for word in command.split() if word.endswith(".py")):
        code = read_or_none(read_file, posixpath.join(folder, word))
        if code is not None:
            evidence += evidence_in_code(code.decode("utf-8", "replace"), word)
    # As `patch` decides it for the v1.5 spec: the order of the two makes no difference.
    decision = decide(settings, evidence, instance_type=settings.instance_type)
    note = partial(Finding, "threads", path=sweep.path, reason=decision.reason)
    if decision.how == "cannot":
        return variables, [note(severity="warning", message="no threads are set")]
    if added := decision.variables(variables):
        message = f"{' and '.join(added)} set for threads"
        return variables | added, [note(severity="note", message=message, applied=True)]
    return variables, []


def _note_settings(plan: SweepPlan) -> None:
    ledger, settings = plan.sweep.ledger, plan.settings
    for option, value, default in (
        ("--instance-type", settings.instance_type, DEFAULT_INSTANCE_TYPE),
        ("--instance-count", settings.instance_count, DEFAULT_INSTANCE_COUNT),
    ):
        if value is None:
            reason = f"{default} is written, what AzureML takes for a job without one"
            place = f"resources.{option[2:].replace('-', '_')}"
            ledger.added(place, f"{option} is not given: {reason}")
    if settings.compute is None:
        hint = "put in the name of the attached cluster"
        ledger.by_hand("compute", f"--compute is not given: {UNSET} is written; {hint}")
    if settings.sweep_as == "job":
        ledger.added(
            "resources",
            "plain values: a standalone job takes no binding there; change them with "
            "`az ml job create --set resources.instance_type=...`, or use --as step",
        )
    for item in plan.constants:
        if not item.has_default:
            hint = "set a path or value before it is submitted"
            ledger.by_hand(f"inputs.{item.name}", f"v1.5 gets it from the caller: {hint}")
    for item in plan.absent:
        ledger.note(f"inputs.{item.name}", "it is optional and without a value: left out")
    _note_quoting(plan)


def _note_quoting(plan: SweepPlan) -> None:
    """A swept value is put into the command as it is, and the shell splits it."""
    for name, drawn in plan.swept.items():
        values = [value for value in drawn.get("values", ()) if isinstance(value, str)]
        if special := next((value for value in values if shlex.quote(value) != value), None):
            placeholder = f"${{{{inputs.{name}}}}}"
            reason = f"the shell sees {special!r} unquoted: write '{placeholder}' in the command "
            reason += "if it is one word"
            plan.sweep.ledger.by_hand(f"search_space.{name}", reason)


def _note_variables(plan: SweepPlan) -> None:
    if not plan.variables:
        return
    message = ""
    if plan.settings.sweep_as == "job":
        message += "written under trial.environment_variables, which a sweep job keeps"
    else:
        message += (
            "exported in front of the trial's command, because a v2 pipeline sweep loses the "
            "environment variables of its trial"
        )
    if plan.settings.sweep_as != "job" and "get_cores" in plan.variables.get(PRESTEP, ""):
        cores, source = cores_of(plan.settings.instance_type, plan.settings)
        message += "; get_cores is known only to AMLARC's own pre-step, so " + (
            f"its value {cores} ({source}) is written: change it together with the instance type"
            if cores is not None
            else f"the container's CPU limit is used ({source})"
        )
    plan.trial.source.note(message, "environment_variables")


# --- the forms ---


@dataclass
class SweepPlan:
    """Everything that the forms are written from."""

    sweep: LegacySpec
    trial: Trial
    settings: Settings
    # The sweep as v2 has it (`search_space.sweep_body`).
    body: dict[str, Any]
    component_path: str
    variables: dict[str, str]

    def __post_init__(self) -> None:
        data, settings = self.sweep.data, self.settings
        self.swept: dict[str, dict[str, Any]] = self.body["search_space"]
        self.folder = posixpath.dirname(self.sweep.path)
        self.component = posixpath.relpath(self.component_path, self.folder or ".")
        self.title = str(data.get("display_name") or data.get("name") or "sweep")
        words = [str(data[key]) for key in ("name", "version") if data.get(key)]
        # `sweep_spec.yaml (v1.5 SweepComponent lightgbm.sweep 1.0.6)`
        origin = " ".join(["v1.5 SweepComponent", *words])
        self.origin = f"{posixpath.basename(self.sweep.path)} ({origin})"
        # A job has no component name and version.
        self.tags = self.sweep.strings("tags") | (
            {"v1_5_component": ":".join(words)} if words else {}
        )
        self.compute = asset(settings.compute or UNSET)
        # Cores of the instance type of the command line, if they are known.
        self.cores = cores_of(settings.instance_type, settings)[0]
        others = [item for item in self.trial.inputs.values() if item.name not in self.swept]
        # Inputs that have, or need, a value; and optional ones without a value.
        self.constants = [item for item in others if not item.is_absent]
        self.absent = [item for item in others if item.is_absent]

    @cached_property
    def resources(self) -> dict[str, Any]:
        """What the command line says, which `patch` writes on components and trials too."""
        settings = self.settings
        return filled(
            {name: getattr(settings, name) for name in ("instance_type", "instance_count")}
        )

    @cached_property
    def resource_names(self) -> list[str]:
        """The pipeline's inputs for instance type and count; a trial may use these names too."""
        used = {name.lower() for name in self.trial.inputs}
        return [_free_name(name, used) for name in ("instance_type", "instance_count")]

    def move(self, path: str) -> str:
        """A path beside the trial as one beside the sweep."""
        if posixpath.isabs(path) or "://" in path or path.startswith("azureml:"):
            return path
        folder = posixpath.dirname(self.trial.source.path) or "."
        between = posixpath.relpath(folder, self.folder or ".")
        moved = posixpath.normpath(posixpath.join(between, path))
        return moved if moved.startswith(".") else f"./{moved}"

    def head(self) -> dict[str, Any]:
        return {"description": str(self.sweep.data.get("description") or ""), "tags": self.tags}


_GET_CORES_CALL = re.compile(r"`\s*get_cores\s*`|\$\(\s*get_cores\s*\)")
# `get_cores` is known only inside AMLARC's own pre-step. In a command its nearest equal is the
# container's CPU limit (cgroup v2, then v1; whole cores, at least 1), else all cores.
GET_CORES = (
    "command -v get_cores > /dev/null || get_cores() { "
    "set -- $(cat /sys/fs/cgroup/cpu.max 2> /dev/null || "
    "cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us /sys/fs/cgroup/cpu/cpu.cfs_period_us 2> /dev/null); "
    'if [ "$1" -gt 0 ] 2> /dev/null; then echo $(( $1 > $2 ? $1 / $2 : 1 )); else nproc; fi; }'
)


def _exports(variables: Mapping[str, str], cores: int | None) -> str:
    """Shell text that sets the variables and does what AMLARC_PRESTEP would, before a command."""
    plain = [f"{name}={shlex.quote(value)}" for name, value in variables.items() if name != PRESTEP]
    lines = [f"export {' '.join(plain)}"] if plain else []
    prestep = variables.get(PRESTEP, "").strip().rstrip(";").rstrip()
    if cores is not None:
        prestep = _GET_CORES_CALL.sub(str(cores), prestep)
    if "get_cores" in prestep:
        lines.append(GET_CORES)
    if prestep:
        lines.append(prestep)
    # A comment or a line continuation in the pre-step would take in the rest of the line.
    glue = "\n" if "\n" in prestep or "#" in prestep else "; "
    return glue.join(lines) + glue if lines else ""


def component_text(plan: SweepPlan, header: str, environment: Any) -> str:
    """The v2 command component."""
    trial, spec = plan.trial, plan.trial.source
    old = spec.data.get("name")
    stem = posixpath.basename(plan.component_path).split(".")[0]
    name = legal_name(str(old or stem), component=True)
    if old and name != old:
        reason = "v2 names are lower case letters, digits and underscores"
        spec.note(f"it is {name}: {reason}", "name")
    prefix = "" if plan.settings.sweep_as == "job" else _exports(plan.variables, plan.cores)
    tree = {
        Comment(header): None,
        "$schema": SCHEMA.format("commandComponent"),
        "type": "command",
        "name": name,
        "version": str(spec.data.get("version") or "1"),
        "display_name": str(spec.data.get("display_name") or ""),
        "description": str(spec.data.get("description") or ""),
        "tags": spec.strings("tags"),
        Comment(
            "As the sweep says, for which v1.5's default is false; v2 reuses runs by default."
        ): None,
        "is_deterministic": plan.sweep.data.get("is_deterministic") is True,
        "inputs": {item.name: item.spec for item in trial.inputs.values()},
        "outputs": trial.outputs,
        "code": trial.code,
        "additional_includes": trial.includes,
    }
    if plan.cores is not None and f"={plan.cores}" in prefix:
        words = f"{plan.cores} threads are for {plan.settings.instance_type}"
        tree[Comment(f"{words}: another instance type wants another number.")] = None
    tree |= {
        "command": prefix + _component_command(plan),
        "environment": environment,
        "distribution": trial.distribution,
        # For whoever uses the component without the sweep.
        "resources": plan.resources,
    }
    return file_text(filled(tree), FILE_STYLE)


def _component_command(plan: SweepPlan) -> str:
    def keep(match: re.Match[str]) -> str:
        # v2 drops a group without a value for an optional input; around others it is not a group.
        is_optional = any(item.is_optional for item in plan.trial.inputs_in(match[2]))
        return match[0] if is_optional else match[1] + match[2]

    return GROUP.sub(keep, plan.trial.command)


def step_text(plan: SweepPlan) -> str:
    """A pipeline job with one sweep step; what can be set is an input of the pipeline."""
    names = plan.resource_names
    inputs: dict[str, Any] = {item.name: _value(item) for item in plan.constants}
    bound: dict[str, Any] = {item.name: binding(item.name) for item in plan.constants}
    for item in plan.absent:
        kind = item.spec["type"] if item.is_port else "a value"
        inputs[Comment(f"optional: {item.name}: {kind}")] = None
        bound[Comment(f"optional: {item.name}: {binding(item.name)}")] = None
    step = {
        "type": "sweep",
        "trial": plan.component if plan.component.startswith("../") else f"./{plan.component}",
        **plan.body,
        "inputs": bound if plan.constants else None,
        "outputs": {name: binding(name, "outputs") for name in plan.trial.outputs},
        "resources": {
            key: binding(name)
            for key, name in zip(("instance_type", "instance_count"), names, strict=True)
        },
    }
    sections = {
        **plan.head(),
        "inputs": {
            Comment("Where and how wide each trial runs."): None,
            **dict(zip(names, resources(plan.settings).values(), strict=True)),
            **inputs,
        },
        "outputs": _outputs(plan),
        "settings": {"default_compute": plan.compute},
        "jobs": {"sweep": filled(step)},
    }
    return job_text("pipeline", f"{SWEEP_MARK} from {plan.origin}.", plan.title, sections)


def sweep_job_text(plan: SweepPlan, environment: Any) -> str:
    """A standalone sweep job, which cannot refer to a component: the trial is inline."""
    if includes := plan.trial.includes:
        words = f"copy {', '.join(includes)} beside the code, or use --as step"
        reason = f"a sweep job takes no additional includes: {words}"
        plan.sweep.ledger.by_hand("additional_includes", reason)
    without = ", without its environment variables" if plan.variables else ""
    same = f"{plan.component} is the same trial as a component{without}"
    trial = {
        Comment(f"A sweep job holds its trial inline; {same}."): None,
        "code": plan.move(plan.trial.code),
        "command": _job_command(plan),
        "environment": environment,
        "environment_variables": plan.variables,
        "distribution": plan.trial.distribution,
        "resources": plan.resources,
    }
    sections = {
        **plan.head(),
        "compute": plan.compute,
        "inputs": {item.name: _value(item) for item in plan.constants},
        "outputs": _outputs(plan),
        "trial": filled(trial),
        **plan.body,
        "resources": resources(plan.settings),
    }
    return job_text("sweep", f"{SWEEP_MARK} from {plan.origin}.", plan.title, sections)


def _job_command(plan: SweepPlan) -> str:
    """The command of a standalone job: swept inputs are `search_space`, without optional groups."""

    def absent(text: str) -> list[str]:
        return [item.name for item in plan.trial.inputs_in(text) if item in plan.absent]

    def keep(match: re.Match[str]) -> str:
        return "" if absent(match[2]) else match[1] + match[2]

    command = GROUP.sub(keep, plan.trial.command)
    for name in absent(command):
        raise plan.trial.source.refuse(
            f"the command uses the optional input {name} outside of brackets, and a job has no "
            f"value for it: write [--{name} {{inputs.{name}}}] or give it a default",
            *("inputs", name),
        )
    for name in plan.swept:
        command = command.replace(f"${{{{inputs.{name}}}}}", f"${{{{search_space.{name}}}}}")
    return command


def python_text(plan: SweepPlan) -> str:
    """A Python module with a pipeline function for azure-ai-ml."""
    kind, count = plan.resource_names
    values = {item.name: item.spec["default"] for item in plan.constants if item.has_default}
    values |= dict(zip((kind, count), resources(plan.settings).values(), strict=True))
    used: set[str] = set()
    reserved = {*plan.trial.inputs, kind, count, *PYTHON_NAMES, *keyword.kwlist}
    function = legal_name(str(plan.sweep.data.get("name") or "sweep"), component=True)
    return render(
        "sweep_pipeline.py.j2",
        mark=SWEEP_MARK,
        origin=plan.origin,
        literal=literal,
        title=plan.title,
        **plan.head(),
        function=_free_name(function, reserved),
        component=plan.component,
        required=[item.name for item in plan.constants if not item.has_default],
        defaults=[(name, literal(value)) for name, value in values.items()],
        left_out=[item.name for item in plan.absent],
        swept=[(name, distribution_text(drawn, used)) for name, drawn in plan.swept.items()],
        settings=sweep_arguments(plan.body, used),
        classes=sorted(used),
        outputs=list(plan.trial.outputs),
        compute=plan.compute.removeprefix("azureml:"),
        kind=kind,
        count=count,
        local={word: _free_name(word, reserved) for word in ("trial", "node", "sweep")},
    )


def _free_name(name: str, used: set[str]) -> str:
    while name in used:
        name = f"sweep_{name}"
    return name


def _value(item: TrialInput) -> Any:
    if item.has_default:
        return item.spec["default"]
    if not item.is_port:
        return UNSET
    path = Comment("path: azureml:NAME@latest, or a folder, file or URL")
    return filled({"type": item.spec["type"], path: None, "mode": item.spec.get("mode")})


def _outputs(plan: SweepPlan) -> dict[str, Any]:
    return {
        name: {key: spec[key] for key in ("type", "mode") if key in spec}
        for name, spec in plan.trial.outputs.items()
    }
