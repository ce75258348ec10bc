"""A v1.5 SweepComponent and its trial as v2: a command component, and a sweep over it.

The sweep is a pipeline with one sweep step, a standalone sweep job or a Python module. The old
files stay. What v2 has no place for is a finding; input that cannot be converted is refused.
"""

from __future__ import annotations

import posixpath
from functools import partial

from arc_toolkit.azureml.evidence import (
    FrameworkEvidence,
    evidence_in_code,
    evidence_in_command,
    evidence_in_dependencies,
)
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.azureml.threads import PRESTEP, RESTEP, cores_of, decide
from arc_toolkit.edit.files.edits import Refused
from arc_toolkit.findings import FileResult, Finding
from arc_toolkit.migrate import forms
from arc_toolkit.migrate.environments import convert_environment
from arc_toolkit.migrate.forms import MARK, SweepPlan
from arc_toolkit.migrate.legacy_spec import (
    SWEEP_RULE,
    LegacySpec,
    ReadFile,
    parse_spec,
    read_or_none,
)
from arc_toolkit.migrate.search_space import sweep_body
from arc_toolkit.migrate.trial import (
    SWEEP_KEYS,
    Trial,
    convert_trial,
    find_trial,
    kind_of,
    legal_name,
)
from arc_toolkit.migrate.v2_jobs import DEFAULT_INSTANCE_COUNT, DEFAULT_INSTANCE_TYPE, UNSET


def convert(path: str, data: bytes, settings: Settings, read_file: ReadFile) -> FileResult:
    """The v2 files for a v1.5 sweep; a file that is not a v1.5 sweep comes back unchanged."""
    try:
        if path == "-":
            raise Refused("standard input has no folder to write into: give the sweep's file")
        sweep = parse_spec(path, data)
        if kind_of(sweep.data) != "sweepcomponent":
            return FileResult(path, data)
        new_files = _convert(sweep, settings, read_file)
        before = {name: read_or_none(read_file, name) for name in new_files}
        for name, old in before.items():
            if old is not None and MARK.encode() not in old:
                reason = "already exists and was not written by this command: move it away"
                raise Refused(f"{name} {reason}")
    except Refused as refused:
        return FileResult(path, data, refused=refused.sentence(path))
    new_files = {name: text for name, text in new_files.items() if text.encode() != before[name]}
    if not new_files:  # an earlier run wrote them all
        return FileResult(path, data)
    names = ", ".join(posixpath.relpath(name, posixpath.dirname(path) or ".") for name in new_files)
    message = f"the v1.5 sweep is written as v2: {names}"
    return FileResult(
        path,
        data,
        findings=(Finding(SWEEP_RULE, "note", message, path, applied=True), *sweep.notes),
        new_files=tuple((name, text.encode()) for name, text in new_files.items()),
    )


def _convert(sweep: LegacySpec, settings: Settings, read_file: ReadFile) -> dict[str, str]:
    spec = find_trial(sweep, read_file)
    sweep.warn_unknown(sweep.data, SWEEP_KEYS)
    body = sweep_body(sweep)
    python = settings.sweep_as == "python"
    space = body["search_space"]
    trial, body["search_space"] = convert_trial(spec, sweep, space, read_file, python=python)
    stem = posixpath.splitext(posixpath.basename(sweep.path))[0]
    component_path = posixpath.join(posixpath.dirname(spec.path), f"{stem}.trial.v2.yaml")
    dockerfile = f"{stem}.trial.v2.dockerfile"
    environment = convert_environment(spec, read_file, trial.includes, dockerfile)
    variables = _variables(sweep, trial, settings, environment.text, read_file)
    plan = SweepPlan(sweep, trial, settings, body, component_path, variables)
    _note_settings(plan)
    _note_variables(plan)
    header = f"{MARK} from {posixpath.basename(spec.path)}, the trial of {plan.origin}."
    files = {component_path: forms.component_text(plan, header, environment.value)}
    for name, text in environment.new_files.items():
        files[name] = f"{text.rstrip()}\n# {header}\n"
    name = f"{legal_name(stem)}_v2.py" if python else f"{stem}.v2.yaml"
    if python:
        text = forms.python_text(plan)
    elif settings.sweep_as == "job":
        text = forms.sweep_job_text(plan, environment.moved(plan.move))
    else:
        text = forms.step_text(plan)
    return {**files, posixpath.join(plan.folder, name): text}


def _variables(
    sweep: LegacySpec, trial: Trial, settings: Settings, packages: str, read_file: ReadFile
) -> dict[str, str]:
    """The variables of the trial, over them those of the sweep, and those of `--threads`."""
    section = "environment_variables"
    both = {**trial.source.mapping(section), **sweep.mapping(section)}
    variables = {}
    for name, value in both.items():
        if name == RESTEP and PRESTEP not in both:
            message = f"{RESTEP}, which nothing reads, is written as {PRESTEP}"
            trial.source.note(message, section, name)
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
        sweep.notes.append(note(severity="warning", message="no threads are set"))
    elif added := decision.variables(variables):
        message = f"{' and '.join(added)} set for threads"
        sweep.notes.append(note(severity="note", message=message, applied=True))
        variables |= added
    return variables


def _note_settings(plan: SweepPlan) -> None:
    sweep, settings = plan.sweep, plan.settings
    for option, value, default in (
        ("--instance-type", settings.instance_type, DEFAULT_INSTANCE_TYPE),
        ("--instance-count", settings.instance_count, DEFAULT_INSTANCE_COUNT),
    ):
        if value is None:
            reason = f"{default} is written, what AzureML takes for a job without one"
            sweep.note(f"{option} is not given: {reason}")
    if settings.compute is None:
        hint = "put in the name of the attached cluster"
        sweep.warn(f"--compute is not given: {UNSET} is written; {hint}")
    if settings.sweep_as == "job":
        sweep.note(
            "instance_type and instance_count are plain values: a standalone job takes no binding "
            "there; change them with `az ml job create --set resources.instance_type=...`, or use "
            "--as step"
        )
    if unset := [item.name for item in plan.constants if not item.has_default]:
        hint = "set a path or value before it is submitted"
        sweep.warn(f"v1.5 gets {', '.join(unset)} from the caller: {hint}")
    if absent := [item.name for item in plan.absent]:
        sweep.note(f"optional inputs without a value are left out: {', '.join(absent)}")


def _note_variables(plan: SweepPlan) -> None:
    if not plan.variables:
        return
    message = f"{', '.join(plan.variables)}: "
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
