"""The rule `uncalled-command`, beside what azure-ai-ml makes of the same functions."""

from __future__ import annotations

from typing import Any

import pytest

from arc_toolkit.azureml.settings import Settings
from tests.azureml.python.support import patch
from tests.support import unavailable

HEAD = """\
from azure.ai.ml import Input, command, dsl

job = command(command="echo", environment="azureml:e:1")


@dsl.pipeline(default_compute="c")
def p():
    first = job()
"""
MAKE = 'command(name="n", command="echo ${{inputs.a}}", inputs={"a": 1}, environment="azureml:e:1", outputs={"o": OUT})'
MAKE = MAKE.replace("OUT", '{"type": "uri_folder"}')
READ = 'command(command="ls ${{inputs.d}}", inputs={"d": Input(type="uri_folder")}, environment="azureml:e:1")'
# The body after the first step, and the steps that azure-ai-ml 1.35.2 makes of the whole.
BODIES = [
    (f"    node = {MAKE}\n", ["first"]),
    (
        f"    node = {MAKE}\n    node.compute = 'x'\n    node.set_resources(instance_count=2)\n",
        ["first"],
    ),
    (f"    node = {MAKE}\n    read = {READ}(d=node.outputs.o)\n", ["first", "read"]),
    (f"    node = {MAKE}()\n", ["first", "node"]),
    (f"    make = {MAKE}\n    node = make(a=2)\n", ["first", "node"]),
    (
        f"    node = {MAKE}\n    tuned = node.sweep(primary_metric='m', goal='minimize', sampling_algorithm='grid')\n",
        ["first", "n"],
    ),
    (f"    node = {MAKE}\n    made = [item() for item in (node,)]\n", ["first", "n"]),
]


@pytest.mark.parametrize(("body", "steps"), BODIES)
def test_what_makes_no_step_is_an_error(body: str, steps: list[str]) -> None:
    findings = [
        item for item in patch(HEAD + body, Settings()).findings if item.rule == "uncalled-command"
    ]
    made = len(steps) == 2 + body.count("read =")
    assert [(item.severity, item.line) for item in findings] == ([] if made else [("error", 9)])


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("body", "steps"), BODIES)
def test_the_sdk_makes_these_steps(body: str, steps: list[str]) -> None:
    try:
        import azure.ai.ml  # noqa: F401
    except ImportError:
        unavailable("azure-ai-ml is not installed")
    space: dict[str, Any] = {}
    exec(HEAD + body, space)
    assert sorted(space["p"]()._to_rest_object().properties.jobs) == sorted(steps)
