"""`completion`: a script for bash, zsh or fish, made from the parsers themselves."""

from __future__ import annotations

import argparse

from arc_toolkit.cli.console import Console
from arc_toolkit.cli.main import COMMANDS, command_parser
from arc_toolkit.errors import OK


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=["bash", "zsh", "fish"])
    parser.epilog = "example:\n  source <(arc-toolkit completion bash)"


def run(args: argparse.Namespace, console: Console) -> int:
    actions = {name: _actions(command_parser(name)) for name in COMMANDS}
    tree = {name: _words(rows) for name, rows in actions.items()}
    values = {
        f"{name} {option}": [str(choice) for choice in action.choices]
        for name, rows in actions.items()
        for action in rows
        if action.choices and not isinstance(action, argparse._SubParsersAction)
        for option in action.option_strings
    }
    text = _fish(tree) if args.shell == "fish" else _bash(tree, values)
    prefix = "autoload -U +X bashcompinit && bashcompinit\n" if args.shell == "zsh" else ""
    console.out(prefix + text, end="")
    return OK


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """What the parser and those of its subcommands take."""
    actions = list(parser._actions)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                getattr(inner, "load", bool)()  # those of `cluster` are filled when needed
                actions += _actions(inner)
    return actions


def _words(actions: list[argparse.Action]) -> list[str]:
    words: list[str] = []
    for action in actions:
        words += [option for option in action.option_strings if option.startswith("--")]
        if isinstance(action, argparse._SubParsersAction):
            words += action.choices
    return list(dict.fromkeys(words))


def _bash(words: dict[str, list[str]], values: dict[str, list[str]]) -> str:
    cases, choices = (
        "\n".join(f"    '{key}') words='{' '.join(row)}' ;;" for key, row in rows.items())
        for rows in (words, values)
    )
    return f"""\
_arc_toolkit() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" words=''
  case "${{COMP_WORDS[1]}}" in
{cases}
  esac
  case "${{COMP_WORDS[1]}} ${{COMP_WORDS[COMP_CWORD-1]}}" in
{choices}
  esac
  if [ "$COMP_CWORD" -eq 1 ]; then words='{" ".join(words)} --help --version'; fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  if [ -z "${{COMPREPLY[*]}}" ]; then COMPREPLY=($(compgen -f -- "$current")); fi
}}
complete -o filenames -F _arc_toolkit arc-toolkit
"""


def _fish(words: dict[str, list[str]]) -> str:
    lines = [f"__fish_use_subcommand -a {name} -d '{COMMANDS[name][1]}'" for name in words]
    for name, options in words.items():
        for option in options:
            kind = f"-l {option[2:]}" if option.startswith("--") else f"-a {option}"
            lines.append(f"'__fish_seen_subcommand_from {name}' {kind}")
    return "".join(f"complete -c arc-toolkit -n {line}\n" for line in lines)
