"""The writer of YAML: what is written reads back as what was meant."""

from __future__ import annotations

import re
from datetime import date, datetime
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from arc_toolkit.edit.files.edits import Refused
from arc_toolkit.edit.yaml.nodes import CoreLoader
from arc_toolkit.edit.yaml.writer import Comment, Writer, YamlStyle, file_text, quoted

text = st.text(st.characters(codec="utf-8"), max_size=40) | st.text(
    "ab -#:'\"{}[]&*!|>%@`\n ", max_size=200
)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | text
data = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(value=st.dictionaries(text, data, max_size=5))
@example(value={"": [{"\xa00": None}]})  # a blank to Python, and none to YAML
def test_a_new_file_reads_back_in_yaml_1_1_and_1_2(value: dict[str, Any]) -> None:
    written = file_text(value)
    expected = value or None
    assert yaml.safe_load(written) == expected
    assert yaml.load(written, Loader=CoreLoader) == expected


def test_comments_are_written_and_small_numbers_keep_their_point() -> None:
    written = file_text(
        {
            Comment("why\nand how"): None,
            "a": {"b": 1e-5, Comment("in"): None, "c": [1, 2.0]},
            "d": "no",
            "e": "1",
        }
    )
    assert written == '# why\n# and how\na:\n  b: 1.0e-05\n  # in\n  c: [1, 2.0]\nd: "no"\ne: "1"\n'


def test_a_long_command_is_folded_at_its_arguments() -> None:
    command = "python train.py " + " ".join(
        f"--argument-{index} ${{{{inputs.x{index}}}}}" for index in range(6)
    )
    written = file_text({"command": command})
    assert written.startswith(
        "command: >-\n  python train.py --argument-0 ${{inputs.x0}}\n  --argument-1 "
    )
    assert yaml.safe_load(written) == {"command": command}


def test_words_before_which_folded_text_breaks_are_a_preference() -> None:
    command = "python train.py with/some/long/path " + " ".join(
        f"$[[--argument {index}{index}]]" for index in range(6)
    )
    assert "path\n  $[[--argument 00]] " in file_text(
        {"command": command}, YamlStyle(fold_before=("$[[",))
    )
    assert "path\n  $[[--argument 00]] " not in file_text({"command": command})


def test_dates_stay_dates_and_what_yaml_has_no_plain_form_for_is_refused() -> None:
    value = {"a": date(2024, 1, 31), "b": datetime(2024, 1, 31, 10, 30), "c": "2024-01-31"}
    assert yaml.safe_load(file_text(value)) == value
    with pytest.raises(Refused, match="bytes"):
        file_text({"a": b"x"})


@settings(max_examples=100, deadline=None)
@given(value=data, quote=st.booleans())
def test_flow_text_reads_back_in_yaml_1_1_and_1_2(value: Any, quote: bool) -> None:
    written = f"k: {Writer(YamlStyle()).flow(value, quote=quote)}\n"
    assert yaml.safe_load(written) == {"k": value}
    assert yaml.load(written, Loader=CoreLoader) == {"k": value}


@settings(max_examples=100, deadline=None)
@given(st.lists(data, min_size=1, max_size=3), st.sampled_from([0, 2, 4]), st.sampled_from([0, 2]))
def test_lists_read_back_with_dashes_flush_or_indented(
    value: list[Any], indent: int, list_indent: int
) -> None:
    writer = Writer(YamlStyle(), indent or 2, list_indent)
    lines = "\n".join(writer.lines({"k": value}, indent))
    assert yaml.safe_load(lines) == {"k": value}


@given(text)
def test_quoted_text_is_one_line_of_double_quotes(value: str) -> None:
    assert yaml.safe_load(quoted(value)) == value
    assert "\n" not in quoted(value)


def test_a_style_quotes_by_key_and_allows_more_plain_text() -> None:
    writer = Writer(YamlStyle(quoted=str.isupper, plain=re.compile(r"\$\{\{x\}\}")))
    assert writer.lines({"NAME": "a", "name": "a", "COUNT": 1, "b": "${{x}}"}, 0) == [
        'NAME: "a"',
        "name: a",
        "COUNT: 1",
        "b: ${{x}}",
    ]
    assert writer.flow({"b": "${{x}}", "NAME": "a"}) == '{b: "${{x}}", NAME: "a"}'
