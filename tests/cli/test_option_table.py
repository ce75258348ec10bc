"""Options as tables: what each word of a row means."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from arc_toolkit.cli.option_table import Parser, add_options, percentage, seconds
from arc_toolkit.errors import ArcError

TABLE = """
  paths PATH +              files
which:
  --sku NAME required       VM size
  -n, --nodes N [1]         number of nodes
  --save TIME [15s]         duration of a save
  --works PERCENT [90%]     share of 100% that works
  --retries N >=0           retries
  --format {text,json} [text]
      output format, which is long
      and continues
  --label=labels KEY=VALUE ...  label
  --sizes NAME ... +        several at once
  --explain                 explain
  --[no-]training           train
  --check DIR ?             compare
how:
  --write                   write
  --dry-run                 write nothing
"""


def parser() -> argparse.ArgumentParser:
    made = Parser(prog="tool")
    add_options(made, TABLE, exclusive=("--write", "--dry-run"), check={"const": "here"})
    return made


def parse(*words: str) -> dict[str, Any]:
    return vars(parser().parse_args(["a", "--sku", "x", *words]))


def test_defaults_are_read_like_values() -> None:
    assert parse() == {
        "paths": ["a"],
        "sku": "x",
        "nodes": 1,
        "save": 15.0,
        "works": 0.9,
        "retries": None,
        "format": "text",
        "labels": [],
        "sizes": [],
        "explain": False,
        "training": None,
        "check": None,
        "write": False,
        "dry_run": False,
    }


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        (["-n", "3"], "nodes", 3),
        (["--save", "2m"], "save", 120.0),
        (["--works", "5%"], "works", 0.05),
        (["--retries", "0"], "retries", 0),
        (["--label", "a=b", "--label", "c=d"], "labels", ["a=b", "c=d"]),
        (["--sizes", "a", "b", "--sizes", "c"], "sizes", [["a", "b"], ["c"]]),
        (["--no-training"], "training", False),
        (["--check"], "check", "here"),
        (["--check", "there"], "check", "there"),
    ],
)
def test_a_row_says_how_its_value_is_read(words: list[str], name: str, value: object) -> None:
    assert parse(*words)[name] == value


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--retries", "-1"], "--retries: must be at least 0, not -1"),
        (["--retries", "many"], "--retries: 'many' is not a whole number"),
        (["--save", "soon"], "--save: 'soon' is not a time"),
        (["--works", "101%"], "--works: 101%: use a share from 0% to 100%"),
        (["--format", "xml"], "--format: invalid choice: 'xml'"),
        (["--write", "--dry-run"], "--dry-run: not allowed with argument --write"),
    ],
)
def test_a_value_that_cannot_be_read_is_one_sentence(words: list[str], message: str) -> None:
    with pytest.raises(ArcError) as error:
        parse(*words)
    assert str(error.value).startswith(message)
    assert str(error.value).endswith("(see `tool --help`)")


def test_the_help_has_the_words_of_the_table_and_the_defaults() -> None:
    text = " ".join(parser().format_help().split())
    assert "which: --sku NAME VM size" in text
    assert "--nodes N number of nodes (default: 1)" in text
    assert "share of 100% that works (default: 90%)" in text
    assert "output format, which is long and continues (default: text)" in text
    assert "--explain explain --training" in text


def test_a_row_without_two_spaces_before_its_help_is_refused() -> None:
    with pytest.raises(ValueError, match="--size: what is `VM`"):
        add_options(Parser(prog="tool"), "\n  --size NAME VM size")


def test_readers_of_single_values() -> None:
    assert (seconds("1.5h"), percentage("0%"), percentage("100%")) == (5400.0, 0.0, 1.0)
