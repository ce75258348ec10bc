"""Machine-readable output: every document names its schema; within v1 fields are only added.

`docs/schemas/` has the schemas, which `python -m scripts.schemas` writes.
"""

from __future__ import annotations

import json
from typing import Any


def document(command: str, payload: dict[str, Any]) -> str:
    """JSON text with `"schema": "arc-toolkit/<command>/v1"` first."""
    return json_text({"schema": f"arc-toolkit/{command}/v1", **payload})


def json_text(data: dict[str, Any]) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False)
