"""A run that changes files, for `patch` and `place`: a diff by default, written or only counted on request."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from dataclasses import replace

from arc_toolkit import batch
from arc_toolkit.batch import Engine
from arc_toolkit.cli.console import Console
from arc_toolkit.cli.reporter import Reporter
from arc_toolkit.findings import FileResult
from arc_toolkit.output.run_report import Mode, ReportedFinding, RunReport, diff


def _summed(rows: Sequence[ReportedFinding], settings: Collection[str]) -> list[ReportedFinding]:
    """What a setting does or cannot do for one reason is one note, whatever the number of its steps."""
    groups: dict[object, list[ReportedFinding]] = {}
    for row in rows:
        finding = row.finding
        is_setting = finding.rule in settings and finding.reason
        key = (
            (finding.rule, finding.severity, finding.reason, finding.applied)
            if is_setting
            else id(row)
        )
        groups.setdefault(key, []).append(row)
    summed = []
    for first, *more in groups.values():
        if more:
            count = (
                f"the same at {len(more)} more place{'s' * (len(more) > 1)} (--verbose shows them)"
            )
            finding = replace(first.finding, reason=f"{first.finding.reason}; {count}")
            first = replace(first, finding=finding)
        summed.append(first)
    return summed


class ChangedFiles:
    """Writes or shows each file as it comes."""

    def __init__(
        self,
        report: RunReport,
        console: Console,
        mode: Mode,
        settings: Collection[str],
        decisions: Collection[str],
    ) -> None:
        self._report, self._console, self._mode = report, console, mode.value
        self._is_text = report.form == "text"
        self._reporter = Reporter(report, console, text=self._is_text)
        # The rules that are settings, and those of them whose notes say what was decided: these are shown each, the
        # others are summed up below folders.
        self._settings, self._decisions = settings, decisions
        # What was asked and could not be set, by setting and reason: the files below the given folders.
        self._not_set: dict[tuple[str, str], set[str]] = {}

    def run(self, paths: Sequence[str], engine: Engine) -> int:
        """Every file of the paths; the exit code."""
        for outcome in self._reporter.reported(batch.run(paths, engine, self._console.progress)):
            if outcome.result is not None:
                self._file(outcome.result, outcome.named)
            self._echo(outcome.stdin)
        return self._reporter.finish(*self._notes())

    def _echo(self, data: bytes) -> None:
        """Standard input as bytes, for `--write`: a filter gives back also what it does not change."""
        if data and self._mode == "write" and self._is_text:
            sys.stdout.flush()
            sys.stdout.buffer.write(data)

    def _file(self, result: FileResult, named: bool) -> None:
        new = batch.pending(result)
        writes = self._mode == "write" and result.path != "-" and (result.changed or new)
        problems = batch.write(result) if writes else []
        for problem in problems:
            self._reporter.problem(problem)
        _, rows = self._report.file(result, new, writing_failed=bool(problems))
        if not self._is_text:
            return
        self._console.clear_progress()
        if not problems:
            self._show(result, new)
        shown = [row for row in rows if self._is_shown(row, named)]
        self._reporter.findings(
            shown if self._console.verbose else _summed(shown, self._settings), beside=True
        )
        if result.refused:
            self._console.warn(f"{result.path} is not changed: {result.refused}")
        elif named and not (result.changed or new or shown):
            self._console.note(
                f"{result.path} is not changed: {result.unchanged or 'nothing in it needs a change'}"
            )

    def _is_shown(self, row: ReportedFinding, named: bool) -> bool:
        finding = row.finding
        setting = finding.rule in self._settings
        decided = finding.severity != "note" or finding.rule in self._decisions
        if decided or self._console.verbose or (setting and named):
            return True
        if setting:
            self._not_set.setdefault((finding.rule, finding.reason), set()).add(finding.path)
        return False

    def _notes(self) -> list[str]:
        return [
            f"{rule} is not set everywhere in {len(paths)} file{'s' * (len(paths) != 1)}: {why} (--verbose shows where)"
            for (rule, why), paths in self._not_set.items()
        ]

    def _show(self, result: FileResult, new: Sequence[tuple[str, bytes]]) -> None:
        console = self._console
        if result.path == "-" and self._mode == "write":
            self._echo(result.after if result.after is not None else result.before)
            for name, _ in new:
                console.warn(f"{name} is not written: standard input has no folder for it")
        elif self._mode == "diff":
            # As bytes: a diff has to apply, also of a file that is not UTF-8.
            sys.stdout.flush()
            sys.stdout.buffer.write(
                self._colored(diff(result, new)).encode(errors="surrogateescape")
            )
        else:
            verb = "wrote" if self._mode == "write" else "would change"
            for name in [*([result.path] if result.changed else []), *(path for path, _ in new)]:
                console.out(f"{verb} {name}")

    def _colored(self, diff: str) -> str:
        style = self._console.style
        if style("x", "red") == "x":
            return diff
        colors = {"+": "green", "-": "red", "@": "cyan"}
        lines = diff.splitlines(keepends=True)
        return "".join(
            style(line.rstrip("\n"), colors[line[0]]) + "\n" if line[:1] in colors else line
            for line in lines
        )
