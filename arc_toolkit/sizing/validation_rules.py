"""The rules of `validate`: mistakes in hand-written InstanceTypes.

The checks are `problems` in `kube/instance_type_spec.py`, for mistakes that the manifest alone shows,
and `validation.py`.

https://learn.microsoft.com/azure/machine-learning/how-to-manage-kubernetes-instance-types
"""

from __future__ import annotations

from arc_toolkit.findings import Rule
from arc_toolkit.ignore_rules import IGNORE_RULES

PREFIX = "instance-type-"
_ERRORS = (
    "above-limit",
    "api-version",
    "duplicate-key",
    "duplicate",
    "field",
    "gpu",
    "misplaced",
    "name",
    "node-size",
    "schedulable",
    "selector",
    "unknown-key",
)
_WARNINGS = ("request-limit",)
RULES: dict[str, Rule] = IGNORE_RULES | {
    rule.id: rule
    for rule in (
        *(Rule(PREFIX + name, "error", command="validate") for name in _ERRORS),
        *(Rule(PREFIX + name, "warning", command="validate") for name in _WARNINGS),
    )
}
