"""The trial of a sweep: a v1.5 CommandComponent or DistributedComponent, taken apart for v2.

LegacySpecs: the v1.5 spec's documented fields, and the v2 command component schema of azure-ai-ml.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import Any

from arc_toolkit.azureml.migrate import placeholders
from arc_toolkit.azureml.migrate.interface import Input, declared_input, declared_output, legal_names
from arc_toolkit.azureml.migrate.legacy_spec import LegacySpec, ReadFile, parse_spec, read_or_none
from arc_toolkit.azureml.migrate.space import drawn_kind
from arc_toolkit.edit.edits import Refused

LAUNCHERS = {"mpi": "mpi", "torch.distributed": "pytorch", "pytorch": "pytorch"}

_COMMON = (
    "$schema",
    "name",
    "version",
    "display_name",
    "type",
    "description",
    "tags",
    "is_deterministic",
    "inputs",
    "outputs",
    "environment_variables",
)
SWEEP_KEYS = (*_COMMON, "trial", "algorithm", "search_space", "objective", "limits", "early_termination")
TRIAL_KEYS = (*_COMMON, "code", "command", "launcher", "environment", "successful_return_code")


@dataclass(frozen=True)
class Trial:
    """A v1.5 trial, its names already those of v2."""

    source: LegacySpec
    inputs: dict[str, Input]
    outputs: dict[str, dict[str, Any]]
    parts: list[placeholders.Part]
    distribution: dict[str, Any] | None
    includes: list[str]

    @property
    def code(self) -> str:
        # v1.5 takes the spec's own folder where `code` is absent; v2 takes none.
        return str(self.source.data.get("code") or ".").removeprefix("file:")


def kind_of(data: dict[str, Any]) -> str:
    """`sweepcomponent`, `commandcomponent`, `command`, ...: by `type`, then by `$schema`."""
    given = str(data.get("type") or "")
    if not given:
        schema = str(data.get("$schema") or "")
        given = posixpath.basename(schema).removesuffix(".json") or "CommandComponent"
    return given.partition("@")[0].lower()


def find(sweep: LegacySpec, read_file: ReadFile) -> LegacySpec:
    """The trial's spec: inline, or in the file that `trial` names."""
    given = sweep.data.get("trial")
    if given is None:
        raise sweep.refuse("the sweep has no trial: add `trial: file:./spec.yaml`")
    if isinstance(given, dict):
        trial = sweep.inside("trial")
    else:
        name = str(given).removeprefix("file:")
        if str(given).startswith("azureml:") or not name.endswith((".yaml", ".yml")):
            raise sweep.refuse(
                f"trial {given} is not a file: name the trial's spec, as in file:./spec.yaml", "trial"
            )
        path = posixpath.normpath(posixpath.join(posixpath.dirname(sweep.path), name))
        if path == posixpath.normpath(sweep.path):
            raise sweep.refuse("trial refers to the sweep itself: name the spec of the trial", "trial")
        data = read_or_none(read_file, path)
        if data is None:
            raise sweep.refuse(f"the trial {name} cannot be read: fix the path or add the file", "trial")
        trial = parse_spec(path, data, sweep.notes)
    kind = kind_of(trial.data)
    if kind == "sweepcomponent":
        raise sweep.refuse("the trial is itself a sweep: name a CommandComponent or DistributedComponent", "trial")
    if kind in ("command", "sweep", "pipeline", "parallel"):
        raise sweep.refuse(
            f"the trial is already v2 (type: {kind}): a v1.5 sweep takes a v1.5 trial; write the sweep as v2 too",
            "trial",
        )
    if kind not in ("commandcomponent", "distributedcomponent"):
        raise sweep.refuse(
            f"the trial is a {trial.data.get('type')}: only CommandComponent and DistributedComponent can be swept",
            "trial",
        )
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
    parts = placeholders.parse(text)

    given = _inputs(source, sweep)
    outputs = source.mapping("outputs")
    for name in sweep.mapping("outputs"):
        if name not in outputs:
            sweep.warn(
                f"output {name} of the sweep has no equivalent: a v2 sweep has the outputs of its trial",
                "outputs",
                name,
            )
    for name, drawn in space.items():
        if name not in given:
            given[name] = {"type": drawn_kind(drawn)}
            sweep.note(
                f"{name} is swept but is not an input of the trial: declared there as {drawn_kind(drawn)}",
                "search_space",
                name,
            )
    names = dict(legal_names(source, given, python, "inputs"))
    out_names = dict(legal_names(source, outputs, python, "outputs"))
    known = {"inputs": names, "search_space": names, "outputs": out_names}
    at = "launcher" if distribution else "command"
    for ref in placeholders.references(parts):
        if ref.name not in known[ref.kind]:
            raise source.refuse(f"the command names {ref.kind}.{ref.name}, which is not declared: declare it", at)
    for part in parts:
        name = part.name if isinstance(part, placeholders.Ref) and part.kind == "inputs" else ""
        if given.get(name, {}).get("optional") is True and "default" not in given[name] and name not in space:
            source.warn(
                f"the command uses the optional input {name} outside of brackets: v2 has no value for it then",
                at,
            )
    trial = Trial(
        source,
        {new: Input(new, declared_input(source, old, given[old])) for old, new in names.items()},
        {new: declared_output(source, old, outputs[old]) for old, new in out_names.items()},
        _renamed(parts, known),
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
        raise source.refuse(f"launcher.type is {launcher.get('type')!r}: use mpi or torch.distributed", "launcher")
    if not isinstance(command, str) or not command.strip():
        raise source.refuse("launcher.additional_arguments has no command: add it", "launcher")
    source.warn_unknown(launcher, ("type", "additional_arguments"), "launcher")
    if command.split()[0].endswith(".py"):
        source.note("the launcher's script is started with `python`, which v1.5 put before it", "launcher")
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
    for one in (sweep, source):
        for name, spec in one.mapping("inputs").items():
            if not isinstance(spec, dict):
                raise one.refuse(f"input {name} has no declaration: write its type below it", "inputs", name)
            if merged.get(str(name), spec) != spec:
                sweep.note(f"inputs.{name}: the trial's declaration is taken, as in v1.5", "inputs", name)
            merged[str(name)] = spec
    return merged


def _renamed(parts: list[placeholders.Part], known: dict[str, dict[str, str]]) -> list[placeholders.Part]:
    def one(ref: placeholders.Ref) -> placeholders.Ref:
        # A trial sees a swept value as an input, whatever it was called.
        return placeholders.Ref(ref.kind.replace("search_space", "inputs"), known[ref.kind][ref.name])

    out: list[placeholders.Part] = []
    for part in parts:
        if isinstance(part, placeholders.OptionalGroup):
            inner = tuple(one(item) if isinstance(item, placeholders.Ref) else item for item in part.parts)
            out.append(placeholders.OptionalGroup(inner))
        else:
            out.append(one(part) if isinstance(part, placeholders.Ref) else part)
    return out


def _includes(source: LegacySpec, read_file: ReadFile) -> list[str]:
    """The paths in `spec.additional_includes`, the file beside `spec.yaml`."""
    data = read_or_none(read_file, posixpath.splitext(source.path)[0] + ".additional_includes")
    if data is None:
        return []
    try:
        lines = [line.strip() for line in data.decode().splitlines()]
    except UnicodeDecodeError:
        raise Refused(f"the additional includes of {source.path} are not UTF-8 text: save them as UTF-8") from None
    return [line for line in lines if line and not line.startswith("#")]
