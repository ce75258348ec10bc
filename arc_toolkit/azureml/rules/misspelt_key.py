"""Keys that are one or two letters away from a key of the same place."""

from __future__ import annotations

import yaml

from arc_toolkit.azureml.plan import Plan
from arc_toolkit.azureml.schema_keys import Explanation, ForeignKey
from arc_toolkit.edit.yaml.editor import Editor, KeyPath
from arc_toolkit.findings import Rule


def _check(plan: Plan) -> None:
    for item in plan.foreign_keys():
        if item.explanation == Explanation.MISSPELT:
            _report(plan, item)


def _report(plan: Plan, item: ForeignKey) -> None:
    target, name, right = item.target, item.name, item.right
    where = f"`{item.below}` of a {target.kind.name}" if item.below else f"a {target.kind.name}"
    message = f"`{name}` is not a key of {where}"
    path: KeyPath = (item.below, name) if item.below else (name,)
    if (target.get(item.below, right) if item.below else target.get(right)) is not None:
        plan.report(RULE, f"{message}; `{right}` is there too", item.key)
        return

    is_set = plan.is_filled((*target.path, *path[:-1], right))
    if is_set and not isinstance(item.value, yaml.ScalarNode):
        plan.report(
            RULE, f"{message}; this run adds `{right}`", item.key, reason="merge them by hand"
        )
        return

    def fix(editor: Editor) -> None:
        if is_set:  # the right key gets the value of this run
            editor.remove((*target.path, *path))
        else:
            editor.rename((*target.path, *path), right)

    plan.report(
        RULE,
        f"{message}: `{right}` is meant",
        item.key,
        reason="after renaming, a setting takes effect that had none so far",
        fix=fix,
        title=f"Remove `{name}`" if is_set else f"Rename `{name}` to `{right}`",
    )


RULE = Rule("misspelt-key", "error", fix="unsafe", check=_check)
