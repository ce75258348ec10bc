"""The layout of a JSON document: how new values of it are written."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import yaml


@dataclass(frozen=True, slots=True)
class JsonStyle:
    """How one document is written."""

    # What each level is indented by; empty if everything is on one line.
    unit: str
    # After a comma on the same line, and after a colon.
    comma: str
    colon: str
    newline: str

    @classmethod
    def of(cls, text: str, document: yaml.Node | None, newline: str) -> JsonStyle | None:
        """The style of a document that is a JSON object; None for any other."""
        if (
            not isinstance(document, yaml.MappingNode)
            or not document.flow_style
            or not document.value
        ):
            return None
        key, value = document.value[0]
        if not isinstance(key, yaml.ScalarNode) or key.style != '"':
            return None
        before = text[text.rfind("\n", 0, key.start_mark.index) + 1 : key.start_mark.index]
        is_compact = text[key.end_mark.index : value.start_mark.index] == ":"
        unit = "" if before.strip() else before
        return cls(unit, "," if is_compact else ", ", ":" if is_compact else ": ", newline)

    def text(self, value: Any, indent: str | None) -> str:
        """A value, on lines of its own that begin with `indent`; on one line if that is None."""
        levels = self.unit if indent is not None and self.unit else None
        separators = (self.comma if levels is None else ",", self.colon)
        written = json.dumps(value, indent=levels, separators=separators, ensure_ascii=False)
        return written.replace("\n", self.newline + (indent or ""))

    def pair(self, key: str, value: Any, indent: str | None) -> str:
        return f"{json.dumps(key, ensure_ascii=False)}{self.colon}{self.text(value, indent)}"
