"""Running the YAML engine on text: what every rule and setting is tested with."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import yaml

from arc_toolkit.azureml.azureml_files import patch_yaml
from arc_toolkit.azureml.references import ProjectFiles
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.findings import FileResult

COMMAND_JOB = """\
$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json
command: python train.py  # as ever
environment: azureml:lightgbm@latest
compute: azureml:cluster
"""
LEGACY_SWEEP = """\
$schema: http://azureml/sdk-1-5/SweepComponent.json
type: SweepComponent
name: s
version: 0.0.1
trial:
  type: CommandComponent
  name: t
  version: 0.0.1
  command: python t.py --lr {inputs.lr}
  inputs: {lr: {type: Float}}
  environment: {docker: {image: x}}
algorithm: random
search_space: {lr: {type: uniform, min_value: 0.1, max_value: 1}}
objective: {primary_metric: a, goal: maximize}
limits: {max_total_trials: 4, max_concurrent_trials: 2}
"""
COMPONENT = """\
$schema: https://azuremlschemas.azureedge.net/latest/commandComponent.schema.json
type: command
name: train
version: 1
inputs:
  data:
    type: uri_folder
outputs:
  model:
    type: uri_folder
command: python train.py --data ${{inputs.data}} --model ${{outputs.model}}
environment: azureml:lightgbm@latest
"""
PIPELINE = """\
$schema: https://azuremlschemas.azureedge.net/latest/pipelineJob.schema.json
type: pipeline
inputs:
  data:
    type: uri_folder
    path: https://example.org/data
jobs:
  train:
    type: command
    component: ./train.yml
    inputs:
      data: ${{parent.inputs.data}}
"""


def patch(
    text: str | bytes,
    *,
    path: str = "job.yml",
    files: Mapping[str, str] | None = None,
    in_folder: bool = False,
    **settings: Any,
) -> FileResult:
    """One file through the engine, with other files beside it in memory."""
    data = text.encode() if isinstance(text, str) else text
    here = Path.cwd()
    around = {str(here / name): content.encode() for name, content in (files or {}).items()}

    def read(name: str) -> bytes:
        try:
            return around[name]
        except KeyError:
            raise FileNotFoundError(name) from None

    project = ProjectFiles(read)
    for name, content in around.items():
        project.note_uses(name, content)
    return patch_yaml(path, data, Settings(**settings), project, in_folder)


def check_transformed(before: str, after: str, **arguments: Any) -> FileResult:
    """The text becomes `after`, which is valid YAML and stays as it is in a second run."""
    result = patch(before, **arguments)
    assert result.refused is None, result.refused
    assert (result.after or result.before).decode() == after
    list(yaml.safe_load_all(after))
    check_noop(after, **arguments)
    return result


def check_noop(text: str, **arguments: Any) -> FileResult:
    """Nothing is changed."""
    result = patch(text, **arguments)
    assert result.after is None or result.after == result.before
    return result


def rules_of(result: FileResult) -> list[str]:
    return sorted({finding.rule for finding in result.findings})


_TraceFunction = Callable[[FrameType, str, Any], Any]


def lines_run(call: Callable[[], object]) -> int:
    """How many lines of the package a call runs: the same on every machine, however busy."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> _TraceFunction | None:
        nonlocal count
        if "arc_toolkit" not in frame.f_code.co_filename:
            return None
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count
