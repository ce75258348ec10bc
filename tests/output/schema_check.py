"""Whether a JSON document is what its schema in docs/schemas/ says, and has no field beside."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from scripts.schemas import DOCUMENTS, schema_of, strict


@lru_cache
def _validator(command: str) -> Any:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(strict(schema_of(command)))


def schema_problem(text: str) -> str | None:
    """What is wrong with a document, in one sentence; None if it is right."""
    from jsonschema.exceptions import best_match

    data = json.loads(text)
    _, command, version = str(data.get("schema")).split("/")
    if command not in DOCUMENTS or version != "v1":
        return f"{data.get('schema')} has no schema in docs/schemas/: add it to scripts/schemas"
    error = best_match(_validator(command).iter_errors(data))
    return error and f"{data['schema']} at {error.json_path}: {error.message}"
