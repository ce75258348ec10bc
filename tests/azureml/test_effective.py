"""What azure-ai-ml really sends for a step, after its settings were placed: the REST object, not the file."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import Result, unavailable

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

COMPONENT = """\
type: command
name: train
version: 1
command: echo
environment: azureml:e:1
resources: {instance_type: old, instance_count: 5, shm_size: 8g}
"""
ASKED = ("--instance-type", "32cpu128g")


@pytest.fixture
def sent(arc: Callable[..., Result], tmp_path: Path) -> Callable[..., dict[str, Any]]:
    try:
        from azure.ai.ml import load_job
    except ImportError:
        unavailable("azure-ai-ml is not installed")
    logging.disable(logging.CRITICAL)

    def send(step: str, *options: str) -> dict[str, Any]:
        (tmp_path / "train.yml").write_text(COMPONENT)
        pipeline = tmp_path / "pipeline.yml"
        pipeline.write_text(f"type: pipeline\njobs:\n  a:\n    component: ./train.yml\n{step}")
        assert arc("patch", pipeline, *options, "--write").code == 0
        body: dict[str, Any] = load_job(str(pipeline))._to_rest_object().as_dict()
        resources: dict[str, Any] = body["properties"]["jobs"]["a"]["resources"]
        return resources

    return send


def test_a_step_keeps_what_its_component_says(sent: Callable[..., dict[str, Any]]) -> None:
    assert sent("", *ASKED) == {"instance_type": "32cpu128g", "instance_count": 5, "shm_size": "8g"}


@pytest.mark.parametrize(
    "resources", ["", "    resources: {instance_type: b, instance_count: 3}\n"]
)
def test_keys_of_the_step_itself_win(sent: Callable[..., dict[str, Any]], resources: str) -> None:
    step = f"    instance_type: a\n    instance_count: 7\n{resources}"
    body = sent(step, *ASKED, "--instance-count", "2")
    assert (body["instance_type"], body["instance_count"]) == ("32cpu128g", 2)
