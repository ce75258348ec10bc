"""Instance type, count and compute land where the kind keeps them, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.azureml.support import (
    COMMAND_JOB,
    COMPONENT,
    PIPELINE,
    check_noop,
    check_transformed,
    patch,
    rules_of,
)

WANTED: dict[str, Any] = {"instance_type": "32cpu128g", "instance_count": 2}


def test_a_command_job() -> None:
    after = COMMAND_JOB + "resources:\n  instance_type: 32cpu128g\n  instance_count: 2\n"
    check_transformed(COMMAND_JOB, after, **WANTED)


def test_a_component() -> None:
    result = patch(COMPONENT, **WANTED)
    assert yaml.safe_load(result.after or b"")["resources"] == WANTED


def test_steps_of_every_kind() -> None:
    text = """\
type: pipeline
jobs:
  a: {type: command, component: ./a.yml}
  b: {type: parallel, component: "azureml:b:1"}
  c: {type: sweep, trial: ./c.yml}
  d: {type: pipeline, component: ./d.yml}
  e: {type: spark}
"""
    result = patch(text, **WANTED)
    jobs = yaml.safe_load(result.after or b"")["jobs"]
    assert {name for name, step in jobs.items() if step.get("resources") == WANTED} == {
        "a",
        "b",
        "c",
    }
    assert "resources" not in jobs["d"]
    assert any("Spark" in finding.reason for finding in result.findings)


def test_a_sweep_job_and_its_trial() -> None:
    text = "type: sweep\ntrial:\n  command: x\n  environment: e\nsearch_space: {}\nobjective: {}\n"
    data = yaml.safe_load(patch(text, **WANTED).after or b"")
    assert data["resources"] == WANTED
    assert data["trial"]["resources"] == WANTED


def test_existing_values_are_replaced_where_they_differ_and_bound_ones_stay() -> None:
    text = (
        COMMAND_JOB
        + "resources:\n  instance_type: old # why\n  instance_count: 2\n  shm_size: 2g\n"
    )
    check_transformed(text, text.replace("old", "32cpu128g"), **WANTED)
    bound = (
        PIPELINE
        + "    resources:\n      instance_type: ${{parent.inputs.t}}\n      instance_count: 2\n"
    )
    result = check_noop(bound, **WANTED)
    assert any("bound" in finding.reason for finding in result.findings)


def test_a_v15_spec_has_no_place_and_says_so() -> None:
    result = check_noop("type: CommandComponent\ncommand: x\n", **WANTED)
    assert rules_of(result) == ["instance-count", "instance-type"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("compute: azureml:a\n", "compute: azureml:b\n"),
        ("compute: azureml:b\n", "compute: azureml:b\n"),
        ("compute: ${{parent.inputs.c}}\n", "compute: ${{parent.inputs.c}}\n"),
    ],
)
def test_compute_of_a_job(before: str, after: str) -> None:
    head = "command: x\nenvironment: e\ncode: .\n"
    check_transformed(head + before, head + after, compute="b")


def test_compute_of_a_pipeline_is_its_default_and_that_of_steps_that_name_one() -> None:
    head = "type: pipeline\nsettings:\n  default_compute: azureml:a\n"
    text = head + "jobs:\n  x: {compute: azureml:a}\n  y: {type: command}\n"
    check_transformed(text, text.replace("azureml:a", "azureml:b"), compute="b")
    data = yaml.safe_load(
        patch("type: pipeline\njobs:\n  y: {type: command}\n", compute="b").after or b""
    )
    assert data["settings"] == {"default_compute": "azureml:b"}


def test_steps_and_kinds_are_chosen() -> None:
    text = "type: pipeline\njobs:\n  a: {type: command}\n  b: {type: parallel}\n"
    jobs = yaml.safe_load(patch(text, steps=("b",), **WANTED).after or b"")["jobs"]
    assert ["resources" in jobs[name] for name in "ab"] == [False, True]
    jobs = yaml.safe_load(patch(text, kinds=("command",), **WANTED).after or b"")["jobs"]
    assert ["resources" in jobs[name] for name in "ab"] == [True, False]


def test_one_setting_alone_and_one_left_out() -> None:
    only = patch(COMMAND_JOB, only=frozenset(["instance-type"]), **WANTED)
    assert yaml.safe_load(only.after or b"")["resources"] == {"instance_type": "32cpu128g"}
    skip = patch(COMMAND_JOB, skip=frozenset(["instance-type"]), **WANTED)
    assert yaml.safe_load(skip.after or b"")["resources"] == {"instance_count": 2}


def test_an_ignore_with_a_reason_keeps_a_target_as_it_is() -> None:
    comment = "# arc-toolkit: ignore[instance-type] pinned"
    text = f"type: pipeline\njobs:\n  a: {comment}\n    type: command\n  b:\n    type: command\n"
    jobs = yaml.safe_load(patch(text, instance_type="t").after or b"")["jobs"]
    assert "resources" not in jobs["a"]
    assert "resources" in jobs["b"]


def test_what_a_merge_key_brings_is_refused_with_a_reason_and_the_rest_is_done() -> None:
    text = """\
type: pipeline
x-base: &base
  resources: {shm_size: 2g}
jobs:
  a:
    <<: *base
    type: command
  b:
    type: command
"""
    result = patch(text, **WANTED)
    jobs = yaml.safe_load(result.after or b"")["jobs"]
    assert jobs["a"]["resources"] == {"shm_size": "2g"}
    assert jobs["b"]["resources"] == WANTED
    assert any("merge key" in finding.reason for finding in result.findings)


def test_a_file_with_nothing_but_a_refusal_is_refused() -> None:
    result = check_noop("command: x\nenvironment: e\ncompute: c\nresources: none\n", **WANTED)
    assert result.refused == "`resources` is not a mapping"


@pytest.mark.parametrize(
    "where",
    [
        "resources:\n  instance_type: old  # arc-toolkit: ignore[instance-type] keep\n",
        "resources:  # arc-toolkit: ignore[instance-type] keep\n  instance_type: old\n",
        "resources:\n  # arc-toolkit: ignore[instance-type] keep\n  instance_type: old\n",
    ],
)
def test_an_ignore_on_the_line_that_would_change_is_obeyed(where: str) -> None:
    check_noop(COMMAND_JOB + where, instance_type="32cpu128g")


def test_an_ignore_on_a_variable_keeps_it() -> None:
    text = (
        COMMAND_JOB
        + "environment_variables:\n  AMLARC_PRESTEP: x  # arc-toolkit: ignore[threads] mine\n"
    )
    check_noop(text, threads="lightgbm")


def test_a_step_that_is_only_a_merge_key_gets_a_line_below_it() -> None:
    text = "type: pipeline\nx-d: &d\n  type: command\n  component: azureml:a:1\njobs:\n  a:\n    <<: *d  # as all\n"
    after = text + "    resources:\n      instance_type: t\n"
    check_transformed(text, after, instance_type="t")


def test_an_edit_that_cannot_be_made_does_not_take_the_others_with_it() -> None:
    text = """\
type: pipeline
x-r: &r {instance_type: a}
jobs:
  one:
    type: command
    component: azureml:a:1
    resources: *r
  two:
    type: command
    component: azureml:b:1
"""
    result = patch(text, instance_type="t", threads="lightgbm")
    jobs = yaml.safe_load(result.after or b"")["jobs"]
    assert jobs["one"]["resources"] == {"instance_type": "a"}
    assert jobs["two"]["resources"] == {"instance_type": "t"}
    assert "AMLARC_PRESTEP" in jobs["one"]["environment_variables"]
    [refused] = [one for one in result.findings if one.rule == "instance-type"]
    assert (refused.message, refused.line) == ("not set on step `one`", 4)
    assert "anchor" in refused.reason


def test_a_refused_file_claims_nothing() -> None:
    text = COMMAND_JOB.replace("\n", "\r") + "environment_variables: {AMLARC_RESTEP: x}\r"
    result = patch(text, threads="lightgbm", instance_type="t")
    assert result.refused is not None
    assert not any(
        finding.applied or "from get_cores" in finding.message for finding in result.findings
    )


# --- what is effective -----------------------------------------------------------------------------------------

SIZED = COMPONENT + "resources:\n  instance_type: old\n  instance_count: 5\n  shm_size: 8g\n"


def test_keys_of_a_step_that_win_over_its_resources_are_changed() -> None:
    # What azure-ai-ml 1.35 sends for such a step is in tests/azureml/test_effective.py.
    text = (
        PIPELINE
        + "    instance_type: a  # why\n    resources:\n      instance_type: b\n      instance_count: 1\n"
    )
    after = text.replace("type: a", "type: 32cpu128g").replace("count: 1", "count: 2")
    check_transformed(text, after, files={"train.yml": COMPONENT}, **WANTED)


def test_keys_of_a_sweep_step_do_not_win() -> None:
    text = (
        "type: pipeline\njobs:\n  s:\n    type: sweep\n    trial: ./t.yml\n    instance_type: a\n"
    )
    step = yaml.safe_load(patch(text, **WANTED).after or b"")["jobs"]["s"]
    assert (step["instance_type"], step["resources"]) == ("a", WANTED)


def test_resources_of_a_step_repeat_what_they_replace() -> None:
    result = patch(PIPELINE, files={"train.yml": SIZED}, instance_type="32cpu128g")
    step = yaml.safe_load(result.after or b"")["jobs"]["train"]
    assert step["resources"] == {
        "instance_type": "32cpu128g",
        "instance_count": 5,
        "shm_size": "8g",
    }
    # `resources` that the step has already replaced them before.
    text = PIPELINE + "    resources:\n      instance_type: a\n"
    check_transformed(
        text, text.replace(": a", ": b"), files={"train.yml": SIZED}, instance_type="b"
    )


def test_resources_of_a_sweep_repeat_those_of_its_trial() -> None:
    text = "type: sweep\ntrial:\n  command: x\n  environment: e\n  resources: {instance_count: 4, shm_size: 1g}\n"
    data = yaml.safe_load(
        patch(text + "search_space: {}\nobjective: {}\n", instance_type="b").after or b""
    )
    assert data["resources"] == {"instance_type": "b", "instance_count": 4, "shm_size": "1g"}


# --- what depends on the count ---------------------------------------------------------------------------------

TENSORFLOW = COMMAND_JOB + "distribution:\n  type: tensorflow\n  worker_count: 3\n"


def test_workers_of_tensorflow_follow_the_count() -> None:
    text = TENSORFLOW + "resources:\n  instance_count: 3\n"
    check_transformed(text, text.replace(": 3", ": 2"), instance_count=2)


@pytest.mark.parametrize(
    "text",
    [
        TENSORFLOW + "resources:\n  instance_count: 1\n",
        TENSORFLOW + "  parameter_server_count: 1\nresources:\n  instance_count: 3\n",
    ],
)
def test_what_does_not_follow_the_count_is_reported_in_every_run(text: str) -> None:
    first = patch(text, instance_count=2, skip=frozenset({"lightgbm-threads"}))
    again = check_noop(
        (first.after or b"").decode(), instance_count=2, skip=frozenset({"lightgbm-threads"})
    )
    for result in (first, again):
        assert [(finding.rule, finding.severity) for finding in result.findings] == [
            ("instance-count", "warning")
        ]


def test_workers_stay_if_the_count_stays() -> None:
    ignored = "resources:\n  instance_count: 3  # arc-toolkit: ignore[instance-count] fixed\n"
    check_noop(TENSORFLOW + ignored, instance_count=2)
    bound = PIPELINE + "    distribution: {type: tensorflow, worker_count: 3}\n"
    check_noop(
        bound + "    resources:\n      instance_count: ${{parent.inputs.n}}\n", instance_count=2
    )


# --- which targets ---------------------------------------------------------------------------------------------


def test_kind_distributed_is_whatever_has_a_distribution() -> None:
    plain, spread = COMMAND_JOB, COMMAND_JOB + "distribution:\n  type: mpi\n"
    check_noop(plain, kinds=("distributed",), **WANTED)
    assert patch(spread, kinds=("distributed",), **WANTED).changed
    component = COMPONENT + "distribution:\n  type: pytorch\n"
    text = PIPELINE + "  other:\n    type: command\n    component: azureml:x:1\n"
    result = patch(text, files={"train.yml": component}, kinds=("distributed",), **WANTED)
    jobs = yaml.safe_load(result.after or b"")["jobs"]
    assert [name for name, step in jobs.items() if "resources" in step] == ["train"]


@pytest.mark.parametrize(
    "text",
    [
        "type: pipeline\njobs:\n  a:\n    type: pipeline\n    component: azureml:inner:1\n",
        "$schema: https://azuremlschemas.azureedge.net/latest/pipelineJob.schema.json\ntype: pipeline\n"
        "component: azureml:inner:1\n",
        "type: pipeline\njobs:\n  a:\n    type: pipeline\n    component: ./inner.yml\n",
    ],
)
def test_a_pipeline_that_is_a_component_elsewhere_is_reported(text: str) -> None:
    findings = [
        finding
        for finding in check_noop(text, **WANTED).findings
        if finding.rule == "instance-type"
    ]
    assert [finding.severity for finding in findings] == ["warning"]


def test_a_pipeline_component_that_is_given_too_is_not_reported() -> None:
    text = "type: pipeline\njobs:\n  a:\n    type: pipeline\n    component: ./inner.yml\n"
    assert not check_noop(text, files={"inner.yml": PIPELINE}, **WANTED).findings


def test_compute_is_not_for_pipelines_that_run_elsewhere_or_have_one_on_every_step() -> None:
    head = "type: pipeline\njobs:\n"
    check_noop(
        head + "  a: {type: spark}\n  b: {type: data_transfer}\n  c: {type: import}\n", compute="b"
    )
    text = head + "  a: {type: command, compute: 'azureml:a'}\n  b: {type: spark}\n"
    check_transformed(text, text.replace("azureml:a", "azureml:b"), compute="b")
    mixed = patch(head + "  a: {type: spark}\n  b: {type: command}\n", compute="b")
    assert yaml.safe_load(mixed.after or b"")["settings"] == {"default_compute": "azureml:b"}


def test_a_step_of_unknown_type_is_a_warning() -> None:
    text = "type: pipeline\njobs:\n  s: {type: component, component: 'azureml:x:1', compute: 'azureml:c'}\n"
    result = check_noop(text, instance_type="a", compute="aks", skip=frozenset({"unknown-type"}))
    found = [(item.rule, item.severity, item.reason) for item in result.findings]
    reason = "the kind of this step is not known"
    assert found == [("instance-type", "warning", reason), ("compute", "warning", reason)]
