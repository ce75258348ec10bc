"""Defaults for options from `arc-toolkit.toml`, or `[tool.arc-toolkit]` in pyproject.toml; docs/configuration.md.

    [patch]                           # a command; its keys are the long options without the dashes
    instance-type = "32cpu128g"
    [patch.folders."training/gpu"]    # for files below this folder, which is relative to the configuration file
    instance-type = "gpu-half"
    skip = ["unused-component"]       # in `check` and `patch`: rules
    [cluster.preflight]               # a subcommand
    workspace = "my-ws"

What is on the command line wins over the file, the closest folder wins over those above it.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from arc_toolkit.errors import ArcError

FILE = "arc-toolkit.toml"
PYPROJECT = "pyproject.toml"
FOLDERS = "folders"
FOLDER_COMMANDS = ("patch", "check")
# A file may not agree to a change in the name of the person at the keyboard.
_NEVER = {"help", "yes", "config", "show-config"}


@dataclass(slots=True)
class Config:
    """The sections of a file that concern one command, and where each value comes from."""

    path: str = ""
    # option -> (value, the section that has it)
    values: dict[str, tuple[Any, str]] = field(default_factory=dict)
    # absolute folder -> dest of an option -> value; for files below it
    folders: dict[str, dict[str, Any]] = field(default_factory=dict)


def find(start: str) -> str | None:
    """The configuration file of a folder: there or in a folder above, up to the top of the repository."""
    folder = os.path.abspath(start)
    while True:
        for name in (FILE, PYPROJECT):
            path = os.path.join(folder, name)
            if os.path.isfile(path) and (name == FILE or _sections(path)):
                return os.path.relpath(path)
        above = os.path.dirname(folder)
        if above == folder or os.path.exists(os.path.join(folder, ".git")):
            return None
        folder = above


def apply(parser: argparse.ArgumentParser, command: str, words: Sequence[str]) -> Config:
    """Put the values of the file into the parser as defaults; `words` are the command line after the command."""
    path = _option(words, "--config") or find(os.getcwd())
    if path in (None, "none"):
        return Config()
    config = Config(str(path))
    sections = _sections(config.path)
    _check_sections(sections, config.path)
    parsers = list(_chain(parser, command, words))
    actions = {
        option.removeprefix("--"): action
        for _, each in parsers
        for action in each._actions
        for option in action.option_strings
        if option.startswith("--")
    }
    table, section = sections, ""
    for name, each in parsers:
        table, section = _table(table, name, config.path), f"{section}.{name}".lstrip(".")
        _read(config, table, section, actions, _subcommands(each))
    given = _given(parser, actions, words)
    for name, (value, section) in list(config.values.items()):
        action = actions[name]
        if action.dest in given:
            del config.values[name]
            continue
        action.default = _value(action, value, f"{config.path}: [{section}] {name}")
        action.required = False
    config.folders = {
        folder: {dest: value for dest, value in values.items() if dest not in given}
        for folder, values in config.folders.items()
    }
    return config


def show(
    config: Config, parser: argparse.ArgumentParser, command: str, words: Sequence[str]
) -> str:
    """What holds for this command, and where each value comes from: for `--show-config`."""
    from arc_toolkit.output.table import table

    # Paths and other arguments that the command needs may be missing: only the options are of interest.
    actions: dict[str, argparse.Action] = {}
    for _, each in _chain(parser, command, words):
        for action in each._actions:
            action.required = False
            if not action.option_strings:
                action.nargs = "*"
            long = [option[2:] for option in action.option_strings if option.startswith("--")]
            actions |= {name: action for name in long[:1] if name not in _NEVER}
    args = parser.parse_args(list(words))
    given = _given(parser, actions, words)
    rows = [
        (
            name,
            _shown(getattr(args, action.dest, None)),
            "command line"
            if action.dest in given
            else f"{config.path} [{config.values[name][1]}]"
            if name in config.values
            else "default",
        )
        for name, action in actions.items()
    ]
    names = {action.dest: name for name, action in actions.items()}
    for folder, values in config.folders.items():
        place = os.path.relpath(folder)
        rows += [
            (f"{names[dest]} (in {place})", _shown(value), config.path)
            for dest, value in values.items()
        ]
    return table(("OPTION", "VALUE", "FROM"), rows)


# --- reading ---------------------------------------------------------------------------------------------------


def _sections(path: str) -> dict[str, Any]:
    """The tables of a file; of pyproject.toml those below [tool.arc-toolkit]."""
    from arc_toolkit.file_io import read_bytes

    data = read_bytes(path)
    pyproject = os.path.basename(path) == PYPROJECT
    if pyproject and b"arc-toolkit" not in data:
        return {}
    import tomllib

    try:
        tables = tomllib.loads(data.decode("utf-8"))
    except ValueError as error:
        if pyproject and b"[tool.arc-toolkit" not in data:
            return {}
        raise ArcError(f"{path} is not valid TOML: {error}") from None
    return _table(_table(tables, "tool", path), "arc-toolkit", path) if pyproject else tables


def _table(tables: dict[str, Any], name: str, path: str) -> dict[str, Any]:
    value = tables.get(name, {})
    if not isinstance(value, dict):
        raise ArcError(f"{path}: `{name}` must be a table, not {type(value).__name__}")
    return value


def _check_sections(sections: dict[str, Any], path: str) -> None:
    from arc_toolkit.cli.main import COMMANDS

    for name in sections:
        if name not in COMMANDS:
            raise ArcError(f"{path}: no command `{name}`{_near(name, list(COMMANDS))}")


def _read(
    config: Config,
    table: dict[str, Any],
    section: str,
    actions: dict[str, argparse.Action],
    subcommands: Container[str],
) -> None:
    """Take the options of one section; those of its subcommands are sections of their own."""
    for name, value in table.items():
        if name == FOLDERS:
            _read_folders(config, _table(table, FOLDERS, config.path), section, actions)
        elif name not in subcommands:
            _check_option(config, name, section, actions)
            config.values[name] = (value, section)


def _read_folders(
    config: Config, folders: dict[str, Any], section: str, actions: dict[str, argparse.Action]
) -> None:
    if section not in FOLDER_COMMANDS:
        raise ArcError(
            f"{config.path}: [{section}.{FOLDERS}]: only {' and '.join(FOLDER_COMMANDS)} have folders"
        )
    base = os.path.dirname(os.path.abspath(config.path))
    for folder in folders:
        values = _table(folders, folder, config.path)
        place = f"{section}.{FOLDERS}.{folder!r}"
        known = config.folders.setdefault(os.path.normpath(os.path.join(base, folder)), {})
        for name, value in values.items():
            _check_option(config, name, place, actions)
            known[actions[name].dest] = _value(
                actions[name], value, f"{config.path}: [{place}] {name}"
            )


def _check_option(
    config: Config, name: str, section: str, actions: dict[str, argparse.Action]
) -> None:
    if name in _NEVER:
        raise ArcError(f"{config.path}: [{section}] `{name}` is only for the command line")
    if name not in actions:
        raise ArcError(
            f"{config.path}: [{section}] has no option `{name}`{_near(name, list(actions))}"
        )


def _value(action: argparse.Action, value: Any, place: str) -> Any:
    """The value as the command line would give it."""
    if action.nargs == 0:
        if not isinstance(value, bool):
            raise ArcError(f"{place}: use true or false, not {value!r}")
        return value if getattr(action, "const", True) is not False else not value
    if isinstance(action, argparse._AppendAction):
        values = value if isinstance(value, list) else [value]
        return [_single(action, each, place) for each in values]
    return _single(action, value, place)


def _single(action: argparse.Action, value: Any, place: str) -> Any:
    if isinstance(value, bool | dict | list) or value is None:
        raise ArcError(f"{place}: use one value, not {value!r}")
    text = str(value)
    try:
        result = action.type(text) if callable(action.type) else text
    except (ValueError, TypeError, argparse.ArgumentTypeError):
        raise ArcError(f"{place}: {value!r} cannot be used here") from None
    if action.choices is not None and result not in action.choices:
        raise ArcError(f"{place}: {value!r} is not one of {', '.join(map(str, action.choices))}")
    return result


# --- the command line ------------------------------------------------------------------------------------------


def _chain(
    parser: argparse.ArgumentParser, command: str, words: Sequence[str]
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """The parser of the command, then that of the subcommand which the words name."""
    yield command, parser
    subcommands = _subcommands(parser)
    for number, word in enumerate(words):
        if word in subcommands:
            inner = subcommands[word]
            getattr(
                inner, "load", lambda: None
            )()  # those of `cluster` are filled when they are needed
            yield from _chain(inner, word, words[number + 1 :])
            return


def _subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _option(words: Sequence[str], option: str) -> str | None:
    for number, word in enumerate(words):
        if word == option:
            return words[number + 1] if number + 1 < len(words) else None
        if word.startswith(f"{option}="):
            return word.partition("=")[2]
    return None


def _given(
    parser: argparse.ArgumentParser, actions: dict[str, argparse.Action], words: Sequence[str]
) -> set[str]:
    """Where the command line has something to say: its options, and those that exclude each other with them."""
    written = {word.partition("=")[0] for word in words}
    given = {
        action.dest for action in actions.values() if written.intersection(action.option_strings)
    }
    for group in parser._mutually_exclusive_groups:
        rivals = {action.dest for action in group._group_actions}
        if given & rivals:
            given |= rivals
    return given


def _near(name: str, names: list[str]) -> str:
    import difflib

    near = difflib.get_close_matches(name, names, n=1)
    return f": did you mean `{near[0]}`?" if near else ""


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
