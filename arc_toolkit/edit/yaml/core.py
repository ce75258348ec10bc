"""YAML 1.2: what its core schema makes of a plain scalar.

PyYAML reads YAML 1.1, where `1e-5` is a word and `on` is a boolean. ruamel.yaml, and with it the
AzureML SDK v1.5, reads YAML 1.2, where the first is a number and the second is a word.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import yaml

from arc_toolkit.edit.files.edits import Unreadable
from arc_toolkit.edit.yaml.nodes import (
    BOOL,
    FLOAT,
    INT,
    MERGE,
    NULL,
    STR,
    Loader,
    YamlNode,
    position_of,
)

# INT comes before FLOAT, so that a whole number stays whole; the merge key is that of 1.1, as in
# ruamel.yaml.
_PATTERNS = {
    BOOL: re.compile(r"true|True|TRUE|false|False|FALSE"),
    NULL: re.compile(r"~|null|Null|NULL|"),
    INT: re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+"),
    FLOAT: re.compile(
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
    ),
    MERGE: re.compile(r"<<"),
}


def core_tag(text: str) -> str:
    """What a plain scalar is."""
    return next((tag for tag, pattern in _PATTERNS.items() if pattern.fullmatch(text)), STR)


class CoreLoader(Loader):
    """Gives plain scalars the tags of the core schema."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> str:
        if kind is yaml.ScalarNode and implicit[0]:
            return core_tag(value)
        return super().resolve(kind, value, implicit)


def _whole(text: str) -> int:
    return (
        int(text[2:], 8)
        if text.startswith("0o")
        else int(text, 16 if text.startswith("0x") else 10)
    )


_VALUES: dict[str, Callable[[str], Any]] = {
    STR: str,
    NULL: lambda text: None,
    BOOL: lambda text: {"true": True, "false": False}[text.lower()],
    INT: _whole,
    FLOAT: lambda text: float(text.lower().replace(".inf", "inf").replace(".nan", "nan")),
}


def core_value(node: YamlNode) -> Any:
    """The value of a scalar that `CoreLoader` read."""
    try:
        return _VALUES[node.tag](str(node.value))
    except (KeyError, ValueError):
        tag = node.tag.removeprefix("tag:yaml.org,2002:")
        raise Unreadable(
            f"broken YAML: {node.value} cannot be read as {tag}", *position_of(node)
        ) from None
