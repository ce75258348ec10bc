"""The sweep converter without azure-ai-ml: what is written, what is reported, and what is refused."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from arc_toolkit.azureml.settings import Settings
from arc_toolkit.migrate import sweep
from arc_toolkit.migrate.sweep import GET_CORES
from tests.migrate.support import (
    SWEEP,
    TRIAL,
    component,
    convert,
    document,
    messages,
    read,
    spec,
    texts,
    write,
)

PRESTEP = "export MKL_NUM_THREADS=` get_cores ` OMP_NUM_THREADS=` get_cores `"


# --- the three forms -----------------------------------------------------------------------------------------------


def test_a_step_is_written_beside_the_old_files_which_stay(tmp_path: Path) -> None:
    result = convert(tmp_path, instance_type="32cpu128g", instance_count=2, compute="k8s")
    assert [Path(name) for name, _ in result.new_files] == [
        tmp_path / "sweep.trial.v2.yaml",
        tmp_path / "sweep.v2.yaml",
    ]
    assert result.after is None
    job = document(result)
    assert job["inputs"]["instance_type"] == "32cpu128g"
    assert job["inputs"]["instance_count"] == 2
    assert job["settings"]["default_compute"] == "azureml:k8s"
    assert component(result)["resources"] == {"instance_type": "32cpu128g", "instance_count": 2}
    step = job["jobs"]["sweep"]
    assert step["trial"] == "./sweep.trial.v2.yaml"
    assert step["resources"] == {
        "instance_type": "${{parent.inputs.instance_type}}",
        "instance_count": "${{parent.inputs.instance_count}}",
    }
    assert step["inputs"] == {"train": "${{parent.inputs.train}}"}
    assert step["outputs"] == {"model": "${{parent.outputs.model}}"}
    assert step["limits"] == {"max_total_trials": 4, "max_concurrent_trials": 2, "timeout": 2400}


def test_a_standalone_job_has_search_space_placeholders_and_no_groups(tmp_path: Path) -> None:
    result = convert(tmp_path, sweep_as="job", instance_type="t", instance_count=3)
    job = document(result)
    assert job["trial"]["command"] == (
        "python train.py --data ${{inputs.train}} --lr ${{search_space.lr}} --out ${{outputs.model}}"
    )
    assert job["resources"] == {"instance_type": "t", "instance_count": 3}
    assert "$[[--extra ${{inputs.extra}}]]" in component(result)["command"]


def test_the_python_module_compiles_and_has_no_yaml_sweep_beside_it(tmp_path: Path) -> None:
    written = texts(convert(tmp_path, sweep_as="python"))
    assert set(written) == {"sweep.trial.v2.yaml", "sweep_v2.py"}
    compile(written["sweep_v2.py"], "sweep_v2.py", "exec")


def test_the_same_source_gives_the_same_bytes(tmp_path: Path) -> None:
    for form in ("step", "job", "python"):
        assert convert(tmp_path, sweep_as=form) == convert(tmp_path, sweep_as=form)


def test_a_second_run_has_nothing_to_write_and_another_form_only_what_differs(
    tmp_path: Path,
) -> None:
    write(convert(tmp_path))
    again = convert(tmp_path)
    assert (again.new_files, again.findings) == ((), ())
    job = convert(tmp_path, sweep_as="job")
    assert [Path(name).name for name, _ in job.new_files] == ["sweep.v2.yaml"]


def test_a_file_of_someone_else_is_not_overwritten(tmp_path: Path) -> None:
    result = convert(tmp_path, files={"sweep.v2.yaml": "type: sweep\n"})
    assert "sweep.v2.yaml already exists" in (result.refused or "")
    assert not result.new_files


def test_an_inline_trial_is_taken_as_a_file_would_be(tmp_path: Path) -> None:
    inline = convert(tmp_path, spec(SWEEP, trial=TRIAL), None)
    assert component(inline) == component(convert(tmp_path))


@pytest.mark.parametrize("name", ["./spec.yaml", "spec.yaml", "file:spec.yaml", "file:./spec.yaml"])
def test_every_way_to_name_the_trial(tmp_path: Path, name: str) -> None:
    assert component(convert(tmp_path, spec(SWEEP, trial=name)))["name"] == "my_train"


# --- fields --------------------------------------------------------------------------------------------------------


def test_the_component_says_code_and_is_deterministic_out_loud(tmp_path: Path) -> None:
    result = component(convert(tmp_path))
    assert result["code"] == "."
    assert result["is_deterministic"] is False
    assert (
        component(convert(tmp_path, spec(SWEEP, is_deterministic=True)))["is_deterministic"] is True
    )


def test_types_become_those_of_v2(tmp_path: Path) -> None:
    inputs = {
        "train": {"type": "DataFrameDirectory", "datastore_mode": "Mount"},
        "file": {"type": "AnyFile", "optional": True},
        "table": {"type": "AzureMLDataset"},
        "either": {"type": ["AnyFile", "AnyDirectory"]},
        "s": {"type": "String", "default": 5},
        "i": {"type": "Integer", "min": 1, "max": 9, "default": 3},
        "lr": {"type": "Float"},
        "b": {"type": "Boolean", "default": True},
        "e": {"type": "Enum", "enum": ["a", True, 3], "default": True},
        "odd": {"type": "TransformationDirectory"},
    }
    result = convert(tmp_path, trial_spec=spec(TRIAL, inputs=inputs, command="x"))
    assert component(result)["inputs"] == {
        "train": {"type": "uri_folder", "mode": "ro_mount"},
        "file": {"type": "uri_file", "optional": True},
        "table": {"type": "mltable"},
        "either": {"type": "uri_file"},
        "s": {"type": "string", "default": "5"},
        "i": {"type": "integer", "default": 3, "min": 1, "max": 9},
        "lr": {"type": "number"},
        "b": {"type": "boolean", "default": True},
        "e": {"type": "string", "default": "True", "enum": ["a", "True", "3"]},
        "odd": {"type": "uri_folder"},
    }
    said = messages(result)
    assert "inputs.either: v2 takes one type" in said
    assert "TransformationDirectory is written as uri_folder" in said


def test_inputs_of_sweep_and_trial_are_merged_and_the_trial_wins(tmp_path: Path) -> None:
    inputs = {"seed": {"type": "Integer", "default": 7}, "lr": {"type": "String"}}
    result = convert(tmp_path, spec(SWEEP, inputs=inputs))
    assert component(result)["inputs"]["lr"] == {"type": "number", "default": 0.05}
    assert document(result)["inputs"]["seed"] == 7
    assert "inputs.lr: the trial's declaration is taken" in messages(result)


def test_a_draft_with_its_inputs_in_the_sweep_and_an_inline_trial(tmp_path: Path) -> None:
    text = """
$schema: http://azureml/sdk-2-0/SweepComponent.json
name: samples.tune
type: SweepComponent
inputs:
  data: {type: path, optional: false}
  epochs: {type: Integer, optional: false}
algorithm: random
search_space:
  rate: {type: uniform, min_value: 0.001, max_value: 0.1}
objective: {primary_metric: accuracy, goal: maximize}
trial:
  command: >-
    python train.py --data {inputs.data} --epochs {inputs.epochs}
    --rate {search_space.rate}
  code: ./src
  environment: azureml:e:1
early_termination: {policy_type: truncationSelection, truncation_percentage: 10, evaluation_interval: 100}
limits: {max_total_trials: 20}
"""
    result = convert(tmp_path, text)
    assert component(result)["command"] == (
        "python train.py --data ${{inputs.data}} --epochs ${{inputs.epochs}} --rate ${{inputs.rate}}"
    )
    assert component(result)["inputs"]["rate"] == {"type": "number"}
    step = document(result)["jobs"]["sweep"]
    assert step["early_termination"]["type"] == "truncation_selection"
    assert document(result)["inputs"]["epochs"] == "SET_ME"


def test_numbers_and_words_are_read_as_the_old_sdk_reads_them(tmp_path: Path) -> None:
    text = yaml.safe_dump(SWEEP).replace("min_value: 0.01", "min_value: 1e-5")
    text = text.replace(
        "search_space:\n",
        "search_space:\n  extra: {type: choice, values: [on, off, 012, 1e3, 0o17, 0x1F, !!str 5]}\n",
    )
    space = document(convert(tmp_path, text))["jobs"]["sweep"]["search_space"]
    assert space["lr"]["min_value"] == 1e-5
    assert space["extra"]["values"] == ["on", "off", 12, 1000.0, 15, 31, "5"]


def test_merge_keys_and_anchors_are_followed(tmp_path: Path) -> None:
    base = "low: &low {type: uniform, min_value: 0, max_value: 1}\n"
    text = base + yaml.safe_dump(SWEEP).replace(
        "search_space:\n", "search_space:\n  x: {<<: *low, max_value: 3}\n"
    )
    space = document(convert(tmp_path, text))["jobs"]["sweep"]["search_space"]
    assert space["x"] == {"type": "uniform", "min_value": 0, "max_value": 3}


def test_booleans_in_a_choice_become_strings_and_that_is_said(tmp_path: Path) -> None:
    space = {"lr": {"type": "choice", "values": [True, False, "a", 1]}}
    result = convert(tmp_path, spec(SWEEP, search_space=space))
    assert document(result)["jobs"]["sweep"]["search_space"]["lr"]["values"] == [
        "True",
        "False",
        "a",
        1,
    ]
    assert "written as the string 'True'" in messages(result)


def test_spellings_of_old_drafts_are_fixed(tmp_path: Path) -> None:
    space = {"lr": {"spec": "uniform", "min": 0, "max": 1}}
    result = convert(tmp_path, spec(SWEEP, search_space=space))
    drawn = document(result)["jobs"]["sweep"]["search_space"]["lr"]
    assert drawn == {"type": "uniform", "min_value": 0, "max_value": 1}
    assert "`spec` of old drafts" in messages(result)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (
            {"policy_type": "bandit", "slack_amount": 2},
            {"type": "bandit", "slack_amount": 2, "evaluation_interval": 1, "delay_evaluation": 0},
        ),
        (
            {"policy_type": "medianstopping", "delay_evaluation": 5},
            {"type": "median_stopping", "evaluation_interval": 1, "delay_evaluation": 5},
        ),
        (
            {
                "policy_type": "truncation_selection",
                "truncation_percentage": 20,
                "evaluation_interval": 3,
            },
            {
                "type": "truncation_selection",
                "truncation_percentage": 20,
                "evaluation_interval": 3,
                "delay_evaluation": 0,
            },
        ),
        ({"policy_type": "default"}, None),
        (None, None),
    ],
)
def test_policies_are_written_with_their_intervals(
    tmp_path: Path, policy: dict[str, Any] | None, expected: dict[str, Any] | None
) -> None:
    step = document(convert(tmp_path, spec(SWEEP, early_termination=policy)))["jobs"]["sweep"]
    assert step.get("early_termination") == expected


def test_a_dockerfile_that_an_additional_include_brings_is_found(tmp_path: Path) -> None:
    trial = spec(
        TRIAL, environment={"docker": {"build": {"dockerfile": "file:./default.dockerfile"}}}
    )
    files = {
        "job/sweep.yaml": yaml.safe_dump(SWEEP),
        "job/spec.yaml": yaml.safe_dump(trial),
        "job/spec.additional_includes": "../docker/default.dockerfile\n../common\n",
        "docker/default.dockerfile": "FROM x\n",
    }
    convert(tmp_path, files=files)
    path = tmp_path / "job/sweep.yaml"
    result = sweep.convert(str(path), path.read_bytes(), Settings(), read)
    written = component(result)
    assert written["environment"]["build"] == {
        "path": "../docker",
        "dockerfile_path": "default.dockerfile",
    }
    assert written["additional_includes"] == ["../docker/default.dockerfile", "../common"]
    as_job = sweep.convert(str(path), path.read_bytes(), Settings(sweep_as="job"), read)
    assert "a sweep job takes no additional includes" in messages(as_job)


def test_an_environment_by_name_and_one_by_string(tmp_path: Path) -> None:
    for given, expected in (
        ({"name": "e", "version": 3}, "azureml:e:3"),
        ({"name": "e"}, "azureml:e@latest"),
        ("azureml:e:3", "azureml:e:3"),
    ):
        assert (
            component(convert(tmp_path, trial_spec=spec(TRIAL, environment=given)))["environment"]
            == expected
        )


def test_packages_beside_a_dockerfile_are_not_said_to_be_written_out(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("lightgbm\n")
    (tmp_path / "Dockerfile").write_text("FROM x\n")
    conda = {"pip_requirements_file": "requirements.txt"}
    image = convert(
        tmp_path, trial_spec=spec(TRIAL, environment={"docker": {"image": "i"}, "conda": conda})
    )
    assert "packages of requirements.txt are written out" in messages(image)
    docker = {"build": {"dockerfile": "file:./Dockerfile"}}
    built = convert(
        tmp_path, trial_spec=spec(TRIAL, environment={"docker": docker, "conda": conda})
    )
    assert "written out" not in messages(built)
    assert "install its packages in the Dockerfile" in messages(built)


def test_a_script_without_python_gets_it(tmp_path: Path) -> None:
    trial = spec(
        TRIAL,
        type="DistributedComponent@1-legacy",
        launcher={"type": "Pytorch", "additional_arguments": "train.py --lr {inputs.lr}"},
        command=None,
    )
    written = component(convert(tmp_path, trial_spec=trial))
    assert written["command"] == "python train.py --lr ${{inputs.lr}}"
    assert written["distribution"] == {"type": "pytorch", "process_count_per_instance": 1}


# --- variables -----------------------------------------------------------------------------------------------------


def test_a_step_exports_its_variables_in_front_of_the_command(tmp_path: Path) -> None:
    result = convert(
        tmp_path,
        spec(SWEEP, environment_variables={"B": 2}),
        spec(TRIAL, environment_variables={"A": "it's", "B": 1}),
    )
    assert component(result)["command"].startswith("""export A='it'"'"'s' B=2; python train.py """)
    assert "environment_variables" not in document(result)["jobs"]["sweep"]
    assert "a v2 pipeline sweep loses the environment variables" in messages(result)


def test_a_job_keeps_its_variables_where_v2_keeps_them(tmp_path: Path) -> None:
    result = convert(
        tmp_path, spec(SWEEP, environment_variables={"AMLARC_PRESTEP": PRESTEP}), sweep_as="job"
    )
    assert document(result)["trial"]["environment_variables"] == {"AMLARC_PRESTEP": PRESTEP}
    assert "export" not in document(result)["trial"]["command"]


def test_the_misspelt_prestep_is_fixed(tmp_path: Path) -> None:
    result = convert(
        tmp_path, spec(SWEEP, environment_variables={"AMLARC_RESTEP": PRESTEP}), sweep_as="job"
    )
    assert document(result)["trial"]["environment_variables"] == {"AMLARC_PRESTEP": PRESTEP}
    assert "AMLARC_RESTEP, which nothing reads" in messages(result)


def test_get_cores_is_a_number_where_the_cores_are_known(tmp_path: Path) -> None:
    result = convert(
        tmp_path,
        spec(SWEEP, environment_variables={"AMLARC_PRESTEP": PRESTEP}),
        instance_type="32cpu128g",
    )
    assert component(result)["command"].startswith(
        "export MKL_NUM_THREADS=32 OMP_NUM_THREADS=32; python "
    )
    assert "its value 32 (the name 32cpu128g) is written" in messages(result)


def test_get_cores_is_the_cpu_limit_where_they_are_not_and_bash_runs_it(tmp_path: Path) -> None:
    result = convert(
        tmp_path,
        spec(SWEEP, environment_variables={"AMLARC_PRESTEP": PRESTEP}),
        instance_type="big",
    )
    prefix = component(result)["command"].partition("python train.py")[0]
    script = prefix + 'echo "$MKL_NUM_THREADS $OMP_NUM_THREADS"'
    run = subprocess.run(["bash", "-ec", script], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"([1-9]\d*) \1\n", run.stdout)
    known = f"get_cores() {{ echo 7; }}; {script}"
    run = subprocess.run(["bash", "-ec", known], capture_output=True, text=True, check=True)
    assert run.stdout == "7 7\n"


@pytest.mark.parametrize(
    ("quota", "expected"),
    [
        ("max 100000", "nproc"),
        ("3200000 100000", "32"),
        ("150000 100000", "1"),
        ("50000 100000", "1"),
    ],
)
def test_the_cpu_limit_is_read_as_whole_cores(tmp_path: Path, quota: str, expected: str) -> None:
    (tmp_path / "cpu.max").write_text(quota + "\n")
    script = (
        GET_CORES.replace("/sys/fs/cgroup/", f"{tmp_path}/").replace("nproc", "echo nproc")
        + "; get_cores"
    )
    assert (
        subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout
        == f"{expected}\n"
    )


def test_threads_are_set_when_asked_for(tmp_path: Path) -> None:
    files = {"train.py": "import lightgbm\n"}
    step = convert(tmp_path, files=files, threads="auto", instance_type="16cpu64g")
    assert "OMP_NUM_THREADS=16" in component(step)["command"]
    job = convert(tmp_path, files=files, threads="auto", sweep_as="job")
    assert "get_cores" in document(job)["trial"]["environment_variables"]["AMLARC_PRESTEP"]


# --- nothing is dropped in silence -----------------------------------------------------------------------------------


def test_every_key_without_an_equivalent_is_a_finding_with_its_line(tmp_path: Path) -> None:
    result = convert(
        tmp_path,
        spec(
            SWEEP,
            outputs={"metrics": {"type": "metrics"}},
            oddity=1,
            limits={**SWEEP["limits"], "max_duration": 3},
            early_termination={"policy_type": "median_stopping", "slack_factor": 0.1},
        ),
        spec(
            TRIAL,
            successful_return_code="ZeroOrGreater",
            strange=True,
            inputs={
                **TRIAL["inputs"],
                "train": {"type": "path", "label": "x", "datastore_mode": "hdfs"},
            },
            environment={
                "docker": {"image": "u", "arguments": "-it"},
                "python": 3,
                "os": "Windows",
            },
        ),
    )
    [finding] = result.findings
    assert (finding.rule, finding.severity) == ("sweep-to-v2", "warning")
    said = [entry for entry in finding.ledger if entry.needs_person]
    words = "\n".join(entry.text for entry in said)
    for expected in (
        "lost     SweepComponent.outputs.metrics: a v2 sweep has the outputs of its trial",
        "lost     SweepComponent.oddity: v2 has no place for it",
        "SweepComponent.limits.max_duration",
        "SweepComponent.early_termination.slack_factor",
        "trial.successful_return_code",
        "lost     trial.strange: v2 has no place for it",
        "trial.inputs.train.label",
        "no mode hdfs",
        "trial.environment.docker.arguments",
        "trial.environment.python",
        "trial.environment.os -> environment.os_type: Windows",
        "--compute is not given",
        "by hand  inputs.train: v1.5 gets it from the caller",
    ):
        assert expected in words
    places = {entry.argument: (entry.line, entry.column) for entry in said}
    text = (tmp_path / "sweep.yaml").read_text().splitlines()
    assert text[places["oddity"][0] - 1].startswith("oddity")
    assert (places["oddity"][1], places["limits.max_duration"][1]) == (1, 3)


def test_defaults_for_instance_type_and_count_are_said(tmp_path: Path) -> None:
    result = convert(tmp_path)
    assert document(result)["inputs"]["instance_type"] == "defaultinstancetype"
    assert "--instance-type is not given: defaultinstancetype is written" in messages(result)
    assert "--instance-count is not given: 1 is written" in messages(result)


# --- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "trial", "sentence"),
    [
        ({"trial": None}, TRIAL, "the sweep has no trial"),
        ({"trial": "file:./gone.yaml"}, TRIAL, "line 5: the trial ./gone.yaml cannot be read"),
        ({"trial": "file:./sweep.yaml"}, TRIAL, "trial refers to the sweep itself"),
        ({"trial": "azureml:x:1"}, TRIAL, "is not a file"),
        ({}, spec(SWEEP, trial="file:./sweep.yaml"), "the trial is itself a sweep"),
        ({}, {"type": "command", "command": "x"}, "already v2 (type: command)"),
        (
            {},
            spec(TRIAL, type="ParallelComponent"),
            "only CommandComponent and DistributedComponent",
        ),
        ({}, "a: [1\n", "spec.yaml:2: broken YAML"),
        ({}, "- 1\n", "spec.yaml: not a mapping"),
        ({}, spec(TRIAL, command=None), "the trial has no command"),
        ({}, spec(TRIAL, command="x {inputs.none}"), "names inputs.none, which is not declared"),
        (
            {},
            spec(TRIAL, type="DistributedComponent", launcher={"type": "ray"}),
            "launcher.type is 'ray'",
        ),
        ({"search_space": None}, TRIAL, "no search_space"),
        ({"search_space": {"lr": {"type": "poisson"}}}, TRIAL, "the distribution 'poisson'"),
        ({"search_space": {"lr": {"values": [1]}}}, TRIAL, "a distribution without type"),
        ({"search_space": {"lr": 3}}, TRIAL, "lr is not a distribution"),
        (
            {"search_space": {"lr": {"type": "uniform", "min_value": 1}}},
            TRIAL,
            "uniform needs max_value",
        ),
        (
            {"search_space": {"lr": {"type": "randint", "upper": 2, "lower": 1}}},
            TRIAL,
            "randint has no lower",
        ),
        ({"search_space": {"lr": {"type": "randint", "upper": 2.5}}}, TRIAL, "use a whole number"),
        ({"search_space": {"lr": {"type": "choice", "values": []}}}, TRIAL, "choice needs a list"),
        (
            {"search_space": {"lr": {"type": "choice", "values": [None]}}},
            TRIAL,
            "cannot be a value of a choice",
        ),
        ({"algorithm": "genetic"}, TRIAL, "the algorithm 'genetic' is unknown"),
        ({"objective": {"goal": "minimize"}}, TRIAL, "names no metric"),
        ({"objective": {"goal": "best", "primary_metric": "m"}}, TRIAL, "use minimize or maximize"),
        ({"limits": {}}, TRIAL, "limits.max_total_trials is missing"),
        ({"limits": {"max_total_trials": "many"}}, TRIAL, "use a whole number above 0"),
        ({"limits": {"max_total_trials": 1, "timeout_minutes": -3}}, TRIAL, "use a number above 0"),
        (
            {"limits": {"max_total_trials": 1, "timeout_minutes": float("inf")}},
            TRIAL,
            "use a number above 0",
        ),
        ({"early_termination": {"policy_type": "hope"}}, TRIAL, "policy 'hope' is unknown"),
        (
            {"early_termination": {"policy_type": "bandit"}},
            TRIAL,
            "bandit needs slack_factor or slack_amount",
        ),
        (
            {"early_termination": {"policy_type": "bandit", "slack_factor": 1, "slack_amount": 1}},
            TRIAL,
            "slack_amount, not both",
        ),
    ],
)
def test_bad_input_is_one_sentence_and_no_file(
    tmp_path: Path, changes: dict[str, Any], trial: dict[str, Any] | str, sentence: str
) -> None:
    result = convert(tmp_path, spec(SWEEP, **changes), trial)
    assert sentence in (result.refused or "")
    assert "\n" not in (result.refused or "")
    assert not result.new_files
    assert result.after is None


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("type: SweepComponent\n  trial: x\n", "line 2: broken YAML"),
        ("type: SweepComponent\ntype: SweepComponent\n", "line 2: duplicate key type"),
        ("type: SweepComponent\ntrial: &a {b: *a}\n", "line 2: an anchor that contains itself"),
        ("type: SweepComponent\n---\ntype: SweepComponent\n", "2 YAML documents: keep one"),
        ("type: SweepComponent\ntrial: " + "[" * 3000, "line 2: nested deeper than 1000 levels"),
        ("", "not a mapping"),
        ("? [a]\n: b\ntype: SweepComponent\n", "line 1: a key that is not text"),
        (
            "type: SweepComponent\nname: !colour red\n",
            "line 2: broken YAML: red cannot be read as !colour",
        ),
        (
            "type: SweepComponent\nname: !!int red\n",
            "line 2: broken YAML: red cannot be read as int",
        ),
        (
            "type: SweepComponent\n<<: [a]\n",
            "line 2: broken YAML: `<<` merges something that is not a mapping",
        ),
    ],
)
def test_broken_yaml_is_refused_with_its_place(tmp_path: Path, text: str, sentence: str) -> None:
    assert sentence in (convert(tmp_path, text).refused or "")


def test_a_sweep_from_standard_input_is_refused() -> None:
    result = sweep.convert("-", yaml.safe_dump(SWEEP).encode(), Settings(), read)
    assert result.refused == "standard input has no folder to write into: give the sweep's file"


def test_text_that_is_not_utf8_is_refused_with_its_line() -> None:
    result = sweep.convert("s.yaml", b"type: SweepComponent\nname: \xff\n", Settings(), read)
    assert result.refused == "line 2: not UTF-8 text: fix it first"


def test_a_file_that_is_not_a_legacy_sweep_is_not_changed_alone(tmp_path: Path) -> None:
    for text in ("type: sweep\n", "type: CommandComponent\n", "a: 1\n"):
        result = convert(tmp_path, text)
        assert (result.refused, result.new_files, result.findings) == (None, (), ())


def test_an_optional_input_outside_of_brackets_is_refused_for_a_job(tmp_path: Path) -> None:
    trial = spec(TRIAL, command="x {inputs.extra}")
    assert "outside of brackets" in (
        convert(tmp_path, trial_spec=trial, sweep_as="job").refused or ""
    )


def test_an_optional_input_outside_of_brackets_is_said_for_a_step(tmp_path: Path) -> None:
    result = convert(tmp_path, trial_spec=spec(TRIAL, command="x {inputs.extra}"))
    assert "uses the optional input extra outside of brackets" in messages(result)


def test_names_that_the_python_form_needs_itself_give_way(tmp_path: Path) -> None:
    inputs = {
        "lr": {"type": "Float"},
        "dsl": {"type": "String", "default": "x"},
        "class": {"type": "String"},
    }
    trial = spec(TRIAL, inputs=inputs, command="x {inputs.lr} {inputs.dsl} {inputs.class}")
    result = convert(tmp_path, spec(SWEEP, name="import"), trial, sweep_as="python")
    module = texts(result)["sweep_v2.py"]
    compile(module, "sweep_v2.py", "exec")
    assert "def sweep_import(\n    class_,\n    dsl_=" in module
    assert "inputs.dsl: it is named dsl_: Python has another use for it" in messages(result)


@pytest.mark.parametrize("form", ["step", "job", "python"])
def test_escaped_braces_around_a_name_are_text(tmp_path: Path, form: str) -> None:
    trial = spec(
        TRIAL, command="x {inputs.lr} [{{inputs.gone}} {inputs.extra}] ${{{{inputs.gone}}}}"
    )
    result = convert(tmp_path, trial_spec=trial, sweep_as=form)
    assert component(result)["command"] == (
        "x ${{inputs.lr}} $[[{inputs.gone} ${{inputs.extra}}]] ${{inputs.gone}}"
    )
