"""The interface of a component: names, inputs and outputs, v1.5 to v2."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from arc_toolkit.azureml.migrate.legacy_spec import LegacySpec
from arc_toolkit.azureml.migrate.space import DISTRIBUTIONS, POLICIES

# Parameter types of v1.5 and their v2 names.
PARAMETERS = {
    "string": "string",
    "integer": "integer",
    "int": "integer",
    "float": "number",
    "number": "number",
    "boolean": "boolean",
    "bool": "boolean",
    "enum": "string",
}
# Port types; every other one is a folder, or a file where its name says so.
PORTS = {
    "path": "uri_folder",
    "anydirectory": "uri_folder",
    "dataframedirectory": "uri_folder",
    "modeldirectory": "uri_folder",
    "anyfile": "uri_file",
    "azuremldataset": "mltable",
    "uri_folder": "uri_folder",
    "uri_file": "uri_file",
    "mltable": "mltable",
    "mlflow_model": "mlflow_model",
    "custom_model": "custom_model",
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
        return self.spec["type"] not in ("string", "integer", "number", "boolean")

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


def legal_names(spec: LegacySpec, names: Iterable[str], python: bool, kind: str) -> Iterator[tuple[str, str]]:
    """Old and new names, each new one legal and its own; `python`: usable as a parameter of the Python form."""
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
        yield name, new


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
        raise spec.refuse(f"output {name} has no declaration: write its type below it", "outputs", name)
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
    spec: LegacySpec, section: str, name: str, old: dict[str, Any], modes: dict[str, str], known: tuple[str, ...]
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
