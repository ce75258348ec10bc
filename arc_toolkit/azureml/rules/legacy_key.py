"""Keys of the SDK v1 in v2 files, where they have another name."""

from __future__ import annotations

from arc_toolkit.azureml.plan import Plan
from arc_toolkit.azureml.schema_keys import Explanation
from arc_toolkit.findings import Rule


def _check(plan: Plan) -> None:
    for item in plan.foreign_keys():
        if item.explanation == Explanation.LEGACY:
            plan.report(
                RULE, f"`{item.name}` is a key of the SDK v1: in v2 it is `{item.right}`", item.key
            )


RULE = Rule("legacy-key", "error", check=_check)
