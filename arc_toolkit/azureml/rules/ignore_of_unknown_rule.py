"""An inline ignore that names a rule which does not exist."""

from __future__ import annotations

import difflib

from arc_toolkit.azureml.plan import Plan
from arc_toolkit.azureml.rules import all_rules
from arc_toolkit.azureml.settings import SETTING_RULES
from arc_toolkit.findings import Rule


def _check(plan: Plan) -> None:
    known = {*SETTING_RULES, *all_rules()}
    for ignores, place in plan.ignores():
        for line, name in ignores.names:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean `{near[0]}`?" if near else "`arc-toolkit rules` lists them"
                plan.report(RULE, f"an ignore of `{name}`, which is not a rule", place(line), reason=hint)


RULE = Rule(
    id="ignore-of-unknown-rule",
    severity="warning",
    fix="none",
    summary="an inline ignore of a rule that does not exist",
    why="""\
An ignore with a misspelt rule sets nothing aside. An ignore names rules (`arc-toolkit rules`) or settings, such as
`instance-type` or `threads`.""",
    before="""\
command: python train.py  # arc-toolkit: ignore[lightgbm-thread] one thread is wanted here
""",
    after="""\
command: python train.py  # arc-toolkit: ignore[lightgbm-threads] one thread is wanted here
""",
    language="yaml, python",
    check=_check,
    needs=("arc-toolkit:",),
)
