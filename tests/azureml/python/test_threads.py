"""`--threads` in Python: where the variables go, and on what evidence."""

from __future__ import annotations

from pathlib import Path

import pytest

from arc_toolkit.azureml.settings import Settings
from tests.azureml.python.support import V2, check_left, check_noop, check_transformed

CORES = "` get_cores `"
VALUE = f"export MKL_NUM_THREADS={CORES} NUMEXPR_NUM_THREADS={CORES} OMP_NUM_THREADS={CORES}"
LIGHTGBM = Settings(threads="lightgbm")
AUTO = Settings(threads="auto")
STEP = V2 + "\n@dsl.pipeline\ndef p(x):\n    node = train(x=x)\n"


def test_a_step_gets_its_variables_in_one_assignment() -> None:
    check_transformed(
        STEP, STEP + f'    node.environment_variables = {{"AMLARC_PRESTEP": "{VALUE}"}}\n', LIGHTGBM
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"A": "1"}', f'{{"A": "1", "AMLARC_PRESTEP": "{VALUE}"}}'),
        ("{}", f'{{"AMLARC_PRESTEP": "{VALUE}"}}'),
        ("dict(A='1')", f"dict(A='1', AMLARC_PRESTEP=\"{VALUE}\")"),
        (
            "{'OMP_NUM_THREADS': '4'}",
            "{'OMP_NUM_THREADS': '4', \"AMLARC_PRESTEP\": \"" + VALUE[: VALUE.index(" OMP")] + '"}',
        ),
        (
            "{\n        'A': '1',\n    }",
            f"{{\n        'A': '1',\n        \"AMLARC_PRESTEP\": \"{VALUE}\",\n    }}",
        ),
    ],
    ids=["dict", "empty", "call", "a literal of its own stays", "lines"],
)
def test_variables_that_are_there_are_merged(before: str, after: str) -> None:
    assigned = STEP + '    print("a", "b", "c")\n    node.environment_variables = '
    after = after.rstrip()
    check_transformed(assigned + before + "\n", assigned + after + "\n", LIGHTGBM)
    call = 'from azure.ai.ml import command\n\nA = "a", "b", "c"\njob = command(environment_variables={})\n'
    check_transformed(call.replace("{}", before), call.replace("{}", after), LIGHTGBM)


def test_the_habit_of_subscripts_is_kept() -> None:
    text = STEP + "    node.environment_variables['A'] = '1'\n"
    check_transformed(
        text, text + f'    node.environment_variables["AMLARC_PRESTEP"] = "{VALUE}"\n', LIGHTGBM
    )
    text = STEP + "    node.environment_variables['AMLARC_PRESTEP'] = "
    check_transformed(
        text + "'export OMP_NUM_THREADS=` get_cores `'\n", text + '"' + _merged() + '"\n', LIGHTGBM
    )


def _merged() -> str:
    return f"export OMP_NUM_THREADS={CORES} MKL_NUM_THREADS={CORES} NUMEXPR_NUM_THREADS={CORES}"


def test_what_is_right_is_left() -> None:
    text = STEP + f'    node.environment_variables = {{"AMLARC_PRESTEP": "{VALUE}"}}\n'
    assert [finding.rule for finding in check_noop(text, LIGHTGBM)] == ["missing-instance-type"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("node.environment_variables = VARIABLES", "made elsewhere"),
        ("node.environment_variables = {**VARIABLES}", "come from **"),
        (
            "node.environment_variables = {'OMP_NUM_THREADS': n}",
            "its OMP_NUM_THREADS is not a literal",
        ),
        ("node.environment_variables['A'] = n", "is not a literal"),
    ],
)
def test_variables_from_elsewhere_are_left(line: str, reason: str) -> None:
    check_left(STEP + f"    {line}\n", reason, LIGHTGBM)


def test_a_sweep_in_a_pipeline_would_lose_them() -> None:
    text = STEP + "    tuned = node.sweep(primary_metric='m', goal='g')\n"
    check_left(text, "a sweep in a pipeline loses environment variables", LIGHTGBM)


def test_a_standalone_sweep_keeps_those_of_its_command() -> None:
    text = """\
from azure.ai.ml import command

work = command(command="x")
trial = work(lr=Choice([1, 2]))
tuned = trial.sweep(primary_metric="m", goal="g")
"""
    new = f'command="x", environment_variables={{"AMLARC_PRESTEP": "{VALUE}"}}'
    check_transformed(text, text.replace('command="x"', new), LIGHTGBM)


def test_parallel_steps_share_the_cores() -> None:
    text = """\
from azure.ai.ml.parallel import parallel_run_function

score = parallel_run_function(name="s", max_concurrency_per_instance=4)
"""
    number = '{"MKL_NUM_THREADS": "8", "NUMEXPR_NUM_THREADS": "8", "OMP_NUM_THREADS": "8"}'
    findings = check_transformed(
        text,
        text.replace("=4)", f'=4, instance_type="32cpu128g", environment_variables={number})'),
        Settings(threads="lightgbm", instance_type="32cpu128g"),
    )
    assert "32 cores (the name 32cpu128g) / 4 processes per node = 8" in findings[0].reason


def test_auto_decides_on_evidence() -> None:
    text = """\
from azure.ai.ml import command

one = command(command="python train.py", environment="azureml:lightgbm-3.2@latest")
two = command(command="python train.py", environment="azureml:sklearn@latest")
"""
    findings = check_transformed(
        text,
        text.replace(
            '3.2@latest"', f'3.2@latest", environment_variables={{"AMLARC_PRESTEP": "{VALUE}"}}'
        ),
        AUTO,
    )
    assert [finding.reason for finding in findings] == [
        "lightgbm in environment azureml:lightgbm-3.2@latest"
    ]


def test_auto_reads_the_component_file(tmp_path: Path) -> None:
    (tmp_path / "train.yml").write_text("type: command\ncommand: python -m lightgbm\n# faiss\n")
    after = STEP + f'    node.environment_variables = {{"AMLARC_PRESTEP": "{VALUE}"}}\n'
    findings = check_transformed(STEP, after, AUTO, path=str(tmp_path / "p.py"))
    assert [finding.reason for finding in findings] == ["lightgbm in the command"]


def test_auto_looks_into_code_and_conda_files(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("import lightgbm as lgb\n")
    (tmp_path / "conda.yml").write_text("dependencies: [faiss-cpu]\n")
    text = """\
from azure.ai.ml import command
from azure.ai.ml.entities import Environment

env = Environment(image="ubuntu", conda_file="conda.yml")
one = command(command="python train.py", code="./src", environment="azureml:e@latest")
two = command(command="python train.py", environment=env)
"""
    findings = check_noop(text, Settings(threads="auto", manual=True), path=str(tmp_path / "p.py"))
    reasons = [
        finding.reason.partition(",")[0] for finding in findings if finding.rule == "threads"
    ]
    assert reasons == [
        "lightgbm in src/train.py",
        "faiss in conda.yml",
    ]


def test_auto_without_evidence_changes_nothing() -> None:
    assert check_noop(STEP, AUTO) == ()


def test_faiss_with_a_data_loader_needs_the_cores() -> None:
    settings = Settings(threads="faiss", dataloader_workers=4)
    check_left(STEP, "use --instance-type or --cores", settings)
    check_transformed(
        STEP,
        STEP + '    node.environment_variables = {"OMP_NUM_THREADS": "8"}\n',
        Settings(threads="faiss", dataloader_workers=4, cores=32),
    )
