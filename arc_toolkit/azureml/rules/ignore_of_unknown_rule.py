"""An inline ignore that names a rule which does not exist."""

from __future__ import annotations

from dataclasses import replace

from arc_toolkit.azureml.plan import Plan
from arc_toolkit.azureml.rules import all_rules
from arc_toolkit.azureml.settings import SETTING_RULES
from arc_toolkit.ignore_rules import OF_UNKNOWN_RULE, of_unknown_rule


def _check(plan: Plan) -> None:
    known = {*SETTING_RULES, *all_rules()}
    for ignores, place in plan.ignores():
        for line, message, hint in of_unknown_rule(ignores, known):
            plan.report(RULE, message, place(line), reason=hint)


RULE = replace(OF_UNKNOWN_RULE, check=_check)
