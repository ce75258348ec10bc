"""`node.resources.x = ...` where `resources` is None."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from arc_toolkit.azureml.plan import Plan
from arc_toolkit.findings import Rule

if TYPE_CHECKING:
    from arc_toolkit.azureml.python.python_plan import PythonPlan


def _check(plan: Plan) -> None:
    code = cast("PythonPlan", plan)
    for target in code.python_targets:
        giver = target.resources_giver if target.generation == "v2" else ""
        for use in target.uses if giver else ():
            if use.how == "argument" or use.path[0] not in ("resources", "set_resources"):
                continue
            if len(use.path) == 1:
                break  # there are resources from here on
            message = (
                f"{target.name}.resources is None, since {giver} has no resources (AttributeError)"
            )
            reason = f"write {target.name}.resources = JobResourceConfiguration(...)"
            plan.report(RULE, message, code.at(use.statement), reason=reason)


RULE = Rule(
    id="missing-resources",
    severity="error",
    fix="none",
    summary="a value set in resources that are None",
    why="""\
`resources` of a job or step is None unless `command(...)` is given one of their arguments (`instance_type`,
`instance_count`, `shm_size`, ...) or the component file has `resources`. `node.resources.instance_type = ...` then
raises `AttributeError: 'NoneType' object has no attribute 'instance_type'` (azure-ai-ml 1.35).""",
    before="""\
job = command(command="python train.py", environment="azureml:env:1")
job.resources.instance_type = "32cpu128g"
""",
    after="""\
job = command(command="python train.py", environment="azureml:env:1")
job.resources = JobResourceConfiguration(instance_type="32cpu128g")
""",
    language="python",
    check=_check,
    needs=(".resources.",),
)
