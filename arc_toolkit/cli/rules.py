"""`rules`: list the rules of `patch`, `check` and `validate`, or explain one."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from arc_toolkit.cli.console import Console
from arc_toolkit.errors import OK, ArcError

if TYPE_CHECKING:
    from arc_toolkit.findings import Rule

EPILOG = """\
examples:
  arc-toolkit rules
  arc-toolkit rules amlarc-restep
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument("rule", nargs="?", metavar="RULE", help="explain this one")
    parser.add_argument(
        "--format",
        choices=["text", "json", "markdown"],
        default="text",
        help="of the result (default: text)",
    )


def every_rule() -> dict[str, Rule]:
    """The rules of all commands, in order of name."""
    from arc_toolkit.azureml.rules import all_rules
    from arc_toolkit.placement.rules import manifest_rules
    from arc_toolkit.sizing.validation import RULES

    return dict(sorted({**all_rules(), **manifest_rules(), **RULES}.items()))


def run(args: argparse.Namespace, console: Console) -> int:
    from arc_toolkit.ignore_rules import name_hint
    from arc_toolkit.output.rule_pages import listing, read_page, rule_data

    rules = every_rule()
    if args.rule is not None and args.rule not in rules:
        raise ArcError(f"no rule `{args.rule}`: {name_hint(args.rule, rules)}")
    chosen = [rules[args.rule]] if args.rule else list(rules.values())
    if args.format == "json":
        from arc_toolkit.output.json_document import document

        console.out(document("rules", {"rules": [rule_data(rule) for rule in chosen]}))
    elif args.rule or args.format == "markdown":
        console.out("\n".join(read_page(rule.id).text for rule in chosen), end="")
    else:
        console.out(listing(chosen))
    return OK
