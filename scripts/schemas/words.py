"""The words that schemas are written in: each makes one JSON Schema, with a description."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any, get_args

Schema = dict[str, Any]
# Command -> title and fields.
Documents = dict[str, tuple[str, dict[str, Schema]]]


def text(description: str) -> Schema:
    return {"type": "string", "description": description}


def integer(description: str) -> Schema:
    return {"type": "integer", "description": description}


def count(description: str) -> Schema:
    return {"type": "integer", "minimum": 0, "description": description}


def number(description: str) -> Schema:
    return {"type": "number", "description": description}


def flag(description: str) -> Schema:
    return {"type": "boolean", "description": description}


def time(description: str) -> Schema:
    pattern = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$"
    return {
        "type": "string",
        "pattern": pattern,
        "description": f"{description}, UTC: `2026-07-01T10:00:00Z`",
    }


def one_of(values: Any, description: str) -> Schema:
    """`values`: an Enum class, a Literal, or the values themselves."""
    if isinstance(values, type) and issubclass(values, Enum):
        values = [member.value for member in values]
    return {"enum": list(get_args(values) or values), "description": description}


def or_null(schema: Schema) -> Schema:
    if "enum" in schema:
        return {**schema, "enum": [*schema["enum"], None]}
    if "$ref" in schema:
        return {
            "anyOf": [{"$ref": schema["$ref"]}, {"type": "null"}],
            "description": schema["description"],
        }
    return {**schema, "type": [schema["type"], "null"]}


def many(items: Schema, description: str) -> Schema:
    return {"type": "array", "items": items, "description": description}


def texts(description: str) -> Schema:
    return many({"type": "string"}, description)


def by_name(values: Schema, description: str) -> Schema:
    """An object whose keys are names and not fields."""
    return {"type": "object", "additionalProperties": values, "description": description}


def record(fields: dict[str, Schema], description: str, optional: Iterable[str] = ()) -> Schema:
    return {
        "type": "object",
        "description": description,
        "properties": fields,
        "required": [name for name in fields if name not in optional],
    }


def shared(name: str, description: str) -> Schema:
    """A record that is used in several places: the `SHARED` of a module has it."""
    return {"$ref": f"#/$defs/{name}", "description": description}
