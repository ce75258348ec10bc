"""Rules as a table, as data and as their pages, for `rules` and SARIF.

The page of a rule is `docs/rules/ID.md`. The wheel contains the pages.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from arc_toolkit.findings import Rule
from arc_toolkit.output.table import table
from arc_toolkit.resources import shipped

# The shape of every page. The line about the severity repeats the facts of `Rule` for readers; a
# test compares them.
_PAGE = re.compile(
    r"""\# [^\n]+\n
    \n(?P<summary>[^\n]+)\.\n
    \nSeverity:[ ][^\n]+\n
    \n(?P<why>.+?)\n
    \nBefore:\n\n```\w+\n(?P<before>.+?)```\n
    \nAfter:\n\n```\w+\n(?P<after>.+?)```\n
    \nTo[ ]ignore[ ]it[^\n]+\n""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class RulePage:
    """The page of a rule: its whole text in Markdown, and the parts."""

    text: str
    summary: str
    why: str
    before: str
    after: str


def read_page(rule_id: str) -> RulePage:
    """The page of a rule. Pages are read when they are shown: no check needs one."""
    path = shipped("docs/rules") / f"{rule_id}.md"
    text = path.read_text(encoding="utf-8")
    parts = _PAGE.fullmatch(text)
    if parts is None:
        raise ValueError(f"{path} does not have the shape of a rule page")
    return RulePage(text, **parts.groupdict())


def listing(rules: Sequence[Rule]) -> str:
    """One line per rule."""
    return table(
        ["RULE", "SEVERITY", "FIX", "COMMAND", "IN", "WHAT"],
        [
            [
                rule.id,
                rule.severity,
                rule.fix,
                rule.command,
                rule.language,
                read_page(rule.id).summary,
            ]
            for rule in rules
        ],
    )


def rule_data(rule: Rule) -> dict[str, Any]:
    """A rule in JSON."""
    page = read_page(rule.id)
    facts = ("id", "severity", "fix", "command", "language")
    texts = ("summary", "why", "before", "after")
    return {name: getattr(rule, name) for name in facts} | {
        name: getattr(page, name) for name in texts
    }
