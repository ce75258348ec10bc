"""The JSON Schemas of every JSON output: `python -m scripts.schemas` writes docs/schemas/, one file per command.

The values of enums come from the code that makes them. A schema allows more fields than it lists, because within v1
fields are only added; the tests use `strict` copies, so that a field without a description is found.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from scripts.schemas import of_clusters, of_cost, of_diagnose, of_elastic, of_files
from scripts.schemas.words import Documents, Schema, record

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "schemas"
DRAFT = "https://json-schema.org/draft/2020-12/schema"
DOCUMENTS: Documents = {
    **of_files.DOCUMENTS,
    **of_clusters.DOCUMENTS,
    **of_diagnose.DOCUMENTS,
    **of_cost.DOCUMENTS,
    **of_elastic.DOCUMENTS,
}
_SHARED: dict[str, Schema] = {**of_files.SHARED, **of_clusters.SHARED, **of_diagnose.SHARED}


def schema_of(command: str) -> Schema:
    title, fields = DOCUMENTS[command]
    name = f"arc-toolkit/{command}/v1"
    fields = {"schema": {"const": name, "description": "the name of this schema"}, **fields}
    root = record(fields, f"What {title} writes.")
    used = [key for key in _SHARED if key in _references(root)]
    return {
        "$schema": DRAFT,
        "$id": f"urn:{name.replace('/', ':')}",
        "title": name,
        **root,
        **({"$defs": {key: _SHARED[key] for key in used}} if used else {}),
    }


def _references(schema: Any) -> set[str]:
    """The names of all shared records, also of those within those."""
    if isinstance(schema, list):
        return {name for item in schema for name in _references(item)}
    if not isinstance(schema, dict):
        return set()
    names = {name for value in schema.values() for name in _references(value)}
    if isinstance(target := schema.get("$ref"), str):
        name = target.rpartition("/")[2]
        names |= {name, *_references(_SHARED[name])}
    return names


def strict(schema: Any) -> Any:
    """The schema without room for fields that it does not list."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: strict(value) for key, value in schema.items()}
    # A field may be called `properties` too; only a schema has both.
    return (
        {**closed, "additionalProperties": False}
        if {"properties", "required"} <= closed.keys()
        else closed
    )


def files() -> dict[Path, str]:
    """Every file of docs/schemas/ with its text."""
    return {
        FOLDER / f"{command}.v1.json": json.dumps(schema_of(command), indent=2, ensure_ascii=False)
        + "\n"
        for command in DOCUMENTS
    }
