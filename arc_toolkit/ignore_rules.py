"""The two rules about inline ignores themselves: for AzureML files, manifests and InstanceTypes."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator

from arc_toolkit.edit.files.ignores import Ignores
from arc_toolkit.findings import Rule

WITHOUT_REASON = Rule(
    id="ignore-without-reason",
    severity="warning",
    fix="none",
    summary="an inline ignore without a reason",
    why="""\
Whoever reads the file later wants to know why a finding was set aside. An ignore without a reason is not obeyed.""",
    before="""\
command: python train.py  # arc-toolkit: ignore[lightgbm-threads]
""",
    after="""\
command: python train.py  # arc-toolkit: ignore[lightgbm-threads] one thread is wanted here
""",
    language="yaml, python",
    command="check, validate",
    needs=("arc-toolkit:",),
)
OF_UNKNOWN_RULE = Rule(
    id="ignore-of-unknown-rule",
    severity="warning",
    fix="none",
    summary="an inline ignore of a rule that does not exist",
    why="""\
An ignore with a misspelt rule sets nothing aside. An ignore names rules (`arc-toolkit rules`) or settings, such as
`instance-type` or `threads`. Those of `validate` work in InstanceTypes only, those about spot nodes in manifests only,
and the others in AzureML files only.""",
    before="""\
command: python train.py  # arc-toolkit: ignore[lightgbm-thread] one thread is wanted here
""",
    after="""\
command: python train.py  # arc-toolkit: ignore[lightgbm-threads] one thread is wanted here
""",
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
