"""`resources: 32cpu128g`: a value where a mapping has to be."""

from __future__ import annotations

import yaml

from arc_toolkit.azureml.kinds import Role, TargetKind
from arc_toolkit.azureml.plan import Plan
from arc_toolkit.azureml.schema_keys import MAPPINGS, known_keys
from arc_toolkit.findings import Rule

# Mappings whose keys anybody may choose.
_OF_ANY_KEYS = ("environment_variables", "inputs", "outputs", "jobs")
_NAMES = (*MAPPINGS, *_OF_ANY_KEYS)


def _check(plan: Plan) -> None:
    for target in plan.known_targets():
        for name in _NAMES:
            key, node = target.own.get(name, (None, None))
            if key is None or node is None or isinstance(node, yaml.MappingNode):
                continue
            # `task: copy_data` of a data transfer is right.
            known = known_keys(target.kind, name) or (
                name in _OF_ANY_KEYS and _has(target.kind, name)
            )
            if not known or target.kind.role == Role.SPEC:
                continue
            if not _is_null(node):
                plan.report(RULE, f"`{name}` of {target.shown} has to be a mapping", key)
            elif not plan.is_filled((*target.path, name)):
                reason = 'azure-ai-ml rejects null ("Field may not be null"): remove the key'
                plan.report(RULE, f"`{name}` of {target.shown} is empty", key, reason=reason)


def _has(kind: TargetKind, name: str) -> bool:
    return kind.variables if name == "environment_variables" else name in (known_keys(kind) or ())


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.value in ("", "~", "null")


RULE = Rule("not-a-mapping", "error", check=_check)
