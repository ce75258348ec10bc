"""Plain English in everything people read: help, rules, messages, docs, and the names and comments of the code."""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import tokenize
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from arc_toolkit.cli.main import COMMANDS, command_parser, overview
from tests.support import ROOT, Result

# What not to write -> what to write instead.
GLOSSARY = {
    r"mend(s|ed|ing|able)?": "fix, fixes, fixed",
    r"stands? (in|at|twice|beside|there|on|below|above|before)": "is in, is at, duplicate",
    r"where (a|an|the|no) [\w-]+ (is|are|was) (not )?given": "if no ... is given",
    r"(?<!there )(?<!there, )(is|are|was|were) no (?!longer\b|more\b|other\b)": "is not a",
    r"(?<!there )(is|are) (?-i:none)\b(?! of)": "is not one",
    r"(one|an?) (file|type|row|line|object|key|argument|outcome|entry|column|page|table|test) an?"
    r" (type|file|node|job|size|line|rule|pod|step|pool|cluster|attempt|worker|row|key|metric)": "one ... per ...",
    r"give `?--": "use --",
    r"give an? (whole|number|percentage|path|folder|file|value)": "use a, set a",
    r"(is|are) there already": "already exists, is already set",
    r"(is|are) read by nothing": "has no effect",
    r"to life": "takes effect",
    r"nothing else says it": "if ... is not known otherwise",
    r"(file|folder|node)s? lies? in": "is in, the folder of the file",
    r"(is|are|was|were|be) told": "is reported",
    r"(says?|said) nothing of": "has no data about",
    r"(is|are|was|were|be) left as (it|they) (is|are|was|were)": "is not changed",
    r"(what|that) (already )?sits? there": "pods already running on the nodes",
    r"can be had": "available",
}
PHRASES = re.compile("|".join(rf"(?:\b(?:{phrase}))" for phrase in GLOSSARY), re.IGNORECASE)


def phrases(text: str) -> list[str]:
    """The phrases of the glossary in a text, each with its surroundings."""
    flat = " ".join(text.replace("_", " ").split())
    return [flat[max(0, match.start() - 30) : match.end() + 20] for match in PHRASES.finditer(flat)]


def texts(path: Path) -> Iterator[str]:
    """What a person reads in a file: all of Markdown; the strings, comments and names of Python."""
    source = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield source
        return
    tree = ast.parse(source)
    parts = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in node.values
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values
            )
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts
        ):
            yield node.value
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
    comments = (token for token in tokenize.generate_tokens(io.StringIO(source).readline))
    yield "\n".join(
        token.string.lstrip("#") for token in comments if token.type == tokenize.COMMENT
    )


@cache
def found() -> dict[str, list[str]]:
    """The phrases of every file of the project that people read."""
    docs = [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "arc_toolkit" / "data").glob("*.csv"),
    ]
    code = [
        *(ROOT / "arc_toolkit").rglob("*.py"),
        *(ROOT / "tests").rglob("*.py"),
        *(ROOT / "scripts").rglob("*.py"),
    ]
    every = {}
    for path in sorted({*docs, *code} - {Path(__file__)}):
        here = [phrase for text in texts(path) for phrase in phrases(text)]
        if here:
            every[str(path.relative_to(ROOT))] = here
    return every


def helps(parser: argparse.ArgumentParser) -> Iterator[str]:
    """The help of a command and of its subcommands."""
    yield parser.format_help()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from helps(inner)


def test_the_code_and_the_docs_use_plain_words() -> None:
    assert found() == {}


@pytest.mark.parametrize("command", COMMANDS)
def test_help_uses_plain_words(command: str) -> None:
    pages = list(helps(command_parser(command)))
    assert all(page.startswith("usage: ") for page in pages)
    assert [phrase for page in [*pages, overview()] for phrase in phrases(page)] == []


def test_rules_use_plain_words(arc: Callable[..., Result]) -> None:
    rules = json.loads(arc("rules", "--format", "json").out)["rules"]
    assert len(rules) > 15
    assert [
        phrase for rule in rules for text in rule.values() for phrase in phrases(str(text))
    ] == []


@pytest.mark.parametrize(
    "text",
    [
        "`patch` mends it",
        "a key that stands twice",
        "what stands in\nthe file",
        "where a node is not given",
        "x is no job",
        "there were errors, and these are no errors",
        "one file a type",
        "give --write",
        "give `--sku`",
        "limits: give a whole number",
        "the key is there already",
        "the variable is read by nothing",
        "brings a setting to life",
        "if nothing else says it",
        "the folder that the file lies in",
        "it is told",
        "this says nothing of why",
        "the line is left as it is",
        "what already sits there",
        "a machine that can be had",
        "test_a_finding_is_mended",
    ],
)
def test_a_phrase_of_the_glossary_is_found(text: str) -> None:
    assert phrases(text)


@pytest.mark.parametrize(
    "text",
    [
        "`patch` fixes it",
        "there is no job",
        "there are no nodes",
        "it is no longer there",
        "one file per type",
        "use --write",
        "recommend",
        "amendment",
        "stands for a value",
        "is nothing",
        "is not a job",
    ],
)
def test_plain_words_are_not_found(text: str) -> None:
    assert phrases(text) == []
