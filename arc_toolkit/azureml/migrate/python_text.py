"""Python source of sweeps for azure-ai-ml: literals, distributions, and the arguments of `.sweep(...)`."""

from __future__ import annotations

import json
import math
from typing import Any

from arc_toolkit.azureml.migrate.space import DISTRIBUTIONS, POLICIES

WIDTH = 100


def literal(value: object) -> str:
    """Python source of a value: `repr` with double quotes, and with the floats that have no literal."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, dict):
        return "{" + ", ".join(f"{literal(key)}: {literal(item)}" for key, item in value.items()) + "}"
    return repr(value)


def distribution_text(drawn: dict[str, Any], used: set[str]) -> str:
    """`Uniform(min_value=0, max_value=1)`; the classes that it needs are added to `used`."""
    known = DISTRIBUTIONS[drawn["type"]]
    used.add(known.v2_class)
    parts = []
    for key in known.keys:
        value = drawn[key]
        listed = f"[{', '.join(_element(item, used) for item in value)}]" if isinstance(value, list) else None
        parts.append(f"{key}={listed or literal(value)}")
    return f"{known.v2_class}({', '.join(parts)})"


def _element(item: Any, used: set[str]) -> str:
    if not isinstance(item, dict):
        return literal(item)
    inner = (
        f"{literal(key)}: {distribution_text(value, used) if isinstance(value, dict) else literal(value)}"
        for key, value in item.items()
    )
    return f"{{{', '.join(inner)}}}"


def sweep_arguments(body: dict[str, Any], used: set[str]) -> dict[str, str]:
    """The arguments of `.sweep(...)`; the classes that they need are added to `used`."""
    arguments = {
        "primary_metric": literal(body["objective"]["primary_metric"]),
        "goal": literal(body["objective"]["goal"]),
        "sampling_algorithm": literal(body["sampling_algorithm"]),
        **{key: literal(value) for key, value in body["limits"].items()},
    }
    if policy := body.get("early_termination"):
        name = POLICIES[policy["type"]].v2_class
        used.add(name)
        inner = ", ".join(f"{key}={literal(value)}" for key, value in policy.items() if key != "type")
        arguments["early_termination_policy"] = f"{name}({inner})"
    return arguments


def call_text(function: str, arguments: dict[str, str]) -> str:
    """`function(a=1, b=2)`"""
    return f"{function}({', '.join(f'{key}={text}' for key, text in arguments.items())})"


def call_lines(function: str, arguments: dict[str, str], column: int) -> str:
    """The same, with a line for each argument where it would be too long for a statement at `column`."""
    line = call_text(function, arguments)
    if column + len(line) < WIDTH:
        return line
    return f"{function}(\n" + "".join(f"    {key}={text},\n" for key, text in arguments.items()) + ")"
