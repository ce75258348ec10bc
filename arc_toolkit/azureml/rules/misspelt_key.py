"""Keys that are one or two letters away from a key of the same place."""

from __future__ import annotations

import difflib

from arc_toolkit.azureml.documents import Target
from arc_toolkit.azureml.plan import Plan
from arc_toolkit.azureml.schema_keys import MAPPINGS, known_keys
from arc_toolkit.edit.yaml_editor import Editor, Path
from arc_toolkit.edit.yaml_nodes import Node, pairs
from arc_toolkit.findings import Rule

_ALIKE = 0.85  # `source` and `resources` are 0.8 alike and mean different things


def _check(plan: Plan) -> None:
    for target in plan.known_targets():
        _look(plan, target, target.own)
        for name in MAPPINGS:
            if name in target.own:
                _look(plan, target, pairs(target.own[name][1]), name)


def _look(plan: Plan, target: Target, own: dict[str, tuple[Node, Node]], below: str = "") -> None:
    known = known_keys(target.kind, below)
    if known is None or known.issuperset(own):
        return
    for name in own.keys() - known - {"<<"}:
        near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=_ALIKE)
        if not near:
            continue
        where = f"`{below}` of a {target.kind.name}" if below else f"a {target.kind.name}"
        message = f"`{name}` is not a key of {where}"
        if near[0] in own:
            plan.report(RULE, f"{message}; `{near[0]}` is there too", own[name][0])
            continue
        path: Path = (*target.path, below, name) if below else (*target.path, name)

        def fix(editor: Editor, at: Path = path, right: str = near[0]) -> None:
            editor.rename(at, right)

        plan.report(
            RULE,
            f"{message}: `{near[0]}` is meant",
            own[name][0],
            reason="after renaming, a setting takes effect that had none so far",
            fix=fix,
            title=f"Rename `{name}` to `{near[0]}`",
        )


RULE = Rule(
    id="misspelt-key",
    severity="error",
    fix="unsafe",
    summary="a misspelt key, which does nothing or is rejected",
    why="""\
The keys of every kind are those of azure-ai-ml's own schemas. Components are loaded permissively: `resorces:` or
`resources.instance_cnt:` in a v2 component, and `resorces:` on a step that names a component, load and validate, and
have no effect. A job with such a key is rejected. The fix renames the key. It is unsafe because a setting that had no
effect so far begins to have one.""",
    before="""\
type: command
name: train
resorces:
  instance_type: 32cpu128g
""",
    after="""\
type: command
name: train
resources:
  instance_type: 32cpu128g
""",
    check=_check,
)
