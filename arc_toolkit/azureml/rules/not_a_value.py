"""`compute: {target: aks}`: a mapping or list where a single value has to be."""

from __future__ import annotations

import yaml

from arc_toolkit.azureml.documents import Target
from arc_toolkit.azureml.kinds import Role, Slot
from arc_toolkit.azureml.plan import Plan
from arc_toolkit.azureml.schema_keys import known_keys
from arc_toolkit.edit.yaml.nodes import YamlNode, get
from arc_toolkit.findings import Rule

_PLACES: tuple[tuple[str, ...], ...] = (
    Slot.COMPUTE.path,
    Slot.INSTANCE_TYPE.path,
    Slot.INSTANCE_COUNT.path,
    ("settings", "default_compute"),
    ("command",),
    ("code",),
    ("task", "code"),
    ("task", "entry_script"),
)
# What the previews of 2021 had: the key below, and where it is today.
_PREVIEW = {
    "compute": ("target", "`compute: azureml:NAME`, and `resources.instance_count`"),
    "code": ("local_path", "`code: FOLDER`"),
}


def _check(plan: Plan) -> None:
    for target in plan.known_targets():
        if target.kind.role != Role.SPEC:
            for first, *rest in _PLACES:
                if first in target.own:
                    _look(plan, target, first, rest)


def _look(plan: Plan, target: Target, first: str, rest: list[str]) -> None:
    key, node = target.own[first]
    value: YamlNode | None = get(node, *rest) if rest else node
    if value is None or isinstance(value, yaml.ScalarNode) or not _is_known(target, first, rest):
        return
    below, today = _PREVIEW.get(first, ("", ""))
    reason = f"today it is {today}" if not rest and below and get(value, below) is not None else ""
    name = ".".join((first, *rest))
    plan.report(
        RULE,
        f"`{name}` of {target.shown} has to be a single value",
        value if rest else key,
        reason=reason,
    )


def _is_known(target: Target, first: str, rest: list[str]) -> bool:
    known = known_keys(target.kind, first) if rest else known_keys(target.kind)
    return (rest[-1] if rest else first) in (known or ())


RULE = Rule("not-a-value", "error", check=_check, needs=("compute", "instance_", "command", "code"))
