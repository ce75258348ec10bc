"""Printing what a run over files found: text as it comes, or one document at the end. For every such command."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from arc_toolkit.cli.console import Console
from arc_toolkit.cli.option_table import add_options
from arc_toolkit.errors import ArcError

if TYPE_CHECKING:
    from arc_toolkit.batch import Outcome
    from arc_toolkit.edit.files.discover import Problem, Skipped
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


def rule_names(option: str, names: Iterable[str], known: Collection[str]) -> frozenset[str]:
    """The rules that an option names, each of which must exist."""
    from arc_toolkit.ignore_rules import name_hint

    chosen = frozenset(part.strip() for name in names for part in name.split(",") if part.strip())
    for name in sorted(chosen.difference(known)):
        raise ArcError(f"{option}: no rule `{name}`: {name_hint(name, known)}")
    return chosen


def _docs_url() -> str:
    """Where the documentation is published, for links to the pages of rules."""
    url = os.environ.get("ARC_TOOLKIT_DOCS_URL", "").rstrip("/")
    if url and "://" not in url:
        raise ArcError(f"ARC_TOOLKIT_DOCS_URL is {url!r}: use the full address of the folder docs")
    return url


class Reporter:
    """The two ends of a `RunReport`: what happens goes in, and out to the console."""

    def __init__(self, report: RunReport, console: Console, *, text: bool) -> None:
        self.report, self._console, self._is_text = report, console, text

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
        self._console.clear_progress()
        style: Callable[..., str] = self._error_style if beside else self._console.style
        print_text = self._console.note if beside else self._console.out
        for row in rows:
            print_text(row.text(style))

    def _error_style(self, text: str, *names: str) -> str:
        return self._console.style(text, *names, stream=sys.stderr)

    def finish(self, *notes: str) -> int:
        """The document of a machine-readable format, the notes and the summary line; the exit code."""
        if text := self.report.machine_text(_docs_url()):
            self._console.out(text)
        for note in (*notes, self.report.summary):
            self._console.note(note)
        return self.report.exit_code
