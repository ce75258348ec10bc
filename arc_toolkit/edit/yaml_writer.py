"""YAML text of new values: scalars that no reader can mistake, block lines and flow mappings."""

from __future__ import annotations

import json
import re
from typing import Any

_PLAIN = re.compile(
    r"""[A-Za-z][A-Za-z0-9_./@-]*(?::[A-Za-z0-9_./@-]+)*   # words, azureml:cpu-cluster
      | [0-9]+[a-df-z][a-z0-9-]*                           # 32cpu128g, and never 1e5
      """,
    re.VERBOSE,
)
_BINDING = re.compile(r"\$\{\{[A-Za-z0-9_.]+\}\}")
# YAML 1.1 reads these as something else than text.
_WORDS = frozenset(["true", "false", "yes", "no", "on", "off", "null", "y", "n"])


def scalar_text(value: Any, *, flow: bool = False, quote: bool = False) -> str:
    """A number, or text: plain where no reader can take it for anything else, else in double quotes."""
    if isinstance(value, int):
        return str(value)
    text = str(value)
    plain = _PLAIN.fullmatch(text) or (not flow and _BINDING.fullmatch(text))
    if plain and not quote and text.lower() not in _WORDS and not re.match(r"0[xob]", text):
        return text
    return json.dumps(text, ensure_ascii=False)


def block_lines(tree: dict[str, Any], column: int, indent: int) -> list[str]:
    lines = []
    for key, value in tree.items():
        start = " " * column + scalar_text(key) + ":"
        if isinstance(value, dict):
            lines += [start, *block_lines(value, column + indent, indent)]
        else:
            lines.append(f"{start} {_value_text(key, value)}")
    return lines


def flow_text(tree: dict[str, Any], *, quote: bool = False) -> str:
    inside = [
        f"{scalar_text(key, flow=True, quote=quote)}: "
        + (flow_text(value, quote=quote) if isinstance(value, dict) else _value_text(key, value, True, quote))
        for key, value in tree.items()
    ]
    return "{" + ", ".join(inside) + "}"


def _value_text(key: str, value: Any, flow: bool = False, quote: bool = False) -> str:
    # Variables are upper case by custom; their values are always strings, and are seen to be.
    return scalar_text(value, flow=flow, quote=quote or (isinstance(value, str) and key.isupper()))
