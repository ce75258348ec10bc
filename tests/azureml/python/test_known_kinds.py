"""Where the kind of a step comes from: files that the code itself writes, other modules, and what the user says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from arc_toolkit.azureml.python.python_plan import patch_notebook, patch_source
from arc_toolkit.azureml.settings import Settings
from tests.azureml.python.support import (
    BOTH,
    TYPE,
    check_left,
    check_noop,
    notebook,
    patch,
    sources,
)
from tests.support import Result

HEAD = "from azure.ai.ml import dsl, load_component\n"
STEP = """
@dsl.pipeline()
def p():
    node = train()
    return {}
"""
SPARK = "$schema: https://azuremlschemas.azureedge.net/latest/sparkComponent.schema.json\ntype: spark\nname: s\n"
COMMAND = (
    "type: command\nname: train\nversion: {version}\ncommand: python train.py ${{{{inputs.x}}}}\n"
)
LOAD = '\ntrain = load_component(source="parts/train.yml")\n'


@pytest.mark.parametrize(
    "cells",
    [
        ("%%writefile parts/train.yml\n" + COMMAND,),
        ('folder = "parts"', "%%writefile {folder}/train.yml\n" + COMMAND),
        ("%%file 'parts/train.yml'\r\n" + COMMAND,),
    ],
    ids=["plain", "with a name in braces", "quoted"],
)
def test_a_component_of_a_writefile_cell_is_known(cells: tuple[str, ...], tmp_path: Path) -> None:
    before = notebook(HEAD, *cells, LOAD + STEP)
    after = patch_notebook(str(tmp_path / "p.ipynb"), before, BOTH).after
    assert after is not None
    assert "node.resources = JobResourceConfiguration(" in sources(after)[-1]
    assert sources(after)[1:-1] == list(cells)
    assert patch_notebook(str(tmp_path / "p.ipynb"), after, BOTH).after is None


def test_a_spark_component_of_a_cell_gets_nothing(tmp_path: Path) -> None:
    before = notebook(HEAD, "%%writefile parts/train.yml\n" + SPARK, LOAD + STEP)
    result = patch_notebook(str(tmp_path / "p.ipynb"), before, BOTH)
    assert (result.after, result.refused) == (None, None)
    assert not any("not known" in finding.reason for finding in result.findings)


@pytest.mark.parametrize(
    "writing",
    [
        f'text = f"""{COMMAND}"""\nname = "parts/train.yml"\nwith open(name, "w") as f:\n    f.write(text)\n',
        f'text = """{COMMAND}"""\nwith open("parts/train.yml", "w") as f:\n    f.write(text.format(version=now()))\n',
        f'import pathlib\npathlib.Path("parts/train.yml").write_text("""{COMMAND}""")\n',
    ],
    ids=["f-string", "format", "write_text"],
)
def test_a_component_that_the_code_writes_is_known(writing: str, tmp_path: Path) -> None:
    result = patch_source(str(tmp_path / "p.py"), (HEAD + writing + LOAD + STEP).encode(), BOTH)
    assert result.after is not None, [finding.reason for finding in result.findings]
    assert b"node.resources = JobResourceConfiguration(" in result.after


def test_spark_makes_steps_that_take_no_instance_type() -> None:
    findings = check_noop(
        """
        from azure.ai.ml import dsl, spark
        clean = spark(name="c", code="./src", entry={"file": "c.py"})
        @dsl.pipeline()
        def p():
            step = clean(x=1)
            return {"x": step.outputs.x}
        """
    )
    assert {(finding.severity, finding.message) for finding in findings} == {
        ("note", "not set on step `clean`"),
        ("note", "not set on step `step`"),
    }


MODULE = """\
from mldesigner import command_component
from azure.ai.ml import dsl, load_component
def load_data(spec):
    return spec
@command_component(
    name="train",
)
def train(): ...
score = load_component(source=find())
from_registry = client.components.get("x")
@dsl.pipeline()
def inner():
    return {}
"""


@pytest.mark.parametrize(
    ("name", "reasons"),
    [
        ("load_data", []),
        ("score", ["its kind is not known: its component file is known only when the code runs"]),
        ("from_registry", ["its component is loaded from a workspace (client.components.get)"]),
        ("inner", []),
    ],
)
def test_what_another_module_of_the_project_has(
    name: str, reasons: list[str], tmp_path: Path
) -> None:
    (tmp_path / "parts.py").write_text(MODULE)
    (tmp_path / "other.py").write_text("def train(): ...\n")
    text = f"{HEAD}from parts import {name}\nfrom other import train as plain\n@dsl.pipeline()\ndef p():\n"
    text += f"    a = {name}()\n    b = plain()\n    return {{}}\n"
    result = patch_source(str(tmp_path / "p.py"), text.encode(), BOTH)
    assert result.after is None
    assert len(result.findings) == len(reasons)
    for finding, reason in zip(result.findings, reasons, strict=True):
        assert finding.reason.startswith(reason)


@pytest.mark.parametrize("package", [False, True])
def test_a_decorated_function_of_another_module_is_a_component(
    package: bool, tmp_path: Path
) -> None:
    # As public pipelines have it: each component in its own module, and the package imports them.
    (tmp_path / "components").mkdir()
    (tmp_path / "components" / "train.py").write_text(MODULE)
    (tmp_path / "components" / "__init__.py").write_text(
        "from .train import train\n" if package else ""
    )
    imports = "from components import train" if package else "from components.train import train"
    text = f"{HEAD}{imports}\n@dsl.pipeline()\ndef p():\n    a = train()\n    return {{}}\n"
    result = patch_source(str(tmp_path / "p.py"), text.encode(), TYPE)
    assert result.after is not None
    assert (
        b'    a.resources = JobResourceConfiguration(instance_type="32cpu128g")\n' in result.after
    )
    assert not result.findings


JOBS = """\
from azure.ai.ml import command
train = command(name="t", command="echo", environment="azureml:e:1")
def make(name):
    return command(name=name, command="echo", environment="azureml:e:1")
def helper(name):
    return name
"""


@pytest.mark.parametrize("call", ["train()", "make('a')()", "make('a')"])
@pytest.mark.parametrize("is_given", [True, False])
def test_a_command_object_of_another_file_gets_the_settings_there(
    call: str, is_given: bool, tmp_path: Path, arc: Callable[..., Result]
) -> None:
    (tmp_path / "jobs.py").write_text(JOBS)
    text = f"{HEAD}from jobs import make, train\n@dsl.pipeline()\ndef p():\n    a = {call}\n"
    (tmp_path / "p.py").write_text(text + "    return {'x': a.outputs.x}\n")
    result = arc(
        "patch", "--instance-type", "big", str(tmp_path if is_given else tmp_path / "p.py")
    )
    assert (result.code, "is imported from jobs" in result.err) == (
        (0, False) if is_given else (2, True)
    )
    assert (
        'command="echo", environment="azureml:e:1", instance_type="big")' in result.out
    ) == is_given


def test_a_step_with_settings_of_its_own_is_reported_even_so(
    tmp_path: Path, arc: Callable[..., Result]
) -> None:
    (tmp_path / "jobs.py").write_text(JOBS)
    text = f"{HEAD}from jobs import train\n@dsl.pipeline()\ndef p():\n    a = train()\n    a.resources = SMALL\n"
    (tmp_path / "p.py").write_text(text)
    result = arc("patch", "--instance-type", "big", str(tmp_path))
    assert (result.code, "is imported from jobs" in result.err) == (2, True)


def test_modules_that_import_each_other(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("from azure.ai.ml import dsl\nfrom two import train, folder\n")
    (tmp_path / "two.py").write_text("from azure.ai.ml import dsl\nfrom one import train, folder\n")
    text = f"{HEAD}from one import train, folder\nscore = load_component(folder)\n@dsl.pipeline()\ndef p():\n"
    text += "    a = train()\n    b = score()\n    return {}\n"
    result = patch_source(str(tmp_path / "p.py"), text.encode(), BOTH)
    assert [finding.severity for finding in result.findings] == ["warning", "warning"]


def test_more_than_ten_refusals_for_one_reason_are_one_finding() -> None:
    steps = "".join(f"    step_{number} = train(x={number})\n" for number in range(12))
    text = f"{HEAD}train = client.components.get('train')\n@dsl.pipeline()\ndef p():\n{steps}    return {{}}\n"
    (finding,) = check_noop(text)
    assert finding.message == "step `step_0` and 11 more are not changed"
    assert "loaded from a workspace" in finding.reason
    assert len(check_noop(text.split("    step_10")[0] + "    return {}\n")) == 10


def test_the_configuration_file_says_what_unknown_components_are(
    tmp_path: Path, arc: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.py").write_text(f"{HEAD}train = client.components.get('train')\n{STEP}")
    assert arc("patch", "--instance-type", "big", "p.py").code == 2
    Path("pyproject.toml").write_text('[tool.arc-toolkit.patch]\nassume = "command"\n')
    result = arc("patch", "--instance-type", "big", "p.py")
    assert result.code == 0
    assert '+    node.resources = JobResourceConfiguration(instance_type="big")' in result.out


def test_a_sweep_component_of_v15_takes_no_instance_type() -> None:
    text = """
    from azure.ml.component import dsl
    @dsl.sweep_component(name="tune")
    def tune(): ...
    @dsl.pipeline()
    def p():
        tuned = tune(x=1)
        return {}
    """
    check_left(
        text, "a SweepComponent takes no instance type: convert it with --sweep-to-v2", line=7
    )


def test_variables_of_a_step_whose_command_has_unknown_arguments_are_set_once() -> None:
    text = """
    from azure.ai.ml import command, dsl
    make = command(**arguments)
    @dsl.pipeline()
    def p():
        node = make(x=1)
        node.resources.instance_count = 4
        return {}
    """
    result = patch(text, Settings(compute="cluster", threads="lightgbm", expose_parameters=True))
    assert result.refused is None
    assert result.after is not None
    assert result.after.count(b"AMLARC_PRESTEP") == 1


def test_the_threads_of_a_parallel_step_follow_its_component_file(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "score.yml").write_text(
        "$schema: https://azuremlschemas.azureedge.net/latest/parallelComponent.schema.json\n"
        "type: parallel\nname: score\nmini_batch_size: '1'\nmax_concurrency_per_instance: 4\n"
        "task:\n  type: run_function\n  code: ./src\n  entry_script: score.py\n  environment: azureml:lightgbm:1\n"
    )
    text = f"""{HEAD}
from pathlib import Path
score = load_component(Path(__file__).parent / "parts" / "score.yml")
@dsl.pipeline()
def p():
    node = score()
    return {{}}
"""
    settings = Settings(instance_type="32cpu128g", threads="lightgbm", cores=32)
    after = patch_source(str(tmp_path / "p.py"), text.encode(), settings).after
    assert after is not None
    assert b'"OMP_NUM_THREADS": "8"' in after
