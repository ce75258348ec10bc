"""Printing what a run over files found or changes: text as it comes, or one document at the end.

For `patch`, `place`, `check` and `validate`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from arc_toolkit.cli.console import Console
from arc_toolkit.cli.option_table import add_options
from arc_toolkit.errors import ArcError

if TYPE_CHECKING:
    from arc_toolkit.batch import Engine, Outcome
    from arc_toolkit.edit.files.discover import Problem, Skipped
    from arc_toolkit.findings import FileResult, Rule
    from arc_toolkit.output.run_report import ReportedFinding, RunReport


def add_report_options(parser: argparse.ArgumentParser, subject: str = "rule") -> None:
    """Which rules, in which format."""
    table = f"""
which rules:
  --only RULE ...       only this {subject}; repeat for more
  --skip RULE ...       not this {subject}; repeat for more
report:
  --format {{text,json,sarif,github}} [text]    output format
  --exit-zero           exit 0 even if there are findings or changes
"""
    add_options(parser, table)


def rule_names(option: str, names: Iterable[str], rules: Collection[str]) -> frozenset[str]:
    """The rules that an option names, each of which must exist."""
    from arc_toolkit.ignore_rules import name_hint

    chosen = frozenset(part.strip() for name in names for part in name.split(",") if part.strip())
    for name in sorted(chosen.difference(rules)):
        raise ArcError(f"{option}: no rule `{name}`: {name_hint(name, rules)}")
    return chosen


def _docs_url() -> str:
    """Where the documentation is published, for links to the pages of rules."""
    url = os.environ.get("ARC_TOOLKIT_DOCS_URL", "").rstrip("/")
    if url and "://" not in url:
        raise ArcError(f"ARC_TOOLKIT_DOCS_URL is {url!r}: use the full address of the folder docs")
    return url


class Reporter:
    """The two ends of a `RunReport`: what happens goes in, and out to the console."""

    def __init__(self, report: RunReport, console: Console) -> None:
        self.report, self._console, self._is_text = report, console, report.form == "text"

    def problem(self, problem: Problem) -> None:
        self.report.problem(problem)
        self._console.warn(problem.message)

    def skip(self, skipped: Skipped, *, named: bool) -> None:
        """What is damaged or was named is always reported, anything else only with --verbose."""
        self.report.skip(skipped)
        tell = self._console.note if named or skipped.cause.damaged else self._console.detail
        tell(f"skipped {skipped.place}: {skipped.reason}")

    def reported(self, outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
        """The outcomes of a run, after problems and skipped files among them are reported."""
        for outcome in outcomes:
            if outcome.problem is not None:
                self.problem(outcome.problem)
            elif outcome.skipped is not None:
                self.skip(outcome.skipped, named=outcome.named)
            yield outcome

    def findings(self, rows: Sequence[ReportedFinding], *, beside: bool = False) -> None:
        """The findings of a file as text: the result of the run, or (`beside`) notes beside it."""
        if not self._is_text:
            return
        style: Callable[..., str] = self._error_style if beside else self._console.style
        print_text = self._console.note if beside else self._console.out
        for row in rows:
            print_text(row.text(style))

    def _error_style(self, text: str, *names: str) -> str:
        return self._console.style(text, *names, stream=sys.stderr)

    def finish(self, *notes: str) -> int:
        """Print the document of a machine-readable format, the notes and the summary; the exit
        code.
        """
        if text := self.report.machine_text(_docs_url()):
            self._console.out(text)
        for note in (*notes, self.report.summary):
            self._console.note(note)
        return self.report.exit_code


class ChangedFiles(Reporter):
    """A run that changes files: shows a diff, writes them, or only counts them.

    `settings` are the rules that are settings. Their notes are summed up below folders, except
    those of `decisions`, which say what was decided.
    """

    def __init__(
        self,
        report: RunReport,
        console: Console,
        settings: Collection[str],
        decisions: Collection[str] = (),
    ) -> None:
        super().__init__(report, console)
        self._mode = report.mode.value
        self._settings, self._decisions = settings, decisions
        # (setting, reason why it could not be set) -> the files below the given folders
        self._not_set: dict[tuple[str, str], set[str]] = {}

    def run(self, paths: Sequence[str], engine: Engine) -> int:
        """Every file of the paths; the exit code."""
        from arc_toolkit import batch
        from arc_toolkit.text import plural

        for outcome in self.reported(batch.run(paths, engine, self._console.progress)):
            if outcome.result is not None:
                self._file(outcome.result, outcome.named)
            self._echo(outcome.stdin)
        notes = [
            f"{rule} is not set everywhere in {plural(len(paths), 'file')}: {reason} "
            "(--verbose shows where)"
            for (rule, reason), paths in self._not_set.items()
        ]
        return self.finish(*notes)

    def _echo(self, data: bytes) -> None:
        """Standard input, for `--write`: a filter also gives back what it does not change."""
        if data and self._mode == "write" and self._is_text:
            self._console.out_bytes(data)

    def _file(self, result: FileResult, named: bool) -> None:
        from arc_toolkit import batch

        new = batch.pending(result)
        writes = self._mode == "write" and result.path != "-" and (result.changed or new)
        problems = batch.write(result) if writes else []
        for problem in problems:
            self.problem(problem)
        _, rows = self.report.file(result, new, writing_failed=bool(problems))
        if not self._is_text:
            return
        if not problems:
            self._show(result, new)
        shown = [row for row in rows if self._is_shown(row, named)]
        if not self._console.verbose:
            shown = _summed(shown, self._settings)
        self.findings(shown, beside=True)
        if result.refused:
            self._console.warn(f"{result.path} is not changed: {result.refused}")
        elif named and not (result.changed or new or shown):
            reason = result.unchanged or "nothing in it needs a change"
            self._console.note(f"{result.path} is not changed: {reason}")

    def _is_shown(self, row: ReportedFinding, named: bool) -> bool:
        finding = row.finding
        is_setting = finding.rule in self._settings
        decided = finding.severity != "note" or finding.rule in self._decisions
        if decided or self._console.verbose or (is_setting and named):
            return True
        if is_setting:
            self._not_set.setdefault((finding.rule, finding.reason), set()).add(finding.path)
        return False

    def _show(self, result: FileResult, new: Sequence[tuple[str, bytes]]) -> None:
        from arc_toolkit.output.run_report import diff

        console = self._console
        if result.path == "-" and self._mode == "write":
            self._echo(result.after if result.after is not None else result.before)
            for name, _ in new:
                console.warn(f"{name} is not written: standard input has no folder for it")
        elif self._mode == "diff":
            # As bytes: a diff has to apply, also of a file that is not UTF-8.
            console.out_bytes(self._colored(diff(result, new)).encode(errors="surrogateescape"))
        else:
            verb = "wrote" if self._mode == "write" else "would change"
            for name in [*([result.path] if result.changed else []), *(path for path, _ in new)]:
                console.out(f"{verb} {name}")

    def _colored(self, diff: str) -> str:
        style = self._console.style
        if style("x", "red") == "x":
            return diff
        colors = {"+": "green", "-": "red", "@": "cyan"}
        return "".join(
            style(line.rstrip("\n"), colors[line[0]]) + "\n" if line[:1] in colors else line
            for line in diff.splitlines(keepends=True)
        )


def change_files(
    command: str,
    args: argparse.Namespace,
    console: Console,
    engine: Engine,
    rules: Mapping[str, Rule],
    settings: Collection[str],
    decisions: Collection[str] = (),
) -> int:
    """`patch` and `place`: a diff, or as --write and --check say."""
    from arc_toolkit.output.run_report import Mode, RunReport

    mode = Mode.WRITE if args.write else Mode.CHECK if args.check else Mode.DIFF
    report = RunReport(
        command, args.format, rules, mode, exit_zero=args.exit_zero, settings=settings
    )
    return ChangedFiles(report, console, settings, decisions).run(args.paths, engine)


def _summed(rows: Sequence[ReportedFinding], settings: Collection[str]) -> list[ReportedFinding]:
    """One note for what a setting does, or cannot do, for the same reason in several places."""
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
