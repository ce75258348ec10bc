"""The published JSON Schemas. `conftest.py` validates every document that any test makes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from scripts.schemas import DOCUMENTS, DRAFT, FOLDER, files, schema_of
from tests.support import ROOT, Result, real_module


def _fields(schema: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every field of a schema by name, at any depth."""
    if isinstance(schema, list):
        for item in schema:
            yield from _fields(item)
    elif isinstance(schema, dict):
        if {"properties", "required"} <= schema.keys():
            yield from schema["properties"].items()
        for value in schema.values():
            yield from _fields(value)


def test_the_published_files_are_the_ones_of_the_code() -> None:
    assert {path: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()} == files(), (
        "out of date: python -m scripts.schemas"
    )


@pytest.mark.parametrize("command", DOCUMENTS)
def test_a_schema_is_valid_and_describes_every_field(command: str) -> None:
    schema = schema_of(command)
    real_module("jsonschema").Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == DRAFT
    assert schema["$id"] == f"urn:arc-toolkit:{command}:v1"
    assert schema["title"] == f"arc-toolkit/{command}/v1"
    fields = list(_fields(schema))
    assert fields
    assert [name for name, field in fields if not field.get("description")] == []
    # Fields are only added within v1: a reader of today must accept those of tomorrow.
    assert 'additionalProperties": false' not in json.dumps(schema)


def test_every_document_of_the_code_has_a_schema() -> None:
    source = "".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "arc_toolkit").rglob("*.py")
    )
    calls = re.findall(r"\b(?:document|fits_json|RunReport|change_files)\(\s*\"([a-z-]+)\"", source)
    assert set(calls) == set(DOCUMENTS)


def test_the_page_lists_every_schema() -> None:
    page = (ROOT / "docs" / "schemas.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"\| (`arc-toolkit [^|]*`) \| \[`arc-toolkit/([a-z-]+)/v1`\]\(schemas/([a-z.0-9-]+)\)", page
    )
    assert rows == [
        (title, command, f"{command}.v1.json") for command, (title, _) in DOCUMENTS.items()
    ]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda data: data | {"colour": "red"}, "'colour' was unexpected"),
        (
            lambda data: {key: data[key] for key in data if key != "findings"},
            "'findings' is a required property",
        ),
        (
            lambda data: data | {"problems": [{"path": "a", "message": "b", "line": "7"}]},
            "problems[0].line",
        ),
        (lambda data: data | {"files": [{"path": "a", "status": "fine"}]}, "files[0].status"),
        (lambda data: data | {"schema": "arc-toolkit/paint/v1"}, "has no schema"),
    ],
    ids=["more", "less", "type", "enum", "name"],
)
def test_a_wrong_document_is_found(
    change: Callable[[dict[str, Any]], dict[str, Any]],
    problem: str,
    arc: Callable[..., Result],
    tmp_path: Path,
) -> None:
    real_module("jsonschema")
    from tests.output.schema_check import schema_problem

    (tmp_path / "job.yml").write_text("command: echo\n")
    data = json.loads(arc("check", tmp_path, "--format", "json").out)
    assert schema_problem(json.dumps(data)) is None
    assert problem in (schema_problem(json.dumps(change(data))) or "")
