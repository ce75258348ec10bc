"""`set_resources` of SDK v2, which adds to the resources of the component that its steps share."""

from __future__ import annotations

from dataclasses import replace
from textwrap import dedent

from arc_toolkit.azureml.python.python_plan import patch_source
from arc_toolkit.azureml.references import ProjectFiles
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.findings import FileResult
from tests.azureml.python.support import (
    BOTH,
    COMPONENT,
    TYPE,
    V2,
    check_left,
    check_noop,
    check_transformed,
    read_component,
)

SHARED = V2.replace("./train.yml", "./sized.yml")
SIZED = COMPONENT + b"resources:\n  instance_count: 4\n  shm_size: 8g\n"


def patch_sized(text: str, settings: Settings = TYPE) -> FileResult:
    project = ProjectFiles(
        lambda path: SIZED if path.endswith("sized.yml") else read_component(path)
    )
    return patch_source("pipeline.py", (SHARED + dedent(text)).encode(), settings, project)


def test_an_assignment_in_place_of_set_resources_repeats_what_the_call_kept() -> None:
    """azure-ai-ml adds what `set_resources` says to the resources of the component; an assignment replaces them."""
    text = '@dsl.pipeline()\ndef p():\n    node = train()\n    node.set_resources(instance_type="small")\n'
    kept = 'instance_count=4, shm_size="8g")'
    for settings, name in ((Settings(), "small"), (TYPE, "32cpu128g")):
        after = (patch_sized(text, settings).after or b"").decode()
        assert f'node.resources = JobResourceConfiguration(instance_type="{name}", {kept}' in after
    after = (patch_sized(text, BOTH).after or b"").decode()
    assert "instance_count=2" in after
    assert "instance_count=4" not in after
    assert 'shm_size="8g"' in after


def test_set_resources_after_a_value_of_resources_stays() -> None:
    findings = check_noop(
        V2
        + """\
@dsl.pipeline()
def p():
    node = unknown()
    node.resources.instance_type = "small"
    node.set_resources(instance_count=3)
""",
        TYPE,
    )
    assert [finding.reason for finding in findings if finding.rule == "set-resources"] == [
        "a value of its resources is set before"
    ]


TWO_STEPS = """\
@dsl.pipeline()
def p(x):
    node = train(x=x)
    node.set_resources(instance_count=x)
    node.resources.instance_count = 4
    other = train(x=x)
"""


def test_a_step_by_name_gets_resources_of_its_own_first() -> None:
    settings = Settings(instance_type="32cpu128g", steps=("node",))
    check_transformed(
        V2 + TWO_STEPS,
        V2
        + TWO_STEPS.replace(
            "node.set_resources(instance_count=x)",
            'node.resources = JobResourceConfiguration(instance_count=x, instance_type="32cpu128g")',
        ),
        settings,
    )
    # Without that, the value would reach the other step.
    check_left(
        V2 + TWO_STEPS,
        "which another step uses too",
        replace(settings, skip=frozenset({"set-resources"})),
    )


def test_a_job_of_its_own_shares_its_component_with_no_step() -> None:
    text = "from azure.ai.ml import command\n\n\ndef make(p):\n    job = command(command='x')\n"
    text += "    if p:\n        job.set_resources(properties=p)\n    return job\n"
    assert check_noop(text, Settings()) == ()
