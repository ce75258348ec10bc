"""The trial of a sweep: a v1.5 CommandComponent or DistributedComponent, with v2 names and types.

Sources: the v1.5 spec's documented fields, and the v2 command component schema of azure-ai-ml.
"""

from __future__ import annotations

import keyword
import posixpath
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from arc_toolkit.edit.files.edits import Refused
from arc_toolkit.migrate.legacy_spec import LegacySpec, ReadFile, parse_spec, read_or_none
from arc_toolkit.migrate.search_space import DISTRIBUTIONS, POLICIES, drawn_kind
from arc_toolkit.migrate.v2_jobs import DEFAULT_IMAGE, legal_name

# Its rows in the table of arguments.
TRIAL = "trial"
_LAUNCHERS = {"mpi": "mpi", "torch.distributed": "pytorch", "pytorch": "pytorch"}
# Parameter types of v1.5 and their v2 names.
_PARAMETERS = {
    **{kind: kind for kind in ("string", "integer", "number", "boolean")},
    "enum": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
}
# Port types; any other one is a folder, or a file if its name says so.
_PORTS = {
    **dict.fromkeys(("path", "anydirectory", "dataframedirectory", "modeldirectory"), "uri_folder"),
    "anyfile": "uri_file",
    "azuremldataset": "mltable",
    **{kind: kind for kind in ("uri_folder", "uri_file", "mltable", "mlflow_model")},
    "custom_model": "custom_model",
}
# `datastore_mode` of v1.5 and the mode of v2.
_MODES = {
    "inputs": {"mount": "ro_mount", "download": "download", "direct": "direct"},
    "outputs": {"mount": "rw_mount", "upload": "upload"},
}
# Names that the Python form uses itself (templates/sweep_pipeline.py.j2).
PYTHON_NAMES = (
    *("Path", "HERE", "dsl", "load_component", "JobResourceConfiguration"),
    *(row.v2_class for row in DISTRIBUTIONS.values()),
    *(row.v2_class for row in POLICIES.values()),
)


@dataclass(frozen=True)
class TrialInput:
    """One input of the trial, under its v2 name, with its v2 declaration."""

    name: str
    spec: dict[str, Any]

    @property
    def is_port(self) -> bool:
        return self.spec["type"] not in _PARAMETERS.values()

    @property
    def is_optional(self) -> bool:
        return bool(self.spec.get("optional"))

    @property
    def has_default(self) -> bool:
        return "default" in self.spec

    @property
    def is_absent(self) -> bool:
        """Without a value unless the caller passes one."""
        return self.is_optional and not self.has_default


@dataclass(frozen=True)
class Trial:
    """A v1.5 trial, its names already those of v2."""

    source: LegacySpec
    inputs: dict[str, TrialInput]
    outputs: dict[str, dict[str, Any]]
    # As in a v2 component.
    command: str
    distribution: dict[str, Any] | None
    includes: list[str]

    def inputs_in(self, command: str) -> list[TrialInput]:
        """The inputs that a v2 command, or a part of it, names."""
        names = [name for kind, name in PLACEHOLDER.findall(command) if kind == "inputs"]
        return [self.inputs[name] for name in names if name in self.inputs]

    @property
    def plain_command(self) -> str:
        """The command without placeholders and optional groups."""
        return PLACEHOLDER.sub("", GROUP.sub("", self.command))

    @property
    def code(self) -> str:
        # v1.5 takes the spec's own folder where `code` is absent; v2 takes none.
        return str(self.source.data.get("code") or ".").removeprefix("file:")


def kind_of(data: dict[str, Any]) -> str:
    """`sweepcomponent`, `commandcomponent`, `command`, ...: by `type`, then by `$schema`."""
    schema = posixpath.basename(str(data.get("$schema") or "")).removesuffix(".json")
    return str(data.get("type") or schema or "CommandComponent").partition("@")[0].lower()


def find_trial(sweep: LegacySpec, read_file: ReadFile) -> LegacySpec:
    """The trial's spec: inline, or in the file that `trial` names."""
    reference = sweep.data.get("trial")
    if reference is None:
        raise sweep.refuse("the sweep has no trial: add `trial: file:./spec.yaml`")
    is_inline = isinstance(reference, dict)
    trial = (
        sweep.inside("trial", TRIAL) if is_inline else _read_trial(sweep, str(reference), read_file)
    )
    kind = kind_of(trial.data)
    if kind in ("commandcomponent", "distributedcomponent"):
        return trial
    if kind == "sweepcomponent":
        hint = "name a CommandComponent or DistributedComponent"
        raise sweep.refuse(f"the trial is itself a sweep: {hint}", "trial")
    if kind in ("command", "sweep", "pipeline", "parallel"):
        hint = "a v1.5 sweep takes a v1.5 trial; write the sweep as v2 too"
        raise sweep.refuse(f"the trial is already v2 (type: {kind}): {hint}", "trial")
    hint = "only CommandComponent and DistributedComponent can be swept"
    raise sweep.refuse(f"the trial is a {trial.data.get('type')}: {hint}", "trial")


def _read_trial(sweep: LegacySpec, reference: str, read_file: ReadFile) -> LegacySpec:
    name = reference.removeprefix("file:")
    if reference.startswith("azureml:") or not name.endswith((".yaml", ".yml")):
        hint = "name the trial's spec, as in file:./spec.yaml"
        raise sweep.refuse(f"trial {reference} is not a file: {hint}", "trial")
    path = posixpath.normpath(posixpath.join(posixpath.dirname(sweep.path), name))
    if path == posixpath.normpath(sweep.path):
        reason = "trial refers to the sweep itself: name the spec of the trial"
        raise sweep.refuse(reason, "trial")
    data = read_or_none(read_file, path)
    if data is None:
        reason = f"the trial {name} cannot be read: fix the path or add the file"
        raise sweep.refuse(reason, "trial")
    return parse_spec(path, data, TRIAL, sweep.ledger)


def convert_trial(
    source: LegacySpec,
    sweep: LegacySpec,
    space: dict[str, dict[str, Any]],
    read_file: ReadFile,
    *,
    python: bool,
) -> tuple[Trial, dict[str, dict[str, Any]]]:
    """The trial, and the search space under the v2 names of its parameters.

    `python`: names must be Python identifiers too.
    """
    source.account(source.data)
    if str(source.data.get("successful_return_code", "Zero")).lower() != "zero":
        source.note("only 0 is success in v2", "successful_return_code", outcome="lost")
    text, distribution = _command(source)
    inputs = _merged_inputs(source, sweep)
    outputs = source.mapping("outputs")
    for name in sweep.mapping("outputs"):
        if name not in outputs:
            reason = "a v2 sweep has the outputs of its trial"
            sweep.note(reason, "outputs", name, outcome="lost")
    for name, drawn in space.items():
        if name not in inputs:
            kind = drawn_kind(drawn)
            inputs[name] = {"type": kind}
            reason = f"it is swept but is not an input of the trial: declared there as {kind}"
            sweep.note(reason, "search_space", name)
    names = _legal_names(source, inputs, python, "inputs")
    output_names = _legal_names(source, outputs, python, "outputs")
    swept = {names[name]: drawn for name, drawn in space.items()}
    at = "launcher" if distribution else "command"

    def rename(kind: str, name: str) -> str:
        # A trial sees a swept value as an input.
        section = "outputs" if kind == "outputs" else "inputs"
        new = (output_names if kind == "outputs" else names).get(name)
        if new is None:
            reason = f"the command names {kind}.{name}, which is not declared: declare it"
            raise source.refuse(reason, at)
        return f"{section}.{new}"

    trial = Trial(
        source,
        {
            new: TrialInput(new, _declaration(source, "inputs", old, inputs[old]))
            for old, new in names.items()
        },
        {
            new: _declaration(source, "outputs", old, outputs[old])
            for old, new in output_names.items()
        },
        convert_command(text, rename),
        distribution,
        _includes(source, read_file),
    )
    for item in trial.inputs_in(GROUP.sub("", trial.command)):
        if item.is_absent and item.name not in swept:
            reason = f"it uses the optional input {item.name} outside of brackets"
            source.note(f"{reason}: v2 has no value for it then", at, outcome="by hand")
    return trial, swept


def _command(source: LegacySpec) -> tuple[str, dict[str, Any] | None]:
    """The command line, and the distribution of a DistributedComponent."""
    if kind_of(source.data) == "commandcomponent":
        command = source.data.get("command")
        if not isinstance(command, str) or not command.strip():
            raise source.refuse("the trial has no command: add it", "command")
        return command, None
    launcher = source.mapping("launcher")
    kind = _LAUNCHERS.get(str(launcher.get("type", "")).lower())
    command = launcher.get("additional_arguments")
    if kind is None:
        reason = f"launcher.type is {launcher.get('type')!r}: use mpi or torch.distributed"
        raise source.refuse(reason, "launcher")
    if not isinstance(command, str) or not command.strip():
        raise source.refuse("launcher.additional_arguments has no command: add it", "launcher")
    source.account(launcher, "launcher")
    if command.split()[0].endswith(".py"):
        reason = "the script is started with `python`, which v1.5 put before it"
        source.note(reason, "launcher", "additional_arguments")
        command = f"python {command.lstrip()}"
    where = "runsettings.resource_layout.process_count_per_node"
    reason = f"1: v1.5 takes it from {where}"
    source.ledger.added("distribution.process_count_per_instance", reason)
    return command, {"type": kind, "process_count_per_instance": 1}


def _merged_inputs(source: LegacySpec, sweep: LegacySpec) -> dict[str, dict[str, Any]]:
    """The inputs of the sweep and the trial: v1.5 merges both, and the trial's declaration wins."""
    merged: dict[str, dict[str, Any]] = {}
    for spec in (sweep, source):
        for name, declaration in spec.mapping("inputs").items():
            if not isinstance(declaration, dict):
                reason = f"input {name} has no declaration: write its type below it"
                raise spec.refuse(reason, "inputs", name)
            if merged.get(name, declaration) != declaration:
                sweep.note("the trial's declaration is taken, as in v1.5", "inputs", name)
            merged[name] = declaration
    return merged


def _includes(source: LegacySpec, read_file: ReadFile) -> list[str]:
    """The paths in `spec.additional_includes`, the file beside `spec.yaml`."""
    data = read_or_none(read_file, posixpath.splitext(source.path)[0] + ".additional_includes")
    try:
        lines = [line.strip() for line in (data or b"").decode().splitlines()]
    except UnicodeDecodeError:
        name = f"the additional includes of {source.path}"
        raise Refused(f"{name} are not UTF-8 text: save them as UTF-8") from None
    return [line for line in lines if line and not line.startswith("#")]


# --- names and declarations ---


def _legal_names(
    spec: LegacySpec, names: Iterable[str], python: bool, section: str
) -> dict[str, str]:
    """Old and new names; `python`: usable as a parameter of the Python form."""
    result: dict[str, str] = {}
    used: set[str] = set()
    for name in map(str, names):
        new = legal_name(name)
        reason = "v2 allows letters, digits and underscores"
        if python and (keyword.iskeyword(new) or new in PYTHON_NAMES):
            new += "_"
            reason = "Python has another use for it"
        # Two names that differ in case only are the same to v2.
        while new.lower() in used:
            new += "_2"
            reason = "another one would be the same in v2"
        used.add(new.lower())
        if new != name:
            spec.note(f"it is named {new}: {reason}", section, name)
        result[name] = new
    return result


def _declaration(spec: LegacySpec, section: str, name: str, old: Any) -> dict[str, Any]:
    """The v2 declaration of an input or output."""
    if not isinstance(old, dict):
        reason = f"output {name} has no declaration: write its type below it"
        raise spec.refuse(reason, section, name)
    kind = _type(spec, section, name, old)
    declared: dict[str, Any] = {"type": kind}
    if section == "inputs":
        enum = [str(item) for item in old.get("enum") or []]
        if (default := old.get("default")) is not None:
            declared["default"] = str(default) if enum or kind == "string" else default
        if old.get("optional") is True:
            declared["optional"] = True
        declared |= {key: old[key] for key in ("min", "max") if old.get(key) is not None}
        if enum:
            declared["enum"] = enum
    if old.get("description"):
        declared["description"] = str(old["description"])
    if (mode := old.get("datastore_mode")) is not None:
        if new := _MODES[section].get(str(mode).lower()):
            declared["mode"] = new
        else:
            reason = f"v2 has no mode {mode}"
            spec.note(reason, section, name, "datastore_mode", outcome="lost")
    spec.account(old, section, name, row=section)
    return declared


def _type(spec: LegacySpec, section: str, name: str, old: dict[str, Any]) -> str:
    kinds = old.get("type")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if not kinds or not all(isinstance(kind, str) for kind in kinds):
        raise spec.refuse(f"{section}.{name} has no type: add one", section, name)
    if len(kinds) > 1:
        reason = f"v2 takes one type; of {', '.join(kinds)} the first is written"
        spec.note(reason, section, name, outcome="lost")
    low = kinds[0].lower()
    kind = _PARAMETERS.get(low) or _PORTS.get(low)
    if kind is None:
        kind = "uri_file" if low.endswith("file") else "uri_folder"
        spec.note(f"the type {kinds[0]} is written as {kind}", section, name)
    return kind


# --- the command line ---

_NAME = r"\s*((?:inputs|outputs|search_space)\.[^{}\s]+?)\s*"
# `${{inputs.x}}` of v2 is understood too, `{inputs.x}`, and the escapes of single brackets.
_SIMPLE = re.compile(rf"\$\{{\{{{_NAME}\}}\}}|\{{{_NAME}\}}|(\{{\{{|\}}\}}|\[\[|\]\])")
_PART = re.compile(
    rf"\$\[\[(?P<v2_group>.*?)\]\](?!\])|{_SIMPLE.pattern}"
    r"|\[(?P<group>(?:\[\[|\]\]|[^\[\]])*+)\]",
    re.DOTALL,
)
# In a v2 command: an optional group with the blank before it, and a placeholder.
GROUP = re.compile(r"( ?)\$\[\[(.*?)\]\](?!\])", re.DOTALL)
PLACEHOLDER = re.compile(r"\$\{\{(\w+)\.([^{}\s]+)\}\}")


def convert_command(text: str, rename: Callable[[str, str], str]) -> str:
    """The command line of a v1.5 spec as that of a v2 component.

    An optional group is `[...]` with a placeholder in it; any other bracket or brace is text.

        train.py {inputs.x} [--lr {search_space.lr}] ${{HOME}} x[0]
        train.py ${{inputs.x}} $[[--lr ${{inputs.lr}}]] ${HOME} x[0]

    `rename("search_space", "lr")` gives `inputs.lr`.
    """

    def simple(match: re.Match[str]) -> str:
        *names, escape = match.groups()[-3:] if match.re is _SIMPLE else match.groups()[1:4]
        name = names[0] or names[1]
        return f"${{{{{rename(*name.split('.', 1))}}}}}" if name else str(escape)[0]

    def part(match: re.Match[str]) -> str:
        group = match["v2_group"] if match["v2_group"] is not None else match["group"]
        if group is None:
            return simple(match)
        inner = _SIMPLE.sub(simple, group)
        is_group = match["v2_group"] is not None or PLACEHOLDER.search(inner)
        return f"$[[{inner}]]" if is_group else f"[{inner}]"

    return _PART.sub(part, text)


# --- the environment ---

# For `pip_requirements_file`, which names no Python.
DEFAULT_PYTHON = "python=3.10"


@dataclass
class ConvertedEnvironment:
    """The v2 value (a name, or a mapping), its new files, and text that names its packages."""

    value: str | dict[str, Any]
    new_files: dict[str, str] = field(default_factory=dict)
    text: str = ""

    def moved(self, move: Callable[[str], str]) -> str | dict[str, Any]:
        """The value for a file elsewhere; `move` makes a path beside the spec one beside it."""
        if isinstance(self.value, str):
            return self.value
        value = dict(self.value)
        if "build" in value:
            value["build"] = {**value["build"], "path": move(value["build"]["path"])}
        if isinstance(value.get("conda_file"), str):
            value["conda_file"] = move(value["conda_file"])
        return value


def convert_environment(
    spec: LegacySpec, read_file: ReadFile, includes: list[str], dockerfile: str
) -> ConvertedEnvironment:
    """`includes` are its additional includes; `dockerfile` is the name for an inline Dockerfile."""
    reference = spec.data.get("environment")
    if isinstance(reference, str):
        is_asset = reference.startswith("azureml:")
        return ConvertedEnvironment(reference if is_asset else f"azureml:{reference}@latest")
    section = spec.mapping("environment")
    if section.get("name"):
        version = section.get("version")
        spec.account(section, "environment")
        label = f":{version}" if version else "@latest"
        return ConvertedEnvironment(f"azureml:{section['name']}{label}")
    docker = spec.mapping("environment", "docker")
    conda = spec.mapping("environment", "conda")
    build = spec.mapping("environment", "docker", "build")
    spec.account(section, "environment")
    spec.account(docker, "environment", "docker")
    spec.account(conda, "environment", "conda")
    if str(section.get("os", "linux")).lower() != "linux":
        reason = f"{section['os']}: AMLARC runs Linux only; linux is written"
        spec.note(reason, "environment", "os", outcome="lost")
    value: dict[str, Any] = {}
    result = ConvertedEnvironment(value)
    if build.get("dockerfile"):
        text = str(build["dockerfile"])
        value["build"] = _build(spec, text, read_file, includes, dockerfile, result)
    else:
        value["image"] = docker.get("image") or DEFAULT_IMAGE
        result.text = str(value["image"])
        if not docker.get("image"):
            reason = f"it names no image; {DEFAULT_IMAGE} is written: check it"
            spec.note(reason, "environment", outcome="by hand")
    packages = _packages(spec, conda, read_file, result)
    if packages is not None and "build" in value:
        reason = "beside a Dockerfile it has no place in v2: install its packages in the Dockerfile"
        spec.note(reason, "environment", "conda", outcome="lost")
    elif packages is not None:
        value["conda_file"] = packages
        if isinstance(packages, dict) and not conda.get("conda_dependencies"):
            path = str(conda["pip_requirements_file"]).removeprefix("file:")
            spec.note(
                f"v2 has no pip requirements file: the packages of {path} are written out, "
                f"with {DEFAULT_PYTHON}",
                *("environment", "conda", "pip_requirements_file"),
            )
    value["os_type"] = "linux"
    return result


def _build(
    spec: LegacySpec,
    dockerfile: str,
    read_file: ReadFile,
    includes: list[str],
    name: str,
    result: ConvertedEnvironment,
) -> dict[str, str]:
    folder = posixpath.dirname(spec.path)
    if "\n" in dockerfile.strip():
        result.new_files[posixpath.join(folder, name)] = result.text = dockerfile
        return {"path": ".", "dockerfile_path": name}
    path = dockerfile.removeprefix("file:")
    data = read_or_none(read_file, posixpath.join(folder, path))
    if data is None:
        # v1.5 looks after the additional includes are copied in; v2 looks beside the spec.
        for include in includes:
            if posixpath.basename(include) == posixpath.basename(path):
                path, data = include, read_or_none(read_file, posixpath.join(folder, include))
    if data is None:
        reason = f"{path} is not beside the spec: put it there or fix build.path"
        spec.note(reason, "environment", "docker", "build", "dockerfile", outcome="by hand")
    result.text = (data or b"").decode("utf-8", "replace")
    return {"path": posixpath.dirname(path) or ".", "dockerfile_path": posixpath.basename(path)}


def _packages(
    spec: LegacySpec, conda: dict[str, Any], read_file: ReadFile, result: ConvertedEnvironment
) -> Any:
    """A path, or the dependencies themselves; None without any."""
    if inline := conda.get("conda_dependencies"):
        result.text += f"\n{inline}"
        return inline
    for key in ("conda_dependencies_file", "pip_requirements_file"):
        if not conda.get(key):
            continue
        path = str(conda[key]).removeprefix("file:")
        full_path = posixpath.join(posixpath.dirname(spec.path), path)
        data = read_or_none(read_file, full_path)
        if data is None:
            reason = f"environment.conda.{key} {path} cannot be read: fix the path"
            raise spec.refuse(reason, "environment", "conda")
        text = data.decode("utf-8", "replace")
        result.text += "\n" + text
        if key == "conda_dependencies_file":
            parse_spec(full_path, data, "")
            return path
        lines = [line.split(" #")[0].strip() for line in text.splitlines()]
        packages = [line for line in lines if line and not line.startswith("#")]
        return {"name": "project", "dependencies": [DEFAULT_PYTHON, "pip", {"pip": packages}]}
    return None
