"""The command line of a v1.5 spec as parts, and those parts as v2 text.

v1.5: `{inputs.x}`, `{outputs.y}`, `{search_space.x}`, an optional group `[--a {inputs.a}]`, and the escapes
`{{ }} [[ ]]` for single brackets. Brackets that hold no placeholder are text, as is every other brace (`${HOME}`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Ref:
    """`{inputs.x}`: kind is `inputs`, `outputs` or `search_space`."""

    kind: str
    name: str


@dataclass(frozen=True)
class OptionalGroup:
    """An optional group: it goes when one of its inputs has no value."""

    parts: tuple[str | Ref, ...]


Part = str | Ref | OptionalGroup

_REF = re.compile(r"\{\s*(inputs|outputs|search_space)\.([^{}\s]+?)\s*\}")
# Already the v2 spelling; in v1.5 it could only be an escape of no use.
_V2_REF = re.compile(r"\$\{\{\s*(inputs|outputs|search_space)\.([^{}\s]+?)\s*\}\}")
_V2_GROUP = re.compile(r"\$\[\[(.*?)\]\](?!\])", re.DOTALL)
_ESCAPES = {"{{": "{", "}}": "}", "[[": "[", "]]": "]"}


def parse(text: str) -> list[Part]:
    """The parts of a v1.5 command line."""
    parts: list[Part] = []
    position = 0
    while position < len(text):
        if found := _V2_GROUP.match(text, position):
            parts.append(_group(found[1]))
            position = found.end()
        elif text[position] == "[" and text[position : position + 2] not in _ESCAPES:
            end = _group_end(text, position + 1)
            inside = _group(text[position + 1 : end])
            if end and any(isinstance(part, Ref) for part in inside.parts):
                parts.append(inside)
                position = end + 1
            else:
                parts.append("[")
                position += 1
        else:
            part, position = _one(text, position)
            parts.append(part)
    return parts


def references(parts: list[Part]) -> Iterator[Ref]:
    """Every placeholder, in groups too."""
    for part in parts:
        if isinstance(part, Ref):
            yield part
        elif isinstance(part, OptionalGroup):
            yield from (inner for inner in part.parts if isinstance(inner, Ref))


def render(parts: list[Part], place: Callable[[Ref], str], group: Callable[[OptionalGroup], str | None]) -> str:
    """The text again: `place` says how a placeholder reads, `group` how a group does.

    A group that becomes None goes with one blank before it, so that no double blank is left.
    """
    out = ""
    for part in parts:
        if isinstance(part, OptionalGroup):
            text = group(part)
            out = out + text if text is not None else out.removesuffix(" ")
        else:
            out += place(part) if isinstance(part, Ref) else part
    return out


def inner_text(group: OptionalGroup, place: Callable[[Ref], str]) -> str:
    """The text inside a group."""
    return "".join(place(part) if isinstance(part, Ref) else part for part in group.parts)


def _one(text: str, position: int) -> tuple[str | Ref, int]:
    if found := _V2_REF.match(text, position) or _REF.match(text, position):
        return Ref(found[1], found[2]), found.end()
    pair = text[position : position + 2]
    if pair in _ESCAPES:
        return _ESCAPES[pair], position + 2
    return text[position], position + 1


def _group(text: str) -> OptionalGroup:
    parts: list[str | Ref] = []
    position = 0
    while position < len(text):
        part, position = _one(text, position)
        parts.append(part)
    return OptionalGroup(tuple(parts))


def _group_end(text: str, position: int) -> int:
    """Where the `]` of a group is, `]]` being an escape; 0 where there is none."""
    while position < len(text):
        if text[position : position + 2] in ("]]", "[["):
            position += 2
        elif text[position] == "]":
            return position
        elif text[position] == "[":
            return 0
        else:
            position += 1
    return 0
