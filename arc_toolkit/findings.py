"""Findings, their fixes and the rules behind them: what `patch`, `check` and `validate` report.

Frozen data: whoever finds something never prints it, and a fix can be listed, counted, shown and
exported.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Literal

from arc_toolkit.edit.files.discover import Skipped
from arc_toolkit.edit.files.edits import Edit

Severity = Literal["error", "warning", "note"]
LedgerOutcome = Literal["mapped", "added", "dropped", "lost", "by hand"]
Language = Literal["yaml", "python", "yaml, python"]


@dataclass(frozen=True, slots=True)
class Fix:
    """A change that fixes one finding. A job may behave differently after an unsafe one.

    The edits are character spans of the file's text as it is before the run, without its byte order
    mark.
    """

    title: str
    safe: bool
    edits: tuple[Edit, ...]


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """What a conversion makes of one argument of its source, or adds.

    A person has to look at arguments that are `lost` (v2 has no place) or left to write `by hand`.
    """

    source: str
    argument: str
    outcome: LedgerOutcome
    # The place in the result.
    becomes: str = ""
    reason: str = ""
    # Where it is, if that is not the place of the finding.
    path: str = ""
    line: int = 0
    column: int = 0

    @property
    def needs_person(self) -> bool:
        return self.outcome in ("lost", "by hand")

    @property
    def text(self) -> str:
        """`mapped   HyperDriveConfig.max_duration_minutes -> limits.timeout: in seconds`"""
        name = f"{self.source}.{self.argument}" if self.source else self.argument
        place = f" -> {self.becomes}" if self.becomes else ""
        reason = f": {self.reason}" if self.reason else ""
        line = f" ({self.path}:{self.line})" if self.line else ""
        return f"{self.outcome:7}  {name}{place}{reason}{line}"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a rule found, or a setting that was set or could not be set.

    `reason` says why: the evidence, or why it was not changed. `line` and `column` count characters
    from 1; 0 means the whole file.
    """

    rule: str
    severity: Severity
    message: str
    path: str
    line: int = 0
    column: int = 0
    reason: str = ""
    fix: Fix | None = None
    # Whether `FileResult.after` has the fix, or the setting that a note is about. It may never be
    # written.
    applied: bool = False
    # Of a conversion: every argument of its source.
    ledger: tuple[LedgerEntry, ...] = ()

    @property
    def details(self) -> str:
        """The reason, and what a person has to look at in the ledger."""
        entries = [entry.text for entry in self.ledger if entry.needs_person]
        return "; ".join(filter(None, (self.reason, *entries)))

    @property
    def fixable(self) -> Literal["safe", "unsafe", False]:
        if self.fix is None:
            return False
        return "safe" if self.fix.safe else "unsafe"


@dataclass(frozen=True, slots=True)
class Rule:
    """The facts of a rule that code needs. Its text is the page `docs/rules/ID.md`."""

    id: str
    severity: Severity
    # Whether `patch` fixes it. A job may behave differently after an unsafe fix, which therefore
    # needs --unsafe-fixes.
    fix: Literal["safe", "unsafe", "none"] = "none"
    language: Language = "yaml"
    # The command that reports it, or several as `check, validate`; `patch` fixes findings of
    # `check`.
    command: str = "check"
    # Called by the package of the rule with the plan of a file.
    check: Callable[..., None] | None = None
    # The rule runs only on files whose text has one of these; empty means on every file.
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FileResult:
    """What a run made of one file. Only one of `after`, `refused` and `skipped` may be set; none
    means unchanged.
    """

    path: str
    before: bytes
    after: bytes | None = None
    findings: tuple[Finding, ...] = ()
    # Why no safe change was possible although one was asked for.
    refused: str | None = None
    # Why there is nothing to change, where no finding says so.
    unchanged: str = ""
    # Why the file was not used (no AzureML in it, not UTF-8, ...).
    skipped: Skipped | None = None
    # Files to write beside it: path and content.
    new_files: tuple[tuple[str, bytes], ...] = ()
    # Of `before`; a byte order mark is not part of its text.
    encoding: str = "utf-8"

    @property
    def changed(self) -> bool:
        return self.after is not None and self.after != self.before

    @property
    def text(self) -> str:
        """The text that the edits of fixes count in."""
        return self.text_of(self.before)

    def text_of(self, data: bytes) -> str:
        return data.decode(self.encoding, errors="replace").removeprefix("\ufeff")


def without_changes(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings of a file whose changes could not be made: nothing is fixed, and no note says
    that it was.
    """
    return tuple(
        replace(finding, applied=False, fix=None) if finding.applied else finding
        for finding in findings
        if not (finding.applied and finding.severity == "note")
    )


def rule(
    severity: Severity,
    *,
    fix: Literal["safe", "unsafe", "none"] = "none",
    language: Language = "yaml",
    needs: tuple[str, ...] = (),
) -> Callable[[Callable[..., None]], Rule]:
    """Make a rule of a check. Its id is the name of the function: `unknown_key` is `unknown-key`.

    The name of the function then means the rule, which the check passes to `report`:

        @rule("error")
        def unknown_key(plan: Plan) -> None:
            plan.report(unknown_key, "there is no key ...", node)
    """

    def make_rule(check: Callable[..., None]) -> Rule:
        rule_id = check.__name__.replace("_", "-")
        return Rule(rule_id, severity, fix=fix, language=language, check=check, needs=needs)

    return make_rule


def rules_in(folders: Iterable[str], package: str) -> dict[str, Rule]:
    """The rules in the modules of a package by id, in order of id."""
    rules = {}
    for module in pkgutil.iter_modules(folders):
        for value in vars(import_module(f"{package}.{module.name}")).values():
            if isinstance(value, Rule):
                rules[value.id] = value
    return dict(sorted(rules.items()))
