"""The cost of a YAML file is linear in the number of its steps."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from arc_toolkit.azureml.azureml_files import AzureMLFiles
from arc_toolkit.azureml.settings import Settings
from tests.azureml.support import lines_run

HEAD = "type: pipeline\njobs:\n"
COMMAND = """\
  s{}:
    type: command
    command: pip install lightgbm && python train.py
    environment: azureml:lightgbm:1
    inputs: {{data: '${{{{parent.inputs.data}}}}'}}
"""
COMPONENT = """\
  s{}:
    component:
      type: command
      command: python train.py
      environment: azureml:e:1
    resources:
      instance_type: old
"""
REFUSED = """\
  s{}:
    type: command
    command: python train.py
    environment: azureml:e:1
    resources: [not a mapping]
"""
SHAPES: dict[str, Callable[[int], str]] = {
    "commands": lambda n: HEAD + "".join(map(COMMAND.format, range(n))),
    "components": lambda n: HEAD + "".join(map(COMPONENT.format, range(n))),
    "refused": lambda n: (
        HEAD + "".join((REFUSED if i % 2 else COMMAND).format(i) for i in range(n))
    ),
    "references": lambda n: (
        HEAD + "".join(f"  s{i}:\n    component: azureml:c{i}:1\n" for i in range(n))
    ),
}
SETTINGS = {
    "rules": Settings(),
    "all": Settings(instance_type="8cpu32g", instance_count=2, compute="aks", threads="auto"),
    "exposed": Settings(
        instance_type="8cpu32g", instance_count=2, threads="auto", expose_parameters=True
    ),
}


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("shape", SHAPES)
def test_each_further_step_runs_as_many_lines(shape: str, name: str) -> None:
    def run(steps: int) -> None:
        engine, data = AzureMLFiles(SETTINGS[name]), SHAPES[shape](steps).encode()
        engine.prepare("p.yml", data)
        assert engine.process("p.yml", data, in_folder=True).changed or name == "rules"

    run(1)  # what is read once per process
    few, more, most = (lines_run(partial(run, steps)) for steps in (20, 60, 100))
    assert most - more < 1.02 * (more - few)
