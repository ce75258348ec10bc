"""The report of a run over files: counts, summary line, exit code, machine-readable formats.

One for every command that reports findings. Pure: the command prints, and writes files.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum
from functools import lru_cache
from typing import Any, Literal

from arc_toolkit.edit.files.diff import LineMap, line_starts, unified
from arc_toolkit.edit.files.discover import Problem, Skipped
from arc_toolkit.edit.files.edits import Edit
from arc_toolkit.errors import FOUND, OK, USAGE
from arc_toolkit.findings import FileResult, Finding, Rule
from arc_toolkit.output.json_document import document
from arc_toolkit.output.table import Style
from arc_toolkit.text import plural, printable

Format = Literal["text", "json", "sarif", "github"]
NewFiles = Sequence[tuple[str, bytes]]

_COLORS = {"error": "red", "warning": "yellow", "note": "blue"}


class Mode(Enum):
    """What a run does with its findings."""

    REPORT = "report"  # findings only: `check`, `validate`
    DIFF = "diff"
    CHECK = "check"  # exit 1 if a file would change
    WRITE = "write"


class Status(Enum):
    """What a run did to a file."""

    CHECKED = "checked"
    CHANGED = "changed"
    WOULD_CHANGE = "would change"
    UNCHANGED = "unchanged"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Replacement:
    """Text in place of a region. Lines and columns count from 1, the end is excluded."""

    line: int
    column: int
    end_line: int
    end_column: int
    text: str


@dataclass(frozen=True, slots=True)
class ReportedFinding:
    """A finding, whether this run wrote its fix, and otherwise the fix in lines and columns.

    All places are in the file as it is after the run.
    """

    finding: Finding
    fixed: bool
    replacements: tuple[Replacement, ...] = ()
    # The line that it is about, if it is in the file of the result.
    quoted: str | None = None

    @property
    def data(self) -> dict[str, Any]:
        names = ("rule", "severity", "message", "path", "line", "column", "reason", "fixable")
        fix = self.finding.fix
        ledger = [asdict(entry) for entry in self.finding.ledger]
        return {
            **{name: getattr(self.finding, name) for name in names},
            "fixed": self.fixed,
            "fix": fix
            and {"title": fix.title, "edits": [asdict(entry) for entry in self.replacements]},
            **({"ledger": ledger} if ledger else {}),
        }

    def text(self, style: Style) -> str:
        """`path:line:column: severity: message [rule]`, the source line, the reason and the fix."""
        finding = self.finding
        place = (
            f"{finding.path}:{finding.line}:{max(1, finding.column)}:"
            if finding.line
            else f"{finding.path}:"
        )
        severity = style(finding.severity, _COLORS[finding.severity])
        lines = [f"{place} {severity}: {printable(finding.message)} [{finding.rule}]"]
        if self.quoted is not None:
            number = str(finding.line)
            lines.append(f"  {style(number + ' |', 'dim')} {printable(self.quoted)}")
            margin, indent = " " * len(number), " " * (finding.column - 1)
            lines.append(f"  {margin} {style('|', 'dim')} {indent}{style('^', 'bold')}")
        if finding.reason:
            lines.append(f"    {printable(finding.reason)}")
        lines += [f"    {printable(entry.text)}" for entry in finding.ledger]
        if self.fixed:
            lines.append("    fixed")
        elif finding.fixable:
            unsafe = "" if finding.fixable == "safe" else " --unsafe-fixes"
            lines.append(f"    `arc-toolkit patch --write{unsafe}` fixes it")
        return "\n".join(lines)


class RunReport:
    """Collects the outcomes of a run. For text only the counts are stored: memory stays flat."""

    def __init__(
        self,
        command: str,
        form: Format,
        rules: Mapping[str, Rule],
        mode: Mode = Mode.REPORT,
        *,
        exit_zero: bool = False,
        strict: bool = False,
        # What is counted: files, unless the command counts parts of them.
        subject: str = "file",
        # Rules that are settings. Their warning says that a requested value could not be set, unless
        # it was set in another way.
        settings: Collection[str] = (),
    ) -> None:
        self._command, self.form, self._rules, self.mode = command, form, rules, mode
        self._exit_zero, self._subject, self._settings = exit_zero, subject, settings
        self._failing = ("error", "warning", "note") if strict else ("error", "warning")
        self._counts: Counter[str | Status] = Counter()
        self._findings: list[ReportedFinding] = []
        self._files: list[dict[str, Any]] = []
        self._skipped: list[Skipped] = []
        self._problems: list[Problem] = []
        # More fields of the JSON document.
        self.extra: dict[str, Any] = {}

    # --- what happens --------------------------------------------------------------------------

    def problem(self, problem: Problem) -> None:
        self._problems.append(problem)

    def skip(self, skipped: Skipped) -> None:
        self._counts["skipped"] += 1
        if self.form != "text":
            self._skipped.append(skipped)

    def file(
        self,
        result: FileResult,
        new_files: NewFiles = (),
        *,
        writing_failed: bool = False,
        count: int = 1,
    ) -> tuple[Status, list[ReportedFinding]]:
        """Count a file, or `count` things in it; its status and its findings in order of the text."""
        status = self._status(result, new_files, writing_failed)
        self._counts[status] += count
        # In text, standard input comes back changed; the other formats have no place for it.
        written = status is Status.CHANGED and (result.path != "-" or self.form == "text")
        rows = self._rows(result, written)
        self._counts.update(row.finding.severity for row in rows)
        self._counts["not set"] += sum(
            row.finding.severity == "warning"
            and row.finding.rule in self._settings
            and not row.finding.applied
            for row in rows
        )
        if self.form != "text":
            self._findings += rows
        if self.form == "json":
            entry: dict[str, Any] = {"path": result.path, "status": status.value}
            if self.mode is not Mode.REPORT:
                entry |= {
                    "refused": result.refused,
                    "diff": diff(result, new_files)
                    .encode(errors="surrogateescape")
                    .decode(errors="replace"),
                    "new_files": [path for path, _ in new_files],
                }
            self._files.append(entry)
        return status, rows

    def _status(self, result: FileResult, new_files: NewFiles, writing_failed: bool) -> Status:
        if self.mode is Mode.REPORT:
            return Status.CHECKED
        if writing_failed or (result.refused and not new_files):
            return Status.REFUSED
        if not (result.changed or new_files):
            return Status.UNCHANGED
        return Status.CHANGED if self.mode is Mode.WRITE else Status.WOULD_CHANGE

    def _rows(self, result: FileResult, written: bool) -> list[ReportedFinding]:
        """The findings in order of the text, at their places in the file after the run."""
        if not result.findings:
            return []
        before = text = result.text
        lines = None
        if written and result.changed and result.after is not None:
            text = result.text_of(result.after)
            lines = LineMap(before, text)
        source = text.split("\n") if self.form == "text" else []
        rows = []
        for finding in sorted(
            result.findings, key=lambda finding: (finding.line, finding.column, finding.rule)
        ):
            edits = finding.fix.edits if finding.fix else ()
            if lines is not None and finding.path == result.path and finding.line:
                line, column = lines.position(finding.line, finding.column)
                finding = replace(finding, line=line, column=column)
                edits = lines.edits(edits)
            fixed = written and finding.fix is not None and finding.applied
            is_own = finding.path == result.path
            quoted = _quoted(source, finding.line) if is_own else None
            has_edits = edits and not fixed and self.form != "text"
            rows.append(
                ReportedFinding(
                    finding, fixed, replacements(text, edits) if has_edits else (), quoted
                )
            )
        return rows

    # --- the end -------------------------------------------------------------------------------

    @property
    def exit_code(self) -> int:
        if self._problems or self._counts[Status.REFUSED] or self._counts["not set"]:
            return USAGE
        counted = self._failing if self.mode is Mode.REPORT else ()
        bad = sum(self._counts[severity] for severity in counted)
        if self.mode is Mode.CHECK:
            bad = self._counts[Status.WOULD_CHANGE]
        return FOUND if bad and not self._exit_zero else OK

    @property
    def summary(self) -> str:
        """`3 files would change, 2 skipped. Run again with --write to apply.`"""
        counts = self._counts
        if self.mode is Mode.REPORT:
            severities = ", ".join(
                plural(counts[name], name) for name in ("error", "warning", "note")
            )
            checked = plural(counts[Status.CHECKED], self._subject)
            return f"checked {checked}: {severities}, {counts['skipped']} skipped"
        main = Status.CHANGED if self.mode is Mode.WRITE else Status.WOULD_CHANGE
        others = [(status.value, counts[status]) for status in (Status.UNCHANGED, Status.REFUSED)]
        others.append(("skipped", counts["skipped"]))
        rest = "".join(f", {count} {name}" for name, count in others if count)
        hint = " Run again with --write to apply." if counts[Status.WOULD_CHANGE] else ""
        return f"{plural(counts[main], self._subject)} {main.value}{rest}.{hint}"

    def machine_text(self, docs_url: str = "") -> str:
        """The whole run in a machine-readable format; empty if there is nothing to say."""
        # What could not be looked at, for formats that know findings and errors only.
        unusable = self._problems + [
            Problem(skipped.path, f"skipped: {skipped.reason}", skipped.line)
            for skipped in self._skipped
            if skipped.cause.damaged
        ]
        if self.form == "json":
            return document(
                self._command,
                {
                    **self.extra,
                    "files": self._files,
                    "findings": [row.data for row in self._findings],
                    "skipped": [
                        {**asdict(skipped), "cause": skipped.cause.value}
                        for skipped in self._skipped
                    ],
                    "problems": [asdict(problem) for problem in self._problems],
                },
            )
        if self.form == "sarif":
            from arc_toolkit.output.sarif import sarif

            return sarif(
                self._findings, self._rules, unusable, command=self._command, docs_url=docs_url
            )
        if self.form == "github":
            from arc_toolkit.output.github import workflow_commands

            return workflow_commands([row.finding for row in self._findings], unusable)
        return ""


def diff(result: FileResult, new_files: NewFiles) -> str:
    changed = (
        unified(result.path, result.before, result.after) if result.changed and result.after else ""
    )
    return changed + "".join(unified(path, None, content) for path, content in new_files)


_line_starts = lru_cache(maxsize=1)(line_starts)  # a file has many findings


def replacements(text: str, edits: Iterable[Edit]) -> tuple[Replacement, ...]:
    """The edits of a text, in its order."""
    starts = _line_starts(text)

    def position(offset: int) -> tuple[int, int]:
        line = bisect_right(starts, offset)
        return line, offset - starts[line - 1] + 1

    ordered = sorted(edits, key=lambda edit: (edit.start, edit.end))
    return tuple(
        Replacement(*position(edit.start), *position(edit.end), edit.text) for edit in ordered
    )


def _quoted(source: Sequence[str], number: int) -> str | None:
    """One line of a text, shortened; None if there is none."""
    if not 0 < number <= len(source):
        return None
    line = source[number - 1].rstrip("\r").replace("\t", " ")
    return line if len(line) <= 160 else line[:157] + "..."
