"""The placeholders of v1.5 and v2 commands."""

from __future__ import annotations

from typing import Any

import pytest

from arc_toolkit.migrate import placeholders
from arc_toolkit.migrate.placeholders import OptionalGroup, Placeholder


def shown(line: str) -> list[Any]:
    """The parts with neighbouring text joined."""
    out: list[Any] = []
    for part in placeholders.parse(line):
        if isinstance(part, str) and out and isinstance(out[-1], str):
            out[-1] += part
        else:
            out.append(part)
    return out


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("a {inputs.x} b", ["a ", Placeholder("inputs", "x"), " b"]),
        ("{ outputs.y }", [Placeholder("outputs", "y")]),
        ("${HOME} {print}", ["${HOME} {print}"]),
        ("${{HOME}} [[ -f x ]]", ["${HOME} [ -f x ]"]),
        ("x[0] [a", ["x[0] [a"]),
        ("${{inputs.x}}", [Placeholder("inputs", "x")]),
        ("{{inputs.x}} [a]] {inputs.x}", ["{inputs.x} [a] ", Placeholder("inputs", "x")]),
    ],
)
def test_text_placeholders_and_escapes(line: str, parts: list[Any]) -> None:
    assert shown(line) == parts


@pytest.mark.parametrize("line", ["[--a {inputs.a}]", "$[[--a ${{inputs.a}}]]"])
def test_groups_of_v1_5_and_of_v2(line: str) -> None:
    (group,) = placeholders.parse(line)
    assert isinstance(group, OptionalGroup)
    assert placeholders.inner_text(group.parts, lambda ref: f"<{ref.name}>") == "--a <a>"


def test_a_group_that_goes_takes_one_blank_with_it() -> None:
    parts = placeholders.parse("x [--a {inputs.a}] y")
    assert placeholders.render_parts(parts, lambda ref: ref.name, lambda group: None) == "x y"
