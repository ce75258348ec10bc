"""Inputs and script arguments of SDK v1 as v2 writes them, for ParallelRunStep and HyperDrive alike.

Sources: Microsoft Learn, "Access data in a job" (a registered dataset of v1 is an mltable in v2; a FileDataset with the
mode eval_mount, a TabularDataset with direct) and the parallel jobs of azureml-examples (the same modes).
"""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from arc_toolkit.edit.yaml.writer import Comment
from arc_toolkit.migrate.forms import UNSET, filled
from arc_toolkit.migrate.trial import legal
from arc_toolkit.migrate.v1_data import Data, Output
from arc_toolkit.migrate.v1_values import PipelineParameter, Unsaid


@dataclass
class Ports:
    """The inputs and outputs of one job by their v2 names, in order."""

    data: dict[str, Data] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)
    # Arguments that the code does not say: SET_ME is in their place.
    unsaid: list[str] = field(default_factory=list)

    def add_data(self, item: Data) -> str:
        name = legal(item.name or "data")
        known = self.data.get(name)
        if known is None or (not known.path and item.path):
            self.data[name] = item
        return name

    def add_output(self, item: Output) -> str:
        name = legal(item.name)
        if name not in self.outputs:
            self.outputs.append(name)
        return name

    def command_line(self, items: Iterable[Any]) -> str:
        """Script arguments as shell text; data, outputs and parameters become ports that it refers to."""
        return " ".join(self._word(item) for item in items)

    def _word(self, item: Any) -> str:
        match item:
            case Data():
                return f"${{{{inputs.{self.add_data(item)}}}}}"
            case Output():
                return f"${{{{outputs.{self.add_output(item)}}}}}"
            case PipelineParameter():
                name = legal(item.name)
                self.parameters[name] = item.default
                return f"${{{{inputs.{name}}}}}"
            case Unsaid():
                self.unsaid.append(item.text)
                return UNSET
        return shlex.quote(str(item))


def input_type(item: Data) -> str:
    if item.kind == "table" or item.registered:
        return "mltable"
    return "uri_file" if posixpath.splitext(item.path)[1] and "://" in item.path else "uri_folder"


def input_mode(item: Data) -> str:
    if item.kind == "table":
        return "direct"
    if item.registered:
        return "eval_download" if item.download else "eval_mount"
    return "download" if item.download else ""


def input_spec(item: Data) -> dict[Any, Any]:
    """The v2 input of a job; a comment is in the place of a path that is not known."""
    hint = "an MLTable" if item.kind == "table" else "a folder or URL"
    missing: dict[Any, Any] = (
        {} if item.path else {Comment(f"path: azureml:NAME@latest, or {hint}"): None}
    )
    return filled(
        {"type": input_type(item), "path": item.path, **missing, "mode": input_mode(item)}
    )


def data_notes(ports: Ports) -> list[str]:
    """What has to be known about the inputs before the job is submitted."""
    notes = []
    missing = [name for name, item in ports.data.items() if not item.path]
    if missing:
        notes.append(f"set a path for {', '.join(missing)} before the job is submitted")
    tables = [name for name in missing if ports.data[name].kind == "table"]
    if tables:
        notes.append(
            f"{', '.join(tables)}: v2 reads tables from an MLTable, which takes the place of Dataset.Tabular"
        )
    unsure = [name for name, item in ports.data.items() if not item.kind]
    if unsure:
        notes.append(
            f"{', '.join(unsure)}: taken for files; a tabular dataset is an mltable with the mode direct"
        )
    return notes
