"""The YAML emitter and the placeholders: what is written reads back as what was meant."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from arc_toolkit.azureml.migrate import placeholders
from arc_toolkit.azureml.migrate.emit import Note, emit
from arc_toolkit.azureml.migrate.legacy_spec import parse_spec
from arc_toolkit.azureml.migrate.placeholders import OptionalGroup, Ref

text = st.text(st.characters(codec="utf-8"), max_size=40) | st.text("ab -#:'\"{}[]&*!|>%@`\n ", max_size=200)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | text
data = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4), max_leaves=12
)


@settings(max_examples=150, deadline=None)
@given(value=st.dictionaries(text, data, max_size=5))
@example(value={"": [{"\xa00": None}]})  # a blank to Python, and none to YAML
def test_what_is_emitted_reads_back_in_yaml_1_1_and_1_2(value: dict[str, Any]) -> None:
    written = emit(value)
    expected = value or None
    assert yaml.safe_load(written) == expected
    if value:
        assert parse_spec("x.yaml", written.encode()).data == value


def test_notes_are_comments_and_small_numbers_keep_their_point() -> None:
    written = emit(
        {Note("why\nand how"): None, "a": {"b": 1e-5, Note("in"): None, "c": [1, 2.0]}, "d": "no", "e": "1"}
    )
    assert written == '# why\n# and how\na:\n  b: 1.0e-05\n  # in\n  c: [1, 2.0]\nd: "no"\ne: "1"\n'


def test_a_long_command_is_folded_at_its_arguments() -> None:
    command = "python train.py " + " ".join(f"--argument-{index} ${{{{inputs.x{index}}}}}" for index in range(6))
    written = emit({"command": command})
    assert written.startswith("command: >-\n  python train.py --argument-0 ${{inputs.x0}}\n  --argument-1 ")
    assert yaml.safe_load(written) == {"command": command}


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
        ("a {inputs.x} b", ["a ", Ref("inputs", "x"), " b"]),
        ("{ outputs.y }", [Ref("outputs", "y")]),
        ("${HOME} {print}", ["${HOME} {print}"]),
        ("${{HOME}} [[ -f x ]]", ["${HOME} [ -f x ]"]),
        ("x[0] [a", ["x[0] [a"]),
        ("${{inputs.x}}", [Ref("inputs", "x")]),
    ],
)
def test_text_placeholders_and_escapes(line: str, parts: list[Any]) -> None:
    assert shown(line) == parts


@pytest.mark.parametrize("line", ["[--a {inputs.a}]", "$[[--a ${{inputs.a}}]]"])
def test_groups_of_v1_5_and_of_v2(line: str) -> None:
    (group,) = placeholders.parse(line)
    assert isinstance(group, OptionalGroup)
    assert placeholders.inner_text(group, lambda ref: f"<{ref.name}>") == "--a <a>"


def test_a_group_that_goes_takes_one_blank_with_it() -> None:
    parts = placeholders.parse("x [--a {inputs.a}] y")
    assert placeholders.render(parts, lambda ref: ref.name, lambda group: None) == "x y"
