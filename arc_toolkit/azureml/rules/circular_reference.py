"""A pipeline that includes itself, on its own or by way of others."""

from __future__ import annotations

import os

from arc_toolkit.azureml.documents import Target, full_path
from arc_toolkit.azureml.kinds import Family
from arc_toolkit.azureml.plan import Plan
from arc_toolkit.findings import Rule


def _check(plan: Plan) -> None:
    own = full_path(plan.path)
    for step in (step for document in plan.documents for step in document.steps):
        if step.reference is not None and _leads_to(plan, step, own):
            by = (
                "itself"
                if step.reference == own
                else f"itself by way of {os.path.relpath(step.reference)}"
            )
            plan.report(RULE, f"step `{step.name}` makes the pipeline include {by}", step.at)


def _leads_to(plan: Plan, first: Target, own: str) -> bool:
    seen: set[str] = set()
    steps = [first]
    while steps:
        step = steps.pop()
        if step.reference == own:
            return True
        # Only a pipeline has steps; without `type` a step is what its file is, which is known by now.
        may = step.kind.family == Family.PIPELINE or "type" not in step.own
        if step.reference is None or step.reference in seen or not may:
            continue
        seen.add(step.reference)
        if document := plan.library.load(step.reference):
            steps += document.steps
    return False


RULE = Rule("circular-reference", "error", check=_check, needs=("component",))
