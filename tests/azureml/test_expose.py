"""`--expose-parameters`: inputs on the pipeline, bound in its steps; what cannot be bound is reported."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from arc_toolkit.azureml.azureml_files import AzureMLFiles
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.batch import run
from tests.azureml.support import (
    COMPONENT,
    PIPELINE,
    check_noop,
    check_transformed,
    patch,
    rules_of,
)
from tests.support import Result, unavailable

TYPE, COUNT = "${{parent.inputs.instance_type}}", "${{parent.inputs.instance_count}}"
ASKED: dict[str, Any] = {
    "expose_parameters": True,
    "instance_type": "32cpu128g",
    "instance_count": 2,
}
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


INNER = """\
$schema: https://azuremlschemas.azureedge.net/latest/pipelineComponent.schema.json
type: pipeline
name: inner
version: 1
jobs:
  train:
    type: command
    component: ./train.yml
"""
OUTER = """\
$schema: https://azuremlschemas.azureedge.net/latest/pipelineJob.schema.json
type: pipeline
jobs:
  first:
    component: ./inner.yml
  second:
    type: pipeline
    component: ./inner.yml
    inputs:
      instance_type: 8cpu32g
"""
NESTED = {"train.yml": COMPONENT, "inner.yml": INNER, "outer.yml": OUTER}


def test_a_pipeline_passes_the_parameters_of_its_pipelines_on() -> None:
    passed = f"    inputs:\n      instance_type: {TYPE}\n      instance_count: {COUNT}\n"
    after = (
        OUTER.replace(
            "jobs:\n", "inputs:\n  instance_type: 32cpu128g\n  instance_count: 2\njobs:\n"
        )
        .replace(
            "  first:\n    component: ./inner.yml\n",
            f"  first:\n    component: ./inner.yml\n{passed}",
        )
        .replace("    inputs:\n      instance_type: 8cpu32g\n", passed)
    )
    check_transformed(OUTER, after, path="outer.yml", files=NESTED, **ASKED)
    # Another value later on reaches the inner pipeline too.
    later = (
        patch(after, path="outer.yml", files=NESTED, **{**ASKED, "instance_type": "4cpu16g"}).after
        or b""
    )
    assert later.decode() == after.replace("instance_type: 32cpu128g", "instance_type: 4cpu16g")


def test_a_pipeline_in_a_pipeline_in_a_pipeline() -> None:
    outer = INNER.replace(
        "type: command\n    component: ./train.yml", "type: pipeline\n    component: ./inner.yml"
    )
    files = {"train.yml": COMPONENT, "inner.yml": INNER, "middle.yml": outer, "outer.yml": OUTER}
    text = OUTER.replace("./inner.yml", "./middle.yml")
    data = yaml.safe_load(
        patch(text, path="outer.yml", files={**files, "outer.yml": text}, **ASKED).after or b""
    )
    assert data["jobs"]["first"]["inputs"] == {"instance_type": TYPE, "instance_count": COUNT}


@pytest.mark.parametrize(
    "files",
    [
        {"train.yml": COMPONENT, "outer.yml": OUTER},
        # Its steps are bound to something else, or it cannot be read.
        {
            **NESTED,
            "inner.yml": INNER + "    resources: {instance_type: '${{parent.inputs.kind}}'}\n",
        },
        {**NESTED, "inner.yml": "type: pipeline\njobs: [\n"},
        # Each names the other.
        {
            **NESTED,
            "inner.yml": INNER.replace(
                "type: command\n    component: ./train.yml", "component: ./outer.yml"
            ),
        },
    ],
)
def test_only_a_pipeline_that_has_parameters_after_the_run_gets_them(files: dict[str, str]) -> None:
    text = OUTER.replace("  first:\n", "  first:\n    type: pipeline\n")
    after = patch(
        text,
        path="outer.yml",
        files=files,
        expose_parameters=True,
        skip=frozenset({"instance-count"}),
    ).after
    assert after is None or b"instance_type: ${{" not in after


@pytest.mark.parametrize("own", [None, "4cpu16g"])
def test_the_order_of_the_files_does_not_matter(
    own: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The outer pipeline asks for what becomes of the inner one, whose turn may be later."""
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    for name, text in NESTED.items():
        place = Path("in", name) if name != "outer.yml" else Path(name)
        place.write_text(text.replace("./inner.yml", "./in/inner.yml"))
    settings = Settings(**ASKED)
    inner = {os.path.abspath("in"): replace(settings, instance_type=own)} if own else {}
    names = ["outer.yml", "in/inner.yml", "in/train.yml"]
    forth, back = (
        {
            outcome.result.path: outcome.result
            for outcome in run(order, AzureMLFiles(settings, inner), lambda _: None)
            if outcome.result
        }
        for order in (names, names[::-1])
    )
    assert list(forth) == names
    assert forth == back
    assert (own or "32cpu128g").encode() in (forth["in/inner.yml"].after or b"")
    assert all(
        finding.path == name for name, result in forth.items() for finding in result.findings
    )


def test_inner_defaults_that_differ_need_a_value() -> None:
    other = INNER + "    resources:\n      instance_type: 16cpu64g\n"
    result = patch(
        OUTER, path="outer.yml", files={**NESTED, "inner.yml": other}, expose_parameters=True
    )
    message = "instance_type is not passed on to step `second`"
    reasons = [finding.reason for finding in result.findings if finding.message == message]
    assert reasons == [
        "the defaults differ (8cpu32g, and 16cpu64g of the parameter): use --instance-type"
    ]
    assert (
        yaml.safe_load(result.after or b"")["jobs"]["second"]["inputs"]["instance_type"]
        == "8cpu32g"
    )


def test_a_pipeline_component_gets_typed_inputs_with_defaults() -> None:
    text = PIPELINE.replace("pipelineJob", "pipelineComponent").replace(
        "    path: https://example.org/data\n", ""
    )
    data = yaml.safe_load(patch(text, path="pipeline.yml", files=FILES, **ASKED).after or b"")
    assert data["inputs"]["instance_type"] == {"type": "string", "default": "32cpu128g"}
    assert data["inputs"]["instance_count"] == {"type": "integer", "default": 2}
    assert data["jobs"]["train"]["resources"] == {"instance_type": TYPE, "instance_count": COUNT}


def test_the_default_is_what_all_steps_have() -> None:
    text = PIPELINE + "    resources:\n      instance_type: 8cpu32g\n      instance_count: 4\n"
    data = yaml.safe_load(
        patch(text, path="pipeline.yml", files=FILES, expose_parameters=True).after or b""
    )
    assert (data["inputs"]["instance_type"], data["inputs"]["instance_count"]) == ("8cpu32g", 4)


def test_steps_that_differ_are_reported_and_not_made_equal() -> None:
    step = "  {0}:\n    type: parallel\n    resources: {{instance_type: {0}, instance_count: 1}}\n"
    text = "type: pipeline\njobs:\n" + step.format("small") + step.format("large")
    result = patch(text, expose_parameters=True)
    data = yaml.safe_load(result.after or b"")
    assert [data["jobs"][name]["resources"]["instance_type"] for name in ("small", "large")] == [
        "small",
        "large",
    ]
    assert any("its steps differ (large, small)" in finding.reason for finding in result.findings)


INLINE_COUNT = "an inline command step cannot bind its count: move its job to a component file"


def test_the_count_of_an_inline_command_step_is_reported_and_stays() -> None:
    result = patch(INLINE, path="pipeline.yml", **ASKED)
    data = yaml.safe_load(result.after or b"")
    assert data["jobs"]["prepare"]["resources"] == {"instance_type": TYPE}
    assert "instance_count" not in data["inputs"]
    (finding,) = (item for item in result.findings if item.reason == INLINE_COUNT)
    assert finding.severity == "warning"
    check_noop((result.after or b"").decode(), path="pipeline.yml", **ASKED)


@pytest.mark.parametrize(
    ("count", "severity"),
    [("", "note"), ("    resources: {instance_count: 3}\n", "warning")],
)
def test_an_inline_step_without_a_count_loses_nothing(count: str, severity: str) -> None:
    text = INLINE + count
    result = patch(text, path="pipeline.yml", expose_parameters=True, instance_type="a")
    findings = [item.severity for item in result.findings if item.reason == INLINE_COUNT]
    assert findings == [severity]


def test_other_steps_bind_their_count_beside_an_inline_one() -> None:
    text = INLINE + "  train: {component: 'azureml:train:1'}\n"
    data = yaml.safe_load(patch(text, path="pipeline.yml", **ASKED).after or b"")
    assert data["inputs"]["instance_count"] == 2
    assert data["jobs"]["train"]["resources"] == {"instance_type": TYPE, "instance_count": COUNT}
    assert data["jobs"]["prepare"]["resources"] == {"instance_type": TYPE}


def test_a_component_that_no_pipeline_uses_gets_no_file_and_a_reason() -> None:
    result = patch(COMPONENT, path="train.yml", files={"train.yml": COMPONENT}, **ASKED)
    assert result.new_files == ()
    assert any(
        finding.rule == "expose-parameters" and "only a pipeline" in finding.reason
        for finding in result.findings
    )


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
def test_both_forms_load_with_azure_ai_ml(arc: Callable[..., Result], tmp_path: Path) -> None:
    try:
        from azure.ai.ml import load_job
    except ImportError:
        unavailable("azure-ai-ml is not installed")
    logging.disable(logging.CRITICAL)
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "train.yml").write_text(COMPONENT)
    (tmp_path / "used" / "pipeline.yml").write_text(PIPELINE)
    (tmp_path / "inline.yml").write_text(INLINE)
    words = [
        "--expose-parameters",
        "--instance-type",
        "32cpu128g",
        "--instance-count",
        2,
        "--write",
    ]
    assert arc("patch", tmp_path, *words).code == 2  # the count of the inline step
    bound = {"instance_type": TYPE, "instance_count": COUNT}
    for name, step, resources in (
        ("used/pipeline.yml", "train", bound),
        ("inline.yml", "prepare", {"instance_type": TYPE}),
    ):
        job = load_job(str(tmp_path / name))
        assert job._validate().error_messages.keys() <= {f"jobs.{step}.compute"}
        body = job._to_rest_object().as_dict()["properties"]["jobs"][step]["resources"]
        assert body == resources
    logging.disable(logging.NOTSET)
    assert arc("patch", tmp_path / "used", *words[:-1], "--check").code == 0


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


# --- the inputs of a pipeline ----------------------------------------------------------------------------------

OTHER_MEANING = """\
type: pipeline
inputs:
  instance_type: Standard_DS3_v2  # of the endpoint
jobs:
  deploy:
    type: command
    component: azureml:deploy:1
    inputs:
      instance_type: ${{parent.inputs.instance_type}}
"""


def test_an_input_of_that_name_for_something_else_is_not_taken_over() -> None:
    result = patch(OTHER_MEANING, **ASKED)
    data = yaml.safe_load(result.after or b"")
    assert data["inputs"] == {
        "instance_type": "Standard_DS3_v2",
        "job_instance_type": "32cpu128g",
        "instance_count": 2,
    }
    assert (
        data["jobs"]["deploy"]["resources"]["instance_type"]
        == "${{parent.inputs.job_instance_type}}"
    )
    check_noop((result.after or b"").decode(), **ASKED)


@pytest.mark.parametrize(
    ("before", "name"),
    [
        # It is for the resources of steps, or of the steps of an inner pipeline: the same input.
        ("    resources: {instance_type: '${{parent.inputs.instance_type}}'}\n", "instance_type"),
        (
            "    type: pipeline\n    inputs: {instance_type: '${{parent.inputs.instance_type}}'}\n",
            "instance_type",
        ),
        (
            "    type: command\n    inputs: {x: 'a ${{parent.inputs.instance_type}}'}\n",
            "job_instance_type",
        ),
        ("    type: command\n    compute: ${{parent.inputs.instance_type}}\n", "job_instance_type"),
    ],
)
def test_the_meaning_of_an_input_is_what_it_is_used_for(before: str, name: str) -> None:
    text = f"type: pipeline\ninputs: {{instance_type: a}}\njobs:\n  x:\n    component: azureml:x:1\n{before}"
    data = yaml.safe_load(patch(text + "  y:\n    component: azureml:y:1\n", **ASKED).after or b"")
    assert data["inputs"][name] == "32cpu128g"
    assert data["jobs"]["y"]["resources"]["instance_type"] == f"${{{{parent.inputs.{name}}}}}"


def test_an_input_of_another_type_is_another() -> None:
    inputs = "inputs:\n  instance_type: {type: uri_file, path: x}\n"
    text = f"type: pipeline\n{inputs}jobs:\n  y: {{component: 'azureml:y:1'}}\n"
    assert "job_instance_type" in yaml.safe_load(patch(text, **ASKED).after or b"")["inputs"]


def test_a_step_with_keys_that_win_over_resources_is_not_bound() -> None:
    text = PIPELINE + "    instance_type: a\n    shm_size: 1g\n"
    result = patch(text, path="pipeline.yml", files=FILES, **ASKED)
    step = yaml.safe_load(result.after or text)["jobs"]["train"]
    assert (step["instance_type"], step["shm_size"]) == ("a", "1g")
    assert {item.reason for item in result.findings if item.rule == "expose-parameters"} == {
        "instance_type, shm_size beside `component` wins over `resources`: move it there"
    }
