"""Every name of the SDK tables matters: without it, one of these programs would be read in another way."""

from __future__ import annotations

import pytest

from arc_toolkit.azureml.settings import Settings
from tests.azureml.python.support import TYPE, V2, V15, check_left, check_noop, patch

PIPELINE = "\n@dsl.pipeline\ndef p(x):\n    node = train(x=x)\n    y = node.outputs.z\n"
V2_STEP = 'node.resources = JobResourceConfiguration(instance_type="32cpu128g")'
V15_STEP = 'node.runsettings.resource_layout.configure(instance_type="32cpu128g")'


def after(text: str, settings: Settings = TYPE) -> str:
    result = patch(text, settings)
    return (result.after or b"").decode()


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (
            "from azure.ai.ml import command\njob = command(command='x')\n",
            "command(command='x', instance_type=",
        ),
        (
            "from azure.ai.ml.parallel import parallel_run_function\njob = parallel_run_function(name='x')\n",
            "parallel_run_function(name='x', instance_type=",
        ),
    ],
)
def test_calls_that_make_a_job(made: str, expected: str) -> None:
    assert expected in after(made)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("azure.ai.ml.entities", "CommandJob"),
        ("azure.ai.ml.entities._job.command_job", "CommandJob"),
        ("azure.ai.ml.sweep", "SweepJob"),
        ("azure.ai.ml.entities._job.sweep.sweep_job", "SweepJob"),
        ("azure.ai.ml.parallel", "ParallelJob"),
        ("azure.ai.ml.entities._job.parallel.parallel_job", "ParallelJob"),
    ],
)
def test_entities_that_are_jobs(module: str, name: str) -> None:
    made = after(f"from {module} import {name}\njob = {name}(compute='c')\n")
    assert f"{name}(compute='c', resources=JobResourceConfiguration(instance_type=" in made


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("azureml.core", "ScriptRunConfig"),
        ("azureml.core.script_run_config", "ScriptRunConfig"),
        ("azureml.train.estimator", "Estimator"),
        ("azureml.train.dnn", "PyTorch"),
        ("azureml.train.dnn", "TensorFlow"),
        ("azureml.train.sklearn", "SKLearn"),
        ("azureml.pipeline.steps", "PythonScriptStep"),
        ("azureml.pipeline.steps", "MpiStep"),
        ("azureml.pipeline.steps", "EstimatorStep"),
        ("azureml.pipeline.steps", "CommandStep"),
    ],
)
def test_jobs_of_sdk_v1_are_reported_with_what_can_be_done(module: str, name: str) -> None:
    text = f"from {module} import {name}\n\nrun = {name}(source_directory='.')\nrest = [{name}()]\n"
    found = [
        finding
        for finding in check_noop(text, TYPE)
        if "kubernetescompute.instance_type" in finding.reason
    ]
    assert [finding.line for finding in found] == [3, 4]


def test_a_sweep_job_needs_no_other_word_of_the_sdk() -> None:
    text = "from azure.ai.ml.entities import SweepJob\n\njob = SweepJob(trial=t)\n"
    assert "SweepJob(trial=t, resources=JobResourceConfiguration(instance_type=" in after(text)


def test_a_sweep_component_of_sdk_v15_takes_no_instance_type() -> None:
    made = "from azure.ml.component.dsl import sweep_component\n@sweep_component()\ndef train(x): ...\n"
    check_left(
        f"from azure.ml.component import dsl\n{made}{PIPELINE}", "takes no instance type", TYPE
    )


@pytest.mark.parametrize("name", ["copy_data", "import_data", "export_data"])
def test_data_transfer_steps_take_no_settings(name: str) -> None:
    text = f"from azure.ai.ml import dsl\nfrom azure.ai.ml.data_transfer import {name}\n\n@dsl.pipeline\ndef p(x):\n"
    check_left(text + f"    node = {name}(inputs=x)\n", "does not run on Kubernetes", TYPE)


@pytest.mark.parametrize(
    "made",
    [
        "from azure.ai.ml import load_component\ntrain = load_component('t.yml')",
        "from azure.ai.ml.entities import load_component\ntrain = load_component('t.yml')",
        "from azure.ai.ml.entities import CommandComponent\ntrain = CommandComponent(command='x')",
        "from azure.ai.ml.entities import ParallelComponent\ntrain = ParallelComponent(name='x')",
        "from mldesigner import command_component\n@command_component\ndef train(x): ...",
        "from azure.ai.ml.dsl import command_component\n@command_component\ndef train(x): ...",
    ],
)
def test_components_of_sdk_v2(made: str) -> None:
    assert V2_STEP in after(f"from azure.ai.ml import dsl\n{made}\n{PIPELINE}")


@pytest.mark.parametrize(
    "made",
    [
        "from azure.ml.component.dsl import command_component\n@command_component\ndef train(x): ...",
        "from azure.ml.component import Component\ntrain = Component.from_yaml(ws, 't.yml')",
        "from azure.ml.component import Component\ntrain = Component.from_func(ws, f)",
        "from azure.ml.component import Component\ntrain = Component.from_notebook(ws, 'n.ipynb')",
        "from azure.ml.component.component import Component\ntrain = Component.from_yaml(ws, 't.yml')",
    ],
)
def test_components_of_sdk_v15(made: str) -> None:
    assert V15_STEP in after(f"from azure.ml.component import dsl\n{made}\n{PIPELINE}")


@pytest.mark.parametrize(
    "module",
    [
        "azure.ai.ml.dsl",
        "azure.ai.ml.dsl._pipeline_decorator",
        "mldesigner.dsl",
        "azure.ml.component.dsl",
        "azure.ml.component.pipeline",
    ],
)
def test_decorators_of_pipelines(module: str) -> None:
    """In a pipeline, a call of unknown origin is a step; anywhere else it is not."""
    text = f"from {module} import pipeline\n\n@pipeline\ndef p(x):\n    node = make(x)\n    y = node.outputs.z\n"
    check_left(text, "made by make()", TYPE)
    assert patch(text.replace("@pipeline\n", ""), TYPE).findings == ()


@pytest.mark.parametrize(
    "made",
    [
        "from azure.ml.component import Component\ntrain = Component.load(ws, 't')",
        "from azure.ml.component.component import Component\ntrain = Component.load(ws, 't')",
        "from azure.ml.component import Component\ntrain = Component.batch_load(ws, ['t'])",
    ],
)
def test_components_of_a_workspace_are_of_unknown_kind(made: str) -> None:
    check_left(
        f"from azure.ml.component import dsl\n{made}\n{PIPELINE}", "loaded from a workspace", TYPE
    )


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (
            "from azure.ai.ml.entities import SparkComponent\ntrain = SparkComponent(name='x')",
            "VM sizes",
        ),
    ],
)
def test_kinds_without_an_instance_type(made: str, reason: str) -> None:
    text = f"from azure.ai.ml import dsl\n{made}\n{PIPELINE}    node.resources = JobResourceConfiguration()\n"
    check_left(text, reason, TYPE)


def test_a_spark_job_is_reported() -> None:
    text = "from azure.ai.ml import command, dsl, spark\n\n@dsl.pipeline\ndef p(x):\n    node = spark(code='x')\n"
    check_left(text, "VM sizes", TYPE)


@pytest.mark.parametrize("name", ["JobResourceConfiguration", "ResourceConfiguration"])
def test_classes_of_resources(name: str) -> None:
    text = (
        f"from azure.ai.ml import dsl, load_component\nfrom azure.ai.ml.entities import {name}\n"
        f"train = load_component('t.yml')\n{PIPELINE}    node.resources = {name}(instance_count=2)\n"
    )
    assert f'{name}(instance_count=2, instance_type="32cpu128g")' in after(text)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("azureml.pipeline.steps", "ParallelRunConfig"),
        ("azureml.pipeline.steps", "ParallelRunStep"),
        ("azureml.pipeline.steps.parallel_run_config", "ParallelRunConfig"),
        ("azureml.pipeline.steps.parallel_run_step", "ParallelRunStep"),
        ("azureml.contrib.pipeline.steps", "ParallelRunConfig"),
        ("azureml.contrib.pipeline.steps", "ParallelRunStep"),
    ],
)
def test_parallel_run_steps_of_sdk_v1(module: str, name: str) -> None:
    [finding] = patch(f"from {module} import {name}\nmade = {name}(name='s')\n", TYPE).findings
    assert finding.rule == "prs-instance-type"


@pytest.mark.parametrize(
    "statement",
    [
        "node.resources = JobResourceConfiguration()",
        "node.resources.instance_type = 'old'",
        "node.resources.instance_count = 1",
        "node.set_resources(instance_count=1)",
    ],
)
def test_statements_that_prove_a_step_of_sdk_v2(statement: str) -> None:
    text = (
        V2.replace("train =", "other =")
        + PIPELINE.replace("train(", "make(")
        + f"    {statement}\n"
    )
    assert '"32cpu128g"' in after(text)


@pytest.mark.parametrize(
    "statement",
    [
        "configure(instance_count=1)",
        "instance_type = 'old'",
        "instance_count = 1",
        "node_count = 1",
    ],
)
def test_statements_that_prove_a_step_of_sdk_v15(statement: str) -> None:
    text = V15.replace("train =", "other =") + PIPELINE.replace("train(", "make(")
    assert '"32cpu128g"' in after(f"{text}    node.runsettings.resource_layout.{statement}\n")


@pytest.mark.parametrize(
    "use",
    [
        "node.environment_variables = {}",
        "node.distribution = None",
        "node.limits = None",
        "node.compute = 'c'",
        "node.resources.shm_size = '2g'",
        "node.set_resources.x = 1",
        "node.runsettings.priority = 1",
        "node.sweep(a=1)",
        "y = node.outputs.z",
    ],
)
def test_uses_that_only_a_step_has(use: str) -> None:
    """The call that made it is unknown, so it is reported and not changed."""
    text = V2 + f"\n@dsl.pipeline\ndef p(x):\n    node = make(x)\n    {use}\n"
    check_left(text, "made by make()", TYPE)


HARMLESS = [
    "print",
    "display",
    "append",
    "extend",
    "add",
    "create_or_update",
    "submit",
    "validate",
    "len",
    "repr",
    "str",
    "type",
    "isinstance",
    "id",
    "vars",
    "dir",
    "pprint",
    "info",
    "debug",
    "Pipeline",
    "condition",
    "if_else",
    "do_while",
    "parallel_for",
    "stream",
    "begin_create_or_update",
    "archive",
]


@pytest.mark.parametrize("call", HARMLESS)
def test_calls_that_may_take_a_step(call: str) -> None:
    text = V2 + PIPELINE + f"    thing.{call}(node)\n"
    assert V2_STEP in after(text)


def test_any_other_call_may_change_its_settings() -> None:
    check_left(V2 + PIPELINE + "    thing.configure(node)\n", "a helper, thing.configure()", TYPE)


@pytest.mark.parametrize(
    "text",
    [
        "from azure.ai import ml\njob = ml.command(command='x')\n",
        "from azure.ml import component\nnode = component.Component.from_yaml(ws, 't.yml')(x=1)\n",
        "from azure.ai.ml import load_component\ntrain = load_component('t.yml')\nnode = train(x=1)\n",
        "from azure.ai.ml.entities import ParallelComponent\ntrain = ParallelComponent(name='x')\nnode = train(x=1)\n",
        "from azure.ai.ml import x\nnode = make()\nnode.set_resources(instance_count=2)\n",
        "from azure.ai.ml import x\nnode = make()\nnode.runsettings.resource_layout.instance_type = 1\n",
        "import mldesigner\n@mldesigner.command_component\ndef train(x): ...\nnode = train(x=1)\n",
    ],
)
def test_files_that_are_looked_into(text: str) -> None:
    """A file without a key word and an action is not even parsed."""
    assert '"32cpu128g"' in after(text)


def test_sweeps_are_looked_into_without_any_other_word() -> None:
    text = "from azure.ai.ml import x\njob = x.Command()\nswept = job.sweep(instance_type='x')\n"
    assert patch(text, TYPE).skipped is None


@pytest.mark.parametrize(
    ("imported", "prefix"),
    [
        (
            "from azureml.train.hyperdrive import HyperDriveConfig, RandomParameterSampling, choice",
            "",
        ),
        ("from azureml.train import hyperdrive", "hyperdrive."),
    ],
)
def test_hyperdrive_is_looked_into_without_any_other_word(imported: str, prefix: str) -> None:
    text = (
        f"{imported}\nconfig = {prefix}HyperDriveConfig("
        f"hyperparameter_sampling={prefix}RandomParameterSampling({{'a': {prefix}choice(1, 2)}}))\n"
    )
    assert [finding.rule for finding in patch(text, Settings(sweep_to_v2=True)).findings] == [
        "sweep-to-v2"
    ]


def test_parallel_run_configs_are_looked_into_without_any_other_word() -> None:
    text = "from azure.ai.ml import x\nfrom azureml.steps import ParallelRunStep\n"
    assert patch(text, TYPE).skipped is None
