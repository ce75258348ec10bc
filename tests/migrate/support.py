"""What the tests of the converters share: making specs, converting them, and loading the result for real."""

from __future__ import annotations

import copy
import importlib.util
import json
import os
from pathlib import Path
from typing import Any

import yaml

from arc_toolkit.azureml.python.python_plan import patch_source
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.findings import FileResult, Finding
from arc_toolkit.migrate import sweep
from arc_toolkit.migrate.conversions import V2Conversions
from arc_toolkit.migrate.legacy_spec import SWEEP_RULE as RULE
from tests.support import unavailable

SWEEP: dict[str, Any] = {
    "$schema": "http://azureml/sdk-1-5/SweepComponent.json",
    "name": "my.sweep",
    "version": "0.0.1",
    "type": "SweepComponent",
    "trial": "file:./spec.yaml",
    "algorithm": "random",
    "search_space": {"lr": {"type": "uniform", "min_value": 0.01, "max_value": 0.1}},
    "objective": {"primary_metric": "loss", "goal": "minimize"},
    "limits": {"max_total_trials": 4, "max_concurrent_trials": 2, "timeout_minutes": 40},
}
TRIAL: dict[str, Any] = {
    "$schema": "http://azureml/sdk-1-5/CommandComponent.json",
    "name": "my.train",
    "version": "0.0.1",
    "type": "CommandComponent",
    "inputs": {
        "train": {"type": "AnyDirectory"},
        "lr": {"type": "Float", "default": 0.05},
        "extra": {"type": "String", "optional": True},
    },
    "outputs": {"model": {"type": "AnyDirectory"}},
    "command": "python train.py --data {inputs.train} --lr {inputs.lr} [--extra {inputs.extra}] --out {outputs.model}",
    "environment": {"docker": {"image": "ubuntu:22.04"}, "os": "Linux"},
}


def spec(base: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A copy with keys set; None takes a key out."""
    out = {**copy.deepcopy(base), **changes}
    return {key: value for key, value in out.items() if value is not None}


def convert(
    folder: Path,
    sweep_spec: dict[str, Any] | str = SWEEP,
    trial_spec: dict[str, Any] | str | None = TRIAL,
    files: dict[str, str] | None = None,
    **settings: Any,
) -> FileResult:
    """Write `sweep.yaml` and `spec.yaml`, and convert the first."""
    for name, content in {
        "sweep.yaml": sweep_spec,
        "spec.yaml": trial_spec,
        **(files or {}),
    }.items():
        if content is not None:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(
                content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False)
            )
    path = folder / "sweep.yaml"
    return sweep.convert(str(path), path.read_bytes(), Settings(sweep_to_v2=True, **settings), read)


def convert_python(text: str, **settings: Any) -> FileResult:
    """The conversion of the sweeps of a Python file, and nothing else."""
    return patch_file(
        "p.py", text.encode(), Settings(sweep_to_v2=True, only=frozenset({RULE}), **settings)
    )


def patch_file(path: str, data: bytes, settings: Settings) -> FileResult:
    """A Python file, converted and patched."""
    return patch_source(path, data, settings, convert=V2Conversions().plan_code(settings))


def read(path: str) -> bytes:
    return Path(path).read_bytes()


def texts(result: FileResult) -> dict[str, str]:
    """The new files by their base names; a refused file is a failure."""
    assert result.refused is None, result.refused
    assert result.new_files
    return {os.path.basename(name): data.decode() for name, data in result.new_files}


def component(result: FileResult) -> dict[str, Any]:
    """The trial's component, as data."""
    data = yaml.safe_load(
        next(text for name, text in texts(result).items() if name.endswith(".trial.v2.yaml"))
    )
    assert isinstance(data, dict)
    return data


def document(result: FileResult) -> dict[str, Any]:
    """The sweep (a job or a pipeline), as data."""
    data = yaml.safe_load(texts(result)["sweep.v2.yaml"])
    assert isinstance(data, dict)
    return data


def messages(result: FileResult) -> str:
    return "\n".join(
        f"{finding.message} {finding.reason}\n{ledger_lines(finding)}"
        for finding in result.findings
    )


def ledger_lines(finding: Finding) -> str:
    return "\n".join(entry.text for entry in finding.ledger)


# --- the real SDK ------------------------------------------------------------------------------------------------


def azure() -> Any:
    """azure.ai.ml, or a skipped test."""
    try:
        import azure.ai.ml
    except ImportError:
        unavailable("azure-ai-ml is not installed")
    return azure.ai.ml


def write(result: FileResult) -> list[Path]:
    assert result.refused is None, result.refused
    for name, data in result.new_files:
        Path(name).write_bytes(data)
    return [Path(name) for name, _ in result.new_files]


def loaded(result: FileResult, **arguments: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Write the new files, load them with azure-ai-ml, validate, and give both REST bodies: sweep and component."""
    ml = azure()
    paths = write(result)
    trial = ml.load_component(next(path for path in paths if path.name.endswith(".trial.v2.yaml")))
    assert_valid(trial)
    last = paths[-1]
    if last.suffix == ".py":
        module_spec = importlib.util.spec_from_file_location("converted_sweep", last)
        assert module_spec is not None
        assert module_spec.loader is not None
        module = importlib.util.module_from_spec(module_spec)
        module_spec.loader.exec_module(module)
        function = next(value for value in vars(module).values() if hasattr(value, "_is_dsl_func"))
        job = function(**arguments)
    else:
        job = ml.load_job(last)
    if hasattr(job, "_validate"):  # a SweepJob has none: its schema is its validation
        assert_valid(job)
    return body(job), body(trial)


def assert_valid(entity: Any) -> None:
    report = entity._validate()
    assert report.passed, report.error_messages


def body(entity: Any) -> dict[str, Any]:
    data = json.loads(json.dumps(entity._to_rest_object().as_dict(), default=str))["properties"]
    assert isinstance(data, dict)
    return data
