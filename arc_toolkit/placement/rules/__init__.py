"""The rules of `check` for Kubernetes manifests: every `Rule` of a module here, without a list to
edit.

A rule is a function that gets the `PlacePlan` of a file, looks at its workloads, and reports
through `PlacePlan.report`. The text of a rule is its page in `docs/rules/`.
"""

from __future__ import annotations

from functools import cache

from arc_toolkit.findings import Rule, rules_in
from arc_toolkit.placement.place_plan import PlacePlan


@cache
def manifest_rules() -> dict[str, Rule]:
    """Every rule of this package by its id, in order of name."""
    return rules_in(__path__, __name__)


def run_manifest_rules(plan: PlacePlan) -> None:
    """Every rule that may run."""
    for rule in manifest_rules().values():
        if rule.check is not None and plan.settings.wants(rule.id):
            rule.check(plan)
