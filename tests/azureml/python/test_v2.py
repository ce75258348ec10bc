"""SDK v2: steps, command objects, parallel steps, sweeps."""

from __future__ import annotations

from pathlib import Path

import pytest

from arc_toolkit.azureml.settings import Settings
from tests.azureml.python.support import BOTH, TYPE, V2, check_left, check_noop, check_transformed


def test_a_step_of_a_component_gets_resources_after_it() -> None:
    check_transformed(
        V2
        + """
@dsl.pipeline()
def p(data):
    node = train(data=data)  # the step
    return {"model": node.outputs.model}
""",
        V2
        + """
@dsl.pipeline()
def p(data):
    node = train(data=data)  # the step
    node.resources = JobResourceConfiguration(instance_type="32cpu128g", instance_count=2)
    return {"model": node.outputs.model}
""",
    )


@pytest.mark.parametrize(
    ("imports", "decorator"),
    [
        ("import azure.ai.ml as aml\nfrom azure.ai.ml import load_component", "aml.dsl.pipeline"),
        (
            "import azure.ai.ml\nfrom azure.ai.ml import load_component",
            "azure.ai.ml.dsl.pipeline()",
        ),
        ("from azure.ai.ml import dsl as d, load_component", "d.pipeline"),
        (
            "from azure.ai.ml.dsl import pipeline\nfrom azure.ai.ml import load_component",
            "pipeline",
        ),
        (
            "from azure.ai.ml.dsl import pipeline as flow\nfrom azure.ai.ml import load_component",
            "flow()",
        ),
        ("from azure.ai.ml import *\nfrom azure.ai.ml.dsl import *", "pipeline()"),
        ("from azure.ai import ml\nfrom azure.ai.ml import load_component", "ml.dsl.pipeline"),
    ],
)
def test_the_decorator_is_known_however_it_is_imported(imports: str, decorator: str) -> None:
    imports += "\nfrom azure.ai.ml.entities import JobResourceConfiguration"
    before = f"""{imports}

f = load_component("f.yml")


@{decorator}
def p(x):
    node = f(x=x)
"""
    check_transformed(
        before,
        before + '    node.resources = JobResourceConfiguration(instance_type="32cpu128g")\n',
        TYPE,
    )


@pytest.mark.parametrize(
    ("imports", "expected"),
    [
        (
            "from azure.ai.ml import dsl, load_component",
            "from azure.ai.ml import dsl, load_component\nfrom azure.ai.ml.entities import JobResourceConfiguration",
        ),
        (
            "from azure.ai.ml import dsl, load_component\nfrom azure.ai.ml.entities import Environment",
            "from azure.ai.ml import dsl, load_component\n"
            "from azure.ai.ml.entities import Environment, JobResourceConfiguration",
        ),
        (
            "from azure.ai.ml import dsl, load_component\nfrom azure.ai.ml.entities import (\n    Environment,  # e\n)",
            "from azure.ai.ml import dsl, load_component\nfrom azure.ai.ml.entities import (\n    Environment,  # e\n"
            "    JobResourceConfiguration,\n)",
        ),
        (
            "from azure.ai.ml import dsl, load_component\nfrom azure.ai.ml.entities import (Environment,\n    Data)",
            "from azure.ai.ml import dsl, load_component\nfrom azure.ai.ml.entities import (Environment,\n"
            "    Data,\n    JobResourceConfiguration)",
        ),
        (
            "from azure.ai.ml import dsl, load_component\nfrom azure.ai.ml.entities import Environment, \\\n    Data",
            "from azure.ai.ml import dsl, load_component\nfrom azure.ai.ml.entities import Environment, \\\n"
            "    Data, JobResourceConfiguration",
        ),
        (
            '"""Doc."""\nfrom __future__ import annotations\ntry:\n    from azure.ai.ml import dsl, load_component\n'
            "except ImportError:\n    raise",
            '"""Doc."""\nfrom __future__ import annotations\ntry:\n    from azure.ai.ml import dsl, load_component\n'
            "    from azure.ai.ml.entities import JobResourceConfiguration\nexcept ImportError:\n    raise",
        ),
    ],
    ids=["new line", "merged", "brackets", "brackets, last on its line", "backslash", "in a try"],
)
def test_the_import_goes_where_the_others_are(imports: str, expected: str) -> None:
    rest = """

f = load_component("f.yml")


@dsl.pipeline
def p(x):
    node = f(x=x)
"""
    after = rest + '    node.resources = JobResourceConfiguration(instance_type="32cpu128g")\n'
    check_transformed(imports + rest, expected + after, TYPE)


def test_an_import_inside_of_a_function_serves_that_function() -> None:
    check_transformed(
        """\
        def build():
            from azure.ai.ml import load_component
            from azure.ai.ml.dsl import pipeline

            train = load_component("train.yml")

            @pipeline
            def p(x):
                node = train(x=x)

            return p
        """,
        """\
        def build():
            from azure.ai.ml import load_component
            from azure.ai.ml.dsl import pipeline
            from azure.ai.ml.entities import JobResourceConfiguration

            train = load_component("train.yml")

            @pipeline
            def p(x):
                node = train(x=x)
                node.resources = JobResourceConfiguration(instance_type="32cpu128g")

            return p
        """,
        TYPE,
    )


def test_imports_only_under_a_condition_leave_the_new_one_after_docstring_and_future() -> None:
    check_transformed(
        '''\
        #!/usr/bin/env python
        """Doc."""
        from __future__ import annotations

        if V2:
            from azure.ai.ml import dsl, load_component
        train = load_component("t.yml")


        @dsl.pipeline
        def p(x):
            node = train(x=x)
        ''',
        '''\
        #!/usr/bin/env python
        """Doc."""
        from __future__ import annotations

        from azure.ai.ml.entities import JobResourceConfiguration
        if V2:
            from azure.ai.ml import dsl, load_component
        train = load_component("t.yml")


        @dsl.pipeline
        def p(x):
            node = train(x=x)
            node.resources = JobResourceConfiguration(instance_type="32cpu128g")
        ''',
        TYPE,
    )


@pytest.mark.parametrize(
    ("imports", "call"),
    [
        ("from azure.ai.ml import command", "command(name='n')"),
        ("from azure.ai.ml import command as make", "make(name='n')"),
        ("import azure.ai.ml as aml", "aml.command(name='n')"),
        ("from azure.ai.ml.parallel import parallel_run_function as prf", "prf(name='n')"),
    ],
)
def test_functions_and_methods_are_looked_into_by_whatever_name(imports: str, call: str) -> None:
    text = f"{imports}\n\n\nclass Runner:\n    def run(self):\n        job = {call}\n        return job\n"
    check_transformed(text, text.replace("'n')", "'n', instance_type=\"32cpu128g\")"), TYPE)


def test_a_component_of_the_module_makes_steps_in_plain_functions() -> None:
    text = V2 + "\n\ndef build(x):\n    node = train(x=x)\n    return node\n"
    new = 'train(x=x)\n    node.resources = JobResourceConfiguration(instance_type="32cpu128g")'
    check_transformed(text, text.replace("train(x=x)", new), TYPE)


def test_a_loader_by_another_name_makes_components_in_a_function() -> None:
    text = """\
from azure.ai.ml import load_component as lc
from azure.ai.ml.entities import JobResourceConfiguration


def build(x):
    f = lc("a.yml")
    node = f(x=x)
"""
    check_transformed(
        text,
        text + '    node.resources = JobResourceConfiguration(instance_type="32cpu128g")\n',
        TYPE,
    )


def test_a_renamed_class_is_used_by_its_name() -> None:
    text = """\
from azure.ai.ml import dsl, load_component
from azure.ai.ml.entities import JobResourceConfiguration as Res

f = load_component("f.yml")


@dsl.pipeline
def p(x):
    node = f(x=x)
"""
    check_transformed(text, text + '    node.resources = Res(instance_type="32cpu128g")\n', TYPE)


def test_a_name_that_means_something_else_is_not_taken() -> None:
    text = """\
from azure.ai.ml import dsl, load_component

f = load_component("f.yml")


class JobResourceConfiguration:
    pass


@dsl.pipeline
def p(x):
    node = f(x=x)
"""
    check_left(text, "means something else here", TYPE)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            'JobResourceConfiguration(instance_type="old", shm_size="2g")',
            'JobResourceConfiguration(instance_type="32cpu128g", shm_size="2g", instance_count=2)',
        ),
        (
            "JobResourceConfiguration()",
            'JobResourceConfiguration(instance_type="32cpu128g", instance_count=2)',
        ),
        (
            '{"instance_count": 4, "shm_size": "2g"}',
            '{"instance_count": 2, "shm_size": "2g", "instance_type": "32cpu128g"}',
        ),
        (
            "JobResourceConfiguration(\n        instance_count=1,  # one\n    )",
            'JobResourceConfiguration(\n        instance_count=2,  # one\n        instance_type="32cpu128g",\n    )',
        ),
        (
            'JobResourceConfiguration(\n        instance_type=("old"), instance_count=(1)  # one\n    )',
            'JobResourceConfiguration(\n        instance_type=("32cpu128g"), instance_count=(2)  # one\n    )',
        ),
    ],
)
def test_resources_that_are_there_are_merged(before: str, after: str) -> None:
    text = V2 + "\n@dsl.pipeline\ndef p(x):\n    node = train(x=x)\n    node.resources = "
    check_transformed(text + before + "\n", text + after + "\n")


def test_single_attributes_of_resources_are_kept_in_that_form() -> None:
    text = V2 + "\n@dsl.pipeline\ndef p(x):\n    node = train(x=x)\n"
    check_transformed(
        text + "    node.resources.instance_count = 4\n    node.outputs.a.mode = 'x'\n",
        text
        + "    node.resources.instance_count = 2\n"
        + "    node.resources.instance_type = \"32cpu128g\"\n    node.outputs.a.mode = 'x'\n",
    )


def test_equal_values_are_not_changed_nor_reported() -> None:
    text = (
        V2
        + """
@dsl.pipeline
def p(x):
    node = train(x=x)
    node.resources = JobResourceConfiguration(instance_type='32cpu128g', instance_count=2)
"""
    )
    assert check_noop(text) == ()


@pytest.mark.parametrize("value", ["size", "cfg.size", 'f"{size}"', "x"])
def test_bound_values_are_left(value: str) -> None:
    text = (
        V2
        + f"""
@dsl.pipeline
def p(x):
    node = train(x=x)
    node.resources = JobResourceConfiguration(instance_type={value})
"""
    )
    check_left(text, "it is bound to", TYPE, line=8)


def test_command_and_parallel_take_keywords() -> None:
    check_transformed(
        """\
        from azure.ai.ml import command
        from azure.ai.ml.parallel import parallel_run_function as prf

        job = command(command="python train.py", environment="e")
        scoring = prf(
            name="score",
            instance_count=4,
            task=RunFunction(code="src")
        )
        client.jobs.create_or_update(command(
            command="echo"))
        """,
        """\
        from azure.ai.ml import command
        from azure.ai.ml.parallel import parallel_run_function as prf

        job = command(command="python train.py", environment="e", instance_type="32cpu128g", instance_count=2)
        scoring = prf(
            name="score",
            instance_count=2,
            task=RunFunction(code="src"),
            instance_type="32cpu128g"
        )
        client.jobs.create_or_update(command(
            command="echo",
            instance_type="32cpu128g",
            instance_count=2))
        """,
    )


def test_jobs_of_their_own_are_set_in_loops_and_branches_too() -> None:
    text = """\
from azure.ai.ml import command

for rate in (0.1, 0.2):
    job = command(command=f"train {rate}")
    client.jobs.create_or_update(job)
if small:
    last = command(command="a")
else:
    last = command(command="b")
"""
    new = ', instance_type="32cpu128g", instance_count=2)'
    check_transformed(
        text, text.replace('}")', '}"' + new).replace('a")', 'a"' + new).replace('b")', 'b"' + new)
    )


def test_a_job_in_a_loop_with_settings_after_the_loop_is_left() -> None:
    text = "from azure.ai.ml import command\n\nfor x in y:\n    job = command(command='a')\njob.compute = x\n"
    check_left(text, "made in a loop", line=4)


def test_steps_of_a_command_object_inherit_its_values() -> None:
    check_transformed(
        """\
        from azure.ai.ml import command, dsl

        work = command(command="echo")


        @dsl.pipeline
        def p(x):
            one = work(x=x)
            two = work(x=x)
        """,
        """\
        from azure.ai.ml import command, dsl

        work = command(command="echo", instance_type="32cpu128g", instance_count=2)


        @dsl.pipeline
        def p(x):
            one = work(x=x)
            two = work(x=x)
        """,
    )


def test_one_step_of_a_command_object_repeats_what_the_object_says() -> None:
    check_transformed(
        """\
        from azure.ai.ml import command, dsl
        from azure.ai.ml.entities import JobResourceConfiguration

        work = command(command="echo", instance_count=3, shm_size="2g")


        @dsl.pipeline
        def p(x):
            one = work(x=x)
            two = work(x=x)
        """,
        """\
        from azure.ai.ml import command, dsl
        from azure.ai.ml.entities import JobResourceConfiguration

        work = command(command="echo", instance_count=3, shm_size="2g")


        @dsl.pipeline
        def p(x):
            one = work(x=x)
            two = work(x=x)
            two.resources = JobResourceConfiguration(instance_count=3, shm_size="2g", instance_type="32cpu128g")
        """,
        Settings(instance_type="32cpu128g", steps=("two",)),
    )


def test_a_sweep_gets_resources_and_its_trial_none() -> None:
    text = (
        V2
        + """
@dsl.pipeline
def p(x):
    trial = train(x=x, lr=Choice([1, 2]))
    tuned = trial.sweep(primary_metric="m", goal="Minimize")
    tuned.set_limits(max_total_trials=4)
"""
    )
    check_transformed(
        text,
        text.replace(
            "    tuned.set_limits",
            '    tuned.resources = JobResourceConfiguration(instance_type="32cpu128g", instance_count=2)\n'
            "    tuned.set_limits",
        ),
    )


def test_kinds_choose_the_steps() -> None:
    text = """\
from azure.ai.ml import command
from azure.ai.ml.parallel import parallel_run_function

job = command(command="echo")
scoring = parallel_run_function(name="score")
"""
    check_transformed(
        text,
        text.replace('name="score"', 'name="score", instance_type="32cpu128g"'),
        Settings(instance_type="32cpu128g", kinds=("parallel",)),
    )


def test_step_names_choose_the_steps() -> None:
    text = (
        V2 + "\n@dsl.pipeline\ndef p(x):\n    one = train(x=x)\n    two = train(x=one.outputs.y)\n"
    )
    check_transformed(
        text,
        text + '    two.resources = JobResourceConfiguration(instance_type="32cpu128g")\n',
        Settings(instance_type="32cpu128g", steps=("two",)),
    )


def test_a_component_function_of_mldesigner_makes_steps() -> None:
    text = """\
from mldesigner import command_component
from azure.ai.ml.dsl import pipeline
from azure.ai.ml.entities import JobResourceConfiguration


@command_component(name="prep")
def prep(x):
    pass


@pipeline()
def p(x):
    node = prep(x=x)
"""
    check_transformed(
        text,
        text + '    node.resources = JobResourceConfiguration(instance_type="32cpu128g")\n',
        TYPE,
    )


def test_a_registered_component_of_a_local_file_is_as_good_as_the_file() -> None:
    text = (
        V2
        + """
train = client.components.create_or_update(train)


@dsl.pipeline
def p(x):
    node = train(x=x)
"""
    )
    check_transformed(
        text,
        text + '    node.resources = JobResourceConfiguration(instance_type="32cpu128g")\n',
        TYPE,
    )


def test_a_step_in_an_if_with_a_name_of_its_own_is_set_in_that_branch() -> None:
    text = V2 + "\n@dsl.pipeline\ndef p(x):\n    if True:\n        node = train(x=x)\n"
    check_transformed(
        text,
        text + '        node.resources = JobResourceConfiguration(instance_type="32cpu128g")\n',
        TYPE,
    )


def test_a_standalone_component_job_is_set_too() -> None:
    text = V2 + "\njob = train(x=1)\nclient.jobs.create_or_update(job)\n"
    check_transformed(
        text,
        text.replace(
            "x=1)\n", 'x=1)\njob.resources = JobResourceConfiguration(instance_type="32cpu128g")\n'
        ),
        TYPE,
    )


def test_an_ignore_with_a_reason_keeps_a_step_as_it_is() -> None:
    text = (
        V2
        + """
@dsl.pipeline
def p(x):
    # arc-toolkit: ignore[instance-type, instance-count] runs on the small pool
    node = train(x=x)
"""
    )
    assert check_noop(text, BOTH) == ()


def test_only_and_skip_choose_the_settings() -> None:
    text = "from azure.ai.ml import command\n\njob = command(command='x')\n"
    after = text.replace("'x'", "'x', instance_count=2")
    check_transformed(
        text,
        after,
        Settings(instance_type="t", instance_count=2, skip=frozenset({"instance-type"})),
    )
    check_transformed(
        text,
        after,
        Settings(instance_type="t", instance_count=2, only=frozenset({"instance-count"})),
    )


def test_a_function_inside_of_another_sees_its_components() -> None:
    text = """\
from azure.ai.ml import load_component
from azure.ai.ml.entities import JobResourceConfiguration


def build():
    make = load_component("train.yml")

    def inner(x):
        node = make(x=x)
        return node

    return inner
"""
    new = 'make(x=x)\n        node.resources = JobResourceConfiguration(instance_type="32cpu128g")'
    check_transformed(text, text.replace("make(x=x)", new), TYPE)


def test_attributes_set_on_a_command_object_are_replaced_as_on_a_step() -> None:
    text = "from azure.ai.ml import command\n\njob = command(command='x', instance_type='a')\n"
    check_transformed(
        text + "job.resources.instance_type = 'foo'\n",
        text + "job.resources.instance_type = '32cpu128g'\njob.resources.instance_count = 2\n",
        BOTH,
    )


def test_a_value_is_a_note_if_the_pipeline_takes_it_and_a_warning_if_not() -> None:
    text = V2 + "\n@dsl.pipeline(default_compute=where)\ndef p(x, size):\n    node = train(x=x)\n"
    text += "    node.resources = JobResourceConfiguration(instance_type=size)\n    node.compute = where\n"
    found = check_noop(text, Settings(instance_type="t", compute="c"))
    assert {(finding.severity, finding.reason) for finding in found} == {
        ("note", "it is bound to size"),
        ("warning", "it is bound to where"),
    }


def test_the_trial_of_a_sweep_in_one_expression_needs_no_name() -> None:
    text = (
        V2 + "\n@dsl.pipeline\ndef p(x):\n    s = train(x=x).sweep(primary_metric='m', goal='g')\n"
    )
    after = text + '    s.resources = JobResourceConfiguration(instance_type="32cpu128g")\n'
    assert check_transformed(text, after, TYPE) == ()


@pytest.mark.parametrize(
    "steps",
    [
        "c = work(); d = work()",
        "for i in x:\n        c = work()",
        "nodes.append(work())",
        "c = work(**x)",
    ],
)
def test_steps_that_inherit_from_their_command_object_are_not_reported(steps: str) -> None:
    text = "from azure.ai.ml import command, dsl\n\nwork = command(command='x')\n\n\n@dsl.pipeline\ndef p(x):\n"
    text += f"    {steps}\n"
    assert (
        check_transformed(text, text.replace("'x')", "'x', instance_type=\"32cpu128g\")"), TYPE)
        == ()
    )


def test_a_step_with_settings_of_its_own_that_cannot_be_written_is_reported() -> None:
    text = "from azure.ai.ml import command, dsl\n\nwork = command(command='x', instance_type=\"32cpu128g\")\n"
    text += "\n\n@dsl.pipeline\ndef p(x):\n    c = work()\n    if x:\n        c.resources = size\n"
    check_left(text, "set under a condition", TYPE)


@pytest.mark.parametrize(
    ("spec", "lines", "raises"),
    [
        ("type: command\ncommand: x\n", "node.resources.instance_type = 'a'", True),
        (
            "type: command\ncommand: x\nresources:\n  instance_count: 1\n",
            "node.resources.instance_type = 'a'",
            False,
        ),
        (
            "{type: command, command: x, resources: {instance_count: 1}}\n",
            "node.resources.instance_type = 'a'",
            False,
        ),
        (
            "type: command\ncommand: x\n",
            "node.resources = JobResourceConfiguration()\n    node.resources.instance_type = 'a'",
            False,
        ),
        ("", "node.resources.instance_type = 'a'", False),
    ],
)
def test_an_attribute_of_resources_that_are_not_there_is_an_error(
    spec: str, lines: str, raises: bool, tmp_path: Path
) -> None:
    if spec:
        (tmp_path / "train.yml").write_text(spec)
    text = (
        V2.replace("train.yml", "train.yml" if spec else "missing.yml")
        + f"\n@dsl.pipeline\ndef p(x):\n    node = train(x=x)\n    {lines}\n"
    )
    found = check_noop(text, Settings(), path=str(tmp_path / "p.py"))
    assert [(finding.severity, finding.line) for finding in found] == (
        [("error", 9)] if raises else []
    )


@pytest.mark.parametrize(
    ("arguments", "raises"),
    [("", True), (", instance_count=1", False), (", shm_size='2g'", False), (", **more", False)],
)
def test_an_attribute_of_the_resources_of_a_command_object_without_any_is_an_error(
    arguments: str, raises: bool
) -> None:
    text = f"from azure.ai.ml import command\n\njob = command(command='x'{arguments})\n"
    found = check_noop(text + "job.resources.instance_type = 'a'\n", Settings())
    assert [(finding.severity, finding.line) for finding in found] == (
        [("error", 4)] if raises else []
    )


@pytest.mark.parametrize(
    ("first", "second"), [("with a:", "with b:"), ("with a:", "if b:"), ("if a:", "with b:")]
)
def test_settings_after_a_name_is_bound_again_are_not_those_of_the_first(
    first: str, second: str
) -> None:
    before = (
        f"{V2}from azure.ai.ml import command\n@dsl.pipeline()\ndef p(x):\n"
        f"    {first}\n        node = unknown()\n    {second}\n        node = command(command='x')\n"
    )
    after = before.replace("def p(x)", "def p(x, instance_count=1)").replace(
        "command='x')\n",
        "command='x', compute=\"k8s\")\n"
        "        node.resources = JobResourceConfiguration(instance_count=instance_count)\n",
    )
    check_transformed(before, after, Settings(compute="k8s", expose_parameters=True))


def test_a_third_binding_ends_the_first_as_well() -> None:
    body = (
        f"{V2}@dsl.pipeline()\ndef p(x):\n    if x:\n        node = train(x=1)\n    with x:\n        node = other()\n"
        "    node = train(x=2)\n    node.compute = 'cpu'\n"
    )
    after = body.replace("'cpu'", '"k8s"').replace(
        "train(x=1)\n", 'train(x=1)\n        node.compute = "k8s"\n'
    )
    check_transformed(body, after, Settings(compute="k8s"))


@pytest.mark.parametrize("arguments", ["**x", "*x", "a=1, **x"])
def test_arguments_of_a_step_are_inputs_wherever_they_come_from(arguments: str) -> None:
    """A component function raises UnexpectedKeywordError for anything else."""
    text = V2 + f"\n@dsl.pipeline\ndef p(x):\n    node = train({arguments})\n"
    line = '    node.resources = JobResourceConfiguration(instance_type="32cpu128g")\n'
    assert check_transformed(text, text + line, TYPE) == ()


def test_resources_may_be_a_dict_that_is_called_for() -> None:
    text = (
        V2
        + "\n@dsl.pipeline\ndef p(x):\n    node = train()\n    node.resources = dict(instance_count=1)\n"
    )
    after = text.replace("count=1", 'count=2, instance_type="32cpu128g"')
    check_transformed(text, after)
