"""Thread settings land where variables survive; where they do not, the finding says what happens instead."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
import yaml

from arc_toolkit.azureml.threads import LIGHTGBM_NAMES, prestep
from tests.azureml.support import (
    COMMAND_JOB,
    COMPONENT,
    PIPELINE,
    check_noop,
    check_transformed,
    patch,
    rules_of,
)

ALL = prestep(LIGHTGBM_NAMES)
SWEEP_STEP = """\
type: pipeline
jobs:
  s:
    type: sweep
    resources: {instance_type: 8cpu32g}
    trial:
      command: >-
        python train.py
        --x ${{inputs.x}}
      environment: azureml:lightgbm@latest
"""


def test_a_job_gets_the_prestep_on_evidence_and_shows_it() -> None:
    after = COMMAND_JOB.replace(
        "compute:", f'environment_variables:\n  AMLARC_PRESTEP: "{ALL}"\ncompute:'
    )
    result = check_transformed(COMMAND_JOB, after, threads="auto")
    assert [finding.reason for finding in result.findings] == [
        "lightgbm in environment azureml:lightgbm@latest"
    ]


def test_without_evidence_nothing_changes() -> None:
    check_noop(COMMAND_JOB.replace("lightgbm", "sklearn"), threads="auto")


def test_a_prestep_is_merged_and_more_names_are_exported() -> None:
    text = COMMAND_JOB + "environment_variables:\n  AMLARC_PRESTEP: 'export X=1'\n"
    data = yaml.safe_load(
        patch(text, threads="lightgbm", exports=("OPENBLAS_NUM_THREADS",)).after or b""
    )
    value = data["environment_variables"]["AMLARC_PRESTEP"]
    assert value.startswith("export X=1 MKL_NUM_THREADS=` get_cores `")
    assert value.endswith("OPENBLAS_NUM_THREADS=` get_cores `")


def test_a_restep_is_fixed_and_merged_in_one_go() -> None:
    text = COMMAND_JOB + "environment_variables:\n  AMLARC_RESTEP: export X=1\n"
    data = yaml.safe_load(patch(text, threads="lightgbm").after or b"")
    assert list(data["environment_variables"]) == ["AMLARC_PRESTEP"]
    assert data["environment_variables"]["AMLARC_PRESTEP"].startswith("export X=1 MKL")


def test_literal_variables_that_are_set_stay() -> None:
    text = COMMAND_JOB + 'environment_variables:\n  OMP_NUM_THREADS: "4"\n'
    result = patch(text, threads="lightgbm")
    variables = yaml.safe_load(result.after or b"")["environment_variables"]
    assert variables["OMP_NUM_THREADS"] == "4"
    assert "OMP_NUM_THREADS" not in variables["AMLARC_PRESTEP"]
    assert any("stays" in finding.message for finding in result.findings)


def test_manual_writes_numbers_as_strings() -> None:
    result = patch(COMMAND_JOB, threads="lightgbm", manual=True, instance_type="32cpu128g")
    assert yaml.safe_load(result.after or b"")["environment_variables"] == dict.fromkeys(
        LIGHTGBM_NAMES, "32"
    )


def test_a_v2_component_gets_none_and_its_step_does() -> None:
    files = {"train.yml": COMPONENT, "pipeline.yml": PIPELINE}
    check_noop(COMPONENT, path="train.yml", files=files, threads="auto")
    data = yaml.safe_load(
        patch(PIPELINE, path="pipeline.yml", files=files, threads="auto").after or b""
    )
    assert data["jobs"]["train"]["environment_variables"] == {"AMLARC_PRESTEP": ALL}


def test_a_component_that_nothing_uses_says_so() -> None:
    result = check_noop(COMPONENT, path="train.yml", files={"train.yml": COMPONENT}, threads="auto")
    assert "no pipeline in the given paths uses it" in result.findings[0].reason


def test_a_v15_spec_keeps_variables() -> None:
    text = "type: CommandComponent\ncommand: python -m lightgbm\n"
    assert yaml.safe_load(patch(text, threads="auto").after or b"")["environment_variables"] == {
        "AMLARC_PRESTEP": ALL
    }


def test_faiss_with_a_dataloader_gets_its_share_of_the_cores() -> None:
    text = "command: python faiss.py --num_workers 8\nenvironment: azureml:faiss:1\ncompute: c\n"
    result = patch(text, threads="auto", instance_type="32cpu128g")
    assert yaml.safe_load(result.after or b"")["environment_variables"] == {"OMP_NUM_THREADS": "4"}
    assert "32 cores (the name 32cpu128g) / 8 DataLoader workers = 4" in result.findings[0].reason


def test_faiss_workers_are_found_in_the_code(tmp_path_factory: pytest.TempPathFactory) -> None:
    from arc_toolkit.azureml.azureml_files import patch_yaml
    from arc_toolkit.azureml.references import ProjectFiles
    from arc_toolkit.azureml.settings import Settings
    from arc_toolkit.file_io import read_raw

    top = tmp_path_factory.mktemp("job")
    (top / "src").mkdir()
    (top / "src" / "a.py").write_text("import faiss, torch\nDataLoader(x, num_workers=16)\n")
    job = b"command: python a.py\nenvironment: e\ncompute: c\ncode: src\n"
    settings = Settings(threads="auto", cores=32)
    result = patch_yaml(str(top / "job.yml"), job, settings, ProjectFiles(read_raw))
    assert yaml.safe_load(result.after or b"")["environment_variables"] == {"OMP_NUM_THREADS": "2"}


@pytest.mark.parametrize(
    ("line", "threads"), [("max_concurrency_per_instance: 4", "8"), ("mini_batch_size: '1'", "1")]
)
def test_prs_processes_share_the_cores(line: str, threads: str) -> None:
    text = f"type: pipeline\njobs:\n  p:\n    type: parallel\n    component: azureml:lightgbm:1\n    {line}\n"
    result = patch(text, threads="lightgbm", instance_type="32cpu128g")
    variables = yaml.safe_load(result.after or b"")["jobs"]["p"]["environment_variables"]
    assert variables == dict.fromkeys(LIGHTGBM_NAMES, threads)


def test_the_trial_of_a_standalone_sweep_keeps_variables() -> None:
    text = "type: sweep\ntrial:\n  command: x\n  environment: lightgbm\nsearch_space: {}\nobjective: {}\n"
    data = yaml.safe_load(patch(text, threads="auto").after or b"")
    assert data["trial"]["environment_variables"] == {"AMLARC_PRESTEP": ALL}
    assert "environment_variables" not in data


def test_the_trial_of_a_sweep_in_a_pipeline_gets_exports_before_its_command() -> None:
    exports = "export MKL_NUM_THREADS=8 NUMEXPR_NUM_THREADS=8 OMP_NUM_THREADS=8"
    command = yaml.safe_load(SWEEP_STEP)["jobs"]["s"]["trial"]["command"]
    result = patch(SWEEP_STEP, threads="auto")
    assert (
        yaml.safe_load(result.after or b"")["jobs"]["s"]["trial"]["command"]
        == f"{exports}\n{command}"
    )
    check_noop((result.after or b"").decode(), threads="auto")
    assert any("loses environment variables" in finding.reason for finding in result.findings)


def test_a_trial_file_gets_the_exports_and_its_sweep_step_a_finding() -> None:
    files = {
        "train.yml": COMPONENT,
        "p.yml": "type: pipeline\njobs:\n  s:\n    type: sweep\n    trial: ./train.yml\n",
    }
    trial = patch(COMPONENT, path="train.yml", files=files, threads="auto", cores=8)
    assert yaml.safe_load(trial.after or b"")["command"].startswith("export MKL_NUM_THREADS=8")
    step = check_noop(files["p.yml"], path="p.yml", files=files, threads="auto", cores=8)
    assert "before the command of train.yml" in step.findings[-1].reason


def test_windows_gets_no_prestep_and_a_finding() -> None:
    text = "type: CommandComponent\ncommand: lightgbm\nenvironment:\n  os: Windows\n"
    result = check_noop(text, threads="auto")
    assert "Linux jobs only" in result.findings[0].reason


def test_off_neither_sets_nor_reports_threads() -> None:
    assert patch(COMMAND_JOB, threads="off").findings == ()


# --- a trial file, by the sweeps that use it ---------------------------------------------------------------------


def sweeps(**types: str) -> str:
    text = "type: pipeline\njobs:\n"
    for name, instance_type in types.items():
        text += f"""\
  {name}:
    type: sweep
    trial: ./train.yml
    objective: {{goal: minimize, primary_metric: loss}}
    search_space: {{lr: {{type: uniform, min_value: 0, max_value: 1}}}}
    resources: {{instance_type: {instance_type}}}
"""
    return text


def test_a_trial_file_has_the_threads_of_the_sweep_that_uses_it() -> None:
    trial = COMPONENT + "resources: {instance_type: 32cpu128g}\n"
    files = {"pipeline.yml": sweeps(a="4cpu16g"), "train.yml": trial}
    result = patch(trial, path="train.yml", files=files, threads="auto")
    exports = (
        b"command: |-\n  export MKL_NUM_THREADS=4 NUMEXPR_NUM_THREADS=4 OMP_NUM_THREADS=4\n  python"
    )
    assert exports in (result.after or b"")
    asked = patch(trial, path="train.yml", files=files, threads="auto", instance_type="8cpu32g")
    assert b"OMP_NUM_THREADS=8\n" in (asked.after or b"")


def test_a_trial_file_of_sweeps_that_differ_is_left_with_the_reason() -> None:
    files = {"pipeline.yml": sweeps(a="4cpu16g", b="32cpu128g"), "train.yml": COMPONENT}
    result = patch(COMPONENT, path="train.yml", files=files, threads="auto")
    assert result.after is None
    [finding] = [one for one in result.findings if one.rule == "threads"]
    assert "step `a` in" in finding.reason
    assert "need different numbers" in finding.reason


def test_a_trial_file_that_is_also_a_command_component_yields_to_variables() -> None:
    files = {"pipeline.yml": sweeps(a="32cpu128g"), "other.yml": PIPELINE, "train.yml": COMPONENT}
    result = patch(COMPONENT, path="train.yml", files=files, threads="auto")
    assert b"OMP_NUM_THREADS=${OMP_NUM_THREADS:-32}\n  python" in (result.after or b"")
    check_noop(result.after.decode(), path="train.yml", files=files, threads="auto")  # type: ignore[union-attr]


def test_the_rule_sees_a_sweep_step_and_the_exports_of_its_trial() -> None:
    def found(trial: str, **settings: Any) -> list[str]:
        result = patch(sweeps(a="4cpu16g"), path="p.yml", files={"train.yml": trial}, **settings)
        return [one.message for one in result.findings if one.rule == "lightgbm-threads"]

    assert found(COMPONENT) == [
        "step `a`: OMP_NUM_THREADS is not set, so it starts one thread per core of the node"
    ]
    assert found(COMPONENT.replace("python", "export OMP_NUM_THREADS=4 && python")) == []
    assert (
        "4 would be right"
        in found(COMPONENT.replace("python", "export OMP_NUM_THREADS=32 && python"))[0]
    )
    assert found(COMPONENT, threads="auto") == []


def test_the_rule_sees_an_inline_trial() -> None:
    text = sweeps(a="4cpu16g").replace(
        "./train.yml", "{command: python t.py, environment: 'azureml:lightgbm:1'}"
    )
    before = patch(text)
    assert "lightgbm-threads" in rules_of(before)
    fixed = patch(text, threads="auto")
    assert b"export MKL_NUM_THREADS=4" in (fixed.after or b"")
    assert "lightgbm-threads" not in rules_of(fixed)


@pytest.mark.parametrize(
    ("processes", "threads", "problem"),
    [
        ("4", "8", ["OMP_NUM_THREADS is 8, and 2 would be right"]),
        # What is right is not known here, and `patch` says so; missing is missing all the same.
        ("${{parent.inputs.n}}", "8", []),
        (
            "${{parent.inputs.n}}",
            "",
            ["OMP_NUM_THREADS is not set, so it starts one thread per core of the node"],
        ),
    ],
)
def test_the_rule_judges_by_what_patch_would_set(
    processes: str, threads: str, problem: list[str]
) -> None:
    text = f"""\
type: pipeline
jobs:
  score:
    type: parallel
    max_concurrency_per_instance: {processes}
    resources: {{instance_type: 8cpu32g}}
    task: {{type: run_function, code: ./src, entry_script: score.py, environment: azureml:lightgbm@latest}}
"""
    if threads:
        text += f"    environment_variables: {{OMP_NUM_THREADS: '{threads}'}}\n"
    messages = [
        finding.message for finding in patch(text).findings if finding.rule == "lightgbm-threads"
    ]
    assert messages == [f"step `score`: {text}" for text in problem]


SHARED = """\
type: pipeline
inputs:
  type: 32cpu128g
  processes: 8
jobs:
  s:
    type: {family}
    component: ./train.yml
    compute: azureml:aks
    inputs:
      processes: ${{{{parent.inputs.processes}}}}
    resources:
      instance_type: ${{{{parent.inputs.type}}}}
"""
MPI = COMPONENT + "distribution:\n  type: mpi\n  process_count_per_instance: {}\n"
PRS = """\
type: parallel
name: score
version: 1
inputs: {{processes: {{type: integer, default: 4}}}}
max_concurrency_per_instance: {}
task: {{type: run_function, entry_script: s.py, environment: 'azureml:lightgbm:1'}}
"""


@pytest.mark.parametrize("framework", ["lightgbm", "faiss"])
@pytest.mark.parametrize(
    ("family", "component", "number"),
    [
        ("command", MPI.format(4), "8"),
        ("command", MPI.format("${{inputs.processes}}"), "4"),
        ("parallel", PRS.format(2), "16"),
        ("parallel", PRS.format("${{inputs.processes}}"), "4"),
        # Without a number PRS starts one process per core.
        ("parallel", PRS.format(2).replace("max_concurrency_per_instance: 2\n", ""), "1"),
    ],
)
def test_processes_share_the_cores_of_the_type_that_the_step_ends_up_with(
    framework: str, family: str, component: str, number: str
) -> None:
    pipeline = SHARED.format(family=family)
    files = {"p.yml": pipeline, "train.yml": component.replace("lightgbm", framework)}
    after = yaml.safe_load(patch(pipeline, path="p.yml", files=files, threads="auto").after or b"")
    assert after["jobs"]["s"]["environment_variables"]["OMP_NUM_THREADS"] == number
    wrong = pipeline + "    environment_variables: {OMP_NUM_THREADS: '32'}\n"
    [message] = [item.message for item in patch(wrong, path="p.yml", files=files).findings]
    assert message == f"step `s`: OMP_NUM_THREADS is 32, and {number} would be right"


def test_processes_that_no_default_tells_are_not_guessed() -> None:
    pipeline = SHARED.format(family="command").replace(
        "  processes: 8\n", "  processes: {type: integer}\n", 1
    )
    files = {"p.yml": pipeline, "train.yml": MPI.format("${{inputs.processes}}")}
    result = patch(pipeline, path="p.yml", files=files, threads="auto")
    assert result.after is None
    assert any("is not a literal" in finding.reason for finding in result.findings)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("style", [">-", "|", "|-"])
def test_exports_reach_a_command_that_starts_something_in_the_background(
    newline: str, style: str
) -> None:
    text = SWEEP_STEP.replace(
        "python train.py\n        --x ${{inputs.x}}", "./monitor.sh & python train.py"
    )
    result = patch(text.replace(">-", style).replace("\n", newline), threads="auto")
    command = yaml.safe_load(result.after or b"")["jobs"]["s"]["trial"]["command"]
    assert command.splitlines()[1:] == ["./monitor.sh & python train.py"]
    shell = command.replace("./monitor.sh", "true").replace(
        "python train.py", "printenv OMP_NUM_THREADS"
    )
    assert (
        subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=True).stdout
        == "8\n"
    )
