"""The trial of a sweep: a v1.5 CommandComponent or DistributedComponent, its names and ports, taken apart for v2.

Sources: the v1.5 spec's documented fields, and the v2 command component schema of azure-ai-ml.
"""

from __future__ import annotations

import keyword
import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from arc_toolkit.edit.files.edits import Refused
from arc_toolkit.migrate.legacy_spec import LegacySpec, ReadFile, parse_spec, read_or_none
from arc_toolkit.migrate.placeholders import Part, Placeholder, parse, references, renamed
from arc_toolkit.migrate.space import DISTRIBUTIONS, POLICIES, drawn_kind

LAUNCHERS = {"mpi": "mpi", "torch.distributed": "pytorch", "pytorch": "pytorch"}

_COMMON = (
    *("$schema", "name", "version", "display_name", "type", "description", "tags"),
    *("is_deterministic", "inputs", "outputs", "environment_variables"),
)
SWEEP_KEYS = (
    *_COMMON,
    "trial",
    "algorithm",
    "search_space",
    "objective",
    "limits",
    "early_termination",
)
TRIAL_KEYS = (*_COMMON, "code", "command", "launcher", "environment", "successful_return_code")


@dataclass(frozen=True)
class Trial:
    """A v1.5 trial, its names already those of v2."""

    source: LegacySpec
    inputs: dict[str, Input]
    outputs: dict[str, dict[str, Any]]
    parts: list[Part]
    distribution: dict[str, Any] | None
    includes: list[str]

    @property
    def code(self) -> str:
        # v1.5 takes the spec's own folder where `code` is absent; v2 takes none.
        return str(self.source.data.get("code") or ".").removeprefix("file:")


def kind_of(data: dict[str, Any]) -> str:
    """`sweepcomponent`, `commandcomponent`, `command`, ...: by `type`, then by `$schema`."""
    name = str(data.get("type") or "")
    if not name:
        schema = str(data.get("$schema") or "")
        name = posixpath.basename(schema).removesuffix(".json") or "CommandComponent"
    return name.partition("@")[0].lower()


def find(sweep: LegacySpec, read_file: ReadFile) -> LegacySpec:
    """The trial's spec: inline, or in the file that `trial` names."""
    reference = sweep.data.get("trial")
    if reference is None:
        raise sweep.refuse("the sweep has no trial: add `trial: file:./spec.yaml`")
    if isinstance(reference, dict):
        trial = sweep.inside("trial")
    else:
        name = str(reference).removeprefix("file:")
        if str(reference).startswith("azureml:") or not name.endswith((".yaml", ".yml")):
            reason = (
                f"trial {reference} is not a file: name the trial's spec, as in file:./spec.yaml"
            )
            raise sweep.refuse(reason, "trial")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(sweep.path), name))
        if path == posixpath.normpath(sweep.path):
            raise sweep.refuse(
                "trial refers to the sweep itself: name the spec of the trial", "trial"
            )
        data = read_or_none(read_file, path)
        if data is None:
            raise sweep.refuse(
                f"the trial {name} cannot be read: fix the path or add the file", "trial"
            )
        trial = parse_spec(path, data, sweep.notes)
    kind = kind_of(trial.data)
    if kind == "sweepcomponent":
        raise sweep.refuse(
            "the trial is itself a sweep: name a CommandComponent or DistributedComponent", "trial"
        )
    if kind in ("command", "sweep", "pipeline", "parallel"):
        reason = f"the trial is already v2 (type: {kind}): a v1.5 sweep takes a v1.5 trial"
        raise sweep.refuse(f"{reason}; write the sweep as v2 too", "trial")
    if kind not in ("commandcomponent", "distributedcomponent"):
        reason = "only CommandComponent and DistributedComponent can be swept"
        raise sweep.refuse(f"the trial is a {trial.data.get('type')}: {reason}", "trial")
    return trial


def take(
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
    source.warn_unknown(source.data, TRIAL_KEYS)
    if str(source.data.get("successful_return_code", "Zero")).lower() != "zero":
        source.warn(
            "successful_return_code has no equivalent in v2: only 0 is success",
            "successful_return_code",
        )
    text, distribution = _command(source)
    parts = parse(text)

    inputs = _inputs(source, sweep)
    outputs = source.mapping("outputs")
    for name in sweep.mapping("outputs"):
        if name not in outputs:
            message = f"output {name} of the sweep has no equivalent: a v2 sweep has the outputs of its trial"
            sweep.warn(message, "outputs", name)
    for name, drawn in space.items():
        if name not in inputs:
            inputs[name] = {"type": drawn_kind(drawn)}
            message = f"{name} is swept but is not an input of the trial: declared there as {drawn_kind(drawn)}"
            sweep.note(message, "search_space", name)
    names = legal_names(source, inputs, python, "inputs")
    out_names = legal_names(source, outputs, python, "outputs")
    # A trial sees a swept value as an input, whatever it was called.
    new = {
        Placeholder(kind, old): Placeholder("inputs", name)
        for kind in ("inputs", "search_space")
        for old, name in names.items()
    } | {
        Placeholder("outputs", old): Placeholder("outputs", name) for old, name in out_names.items()
    }
    at = "launcher" if distribution else "command"
    for used in references(parts):
        if used not in new:
            reason = f"the command names {used.kind}.{used.name}, which is not declared: declare it"
            raise source.refuse(reason, at)
    optional = {
        name
        for name in inputs
        if inputs[name].get("optional") is True and "default" not in inputs[name]
    }
    for part in parts:
        if (
            isinstance(part, Placeholder)
            and part.kind == "inputs"
            and part.name in optional - space.keys()
        ):
            message = f"the command uses the optional input {part.name} outside of brackets"
            source.warn(f"{message}: v2 has no value for it then", at)
    trial = Trial(
        source,
        {
            name: Input(name, declared_input(source, old, inputs[old]))
            for old, name in names.items()
        },
        {name: declared_output(source, old, outputs[old]) for old, name in out_names.items()},
        renamed(parts, new),
        distribution,
        _includes(source, read_file),
    )
    return trial, {names[name]: drawn for name, drawn in space.items()}


def _command(source: LegacySpec) -> tuple[str, dict[str, Any] | None]:
    """The command line, and the distribution of a DistributedComponent."""
    if kind_of(source.data) == "commandcomponent":
        command = source.data.get("command")
        if not isinstance(command, str) or not command.strip():
            raise source.refuse("the trial has no command: add it", "command")
        return command, None
    launcher = source.mapping("launcher")
    kind = LAUNCHERS.get(str(launcher.get("type", "")).lower())
    command = launcher.get("additional_arguments")
    if kind is None:
        raise source.refuse(
            f"launcher.type is {launcher.get('type')!r}: use mpi or torch.distributed", "launcher"
        )
    if not isinstance(command, str) or not command.strip():
        raise source.refuse("launcher.additional_arguments has no command: add it", "launcher")
    source.warn_unknown(launcher, ("type", "additional_arguments"), "launcher")
    if command.split()[0].endswith(".py"):
        source.note(
            "the launcher's script is started with `python`, which v1.5 put before it", "launcher"
        )
        command = f"python {command.lstrip()}"
    source.note(
        "distribution.process_count_per_instance is 1: v1.5 takes it from "
        "runsettings.resource_layout.process_count_per_node",
        "launcher",
    )
    return command, {"type": kind, "process_count_per_instance": 1}


def _inputs(source: LegacySpec, sweep: LegacySpec) -> dict[str, dict[str, Any]]:
    """The sweep's inputs and those of the trial: v1.5 merges both, and the trial's declaration wins."""
    merged: dict[str, dict[str, Any]] = {}
    for spec in (sweep, source):
        for name, declaration in spec.mapping("inputs").items():
            if not isinstance(declaration, dict):
                raise spec.refuse(
                    f"input {name} has no declaration: write its type below it", "inputs", name
                )
            if merged.get(name, declaration) != declaration:
                sweep.note(
                    f"inputs.{name}: the trial's declaration is taken, as in v1.5", "inputs", name
                )
            merged[name] = declaration
    return merged


def _includes(source: LegacySpec, read_file: ReadFile) -> list[str]:
    """The paths in `spec.additional_includes`, the file beside `spec.yaml`."""
    data = read_or_none(read_file, posixpath.splitext(source.path)[0] + ".additional_includes")
    if data is None:
        return []
    try:
        lines = [line.strip() for line in data.decode().splitlines()]
    except UnicodeDecodeError:
        raise Refused(
            f"the additional includes of {source.path} are not UTF-8 text: save them as UTF-8"
        ) from None
    return [line for line in lines if line and not line.startswith("#")]


# Parameter types of v1.5 and their v2 names.
PARAMETERS = {kind: kind for kind in ("string", "integer", "number", "boolean")} | {
    "enum": "string"
}
PARAMETERS |= {"int": "integer", "float": "number", "bool": "boolean"}
# Port types; every other one is a folder, or a file where its name says so.
PORTS = {
    **dict.fromkeys(("path", "anydirectory", "dataframedirectory", "modeldirectory"), "uri_folder"),
    "anyfile": "uri_file",
    "azuremldataset": "mltable",
    **{
        kind: kind for kind in ("uri_folder", "uri_file", "mltable", "mlflow_model", "custom_model")
    },
}
INPUT_MODES = {"mount": "ro_mount", "download": "download", "direct": "direct"}
OUTPUT_MODES = {"mount": "rw_mount", "upload": "upload"}
# Names that the Python form uses itself (templates/sweep_pipeline.py.j2).
PYTHON_NAMES = (
    *("Path", "HERE", "dsl", "load_component", "JobResourceConfiguration"),
    *(distribution.v2_class for distribution in DISTRIBUTIONS.values()),
    *(policy.v2_class for policy in POLICIES.values()),
)


@dataclass(frozen=True)
class Input:
    """One input of the trial, under its v2 name, with its v2 declaration."""

    name: str
    spec: dict[str, Any]

    @property
    def port(self) -> bool:
        return self.spec["type"] not in PARAMETERS.values()

    @property
    def optional(self) -> bool:
        return bool(self.spec.get("optional"))

    @property
    def has_default(self) -> bool:
        return "default" in self.spec


def legal(name: str, *, component: bool = False) -> str:
    """A name that v2 takes: letters, digits and underscores; for components in lower case and a letter first."""
    text = re.sub(r"[^a-zA-Z0-9_]+", "_", name)
    if component:
        text = text.lower().lstrip("_") or "component"
        return text if text[0].isalpha() else f"c_{text}"
    return text if text and not text[0].isdigit() else f"_{text}"


def legal_names(spec: LegacySpec, names: Iterable[str], python: bool, kind: str) -> dict[str, str]:
    """Old and new names, each new one legal and its own; `python`: usable as a parameter of the Python form."""
    result: dict[str, str] = {}
    taken: set[str] = set()
    for name in map(str, names):
        new = legal(name)
        why = "v2 allows letters, digits and underscores"
        if python and (keyword.iskeyword(new) or new in PYTHON_NAMES):
            new += "_"
            why = "Python has another use for it"
        # Two names that differ in case only are the same to v2.
        while new.lower() in taken:
            new += "_2"
            why = "another one would be the same in v2"
        taken.add(new.lower())
        if new != name:
            spec.note(f"{kind}.{name} is named {new}: {why}", kind, name)
        result[name] = new
    return result


def declared_input(spec: LegacySpec, name: str, old: dict[str, Any]) -> dict[str, Any]:
    """The v2 declaration of an input."""
    kind = _type(spec, "inputs", name, old)
    out: dict[str, Any] = {"type": kind}
    enum = [str(item) for item in old.get("enum") or []]
    if (default := old.get("default")) is not None:
        out["default"] = str(default) if enum or kind == "string" else default
    if old.get("optional") is True:
        out["optional"] = True
    out |= {key: old[key] for key in ("min", "max") if old.get(key) is not None}
    if enum:
        out["enum"] = enum
    known = ("type", "default", "optional", "min", "max", "enum", "description", "datastore_mode")
    return out | _description_and_mode(spec, "inputs", name, old, INPUT_MODES, known)


def declared_output(spec: LegacySpec, name: str, old: Any) -> dict[str, Any]:
    """The v2 declaration of an output."""
    if not isinstance(old, dict):
        raise spec.refuse(
            f"output {name} has no declaration: write its type below it", "outputs", name
        )
    known = ("type", "description", "datastore_mode", "optional")
    kind = _type(spec, "outputs", name, old)
    return {"type": kind, **_description_and_mode(spec, "outputs", name, old, OUTPUT_MODES, known)}


def _type(spec: LegacySpec, section: str, name: str, old: dict[str, Any]) -> str:
    kinds = old.get("type")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if not kinds or not all(isinstance(kind, str) for kind in kinds):
        raise spec.refuse(f"{section}.{name} has no type: add one", section, name)
    if len(kinds) > 1:
        message = f"{section}.{name}: v2 takes one type; of {', '.join(kinds)} the first is written"
        spec.warn(message, section, name)
    low = kinds[0].lower()
    known = PARAMETERS.get(low) or PORTS.get(low)
    if known is None:
        known = "uri_file" if low.endswith("file") else "uri_folder"
        spec.note(f"{section}.{name}: the type {kinds[0]} is written as {known}", section, name)
    return known


def _description_and_mode(
    spec: LegacySpec,
    section: str,
    name: str,
    old: dict[str, Any],
    modes: dict[str, str],
    known: tuple[str, ...],
) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if old.get("description"):
        out["description"] = str(old["description"])
    if (mode := old.get("datastore_mode")) is not None:
        if new := modes.get(str(mode).lower()):
            out["mode"] = new
        else:
            message = f"{section}.{name}: the mode {mode} has no equivalent in v2"
            spec.warn(message, section, name, "datastore_mode")
    spec.warn_unknown(old, known, section, name)
    return out
