"""Inline ignores: `# arc-toolkit: ignore[rule, rule] reason`, on the line of the finding or alone
on the line above.

`ignore-file[rule] reason` holds for the whole file. An ignore without a reason has no effect.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_COMMENT = re.compile(
    r"#[ \t]*arc-toolkit:[ \t]*(ignore|ignore-file)\[([^\]\n]*)\][ \t]*:?[ \t]*([^\n]*)"
)


@dataclass(frozen=True, slots=True)
class Ignores:
    """Which rules are ignored on which lines; line 0 is the whole file."""

    lines: dict[int, frozenset[str]] = field(default_factory=dict)
    # Lines of ignores that give no reason.
    without_reason: tuple[int, ...] = ()
    # Every name of a rule that an ignore with a reason gives, with its line.
    names: tuple[tuple[int, str], ...] = ()

    def covers(self, rule: str, line: int) -> bool:
        return bool(self.lines) and any(rule in self.lines.get(number, ()) for number in (line, 0))


_NONE = Ignores()


def find_ignores(text: str) -> Ignores:
    """All ignores of a file (YAML or Python: both have `#` comments)."""
    if "arc-toolkit:" not in text:
        return _NONE
    lines: dict[int, frozenset[str]] = {}
    without: list[int] = []
    names: list[tuple[int, str]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        match = _COMMENT.search(line)
        if match is None:
            continue
        if not match[3].strip():
            without.append(number)
            continue
        where = number
        if match[1] == "ignore-file":
            where = 0
        elif not line[: match.start()].strip():
            where = number + 1
        rules = frozenset(name.strip() for name in match[2].split(","))
        names += [(number, name) for name in sorted(rules)]
        lines[where] = lines.get(where, frozenset()) | rules
    return Ignores(lines, tuple(without), tuple(names))
