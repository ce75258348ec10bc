"""Inline ignores: at the step, at the line that would be edited, for the whole file."""

from __future__ import annotations

import pytest

from arc_toolkit.azureml.settings import Settings
from tests.azureml.python.support import (
    TYPE,
    V2,
    V15,
    check_noop,
    check_transformed,
    notebook,
    patch,
    patch_cells,
    sources,
)

STEP = V2 + "\n@dsl.pipeline\ndef p(x):\n    d = train(x=x)\n"
WHY = "# arc-toolkit: ignore[{}] the small pool"


@pytest.mark.parametrize(
    "line",
    [
        'd.resources.instance_type = "old"',
        'd.resources = JobResourceConfiguration(instance_type="old")',
        "d.resources = JobResourceConfiguration(instance_count=2)",
        'd.resources = {"instance_type": "old"}',
    ],
)
def test_an_ignore_holds_on_the_line_that_would_be_edited(line: str) -> None:
    why = WHY.format("instance-type")
    found = check_noop(f"{STEP}    {line}  {why}\n", TYPE)
    found += check_noop(f"{STEP}    {why}\n    {line}\n", TYPE)
    assert [finding for finding in found if finding.rule == "instance-type"] == []


def test_an_ignore_holds_on_the_line_of_an_argument() -> None:
    text = "from azure.ai.ml import command\n\njob = command(\n    command='x',\n    instance_type='old',  {}\n)\n"
    assert check_noop(text.format(WHY.format("instance-type")), TYPE) == ()


@pytest.mark.parametrize(
    ("rule", "line", "settings"),
    [
        ("compute", "d.compute = 'old'", Settings(compute="new")),
        ("threads", "d.environment_variables = {'A': '1'}", Settings(threads="lightgbm")),
    ],
)
def test_an_ignore_holds_for_compute_and_threads(rule: str, line: str, settings: Settings) -> None:
    assert check_noop(f"{STEP}    {line}  {WHY.format(rule)}\n", settings) == ()


def test_an_ignore_of_v15_holds_on_the_line_of_configure() -> None:
    text = (
        V15
        + "\n@dsl.pipeline\ndef p(x):\n    s = train(x=x)\n    s.runsettings.resource_layout.configure("
    )
    assert check_noop(f"{text}instance_type='old')  {WHY.format('instance-type')}\n", TYPE) == ()


@pytest.mark.parametrize(
    "comment", ["ignore[instance-type] small pool", "ignore-file[instance-type] small pool"]
)
def test_what_else_is_asked_of_an_ignored_step_is_done(comment: str) -> None:
    above = STEP.replace("    d = ", f"    # arc-toolkit: {comment}\n    d = ")
    asked = Settings(instance_type="t", instance_count=2)
    after = above + "    d.resources = JobResourceConfiguration(instance_count=2)\n"
    check_transformed(above, after, asked)
    result = patch_cells(notebook(above), asked)
    assert sources(result.after or b"{}") == [after]


def test_an_ignore_without_a_reason_is_reported_and_not_obeyed() -> None:
    text = STEP.replace("train(x=x)\n", "train(x=x)  # arc-toolkit: ignore[instance-type]\n")
    found = check_transformed(
        text, text + '    d.resources = JobResourceConfiguration(instance_type="32cpu128g")\n', TYPE
    )
    assert [(finding.rule, finding.severity, finding.line) for finding in found] == [
        ("ignore-without-reason", "warning", 8)
    ]
    assert check_noop(text, Settings(skip=frozenset({"ignore-without-reason"}))) == ()


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        ("missing-instance-type", 'job = command(command="x", compute="azureml:aks")'),
        ("lightgbm-threads", 'job = command(command="x", environment="azureml:lightgbm:1")'),
        ("sweep-instance-type", 'job = trial.sweep(primary_metric="m", instance_type="a")'),
        ("set-resources", 'node.set_resources(instance_type="a")'),
        ("missing-resources", 'job = command(command="x"); job.resources.instance_type = "a"'),
        ("prs-instance-type", "config = ParallelRunConfig(node_count=2)"),
        ("legacy-sweep", 'step.runsettings.sweep.algorithm = "random"'),
        ("ignore-of-unknown-rule", "x = 1  # arc-toolkit: ignore[no-rule] for a reason"),
    ],
)
def test_a_finding_of_a_rule_can_be_ignored_at_its_line_and_in_the_file(
    rule: str, code: str
) -> None:
    head = (
        "from azure.ai.ml import command\nfrom azureml.pipeline.steps import ParallelRunConfig\n\n"
    )
    assert [finding.rule for finding in patch(head + code + "\n", Settings()).findings] == [rule]
    above = f"# arc-toolkit: ignore[{rule}] it is known\n"
    whole = f"# arc-toolkit: ignore-file[{rule}] it is known\n"
    for ignored in (head + above + code, whole + head + code):
        result = patch(ignored + "\n", Settings())
        assert result.findings == ()
        assert result.after is None
