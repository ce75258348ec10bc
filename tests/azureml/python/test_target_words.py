"""Files without a word of `TARGET_WORDS` are not looked into: no target may be without one."""

from __future__ import annotations

import pytest

from arc_toolkit.azureml.python import sdk_objects
from arc_toolkit.azureml.settings import Settings
from tests.azureml.python.support import patch

# An import and a call of every name that makes something, in the ways that Python has.
FORMS = (
    "from {module} import {name}\nx = {name}(a)\n",
    "from {module} import {name} as other\nx = other(a)\n",
    "from {module} import (\n    {name},\n)\nmake = {name}\n",
    "import {module} as m\nx = m.{name} (a)\n",
    "from {module} import *\nx = [{name}(a)]\n",
)


@pytest.mark.parametrize(
    "path", [path for path in sdk_objects.ROLES if not path.endswith(".pipeline")]
)
@pytest.mark.parametrize("form", FORMS)
def test_every_use_of_what_makes_a_target_matches(path: str, form: str) -> None:
    module, _, name = path.rpartition(".")
    assert sdk_objects.TARGET_WORDS.search(form.format(module=module, name=name).encode())


@pytest.mark.parametrize(
    "text",
    [
        "@dsl.pipeline\n",
        "@pipeline()\n",
        "@azure.ai.ml.dsl.pipeline(name='x')\n",
        "from azure.ai.ml.dsl import pipeline as flow\n",
        "step.set_resources(instance_count=1)\n",
        "rs = step.runsettings\n",
        "node = client.components.get('train')(x=1)\n",
        "job = automl.classification(x=1)\n",
        "job = step.sweep(primary_metric='m')\n",
    ],
)
def test_pipelines_and_statements_of_steps_match(text: str) -> None:
    assert sdk_objects.TARGET_WORDS.search(text.encode())


@pytest.mark.parametrize(
    "text",
    [
        'runs = {"command": 1}\nsettings.command = "x"\nrun(command="x", pipeline_name="y")\n',
        "my_command(1)\nsub-command\npipeline = client.jobs.list()\n# the pipeline of a component\n",
    ],
)
def test_other_uses_of_the_words_do_not(text: str) -> None:
    assert not sdk_objects.TARGET_WORDS.search(text.encode())
    whole = f"from azure.ai.ml import MLClient\n{text}"
    if "sub-command" not in text:
        result = patch(whole, Settings(instance_type="t"))
        assert (result.after, result.findings, result.skipped) == (None, (), None)
