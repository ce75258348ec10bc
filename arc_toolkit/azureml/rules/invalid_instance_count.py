"""An instance count below 1, or not a whole number."""

from __future__ import annotations

from arc_toolkit.azureml.documents import is_bound
from arc_toolkit.azureml.kinds import Slot
from arc_toolkit.azureml.plan import Plan
from arc_toolkit.findings import Rule

_COUNT = Slot.INSTANCE_COUNT.path


def _check(plan: Plan) -> None:
    for target in plan.known_targets():
        path = target.path_of(_COUNT)
        text = target.text(*path)
        if text and target.kind.resources and not is_bound(text) and not _is_count(text):
            message = (
                f"`instance_count: {text}` of {target.shown}: it has to be a whole number from 1"
            )
            plan.report(RULE, message, target.place_of(path))


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and int(text) >= 1


RULE = Rule("invalid-instance-count", "error", check=_check, needs=("instance_count",))
