"""What every file goes through, whatever its language: the settings that were asked for, then the rules."""

from __future__ import annotations

from functools import cache

from arc_toolkit.azureml.expose import expose_parameters
from arc_toolkit.azureml.place import place_compute, place_resources
from arc_toolkit.azureml.place_threads import place_threads
from arc_toolkit.azureml.plan import Plan
from arc_toolkit.azureml.rules import all_rules
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.findings import Language, Rule


def place_settings(plan: Plan) -> None:
    """Everything that was asked for."""
    if plan.settings.places_anything:
        exposed = expose_parameters(plan) if plan.settings.expose_parameters else ()
        place_resources(plan, exposed)
        place_compute(plan)
        place_threads(plan)


def run_rules(plan: Plan, text: str) -> None:
    """Every rule of the language whose words are in the text."""
    rules, needed = _chosen(plan.language, plan.settings.only, plan.settings.skip, plan.is_second)
    words = {word for word in needed if word in text}
    for rule in rules:
        if rule.check is not None and (not rule.needs or not words.isdisjoint(rule.needs)):
            rule.check(plan)


@cache
def _chosen(
    language: Language, only: frozenset[str], skip: frozenset[str], fixes_only: bool
) -> tuple[tuple[Rule, ...], frozenset[str]]:
    """The rules that may run, and the words that some of them look for."""
    settings = Settings(only=only, skip=skip)
    rules = tuple(
        rule
        for rule in all_rules().values()
        if language in rule.language and settings.wants(rule.id) and (rule.fix != "none" or not fixes_only)
    )
    return rules, frozenset(word for rule in rules for word in rule.needs)
