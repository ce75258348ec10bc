"""`completion`: a script for bash, zsh or fish, made from the parsers themselves."""

from __future__ import annotations

import argparse

from arc_toolkit.cli.main import COMMANDS, command_parser
from arc_toolkit.console import Console
from arc_toolkit.errors import OK


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=["bash", "zsh", "fish"])
    parser.epilog = "example:\n  source <(arc-toolkit completion bash)"


def run(args: argparse.Namespace, console: Console) -> int:
    words = {name: _words(command_parser(name)) for name in COMMANDS}
    console.out({"bash": _bash, "zsh": _zsh, "fish": _fish}[args.shell](words), end="")
    return OK


def _words(parser: argparse.ArgumentParser) -> list[str]:
    found: list[str] = []
    for action in parser._actions:
        found += [option for option in action.option_strings if option.startswith("--")]
        if isinstance(action, argparse._SubParsersAction):
            found += list(action.choices)
    return found


def _bash(words: dict[str, list[str]]) -> str:
    cases = "\n".join(f"    {name}) words='{' '.join(options)}' ;;" for name, options in words.items())
    return f"""\
_arc_toolkit() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" words=''
  case "${{COMP_WORDS[1]}}" in
{cases}
  esac
  if [ "$COMP_CWORD" -eq 1 ]; then words='{" ".join(words)}'; fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  if [ -z "${{COMPREPLY[*]}}" ]; then COMPREPLY=($(compgen -f -- "$current")); fi
}}
complete -o filenames -F _arc_toolkit arc-toolkit
"""


def _zsh(words: dict[str, list[str]]) -> str:
    return "autoload -U +X bashcompinit && bashcompinit\n" + _bash(words)


def _fish(words: dict[str, list[str]]) -> str:
    lines = [
        f"complete -c arc-toolkit -n __fish_use_subcommand -a {name} -d '{COMMANDS[name][1]}'" for name in words
    ]
    for name, options in words.items():
        lines += [
            f"complete -c arc-toolkit -n '__fish_seen_subcommand_from {name}' -l {option.removeprefix('--')}"
            if option.startswith("--")
            else f"complete -c arc-toolkit -n '__fish_seen_subcommand_from {name}' -a {option}"
            for option in options
        ]
    return "\n".join(lines) + "\n"
