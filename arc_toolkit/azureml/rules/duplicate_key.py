"""A duplicate key in a target's mapping."""

from __future__ import annotations

import yaml

from arc_toolkit.azureml.plan import Plan
from arc_toolkit.edit.yaml.nodes import MERGE, pairs
from arc_toolkit.findings import Rule


def _check(plan: Plan) -> None:
    for target in plan.known_targets():
        for node in (target.node, target.get("resources"), target.get("environment_variables")):
            if not isinstance(node, yaml.MappingNode):
                continue
            if len(target.own if node is target.node else pairs(node)) == len(node.value):
                continue
            seen: set[str] = set()
            for key in (
                key
                for key, _ in node.value
                if isinstance(key, yaml.ScalarNode) and key.tag != MERGE
            ):
                if key.value in seen:
                    plan.report(
                        RULE, f"`{key.value}` is a duplicate key: only the last one counts", key
                    )
                seen.add(key.value)


RULE = Rule("duplicate-key", "error", check=_check)
