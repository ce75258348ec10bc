"""Rules that need no setting: AMLARC_RESTEP, set_resources, sweep(instance_type=...), SDK v1 and v1.5 leftovers."""

from __future__ import annotations

import pytest

from arc_toolkit.azureml.settings import Settings
from tests.azureml.python.support import TYPE, V2, V15, check_noop, check_transformed, patch

CHECK = Settings()
STEP = V2 + "\n@dsl.pipeline\ndef p(x, n=1):\n    node = train(x=x)\n"


def rules(text: str, settings: Settings = CHECK) -> list[tuple[str, bool]]:
    return [(finding.rule, finding.applied) for finding in patch(text, settings).findings]


@pytest.mark.parametrize(
    "code",
    [
        'env = {"AMLARC_RESTEP": "export A=1"}',
        "env['AMLARC_RESTEP'] = 'export A=1'",
        "env = dict(AMLARC_RESTEP='export A=1')",
        "f(AMLARC_RESTEP=1)",
    ],
)
def test_the_misspelt_variable_is_fixed(code: str) -> None:
    findings = check_transformed(code + "\n", code.replace("RESTEP", "PRESTEP") + "\n", CHECK)
    assert {(finding.rule, finding.severity, finding.applied) for finding in findings} == {
        ("amlarc-restep", "error", True)
    }


@pytest.mark.parametrize(
    "code",
    [
        'env = dict(AMLARC_RESTEP="1", AMLARC_PRESTEP="2")',
        'env = {"AMLARC_PRESTEP": "2", "AMLARC_RESTEP": "1"}',
    ],
)
def test_the_misspelt_variable_beside_the_right_one_is_reported_and_not_renamed(code: str) -> None:
    result = patch(code + "\n", CHECK)
    assert result.after is None
    assert [(finding.rule, finding.fix) for finding in result.findings] == [("amlarc-restep", None)]
    assert "remove one of the two" in result.findings[0].reason


def test_the_misspelt_variable_in_text_that_does_not_set_it_is_not_reported() -> None:
    assert not patch('print("see the docs of AMLARC_RESTEP")\n', CHECK).findings


def test_the_misspelt_variable_in_prose_is_left() -> None:
    assert check_noop('"""AMLARC_RESTEP was a mistake."""\n# AMLARC_RESTEP\n', CHECK) == ()


@pytest.mark.parametrize(
    "code",
    [
        'NAME = "AMLARC_RESTEP"',
        'text = "export AMLARC_RESTEP=1"',
        'text = f"AMLARC_RESTEP={x}"',
        'assert "AMLARC_RESTEP" in text',
        'value = env["AMLARC_RESTEP"]',
    ],
)
def test_a_string_that_only_names_the_misspelt_variable_stays(code: str) -> None:
    assert check_noop(code + "\n", CHECK) == ()


def test_the_misspelt_variable_is_fixed_and_merged_in_one_run() -> None:
    text = (
        V15
        + "\n@dsl.pipeline\ndef p(x):\n    step = train(x=x)\n    step.runsettings.environment_variables = "
    )
    check_transformed(
        text + '{"AMLARC_RESTEP": "export OMP_NUM_THREADS=` get_cores `"}\n',
        text
        + '{"AMLARC_PRESTEP": "export OMP_NUM_THREADS=` get_cores ` MKL_NUM_THREADS=` get_cores `'
        + ' NUMEXPR_NUM_THREADS=` get_cores `"}\n',
        Settings(threads="lightgbm"),
    )


def test_set_resources_becomes_an_assignment_with_its_arguments_as_they_are() -> None:
    findings = check_transformed(
        STEP
        + "    node.set_resources(\n        instance_count=n,  # bound\n        shm_size='2g')\n",
        STEP
        + "    node.resources = JobResourceConfiguration(\n"
        + "        instance_count=n,  # bound\n        shm_size='2g')\n",
        CHECK,
    )
    assert "writes into the component that all its steps share" in findings[0].message


def test_set_resources_takes_the_settings_in_the_same_run() -> None:
    check_transformed(
        STEP + "    node.set_resources(instance_type='a')\n",
        STEP + '    node.resources = JobResourceConfiguration(instance_type="32cpu128g")\n',
        TYPE,
    )


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("    node.set_resources(**x)\n", "its arguments come from **"),
        (
            "    node.set_resources(instance_count=1)\n    node.set_resources(shm_size='1g')\n",
            "more than once",
        ),
        (
            "    node.resources = JobResourceConfiguration()\n    node.set_resources(shm_size='1g')\n",
            "resources is assigned as well",
        ),
    ],
)
def test_set_resources_that_has_to_stay_is_reported(body: str, reason: str) -> None:
    findings = check_noop(STEP + body, CHECK)
    assert {finding.rule for finding in findings} == {"set-resources"}
    assert reason in findings[0].reason
    check_noop(STEP + body, TYPE)


def test_set_resources_of_an_unknown_object_is_reported() -> None:
    text = "from azure.ai.ml import command\n\n\ndef size(node):\n    node.set_resources(instance_type='a')\n"
    assert rules(text) == [("set-resources", False)]


def test_skipped_set_resources_is_filled_as_it_is() -> None:
    check_transformed(
        STEP + "    node.set_resources(instance_count=n)\n",
        STEP + '    node.set_resources(instance_count=n, instance_type="32cpu128g")\n',
        Settings(instance_type="32cpu128g", skip=frozenset({"set-resources"})),
    )


MIGRATION_NOTE = """\
from azure.ai.ml import command

sweep_job = command_job_for_sweep.sweep(
    compute="amlarc-compute",
    sampling_algorithm="random",
    primary_metric="test-multi_logloss",
    goal="Minimize",
    instance_type="32cpu128g",
)
"""


def test_the_sweep_of_the_migration_note_is_fixed() -> None:
    findings = check_transformed(
        MIGRATION_NOTE,
        """\
        from azure.ai.ml import command
        from azure.ai.ml.entities import JobResourceConfiguration

        sweep_job = command_job_for_sweep.sweep(
            compute="amlarc-compute",
            sampling_algorithm="random",
            primary_metric="test-multi_logloss",
            goal="Minimize",
        )
        sweep_job.resources = JobResourceConfiguration(instance_type="32cpu128g")
        """,
        CHECK,
    )
    assert [(finding.rule, finding.severity, finding.line) for finding in findings] == [
        ("sweep-instance-type", "error", 8)
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('primary_metric="m", instance_type=t, goal="g"', 'primary_metric="m", goal="g"'),
        ('primary_metric="m", goal="g", instance_type=t', 'primary_metric="m", goal="g"'),
        ('instance_type=t, primary_metric="m", goal="g",', 'primary_metric="m", goal="g",'),
        ('primary_metric="m", goal="g", instance_type=(t),', 'primary_metric="m", goal="g",'),
    ],
)
def test_the_argument_is_taken_out_wherever_it_stands(before: str, after: str) -> None:
    head = "from azure.ai.ml import command\nfrom azure.ai.ml.entities import JobResourceConfiguration\n\n"
    check_transformed(
        f"{head}job = trial.sweep({before})\n",
        f"{head}job = trial.sweep({after})\njob.resources = JobResourceConfiguration(instance_type=t)\n",
        CHECK,
    )


def test_what_is_asked_for_wins_over_the_argument() -> None:
    text = "from azure.ai.ml import command\nfrom azure.ai.ml.entities import JobResourceConfiguration\n\n"
    check_transformed(
        text + 'job = trial.sweep(primary_metric="m", instance_type="a", instance_count=4)\n',
        text
        + 'job = trial.sweep(primary_metric="m")\n'
        + 'job.resources = JobResourceConfiguration(instance_type="32cpu128g", instance_count=4)\n',
        TYPE,
    )


def test_a_sweep_without_a_name_is_reported() -> None:
    text = "from azure.ai.ml import command\n\nsubmit(trial.sweep(primary_metric='m', instance_type='a'))\n"
    assert rules(text) == [("sweep-instance-type", False)]


def test_other_functions_called_sweep_are_none_of_ours() -> None:
    assert (
        check_noop(
            "from azure.ai.ml import command\n\nx = floor.sweep(instance_type='broom')\n", TYPE
        )
        == ()
    )


def test_a_v15_sweep_is_pointed_to_its_conversion() -> None:
    text = (
        V15
        + "\n@dsl.pipeline\ndef p(x):\n    s = train(x=x)\n    s.runsettings.sweep.algorithm = 'random'\n"
    )
    text += "    s.runsettings.sweep.configure(x=1)\n"
    assert rules(text) == [("legacy-sweep", False)]


def test_rules_can_be_skipped_and_ignored() -> None:
    assert rules(MIGRATION_NOTE, Settings(skip=frozenset({"sweep-instance-type"}))) == []
    ignored = 'env = {"AMLARC_RESTEP": "x"}  # arc-toolkit: ignore[amlarc-restep] an old cluster reads it\n'
    assert check_noop(ignored, CHECK) == ()


def test_a_step_of_unknown_kind_may_keep_its_environment_variables() -> None:
    text = (
        V2.replace("./train.yml", "./missing.yml")
        + """
@dsl.pipeline()
def p(x):
    node = train(x=x)
    node.environment_variables = {"A": "1"}
"""
    )
    assert check_noop(text, Settings()) == ()
