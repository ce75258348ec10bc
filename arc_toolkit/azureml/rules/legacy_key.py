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


RULE = Rule(
    id="legacy-key",
    severity="error",
    fix="none",
    summary="a key of the SDK v1 in a v2 file",
    why="""\
A run configuration of the SDK v1 has `node_count` and `process_count_per_node`. In a v2 job they are rejected, and in a
v2 component they load and do nothing.""",
    before="""\
type: command
resources:
  node_count: 2
""",
    after="""\
type: command
resources:
  instance_count: 2
""",
    check=_check,
)
