"""The rules for AzureML files: every `Rule` of a module here, without a list to edit.

A rule is a function that gets the `Plan` of a file, looks at its targets, and reports through
`Plan.report`. A target is the same in YAML and in code, so few rules depend on the language;
`language` says on which files a rule runs. The text of a rule is its page in `docs/rules/`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from arc_toolkit.azureml.plan import Plan
from arc_toolkit.azureml.settings import SETTING_RULES, Settings
from arc_toolkit.findings import Language, Rule, rules_in
from arc_toolkit.ignore_rules import IGNORE_RULES, ignore_problems


@cache
def all_rules() -> dict[str, Rule]:
    """The rules for AzureML files by id, in order of id."""
    rules = rules_in(__path__, __name__) | IGNORE_RULES
    return dict(sorted(rules.items()))


def run_rules(plan: Plan, text: str) -> None:
    """Run the rules of the language whose words are in the text."""
    checks, words = _chosen_checks(
        plan.language, plan.settings.only, plan.settings.skip, plan.is_second
    )
    present = {word for word in words if word in text}
    for check, needs in checks:
        if not needs or not present.isdisjoint(needs):
            check(plan)
    if not plan.is_second:
        _check_ignores(plan)


def _check_ignores(plan: Plan) -> None:
    names = {*SETTING_RULES, *all_rules()}
    for ignores, place in plan.ignores():
        for rule, line, message, hint in ignore_problems(ignores, names):
            plan.report(rule, message, place(line), reason=hint)


@cache
def _chosen_checks(
    language: Language, only: frozenset[str], skip: frozenset[str], fixes_only: bool
) -> tuple[list[tuple[Callable[[Plan], None], tuple[str, ...]]], set[str]]:
    """The checks of the rules that may run, each with the words that it needs, and all words."""
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
