"""The command line of a v1.5 spec as parts, and those parts as v2 text.

v1.5: `{inputs.x}`, `{outputs.y}`, `{search_space.x}`, an optional group `[--a {inputs.a}]`, and the escapes
`{{ }} [[ ]]` for single brackets. Brackets without a placeholder are text, and so is every other brace (`${HOME}`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Placeholder:
    """`{inputs.x}`: kind is `inputs`, `outputs` or `search_space`."""

    kind: str
    name: str


@dataclass(frozen=True)
class OptionalGroup:
    """It goes when one of its inputs has no value."""

    parts: tuple[str | Placeholder, ...]

    def names(self, *kinds: str) -> set[str]:
        """The names of its placeholders, of all kinds or of these."""
        inner = (part for part in self.parts if isinstance(part, Placeholder))
        return {part.name for part in inner if not kinds or part.kind in kinds}


Part = str | Placeholder | OptionalGroup

_NAME = r"\s*(?P<{}>(?:inputs|outputs|search_space)\.[^{{}}\s]+?)\s*"
# The v2 spellings, with `$`, are understood too: in v1.5 they could only be escapes of no use.
_SIMPLE = rf"\$\{{\{{{_NAME.format('v2_name')}\}}\}}|\{{{_NAME.format('name')}\}}|(?P<escape>\{{\{{|\}}\}}|\[\[|\]\])"
_SIMPLE_PART = re.compile(_SIMPLE)
_PART = re.compile(
    rf"\$\[\[(?P<v2_group>.*?)\]\](?!\])|{_SIMPLE}|\[(?P<group>(?:\[\[|\]\]|[^\[\]])*+)\]",
    re.DOTALL,
)


def parse(text: str) -> list[Part]:
    """The parts of a v1.5 command line."""
    parts: list[Part] = []
    position = 0
    while match := _PART.search(text, position):
        parts.append(text[position : match.start()])
        position = match.end()
        if match["v2_group"] is not None:
            parts.append(OptionalGroup(tuple(_simple_parts(match["v2_group"]))))
        elif match["group"] is None:
            parts.append(_simple(match))
        elif (group := OptionalGroup(tuple(_simple_parts(match["group"])))).names():
            parts.append(group)
        else:
            parts.append("[")
            position = match.start() + 1
    return [part for part in (*parts, text[position:]) if part != ""]


def _simple_parts(text: str) -> Iterator[str | Placeholder]:
    position = 0
    for match in _SIMPLE_PART.finditer(text):
        yield text[position : match.start()]
        yield _simple(match)
        position = match.end()
    yield text[position:]


def _simple(match: re.Match[str]) -> str | Placeholder:
    """A placeholder, or the bracket that an escape is for."""
    name = match["v2_name"] or match["name"]
    return Placeholder(*name.split(".", 1)) if name else str(match["escape"])[0]


def references(parts: list[Part]) -> Iterator[Placeholder]:
    """Every placeholder, in groups too."""
    for part in parts:
        for inner in part.parts if isinstance(part, OptionalGroup) else (part,):
            if isinstance(inner, Placeholder):
                yield inner


def renamed(parts: list[Part], names: Mapping[Placeholder, Placeholder]) -> list[Part]:
    """The same parts with the placeholders renamed."""

    def new(part: str | Placeholder) -> str | Placeholder:
        return names[part] if isinstance(part, Placeholder) else part

    return [
        OptionalGroup(tuple(map(new, part.parts))) if isinstance(part, OptionalGroup) else new(part)
        for part in parts
    ]


def render_parts(
    parts: list[Part],
    place: Callable[[Placeholder], str],
    keep: Callable[[OptionalGroup], str | None],
) -> str:
    """The text again: `place` gives the text of a placeholder, `keep` that of a group, or None to drop it.

    One blank before a dropped group goes with it, so that no double blank is left.
    """
    out = ""
    for part in parts:
        text = keep(part) if isinstance(part, OptionalGroup) else inner_text((part,), place)
        out = out + text if text is not None else out.removesuffix(" ")
    return out


def inner_text(parts: Iterable[str | Placeholder], place: Callable[[Placeholder], str]) -> str:
    """The text of parts that are not groups."""
    return "".join(place(part) if isinstance(part, Placeholder) else part for part in parts)
