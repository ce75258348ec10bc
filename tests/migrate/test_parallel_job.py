"""A v1 ParallelRunStep as v2: every field of the table, said where it is not one to one, and loaded for real."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from arc_toolkit.migrate import parallel_run as prs
from arc_toolkit.migrate.ledger import Ledger, signature
from arc_toolkit.migrate.v1_values import Data, Output, PipelineParameter
from tests.migrate.support import assert_valid, azure, body

FULL: dict[str, Any] = {
    "name": "Score-All",
    "description": "scores",
    "environment": "scoring",
    "source_directory": "./code",
    "entry_script": "score.py",
    "arguments": ["--model", "a b", 3],
    "inputs": [Data("images", "file")],
    "side_inputs": [Data("labels", "file")],
    "output": Output("scores"),
    "output_action": "append_row",
    "append_row_file_name": "rows.txt",
    "compute_target": "k8s",
    "node_count": 4,
    "process_count_per_node": 2,
    "mini_batch_size": "1MB",
    "error_threshold": 10,
    "allowed_failed_count": 5,
    "allowed_failed_percent": 7,
    "run_invocation_timeout": 600,
    "run_max_try": 3,
    "logging_level": "DEBUG",
    "environment_variables": {"OMP_NUM_THREADS": 1},
    "allow_reuse": False,
    "instance_type": "32cpu128g",
}


def parallel_job(
    fields: dict[str, Any], unknown: dict[str, str] | None = None
) -> tuple[str, list[str]]:
    """The v2 text, and the lines of the ledger."""
    ledger = Ledger()
    for source in ("ParallelRunStep", "ParallelRunConfig"):
        names = [name for name in signature(source) if name in {*fields, *(unknown or {})}]
        ledger.read(source, names)
    for name, text in (unknown or {}).items():
        ledger.by_hand(name, text)
    text = prs.parallel_job(fields, ledger)
    return text, [entry.text for entry in ledger.entries]


def step_of(fields: dict[str, Any]) -> dict[str, Any]:
    (step,) = yaml.safe_load(parallel_job(fields)[0])["jobs"].values()
    assert isinstance(step, dict)
    return step


def test_every_field_of_the_table_is_placed() -> None:
    text, notes = parallel_job(FULL)
    job = yaml.safe_load(text)
    assert job["inputs"] == {
        "instance_type": "32cpu128g",
        "instance_count": 4,
        "images": {"type": "uri_folder"},
        "labels": {"type": "uri_folder"},
    }
    assert job["outputs"] == {"scores": {"type": "uri_file"}}
    assert job["settings"] == {"default_compute": "azureml:k8s", "force_rerun": True}
    assert job["jobs"]["score_all"] == {
        "type": "parallel",
        "compute": "azureml:k8s",
        "resources": {
            "instance_type": "${{parent.inputs.instance_type}}",
            "instance_count": "${{parent.inputs.instance_count}}",
        },
        "inputs": {"images": "${{parent.inputs.images}}", "labels": "${{parent.inputs.labels}}"},
        "outputs": {"scores": "${{parent.outputs.scores}}"},
        "input_data": "${{inputs.images}}",
        "mini_batch_size": "1MB",
        "max_concurrency_per_instance": 2,
        "error_threshold": 10,
        "mini_batch_error_threshold": 5,
        "logging_level": "DEBUG",
        "retry_settings": {"max_retries": 2, "timeout": 600},
        "environment_variables": {"OMP_NUM_THREADS": "1"},
        "task": {
            "type": "run_function",
            "code": "./code",
            "entry_script": "score.py",
            "program_arguments": "--model 'a b' 3 --allowed_failed_percent 7",
            "environment": "azureml:scoring@latest",
            "append_row_to": "${{outputs.scores}}",
        },
    }
    said = "\n".join(notes)
    assert "retry_settings.max_retries: 3 counts tries and max_retries 2 counts retries" in said
    assert "let its path end with rows.txt" in said


def test_one_attempt_needs_no_retry() -> None:
    assert step_of({"run_max_try": 1})["retry_settings"] == {"max_retries": 0}


def test_summary_only_has_no_rows_and_a_folder() -> None:
    text, _ = parallel_job({"output": Output("out"), "output_action": "summary_only"})
    job = yaml.safe_load(text)
    assert job["outputs"] == {"out": {"type": "uri_folder"}}
    assert "append_row_to" not in job["jobs"]["parallel"]["task"]


def test_what_is_not_known_is_said() -> None:
    _, notes = parallel_job({})
    said = "\n".join(notes)
    for words in (
        *(
            f"by hand  {name}: the code does not set it: SET_ME is written"
            for name in ("compute_target", "entry_script", "environment")
        ),
        "by hand  inputs: one named data is written for them",
        "added    mini_batch_size: 10, v1's default for files",
        "no instance type is given: defaultinstancetype",
    ):
        assert words in said


def test_values_of_the_wrong_kind_are_said_and_left_out() -> None:
    text, notes = parallel_job({"run_max_try": "many", "environment_variables": ["A"]})
    assert "retry_settings" not in text
    assert "environment_variables" not in text
    assert notes[:2] == [
        "lost     ParallelRunConfig.run_max_try -> retry_settings.max_retries: "
        "'many' is not a whole number: it is not written",
        "lost     ParallelRunConfig.environment_variables -> environment_variables: "
        "['A'] is not a mapping: it is not written",
    ]


def test_partition_keys_take_the_place_of_a_mini_batch_size() -> None:
    step = step_of({"partition_keys": ("a", "b")})
    assert step["partition_keys"] == ["a", "b"]
    assert "mini_batch_size" not in step


@pytest.mark.parametrize(
    ("data", "size", "expected"),
    [
        (Data("t", "table"), None, {"type": "mltable", "mode": "direct"}),
        (
            Data("t", "", "azureml:t@latest", True),
            "10KB",
            {"type": "mltable", "path": "azureml:t@latest", "mode": "direct"},
        ),
        (
            Data("t", "", "azureml:t:3", True),
            "5",
            {"type": "mltable", "path": "azureml:t:3", "mode": "eval_mount"},
        ),
        (
            Data("t", "file", "azureml:t:3", True, True),
            "5",
            {"type": "mltable", "path": "azureml:t:3", "mode": "eval_download"},
        ),
        (
            Data("t", "file", "https://a/b.csv", download=True),
            "5",
            {"type": "uri_file", "path": "https://a/b.csv", "mode": "download"},
        ),
        (Data("t", "file"), "5", {"type": "uri_folder"}),
    ],
)
def test_datasets_become_inputs_of_their_kind(
    data: Data, size: str | None, expected: dict[str, str]
) -> None:
    job = yaml.safe_load(parallel_job({"inputs": [data], "mini_batch_size": size})[0])
    assert job["inputs"]["t"] == expected
    (step,) = job["jobs"].values()
    assert step["mini_batch_size"] == (size or "1MB"), "1MB is v1's default for a table"
    bound = step["inputs"]["t"]
    assert (bound["mode"] if isinstance(bound, dict) else None) == expected.get("mode")


def test_arguments_refer_to_data_outputs_and_parameters() -> None:
    fields = {
        "inputs": [Data("images", "file")],
        "output": Output("scores"),
        "arguments": [
            "--labels",
            Data("labels", "file"),
            "--out",
            Output("scores"),
            "-m",
            PipelineParameter("model", "a b"),
        ],
    }
    job = yaml.safe_load(parallel_job(fields)[0])
    (step,) = job["jobs"].values()
    assert step["task"]["program_arguments"] == (
        "--labels ${{inputs.labels}} --out ${{outputs.scores}} -m ${{inputs.model}}"
    )
    assert job["inputs"]["model"] == "a b"
    assert job["outputs"] == {"scores": {"type": "uri_folder"}, "scores_rows": {"type": "uri_file"}}
    assert step["task"]["append_row_to"] == "${{outputs.scores_rows}}"


def test_a_value_that_is_not_known_is_not_replaced_by_a_default() -> None:
    text, _ = parallel_job(
        {"inputs": [Data("a", "file")]}, {"mini_batch_size": "size", "node_count": "nodes"}
    )
    assert "# mini_batch_size: v1's mini_batch_size is size\n" in text
    job = yaml.safe_load(text)
    assert job["inputs"]["instance_count"] == "SET_ME"
    assert "mini_batch_size" not in job["jobs"]["parallel"]


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "fields",
    [
        FULL,
        {},
        {"partition_keys": ["a"], "output_action": "summary_only"},
        {
            "inputs": [Data("t", "table", "azureml:t:1", True)],
            "arguments": [PipelineParameter("p", " ")],
        },
    ],
)
def test_the_yaml_loads_and_sends_what_it_says(tmp_path: Path, fields: dict[str, Any]) -> None:
    ml = azure()
    (tmp_path / "code").mkdir()
    path = tmp_path / "parallel.yaml"
    path.write_text(parallel_job(fields)[0])
    job = ml.load_job(path)
    assert_valid(job)
    (node,) = body(job)["jobs"].values()
    assert node["resources"]["instance_type"] == "${{parent.inputs.instance_type}}"
    assert node["resources"]["instance_count"] == "${{parent.inputs.instance_count}}"
    if fields is FULL:
        assert node["retry_settings"] == {"max_retries": 2, "timeout": 600}
        assert node["mini_batch_size"] == 1048576
        assert node["max_concurrency_per_instance"] == 2
        assert (node["error_threshold"], node["mini_batch_error_threshold"]) == (10, 5)
        assert node["environment_variables"] == {"OMP_NUM_THREADS": "1"}
        assert node["task"]["program_arguments"] == "--model 'a b' 3 --allowed_failed_percent 7"
        assert node["task"]["append_row_to"] == "${{outputs.scores}}"
