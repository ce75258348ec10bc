"""A finding: what `validate`, `check` and `patch` report. Frozen data; whoever finds it never prints it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a rule saw, or a setting that was placed or could not be placed.

    `fixed` means: `FileResult.after` mends it (`patch` did, `check` says that `patch` can). `reason` says why it
    was decided so: the evidence, or why it was not changed. `line` and `column` count from 1; 0 is "the file".
    """

    rule: str
    severity: Severity
    message: str
    path: str
    line: int = 0
    column: int = 0
    fixed: bool = False
    reason: str = ""
    # `patch --unsafe-fixes` would mend it.
    unsafe_fix: bool = False
