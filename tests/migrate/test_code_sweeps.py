"""Sweeps in Python source: literal settings are rewritten and run with azure-ai-ml, all else has a reason."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arc_toolkit.azureml.python.python_plan import PythonPlan
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.edit.code.editor import Changes
from arc_toolkit.edit.code.names import Scope, Use
from arc_toolkit.edit.code.source import Source
from arc_toolkit.edit.files.edits import Edit
from arc_toolkit.findings import Finding
from arc_toolkit.migrate import code_sweeps
from arc_toolkit.migrate.code_sweeps import SweepChange, step_change
from arc_toolkit.migrate.legacy_spec import SWEEP_RULE as RULE
from arc_toolkit.migrate.search_space import DISTRIBUTIONS
from tests.migrate.support import assert_valid, azure, body, convert_python, patch_file

STEP = """\
from azureml.train.hyperdrive import BanditPolicy, choice, uniform


@dsl.pipeline()
def train_all(train, kind="a"):
    step = trial(train=train, lr=uniform(0.1, 1.0), extra=choice("a", True))  # made here
    step.runsettings.sweep.algorithm = "Random"
    step.runsettings.sweep.objective.configure(primary_metric="loss", goal="minimize")  # why
    step.runsettings.resource_layout.configure(instance_type=kind, node_count=2)
    step.runsettings.sweep.limits.configure(max_total_trials=4, timeout_minutes=3)
    step.runsettings.sweep.early_termination = BanditPolicy(1, slack_factor=0.2)
    step.runsettings.target = "k8s"
    return {"model": step.outputs.model}
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


def test_run_settings_become_a_sweep_with_resources() -> None:
    after, findings = rewritten(STEP)
    assert (
        after
        == """\
from azure.ai.ml.entities import JobResourceConfiguration
from azure.ai.ml.sweep import BanditPolicy, Choice, Uniform


@dsl.pipeline()
def train_all(train, kind="a"):
    step = trial(train=train, lr=Uniform(min_value=0.1, max_value=1.0), extra=Choice(values=["a", "True"]))  # made here
    # why
    step = step.sweep(
        primary_metric="loss",
        goal="minimize",
        sampling_algorithm="random",
        max_total_trials=4,
        timeout=180,
        early_termination_policy=BanditPolicy(slack_factor=0.2, evaluation_interval=1, delay_evaluation=0),
    )
    step.resources = JobResourceConfiguration(instance_type=kind, instance_count=2)
    step.compute = "k8s"
    return {"model": step.outputs.model}
"""
    )
    assert [finding.severity for finding in findings] == ["warning", "note"]
    assert "load what `patch --sweep-to-v2` writes" in findings[0].reason


@pytest.mark.parametrize(
    ("head", "is_v15"),
    [
        ("from azure.ml.component import dsl\n", True),
        (
            "import azure.ml.component as c\ndsl = c.dsl\ntrial = c.Component.from_yaml(yaml_file='t.yml')\n",
            True,
        ),
        ("# was: from azure.ml.component import dsl\nfrom azure.ai.ml import dsl\n", False),
    ],
)
def test_only_steps_of_sdk_v15_get_a_word_about_it(head: str, is_v15: bool) -> None:
    _, findings = rewritten(head + STEP)
    assert ("SDK v1.5" in findings[0].reason) == is_v15


def test_settings_of_the_command_line_win() -> None:
    after, _ = rewritten(STEP, instance_type="32cpu128g", instance_count=3, compute="azureml:arc")
    assert 'JobResourceConfiguration(instance_type="32cpu128g", instance_count=3)' in after
    assert 'step.compute = "arc"' in after


def test_crlf_and_tabs_are_kept() -> None:
    text = STEP.replace("    ", "\t").replace("\n", "\r\n")
    after, _ = rewritten(text)
    assert "\n" not in after.replace("\r\n", "")
    assert "\r\n\tstep.resources = " in after


def test_hyperdrive_names_that_are_still_used_stay_imported() -> None:
    after, _ = rewritten(STEP + "\nother = choice(1)\n")
    assert "from azureml.train.hyperdrive import choice\n" in after


@pytest.mark.parametrize(
    "how", ["import azureml.train.hyperdrive as hd", "from azureml.train import hyperdrive as hd"]
)
def test_a_module_import_is_followed_and_stays(how: str) -> None:
    text = STEP.replace("from azureml.train.hyperdrive import BanditPolicy, choice, uniform", how)
    for name in ("BanditPolicy(", "choice(", "uniform("):
        text = text.replace(name, f"hd.{name}")
    after, _ = rewritten(text)
    assert f"from azure.ai.ml.sweep import BanditPolicy, Choice, Uniform\n{how}\n" in after
    assert "lr=Uniform(" in after


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (
            "max_total_trials=4",
            "max_total_trials=trials",
            "limits.max_total_trials is not a plain value: trials",
        ),
        ("max_total_trials=4, ", "", "limits.max_total_trials is missing"),
        (
            "(max_total_trials=4, timeout_minutes=3)",
            "(**limits)",
            "**arguments that cannot be read",
        ),
        (
            "uniform(0.1, 1.0)",
            "uniform(low, 1.0)",
            "min_value of uniform of lr is not a plain value: low",
        ),
        ("uniform(0.1, 1.0)", "uniform(0.1)", "uniform needs max_value"),
        ('goal="minimize"', 'goal="best"', "use minimize or maximize"),
        ("slack_factor=0.2", "slack=0.2", "BanditPolicy has no argument slack"),
        (
            'step.runsettings.target = "k8s"',
            "step.runsettings.priority = 3",
            "runsettings.priority has no equivalent",
        ),
        (
            "node_count=2",
            "process_count_per_node=2",
            "resource_layout.process_count_per_node has no equivalent",
        ),
        (
            "    step.runsettings.sweep.algorithm",
            "    log(step)\n    step.runsettings.sweep.algorithm",
            "is used before",
        ),
        (
            'lr=uniform(0.1, 1.0), extra=choice("a", True)',
            "lr=3",
            "is imported here, so the search space is in its spec",
        ),
        (
            "node_count=2)",
            "node_count=2  # two\n    )",
            "a comment inside the statement would be lost",
        ),
        (
            'algorithm = "Random"',
            'algorithm = "Random"; log()',
            "another statement is on the same line",
        ),
        (
            "    step = trial(",
            "    if train:\n        step = None\n    step2 = trial(",
            "not made by one call in the same block",
        ),
        (
            "\n\n\n@dsl",
            "\n\n\nother = BanditPolicy(1, 2)\n\n\n@dsl",
            "BanditPolicy of hyperdrive is used in other places",
        ),
        (
            "    return",
            "    if kind:\n        step.runsettings.priority = 3\n    return",
            "in another block too",
        ),
        (
            "limits.configure(max_total_trials=4, timeout_minutes=3)",
            "limits.max_total_trials += 4",
            "not a plain",
        ),
        (
            "limits.configure(max_total_trials=4, timeout_minutes=3)",
            "limits = 4",
            "limits is not a mapping",
        ),
        ('"minimize")', '"minimize", trials=1)', "objective.trials has no equivalent in v2"),
        ('choice("a", True)', 'choice(values=["a"])', "choice takes no keyword arguments"),
        ("uniform(0.1, 1.0)", "uniform(0.1, 1.0, 2)", "has more arguments than it takes"),
        ("uniform(0.1, 1.0)", "uniform(**space)", "**arguments that cannot be read"),
        ('choice("a", True)', "choice(range(10**9))", "a value of extra is not a plain value"),
        ("    step = trial", "    step: Node = trial", "not made by one call in the same block"),
        (
            "\n\n\n@dsl",
            "\nfrom mine import Uniform\n\n\n@dsl",
            "the name Uniform means something else in line 2",
        ),
        (
            "BanditPolicy, choice, uniform",
            "(BanditPolicy, choice,  # why\n    uniform)",
            "would be lost (import of",
        ),
        (
            "from azureml",
            "if True:\n    from azureml",
            "hyperdrive is not imported at the top of the file",
        ),
    ],
)
def test_what_cannot_be_converted_is_not_changed_and_has_a_reason(
    old: str, new: str, reason: str
) -> None:
    assert old in STEP
    assert reason in reasons(STEP.replace(old, new, 1))


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


def test_settings_through_a_helper_are_reported() -> None:
    text = "def apply(step, config):\n    step.runsettings.sweep.algorithm = config.algorithm\n"
    assert "not made by one call in the same block" in reasons("import azure.ml.component\n" + text)


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        (lambda edits: edits[:-1], "the new text would have a change that was not asked for"),
        (
            lambda edits: [Edit(0, 0, "import os\n"), *edits],
            "the new text would have a change that was not asked for",
        ),
        (
            lambda edits: [Edit(one.start, one.end, one.text + " )") for one in edits],
            "does not parse",
        ),
        (lambda edits: edits + edits[-1:], "two edits overlap"),
    ],
)
def test_a_conversion_is_refused_when_the_editor_lies(
    monkeypatch: pytest.MonkeyPatch, lie: Callable[[list[Edit]], list[Edit]], reason: str
) -> None:
    honest = Changes.edits

    def edits(changes: Changes) -> dict[int, tuple[Source, list[Edit]]]:
        return {key: (source, lie(own)) for key, (source, own) in honest(changes).items()}

    monkeypatch.setattr(Changes, "edits", edits)
    result = convert_python(STEP)
    assert result.after is None
    assert reason in (result.refused or "")


def test_a_conversion_that_a_second_run_would_change_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def again(plan: PythonPlan, scope: Scope, name: str, uses: list[Use]) -> SweepChange:
        change = step_change(plan, scope, name, uses)
        change.statements = [
            (statement, f"{text}\n{ast.unparse(statement.stmt)}")
            for statement, text in change.statements
        ]
        change.distributions = {}
        change.reader.names.clear()
        return change

    monkeypatch.setattr(code_sweeps, "step_change", again)
    text = STEP.replace(
        "early_termination = BanditPolicy(1, slack_factor=0.2)", 'algorithm = "grid"'
    )
    result = convert_python(text)
    assert (result.after, result.refused) == (
        None,
        "not stable: a second run would change the file again",
    )


def test_a_sweep_in_a_loop_and_two_of_the_same_name_are_converted() -> None:
    first, _, second = STEP.partition("    return")[0].rpartition("    step = trial(")
    step = "    step = trial(" + second
    text = (
        first + step + "    for _ in range(2):\n" + step.replace("    step", "        step") + step
    )
    after, findings = rewritten(text)
    assert after.count("step = step.sweep(") == 3
    assert "runsettings" not in after
    assert sum(finding.severity == "note" for finding in findings) == 3


def test_the_names_of_azure_ai_ml_are_imported_once() -> None:
    head = "from azure.ai.ml.entities import JobResourceConfiguration\nfrom azure.ai.ml.sweep import Uniform\n"
    after, _ = rewritten(head + STEP)
    assert after.startswith(head + "from azure.ai.ml.sweep import BanditPolicy, Choice\n\n")


def test_an_inline_ignore_keeps_a_sweep() -> None:
    kept = STEP.replace(
        '"Random"', '"Random"  # arc-toolkit: ignore[sweep-to-v2] it runs elsewhere'
    )
    result = convert_python(kept)
    assert (result.after, result.findings) == (None, ())


def test_a_file_without_the_words_has_nothing() -> None:
    result = convert_python("from azure.ai.ml import command\nx = 1\n")
    assert (result.after, result.findings) == (None, ())


# --- the spec of a step ----------------------------------------------------------------------------------------------

SPEC = """\
$schema: http://azureml/sdk-1-5/SweepComponent.json
name: my.sweep
type: SweepComponent
trial: file:./train.yaml
algorithm: grid
search_space:
  lr: {type: uniform, min_value: 5, max_value: 6}
  depth: {type: choice, values: [1, 2]}
  fixed: {type: randint, upper: 3}
objective: {primary_metric: {default: auc, enum: [auc, rmse]}, goal: maximize}
limits: {max_total_trials: 40, max_concurrent_trials: 5, timeout_minutes: 2}
early_termination: {policy_type: median_stopping, evaluation_interval: 7}
"""
OF_SPEC = """\
from azure.ml.component import Component, dsl
from azureml.train.hyperdrive import uniform

sweep_func = Component.from_yaml(yaml_file="sweep.yaml")


@dsl.pipeline()
def train_all(train):
    step = sweep_func(train=train, lr=uniform(0.1, 1.0), fixed=3)
    step.runsettings.sweep.limits.configure(max_total_trials=4)
    return step.outputs
"""


def converted_beside(folder: Path, text: str, spec: str | None = SPEC) -> tuple[str, str]:
    if spec is not None:
        (folder / "sweep.yaml").write_text(spec)
    settings = Settings(sweep_to_v2=True, only=frozenset({RULE}))
    result = patch_file(str(folder / "p.py"), text.encode(), settings)
    assert result.refused is None
    return (result.after or b"").decode(), "\n".join(finding.reason for finding in result.findings)


def test_what_the_spec_sets_and_the_code_does_not_repeat_is_kept(tmp_path: Path) -> None:
    after, reasons = converted_beside(tmp_path, OF_SPEC)
    assert (
        "= sweep_func(train=train, lr=Uniform(min_value=0.1, max_value=1.0), fixed=3, depth=Choice(values=[1, 2]))"
        in after
    )
    assert (
        """\
    step = step.sweep(
        primary_metric="auc",
        goal="maximize",
        sampling_algorithm="grid",
        max_total_trials=4,
        max_concurrent_trials=5,
        timeout=120,
        early_termination_policy=MedianStoppingPolicy(evaluation_interval=7, delay_evaluation=0),
    )
"""
        in after
    )
    assert "is not found here" not in reasons


def test_a_search_space_that_is_in_the_spec_only_is_passed_to_the_step(tmp_path: Path) -> None:
    after, _ = converted_beside(tmp_path, OF_SPEC.replace(", lr=uniform(0.1, 1.0), fixed=3", ""))
    for text in (
        "lr=Uniform(min_value=5, max_value=6)",
        "depth=Choice(values=[1, 2])",
        "fixed=Randint(upper=3)",
    ):
        assert text in after


def test_a_spec_that_is_not_found_is_reported(tmp_path: Path) -> None:
    line = '    step.runsettings.sweep.objective = {"primary_metric": "a", "goal": "minimize"}\n'
    text = OF_SPEC.replace("    return", f"{line}    return")
    after, reasons = converted_beside(tmp_path, text, spec=None)
    assert "max_concurrent_trials" not in after
    assert "That spec is not found here: what it sets and this code does not repeat" in reasons


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
def test_the_rewritten_pipeline_runs_with_the_real_sdk(tmp_path: Path, policy: str) -> None:
    assert set(CALLS) == set(DISTRIBUTIONS)
    ml = azure()
    arguments = ", ".join(f"{name}={call}" for name, call in CALLS.items())
    text = (
        STEP.replace('lr=uniform(0.1, 1.0), extra=choice("a", True)', arguments)
        .replace("BanditPolicy(1, slack_factor=0.2)", policy)
        .replace("BanditPolicy, choice, uniform", ", ".join((policy.split("(")[0], *CALLS)))
    )
    after, _ = rewritten(text, instance_type="32cpu128g")
    spec = {
        "type": "command",
        "command": " ".join(f"${{{{inputs.{name}}}}}" for name in ("train", *CALLS))
        + " ${{outputs.model}}",
        "environment": "azureml:e@latest",
        "inputs": {"train": {"type": "uri_folder"}, **{name: {"type": "string"} for name in CALLS}},
        "outputs": {"model": {"type": "uri_folder"}},
        "name": "t",
    }
    import yaml

    path = tmp_path / "trial.yaml"
    path.write_text(yaml.safe_dump(spec))
    names: dict[str, Any] = {"dsl": ml.dsl, "trial": ml.load_component(path)}
    exec(compile(after, "pipeline.py", "exec"), names)
    job = names["train_all"](train=ml.Input(type="uri_folder", path="azureml:t@latest"))
    assert_valid(job)
    node = body(job)["jobs"]["step"]
    assert node["search_space"]["choice"]["values"] == [1, 2.5, "x"]
    assert node["search_space"]["randint"]["upper"] == 7
    assert node["search_space"]["qnormal"] == {"type": "qnormal", "mu": 1, "sigma": 2, "q": 3}
    assert {name: one["type"] for name, one in node["search_space"].items()} == {
        name: name for name in CALLS
    }
    assert node["limits"] == {"max_total_trials": 4, "timeout": 180}
    assert node["resources"] == {"instance_type": "32cpu128g", "instance_count": 2}
    assert node["computeId"] == "k8s"
    assert node["early_termination"]["policy_type"] == policy.split("Policy(")[0]
    assert node["early_termination"]["evaluation_interval"] == {"B": 2, "M": 3, "T": 1}[policy[0]]
