"""SDK v1: ParallelRunStep, its finding and its v2 form."""

from __future__ import annotations

import time
from pathlib import Path

import yaml

from arc_toolkit.azureml.settings import Settings
from tests.azureml.python.support import check_noop, patch

PRS = """\
from azureml.core import Environment
from azureml.pipeline.core import PipelineParameter
from azureml.pipeline.steps import ParallelRunConfig, ParallelRunStep

env = Environment.get(ws, name="score-env")
config = ParallelRunConfig(
    source_directory="scripts",
    entry_script="score.py",
    mini_batch_size=PipelineParameter(name="size", default_value="5"),
    error_threshold=10,
    output_action="append_row",
    environment=env,
    compute_target=get_compute(),
    node_count=2,
    process_count_per_node=4,
    run_invocation_timeout=600,
    run_max_try=3,
    **more,
)
step = ParallelRunStep(
    name="Batch Score",
    inputs=[images.as_named_input("images").as_mount()],
    output=scores,
    parallel_run_config=config,
    arguments=["--model", "m"],
    allow_reuse=False,
)
"""


def test_a_finding_gives_the_equivalents() -> None:
    [finding] = check_noop(PRS, Settings())
    assert (finding.rule, finding.severity, finding.line) == ("prs-instance-type", "warning", 20)
    assert "node_count -> resources.instance_count" in finding.reason
    assert "run_max_try -> retry_settings.max_retries, minus one" in finding.reason
    assert "--prs-to-v2" in finding.reason


def test_a_config_without_a_step_is_found_too() -> None:
    text = (
        "from azureml.pipeline.steps import ParallelRunConfig as C\n\nc = C(entry_script='s.py')\n"
    )
    assert [finding.line for finding in check_noop(text, Settings())] == [3]


def test_the_v2_form_is_written_beside_and_all_that_is_not_known_is_said() -> None:
    result = patch(PRS, Settings(prs_to_v2=True, instance_type="32cpu128g"), path="flows/score.py")
    assert result.after is None
    [(path, content)] = result.new_files
    assert path == "flows/score.batch_score.parallel.yml"
    document = yaml.safe_load(content)
    [step] = document["jobs"].values()
    assert document["inputs"]["instance_type"] == "32cpu128g"
    assert document["inputs"]["instance_count"] == 2
    assert step["max_concurrency_per_instance"] == 4
    assert step["retry_settings"] == {"max_retries": 2, "timeout": 600}
    assert step["mini_batch_size"] == "5"
    assert step["task"]["environment"] == "azureml:score-env@latest"
    assert step["input_data"] == "${{inputs.images}}"
    [finding] = [finding for finding in result.findings if finding.rule == "prs-to-v2"]
    assert finding.severity == "warning"
    notes = [entry.text for entry in finding.ledger]
    assert any("max_retries: 3 counts tries" in note for note in notes)
    assert "by hand  ParallelRunConfig.compute_target -> compute: get_compute()" in notes
    assert "by hand  ParallelRunConfig.**: **more" in notes


def test_what_is_asked_for_wins() -> None:
    settings = Settings(prs_to_v2=True, instance_type="t", instance_count=5, compute="k8s")
    [(_, content)] = patch(PRS, settings).new_files
    document = yaml.safe_load(content)
    assert document["inputs"]["instance_count"] == 5
    assert next(iter(document["jobs"].values()))["compute"] == "azureml:k8s"


def test_two_steps_get_two_files() -> None:
    text = PRS + 'other = ParallelRunStep(name="Batch Score", parallel_run_config=config)\n'
    paths = [path for path, _ in patch(text, Settings(prs_to_v2=True)).new_files]
    assert paths == ["pipeline.batch_score.parallel.yml", "pipeline.batch_score_2.parallel.yml"]


HEAD = """\
import os
from azureml.core import ComputeTarget, Dataset, Environment
from azureml.pipeline.core import PipelineData
from azureml.pipeline.steps import ParallelRunConfig, ParallelRunStep
"""
FOLLOWED = (
    HEAD
    + """
size = 2
cluster = os.environ.get("CLUSTER", "k8s")
try:
    target = ComputeTarget(workspace=ws, name=cluster)
except Exception:
    target = ComputeTarget.create(ws, cluster, sizes)
env = Environment.get(ws, "score-env", "7")
env.environment_variables = {"A": 1}
table = Dataset.Tabular.from_delimited_files(files)
table = table.register(workspace=ws, name="rows")
labels = Dataset.get_by_name(ws, "labels", version=3).as_named_input("side").as_download()
extra = ["--model", "m"]
extra.append(f"v{size}")
config = ParallelRunConfig(env, "score.py", 10, "append_row", target, size * 2, mini_batch_size=f"{size}MB")
config.run_invocation_timeout = 600
config.environment_variables = {"B": "2"}
config.environment_variables["C"] = "3"
step = ParallelRunStep("score", config, [table.as_named_input("rows")], PipelineData("out"), [labels], ARGUMENTS)
config.run_invocation_timeout = 1
"""
)


def converted(text: str) -> tuple[dict[str, object], dict[str, object], list[str]]:
    result = patch(text, Settings(prs_to_v2=True))
    [(_, content)] = result.new_files
    document = yaml.safe_load(content)
    [step] = document["jobs"].values()
    return (
        document,
        step,
        [
            entry.text
            for finding in result.findings
            if finding.rule == "prs-to-v2"
            for entry in finding.ledger
        ],
    )


def test_variables_positional_arguments_and_later_settings_are_followed() -> None:
    document, step, notes = converted(FOLLOWED.replace("ARGUMENTS", "extra"))
    assert step == {
        "type": "parallel",
        "compute": "azureml:k8s",
        "resources": {
            "instance_type": "${{parent.inputs.instance_type}}",
            "instance_count": "${{parent.inputs.instance_count}}",
        },
        "inputs": {
            "rows": {"type": "mltable", "path": "${{parent.inputs.rows}}", "mode": "direct"},
            "side": {"type": "mltable", "path": "${{parent.inputs.side}}", "mode": "eval_download"},
        },
        "outputs": {"out": "${{parent.outputs.out}}"},
        "input_data": "${{inputs.rows}}",
        "mini_batch_size": "2MB",
        "error_threshold": 10,
        "retry_settings": {"timeout": 600},
        "environment_variables": {"B": "2", "A": "1", "C": "3"},
        "task": {
            "type": "run_function",
            "code": ".",
            "entry_script": "score.py",
            "program_arguments": "--model m v2",
            "environment": "azureml:score-env:7",
            "append_row_to": "${{outputs.out}}",
        },
    }
    assert document["inputs"] == {
        "instance_type": "defaultinstancetype",
        "instance_count": 4,
        "rows": {"type": "mltable", "path": "azureml:rows@latest", "mode": "direct"},
        "side": {"type": "mltable", "path": "azureml:labels:3", "mode": "eval_download"},
    }
    assert "added    CLUSTER: 'k8s' is the default of the environment variable CLUSTER" in notes
    assert not any("by hand" in note for note in notes)


def test_a_version_that_is_set_later_is_the_version_of_the_environment() -> None:
    text = FOLLOWED.replace("ARGUMENTS", "extra").replace("env.env", 'env.version = "8"\nenv.env')
    _, step, _ = converted(text)
    assert step["task"]["environment"] == "azureml:score-env:8"  # type: ignore[index]


def test_an_argument_that_is_data_refers_to_the_input() -> None:
    _, step, _ = converted(FOLLOWED.replace("ARGUMENTS", '["--labels", labels]'))
    assert step["task"]["program_arguments"] == "--labels ${{inputs.side}}"  # type: ignore[index]


def test_what_is_decided_at_run_time_is_reported_and_not_guessed() -> None:
    text = FOLLOWED.replace("ARGUMENTS", "extra")
    text = text.replace("extra.append(", "if big:\n    extra.append(").replace(
        "config.run_inv", "tune(config)\nconfig.run_inv"
    )
    text = text.replace('f"{size}MB"', "sizes[0]").replace("= 2\n", "= 2 if big else 3\n")
    document, step, notes = converted(text)
    assert "mini_batch_size" not in step
    assert "program_arguments" not in step["task"]  # type: ignore[operator]
    assert document["inputs"]["instance_count"] == "SET_ME"  # type: ignore[index]
    for line in (
        "by hand  ParallelRunConfig.node_count -> resources.instance_count: size * 2",
        "by hand  ParallelRunConfig.mini_batch_size -> mini_batch_size: sizes[0]",
        "by hand  ParallelRunStep.arguments -> task.program_arguments: extra",
    ):
        assert line in notes
    number = text.splitlines().index("tune(config)") + 1
    reason = f"gets the config in line {number}: what it sets is not read"
    assert f"by hand  ParallelRunConfig.tune(): {reason}" in notes


def test_the_one_config_of_a_file_is_taken_for_a_step_that_gets_it_as_a_parameter() -> None:
    text = (
        HEAD
        + """
def configure():
    return ParallelRunConfig(environment="e", entry_script="s.py", node_count=3)

def build(config):
    return ParallelRunStep(name="a", parallel_run_config=config, inputs=[data])
"""
    )
    document, _, notes = converted(text)
    assert document["inputs"]["instance_count"] == 3  # type: ignore[index]
    said = "\n".join(notes)
    assert "parallel_run_config -> the step: config is taken for the one ParallelRunConfig" in said


FILE = """\
from azureml.data import OutputFileDatasetConfig
from azureml.pipeline.steps import ParallelRunConfig, ParallelRunStep

models = OutputFileDatasetConfig(name="models").register_on_complete(name="m")
config = ParallelRunConfig.load_yaml(workspace=ws, path="config.yml")
step = ParallelRunStep(name="s", parallel_run_config=config, arguments=["--out", models], output=models, inputs=[data])
"""
CONFIG = """\
parallel_run_config:
  mini_batch_size: 3
  input_format:
  compute_target_name: cpu
  node_count: 4
  process_count_per_node: 2
  entry_script: score.py
  source_directory: ./
  environment_name: env
  environment_version: 7
  output_action: summary_only
"""


def test_a_config_of_a_file_is_read_from_it(tmp_path: Path) -> None:
    (tmp_path / "config.yml").write_text(CONFIG)
    result = patch(FILE, Settings(prs_to_v2=True), path=str(tmp_path / "p.py"))
    document = yaml.safe_load(result.new_files[0][1])
    step = document["jobs"]["s"]
    assert (step["mini_batch_size"], step["max_concurrency_per_instance"], step["compute"]) == (
        "3",
        2,
        "azureml:cpu",
    )
    assert document["inputs"]["instance_count"] == 4
    assert step["task"]["environment"] == "azureml:env:7"
    # What is registered when it is complete is still an output.
    assert step["task"]["program_arguments"] == "--out ${{outputs.models}}"
    assert list(document["outputs"]) == ["models"]


def test_no_default_of_v1_is_written_for_a_config_that_is_not_known(tmp_path: Path) -> None:
    result = patch(FILE, Settings(prs_to_v2=True), path=str(tmp_path / "p.py"))
    text = result.new_files[0][1].decode()
    assert "mini_batch_size: v1's mini_batch_size is a part of config" in text
    assert "mini_batch_size" not in yaml.safe_load(text)["jobs"]["s"]
    [finding] = [item for item in result.findings if item.rule == "prs-to-v2"]
    assert finding.severity == "warning"
    assert {entry.outcome for entry in finding.ledger if entry.source == "ParallelRunConfig"} == {
        "by hand"
    }


def test_a_hostile_file_costs_neither_memory_nor_time() -> None:
    names = "".join(
        f"if big:\n    d{number} = d{number - 1}\nelse:\n    d{number} = d{number - 1}.take(1)\n"
        for number in range(1, 60)
    )
    text = f"{HEAD}d0 = Dataset.File.from_files(files)\n{names}" + (
        'config = ParallelRunConfig(environment="e", entry_script="a" * 3_000_000_000,'
        ' compute_target=d59, node_count=10**10**10, mini_batch_size="%999999999s" % "a")\n'
        'step = ParallelRunStep("s", config, [d59.as_mount()], d59, arguments=[d59, "b" * 10**9])\n'
    )
    started = time.process_time()
    _, _, notes = converted(text)
    assert time.process_time() - started < 5
    by_hand = "\n".join(note for note in notes if note.startswith("by hand"))
    for name in ("entry_script", "compute_target", "node_count", "mini_batch_size", "arguments"):
        assert f".{name} -> " in by_hand
