"""The rules for AzureML files: every `Rule` of a module here, without a list to edit.

A rule is a function that gets the `Plan` of a file (`rule`), or the plan and one of its targets
(`target_rule`), and reports through `Plan.report`. A target is the same in YAML and in code, so few
rules depend on the language; `language` says on which files a rule runs. The text of a rule is its
page in `docs/rules/`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any

from arc_toolkit.azureml.documents import Target
from arc_toolkit.azureml.plan import Plan
from arc_toolkit.azureml.settings import SETTING_NAMES, Settings
from arc_toolkit.findings import Language, Rule, Severity, rule, rules_in
from arc_toolkit.ignore_rules import IGNORE_RULES, ignore_problems


def target_rule(
    severity: Severity, **options: Any
) -> Callable[[Callable[[Plan, Target], None]], Rule]:
    """As `rule`, for a check of one target: it runs on every target of a file."""

    def make_rule(check_target: Callable[[Plan, Target], None]) -> Rule:
        @wraps(check_target)
        def check(plan: Plan) -> None:
            for target in plan.known_targets():
                check_target(plan, target)

        return rule(severity, **options)(check)

    return make_rule


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
    names = {*SETTING_NAMES, *all_rules()}
    for ignores, place in plan.ignores():
        if not (ignores.names or ignores.without_reason):
            continue
        for ignore_rule, line, message, hint in ignore_problems(ignores, names):
            plan.report(ignore_rule, message, place(line), reason=hint)


@cache
def _chosen_checks(
    language: Language, only: frozenset[str], skip: frozenset[str], fixes_only: bool
) -> tuple[list[tuple[Callable[[Plan], None], tuple[str, ...]]], set[str]]:
    """The checks of the rules that may run, each with the words that it needs, and all words."""
    settings = Settings(only=only, skip=skip)
    checks = [
        (item.check, item.needs)
        for item in all_rules().values()
        if item.check
        and language in item.language
        and settings.wants(item.id)
        and (item.fix != "none" or not fixes_only)
    ]
    return checks, {word for _, needs in checks for word in needs}
