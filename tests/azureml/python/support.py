"""`check_noop` and `check_transformed` for Python and notebooks; expected texts are parsed themselves."""

from __future__ import annotations

import ast
import json
from textwrap import dedent

from arc_toolkit.azureml.python.python_plan import patch_notebook, patch_source
from arc_toolkit.azureml.references import ProjectFiles
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.file_io import read_raw
from arc_toolkit.findings import FileResult, Finding
from arc_toolkit.migrate.conversions import V2Conversions

TYPE = Settings(instance_type="32cpu128g")
BOTH = Settings(instance_type="32cpu128g", instance_count=2)

V2 = """\
from azure.ai.ml import dsl, load_component
from azure.ai.ml.entities import JobResourceConfiguration

train = load_component(source="./train.yml")
"""
V15 = """\
from azure.ml.component import Component, dsl

train = Component.from_yaml(ws, yaml_file="./train.yaml")
"""


COMPONENT = b"""\
$schema: https://azuremlschemas.azureedge.net/latest/commandComponent.schema.json
type: command
name: train
command: echo
environment: azureml:env:1
"""
SPEC = b"""\
$schema: https://componentsdk.azureedge.net/jsonschema/CommandComponent.json
type: CommandComponent
name: train
command: echo
"""


def read_component(path: str) -> bytes:
    """A file, or else a command component under every name that is one of `load_component` (.yml) or v1.5 (.yaml)."""
    try:
        return read_raw(path)
    except FileNotFoundError:
        if "missing" in path or not path.endswith((".yml", ".yaml")):
            raise
        return SPEC if path.endswith(".yaml") else COMPONENT


def patch(text: str, settings: Settings = BOTH, path: str = "pipeline.py") -> FileResult:
    return patch_bytes(path, dedent(text).encode(), settings)


def patch_bytes(path: str, data: bytes, settings: Settings) -> FileResult:
    convert = V2Conversions().plan_code(settings)
    return patch_source(path, data, settings, ProjectFiles(read_component), convert)


def check_noop(
    text: str, settings: Settings = BOTH, path: str = "pipeline.py"
) -> tuple[Finding, ...]:
    """Nothing changes; the findings, for the reason."""
    ast.parse(dedent(text))
    result = patch(text, settings, path)
    assert result.refused is None
    assert result.after is None
    return result.findings


def check_transformed(
    before: str, after: str, settings: Settings = BOTH, path: str = "pipeline.py"
) -> tuple[Finding, ...]:
    """Exactly this becomes of it, and nothing more on a second run."""
    ast.parse(dedent(after))
    result = patch(before, settings, path)
    assert result.refused is None
    assert result.after is not None, [finding.reason for finding in result.findings]
    assert result.after.decode() == dedent(after)
    again = patch_bytes(path, result.after, settings)
    assert again.after is None
    assert again.refused is None
    return result.findings


def check_left(text: str, reason: str, settings: Settings = BOTH, line: int = 0) -> Finding:
    """Nothing changes, and one finding says why, on that line."""
    findings = [finding for finding in check_noop(text, settings) if reason in finding.reason]
    assert len(findings) >= 1, "no finding says why"
    assert findings[0].line > 0
    if line:
        assert findings[0].line == line
    return findings[0]


def notebook(*cells: str | list[str], indent: int = 1) -> bytes:
    """A notebook of code cells; a list is written as lines, a text as one string."""
    body: list[dict[str, object]] = [
        {
            "cell_type": "code",
            "execution_count": 1,
            "metadata": {},
            "outputs": [{"text": "é"}],
            "source": cell,
        }
        for cell in cells
    ]
    document = {
        "cells": body,
        "metadata": {"kernelspec": {"name": "python3"}},
        "nbformat": 4,
        "nbformat_minor": 2,
    }
    return (json.dumps(document, indent=indent) + "\n").encode()


def patch_cells(data: bytes, settings: Settings = BOTH) -> FileResult:
    convert = V2Conversions().plan_code(settings)
    return patch_notebook("pipeline.ipynb", data, settings, ProjectFiles(read_component), convert)


def sources(data: bytes) -> list[str]:
    return ["".join(cell["source"]) for cell in json.loads(data)["cells"]]
