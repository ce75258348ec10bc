"""What the forms of a v2 sweep are written from: the sweep and its trial, taken apart and named for v2."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import Any

from arc_toolkit.azureml.migrate.interface import Input
from arc_toolkit.azureml.migrate.legacy_spec import LegacySpec
from arc_toolkit.azureml.migrate.trial import Trial
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.azureml.threads import cores_of
from arc_toolkit.edit.yaml_writer import Comment

# What Kubernetes compute gives a job that names no type (Microsoft Learn, instance types): 2 CPU and 2 GiB at most.
DEFAULT_INSTANCE_TYPE = "defaultinstancetype"
DEFAULT_INSTANCE_COUNT = 1
# In place of what v1.5 gets from the caller; a job with it fails at once.
UNSET = "SET_ME"

MARK = "Written by `arc-toolkit patch --sweep-to-v2`"
SCHEMA = "https://azuremlschemas.azureedge.net/latest/{}.schema.json"


def filled(tree: dict[str, Any]) -> dict[str, Any]:
    """A mapping without the keys that have no value; a comment has none and stays."""
    return {
        key: value for key, value in tree.items() if isinstance(key, Comment) or value not in (None, {}, [], "")
    }


def binding(name: str, section: str = "inputs") -> str:
    """How a step names an input or output of its pipeline."""
    return f"${{{{parent.{section}.{name}}}}}"


def asset(name: str) -> str:
    """`azureml:name`, however the name is given."""
    return name if name.startswith("azureml:") else f"azureml:{name}"


@dataclass
class SweepPlan:
    """Everything that the three forms are written from."""

    sweep: LegacySpec
    trial: Trial
    settings: Settings
    body: dict[str, Any]
    variables: dict[str, str]
    component_path: str

    @property
    def swept(self) -> dict[str, dict[str, Any]]:
        return dict(self.body["search_space"])

    @property
    def folder(self) -> str:
        return posixpath.dirname(self.sweep.path)

    @property
    def title(self) -> str:
        return str(self.sweep.data.get("display_name") or self.sweep.data.get("name") or "sweep")

    @property
    def _name_and_version(self) -> list[str]:
        return [str(self.sweep.data[key]) for key in ("name", "version") if self.sweep.data.get(key)]

    @property
    def origin(self) -> str:
        """`sweep_spec.yaml (v1.5 SweepComponent lightgbm.sweep 1.0.6)`"""
        words = " ".join(["v1.5 SweepComponent", *self._name_and_version])
        return f"{posixpath.basename(self.sweep.path)} ({words})"

    @property
    def tags(self) -> dict[str, str]:
        """The sweep's tags; a job has no component name and version, so they are here."""
        tags = {key: str(value) for key, value in self.sweep.mapping("tags").items()}
        words = ":".join(self._name_and_version)
        return {**tags, "v1_5_component": words} if words else tags

    @property
    def instance_type(self) -> str:
        return self.settings.instance_type or DEFAULT_INSTANCE_TYPE

    @property
    def instance_count(self) -> int:
        return self.settings.instance_count or DEFAULT_INSTANCE_COUNT

    @property
    def resources(self) -> dict[str, str | int]:
        """The resources that the user asked for, which `patch` writes on components and trials too."""
        return filled(
            {"instance_type": self.settings.instance_type, "instance_count": self.settings.instance_count}
        )

    @property
    def compute(self) -> str:
        return asset(self.settings.compute or UNSET)

    @property
    def constants(self) -> list[Input]:
        """Inputs that are not swept and have, or need, a value."""
        return [item for item in self._not_swept if item.has_default or not item.optional]

    @property
    def absent(self) -> list[Input]:
        """Optional inputs without a value."""
        return [item for item in self._not_swept if item.optional and not item.has_default]

    @property
    def _not_swept(self) -> list[Input]:
        return [item for item in self.trial.inputs.values() if item.name not in self.swept]

    @property
    def cores(self) -> int | None:
        """Cores of the instance type that was asked for, where it is known."""
        return cores_of(self.settings.instance_type, self.settings)[0]

    def move(self, path: str) -> str:
        """A path beside the trial as one beside the sweep."""
        if posixpath.isabs(path) or "://" in path or path.startswith("azureml:"):
            return path
        between = posixpath.relpath(posixpath.dirname(self.trial.source.path) or ".", self.folder or ".")
        moved = posixpath.normpath(posixpath.join(between, path))
        return moved if moved.startswith(".") else f"./{moved}"
