"""A v1.5 SweepComponent and its trial as v2: a command component, and a sweep over it.

The sweep is written as a pipeline with one sweep step, as a standalone sweep job or as a Python module. The old
files stay. What v2 has no place for is a finding; input that cannot be converted is refused in one sentence.
Nothing is read but through `read`, and nothing is written: the texts come back as `FileResult.new_files`.
"""

from __future__ import annotations

import posixpath
from typing import Any

from arc_toolkit.azureml.migrate import environments as environment
from arc_toolkit.azureml.migrate import exports as variables
from arc_toolkit.azureml.migrate import forms, space, trial
from arc_toolkit.azureml.migrate.emit import Note, emit
from arc_toolkit.azureml.migrate.interface import legal
from arc_toolkit.azureml.migrate.legacy_source import Read, Source, parse, read_or_none
from arc_toolkit.azureml.migrate.sweep_plan import (
    DEFAULT_INSTANCE_COUNT,
    DEFAULT_INSTANCE_TYPE,
    MARK,
    RULE,
    UNSET,
    Plan,
    teller,
)
from arc_toolkit.azureml.settings import FileResult, Finding, Settings
from arc_toolkit.azureml.threads import (
    PRESTEP,
    Evidence,
    cores_of,
    decide,
    evidence_in_code,
    evidence_in_command,
    evidence_in_dependencies,
)
from arc_toolkit.edit.edits import Refused


def convert(path: str, data: bytes, settings: Settings, read: Read) -> FileResult:
    """The v2 files for a v1.5 sweep; a file that is no v1.5 sweep comes back unchanged."""
    findings: list[Finding] = []
    try:
        if path == "-":
            raise Refused("standard input has no folder to write into: give the sweep's file")
        sweep = parse(path, data)
        if trial.kind_of(sweep.data) != "sweepcomponent":
            return FileResult(path, data)
        new_files = _convert(sweep, settings, read, findings)
        there = {name: read_or_none(read, name) for name in new_files}
        for name, old in there.items():
            if old is not None and MARK.encode() not in old:
                raise Refused(f"{name} is there already and was not written by this command: move it away")
    except Refused as refused:
        return FileResult(path, data, refused=refused.sentence(path))
    new_files = {name: text for name, text in new_files.items() if text.encode() != there[name]}
    if not new_files:  # an earlier run wrote them all
        return FileResult(path, data)
    names = ", ".join(posixpath.relpath(name, posixpath.dirname(path) or ".") for name in new_files)
    done = Finding(RULE, "note", f"the v1.5 sweep is written as v2: {names}", path, fixed=True)
    return FileResult(
        path,
        data,
        findings=(done, *findings),
        new_files=tuple((name, text.encode()) for name, text in new_files.items()),
    )


def _convert(sweep: Source, settings: Settings, read: Read, findings: list[Finding]) -> dict[str, str]:
    form = settings.sweep_as
    tell = teller(sweep, findings)
    spec = trial.find(sweep, read)
    tell_trial = teller(spec, findings)
    for key in sweep.data:
        if key not in trial.SWEEP_KEYS:
            tell("warning", f"{key} of the sweep has no equivalent in v2 and is not written", key)
    body: dict[str, Any] = {
        "sampling_algorithm": space.algorithm(sweep, tell),
        "objective": space.objective(sweep, tell),
        "search_space": space.search_space(sweep, tell),
        "limits": space.limits(sweep, tell),
    }
    if policy := space.early_termination(sweep, tell):
        body["early_termination"] = policy
    taken, swept = trial.take(
        spec,
        sweep,
        body["search_space"],
        read,
        python=form == "python",
        tell=tell_trial,
        tell_sweep=tell,
    )
    body["search_space"] = swept
    stem = posixpath.splitext(posixpath.basename(sweep.path))[0]
    component_path = posixpath.join(posixpath.dirname(spec.path), f"{stem}.trial.v2.yaml")
    plan = Plan(sweep, taken, settings, body, swept, {}, component_path, tell, tell_trial)
    docker = environment.convert(
        spec, read, lambda path: path, taken.includes, f"{stem}.trial.v2.dockerfile", tell_trial
    )
    plan.variables.update(_variables(plan, docker.text, read, findings))
    _tell_settings(plan)
    _tell_variables(plan)

    header = f"{MARK} from {posixpath.basename(spec.path)}, the trial of {plan.origin}."
    files = {component_path: emit({Note(header): None, **forms.component(plan, docker.value)})}
    for name, text in docker.new_files.items():
        files[name] = f"{text.rstrip()}\n# {header}\n"
    if form == "python":
        files[posixpath.join(plan.folder, f"{legal(stem)}_v2.py")] = forms.python(plan)
    else:
        path = posixpath.join(plan.folder, f"{stem}.v2.yaml")
        if form == "job":
            moved = environment.convert(
                spec, read, plan.move, taken.includes, f"{stem}.trial.v2.dockerfile", lambda *_: None
            )
            files[path] = forms.job(plan, moved.value)
        else:
            files[path] = forms.step(plan)
    return files


def _variables(plan: Plan, packages: str, read: Read, findings: list[Finding]) -> dict[str, str]:
    """What source and settings ask for, `--threads` among it."""
    given = variables.merged(plan.trial.source, plan.sweep, plan.tell_trial)
    command = "".join(part for part in plan.trial.parts if isinstance(part, str))
    evidence: list[Evidence] = [
        *evidence_in_command(command),
        *evidence_in_dependencies(packages, "the environment"),
    ]
    folder = posixpath.join(posixpath.dirname(plan.trial.source.path), plan.trial.code)
    for word in command.split():
        code = read_or_none(read, posixpath.join(folder, word)) if word.endswith(".py") else None
        if code is not None:
            evidence += evidence_in_code(code.decode("utf-8", "replace"), word)
    # As `patch` decides it for the v1.5 spec, so that the order of the two makes no difference.
    decision = decide(plan.settings, evidence, instance_type=plan.settings.instance_type)
    if decision.how == "cannot":
        findings.append(
            Finding("threads", "warning", "no threads are set", plan.sweep.path, reason=decision.reason)
        )
    elif added := decision.variables(given):
        message = f"{' and '.join(added)} set for threads"
        findings.append(Finding("threads", "note", message, plan.sweep.path, fixed=True, reason=decision.reason))
        given.update(added)
    return given


def _tell_settings(plan: Plan) -> None:
    for option, given, default in (
        ("--instance-type", plan.settings.instance_type, DEFAULT_INSTANCE_TYPE),
        ("--instance-count", plan.settings.instance_count, DEFAULT_INSTANCE_COUNT),
    ):
        if given is None:
            plan.tell(
                "note", f"{option} is not given: {default} is written, what AzureML takes for a job without one"
            )
    if plan.settings.compute is None:
        plan.tell(
            "warning", f"--compute is not given: {UNSET} stands for it; put in the name of the attached cluster"
        )
    if plan.settings.sweep_as == "job":
        plan.tell(
            "note",
            "instance_type and instance_count are plain values: a standalone job takes no binding there; change "
            "them with `az ml job create --set resources.instance_type=...`, or use --as step",
        )
    unset = [one.name for one in plan.fixed if not one.has_default]
    if unset:
        plan.tell(
            "warning", f"v1.5 gets {', '.join(unset)} from the caller: give a path or value before it is submitted"
        )
    if plan.left_out:
        names = ", ".join(one.name for one in plan.left_out)
        plan.tell("note", f"optional inputs without a value are left out: {names}")


def _tell_variables(plan: Plan) -> None:
    names = ", ".join(plan.variables)
    if not names:
        return
    if plan.settings.sweep_as == "job":
        plan.tell_trial(
            "note",
            f"{names}: written under trial.environment_variables, which a sweep job keeps",
            "environment_variables",
        )
        return
    message = (
        f"{names}: exported in front of the trial's command, because a v2 pipeline sweep loses the environment "
        "variables of its trial"
    )
    if "get_cores" in plan.variables.get(PRESTEP, ""):
        cores, source = cores_of(plan.settings.instance_type, plan.settings)
        message += "; get_cores is known only to AMLARC's own pre-step, so " + (
            f"its value {cores} ({source}) is written: change it together with the instance type"
            if cores is not None
            else f"the container's CPU limit stands for it ({source})"
        )
    plan.tell_trial("note", message, "environment_variables")
