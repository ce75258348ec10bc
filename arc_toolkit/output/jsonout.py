"""Machine-readable output: every document names its schema; within v1 fields are only added."""

from __future__ import annotations

import json
from typing import Any


def document(command: str, payload: dict[str, Any]) -> str:
    """JSON text with `"schema": "arc-toolkit/<command>/v1"` first."""
    return json.dumps({"schema": f"arc-toolkit/{command}/v1", **payload}, indent=2, ensure_ascii=False)
