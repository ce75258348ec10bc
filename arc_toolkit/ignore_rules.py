"""The two rules about inline ignores themselves: for AzureML files, manifests and InstanceTypes."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator

from arc_toolkit.edit.files.ignores import Ignores
from arc_toolkit.findings import Rule

WITHOUT_REASON = Rule(
    "ignore-without-reason",
    "warning",
    language="yaml, python",
    command="check, validate",
    needs=("arc-toolkit:",),
)
OF_UNKNOWN_RULE = Rule(
    "ignore-of-unknown-rule",
    "warning",
    language="yaml, python",
    command="check, validate",
    needs=("arc-toolkit:",),
)


def without_reason(ignores: Ignores) -> Iterator[tuple[int, str]]:
    """The line and the message of every ignore that gives no reason."""
    for line in ignores.without_reason:
        yield (
            line,
            "an ignore without a reason does not count: `# arc-toolkit: ignore[rule] reason`",
        )


def of_unknown_rule(ignores: Ignores, known: Collection[str]) -> Iterator[tuple[int, str, str]]:
    """The line, the message and a hint for every ignore of a rule that is not among those known for its file."""
    for line, name in ignores.names:
        if name not in known:
            yield (
                line,
                f"an ignore of `{name}`, which is not a rule for this file",
                name_hint(name, known),
            )


def ignore_problems(
    ignores: Ignores, known: Collection[str]
) -> Iterator[tuple[Rule, int, str, str]]:
    """What both rules find: the rule, the line, the message and the hint."""
    yield from ((WITHOUT_REASON, line, message, "") for line, message in without_reason(ignores))
    yield from ((OF_UNKNOWN_RULE, *row) for row in of_unknown_rule(ignores, known))


def name_hint(name: str, known: Collection[str]) -> str:
    """What to do about a rule that does not exist."""
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean `{near[0]}`?" if near else "`arc-toolkit rules` lists them"
