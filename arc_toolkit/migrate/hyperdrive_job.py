"""A v1 HyperDriveConfig over a ScriptRunConfig as a v2 sweep job.

Source: Microsoft Learn, "Upgrade hyperparameter tuning to SDK v2", and the v2 sweep job schema of azure-ai-ml. v1 adds
the drawn values to the script's arguments (`--name value`), so they end the command here. The Python file, which
submits with v1, is not changed.
"""

from __future__ import annotations

from typing import Any

from arc_toolkit.azureml.documents import FILE_STYLE
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.edit.yaml.writer import Comment, file_text
from arc_toolkit.migrate.forms import (
    DEFAULT_INSTANCE_TYPE,
    MARK,
    SCHEMA,
    UNSET,
    asset,
    filled,
)
from arc_toolkit.migrate.script_run_source import ScriptRun
from arc_toolkit.migrate.v1_forms import data_notes, input_spec


def sweep_job(
    title: str, body: dict[str, Any], flags: dict[str, str], run: ScriptRun, settings: Settings
) -> tuple[str, list[str]]:
    """The text of the job, and notes. `flags` are the script's options of the swept parameters by their v2 names."""
    notes = data_notes(run.ports)
    swept = " ".join(f"{flag} ${{{{search_space.{name}}}}}" for name, flag in flags.items())
    compute, environment = settings.compute or run.compute, run.environment
    unset = [
        name for name, value in (("compute", compute), ("environment", environment)) if not value
    ]
    if unset:
        notes.append(f"{UNSET} is written for {' and '.join(unset)}")
    if not settings.instance_type:
        notes.append(f"no instance type is given: {DEFAULT_INSTANCE_TYPE} is written")
    limits = dict(body["limits"])
    if run.timeout is not None:
        limits["trial_timeout"] = run.timeout
    trial = {
        "code": run.code,
        "command": f"{run.command} {swept}",
        "environment": asset(environment or f"{UNSET}@latest"),
        "environment_variables": run.variables,
        "distribution": run.distribution,
    }
    out = {
        Comment(f"{MARK} from a v1 HyperDriveConfig."): None,
        "$schema": SCHEMA.format("sweepJob"),
        "type": "sweep",
        "display_name": title,
        "compute": asset(compute or UNSET),
        "inputs": {
            **{name: input_spec(data) for name, data in run.ports.data.items()},
            **run.ports.parameters,
        },
        "outputs": {name: {"type": "uri_folder"} for name in run.ports.outputs},
        "trial": filled(trial),
        **body,
        "limits": limits,
        "resources": {
            "instance_type": settings.instance_type or DEFAULT_INSTANCE_TYPE,
            "instance_count": settings.instance_count or run.instance_count,
        },
    }
    return file_text(filled(out), FILE_STYLE), notes
