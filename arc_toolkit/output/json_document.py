"""Machine-readable output: every document names its schema; within v1 fields are only added.

`docs/schemas/` has the schemas, which `python -m scripts.schemas` writes.
"""

from __future__ import annotations

import json
from typing import Any


def document(command: str, payload: dict[str, Any], *, indent: int | None = 2) -> str:
    """JSON text with its schema, `arc-toolkit/<command>/v1`, first; one line without an indent."""
    return json_text({"schema": f"arc-toolkit/{command}/v1", **payload}, indent=indent)


def json_text(data: dict[str, Any], *, indent: int | None = 2) -> str:
    return json.dumps(data, indent=indent, ensure_ascii=False)
