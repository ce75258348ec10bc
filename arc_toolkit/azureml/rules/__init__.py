"""The rules, one file each: a module here with a `RULE` is a rule, and no list needs an edit.

A rule's `check` gets the `Plan` of a file, looks at its targets, and reports through `Plan.report`. `language` says
which files it is run on; a target is the same thing in YAML and in code, so most rules need not know.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from arc_toolkit.azureml.plan import Plan
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.findings import Language, Rule, rules_in


@cache
def all_rules() -> dict[str, Rule]:
    """Every rule of this package by its id, in order of name."""
    return rules_in(__path__, __name__)


def run_rules(plan: Plan, text: str) -> None:
    """Every rule of the language whose words are in the text."""
    checks, needed = _chosen(plan.language, plan.settings.only, plan.settings.skip, plan.is_second)
    words = {word for word in needed if word in text}
    for check, needs in checks:
        if not needs or not words.isdisjoint(needs):
            check(plan)


@cache
def _chosen(
    language: Language, only: frozenset[str], skip: frozenset[str], fixes_only: bool
) -> tuple[list[tuple[Callable[[Plan], None], tuple[str, ...]]], set[str]]:
    """The checks of the rules that may run, each with the words that it needs, and all these words."""
    settings = Settings(only=only, skip=skip)
    checks = [
        (rule.check, rule.needs)
        for rule in all_rules().values()
        if rule.check
        and language in rule.language
        and settings.wants(rule.id)
        and (rule.fix != "none" or not fixes_only)
    ]
    return checks, {word for _, needs in checks for word in needs}
