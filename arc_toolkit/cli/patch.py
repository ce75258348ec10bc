"""`patch`: settings into AzureML files, and what the rules can fix; a diff by default."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from arc_toolkit.azureml.settings import SETTING_RULES
from arc_toolkit.cli.console import Console
from arc_toolkit.cli.patch_options import add_common, add_patch

if TYPE_CHECKING:
    from arc_toolkit.cli.reporter import Reporter
    from arc_toolkit.findings import FileResult
    from arc_toolkit.output.run_report import Mode, ReportedFinding, RunReport

EPILOG = """\
examples:
  arc-toolkit patch . --instance-type 32cpu128g --instance-count 2 --threads auto
  arc-toolkit patch components/ pipelines/ --expose-parameters --instance-type 32cpu128g --write
  printf 'command: python t.py\\nenvironment: e\\ncompute: azureml:aks\\n' | arc-toolkit patch - --instance-type 8cpu32g

exit codes: 0 done, 1 --check and something would change, 2 something that was asked for could not be set, or a path
or file cannot be used
"""

# Notes that say what was decided are shown each; others about a setting are summed up below folders.
_DECISIONS = ("threads", "expose-parameters", "sweep-to-v2", "prs-to-v2")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_common(parser)
    add_patch(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    from arc_toolkit.azureml.azureml_files import AzureMLFiles
    from arc_toolkit.azureml.rules import all_rules
    from arc_toolkit.batch import run as run_over
    from arc_toolkit.cli.patch_options import settings_by_folder, settings_of
    from arc_toolkit.cli.reporter import Reporter
    from arc_toolkit.output.run_report import Mode, RunReport

    engine = AzureMLFiles(settings_of(args), settings_by_folder(args))
    mode = Mode.WRITE if args.write else Mode.CHECK if args.check else Mode.DIFF
    report = RunReport("patch", args.format, all_rules(), mode, exit_zero=args.exit_zero, settings=SETTING_RULES)
    is_text = args.format == "text"
    patch = _Patch(report, Reporter(report, console, text=is_text), console, mode, is_text)
    for outcome in patch.reporter.reported(run_over(args.paths, engine, console.progress)):
        if outcome.result is not None:
            patch.file(outcome.result, outcome.named)
        patch.echo(outcome.stdin)
    return patch.reporter.finish(*patch.notes())


def _summed(rows: Sequence[ReportedFinding]) -> list[ReportedFinding]:
    """What a setting does or cannot do for one reason is one note, whatever the number of its steps."""
    groups: dict[object, list[ReportedFinding]] = {}
    for row in rows:
        finding = row.finding
        is_setting = finding.rule in SETTING_RULES and finding.reason
        key = (finding.rule, finding.severity, finding.reason, finding.applied) if is_setting else id(row)
        groups.setdefault(key, []).append(row)
    summed = []
    for first, *more in groups.values():
        if more:
            count = f"the same at {len(more)} more place{'s' * (len(more) > 1)} (--verbose shows them)"
            finding = replace(first.finding, reason=f"{first.finding.reason}; {count}")
            first = replace(first, finding=finding)
        summed.append(first)
    return summed


class _Patch:
    """Writes or shows each file as it comes."""

    def __init__(self, report: RunReport, reporter: Reporter, console: Console, mode: Mode, is_text: bool) -> None:
        self.reporter, self._report, self._console = reporter, report, console
        self._mode, self._is_text = mode.value, is_text
        # What was asked and could not be set, by setting and reason: the files below the given folders.
        self._not_set: dict[tuple[str, str], set[str]] = {}

    def echo(self, data: bytes) -> None:
        """Standard input as bytes, for `--write`: a filter gives back also what it does not change."""
        if data and self._mode == "write" and self._is_text:
            sys.stdout.flush()
            sys.stdout.buffer.write(data)

    def file(self, result: FileResult, named: bool) -> None:
        from arc_toolkit.batch import pending, write

        new = pending(result)
        writes = self._mode == "write" and result.path != "-" and (result.changed or new)
        problems = write(result) if writes else []
        for problem in problems:
            self.reporter.problem(problem)
        _, rows = self._report.file(result, new, writing_failed=bool(problems))
        if not self._is_text:
            return
        self._console.clear_progress()
        if not problems:
            self._show(result, new)
        shown = [row for row in rows if self._is_shown(row, named)]
        self.reporter.findings(result, shown if self._console.verbose else _summed(shown), beside=True)
        if result.refused:
            self._console.warn(f"{result.path} is not changed: {result.refused}")
        elif named and not (result.changed or new or shown):
            self._console.note(
                f"{result.path} is not changed: {result.unchanged or 'nothing in it needs a change'}"
            )

    def _is_shown(self, row: ReportedFinding, named: bool) -> bool:
        finding = row.finding
        setting = finding.rule in SETTING_RULES
        decided = finding.severity != "note" or finding.rule in _DECISIONS
        if decided or self._console.verbose or (setting and named):
            return True
        if setting:
            self._not_set.setdefault((finding.rule, finding.reason), set()).add(finding.path)
        return False

    def notes(self) -> list[str]:
        return [
            f"{rule} is not set everywhere in {len(paths)} file{'s' * (len(paths) != 1)}: {why} (--verbose shows where)"
            for (rule, why), paths in self._not_set.items()
        ]

    def _show(self, result: FileResult, new: Sequence[tuple[str, bytes]]) -> None:
        from arc_toolkit.output.run_report import diff

        console = self._console
        if result.path == "-" and self._mode == "write":
            self.echo(result.after if result.after is not None else result.before)
            for name, _ in new:
                console.warn(f"{name} is not written: standard input has no folder for it")
        elif self._mode == "diff":
            console.out(self._colored(diff(result, new)), end="")
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
            style(line.rstrip("\n"), colors[line[0]]) + "\n" if line[:1] in colors else line for line in lines
        )
