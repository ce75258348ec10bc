"""Options as tables: one line per option, in the words that `--help` prints.

    the job:                           a group of options
      --sku NAME required       VM size
      --nodes N [1]             number of nodes: an integer, 1 by default
      --save TIME [15s]         a time, read as seconds
      --retries N >=0           an integer that is checked
      --format {table,json} [table]    one of these words
      --label KEY=VALUE ...     a label; may be repeated, and is a list
      --step=steps NAME ...     a list, kept as `args.steps`
      --explain                 a flag
      --[no-]training           a flag that can also be turned off
      paths PATH +              an argument, with the `nargs` of argparse: + * ?
          a deeper line continues the help

At least two spaces end the declaration. The default is added to the help if the help names none.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Collection
from typing import Any, NoReturn

from arc_toolkit.durations import parse_seconds
from arc_toolkit.errors import ArcError
from arc_toolkit.text import nearest

# Rows that several commands have.
OUTPUT = "  -o, --output FILE [-]    write to this file (default: standard output)\n"
CLUSTER = """
which cluster:
  --context NAME        context of the kubeconfig (default: the current one)
  --kubeconfig FILE     default: $KUBECONFIG, ~/.kube/config, or the pod's account
  --as=as_user USER     act with the rights of this user
"""
WRITE_OR_CHECK = """
how:
  --write               write the files (default: show a diff)
  --check               write nothing, and exit 1 if something would change
"""


class Parser(argparse.ArgumentParser):
    """A parser that makes one sentence of an error; `--help` has the usage block."""

    def __init__(self, **options: Any) -> None:
        shape = {"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False}
        super().__init__(**{**shape, **options})

    def error(self, message: str) -> NoReturn:
        text = message.removeprefix("argument ") + self._suggestion(message)
        raise ArcError(f"{text} (see `{self.prog} --help`)")

    def _suggestion(self, message: str) -> str:
        """`: did you mean --share?`, where argparse met an option or a choice that is close to one."""
        if match := re.search(r"unrecognized arguments: .*?(--[\w-]+)", message):
            word, names = match[1], option_names(self)
        elif match := re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message):
            word, names = match[1], [name.strip("' ") for name in match[2].split(",")]
        else:
            return ""
        near = nearest(word, names)
        return f": did you mean {near}?" if near else ""


def option_names(parser: argparse.ArgumentParser) -> list[str]:
    """The long options of a parser and of its subcommands."""
    names = [name for name in parser._option_string_actions if name.startswith("--")]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            names += [name for inner in action.choices.values() for name in option_names(inner)]
    return names


def seconds(text: str) -> float:
    """`25s` as 25.0."""
    try:
        return parse_seconds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def at_least(least: int) -> Callable[[str], int]:
    """A reader of integers from `least` on."""

    def integer(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
        if number < least:
            raise argparse.ArgumentTypeError(f"must be at least {least}, not {number}")
        return number

    return integer


def percentage(text: str) -> float:
    """`90%` as 0.9."""
    try:
        value = float(text.removesuffix("%")) / 100
    except ValueError:
        value = -1.0
    if not text.endswith("%") or not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text}: use a share from 0% to 100%")
    return value


# The reader of a value by its name in the table; any other value is a text.
TYPES: dict[str, Callable[[str], Any]] = {
    "N": int,
    "GIB": int,
    "MINUTES": int,
    "SECONDS": int,
    "NUMBER": float,
    "TIME": seconds,
    "PERCENT": percentage,
}


def add_options(
    parser: argparse.ArgumentParser,
    table: str,
    exclusive: Collection[str] = (),
    *,
    is_common: bool = False,
    **more: dict[str, Any],
) -> None:
    """Add the rows of a table; no two of the options `exclusive` go together.

    Options that a command and its subcommand have (`is_common`) get no default: that of the
    subcommand would hide what was given before it.
    `more` has further arguments of `add_argument` by the name of an option: `jobs={"type": f}`.
    """
    target: Any = parser
    rivals: Any = None
    for line in re.sub(r"\n {4,}", "  ", table).splitlines():
        if line.startswith("  "):
            declaration, _, text = line.strip().partition("  ")
            flags, options = read_declaration(declaration.split())
            options["help"] = _help(text.strip(), options.get("default"))
            if is_common:
                options["default"] = argparse.SUPPRESS
            options |= more.get(flags[-1].lstrip("-").replace("-", "_"), {})
            if flags[-1] in exclusive:
                rivals = rivals or target.add_mutually_exclusive_group()
            (rivals if flags[-1] in exclusive else target).add_argument(*flags, **options)
        elif line:
            target = parser.add_argument_group(line.removesuffix(":"))


def read_declaration(words: list[str]) -> tuple[list[str], dict[str, Any]]:
    """The flags and the arguments of `add_argument`.

    `["--nodes", "N", "[1]"]` gives `["--nodes"], {"metavar": "N", "type": int, "default": "1"}`.
    """
    flags = [words.pop(0)]
    while words and words[0].startswith("-"):
        flags = [flags[0].rstrip(","), words.pop(0)]
    options: dict[str, Any] = {}
    flags[-1], _, attribute = flags[-1].partition("=")
    if attribute:
        options["dest"] = attribute
    if flags[0].startswith("--[no-]"):
        return [flags[0].replace("[no-]", "")], {"action": argparse.BooleanOptionalAction}
    if not words:
        return flags, {"action": "store_true"}
    value = words.pop(0)
    if value.startswith("{"):
        options["choices"] = value[1:-1].split(",")
    else:
        options["metavar"] = value
    if value in TYPES:
        options["type"] = TYPES[value]
    for word in words:
        if word == "...":
            options |= {"action": "append", "default": []}
        elif word == "required":
            options["required"] = True
        elif word.startswith("["):
            options["default"] = word[1:-1]
        elif word.startswith(">="):
            options["type"] = at_least(int(word[2:]))
        elif word in ("+", "*", "?"):
            options["nargs"] = word
        else:
            raise ValueError(f"{flags[-1]}: what is `{word}`? two spaces end a declaration")
    return flags, options


def _help(text: str, default: object) -> str:
    text = text.replace("%", "%%")
    if not default or "default" in text:
        return text
    return f"{text} (default: %(default)s)".strip()
