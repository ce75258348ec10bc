"""An inline ignore that gives no reason."""

from __future__ import annotations

from arc_toolkit.azureml.plan import Plan
from arc_toolkit.findings import Rule


def _check(plan: Plan) -> None:
    message = "an ignore without a reason does not count: `# arc-toolkit: ignore[rule] reason`"
    for ignores, place in plan.ignores():
        for line in ignores.without_reason:
            plan.report(RULE, message, place(line))


RULE = Rule(
    id="ignore-without-reason",
    severity="warning",
    fix="none",
    summary="an inline ignore without a reason",
    why="""\
Whoever reads the file later wants to know why a finding was set aside. An ignore without a reason is not obeyed.""",
    before="""\
command: python train.py  # arc-toolkit: ignore[lightgbm-threads]
""",
    after="""\
command: python train.py  # arc-toolkit: ignore[lightgbm-threads] one thread is wanted here
""",
    language="yaml, python",
    check=_check,
    needs=("arc-toolkit:",),
)
