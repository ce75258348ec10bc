"""Every argument of the real classes of SDK v1 and v1.5 has a row, and every row ends in the ledger of a conversion."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
import yaml

from arc_toolkit.azureml.settings import Settings
from arc_toolkit.edit.files.edits import Refused
from arc_toolkit.findings import FileResult, LedgerOutcome
from arc_toolkit.migrate.ledger import Ledger, argument_rows, signature
from arc_toolkit.migrate.search_space import DISTRIBUTIONS, POLICIES
from tests.azureml.python.support import patch
from tests.migrate.support import (
    SWEEP,
    azure,
    body,
    convert,
    convert_python,
    ledger_lines,
    spec,
)
from tests.support import Result

TABLE = Path(__file__).parent / "data" / "v1_signatures.csv"
# The name of a signature -> the name in the table of arguments.
SOURCES = {
    "SweepComponentDefinition": "SweepComponent",
    "CommandComponentDefinition": "trial",
    "DistributedComponentDefinition": "trial",
}
# `Component.sweep` of v1.5 sets these run settings.
SWEEP_SETTINGS = {
    "algorithm": "sweep.algorithm",
    "primary_metric": "sweep.objective.primary_metric",
    "goal": "sweep.objective.goal",
    "max_total_trials": "sweep.limits.max_total_trials",
    "max_concurrent_trials": "sweep.limits.max_concurrent_trials",
    "timeout_minutes": "sweep.limits.timeout_minutes",
    "early_termination": "sweep.early_termination",
}


def signatures() -> list[tuple[str, tuple[str, ...]]]:
    """The real ones, as `scripts/refresh_v1_signatures.py` reads them."""
    with open(TABLE, encoding="utf-8") as stream:
        rows = csv.DictReader(line for line in stream if not line.startswith("#"))
        return [(row["name"], tuple(row["arguments"].split())) for row in rows]


@pytest.mark.parametrize(("name", "arguments"), signatures())
def test_every_argument_of_the_real_classes_has_a_row(
    name: str, arguments: tuple[str, ...]
) -> None:
    policies = {policy.v2_class: policy.v1_order for policy in POLICIES.values()}
    if name in DISTRIBUTIONS:
        expected = ("values",) if arguments == ("*options",) else arguments
        assert DISTRIBUTIONS[name].keys == expected
    elif name in policies or name == "NoTerminationPolicy":
        assert policies.get(name, ()) == arguments
    elif name == "Component.sweep":
        assert {SWEEP_SETTINGS[item] for item in arguments} <= set(signature("runsettings"))
    else:
        source = SOURCES.get(name, name.rpartition(".")[2])
        rows = signature(source)
        assert [item for item in arguments if item not in rows] == []
        if name == source:  # positional arguments are read in this order
            assert rows[: len(arguments)] == arguments


def test_every_row_says_where_it_goes_or_why_not() -> None:
    for source, rows in argument_rows().items():
        for argument, row in rows.items():
            assert row.outcome in {*get_args(LedgerOutcome), "refused"}, (source, argument)
            assert bool(row.becomes) == (row.outcome == "mapped"), (source, argument)
            assert row.becomes or row.reason, (source, argument)


def test_every_argument_of_a_call_is_one_entry_and_the_worse_outcome_counts() -> None:
    ledger = Ledger()
    ledger.read("ParallelRunConfig", signature("ParallelRunConfig"))
    assert [entry.argument for entry in ledger.entries] == list(signature("ParallelRunConfig"))
    ledger.by_hand("node_count", "nodes")
    ledger.note("node_count", "and more")
    [entry] = [entry for entry in ledger.entries if entry.argument == "node_count"]
    assert (entry.outcome, entry.reason) == ("by hand", "nodes; and more")
    ledger.read("ParallelRunConfig", ["surprise"])
    assert "lost     ParallelRunConfig.surprise: SDK v1 has no such argument" in [
        entry.text.partition(": v2 has no")[0] for entry in ledger.entries
    ]
    with pytest.raises(Refused, match="only a run_config that is a ScriptRunConfig"):
        ledger.read("HyperDriveConfig", ["estimator"])


def test_a_call_with_every_argument_has_an_entry_for_each() -> None:
    def call(source: str, **values: str) -> str:
        names = [name for name, row in argument_rows()[source].items() if row.outcome != "refused"]
        return ", ".join(f"{name}={values.get(name, 'unknown')}" for name in names)

    sampling = 'RandomParameterSampling({"a": choice(1)}, {})'
    numbers = dict.fromkeys(("max_total_runs", "max_concurrent_runs", "max_duration_minutes"), "1")
    sweep = call(
        "HyperDriveConfig",
        hyperparameter_sampling=sampling,
        primary_metric_name='"m"',
        primary_metric_goal="PrimaryMetricGoal.MINIMIZE",
        policy="None",
        run_config="src",
        **numbers,
    )
    script = call("ScriptRunConfig", script='"t.py"', arguments="[]", command="[]")
    text = f"""\
from azureml.core import ScriptRunConfig
from azureml.pipeline.steps import ParallelRunConfig, ParallelRunStep
from azureml.train.hyperdrive import *
config = ParallelRunConfig({call("ParallelRunConfig")})
step = ParallelRunStep({call("ParallelRunStep", parallel_run_config="config")})
src = ScriptRunConfig({script.replace("command=[]", 'command=["a"]')})
hd = HyperDriveConfig({sweep})
"""
    findings = patch(text, Settings(prs_to_v2=True, sweep_to_v2=True)).findings
    entries = {(entry.source, entry.argument) for item in findings for entry in item.ledger}
    for source in ("ParallelRunConfig", "ParallelRunStep", "ScriptRunConfig", "HyperDriveConfig"):
        rows = argument_rows()[source].items()
        given = {
            (source, name)
            for name, row in rows
            if row.outcome != "refused" and (source, name) != ("HyperDriveConfig", "policy")
        }
        assert given <= entries


# --- what was lost in silence ---

PRS = """\
from azureml.core import Dataset, Datastore, Environment, Workspace
from azureml.data import OutputFileDatasetConfig
from azureml.pipeline.core import PipelineData
from azureml.pipeline.steps import ParallelRunConfig, ParallelRunStep

ws = Workspace.from_config()
store = Datastore.get(ws, "lake")
env = ENVIRONMENT
out = OUTPUT
side = Dataset.get_by_name(ws, "labels").as_named_input("side").as_mount("/mnt/labels")
rows = INPUT
config = ParallelRunConfig(env, "score.py", 10, "append_row", "k8s", 2, mini_batch_size="5")
step = ParallelRunStep("score", config, [rows], out, [side])
"""


def prs(
    *,
    output: str = 'PipelineData("out")',
    environment: str = '"e"',
    data: str = 'Dataset.get_by_name(ws, "rows").as_named_input("rows")',
) -> tuple[dict[str, object], str]:
    text = PRS.replace("ENVIRONMENT", environment).replace("OUTPUT", output).replace("INPUT", data)
    result = patch(text, Settings(prs_to_v2=True))
    [finding] = [item for item in result.findings if item.rule == "prs-to-v2"]
    [(_, content)] = result.new_files
    return yaml.safe_load(content), ledger_lines(finding)


LAKE = "azureml://datastores/lake/paths"


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ('PipelineData("out")', {"type": "uri_file"}),
        (
            'PipelineData("out", datastore=store, output_mode="upload")',
            {
                "type": "uri_file",
                "path": f"{LAKE}/azureml/${{{{name}}}}/${{{{output_name}}}}/parallel_run_step.txt",
                "mode": "upload",
            },
        ),
        (
            'OutputFileDatasetConfig("out", destination=(store, "a/{run-id}")).as_upload()',
            {
                "type": "uri_file",
                "path": f"{LAKE}/a/${{{{name}}}}/parallel_run_step.txt",
                "mode": "upload",
            },
        ),
        (
            'OutputFileDatasetConfig("out").register_on_complete("scores")',
            {"type": "uri_file", "name": "scores"},
        ),
    ],
)
def test_destination_mode_and_registration_of_an_output_stay(
    output: str, expected: dict[str, str]
) -> None:
    assert prs(output=output)[0]["outputs"] == {"out": expected}


def test_what_an_output_or_input_loses_is_in_the_ledger() -> None:
    made = 'PipelineData("out", datastore=pick(), output_mode="link", output_path_on_compute="/o")'
    _, lines = prs(output=made)
    assert "by hand  PipelineData(out).datastore -> outputs.path: pick()" in lines
    assert "by hand  PipelineData(out).output_mode -> outputs.mode: v2 has no mode link" in lines
    assert "lost     PipelineData(out).output_path_on_compute: v2 chooses the folder" in lines
    assert "lost     as_mount(side).path_on_compute: v2 chooses where data is mounted" in lines


def test_data_of_unknown_kind_is_left_to_a_person_and_a_table_is_a_table() -> None:
    document, lines = prs()
    assert "by hand  inputs.rows: the code does not say what it is, so it is taken" in lines
    document, lines = prs(data='OutputTabularDatasetConfig(name="rows")')
    assert document["inputs"]["rows"] == {"type": "mltable", "mode": "direct"}  # type: ignore[index]


@pytest.mark.parametrize(
    ("made", "written", "line"),
    [
        ('Environment.get(ws, "e", "3")', "azureml:e:3", ""),
        ('Environment("e")', "azureml:e@latest", "e is built in this code"),
        (
            'Environment.get(ws, "e")\nenv.docker.base_image = "x"',
            "azureml:e@latest",
            "e is built in this code",
        ),
        (
            'Environment.from_docker_image("e", "ubuntu:22.04", conda_specification="c.yml")',
            {"image": "ubuntu:22.04", "conda_file": "c.yml"},
            "",
        ),
        (
            'Environment.from_conda_specification("e", "c.yml")\nenv.docker.base_image = "i"',
            {"image": "i", "conda_file": "c.yml"},
            "",
        ),
    ],
)
def test_an_environment_that_is_built_here_is_inline_or_left_to_a_person(
    made: str, written: object, line: str
) -> None:
    document, lines = prs(environment=made)
    assert document["jobs"]["score"]["task"]["environment"] == written  # type: ignore[index]
    assert ("by hand  ParallelRunConfig.environment" in lines) == bool(line)
    assert line in lines


HYPERDRIVE = """\
from azureml.core import ScriptRunConfig
from azureml.core.runconfig import DockerConfiguration
from azureml.train.hyperdrive import *

docker = DockerConfiguration(use_docker=True, shm_size="4g", arguments=["--ulimit", "core=0"])
src = ScriptRunConfig(".", "t.py", compute_target="k8s", environment="e", docker_runtime_config=docker)
src.run_config.kubernetescompute.instance_type = "big"
sampling = RandomParameterSampling({"--mode": choice(VALUES)}, properties={"seed": 42, "odd": 1})
hd = HyperDriveConfig(sampling, "acc", PrimaryMetricGoal.MAXIMIZE, 4, run_config=src)
"""


def hyperdrive(values: str = '"a"') -> FileResult:
    return convert_python(HYPERDRIVE.replace("VALUES", values))


def test_shm_size_seed_and_instance_type_have_a_place() -> None:
    result = hyperdrive()
    job = yaml.safe_load(result.new_files[0][1])
    assert job["resources"] == {
        "instance_type": "big",
        "instance_count": 1,
        "shm_size": "4g",
        "docker_args": "--ulimit core=0",
    }
    assert job["sampling_algorithm"] == {"type": "random", "seed": 42}
    lines = ledger_lines(result.findings[0])
    assert "RandomParameterSampling.properties -> sampling_algorithm: v2 has no odd" in lines
    assert "mapped   DockerConfiguration.shm_size -> resources.shm_size" in lines


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ('"a", 1.5, -3', "${{search_space.mode}}"),
        ('"a b", "c;d"', "'${{search_space.mode}}'"),
        ('"it\'s"', '"${{search_space.mode}}"'),
    ],
)
def test_swept_values_are_quoted_where_the_shell_would_split_them(values: str, word: str) -> None:
    job = yaml.safe_load(hyperdrive(values).new_files[0][1])
    assert job["trial"]["command"] == f"python t.py --mode {word}"


def test_a_swept_value_of_v1_5_that_the_shell_would_split_is_left_to_a_person(
    tmp_path: Path,
) -> None:
    space = {"lr": {"type": "choice", "values": ["1", "2; rm"]}}
    [finding] = convert(tmp_path, spec(SWEEP, search_space=space)).findings
    line = "by hand  search_space.lr: the shell sees '2; rm' unquoted"
    assert line in ledger_lines(finding)


def test_swept_values_that_no_quotes_hold_are_refused() -> None:
    [finding] = hyperdrive('"it\'s $5"').findings
    assert finding.reason == "a value of mode cannot be quoted for the shell"


# --- as a user sees it ---


def test_the_ledger_is_printed_and_in_json(arc: Callable[..., Result], tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(HYPERDRIVE.replace("VALUES", "1, 2"))
    words = ("patch", file, "--sweep-to-v2")
    assert (
        "    mapped   HyperDriveConfig.max_total_runs -> limits.max_total_trials" in arc(*words).err
    )
    findings = json.loads(arc(*words, "--format", "json").out)["findings"]
    [ledger] = [finding["ledger"] for finding in findings if finding["rule"] == "sweep-to-v2"]
    entry = next(item for item in ledger if item["argument"] == "max_total_runs")
    assert (entry["source"], entry["outcome"]) == ("HyperDriveConfig", "mapped")
    assert "lost     RandomParameterSampling.properties" in arc(*words, "--format", "github").out


# --- loaded for real ---


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_outputs_and_environments_load_and_are_sent(tmp_path: Path) -> None:
    ml = azure()
    (tmp_path / "c.yml").write_text("dependencies: [python=3.10]\n")
    document, _ = prs(
        output='OutputFileDatasetConfig("out", (store, "a")).as_upload().register_on_complete("s")',
        environment='Environment.from_conda_specification("e", "c.yml")',
    )
    path = tmp_path / "job.yml"
    path.write_text(yaml.safe_dump(document))
    rest = body(ml.load_job(path))
    assert rest["outputs"]["out"] == {
        "assetName": "s",
        "uri": f"{LAKE}/a/parallel_run_step.txt",
        "mode": "Upload",
        "jobOutputType": "uri_file",
    }
    environment = rest["jobs"]["score"]["task"]["environment"]
    assert environment["conda_file"] == {"dependencies": ["python=3.10"]}


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_hyperdrive_job_sends_seed_quotes_and_docker_settings(tmp_path: Path) -> None:
    path = tmp_path / "job.yml"
    path.write_bytes(hyperdrive('"a b"').new_files[0][1])
    rest = body(azure().load_job(path))
    assert rest["samplingAlgorithm"] == {"seed": 42, "samplingAlgorithmType": "Random"}
    assert rest["resources"]["shmSize"] == "4g"
    assert rest["resources"]["dockerArgs"] == "--ulimit core=0"
    assert rest["trial"]["command"] == "python t.py --mode '${{search_space.mode}}'"
