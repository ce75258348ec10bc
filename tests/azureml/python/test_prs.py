"""SDK v1: ParallelRunStep, its finding and its v2 form."""

from __future__ import annotations

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
    text = "from azureml.pipeline.steps import ParallelRunConfig as C\n\nc = C(entry_script='s.py')\n"
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
    notes = [finding.message for finding in result.findings if finding.rule == "prs-to-v2"]
    assert any("run_max_try 3 counts tries" in note for note in notes)
    assert "compute_target is get_compute(), which is not a literal: write it in by hand" in notes
    assert "** is more, which is not a literal: write it in by hand" in notes


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
