"""A literal number of threads that is larger than the instance type."""

from __future__ import annotations

from arc_toolkit.azureml.plan import Plan
from arc_toolkit.azureml.threads import LIGHTGBM_NAMES, cores_of
from arc_toolkit.edit.yaml.nodes import pairs, text_of
from arc_toolkit.findings import Rule


def _check(plan: Plan) -> None:
    for target in plan.known_targets():
        if not target.kind.variables:
            continue
        own = pairs(target.get("environment_variables"))
        for name, (key, value) in own.items():
            if not name.endswith("_NUM_THREADS") and name not in LIGHTGBM_NAMES:
                continue
            number = plan.planned(target, "environment_variables", name) or text_of(value) or ""
            cores, source = cores_of(plan.instance_type(target), plan.settings)
            if number.isdigit() and cores is not None and int(number) > cores:
                message = f"{name} is {number}, but {target.shown} has {cores} cores"
                plan.report(RULE, message, key, reason=source)


RULE = Rule(
    "threads-above-cores", "warning", language="yaml, python", check=_check, needs=("_NUM_THREADS",)
)
