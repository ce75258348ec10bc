"""The base of all plans: the operations on one file, and the findings about it.

Whoever decides something asks the plan to `attempt` a group of operations on the editor of the
language. The group is made as a whole, or refused as a whole with a finding. Groups are recorded:
after a refusal the others are replayed on a new editor, and `engine.py` plans a file again without
the groups whose proof fails.

Inline ignores: `# arc-toolkit: ignore[rule, rule] reason`, on the line of the finding or alone on
the line above. `ignore-file[rule] reason` holds for the whole file. An ignore without a reason has
no effect.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, TypeVar

from arc_toolkit.edit.files.edits import Refused
from arc_toolkit.edit.yaml.nodes import YamlNode, position_of
from arc_toolkit.findings import Finding, Fix, Severity

# Changes a file through the editor of its language.
Operation = Callable[[Any], None]
# Names a group of operations, the same in every plan of a text.
GroupKey = tuple[Hashable, ...]
# Groups whose proof failed, with the reason.
FailedGroups = Mapping[GroupKey, str]

# Characters to read again for finding the groups of a file that cannot be made.
MAX_REPARSE_CHARS = 2_000_000

E = TypeVar("E")

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


class FilePlan(ABC, Generic[E]):
    """What is to change in one file, and what there is to say about it."""

    # Whether the proof of a single group needs only a new editor; the proof of code uses up its
    # syntax tree.
    proves_groups = False

    def __init__(
        self, path: str, ignored_lines: Ignores, failed_groups: FailedGroups | None = None
    ) -> None:
        self.path = path
        self.ignored_lines = ignored_lines
        self.failed_groups = failed_groups or {}
        self.findings: list[Finding] = []
        # Why groups that were asked for are not made.
        self.refusals: list[str] = []
        # Files to write beside this one: path and content.
        self.new_files: list[tuple[str, bytes]] = []
        self._groups: list[tuple[GroupKey, Operation]] = []

    # --- what each language does its own way ------------------------------------------------------

    @abstractmethod
    def new_editor(self) -> E:
        """An editor of the file without any operation."""

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """Whether the file stays as it is."""

    @abstractmethod
    def prove(self, text: Any) -> Any:
        """The text after all operations, read again; `Refused` unless exactly these happen."""

    def compare(self, second: FilePlan[E]) -> None:
        """`Refused` unless the plan of the changed file has nothing left to do."""
        if not second.is_empty:
            raise Refused("not stable: a second run would change the file again")

    def close(self) -> None:
        """Free what only the collector of cycles would."""

    # --- operations -------------------------------------------------------------------------------

    @cached_property
    def editor(self) -> E:
        return self.new_editor()

    def perform(self, key: GroupKey, operation: Operation) -> None:
        """A group of operations, all or none; `Refused` if one cannot be made."""
        if key in self.failed_groups:
            raise Refused(self.failed_groups[key])
        editor: Any = self.editor
        count = editor.change_count
        try:
            operation(editor)
        except Refused:
            if editor.change_count != count:
                self.editor = self.new_editor()
                for _, earlier in self._groups:
                    earlier(self.editor)
            raise
        self._groups.append((key, operation))

    def attempt(
        self, rule: str, message: str, at: YamlNode, operation: Operation, key: GroupKey = ()
    ) -> bool:
        """The same, where a refusal becomes a finding."""
        if self.covers(rule, at):
            return False
        try:
            self.perform((rule, *(key or (message, *position_of(at)))), operation)
        except Refused as refusal:
            self.refuse(rule, message, at, refusal.reason)
            return False
        return True

    def find_failing(self, size: int) -> dict[GroupKey, str]:
        """The groups whose proof fails on their own, with the reason; none if the text is too long
        to try.
        """
        reasons: dict[GroupKey, str] = {}
        if not self.proves_groups or len(self._groups) * size > MAX_REPARSE_CHARS:
            return reasons
        for key, operation in self._groups:
            editor: Any = self.new_editor()
            try:
                operation(editor)
                editor.finish()
            except Refused as refusal:
                reasons[key] = refusal.reason
        return reasons

    # --- findings ---------------------------------------------------------------------------------

    def locate(self, at: YamlNode) -> tuple[int, int, str]:
        """Line, column, and what comes before a message about this place."""
        return *position_of(at), ""

    def covers(self, rule: str, at: YamlNode) -> bool:
        """Whether an inline ignore keeps a rule or setting out of the line of a node."""
        return self.ignored_lines.covers(rule, position_of(at)[0])

    def add_finding(
        self,
        rule: str,
        severity: Severity,
        message: str,
        at: YamlNode,
        reason: str = "",
        *,
        fix: Fix | None = None,
        applied: bool = False,
    ) -> None:
        """A finding, unless a comment ignores it there."""
        if not self.covers(rule, at):
            line, column, where = self.locate(at)
            self.findings.append(
                Finding(
                    rule, severity, where + message, self.path, line, column, reason, fix, applied
                )
            )

    def warn(self, rule: str, message: str, at: YamlNode, reason: str) -> None:
        self.add_finding(rule, "warning", message, at, reason)

    def refuse(self, rule: str, message: str, at: YamlNode, reason: str) -> None:
        """A finding about something that was asked for and is not done."""
        if not self.covers(rule, at):
            self.refusals.append(reason)
            self.warn(rule, message, at, reason)
