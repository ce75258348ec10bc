"""Sweeps in Python source: `runsettings.sweep` is reported with its v2 code, HyperDrive is written or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from arc_toolkit.azureml.settings import Settings
from arc_toolkit.findings import Finding
from arc_toolkit.migrate.search_space import DISTRIBUTIONS
from tests.azureml.python.support import notebook, patch_bytes, patch_cells
from tests.migrate.support import azure, convert_python

STEP = """\
from azure.ml.component import Component, dsl
from azureml.train.hyperdrive import BanditPolicy, choice, uniform

trial = Component.from_yaml(ws, yaml_file="./sweep.yaml")


@dsl.pipeline()
def train_all(train, kind="a"):
    other = trial(train=train)
    step = trial(train=train, lr=uniform(0.1, 1.0), extra=choice("a", True), n=choice([1, 2]))
    step.runsettings.sweep.algorithm = "random"
    step.runsettings.sweep.objective.configure(primary_metric="loss", goal=config.goal)
    step.runsettings.resource_layout.configure(instance_type=kind, node_count=2)
    step.runsettings.sweep.limits.configure(max_total_trials=4, timeout_minutes=3)
    step.runsettings.sweep.early_termination = BanditPolicy(1, slack_factor=0.2)
    step.runsettings.target = "k8s"
    step.runsettings.docker_configuration.shm_size = "4g"
    step.runsettings.priority = 3
    return {"model": step.outputs.model}
"""
LINES = """\
by hand  step.lr -> lr=Uniform(min_value=0.1, max_value=1.0)
by hand  step.extra -> extra=Choice(values=['a', True])
by hand  step.n -> n=Choice(values=[1, 2])
by hand  runsettings.sweep.algorithm -> sampling_algorithm='random'
by hand  runsettings.sweep.objective.primary_metric -> primary_metric='loss'
by hand  runsettings.sweep.objective.goal -> goal=config.goal
by hand  runsettings.resource_layout.instance_type -> resources.instance_type = kind
by hand  runsettings.resource_layout.node_count -> resources.instance_count = 2
by hand  runsettings.sweep.limits.max_total_trials -> max_total_trials=4
by hand  runsettings.sweep.limits.timeout_minutes -> timeout=3: in seconds: 60 times the minutes
by hand  runsettings.sweep.early_termination -> early_termination_policy=BanditPolicy(\
evaluation_interval=1, slack_factor=0.2)
by hand  runsettings.target -> compute = 'k8s'
by hand  runsettings.docker_configuration.shm_size -> resources.shm_size = '4g'
lost     runsettings.priority: v2 has no place for it
"""

CONFIG = """\
from azureml.train.hyperdrive import HyperDriveConfig, MedianStoppingPolicy, PrimaryMetricGoal, RandomParameterSampling
from azureml.train.hyperdrive import choice, loguniform
from azureml.core import ScriptRunConfig

node = ScriptRunConfig(".", script="t.py")
config = HyperDriveConfig(
    run_config=node,
    hyperparameter_sampling=RandomParameterSampling({"--lr": loguniform(-3, -1), "n": choice(range(1, 4))}),
    policy=MedianStoppingPolicy(delay_evaluation=5),
    primary_metric_name="auc",
    primary_metric_goal=PrimaryMetricGoal.MAXIMIZE,
    max_total_runs=8,
    max_concurrent_runs=2,
    max_duration_minutes=60,
)
"""


def rewritten(text: str, **settings: Any) -> tuple[str, list[Finding]]:
    result = convert_python(text, **settings)
    assert result.refused is None
    after = (result.after or result.before).decode()
    assert convert_python(after, **settings).after is None, "a second run changes nothing"
    return after, list(result.findings)


def reasons(text: str) -> str:
    """Why a text is not changed."""
    after, findings = rewritten(text)
    assert after == text
    assert findings
    assert not any(finding.applied for finding in findings)
    assert all(finding.line for finding in findings)
    return "\n".join(finding.reason for finding in findings)


def ledger_of(text: str) -> list[str]:
    [finding] = rewritten(text)[1]
    assert (finding.severity, finding.applied) == ("warning", False)
    return [entry.text for entry in finding.ledger]


def test_run_settings_are_reported_with_the_v2_code_of_each() -> None:
    after, [finding] = rewritten(STEP)
    assert after == STEP
    assert finding.message == "runsettings.sweep of step is not rewritten"
    assert finding.line == STEP[: STEP.index("step.runsettings.sweep")].count("\n") + 1
    assert "`patch --sweep-to-v2 --as python` writes a pipeline function" in finding.reason
    assert [entry.text for entry in finding.ledger] == LINES.splitlines()


def test_settings_through_a_helper_and_a_configuration_are_reported() -> None:
    text = """\
import azure.ml.component

def apply(step, config):
    if config.limits:
        step.runsettings.sweep.limits.configure(max_total_trials=config.limits.trials, **more)
    step.runsettings.sweep.early_termination.configure(policy_type=config.policy)
    step.runsettings.sweep.oddity = 1
"""
    lines = ledger_of(text)
    assert lines[0].endswith("-> max_total_trials=config.limits.trials")
    assert "lost     runsettings.sweep.limits.**: more: v2 has no place for it" in lines
    assert "lost     runsettings.sweep.oddity: 1: v2 has no place for it" in lines
    assert any(
        "-> early_termination_policy=config.policy: BanditPolicy, " in line for line in lines
    )


def test_what_was_asked_for_and_is_left_to_a_person_is_exit_2_and_the_rest_is_patched() -> None:
    settings = Settings(sweep_to_v2=True, instance_type="32cpu128g")
    result = patch_bytes("p.py", STEP.encode(), settings)
    text = (result.after or b"").decode()
    assert 'other.runsettings.resource_layout.configure(instance_type="32cpu128g")' in text
    assert text.count("runsettings.sweep.") == STEP.count("runsettings.sweep.")
    [finding] = [item for item in result.findings if item.rule == "sweep-to-v2"]
    assert (finding.severity, finding.applied) == ("warning", False)


def test_a_notebook_is_reported_by_cell() -> None:
    cut = STEP.index("\n@dsl")
    cells = [STEP[:cut].splitlines(keepends=True), STEP[cut:].splitlines(keepends=True)]
    result = patch_cells(notebook(*cells), Settings(sweep_to_v2=True))
    [finding] = [item for item in result.findings if item.rule == "sweep-to-v2"]
    assert finding.message.startswith("cell 2 line ")
    assert [entry.text for entry in finding.ledger] == LINES.splitlines()


def test_without_the_option_nothing_is_converted() -> None:
    result = patch_bytes("p.py", STEP.encode(), Settings())
    assert result.after is None
    assert {finding.rule for finding in result.findings} == {"legacy-sweep"}


def test_an_inline_ignore_silences_a_sweep() -> None:
    ignored = STEP.replace(
        '= "random"', '= "random"  # arc-toolkit: ignore[sweep-to-v2] it runs elsewhere'
    )
    result = convert_python(ignored)
    assert (result.after, result.findings) == (None, ())


def test_a_file_without_the_words_has_nothing() -> None:
    result = convert_python("from azure.ai.ml import command\nx = 1\n")
    assert (result.after, result.findings) == (None, ())


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("node = ScriptRunConfig(", "node = make(", "node is not a ScriptRunConfig"),
        (
            "RandomParameterSampling({",
            "sampling({",
            "hyperparameter_sampling is not a hyperdrive call",
        ),
        ("choice(range(1, 4))", "choice(options)", "a value of n is not a plain value: options"),
        ("MedianStoppingPolicy(delay_evaluation=5)", "early", "policy is not a hyperdrive call"),
        ("    run_config=node,", "", "HyperDriveConfig has nothing to run"),
        ("PrimaryMetricGoal.MAXIMIZE", "goal", "objective.goal is None: use minimize or maximize"),
        ('{"--lr": loguniform(-3, -1), "n": choice(range(1, 4))}', "space", "is not a dict: space"),
        (
            '{"--lr": loguniform(-3, -1), "n": choice(range(1, 4))}',
            "{}",
            "the sweep has no search_space",
        ),
        (
            "choice(range(1, 4))",
            "3",
            "n in RandomParameterSampling is not a hyperdrive distribution",
        ),
        (
            '"n": choice(range(1, 4))',
            "**more",
            "** in RandomParameterSampling is not a hyperdrive distribution",
        ),
    ],
)
def test_a_hyperdrive_config_that_cannot_be_converted_is_not_changed(
    old: str, new: str, reason: str
) -> None:
    assert old in CONFIG
    assert reason in reasons(CONFIG.replace(old, new, 1))


def test_a_config_in_a_function_is_converted() -> None:
    head, _, config = CONFIG.partition("config = ")
    inside = "def build():\n    " + ("config = " + config).replace("\n", "\n    ").rstrip() + "\n"
    assert [path for path, _ in convert_python(head + inside).new_files] == ["p.config.sweep.yml"]


def test_a_config_in_a_function_without_a_step_is_reported() -> None:
    head = "from azureml.train.hyperdrive import HyperDriveConfig  # no command here\n"
    text = "def build(run, sampling):\n    x = HyperDriveConfig(run_config=run, hyperparameter_sampling=sampling)\n"
    assert "hyperparameter_sampling is not a hyperdrive call" in reasons(head + text)


# --- run for real ----------------------------------------------------------------------------------------------------

CALLS = {
    "choice": "choice(1, 2.5, 'x')",
    "randint": "randint(7)",
    "uniform": "uniform(0, 1)",
    "loguniform": "loguniform(min_value=-3, max_value=-1)",
    "quniform": "quniform(0, 10, 0.5)",
    "qloguniform": "qloguniform(0, 10, q=2)",
    "normal": "normal(0, 1)",
    "lognormal": "lognormal(0, sigma=2)",
    "qnormal": "qnormal(1, 2, 3)",
    "qlognormal": "qlognormal(1, 2, 3)",
}


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "policy", ["BanditPolicy(2, 0.1)", "MedianStoppingPolicy(3)", "TruncationSelectionPolicy(20)"]
)
def test_the_v2_code_of_the_ledger_runs_with_the_real_sdk(tmp_path: Path, policy: str) -> None:
    assert set(CALLS) == set(DISTRIBUTIONS)
    ml = azure()
    import azure.ai.ml.sweep as classes

    arguments = ", ".join(f"{name}={call}" for name, call in CALLS.items())
    text = STEP.replace(
        'lr=uniform(0.1, 1.0), extra=choice("a", True), n=choice([1, 2])', arguments
    )
    text = text.replace("BanditPolicy(1, slack_factor=0.2)", policy).replace(
        "config.goal", "'minimize'"
    )
    [finding] = rewritten(text)[1]
    code = {entry.argument: entry.becomes for entry in finding.ledger}
    swept = ", ".join(code[name] for name in CALLS)
    settings = ", ".join(value for key, value in code.items() if key.startswith("sweep."))
    (tmp_path / "t.py").write_text("pass")
    node = ml.command(
        command="python t.py", environment="azureml:e@latest", inputs=dict.fromkeys(CALLS, 1)
    )
    names = {**vars(classes), "node": node}
    sweep = eval(f"node({swept}).sweep({settings})", names)
    assert set(sweep.search_space) == set(CALLS)
    assert sweep.search_space["qnormal"].sigma == 2
    assert type(sweep.early_termination).__name__ == policy.partition("(")[0]
    assert sweep.limits.max_total_trials == 4
