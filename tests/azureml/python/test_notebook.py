"""Notebooks: IPython lines, both forms of `source`, escapes, and the JSON around that stays byte for byte."""

from __future__ import annotations

import difflib
import json

import pytest

from arc_toolkit.azureml.python.python_plan import patch_notebook
from arc_toolkit.azureml.settings import Settings
from tests.azureml.python.support import BOTH, TYPE, notebook, patch_cells, sources

IMPORTS = [
    "from azure.ai.ml import dsl, load_component\n",
    "from azure.ai.ml.entities import Environment",
]
TRAIN = ['train = load_component(source="./train.yml")']
PIPELINE = [
    "@dsl.pipeline()\n",
    "def p(x):\n",
    '    """Doc \\ é."""\n',
    "    node = train(x=\"a\\tb\", y='é')  # \u2028\n",
    "    return {}",
]


def changed_lines(before: bytes, after: bytes) -> list[str]:
    lines = difflib.ndiff(before.decode().split("\n"), after.decode().split("\n"))
    return [line for line in lines if line[:1] in "+-"]


@pytest.mark.parametrize("indent", [1, 2, 4])
def test_only_the_lines_of_the_source_change(indent: int) -> None:
    before = notebook(IMPORTS, TRAIN, PIPELINE, indent=indent)
    after = patch_cells(before).after
    assert after is not None
    pad = " " * indent * 4
    assert changed_lines(before, after) == [
        f'- {pad}"from azure.ai.ml.entities import Environment"',
        f'+ {pad}"from azure.ai.ml.entities import Environment, JobResourceConfiguration"',
        f'+ {pad}"    node.resources = JobResourceConfiguration(instance_type=\\"32cpu128g\\", instance_count=2)\\n",',
    ]
    assert patch_cells(after).after is None


def test_a_source_of_one_string_stays_one_string() -> None:
    before = notebook("".join(IMPORTS), "".join(TRAIN), "".join(PIPELINE))
    after = patch_cells(before).after
    assert after is not None
    assert len(changed_lines(before, after)) == 4
    cells = json.loads(after)["cells"]
    assert all(isinstance(cell["source"], str) for cell in cells)
    assert "\n    node.resources = JobResourceConfiguration(" in cells[2]["source"]


def test_a_notebook_on_one_line_is_spliced_too() -> None:
    before = json.dumps(
        json.loads(notebook(IMPORTS, TRAIN, PIPELINE)), separators=(",", ":")
    ).encode()
    after = patch_cells(before).after
    assert after is not None
    assert b"\n" not in after
    assert len(json.loads(after)["cells"][2]["source"]) == len(PIPELINE) + 1


def test_a_new_line_after_the_last_one_leaves_the_list_as_jupyter_writes_it() -> None:
    after = patch_cells(
        notebook(IMPORTS, TRAIN, [*PIPELINE[:2], "    node = train(x=x)"]), TYPE
    ).after
    assert json.loads(after or b"{}")["cells"][2]["source"] == [
        *PIPELINE[:2],
        "    node = train(x=x)\n",
        '    node.resources = JobResourceConfiguration(instance_type="32cpu128g")',
    ]


def test_a_line_that_goes_takes_its_item_along() -> None:
    cell = ["job = x.sweep(\n", "    primary_metric='m',\n", "    instance_type='t',\n", ")"]
    after = patch_cells(notebook(["from azure.ai.ml import command"], cell), Settings()).after
    assert json.loads(after or b"{}")["cells"][1]["source"] == [
        "job = x.sweep(\n",
        "    primary_metric='m',\n",
        ")\n",
        "job.resources = JobResourceConfiguration(instance_type='t')",
    ]


def test_a_value_over_several_lines_is_replaced() -> None:
    cell = [
        "from azure.ai.ml import command\n",
        "command(instance_type=('a'\n",
        "    'é'), name='n')",
    ]
    after = patch_cells(notebook(cell), TYPE).after
    assert sources(after or b"{}") == [
        "from azure.ai.ml import command\ncommand(instance_type=('32cpu128g'), name='n')"
    ]


@pytest.mark.parametrize(
    "line",
    [
        "%pip install azure-ai-ml",
        "!pip install -q x \\\n    y",
        "files = !ls -la",
        "t = %timeit -o f()",
        "train?",
        "?train",
        "train??",
        "%%time",
        "%%capture out",
        "if True:\n    !ls\nelse:\n    %pwd",
        "%",
    ],
)
def test_ipython_lines_are_kept_and_the_cell_is_still_patched(line: str) -> None:
    cell = f"{line}\nfrom azure.ai.ml import command\njob = command(command='x')\n"
    after = patch_cells(notebook(cell.splitlines(keepends=True)), TYPE).after
    assert sources(after or b"{}") == [cell.replace("'x'", "'x', instance_type=\"32cpu128g\"")]


@pytest.mark.parametrize("magic", ["%%bash", "%%writefile train.py", "%%html", "%%sql"])
def test_cells_of_another_language_are_left(magic: str) -> None:
    cell = f"{magic}\nfrom azure.ai.ml import command\njob = command(command='x')\n"
    result = patch_cells(notebook("from azure.ai.ml import command", cell), TYPE)
    assert (result.after, result.refused, result.findings) == (None, None, ())


def test_an_operator_at_the_beginning_of_a_line_is_not_magic() -> None:
    cell = "from azure.ai.ml import command\nx = ('%s'\n     % 1)\njob = command(command='x')\n"
    after = patch_cells(notebook(cell), TYPE).after
    assert sources(after or b"{}") == [cell.replace("'x')", "'x', instance_type='32cpu128g')")]


def test_findings_name_the_cell_and_the_line_of_the_file() -> None:
    data = notebook(IMPORTS, TRAIN, [*PIPELINE[:2], "    node = train(x=x) if x else 1\n"])
    finding = patch_cells(data).findings[0]
    assert finding.message == "cell 3 line 3: step `node` is not changed"
    assert "train(x=x) if x" in data.decode().split("\n")[finding.line - 1]


def test_names_are_followed_over_cells_and_markdown_is_not_read() -> None:
    document = json.loads(notebook(IMPORTS, TRAIN, PIPELINE))
    document["cells"].insert(
        1, {"cell_type": "markdown", "metadata": {}, "source": ["train = None\n"]}
    )
    after = patch_cells(json.dumps(document).encode()).after
    assert "node.resources" in sources(after or b"{}")[3]


def test_a_bom_and_crlf_stay() -> None:
    data = b"\xef\xbb\xbf" + notebook(IMPORTS, TRAIN, PIPELINE).replace(b"\n", b"\r\n")
    after = patch_cells(data).after or b""
    assert after.startswith(b"\xef\xbb\xbf{")
    assert after.count(b"\n") == after.count(b"\r\n") == data.count(b"\n") + 1


def test_a_notebook_without_the_key_words_is_left() -> None:
    result = patch_cells(notebook("import numpy"), BOTH)
    assert result.skipped is not None
    assert result.skipped.reason == "no AzureML code"


def test_a_notebook_without_code_cells_is_left() -> None:
    data = b'{"cells": [], "metadata": {"x": "azure.ai.ml command"}}'
    result = patch_notebook("n.ipynb", data, TYPE)
    assert (result.after, result.refused) == (None, None)


@pytest.mark.parametrize(
    "line", ["pip install azure-ai-ml", "conda install -y lightgbm", "cd ..", "%pip list"]
)
def test_magics_without_a_percent_sign_do_not_hide_their_cell(line: str) -> None:
    cell = f'{line}\nfrom azure.ai.ml import command\njob = command(command="x")\n'
    result = patch_cells(notebook(cell), TYPE)
    assert sources(result.after or b"{}") == [
        cell.replace('"x")', '"x", instance_type="32cpu128g")')
    ]
    assert result.findings == ()


def test_a_cell_that_is_not_python_is_reported_where_it_may_have_a_target() -> None:
    good = "from azure.ai.ml import command\n"
    assert patch_cells(notebook(good, "SELECT(7DAY_WINDOW)\n"), TYPE).findings == ()
    [finding] = patch_cells(notebook(good, "job = command(command='x'\n"), TYPE).findings
    assert "cell 2 line 1: left as it is" in finding.message


def test_an_import_is_in_a_cell_that_has_run_by_then() -> None:
    """The steps of a pipeline are bound first, and a job of an earlier cell gets its resources after that."""
    early = 'from azure.ai.ml import automl, dsl, load_component\njob = automl.classification(compute="c")\n'
    late = 'from azure.ai.ml.entities import Model\ntrain = load_component(source="./train.yml")\n'
    pipeline = "@dsl.pipeline\ndef p(x):\n    node = train(x=x)\n"
    asked = Settings(instance_type="32cpu128g", expose_parameters=True)
    first, *others = sources(patch_cells(notebook(early, late + pipeline), asked).after or b"{}")
    assert first.index("import JobResourceConfiguration") < first.index(
        "= JobResourceConfiguration("
    )
    assert "node.resources = JobResourceConfiguration(instance_type=instance_type" in others[0]
