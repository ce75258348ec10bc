"""Steps made of a command object: `step = command(...)`, `a = step()`. A step copies what the object has."""

from __future__ import annotations

from arc_toolkit.azureml.settings import Settings
from tests.azureml.python.support import check_noop, check_transformed

OBJECT = """\
from azure.ai.ml import command, dsl
from azure.ai.ml.entities import JobResourceConfiguration

"""
STEPS = """

@dsl.pipeline(default_compute="k8s")
def p():
    a = step()
    b = step()
"""
THREADS = Settings(threads="auto", manual=True, cores=8, steps=("a",))
FAISS = (
    'step = command(command="x", environment="azureml:faiss:1", environment_variables={"A": "1"})\n'
)


def test_variables_of_one_step_are_added_to_those_that_it_copies() -> None:
    text = OBJECT + FAISS + STEPS
    line = '    a.environment_variables["OMP_NUM_THREADS"] = "8"\n'
    check_transformed(text, text.replace("    b = step()\n", line + "    b = step()\n"), THREADS)


def test_variables_that_a_step_replaces_are_set_there_too() -> None:
    text = OBJECT + FAISS + STEPS + '    b.environment_variables = {"B": "2"}\n'
    after = text.replace('"A": "1"', '"A": "1", "OMP_NUM_THREADS": "8"').replace(
        '"B": "2"', '"B": "2", "OMP_NUM_THREADS": "8"'
    )
    check_transformed(text, after, Settings(threads="auto", manual=True, cores=8))


def test_a_variable_that_stays_is_reported_once() -> None:
    text = OBJECT + FAISS.replace('"A": "1"', '"OMP_NUM_THREADS": "1"') + STEPS
    findings = check_noop(text, Settings(threads="auto"))
    assert [finding.message for finding in findings if finding.rule == "threads"] == [
        "OMP_NUM_THREADS=1 is set on command job and stays"
    ]


def test_new_resources_of_one_step_repeat_what_was_assigned_to_the_command_object() -> None:
    text = (
        OBJECT
        + 'step = command(command="x", environment="e", shm_size="4g")\n'
        + "step.resources = JobResourceConfiguration(instance_count=2)\n"
        + STEPS
    )
    line = '    a.resources = JobResourceConfiguration(instance_count=2, instance_type="t")\n'
    after = text.replace("    b = step()\n", line + "    b = step()\n")
    check_transformed(text, after, Settings(instance_type="t", steps=("a",)))


def test_what_the_command_object_gets_is_known_of_its_steps() -> None:
    text = OBJECT + 'step = command(command="x", environment="azureml:lightgbm:1")\n' + STEPS
    assert {finding.rule for finding in check_noop(text, Settings())} == {
        "missing-instance-type",
        "lightgbm-threads",
    }
    after = text.replace(
        ':1")', ':1", instance_type="32cpu128g", environment_variables={"OMP_NUM_THREADS": "8"})'
    )
    settings = Settings(instance_type="32cpu128g", threads="lightgbm", cores=8, manual=True)
    for finding in check_transformed(
        text,
        after.replace('{"OMP', '{"MKL_NUM_THREADS": "8", "NUMEXPR_NUM_THREADS": "8", "OMP'),
        settings,
    ):
        assert finding.rule == "threads"


def test_a_misspelt_variable_is_merged_in_the_command_object_alone() -> None:
    variables = 'environment_variables={"AMLARC_RESTEP": "x"})\n'
    text = (
        OBJECT
        + f'step = command(command="x", environment="azureml:lightgbm:1", {variables}'
        + STEPS
    )
    text += '    b.environment_variables["B"] = "2"\n'
    value = "export MKL_NUM_THREADS=` get_cores ` NUMEXPR_NUM_THREADS=` get_cores ` OMP_NUM_THREADS=` get_cores `"
    after = text.replace('"AMLARC_RESTEP": "x"', f'"AMLARC_PRESTEP": "{value}; x"')
    check_transformed(text, after, Settings(threads="auto"))


def test_a_sweep_has_the_compute_of_its_trial() -> None:
    trial = 'trial = command(command="x", environment="e", compute="old")\n'
    sweep = 'primary_metric="m", goal="minimize", sampling_algorithm="random"'
    text = (
        OBJECT
        + trial
        + STEPS.replace("a = step()", f"a = trial.sweep({sweep})").replace("    b = step()\n", "")
    )
    settings = Settings(compute="new")
    check_transformed(text, text.replace('"old"', '"new"').replace('"k8s"', '"new"'), settings)


def test_an_unknown_count_of_a_command_object_is_not_bound() -> None:
    text = OBJECT + 'step = command(command="x", environment="e", instance_count=options.count)\n'
    assert check_noop(text, Settings()) == ()
    assert check_noop(text + STEPS.replace("k8s", "c"), Settings()) == ()


def test_values_set_in_missing_resources_are_reported() -> None:
    none = 'step = command(command="x", environment="e")\n'
    for text, lines in (
        (none + 'step.resources.instance_type = "t"\n', [5]),
        (
            none + STEPS + '    a.resources.instance_type = "t"\n    a.resources.shm_size = "4g"\n',
            [11, 12],
        ),
        (
            none
            + STEPS
            + "    a.resources = JobResourceConfiguration()\n    a.resources.shm_size = '4g'\n",
            [],
        ),
        (
            none
            + "step.resources = JobResourceConfiguration()\n"
            + STEPS
            + '    a.resources.shm_size = "4g"\n',
            [],
        ),
        (
            none.replace(")", ', shm_size="4g")') + STEPS + '    a.resources.instance_type = "t"\n',
            [],
        ),
        (none.replace(")", ", **more)") + STEPS + '    a.resources.instance_type = "t"\n', []),
    ):
        findings = [
            finding
            for finding in check_noop(OBJECT + text, Settings())
            if finding.rule == "missing-resources"
        ]
        assert [finding.line for finding in findings] == lines
        assert all(finding.severity == "error" for finding in findings)
