"""The placeholders of v1.5 and v2 commands."""

from __future__ import annotations

import pytest

from arc_toolkit.migrate.trial import convert_command


def converted(line: str) -> str:
    return convert_command(line, lambda kind, name: f"{kind}.new_{name}")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a {inputs.x} b", "a ${{inputs.new_x}} b"),
        ("{ outputs.y }", "${{outputs.new_y}}"),
        ("${HOME} {print}", "${HOME} {print}"),
        ("${{HOME}} [[ -f x ]]", "${HOME} [ -f x ]"),
        ("x[0] [a", "x[0] [a"),
        ("${{inputs.x}}", "${{inputs.new_x}}"),
        ("{{inputs.x}} [a]] {inputs.x}", "{inputs.x} [a] ${{inputs.new_x}}"),
    ],
)
def test_text_placeholders_and_escapes(line: str, expected: str) -> None:
    assert converted(line) == expected


@pytest.mark.parametrize("line", ["[--a {inputs.a}]", "$[[--a ${{inputs.a}}]]"])
def test_groups_of_v1_5_and_of_v2(line: str) -> None:
    assert converted(line) == "$[[--a ${{inputs.new_a}}]]"
