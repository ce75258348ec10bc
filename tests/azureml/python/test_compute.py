"""`--compute`: the default of the pipeline, the step's own, or each step."""

from __future__ import annotations

import pytest

from arc_toolkit.azureml.settings import Settings
from tests.azureml.python.support import V2, V15, check_left, check_noop, check_transformed, patch

COMPUTE = Settings(compute="k8s")
STEP = "def p(x):\n    node = train(x=x)\n"


def test_the_default_of_the_decorator_is_replaced_and_steps_stay() -> None:
    text = V2 + '\n@dsl.pipeline(default_compute="cpu")\n' + STEP
    check_transformed(text, text.replace('"cpu"', '"k8s"'), COMPUTE)


def test_the_default_of_the_job_is_replaced() -> None:
    text = (
        V2
        + "\n@dsl.pipeline()\n"
        + STEP
        + '\n\njob = p(x=1)\njob.settings.default_compute = "cpu"\n'
    )
    check_transformed(text, text.replace('"cpu"', '"k8s"'), COMPUTE)


def test_settings_of_other_objects_are_none_of_ours() -> None:
    text = (
        V2
        + '\n@dsl.pipeline(default_compute="k8s")\n'
        + STEP
        + '\n\nother.settings.default_compute = "cpu"\n'
    )
    assert [finding for finding in check_noop(text, COMPUTE) if finding.rule == "compute"] == []


def test_a_step_with_its_own_compute_is_changed_there() -> None:
    text = V2 + '\n@dsl.pipeline(default_compute="k8s")\n' + STEP + '    node.compute = "gpu"\n'
    check_transformed(text, text.replace('"gpu"', '"k8s"'), COMPUTE)


def test_without_any_default_each_step_gets_it() -> None:
    text = V2 + "\n@dsl.pipeline()\n" + STEP
    check_transformed(text, text + '    node.compute = "k8s"\n', COMPUTE)


def test_command_objects_and_sweeps_take_the_argument() -> None:
    text = """\
from azure.ai.ml import command

work = command(command="echo")
other = command(command="echo", compute="cpu")
tuned = work(x=Choice([1])).sweep(primary_metric="m", goal="g", compute="cpu")
"""
    check_transformed(
        text,
        text.replace('"cpu"', '"k8s"').replace('command="echo")', 'command="echo", compute="k8s")'),
        COMPUTE,
    )


def test_a_command_object_of_a_pipeline_with_a_default_needs_none() -> None:
    text = """\
from azure.ai.ml import command, dsl

work = command(command="echo")


@dsl.pipeline(default_compute="k8s")
def p(x):
    node = work(x=x)
"""
    check_noop(text, COMPUTE)


def test_bound_computes_are_left() -> None:
    text = V2 + "\n@dsl.pipeline(default_compute=cluster)\n" + STEP
    check_left(text, "it is bound to cluster", COMPUTE, line=6)
    check_left(
        "from azure.ai.ml import command\n\nwork = command(compute=cluster)\n",
        "bound to cluster",
        COMPUTE,
    )


CONSTANT = """\
from azure.ai.ml import command

CLUSTER = "gpu1"
a = command(command="x", compute=CLUSTER)
b = command(command="y", compute=CLUSTER)
"""


def test_a_constant_that_only_computes_use_is_changed_where_it_is_defined() -> None:
    check_transformed(CONSTANT, CONSTANT.replace('"gpu1"', '"k8s"'), COMPUTE)


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        (CONSTANT + "print(CLUSTER)\n", COMPUTE),
        (CONSTANT + "other = command(command='z', compute='k8s', name=CLUSTER)\n", COMPUTE),
    ],
)
def test_a_constant_with_other_uses_stays(text: str, settings: Settings) -> None:
    check_transformed(text, text.replace("compute=CLUSTER", 'compute="k8s"'), settings)


def test_a_constant_of_a_step_that_is_not_selected_stays() -> None:
    check_transformed(
        CONSTANT,
        CONSTANT.replace('"y", compute=CLUSTER', '"y", compute="k8s"'),
        Settings(compute="k8s", steps=("b",)),
    )


def test_a_compute_that_is_known_only_at_run_time_is_a_warning() -> None:
    text = CONSTANT.replace('"gpu1"', "input()")
    result = patch(text, Settings(instance_type="t", compute="k8s"))
    warnings = [item for item in result.findings if item.severity == "warning"]
    assert {item.reason for item in warnings} == {"it is bound to CLUSTER"}


def test_a_selected_step_moves_alone() -> None:
    head = V2 + '\n@dsl.pipeline(default_compute="cpu")\ndef p(x):\n'
    text = head + "    a = train(x=x)\n    b = train(x=x)\n"
    check_transformed(text, text + '    b.compute = "k8s"\n', Settings(compute="k8s", steps=("b",)))


def test_v15_targets() -> None:
    text = V15 + '\n@dsl.pipeline(default_compute_target="cpu")\n' + STEP
    check_transformed(text, text.replace('"cpu"', '"k8s"'), COMPUTE)
    text = V15 + "\n@dsl.pipeline()\n" + STEP
    check_transformed(text, text + '    node.runsettings.target = "k8s"\n', COMPUTE)
    check_transformed(
        text + '    node.runsettings.target = "cpu"\n',
        text + '    node.runsettings.target = "k8s"\n',
        COMPUTE,
    )
    configure = "    node.runsettings.configure(target='{}', x=1)\n"
    check_transformed(
        text + configure.format("cpu"), text + configure.replace("'{}'", '"k8s"'), COMPUTE
    )


def test_an_ignore_keeps_the_compute() -> None:
    text = "from azure.ai.ml import command\n\n# arc-toolkit: ignore[compute] a VM\nw = command(compute='a')\n"
    assert check_noop(text, COMPUTE) == ()
