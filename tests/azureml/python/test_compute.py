"""`--compute`: the default of the pipeline, the step's own, or each step."""

from __future__ import annotations

from arc_toolkit.azureml.settings import Settings
from tests.azureml.python.support import V2, V15, check_left, check_noop, check_transformed

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
