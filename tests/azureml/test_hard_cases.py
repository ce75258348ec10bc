"""Shapes that a first reading misses; what azure-ai-ml 1.35.2 makes of each file was looked at before the code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.azureml.support import (
    COMMAND_JOB,
    COMPONENT,
    LEGACY_SWEEP,
    check_noop,
    check_transformed,
    patch,
    rules_of,
)
from tests.support import Result

TRAIN = (
    "type: command\nname: train\nversion: 1\ncommand: python train.py\nenvironment: azureml:e:1\n"
)
STEP = "type: pipeline\njobs:\n  a:\n    component: ./train.yml\n"
MANUAL: dict[str, Any] = {"threads": "lightgbm", "manual": True}


def threads_of(text: str, name: str = "OMP_NUM_THREADS", **arguments: Any) -> str | None:
    """The variable that a job, or the only step of a pipeline, has after the run."""
    data = yaml.safe_load(patch(text, **arguments).after or text)
    holder = next(iter(data["jobs"].values())) if "jobs" in data else data
    value: str | None = holder.get("environment_variables", {}).get(name)
    return value


# --- threads ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "number"),
    [
        ("torchrun --nproc_per_node 4 train.py", "8"),
        ("torchrun --nnodes=2 --nproc-per-node=4 train.py", "8"),
        ("python -m torch.distributed.launch --nproc_per_node=2 train.py", "16"),
        ("cd src && mpirun --allow-run-as-root -np 8 python train.py", "4"),
        ("deepspeed --num_gpus 2 train.py", "16"),
        ("python train.py --nproc 4; echo mpirun", "32"),
        ("python mpirunner.py -n 4", "32"),
    ],
)
def test_processes_that_a_launcher_in_the_command_starts_share_the_cores(
    command: str, number: str
) -> None:
    text = COMMAND_JOB.replace("python train.py", f'"{command}"')
    assert threads_of(text, instance_type="32cpu128g", **MANUAL) == number


def test_a_launcher_takes_its_number_from_an_input() -> None:
    text = COMMAND_JOB.replace("python train.py", '"torchrun --nproc_per_node ${{inputs.n}} x.py"')
    assert (
        threads_of(text + "inputs: {n: 4}\n", instance_type="32cpu128g", threads="lightgbm") == "8"
    )


def test_a_number_of_processes_that_is_known_at_run_time_only_is_reported() -> None:
    text = COMMAND_JOB.replace("python train.py", "torchrun --nproc_per_node gpu x.py")
    findings = check_noop(text, threads="lightgbm").findings
    assert [finding.reason for finding in findings if finding.rule == "threads"] == [
        "its processes per node are gpu, which is not a literal"
    ]


def test_torchrun_sets_one_thread_where_nothing_is_set() -> None:
    """torch/distributed/run.py: OMP_NUM_THREADS is 1 for several processes, unless it is set."""
    text = COMMAND_JOB + "resources: {instance_type: 8cpu32g}\n"
    assert rules_of(patch(text)) == ["lightgbm-threads"]
    assert not rules_of(
        patch(text.replace("python train.py", "torchrun --nproc_per_node 4 train.py"))
    )
    assert rules_of(patch(text.replace("python train.py", "mpirun -np 4 python train.py"))) == [
        "lightgbm-threads"
    ]


def test_faiss_shares_the_cores_among_processes_and_their_workers() -> None:
    text = COMMAND_JOB.replace("train.py", "train.py --num_workers 2")
    text += "distribution: {type: mpi, process_count_per_instance: 4}\n"
    assert threads_of(text, instance_type="32cpu128g", threads="faiss") == "4"


def test_a_distribution_of_a_step_replaces_that_of_its_component() -> None:
    files = {"train.yml": TRAIN + "distribution: {type: pytorch, process_count_per_instance: 4}\n"}
    asked: dict[str, Any] = {"files": files, "instance_type": "32cpu128g", **MANUAL}
    assert threads_of(STEP, **asked) == "8"
    assert threads_of(STEP + "    distribution: {type: pytorch}\n", **asked) == "32"


INNER = """\
type: pipeline
name: inner
version: 1
inputs: {it: {type: string, default: 8cpu32g}}
jobs:
  a:
    component: ./train.yml
    resources: {instance_type: "${{parent.inputs.it}}"}
"""


def outer(*passed: str) -> str:
    steps = "".join(
        f"  s{number}: {{component: ./inner.yml{text}}}\n" for number, text in enumerate(passed)
    )
    return f"type: pipeline\ninputs: {{big: 16cpu64g}}\njobs:\n{steps}"


@pytest.mark.parametrize(
    ("passed", "number"),
    [
        ([", inputs: {it: 4cpu16g}"], "4"),
        ([', inputs: {it: "${{parent.inputs.big}}"}'], "16"),
        ([""], "8"),
        ([", inputs: {it: 4cpu16g}", ", inputs: {it: 4cpu16g}"], "4"),
    ],
)
def test_the_type_that_an_outer_pipeline_passes_counts(passed: list[str], number: str) -> None:
    files = {"train.yml": TRAIN, "outer.yml": outer(*passed), "inner.yml": INNER}
    assert threads_of(INNER, path="inner.yml", files=files, **MANUAL) == number


def test_different_types_that_outer_pipelines_pass_are_reported() -> None:
    files = {
        "train.yml": TRAIN,
        "outer.yml": outer("", ", inputs: {it: 4cpu16g}"),
        "inner.yml": INNER,
    }
    result = check_noop(INNER, path="inner.yml", files=files, **MANUAL)
    assert [
        "different instance types (4cpu16g, 8cpu32g)" in finding.reason
        for finding in result.findings
    ] == [True]


def test_a_type_that_is_bound_to_nothing_known_is_not_the_one_of_the_option() -> None:
    text = STEP.replace("jobs:", "inputs: {it: {type: string}}\njobs:")
    text += '    resources: {instance_type: "${{parent.inputs.it}}"}\n'
    result = patch(text, files={"train.yml": TRAIN}, instance_type="32cpu128g", **MANUAL)
    assert result.after is None
    assert "threads are not set on step `a`" in [finding.message for finding in result.findings]


def test_an_export_in_the_command_of_the_component_counts() -> None:
    step = STEP + "    resources: {instance_type: 8cpu32g}\n"
    train = TRAIN.replace("azureml:e:1", "azureml:lightgbm:1")
    assert rules_of(patch(step, files={"train.yml": train})) == ["lightgbm-threads"]
    exported = train.replace("python", "export OMP_NUM_THREADS=8 && python")
    assert not rules_of(patch(step, files={"train.yml": exported}))


# --- what depends on the count -----------------------------------------------------------------------------------

TENSORFLOW = (
    TRAIN + "distribution: {type: tensorflow, worker_count: 2}\nresources: {instance_count: 2}\n"
)


@pytest.mark.parametrize(
    ("text", "files", "settings", "message"),
    [
        # The component is not given, or not selected, so that its workers stay.
        (STEP, {"train.yml": TENSORFLOW}, {"steps": ("a",)}, "worker_count of step `a` is 2"),
    ],
)
def test_what_does_not_follow_the_count(
    text: str, files: dict[str, str], settings: dict[str, Any], message: str
) -> None:
    result = patch(text, files=files, instance_count=3, **settings)
    assert [finding.message for finding in result.findings if finding.severity == "warning"] == [
        message
    ]


def test_a_component_of_the_run_reports_its_workers_itself() -> None:
    assert not patch(STEP, files={"train.yml": TENSORFLOW}, instance_count=3).findings
    assert b"worker_count: 3" in (
        patch(TENSORFLOW, path="train.yml", instance_count=3).after or b""
    )


# --- compute -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "has_default"),
    [
        ("{type: spark, component: 'azureml:s:1'}", False),
        ("{component: ./train.yml, compute: azureml:own}", False),
        ("{component: ./train.yml}", True),
    ],
)
def test_a_pipeline_of_pipelines_is_what_their_steps_are(step: str, has_default: bool) -> None:
    files = {
        "inner.yml": f"type: pipeline\nname: inner\nversion: 1\njobs:\n  s: {step}\n",
        "train.yml": TRAIN,
    }
    text = "type: pipeline\njobs:\n  n: {type: pipeline, component: ./inner.yml}\n"
    after = patch(text, files=files, compute="new").after or b""
    assert (b"default_compute" in after) is has_default


# --- what a file is ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", [{"instance_type": "x"}, {"threads": "lightgbm"}])
def test_a_pipeline_job_that_is_a_component_says_why_nothing_is_set(asked: dict[str, Any]) -> None:
    result = patch("type: pipeline\ncomponent: azureml:registered:1\n", **asked)
    assert result.skipped is None
    assert ["in the workspace or a registry" in finding.reason for finding in result.findings] == [
        True
    ]


def test_a_component_with_the_schema_of_a_job_is_a_component() -> None:
    text = "$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json\n" + TRAIN
    result = patch(text, path="train.yml", files={"p.yml": STEP})
    assert rules_of(result) == ["wrong-schema"]
    assert "unknown-key" in rules_of(patch(text, path="train.yml"))  # a job has no `version`


@pytest.mark.parametrize(
    "key", ["resources", "inputs", "outputs", "distribution", "environment_variables"]
)
def test_a_key_with_nothing_after_it_is_rejected(key: str) -> None:
    result = patch(f"{COMMAND_JOB}{key}:\n", only=frozenset({"not-a-mapping"}))
    assert [(finding.rule, finding.line) for finding in result.findings] == [("not-a-mapping", 5)]


def test_a_key_that_the_run_fills_is_not_reported() -> None:
    check_transformed(
        COMMAND_JOB + "resources:\n",
        COMMAND_JOB + "resources:\n  instance_type: x\n",
        instance_type="x",
    )
    assert "not-a-mapping" not in rules_of(patch(COMMAND_JOB + "resources:\n", instance_type="x"))


def test_what_a_component_drops_may_be_empty() -> None:
    assert "not-a-mapping" not in rules_of(patch(COMPONENT + "environment_variables:\n"))


def test_a_launcher_in_the_command_distributes() -> None:
    text = COMMAND_JOB + "resources: {instance_type: 96cpu880g8gpu, instance_count: 2}\n"
    assert "gpus-without-distribution" in rules_of(patch(text))
    launched = text.replace("python train.py", "torchrun --nproc_per_node 8 train.py")
    assert "gpus-without-distribution" not in rules_of(patch(launched))


def test_an_input_that_an_inner_pipeline_has_for_something_else_is_not_taken_over() -> None:
    bound = 'inputs: {instance_type: "${{parent.inputs.instance_type}}"}'
    inner = "type: pipeline\nname: i\nversion: 1\ninputs: {instance_type: {type: string}}\njobs:\n"
    inner += f"  a: {{component: ./train.yml, {bound}}}\n"
    text = "type: pipeline\ninputs: {instance_type: vm}\njobs:\n"
    text += f"  i: {{type: pipeline, component: ./inner.yml, {bound}}}\n"
    files = {"inner.yml": inner, "train.yml": TRAIN}
    data = yaml.safe_load(
        patch(text, files=files, instance_type="big", expose_parameters=True).after or b""
    )
    assert data["inputs"] == {
        "instance_type": "vm",
        "job_instance_type": "big",
        "instance_count": 1,
    }
    assert (
        data["jobs"]["i"]["inputs"]["job_instance_type"] == "${{parent.inputs.job_instance_type}}"
    )
    assert data["jobs"]["i"]["inputs"]["instance_type"] == "${{parent.inputs.instance_type}}"


# --- where text goes ---------------------------------------------------------------------------------------------


def test_a_comment_further_in_stays_with_what_it_is_about() -> None:
    before = "type: command\nenvironment:\n  image: x\n  # conda_file: y\n# then\ncommand: echo\ncompute: c\n"
    before = before.replace("compute: c\n", "")
    after = before.replace("# then", "resources:\n  instance_type: x\n# then")
    check_transformed(before, after, instance_type="x")


def test_inputs_go_after_the_head_of_a_pipeline() -> None:
    text = "type: pipeline\nname: p\nexperiment_name: e\njobs:\n  a: {component: 'azureml:a:1'}\n"
    result = patch(text, instance_type="x", compute="c", expose_parameters=True)
    assert list(yaml.safe_load(result.after or b"")) == [
        *("type", "name", "experiment_name", "inputs", "settings", "jobs")
    ]


def test_a_new_file_that_exists_is_refused_in_every_run(
    arc: Callable[..., Result], tmp_path: Path
) -> None:
    sweep = tmp_path / "s.yaml"
    sweep.write_text(LEGACY_SWEEP)
    (tmp_path / "s.v2.yaml").write_text("mine: 1\n")
    for options in ((), ("--write",), ("--check",)):
        result = arc("patch", sweep, "--sweep-to-v2", "--instance-type", "x", *options)
        assert (result.code, result.out) == (2, "")
        assert "s.v2.yaml already exists" in result.err
    assert sweep.read_text() == LEGACY_SWEEP


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "resources:\n  instance_typ: small\n  shm_size: 2g\n",
            "resources:\n  shm_size: 2g\n  instance_type: x\n",
        ),
        ("instance_type: small\n", "resources:\n  instance_type: x\n"),
    ],
)
def test_a_fix_and_a_setting_of_the_same_key_are_one_change(before: str, after: str) -> None:
    result = check_transformed(
        COMMAND_JOB + before,
        COMMAND_JOB + after,
        instance_type="x",
        unsafe_fixes=True,
        threads="off",
    )
    assert [finding.applied for finding in result.findings] == [True]
