"""The texts of v2 jobs, and what is written for values that the source does not have."""

from __future__ import annotations

import os.path
import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from typing import Any, Literal

from arc_toolkit.azureml.azureml_files import patch_yaml
from arc_toolkit.azureml.documents import FILE_STYLE
from arc_toolkit.azureml.python.python_plan import PythonPlan
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.edit.yaml.writer import Comment, file_text

# What Kubernetes compute gives a job that names no type (Microsoft Learn, instance types): at most
# 2 CPU and 2 GiB.
DEFAULT_INSTANCE_TYPE = "defaultinstancetype"
DEFAULT_INSTANCE_COUNT = 1
# For an environment without an image: AMLARC needs Ubuntu 20.04 or later, and this one carries MPI.
DEFAULT_IMAGE = "mcr.microsoft.com/azureml/openmpi4.1.0-ubuntu20.04:latest"
# In place of a value that only the caller has; a job with it fails at once.
UNSET = "SET_ME"
SWEEP_MARK = "Written by `arc-toolkit patch --sweep-to-v2`"
SCHEMA = "https://azuremlschemas.azureedge.net/latest/{}.schema.json"


def filled(tree: Mapping[Any, Any]) -> dict[Any, Any]:
    """A mapping without the keys that have no value; a comment has none and stays."""
    return {
        key: value
        for key, value in tree.items()
        if isinstance(key, Comment) or value not in (None, {}, [], "")
    }


def legal_name(name: str, *, component: bool = False) -> str:
    """A name that v2 takes: letters, digits and underscores; of a component, in lower case."""
    text = re.sub(r"[^a-zA-Z0-9_]+", "_", name)
    if component:
        text = text.lower().lstrip("_") or "component"
        return text if text[0].isalpha() else f"c_{text}"
    return text if text and not text[0].isdigit() else f"_{text}"


def binding(name: str, section: str = "inputs") -> str:
    """How a step names an input or output of its pipeline."""
    return f"${{{{parent.{section}.{name}}}}}"


def asset(name: str) -> str:
    """`azureml:name`, however the name is given."""
    return name if name.startswith("azureml:") else f"azureml:{name}"


def environment_value(value: str | dict[str, Any] | None) -> str | dict[str, Any]:
    """An environment by name, or as it is."""
    if isinstance(value, dict):
        return value
    name = value or UNSET
    return asset(name if ":" in name or "@" in name else f"{name}@latest")


def job_text(
    kind: Literal["pipeline", "sweep"], origin: str, title: str, sections: Mapping[Any, Any]
) -> str:
    """The YAML text of a job; `origin` is the comment at its top."""
    head = {
        Comment(origin): None,
        "$schema": SCHEMA.format(f"{kind}Job"),
        "type": kind,
        "display_name": title,
    }
    return file_text(filled({**head, **sections}), FILE_STYLE)


def resources(settings: Settings, instance_count: int = DEFAULT_INSTANCE_COUNT) -> dict[str, Any]:
    """Instance type and count: those of the command line, else those of the source."""
    return {
        "instance_type": settings.instance_type or DEFAULT_INSTANCE_TYPE,
        "instance_count": settings.instance_count or instance_count,
    }


def add_job(plan: PythonPlan, name: str, suffix: str, text: str) -> str:
    """Plan the file `score.NAME.SUFFIX.yml` beside `score.py`, and give its name.

    The settings of the run are placed in it as in any other job: a second run changes nothing.
    """
    stem = os.path.splitext(plan.path)[0]
    used = {path for path, _ in plan.new_files}
    numbers = ("" if number == 1 else f"_{number}" for number in count(1))
    paths = (f"{stem}.{name}{number}.{suffix}.yml" for number in numbers)
    path = next(path for path in paths if path not in used)
    settings = replace(plan.settings, sweep_to_v2=False, prs_to_v2=False)
    data = text.encode()
    plan.new_files.append((path, patch_yaml(path, data, settings, plan.project).after or data))
    return os.path.basename(path)
