"""Rules as a table, as data and as a page: what `rules` prints and `docs/rules/` has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from arc_toolkit.findings import Rule
from arc_toolkit.output.table import table

_FIXES = {
    "safe": "`patch` fixes it.",
    "unsafe": "`patch --unsafe-fixes` fixes it.",
    "none": "{commands} it; there is no automatic fix.",
}


def listing(rules: Sequence[Rule]) -> str:
    """One line per rule."""
    return table(
        ["RULE", "SEVERITY", "FIX", "COMMAND", "IN", "WHAT"],
        [
            [rule.id, rule.severity, rule.fix, rule.command, rule.language, rule.summary]
            for rule in rules
        ],
    )


def page(rule: Rule) -> str:
    """The rule's page in Markdown."""
    commands = [f"`{command}`" for command in rule.command.split(", ")]
    reported = " and ".join(commands) + (" report" if len(commands) > 1 else " reports")
    language = "python" if rule.language == "python" else "yaml"
    return f"""\
# {rule.id}

{rule.summary[0].upper()}{rule.summary[1:]}. Severity: {rule.severity}. {_FIXES[rule.fix].format(commands=reported)}

{rule.why}

Before:

```{language}
{rule.before.rstrip()}
```

After:

```{language}
{rule.after.rstrip()}
```

To ignore it in one place: `# arc-toolkit: ignore[{rule.id}] reason`.
"""


def rule_data(rule: Rule) -> dict[str, Any]:
    """A rule in JSON."""
    names = ("id", "severity", "fix", "command", "language", "summary", "why", "before", "after")
    return {name: getattr(rule, name) for name in names}
