"""The `distribution` of a job or step in code: what shares its cores, what follows the count, what `--kind` selects."""

from __future__ import annotations

import pytest

from arc_toolkit.azureml.settings import Settings
from tests.azureml.python.support import V2, check_noop, patch

HEAD = V2.replace("import dsl,", "import MpiDistribution, TensorFlowDistribution, command, dsl,")
STEP = HEAD + "\n@dsl.pipeline()\ndef p():\n    a = train()\n"
JOB = (
    HEAD
    + 'job = command(command="{}", environment="azureml:e:1", compute="c", instance_count=2{})\n'
)
COUNT = Settings(instance_count=3)


@pytest.mark.parametrize(
    ("lines", "number"),
    [
        ("a.distribution = MpiDistribution(process_count_per_instance=2)", "4"),
        ("a.distribution = {'type': 'mpi', 'process_count_per_instance': 4}", "2"),
        ("a.distribution = dict(type='mpi', process_count_per_instance=4)", "2"),
        (
            "a.distribution = MpiDistribution()\n    a.distribution.process_count_per_instance = 8",
            "1",
        ),
        ("two = MpiDistribution(process_count_per_instance=2)\n    a.distribution = two", "4"),
    ],
)
def test_processes_of_a_distribution_share_the_cores(lines: str, number: str) -> None:
    settings = Settings(instance_type="8cpu32g", threads="lightgbm")
    after = patch(f"{STEP}    {lines}\n", settings).after or b""
    assert f'"OMP_NUM_THREADS": "{number}"' in after.decode().replace("'", '"')


@pytest.mark.parametrize(
    "value", ["make()", "MpiDistribution(process_count_per_instance=n)", "MpiDistribution(**n)"]
)
def test_a_distribution_that_cannot_be_read_is_reported(value: str) -> None:
    settings = Settings(instance_type="8cpu32g", threads="lightgbm")
    result = patch(f"{STEP}    a.distribution = {value}\n", settings)
    assert b"OMP_NUM_THREADS" not in (result.after or b"")
    assert any(
        "processes per node" in finding.reason
        for finding in result.findings
        if finding.rule == "threads"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            JOB.format("x", ", distribution=TensorFlowDistribution(worker_count=2)"),
            "worker_count of command job is 2",
        ),
        (
            STEP
            + "    a.distribution = TensorFlowDistribution()\n    a.distribution.worker_count = 1\n",
            "worker_count of step `a` is 1",
        ),
    ],
)
def test_what_does_not_follow_the_count_is_reported(text: str, message: str) -> None:
    result = patch(text, COUNT)
    assert result.after is not None
    assert [finding.message for finding in result.findings if finding.severity == "warning"] == [
        message
    ]


def test_kind_distributed_is_whatever_has_a_distribution() -> None:
    settings = Settings(instance_type="big", kinds=("distributed",))
    text = (
        STEP
        + "    b = train()\n    b.distribution = MpiDistribution(process_count_per_instance=2)\n"
    )
    after = (patch(text, settings).after or b"").decode()
    assert "b.resources" in after
    assert "a.resources" not in after
    check_noop(STEP, settings)
