"""Input that cannot be used: one sentence, nothing changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from arc_toolkit.azureml.python.python_plan import patch_notebook, patch_source
from arc_toolkit.findings import FileResult
from tests.azureml.python.support import TYPE, notebook
from tests.support import Result


def reason(result: FileResult) -> str:
    """`line:column: why`, in one sentence, and nothing changed."""
    assert (result.after, result.refused, result.findings) == (None, None, ())
    assert result.skipped is not None
    assert "\n" not in result.skipped.reason
    return f"{result.skipped.line}:{result.skipped.column}: {result.skipped.reason}"


AZURE = b"from azure.ai.ml import command\n"


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (AZURE + b"job = command(\n", "2:14: not valid Python: '(' was never closed"),
        (AZURE + b"  x = 1\n", "2:"),
        (AZURE + b"x = = 1\n", "2:5: not valid Python: invalid syntax"),
        (AZURE + b"print 'hello'\n", "2:1: Python 2 code: convert it to Python 3 first"),
        (AZURE + b"try:\n    x\nexcept E, e:\n    pass\n", "4:8: Python 2 code"),
        (AZURE + b"exec 'x'\n", "2:1: Python 2 code"),
        (AZURE + b"x = 0777\n", "Python 2 code"),
        (AZURE + b"if a <> b: pass\n", "Python 2 code"),
        (AZURE + b"x = `a`\n", "Python 2 code"),
        (AZURE + b"x = 1\0\n", "2:6: holds null bytes: not Python source"),
        (AZURE + b"x = '\xff'\n", "2:6: not utf-8 text"),
        (
            b"# coding: klingon\n" + AZURE,
            "1:1: cannot tell its encoding: unknown encoding: klingon",
        ),
        (AZURE + b"x = " + b"(" * 3000 + b")" * 3000 + b"\n", "too many nested parentheses"),
    ],
    ids=[
        "bracket",
        "indent",
        "syntax",
        "print",
        "except",
        "exec",
        "octal",
        "unequal",
        "backtick",
        "null",
        "not utf-8",
        "unknown encoding",
        "deep",
    ],
)
def test_python_that_cannot_be_parsed(data: bytes, sentence: str) -> None:
    assert sentence in reason(patch_source("p.py", data, TYPE))


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"import azure.ai.ml\ndef f(:\n", "2:7: not valid Python: invalid syntax"),
        (b"print 'x'\nimport azure.ai.ml\n", "1:1: Python 2 code"),
        (b"\0import azure.ai.ml", "1:1: holds null bytes"),
        (b"# coding: klingon\nimport azure.ai.ml\n", "1:1: cannot tell its encoding"),
        (b"from azure.ml.component import x\nx = = 1\n", "2:5: not valid Python"),
        (b"import azure.ai.ml\n", "0:0: no AzureML code"),
        (b"print 'azure.ai.ml'\n", "0:0: no AzureML code"),
        (b"import os\nprint 'x'\n", "0:0: no AzureML code"),
    ],
)
def test_a_file_that_only_imports_an_sdk_says_what_is_wrong_with_it(
    data: bytes, sentence: str
) -> None:
    assert sentence in reason(patch_source("p.py", data, TYPE))


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "1:1: not valid JSON: Expecting value"),
        (b"not json", "1:1: not valid JSON"),
        (b'{"cells": [}', "1:12: not valid JSON"),
        (b"{}", "a notebook without cells"),
        (b'{"cells": null}', "a notebook without cells"),
        (b"[]", "a notebook without cells"),
        (b'{"cells": [1]}', "cell 1 is not an object"),
        (b'{"cells": [{"cell_type": "code", "source": [1]}]}', "the source of cell 1 is not text"),
        (
            b'{"cells": [{"cell_type": "code", "source": {"a": 1}}]}',
            "the source of cell 1 is not text",
        ),
        (b'{"a": "\xff"}', "1:8: not UTF-8 text"),
        (b'{"cells": []} x', "not valid JSON: Extra data"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_files_that_are_not_notebooks(data: bytes, sentence: str) -> None:
    assert sentence in reason(patch_notebook("n.ipynb", data, TYPE))


def test_a_broken_cell_is_reported_and_the_others_are_done() -> None:
    data = notebook(
        ["from azure.ai.ml import command\n"],
        ["def pipeline(:\n"],
        ["print 'command'\n"],
        ['job = command(command="x")'],
    )
    result = patch_notebook("n.ipynb", data, TYPE)
    assert result.after is not None
    shown = [data.decode().split("\n")[finding.line - 1].strip() for finding in result.findings]
    assert shown == ['"def pipeline(:\\n"', "\"print 'command'\\n\""]
    assert {(finding.severity, finding.column) for finding in result.findings} == {("warning", 1)}
    reasons = [(finding.message, finding.reason) for finding in result.findings]
    assert reasons == [
        ("cell 2 line 1: left as it is", "not valid Python: invalid syntax"),
        ("cell 3 line 1: left as it is", "Python 2 code: convert it to Python 3 first"),
    ]
    assert json.loads(result.after)["cells"][3]["source"] == [
        'job = command(command="x", instance_type="32cpu128g")'
    ]


def test_the_command_says_it_in_one_sentence_and_does_the_others(
    tmp_path: Path, arc: Callable[..., Result]
) -> None:
    (tmp_path / "old.py").write_bytes(AZURE + b"print 'x'\n")
    (tmp_path / "good.py").write_bytes(AZURE + b"job = command(command='x')\n")
    (tmp_path / "empty.ipynb").write_bytes(b"{}")
    result = arc("patch", "--instance-type", "32cpu128g", "--write", *sorted(tmp_path.iterdir()))
    assert result.code == 2
    assert (
        f"cannot use {tmp_path}/old.py:2:1: Python 2 code: convert it to Python 3 first"
        in result.err
    )
    assert f"cannot use {tmp_path}/empty.ipynb: a notebook without cells" in result.err
    assert b'instance_type="32cpu128g"' in (tmp_path / "good.py").read_bytes()
