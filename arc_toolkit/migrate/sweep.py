"""A v1.5 SweepComponent and its trial as v2: a command component, and a sweep over it.

The sweep is written as a pipeline with one sweep step, as a standalone sweep job or as a Python module. The old
files stay. What v2 has no place for is a finding; input that cannot be converted is refused in one sentence.
Nothing is read but through `read_file`, and nothing is written: the texts come back as `FileResult.new_files`.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from arc_toolkit.azureml.documents import FILE_STYLE
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.azureml.threads import (
    PRESTEP,
    FrameworkEvidence,
    cores_of,
    decide,
    evidence_in_code,
    evidence_in_command,
    evidence_in_dependencies,
)
from arc_toolkit.edit.files.edits import Refused
from arc_toolkit.edit.yaml.writer import Comment, file_text
from arc_toolkit.findings import FileResult, Finding
from arc_toolkit.migrate import forms, space, trial
from arc_toolkit.migrate.forms import (
    DEFAULT_INSTANCE_COUNT,
    DEFAULT_INSTANCE_TYPE,
    MARK,
    UNSET,
    SweepPlan,
)
from arc_toolkit.migrate.legacy_spec import (
    RULE,
    LegacySpec,
    ReadFile,
    parse_spec,
    read_or_none,
)
from arc_toolkit.migrate.trial import legal


def convert(path: str, data: bytes, settings: Settings, read_file: ReadFile) -> FileResult:
    """The v2 files for a v1.5 sweep; a file that is not a v1.5 sweep comes back unchanged."""
    try:
        if path == "-":
            raise Refused("standard input has no folder to write into: give the sweep's file")
        sweep = parse_spec(path, data)
        if trial.kind_of(sweep.data) != "sweepcomponent":
            return FileResult(path, data)
        new_files = _convert(sweep, settings, read_file)
        there = {name: read_or_none(read_file, name) for name in new_files}
        for name, old in there.items():
            if old is not None and MARK.encode() not in old:
                raise Refused(
                    f"{name} already exists and was not written by this command: move it away"
                )
    except Refused as refused:
        return FileResult(path, data, refused=refused.sentence(path))
    new_files = {name: text for name, text in new_files.items() if text.encode() != there[name]}
    if not new_files:  # an earlier run wrote them all
        return FileResult(path, data)
    names = ", ".join(posixpath.relpath(name, posixpath.dirname(path) or ".") for name in new_files)
    done = Finding(RULE, "note", f"the v1.5 sweep is written as v2: {names}", path, applied=True)
    return FileResult(
        path,
        data,
        findings=(done, *sweep.notes),
        new_files=tuple((name, text.encode()) for name, text in new_files.items()),
    )


def _convert(sweep: LegacySpec, settings: Settings, read_file: ReadFile) -> dict[str, str]:
    spec = trial.find(sweep, read_file)
    sweep.warn_unknown(sweep.data, trial.SWEEP_KEYS)
    body = space.sweep_body(sweep)
    python = settings.sweep_as == "python"
    trial_plan, body["search_space"] = trial.take(
        spec, sweep, body["search_space"], read_file, python=python
    )
    stem = posixpath.splitext(posixpath.basename(sweep.path))[0]
    component_path = posixpath.join(posixpath.dirname(spec.path), f"{stem}.trial.v2.yaml")
    environment = convert_environment(
        spec, read_file, trial_plan.includes, f"{stem}.trial.v2.dockerfile"
    )
    plan = SweepPlan(sweep, trial_plan, settings, body, {}, component_path)
    plan.variables.update(_variables(plan, environment.text, read_file))
    _note_settings(plan)
    _note_variables(plan)

    header = f"{MARK} from {posixpath.basename(spec.path)}, the trial of {plan.origin}."
    files = {
        component_path: file_text(
            {Comment(header): None, **forms.component(plan, environment.value)}, FILE_STYLE
        )
    }
    for name, text in environment.new_files.items():
        files[name] = f"{text.rstrip()}\n# {header}\n"
    if python:
        files[posixpath.join(plan.folder, f"{legal(stem)}_v2.py")] = forms.python(plan)
    elif settings.sweep_as == "job":
        files[posixpath.join(plan.folder, f"{stem}.v2.yaml")] = forms.job(
            plan, environment.moved(plan.move)
        )
    else:
        files[posixpath.join(plan.folder, f"{stem}.v2.yaml")] = forms.step(plan)
    return files


def _variables(plan: SweepPlan, packages: str, read_file: ReadFile) -> dict[str, str]:
    """What source and settings ask for, `--threads` among it."""
    variables = forms.merged(plan.trial.source, plan.sweep)
    command = "".join(part for part in plan.trial.parts if isinstance(part, str))
    evidence: list[FrameworkEvidence] = [
        *evidence_in_command(command),
        *evidence_in_dependencies(packages, "the environment"),
    ]
    folder = posixpath.join(posixpath.dirname(plan.trial.source.path), plan.trial.code)
    for word in command.split():
        code = (
            read_or_none(read_file, posixpath.join(folder, word)) if word.endswith(".py") else None
        )
        if code is not None:
            evidence += evidence_in_code(code.decode("utf-8", "replace"), word)
    # As `patch` decides it for the v1.5 spec, so that the order of the two makes no difference.
    decision = decide(plan.settings, evidence, instance_type=plan.settings.instance_type)
    path = plan.sweep.path
    if decision.how == "cannot":
        message = "no threads are set"
        plan.sweep.notes.append(
            Finding("threads", "warning", message, path, reason=decision.reason)
        )
    elif added := decision.variables(variables):
        message = f"{' and '.join(added)} set for threads"
        plan.sweep.notes.append(
            Finding("threads", "note", message, path, reason=decision.reason, applied=True)
        )
        variables.update(added)
    return variables


def _note_settings(plan: SweepPlan) -> None:
    for option, value, default in (
        ("--instance-type", plan.settings.instance_type, DEFAULT_INSTANCE_TYPE),
        ("--instance-count", plan.settings.instance_count, DEFAULT_INSTANCE_COUNT),
    ):
        if value is None:
            plan.sweep.note(
                f"{option} is not given: {default} is written, what AzureML takes for a job without one"
            )
    if plan.settings.compute is None:
        plan.sweep.warn(
            f"--compute is not given: {UNSET} is written; put in the name of the attached cluster"
        )
    if plan.settings.sweep_as == "job":
        plan.sweep.note(
            "instance_type and instance_count are plain values: a standalone job takes no binding there; change "
            "them with `az ml job create --set resources.instance_type=...`, or use --as step"
        )
    unset = [item.name for item in plan.constants if not item.has_default]
    if unset:
        plan.sweep.warn(
            f"v1.5 gets {', '.join(unset)} from the caller: set a path or value before it is submitted"
        )
    if plan.absent:
        names = ", ".join(item.name for item in plan.absent)
        plan.sweep.note(f"optional inputs without a value are left out: {names}")


def _note_variables(plan: SweepPlan) -> None:
    names = ", ".join(plan.variables)
    if not names:
        return
    if plan.settings.sweep_as == "job":
        plan.trial.source.note(
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
            else f"the container's CPU limit is used ({source})"
        )
    plan.trial.source.note(message, "environment_variables")


# Where a v1.5 spec names no image: AMLARC needs Ubuntu 20.04 or later (migration note), and this one carries MPI.
DEFAULT_IMAGE = "mcr.microsoft.com/azureml/openmpi4.1.0-ubuntu20.04:latest"
# For `pip_requirements_file`, which names no Python.
DEFAULT_PYTHON = "python=3.10"


@dataclass
class ConvertedEnvironment:
    """The v2 value (a name, or a mapping), files to write for it, and text that tells which packages it has."""

    value: str | dict[str, Any]
    new_files: dict[str, str] = field(default_factory=dict)
    text: str = ""

    def moved(self, move: Callable[[str], str]) -> str | dict[str, Any]:
        """The value for a file in another folder: `move` takes a path beside the spec to one beside that file."""
        if isinstance(self.value, str):
            return self.value
        out = dict(self.value)
        if "build" in out:
            out["build"] = {**out["build"], "path": move(out["build"]["path"])}
        if isinstance(out.get("conda_file"), str):
            out["conda_file"] = move(out["conda_file"])
        return out


def convert_environment(
    spec: LegacySpec, read_file: ReadFile, includes: list[str], dockerfile: str
) -> ConvertedEnvironment:
    """`includes` are the paths of its additional includes; `dockerfile` is the name for an inline Dockerfile."""
    reference = spec.data.get("environment")
    if isinstance(reference, str):
        name = reference if reference.startswith("azureml:") else f"azureml:{reference}@latest"
        return ConvertedEnvironment(name)
    section = spec.mapping("environment")
    if section.get("name"):
        version = section.get("version")
        spec.warn_unknown(section, ("name", "version", "os"), "environment")
        return ConvertedEnvironment(
            f"azureml:{section['name']}{f':{version}' if version else '@latest'}"
        )
    docker = spec.mapping("environment", "docker")
    conda = spec.mapping("environment", "conda")
    build = spec.mapping("environment", "docker", "build")
    spec.warn_unknown(section, ("docker", "conda", "os", "version"), "environment")
    spec.warn_unknown(docker, ("image", "build"), "environment", "docker")
    if str(section.get("os", "linux")).lower() != "linux":
        message = f"environment.os {section['os']}: AMLARC runs Linux only; linux is written"
        spec.warn(message, "environment", "os")

    value: dict[str, Any] = {}
    result = ConvertedEnvironment(value)
    folder = posixpath.dirname(spec.path)
    if build.get("dockerfile"):
        value["build"] = _build(
            spec, str(build["dockerfile"]), folder, read_file, includes, dockerfile, result
        )
    else:
        value["image"] = docker.get("image") or DEFAULT_IMAGE
        result.text = str(value["image"])
        if not docker.get("image"):
            spec.warn(
                f"the environment names no image; {DEFAULT_IMAGE} is written: check it",
                "environment",
            )
    dependencies = _conda(spec, conda, folder, read_file, result)
    if dependencies is not None and "build" in value:
        spec.warn(
            "environment.conda beside a Dockerfile has no place in v2: install its packages in the Dockerfile",
            "environment",
            "conda",
        )
    elif dependencies is not None:
        value["conda_file"] = dependencies
        if isinstance(dependencies, dict) and not conda.get("conda_dependencies"):
            path = str(conda["pip_requirements_file"]).removeprefix("file:")
            message = f"v2 has no pip requirements file: the packages of {path} are written out, with {DEFAULT_PYTHON}"
            spec.note(message, "environment", "conda", "pip_requirements_file")
    value["os_type"] = "linux"
    return result


def _build(
    spec: LegacySpec,
    dockerfile: str,
    folder: str,
    read_file: ReadFile,
    includes: list[str],
    name: str,
    result: ConvertedEnvironment,
) -> dict[str, str]:
    if "\n" in dockerfile.strip():
        result.new_files[posixpath.join(folder, name)] = dockerfile
        result.text = dockerfile
        return {"path": ".", "dockerfile_path": name}
    path = dockerfile.removeprefix("file:")
    data = read_or_none(read_file, posixpath.join(folder, path))
    if data is None:
        # v1.5 looks after the additional includes are copied in; v2 looks beside the spec.
        for include in includes:
            if posixpath.basename(include) == posixpath.basename(path):
                path, data = include, read_or_none(read_file, posixpath.join(folder, include))
    if data is None:
        message = f"the Dockerfile {path} is not beside the spec: put it there or fix build.path"
        spec.warn(message, "environment", "docker", "build", "dockerfile")
    else:
        result.text = data.decode("utf-8", "replace")
    return {"path": posixpath.dirname(path) or ".", "dockerfile_path": posixpath.basename(path)}


def _conda(
    spec: LegacySpec,
    conda: dict[str, Any],
    folder: str,
    read_file: ReadFile,
    result: ConvertedEnvironment,
) -> Any:
    """A path, or the dependencies themselves; None where there are none."""
    known = (
        "conda_dependencies",
        "conda_dependencies_file",
        "pip_requirements_file",
        "userManagedDependencies",
    )
    spec.warn_unknown(conda, (*known, "user_managed_dependencies"), "environment", "conda")
    if inline := conda.get("conda_dependencies"):
        result.text += f"\n{inline}"
        return inline
    for key in ("conda_dependencies_file", "pip_requirements_file"):
        if not conda.get(key):
            continue
        path = str(conda[key]).removeprefix("file:")
        data = read_or_none(read_file, posixpath.join(folder, path))
        if data is None:
            raise spec.refuse(
                f"environment.conda.{key} {path} cannot be read: fix the path",
                "environment",
                "conda",
            )
        result.text += "\n" + data.decode("utf-8", "replace")
        if key == "conda_dependencies_file":
            parse_spec(posixpath.join(folder, path), data)
            return path
        lines = [
            line.split(" #")[0].strip() for line in data.decode("utf-8", "replace").splitlines()
        ]
        packages = [line for line in lines if line and not line.startswith("#")]
        return {"name": "project", "dependencies": [DEFAULT_PYTHON, "pip", {"pip": packages}]}
    return None
