"""The cost of a file is linear in the number of its steps, in the shapes that pipelines have."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import pytest

from arc_toolkit.azureml.settings import Settings
from arc_toolkit.file_io import collector_paused
from tests.azureml.python.support import V2, V15, patch_bytes
from tests.azureml.support import lines_run

HEAD = V2 + "from azure.ai.ml import command\n"
PIPELINE = "@dsl.pipeline()\ndef p(x):\n"
SHAPES: dict[str, Callable[[int], str]] = {
    "steps": lambda n: HEAD + PIPELINE + "".join(f"    s_{i} = train(x=x)\n" for i in range(n)),
    "one name": lambda n: HEAD + PIPELINE + "    node = train(x=x)\n    node.compute = 'c'\n" * n,
    "command objects": lambda n: (
        HEAD + "".join(f"job_{i} = command(command='x')\n" for i in range(n))
    ),
    "pipelines": lambda n: (
        HEAD + "".join(PIPELINE.replace("p(", f"p{i}(") + "    s = train()\n" for i in range(n))
    ),
    "components": lambda n: (
        HEAD
        + "".join(f"c_{i} = load_component(source='./c_{i}.yml')\n" for i in range(n))
        + PIPELINE
        + "".join(f"    s_{i} = c_{i}(x=1)\n" for i in range(n))
    ),
    "set_resources": lambda n: (
        HEAD
        + PIPELINE
        + "".join(
            f"    s_{i} = train(x=x)\n    s_{i}.set_resources(instance_type='a')\n"
            for i in range(n)
        )
    ),
    "v1.5": lambda n: V15 + PIPELINE + "".join(f"    s_{i} = train(x=1)\n" for i in range(n)),
}
ASKED = Settings(instance_type="32cpu128g", instance_count=2, compute="aks", threads="auto")
EXPOSED = Settings(instance_type="32cpu128g", instance_count=2, expose_parameters=True)


def seconds(text: str, settings: Settings) -> float:
    with collector_paused():
        start = time.process_time()
        result = patch_bytes("p.py", text.encode(), settings)
        spent = time.process_time() - start
    assert result.changed
    return spent


@pytest.mark.slow
@pytest.mark.parametrize("settings", [ASKED, EXPOSED], ids=["settings", "exposed"])
@pytest.mark.parametrize("shape", SHAPES)
def test_eight_times_the_steps_cost_eight_times_as_much(shape: str, settings: Settings) -> None:
    make = SHAPES[shape]
    seconds(make(50), settings)
    few = min(seconds(make(250), settings) for _ in range(3))
    # Quadratic would be 64 times as much; a busy machine gets twice the time.
    assert seconds(make(2000), settings) < 16 * few


@pytest.mark.parametrize("settings", [ASKED, EXPOSED], ids=["settings", "exposed"])
@pytest.mark.parametrize("shape", SHAPES)
def test_each_further_step_runs_as_many_lines(shape: str, settings: Settings) -> None:
    def patch(steps: int) -> None:
        assert patch_bytes("p.py", SHAPES[shape](steps).encode(), settings).changed

    few, more, most = (lines_run(partial(patch, steps)) for steps in (20, 60, 100))
    assert most - more < 1.02 * (more - few)
