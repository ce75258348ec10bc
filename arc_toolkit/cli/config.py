"""Defaults for options from `arc-toolkit.toml`, or from `[tool.arc-toolkit]` in pyproject.toml.

    [patch]                           # a command; its keys are the long options without the dashes
    instance-type = "32cpu128g"
    [patch.folders."training/gpu"]    # for files below this folder, relative to this file
    instance-type = "gpu-half"
    skip = ["unused-component"]       # in `check` and `patch`: rules
    [cluster.preflight]               # a subcommand
    workspace = "my-ws"

What is on the command line wins over the file, the closest folder wins over those above it.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from arc_toolkit.errors import ArcError

FILE = "arc-toolkit.toml"
PYPROJECT = "pyproject.toml"
FOLDERS = "folders"
FOLDER_COMMANDS = ("patch", "check")
# A file may not agree to a change in the name of the person at the keyboard.
_NEVER = {"help", "yes", "config", "show-config"}


Actions = dict[str, argparse.Action]  # by the name of the option, without dashes


@dataclass(slots=True)
class Config:
    """What a file says about one command."""

    path: str = ""
    # option whose default the file sets -> the section that has it
    sections: dict[str, str] = field(default_factory=dict)
    # absolute folder -> attribute -> value; for files below it
    folders: dict[str, dict[str, Any]] = field(default_factory=dict)


def find(start: str) -> str | None:
    """The configuration file of a folder: in it or above, up to the top of the repository."""
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


def apply(
    parser: argparse.ArgumentParser, command: str, words: Sequence[str], commands: Collection[str]
) -> Config:
    """Put the values of the file into the parser as defaults; `words` follow the command.

    `commands` are all that a file may have a section for.
    """
    path = _named_file(words) or find(os.getcwd())
    if path in (None, "none"):
        return Config()
    config = Config(str(path))
    table = _sections(config.path)
    for name in table:
        if name not in commands:
            raise ArcError(f"{path}: no command `{name}`{_suggestion(name, commands)}")
    parsers = list(_chain(parser, command, words))
    actions = _options(each for _, each in parsers)
    fixed = _set_by_words(parser, actions, words)
    section = ""
    for name, each in parsers:
        table, section = _table(table, name, config.path), f"{section}.{name}".lstrip(".")
        for option, value in table.items():
            if option == FOLDERS:
                folders = _table(table, FOLDERS, config.path)
                _read_folders(config, folders, section, actions, fixed)
            elif option not in _subcommands(each):
                default = _value(config, section, option, value, actions)
                if actions[option].dest not in fixed:
                    actions[option].default, actions[option].required = default, False
                    config.sections[option] = section
    return config


def show(
    config: Config, parser: argparse.ArgumentParser, command: str, words: Sequence[str]
) -> str:
    """The value of each option of the command and where it comes from: for `--show-config`."""
    from arc_toolkit.output.table import table

    parsers = [each for _, each in _chain(parser, command, words)]
    for action in (action for each in parsers for action in each._actions):
        action.required = False  # paths and the like may be missing
        if not action.option_strings:
            action.nargs = "*"
    names: dict[str, str] = {}  # attribute -> option
    actions = _options(parsers)
    for name, action in actions.items():
        if name not in _NEVER:
            names.setdefault(action.dest, name)
    args = parser.parse_args(list(words))
    fixed = _set_by_words(parser, actions, words)
    rows = []
    for attribute, name in names.items():
        section = config.sections.get(name)
        source = f"{config.path} [{section}]" if section else "default"
        value = _shown(getattr(args, attribute, None))
        rows.append((name, value, "command line" if attribute in fixed else source))
    for folder, values in config.folders.items():
        place = os.path.relpath(folder)
        for attribute, value in values.items():
            rows.append((f"{names[attribute]} (in {place})", _shown(value), config.path))
    return table(("OPTION", "VALUE", "FROM"), rows)


# --- reading ------------------------------------------------------------------------------------


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


def _read_folders(
    config: Config, folders: dict[str, Any], section: str, actions: Actions, fixed: set[str]
) -> None:
    if section not in FOLDER_COMMANDS:
        commands = " and ".join(FOLDER_COMMANDS)
        raise ArcError(f"{config.path}: [{section}.{FOLDERS}]: only {commands} have folders")
    base = os.path.dirname(os.path.abspath(config.path))
    for folder in folders:
        place = f"{section}.{FOLDERS}.{folder!r}"
        values = config.folders.setdefault(os.path.normpath(os.path.join(base, folder)), {})
        for option, value in _table(folders, folder, config.path).items():
            result = _value(config, place, option, value, actions)
            if actions[option].dest not in fixed:
                values[actions[option].dest] = result


def _value(config: Config, section: str, option: str, value: Any, actions: Actions) -> Any:
    """A value of the file as the command line would give it."""
    place = f"{config.path}: [{section}]"
    if option in _NEVER:
        raise ArcError(f"{place} `{option}` is only for the command line")
    if option not in actions:
        raise ArcError(f"{place} has no option `{option}`{_suggestion(option, actions)}")
    action, place = actions[option], f"{place} {option}"
    if action.nargs == 0:
        if not isinstance(value, bool):
            raise ArcError(f"{place}: use true or false, not {value!r}")
        return value
    if isinstance(action, argparse._AppendAction):
        values = value if isinstance(value, list) else [value]
        singles = [_single(action, each, place) for each in values]
        return [singles] if action.nargs else singles
    return _single(action, value, place)


def _single(action: argparse.Action, value: Any, place: str) -> Any:
    if isinstance(value, bool | dict | list):
        raise ArcError(f"{place}: use one value, not {value!r}")
    try:
        result = action.type(str(value)) if callable(action.type) else str(value)
    except argparse.ArgumentTypeError as error:
        raise ArcError(f"{place}: {error}") from None
    except ValueError:
        raise ArcError(f"{place}: {value!r} cannot be used here") from None
    if action.choices is not None and result not in action.choices:
        raise ArcError(f"{place}: {value!r} is not one of {', '.join(action.choices)}")
    return result


# --- the command line ---------------------------------------------------------------------------


def _options(parsers: Iterable[argparse.ArgumentParser]) -> Actions:
    return {
        option[2:]: action
        for parser in parsers
        for action in parser._actions
        for option in action.option_strings
        if option.startswith("--")
    }


def _chain(
    parser: argparse.ArgumentParser, command: str, words: Sequence[str]
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """The parser of the command, then that of the subcommand which the words name."""
    yield command, parser
    subcommands = _subcommands(parser)
    for number, word in enumerate(words):
        if word in subcommands:
            inner = subcommands[word]
            getattr(inner, "load", bool)()  # those of `cluster` are filled when they are needed
            yield from _chain(inner, word, words[number + 1 :])
            return


def _subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _named_file(words: Sequence[str]) -> str | None:
    """The file of --config."""
    for number, word in enumerate(words):
        if word == "--config":
            return next(iter(words[number + 1 :]), None)
        if word.startswith("--config="):
            return word.partition("=")[2]
    return None


def _set_by_words(
    parser: argparse.ArgumentParser, actions: Actions, words: Sequence[str]
) -> set[str]:
    """The attributes that the command line sets, and those that its options exclude."""
    flags = {word.partition("=")[0] for word in words}
    result = {action.dest for action in actions.values() if flags & {*action.option_strings}}
    for group in parser._mutually_exclusive_groups:
        rivals = {action.dest for action in group._group_actions}
        if result & rivals:
            result |= rivals
    return result


def _suggestion(name: str, names: Iterable[str]) -> str:
    from arc_toolkit.text import nearest

    near = nearest(name, names)
    return f": did you mean `{near}`?" if near else ""


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
