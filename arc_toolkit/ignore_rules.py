"""The two rules about inline ignores: for AzureML files, manifests and InstanceTypes."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from arc_toolkit.edit.files.plan import Ignores
from arc_toolkit.findings import Rule
from arc_toolkit.text import nearest

_WITHOUT_REASON = Rule(
    "ignore-without-reason", "warning", language="yaml, python", command="check, validate"
)
_OF_UNKNOWN_RULE = Rule(
    "ignore-of-unknown-rule", "warning", language="yaml, python", command="check, validate"
)
IGNORE_RULES = {rule.id: rule for rule in (_OF_UNKNOWN_RULE, _WITHOUT_REASON)}


def ignore_problems(
    ignores: Ignores, names: Collection[str]
) -> Iterator[tuple[Rule, int, str, str]]:
    """The rule, the line, the message and the hint of each finding.

    `names` are the rules and settings that can be ignored in the file.
    """
    form = "`# arc-toolkit: ignore[rule] reason`"
    for line in ignores.without_reason:
        yield _WITHOUT_REASON, line, f"an ignore without a reason does not count: {form}", ""
    for line, name in ignores.names:
        if name not in names:
            message = f"an ignore of `{name}`, which is not a rule for this file"
            yield _OF_UNKNOWN_RULE, line, message, name_hint(name, names)


def name_hint(name: str, names: Collection[str]) -> str:
    """What to do about an unknown rule."""
    near = nearest(name, names)
    return f"did you mean `{near}`?" if near else "`arc-toolkit rules` lists them"
