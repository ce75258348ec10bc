"""An inline ignore that gives no reason."""

from __future__ import annotations

from dataclasses import replace

from arc_toolkit.azureml.plan import Plan
from arc_toolkit.ignore_rules import WITHOUT_REASON, without_reason


def _check(plan: Plan) -> None:
    for ignores, place in plan.ignores():
        for line, message in without_reason(ignores):
            plan.report(RULE, message, place(line))


RULE = replace(WITHOUT_REASON, check=_check)
