"""`--expose-parameters`."""

from __future__ import annotations

import pytest

from arc_toolkit.azureml.settings import Settings
from tests.azureml.python.support import V2, V15, check_left, check_noop, check_transformed

EXPOSE = Settings(instance_type="32cpu128g", instance_count=2, expose_parameters=True)
BOUND = "    node.resources = JobResourceConfiguration(instance_type=instance_type, instance_count=instance_count)\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("()", '(instance_type="32cpu128g", instance_count=2)'),
        ("(x)", '(x, instance_type="32cpu128g", instance_count=2)'),
        (
            "(x: int = (1), y={'a': (2)})",
            "(x: int = (1), y={'a': (2)}, instance_type=\"32cpu128g\", instance_count=2)",
        ),
        ("(x, *, y=1)", '(x, instance_type="32cpu128g", instance_count=2, *, y=1)'),
        ("(x=1, **more)", '(x=1, instance_type="32cpu128g", instance_count=2, **more)'),
        ("(**more)", '(instance_type="32cpu128g", instance_count=2, **more)'),
        (
            "(\n    x,\n    y: str,  # why\n)",
            '(\n    x,\n    y: str,  # why\n    instance_type="32cpu128g",\n    instance_count=2,\n)',
        ),
        (
            "(\n    x,\n    y=3  # why\n)",
            '(\n    x,\n    y=3,  # why\n    instance_type="32cpu128g",\n    instance_count=2\n)',
        ),
        ("(é, x=')')", "(é, x=')', instance_type=\"32cpu128g\", instance_count=2)"),
    ],
)
def test_parameters_are_added_in_the_style_of_the_others(before: str, after: str) -> None:
    head = V2 + "\n@dsl.pipeline\ndef p"
    check_transformed(
        head + before + ":\n    node = train()\n",
        head + after + ":\n    node = train()\n" + BOUND,
        EXPOSE,
    )


@pytest.mark.parametrize("parameters", ["(x, /)", "(*x)", "(*, x)"])
def test_parameters_that_are_not_plain_stay(parameters: str) -> None:
    text = V2 + f"\n@dsl.pipeline\ndef p{parameters}:\n    node = train()\n"
    findings = check_transformed(
        text,
        text
        + '    node.resources = JobResourceConfiguration(instance_type="32cpu128g", instance_count=2)\n',
        EXPOSE,
    )
    assert "its parameters are not plain ones" in {finding.reason for finding in findings}


def test_literals_become_the_parameter_and_its_default() -> None:
    text = (
        V2
        + "\n@dsl.pipeline\ndef p(x):\n    node = train(x=x)\n    node.resources = JobResourceConfiguration("
    )
    check_transformed(
        text + 'instance_type="64cpu", instance_count=4, shm_size="1g")\n',
        text.replace("p(x)", 'p(x, instance_type="64cpu", instance_count=4)')
        + 'instance_type=instance_type, instance_count=instance_count, shm_size="1g")\n',
        Settings(expose_parameters=True),
    )


def test_without_any_count_the_default_is_what_the_sdk_assumes() -> None:
    text = V2 + "\n@dsl.pipeline\ndef p(x):\n    node = train(x=x)\n"
    check_transformed(
        text,
        text.replace("p(x)", 'p(x, instance_type="a", instance_count=1)') + BOUND,
        Settings(instance_type="a", expose_parameters=True),
    )


def test_steps_that_differ_have_no_common_default() -> None:
    text = V2 + "\n@dsl.pipeline\ndef p(x):\n"
    for name, size in (("a", "small"), ("b", "big")):
        text += f"    {name} = train(x=x)\n    {name}.resources = JobResourceConfiguration("
        text += f'instance_type="{size}", instance_count=count)\n'
    check_left(
        text,
        "use --instance-type",
        Settings(expose_parameters=True, only=frozenset({"expose-parameters"})),
    )


def test_parameters_that_are_there_are_used_and_their_default_follows() -> None:
    text = (
        V2
        + "\n@dsl.pipeline\ndef p(x, instance_count, instance_type='small'):\n    node = train(x=x)\n"
    )
    check_transformed(text, text.replace("'small'", '"32cpu128g"') + BOUND, EXPOSE)


def test_a_variable_of_that_name_is_not_shadowed() -> None:
    text = V2 + "\ninstance_type = 'a'\n\n\n@dsl.pipeline\ndef p(x):\n    node = train(x=x)\n"
    findings = check_transformed(
        text,
        text.replace("p(x)", "p(x, instance_count=2)")
        + '    node.resources = JobResourceConfiguration(instance_type="32cpu128g", instance_count=instance_count)\n',
        EXPOSE,
    )
    assert "the name instance_type is already a variable here" in {
        finding.reason for finding in findings
    }


def test_command_objects_are_bound_at_the_step_and_keep_their_other_resources() -> None:
    text = """\
from azure.ai.ml import command, dsl
from azure.ai.ml.entities import JobResourceConfiguration

work = command(command="echo", instance_count=3, shm_size="2g")


@dsl.pipeline
def p(x):
    node = work(x=x)
"""
    check_transformed(
        text,
        text.replace("p(x)", 'p(x, instance_type="32cpu128g", instance_count=3)')
        + '    node.resources = JobResourceConfiguration(instance_count=instance_count, shm_size="2g",'
        + " instance_type=instance_type)\n",
        Settings(instance_type="32cpu128g", expose_parameters=True, steps=("node",)),
    )


def test_v15_passes_the_parameters_to_configure() -> None:
    text = (
        V15
        + "\n@dsl.pipeline(name='p')\ndef p(data):\n    a = train(data=data)\n    b = train(data=data)\n"
    )
    text += "    b.runsettings.resource_layout.configure(node_count=8)\n"
    check_transformed(
        text,
        text.replace("p(data)", 'p(data, instance_type="32cpu128g", instance_count=2)')
        .replace(
            "a = train(data=data)\n",
            "a = train(data=data)\n    a.runsettings.resource_layout.configure("
            "instance_type=instance_type, instance_count=instance_count)\n",
        )
        .replace("node_count=8", "node_count=instance_count, instance_type=instance_type"),
        EXPOSE,
    )


def test_values_that_are_bound_stay_bound() -> None:
    text = V2 + "\n@dsl.pipeline\ndef p(x, size):\n    node = train(x=x)\n"
    text += "    node.resources = JobResourceConfiguration(instance_type=size, instance_count=n)\n"
    check_left(text, "it is bound to size", EXPOSE)


SPREAD = Settings(expose_parameters=True)
TWO = (
    V2
    + """
@dsl.pipeline
def p(x):
    a = train(x=x)
    a.resources = JobResourceConfiguration(instance_type="gpu8", instance_count=8)
    b = train(x=x)
"""
)


def test_a_step_without_a_value_differs_from_one_that_has_one() -> None:
    reasons = [finding.reason for finding in check_noop(TWO, SPREAD)]
    assert reasons == [
        "its steps differ (gpu8 and none): use --instance-type to use one value for all",
        "its steps differ (8 and none): use --instance-count to use one value for all",
    ]


def test_the_count_of_one_step_does_not_spread_with_an_instance_type() -> None:
    text = TWO.replace('"gpu8"', "instance_type").replace("p(x)", 'p(x, instance_type="t")')
    after = text + "    b.resources = JobResourceConfiguration(instance_type=instance_type)\n"
    findings = check_transformed(
        TWO.replace('"gpu8"', '"t"'), after, Settings(instance_type="t", expose_parameters=True)
    )
    assert "its steps differ (8 and none): use --instance-count to use one value for all" in {
        finding.reason for finding in findings
    }


def test_a_parameter_that_is_there_does_not_overrule_a_step() -> None:
    text = TWO.replace("    b = train(x=x)\n", "").replace(
        "p(x)", "p(x, instance_type='small', instance_count=8)"
    )
    after = text.replace(
        'instance_type="gpu8", instance_count=8',
        'instance_type="gpu8", instance_count=instance_count',
    )
    findings = check_transformed(text, after, SPREAD)
    assert (
        "its steps have gpu8, and the default of the parameter is 'small': use --instance-type"
        in {finding.reason for finding in findings}
    )


def test_a_sweep_has_the_resources_of_its_trial() -> None:
    text = TWO.replace("    b = train(x=x)\n", "    s = a.sweep(primary_metric='m', goal='g')\n")
    check_transformed(
        text,
        text.replace("p(x)", 'p(x, instance_type="gpu8", instance_count=8)')
        + BOUND.replace("node.", "s."),
        SPREAD,
    )


@pytest.mark.parametrize("rule", ["instance-type", "expose-parameters"])
@pytest.mark.parametrize("line", ["a = train(x=x)", "a.resources = JobResourceConfiguration("])
def test_an_ignored_step_is_not_bound(rule: str, line: str) -> None:
    kept = TWO.replace(f"    {line}", f"    # arc-toolkit: ignore[{rule}] its own pool\n    {line}")
    bound = "    b.resources = JobResourceConfiguration(instance_type=instance_type"
    if rule == "instance-type":
        after = kept.replace("instance_count=8", "instance_count=instance_count")
        after = after.replace(
            "p(x)", 'p(x, instance_count=2, instance_type="t")'
        )  # the first use comes first
    else:
        after = kept.replace("p(x)", 'p(x, instance_type="t", instance_count=2)')
    check_transformed(
        kept,
        after + bound + ", instance_count=instance_count)\n",
        Settings("t", 2, expose_parameters=True),
    )
