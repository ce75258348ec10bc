"""A v1 HyperDriveConfig over a ScriptRunConfig as a v2 sweep job: what v1 would run, followed through variables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from arc_toolkit.azureml.azureml_files import patch_yaml
from arc_toolkit.azureml.references import ProjectFiles
from arc_toolkit.azureml.settings import Settings
from tests.migrate.support import azure, body, convert_python, ledger_lines, patch_file, read

HEAD = """\
from azureml.core import Dataset, Environment, ScriptRunConfig
from azureml.core.compute import ComputeTarget
from azureml.core.runconfig import MpiConfiguration, PyTorchConfiguration, TensorflowConfiguration
from azureml.train.hyperdrive import BanditPolicy, HyperDriveConfig, PrimaryMetricGoal, RandomParameterSampling
from azureml.train.hyperdrive.parameter_expressions import choice, loguniform
"""
# As in the public notebooks: every part is a variable.
NOTEBOOK = (
    HEAD
    + """
folder = "./tf"
try:
    target = ComputeTarget(workspace=ws, name="k8s")
except Exception:
    target = ComputeTarget.create(ws, "k8s", sizes)
env = Environment.get(ws, name="tf", version="4")
data = Dataset.get_by_name(ws, "mnist").as_named_input("images").as_mount()
args = ["--data", data, "--epochs", 3]
src = ScriptRunConfig(folder, script="train.py", arguments=args, compute_target=target, environment=env)
batch = choice(25, 50)
space = {"--batch-size": batch, "lr": loguniform(-6, -1)}
ps = RandomParameterSampling(space)
policy = BanditPolicy(evaluation_interval=2, slack_factor=0.1)
goal = PrimaryMetricGoal.MAXIMIZE
runs = 2
hd_config = HyperDriveConfig(ps, "acc", goal, runs * 4, max_concurrent_runs=runs, policy=policy, run_config=src)
"""
)
JOB = {
    "$schema": "https://azuremlschemas.azureedge.net/latest/sweepJob.schema.json",
    "type": "sweep",
    "display_name": "hd_config",
    "compute": "azureml:k8s",
    "inputs": {"images": {"type": "mltable", "path": "azureml:mnist@latest", "mode": "eval_mount"}},
    "trial": {
        "code": "./tf",
        "command": "python train.py --data ${{inputs.images}} --epochs 3 "
        "--batch-size ${{search_space.batch_size}} --lr ${{search_space.lr}}",
        "environment": "azureml:tf:4",
    },
    "sampling_algorithm": "random",
    "objective": {"goal": "maximize", "primary_metric": "acc"},
    "search_space": {
        "batch_size": {"type": "choice", "values": [25, 50]},
        "lr": {"type": "loguniform", "min_value": -6, "max_value": -1},
    },
    # v1's default is a week.
    "limits": {"max_total_trials": 8, "max_concurrent_trials": 2, "timeout": 604800},
    "early_termination": {
        "type": "bandit",
        "slack_factor": 0.1,
        "evaluation_interval": 2,
        "delay_evaluation": 0,
    },
    "resources": {"instance_type": "defaultinstancetype", "instance_count": 1},
}


def job(text: str, **settings: Any) -> tuple[dict[str, Any], str]:
    """The job that is written for a text, and what is said about it."""
    result = convert_python(text, **settings)
    assert (result.after, result.refused) == (None, None)
    [(path, content)] = result.new_files
    assert path == "p.hd_config.sweep.yml"
    data = yaml.safe_load(content)
    assert isinstance(data, dict)
    [finding] = result.findings
    return data, f"{finding.severity}: {finding.message}\n{ledger_lines(finding)}"


def reason(text: str) -> str:
    result = convert_python(text)
    assert (result.after, result.new_files) == (None, ())
    [finding] = result.findings
    assert finding.message == "the sweep is not rewritten"
    return finding.reason


def test_variables_are_followed_and_the_command_ends_with_the_swept_parameters() -> None:
    data, notes = job(NOTEBOOK)
    assert data == JOB
    assert "warning" not in notes


def test_distributions_of_a_star_import() -> None:
    star = NOTEBOOK.replace("import choice, loguniform", "import *")
    assert job(star)[0] == JOB


def test_what_is_asked_for_wins() -> None:
    data, _ = job(NOTEBOOK, instance_type="32cpu128g", instance_count=3, compute="arc")
    assert data["resources"] == {"instance_type": "32cpu128g", "instance_count": 3}
    assert data["compute"] == "azureml:arc"


def test_what_v2_has_no_place_for_is_in_the_ledger() -> None:
    text = NOTEBOOK.replace("run_config=src)", "run_config=src, resume_from=[before])")
    text = text.replace(
        "batch = ",
        "src.run_config.docker.use_docker = True\nsrc.run_config.data_references = refs\nbatch = ",
    )
    data, notes = job(text)
    assert data == JOB
    assert notes.startswith("warning: HyperDriveConfig is written as a v2 sweep job")
    assert "lost     HyperDriveConfig.resume_from: v2 starts every sweep anew" in notes
    assert "lost     src.run_config.data_references: v2 has no place for it" in notes
    assert "dropped  RunConfiguration.docker.use_docker: v2 always runs in a container" in notes
    assert notes.count("lost  ") == 2


def test_settings_of_the_run_configuration_after_it_is_made_count() -> None:
    text = NOTEBOOK.replace(
        ", compute_target=target, environment=env)", ")\nsrc.run_config.target = target"
    )
    text = text.replace(
        "batch = ", "src.run_config.environment = env\nsrc.run_config.node_count = 2\nbatch = "
    )
    data, _ = job(text)
    assert (data["compute"], data["trial"]["environment"]) == ("azureml:k8s", "azureml:tf:4")
    assert data["resources"]["instance_count"] == 2


@pytest.mark.parametrize(
    ("config", "distribution", "count"),
    [
        ("MpiConfiguration(4, node_count=2)", {"type": "mpi", "process_count_per_instance": 4}, 2),
        (
            "PyTorchConfiguration(process_count=8, node_count=2)",
            {"type": "pytorch", "process_count_per_instance": 4},
            2,
        ),
        (
            "PyTorchConfiguration(node_count=2)",
            {"type": "pytorch", "process_count_per_instance": 1},
            2,
        ),
        (
            "TensorflowConfiguration(worker_count=3)",
            {"type": "tensorflow", "worker_count": 3, "parameter_server_count": 1},
            3,
        ),
    ],
)
def test_distribution(config: str, distribution: dict[str, Any], count: int) -> None:
    data, _ = job(
        NOTEBOOK.replace("environment=env)", f"environment=env, distributed_job_config={config})")
    )
    assert data["trial"]["distribution"] == distribution
    assert data["resources"]["instance_count"] == count


def test_a_command_and_the_limit_of_a_trial() -> None:
    text = NOTEBOOK.replace(
        'script="train.py", arguments=args', 'command=["bash", "run me.sh", data]'
    )
    data, _ = job(text.replace("environment=env)", "environment=env, max_run_duration_seconds=60)"))
    assert data["trial"]["command"].startswith("bash 'run me.sh' ${{inputs.images}} --batch-size")
    assert data["limits"]["trial_timeout"] == 60


def test_values_that_the_code_does_not_say_are_reported() -> None:
    text = NOTEBOOK.replace('"--epochs", 3', '"--epochs", options.epochs').replace(
        'name="tf"', "name=options.env"
    )
    data, notes = job(text)
    assert "--epochs SET_ME --batch-size" in data["trial"]["command"]
    assert data["trial"]["environment"] == "azureml:SET_ME@latest"
    assert "by hand  ScriptRunConfig.arguments -> trial.command: options.epochs" in notes
    assert "by hand  ScriptRunConfig.environment -> trial.environment: env" in notes


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("runs * 4", "options.runs", "max_total_runs is not a plain value: options.runs"),
        ("choice(25, 50)", "choice(sizes)", "a value of batch_size is not a plain value: sizes"),
        ("run_config=src", "estimator=src", "has the estimator src to run: only a run_config"),
        (
            'script="train.py"',
            "script=options.script",
            "the script of ScriptRunConfig cannot be read",
        ),
        (
            "space = {",
            "space = {**more, ",
            "** in RandomParameterSampling is not a hyperdrive distribution",
        ),
        ("= BanditPolicy(", "= make(", "policy is not a hyperdrive call: make("),
        ("runs = 2", "for runs in (1, 2):\n    pass", "max_total_runs is not a plain value"),
    ],
)
def test_what_cannot_be_read_is_refused(old: str, new: str, words: str) -> None:
    assert old in NOTEBOOK
    assert words in reason(NOTEBOOK.replace(old, new, 1))


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_job_loads_and_sends_what_it_says(tmp_path: Path) -> None:
    ml = azure()
    (tmp_path / "tf").mkdir()
    [(_, content)] = convert_python(NOTEBOOK, instance_type="t").new_files
    path = tmp_path / "job.yml"
    path.write_bytes(content)
    rest = body(ml.load_job(path))
    assert rest["searchSpace"] == {
        "batch_size": ["choice", [[25, 50]]],
        "lr": ["loguniform", [-6, -1]],
    }
    assert rest["limits"]["timeout"] == "P7D"
    assert rest["trial"]["command"] == JOB["trial"]["command"]  # type: ignore[index]
    assert rest["resources"]["instanceType"] == "t"
    assert rest["inputs"]["images"]["mode"] == "EvalMount"


@pytest.mark.parametrize(
    "settings", [{}, {"instance_type": "t", "instance_count": 2, "compute": "arc"}]
)
def test_a_second_run_finds_nothing_to_set_in_the_job(settings: dict[str, Any]) -> None:
    asked = Settings(sweep_to_v2=True, **settings)
    [(path, content)] = patch_file("p.py", NOTEBOOK.encode(), asked).new_files
    assert patch_yaml(path, content, asked, ProjectFiles(read)).after is None
    trial = yaml.safe_load(content)["trial"]
    assert trial.get("resources", {}).get("instance_type") == settings.get("instance_type")


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ("MpiConfiguration(node_count=0)", "distributed_job_config"),
        ('PyTorchConfiguration(process_count="8")', "distributed_job_config"),
        ("TensorflowConfiguration(**more)", "distributed_job_config"),
        ('None)\nsrc.run_config.node_count = "two"\nprint(', "node_count"),
    ],
)
def test_a_count_that_is_not_a_number_is_written_by_hand(config: str, field: str) -> None:
    text = NOTEBOOK.replace(
        "environment=env)", f"environment=env, distributed_job_config={config})"
    )
    data, notes = job(text)
    assert data["resources"]["instance_count"] == 1
    assert "distribution" not in data["trial"]
    assert any(
        line.startswith("by hand") and f".{field} -> " in line for line in notes.splitlines()
    )
