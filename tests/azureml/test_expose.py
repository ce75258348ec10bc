"""`--expose-parameters`: inputs on the pipeline, bound in its steps; what cannot be bound is moved, wrapped or told."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.azureml.support import COMPONENT, PIPELINE, check_noop, check_transformed, patch, rules_of
from tests.support import Result, unavailable

TYPE, COUNT = "${{parent.inputs.instance_type}}", "${{parent.inputs.instance_count}}"
ASKED: dict[str, Any] = {"expose_parameters": True, "instance_type": "32cpu128g", "instance_count": 2}
FILES = {"train.yml": COMPONENT, "pipeline.yml": PIPELINE}
INLINE = """\
$schema: https://azuremlschemas.azureedge.net/latest/pipelineJob.schema.json
type: pipeline
inputs:
  data:
    type: uri_folder
    path: https://example.org/data
jobs:
  prepare:
    type: command
    # what it does
    command: echo ${{inputs.data}} ${{inputs.n}} > ${{outputs.out}}/x
    environment:
      image: mcr.microsoft.com/azureml/openmpi4.1.0-ubuntu22.04
    inputs:
      data: ${{parent.inputs.data}}
      n: 3
    outputs:
      out:
        type: uri_folder
"""


def test_a_pipeline_job_gets_inputs_and_its_steps_are_bound() -> None:
    after = PIPELINE.replace(
        "    path: https://example.org/data\n",
        "    path: https://example.org/data\n  instance_type: 32cpu128g\n  instance_count: 2\n",
    ).replace(
        "    component: ./train.yml\n",
        f"    component: ./train.yml\n    resources:\n      instance_type: {TYPE}\n      instance_count: {COUNT}\n",
    )
    check_transformed(PIPELINE, after, path="pipeline.yml", files=FILES, **ASKED)


def test_a_pipeline_component_gets_typed_inputs_with_defaults() -> None:
    text = PIPELINE.replace("pipelineJob", "pipelineComponent").replace("    path: https://example.org/data\n", "")
    data = yaml.safe_load(patch(text, path="pipeline.yml", files=FILES, **ASKED).after or b"")
    assert data["inputs"]["instance_type"] == {"type": "string", "default": "32cpu128g"}
    assert data["inputs"]["instance_count"] == {"type": "integer", "default": 2}
    assert data["jobs"]["train"]["resources"] == {"instance_type": TYPE, "instance_count": COUNT}


def test_the_default_is_what_all_steps_have() -> None:
    text = PIPELINE + "    resources:\n      instance_type: 8cpu32g\n      instance_count: 4\n"
    data = yaml.safe_load(patch(text, path="pipeline.yml", files=FILES, expose_parameters=True).after or b"")
    assert (data["inputs"]["instance_type"], data["inputs"]["instance_count"]) == ("8cpu32g", 4)


def test_steps_that_differ_are_reported_and_not_made_equal() -> None:
    step = "  {0}:\n    type: parallel\n    resources: {{instance_type: {0}, instance_count: 1}}\n"
    text = "type: pipeline\njobs:\n" + step.format("small") + step.format("large")
    result = patch(text, expose_parameters=True)
    data = yaml.safe_load(result.after or b"")
    assert [data["jobs"][name]["resources"]["instance_type"] for name in ("small", "large")] == ["small", "large"]
    assert any("its steps differ (large, small)" in finding.reason for finding in result.findings)


def test_an_inline_command_step_moves_to_a_component_file() -> None:
    result = patch(INLINE, path="pipeline.yml", **ASKED)
    step = yaml.safe_load(result.after or b"")["jobs"]["prepare"]
    assert step["component"] == "./pipeline.prepare.yml"
    assert "command" not in step
    assert step["resources"] == {"instance_type": TYPE, "instance_count": COUNT}
    [(path, content)] = result.new_files
    component = yaml.safe_load(content)
    assert path == "pipeline.prepare.yml"
    assert component["inputs"] == {"data": {"type": "uri_folder"}, "n": {"type": "integer"}}
    assert component["command"] == "echo ${{inputs.data}} ${{inputs.n}} > ${{outputs.out}}/x"


def test_an_inline_step_whose_input_types_are_unknown_is_reported() -> None:
    text = INLINE.replace("n: 3", "n: ${{parent.jobs.x.inputs.y}}")
    result = patch(text, path="pipeline.yml", **ASKED)
    assert result.new_files == ()
    assert any("types of its inputs" in finding.reason for finding in result.findings)
    assert yaml.safe_load(result.after or b"")["jobs"]["prepare"]["resources"] == {"instance_type": TYPE}


def test_a_lone_component_gets_a_pipeline_component_around_it() -> None:
    result = patch(COMPONENT, path="train.yml", files={"train.yml": COMPONENT}, **ASKED)
    [(path, content)] = result.new_files
    wrapper = yaml.safe_load(content)
    assert path == "train.sized.yml"
    assert wrapper["inputs"]["instance_type"] == {"type": "string", "default": "32cpu128g"}
    assert wrapper["jobs"]["train"]["inputs"] == {"data": "${{parent.inputs.data}}"}
    assert wrapper["jobs"]["train"]["resources"] == {"instance_type": TYPE, "instance_count": COUNT}


def test_a_used_component_gets_none() -> None:
    assert patch(COMPONENT, path="train.yml", files=FILES, **ASKED).new_files == ()


@pytest.mark.parametrize(
    "text", ["type: CommandComponent\ncommand: x\n", "command: x\nenvironment: e\ncompute: c\n"]
)
def test_specs_and_jobs_say_why_not(text: str) -> None:
    result = check_noop(text, expose_parameters=True)
    assert rules_of(result) == ["expose-parameters"]


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_all_three_forms_load_with_azure_ai_ml(arc: Callable[..., Result], tmp_path: Path) -> None:
    try:
        from azure.ai.ml import load_component, load_job
    except ImportError:
        unavailable("azure-ai-ml is not installed")
    logging.disable(logging.CRITICAL)
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "train.yml").write_text(COMPONENT)
    (tmp_path / "used" / "pipeline.yml").write_text(PIPELINE)
    (tmp_path / "inline.yml").write_text(INLINE)
    (tmp_path / "lone.yml").write_text(COMPONENT)
    words = ["--expose-parameters", "--instance-type", "32cpu128g", "--instance-count", 2, "--write"]
    assert arc("patch", tmp_path, *words).code == 0
    for name, step in (("used/pipeline.yml", "train"), ("inline.yml", "prepare")):
        job = load_job(str(tmp_path / name))
        assert job._validate().error_messages.keys() <= {f"jobs.{step}.compute"}
        body = job._to_rest_object().as_dict()["properties"]["jobs"][step]["resources"]
        assert body == {"instance_type": TYPE, "instance_count": COUNT}
    component = load_component(str(tmp_path / "lone.sized.yml"))
    assert component._validate().passed
    logging.disable(logging.NOTSET)
    assert arc("patch", tmp_path, *words[:-1], "--check").code == 0


def test_a_step_that_ignores_a_setting_keeps_its_value() -> None:
    text = """\
type: pipeline
jobs:
  a:
    type: command
    component: azureml:a:1
  b:  # arc-toolkit: ignore[instance-type] needs the GPU
    type: command
    component: azureml:b:1
    resources:
      instance_type: 8cpu32g1gpu
      instance_count: 3  # arc-toolkit: ignore[instance-count] three shards
"""
    result = patch(text, instance_type="32cpu128g", instance_count=2, expose_parameters=True)
    steps = yaml.safe_load(result.after or b"")["jobs"]
    assert steps["a"]["resources"] == {
        "instance_type": "${{parent.inputs.instance_type}}",
        "instance_count": "${{parent.inputs.instance_count}}",
    }
    assert steps["b"]["resources"] == {"instance_type": "8cpu32g1gpu", "instance_count": 3}
