"""What is written is run with the real azure-ai-ml: pipelines are built, and their REST bodies looked at."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from arc_toolkit.azureml.settings import Settings
from tests.azureml.python.support import patch
from tests.support import unavailable

pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # the SDK and its dependencies warn at every turn
]

COMPONENT = """\
$schema: https://azuremlschemas.azureedge.net/latest/commandComponent.schema.json
name: train
type: command
inputs:
  lr: {type: number, default: 0.1}
outputs:
  model: {type: uri_folder}
command: echo ${{inputs.lr}} > ${{outputs.model}}
environment: azureml:lightgbm-env:1
"""
PIPELINE = '''\
from azure.ai.ml import Input, Output, command, load_component
from azure.ai.ml.dsl import pipeline
from azure.ai.ml.parallel import RunFunction, parallel_run_function
from azure.ai.ml.sweep import Choice

train = load_component(source=f"{folder}/train.yml")
echo = command(name="echo", command="echo ${{inputs.x}}", inputs={"x": 1}, environment="azureml:e:1")
score = parallel_run_function(
    name="score",
    inputs={"data": Input(type="uri_folder")},
    outputs={"out": Output(type="uri_folder")},
    input_data="${{inputs.data}}",
    mini_batch_size="1",
    max_concurrency_per_instance=4,
    task=RunFunction(code=folder, entry_script="s.py", environment="azureml:e:1"),
)


@pipeline(default_compute="cpu")
def p(lr=0.2):
    """Doc."""
    first = train(lr=lr)
    second = train(lr=lr)
    second.set_resources(instance_type="small", instance_count=1, shm_size="2g")
    said = echo(x=1)
    scores = score(data=first.outputs.model)
    trial = train(lr=Choice([0.1, 0.2]))
    tuned = trial.sweep(primary_metric="m", goal="minimize", max_total_trials=4, instance_type="small")


job = p()
'''


def run(text: str, settings: Settings, folder: Path) -> dict[str, dict[str, Any]]:
    """Patch, run, and give the REST form of each step."""
    try:
        import azure.ai.ml  # noqa: F401
    except ImportError:
        unavailable("azure-ai-ml is not installed")
    (folder / "train.yml").write_text(COMPONENT)
    (folder / "s.py").write_text("def run(x): return x\n")
    result = patch(f"folder = {str(folder)!r}\n{text}", settings, path=str(folder / "pipeline.py"))
    assert result.after is not None
    names: dict[str, Any] = {}
    exec(compile(result.after, "pipeline.py", "exec"), names)
    job = names["job"]
    assert job._validate().passed
    steps: dict[str, dict[str, Any]] = job._to_rest_object().properties.jobs
    return steps


def test_the_text_before_does_not_even_run() -> None:
    with pytest.raises(TypeError, match="instance_type"):
        exec(
            dedent(
                """\
                from azure.ai.ml import command

                trial = command(command="echo", environment="azureml:e:1")
                trial.sweep(primary_metric="m", goal="minimize", instance_type="small")
                """
            ),
            {},
        )


def test_literals_reach_every_step(tmp_path: Path) -> None:
    settings = Settings(
        instance_type="32cpu128g", instance_count=2, threads="lightgbm", compute="k8s"
    )
    steps = run(PIPELINE, settings, tmp_path)
    assert set(steps) == {"first", "second", "said", "score", "tuned"}
    for name, step in steps.items():
        resources = dict(step["resources"])
        assert resources.pop("instance_type") == "32cpu128g", name
        assert resources.pop("instance_count") == 2, name
        assert resources == ({"shm_size": "2g"} if name == "second" else {}), name
    prestep = "export MKL_NUM_THREADS=` get_cores ` NUMEXPR_NUM_THREADS=` get_cores ` OMP_NUM_THREADS=` get_cores `"
    for name in ("first", "second", "said"):
        assert steps[name]["environment_variables"] == {"AMLARC_PRESTEP": prestep}
    assert steps["score"]["environment_variables"]["OMP_NUM_THREADS"] == "8"


def test_exposed_parameters_are_bound_in_every_step(tmp_path: Path) -> None:
    settings = Settings(instance_type="32cpu128g", instance_count=2, expose_parameters=True)
    steps = run(PIPELINE, settings, tmp_path)
    for name, step in steps.items():
        assert step["resources"]["instance_type"] == "${{parent.inputs.instance_type}}", name
        assert step["resources"]["instance_count"] == "${{parent.inputs.instance_count}}", name


def test_exposed_parameters_have_their_defaults(tmp_path: Path) -> None:
    text = (
        PIPELINE
        + "inputs = {name: data._data for name, data in job.inputs.items()}\nassert inputs == {\n"
    )
    text += "    'lr': 0.2, 'instance_type': '32cpu128g', 'instance_count': 2\n}, inputs\n"
    run(
        text,
        Settings(instance_type="32cpu128g", instance_count=2, expose_parameters=True),
        tmp_path,
    )


def test_set_resources_no_longer_leaks_into_other_steps(tmp_path: Path) -> None:
    steps = run(PIPELINE, Settings(), tmp_path)
    assert steps["second"]["resources"] == {
        "instance_type": "small",
        "instance_count": 1,
        "shm_size": "2g",
    }
    assert not steps["first"].get("resources")
    assert steps["tuned"]["resources"] == {"instance_type": "small"}


def test_a_standalone_sweep_has_resources_and_the_variables_of_its_trial(tmp_path: Path) -> None:
    text = """\
from azure.ai.ml import command
from azure.ai.ml.sweep import Choice

work = command(command="echo ${{inputs.lr}}", inputs={"lr": 0.1}, environment="azureml:lightgbm:1")
trial = work(lr=Choice([0.1, 0.2]))
tuned = trial.sweep(compute="cpu", primary_metric="m", goal="minimize", max_total_trials=4)
"""
    settings = Settings(instance_type="32cpu128g", instance_count=2, threads="auto", compute="k8s")
    result = patch(text, settings, path=str(tmp_path / "sweep.py"))
    names: dict[str, Any] = {}
    exec(compile(result.after or b"", "sweep.py", "exec"), names)
    body = names["tuned"]._to_job()._to_rest_object().properties
    sent = body.as_dict()
    assert (sent["resources"]["instanceType"], sent["resources"]["instanceCount"]) == (
        "32cpu128g",
        2,
    )
    assert sent["computeId"] == "k8s"
    assert "AMLARC_PRESTEP" in sent["trial"]["environmentVariables"]


COPIES = """\
from azure.ai.ml import Input, command
from azure.ai.ml.dsl import pipeline
from azure.ai.ml.entities import JobResourceConfiguration
from azure.ai.ml.parallel import RunFunction, parallel_run_function

step = command(
    command="x",
    environment="azureml:e:1",
    distribution={"type": "pytorch"},
    instance_type="small",
    environment_variables={"A": "1"},
)
step.compute = "aks"
step.environment_variables["B"] = "2"
step.resources.instance_count = 2
score = parallel_run_function(
    inputs={"data": Input(type="uri_folder")},
    input_data="${{inputs.data}}",
    mini_batch_size="1",
    max_concurrency_per_instance=4,
    compute="aks",
    instance_type="small",
    environment_variables={"A": "1"},
    task=RunFunction(code=folder, entry_script="s.py", environment="azureml:e:1"),
)


@pipeline()
def p(data, n=3):
    copied = step()
    amended = step()
    amended.resources.instance_count = n
    amended.environment_variables["C"] = "3"
    replaced = step()
    replaced.resources = JobResourceConfiguration(instance_type="large")
    replaced.environment_variables = {"C": "3"}
    scores = score(data=data)
    tuned = step.sweep(primary_metric="m", goal="minimize", sampling_algorithm="random")


job = p(Input(type="uri_folder", path="azureml:d:1"))
"""


def test_a_step_copies_its_command_object(tmp_path: Path) -> None:
    """What the findings about `step = command(...)`, `a = step()` and `step.sweep(...)` take for granted."""
    try:
        import azure.ai.ml  # noqa: F401
    except ImportError:
        unavailable("azure-ai-ml is not installed")
    (tmp_path / "s.py").write_text("")
    space: dict[str, Any] = {"folder": str(tmp_path)}
    exec(COPIES, space)
    jobs = space["job"]._to_rest_object().properties.jobs
    both = {"instance_type": "small", "instance_count": 2}
    for name, resources, variables in (
        ("copied", both, {"A": "1", "B": "2"}),
        (
            "amended",
            both | {"instance_count": "${{parent.inputs.n}}"},
            {"A": "1", "B": "2", "C": "3"},
        ),
        ("replaced", {"instance_type": "large"}, {"C": "3"}),
        ("scores", {"instance_type": "small"}, {"A": "1"}),
    ):
        job = jobs[name]
        assert (job["computeId"], job["resources"], job["environment_variables"]) == (
            "aks",
            resources,
            variables,
        )
    assert jobs["copied"]["distribution"]["distribution_type"] == "PyTorch"
    assert jobs["scores"]["max_concurrency_per_instance"] == 4
    assert jobs["scores"]["task"]["environment"].endswith("e:1")
    assert jobs["tuned"]["computeId"] == "aks"
    trial = jobs["tuned"]["trial"]["properties"]["componentSpec"]
    assert trial["resources"] == both
