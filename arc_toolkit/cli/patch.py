"""`patch`: settings into AzureML files, and what the rules can mend; a diff by default."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

from arc_toolkit.azureml.settings import SETTING_RULES
from arc_toolkit.cli.check import show_machine, tell_skipped, unusable
from arc_toolkit.cli.patch_options import add_common, add_patch
from arc_toolkit.console import Console
from arc_toolkit.errors import FOUND, OK, USAGE

if TYPE_CHECKING:
    from arc_toolkit.edit.discover import Problem, Skipped
    from arc_toolkit.findings import FileResult, Finding

EPILOG = """\
examples:
  arc-toolkit patch . --instance-type 32cpu128g --instance-count 2 --threads auto
  arc-toolkit patch components/ pipelines/ --expose-parameters --instance-type 32cpu128g --write
  printf 'command: python t.py\\nenvironment: e\\ncompute: azureml:aks\\n' | arc-toolkit patch - --instance-type 8cpu32g

exit codes: 0 done, 1 --check and something would change, 2 a path or file that cannot be used
"""

# Notes that say what was decided are shown each; others about a setting are summed up below folders.
_DECISIONS = ("threads", "expose-parameters", "sweep-to-v2", "prs-to-v2")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_common(parser)
    add_patch(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    from arc_toolkit.azureml.batch import run as run_over
    from arc_toolkit.cli.patch_options import settings_of

    report = Report(args, console)
    for outcome in run_over(args.paths, settings_of(args), console.progress):
        if outcome.problem is not None:
            report.problem(outcome.problem.message)
        elif outcome.skipped is not None:
            report.skip(outcome.skipped, outcome.named)
        elif outcome.result is not None:
            report.file(outcome.result, outcome.named)
        report.echo(outcome.stdin)
        if (problem := unusable(outcome)) is not None:
            report.lost.append(problem)
    return report.finish()


class Report:
    """Shows each result as it comes, and owns the counts, the summary and the exit code."""

    def __init__(self, args: argparse.Namespace, console: Console) -> None:
        self._args = args
        self._console = console
        self._counts: Counter[str] = Counter()
        self._files: list[dict[str, Any]] = []
        self._findings: list[Finding] = []
        self._rows: list[dict[str, Any]] = []
        self._skipped: list[dict[str, Any]] = []
        self._problems: list[str] = []
        self.lost: list[Problem] = []
        # What was asked and could not be placed, by setting and reason: the files below the given folders.
        self._not_placed: dict[tuple[str, str], set[str]] = {}

    def problem(self, message: str) -> None:
        self._problems.append(message)
        self._console.warn(message)

    def skip(self, left: Skipped, named: bool) -> None:
        self._counts["skipped"] += 1
        if self._args.format == "json":
            from arc_toolkit.output.findings_text import skipped_data

            self._skipped.append(skipped_data(left))
        tell_skipped(self._console, left, named)

    def echo(self, data: bytes) -> None:
        """Standard input as bytes, for `--write`: a filter gives back also what it does not change."""
        if data and self._args.write and self._args.format == "text":
            sys.stdout.flush()
            sys.stdout.buffer.write(data)

    def file(self, result: FileResult, named: bool) -> None:
        from arc_toolkit.azureml.batch import pending, write
        from arc_toolkit.output.findings_text import finding_text

        new = pending(result)
        status = "changed" if result.changed or new else "refused" if result.refused else "unchanged"
        if self._args.write and status == "changed" and result.path != "-":
            problems = write(result)
            for problem in problems:
                self.problem(problem.message)
            if problems:
                status = "refused"
        self._counts[status] += 1
        written = self._args.write and status == "changed" and result.path != "-"
        if self._args.format in ("sarif", "github"):
            self._findings += result.findings
        if self._args.format == "json":
            from arc_toolkit.output.findings_text import finding_data

            self._files.append(self._data(result, new, status))
            self._rows += [finding_data(finding, written=written) for finding in result.findings]
        if self._args.format == "text":
            self._console.clear_progress()
            self._show(result, new, status)
            shown = []
            for one in result.findings:
                asked = one.rule in SETTING_RULES
                if one.severity != "note" or self._console.verbose or one.rule in _DECISIONS or (asked and named):
                    shown.append(one)
                elif asked:
                    self._not_placed.setdefault((one.rule, one.reason), set()).add(one.path)
            for finding in shown:
                source = result.before if finding.path == result.path else b""
                self._console.note(finding_text(finding, source, self._err_style, check=False))
            if result.refused and not any(result.refused in one.reason for one in shown):
                self._console.warn(f"{result.path} is left as it is: {result.refused}")

    def _err_style(self, text: str, *names: str) -> str:
        return self._console.style(text, *names, stream=sys.stderr)

    def _show(self, result: FileResult, new: list[tuple[str, bytes]], status: str) -> None:
        console = self._console
        if result.path == "-" and self._args.write:
            self.echo(result.after if result.after is not None else result.before)
            for name, _ in new:
                console.warn(f"{name} is not written: standard input has no folder for it")
            return
        if status != "changed":
            return
        names = [*([result.path] if result.changed else []), *(path for path, _ in new)]
        if self._args.check:
            for name in names:
                console.out(f"would change {name}")
        elif self._args.write:
            for name in names:
                console.out(f"wrote {name}")
        else:
            console.out(self._colored(self._diff(result, new)), end="")

    def _diff(self, result: FileResult, new: list[tuple[str, bytes]]) -> str:
        from arc_toolkit.edit.diff import unified

        changed = unified(result.path, result.before, result.after) if result.changed and result.after else ""
        return changed + "".join(unified(path, None, content) for path, content in new)

    def _colored(self, diff: str) -> str:
        style = self._console.style
        if style("x", "red") == "x":
            return diff
        colors = {"+": "green", "-": "red", "@": "cyan"}
        lines = diff.splitlines(keepends=True)
        return "".join(
            style(line.rstrip("\n"), colors[line[0]]) + "\n" if line[:1] in colors else line for line in lines
        )

    def _data(self, result: FileResult, new: list[tuple[str, bytes]], status: str) -> dict[str, Any]:
        return {
            "path": result.path,
            "status": status,
            "refused": result.refused,
            "diff": self._diff(result, new),
            "new_files": [path for path, _ in new],
        }

    def finish(self) -> int:
        from arc_toolkit.output.findings_text import summary

        if self._args.format == "json":
            from arc_toolkit.output.jsonout import document

            payload = {
                "files": self._files,
                "findings": self._rows,
                "skipped": self._skipped,
                "problems": self._problems,
            }
            self._console.out(document("patch", payload))
        else:
            show_machine(self._args.format, self._findings, self._console, self.lost)
        for (rule, why), paths in self._not_placed.items():
            number = f"{len(paths)} file{'s' * (len(paths) != 1)}"
            self._console.note(f"{rule} is not set everywhere in {number}: {why} (--verbose shows where)")
        self._console.note(self._sentence(summary(self._counts, ["changed", "unchanged", "refused", "skipped"])))
        if self._problems or self._counts["refused"]:
            return USAGE
        return FOUND if self._args.check and self._counts["changed"] and not self._args.exit_zero else OK

    def _sentence(self, numbers: str) -> str:
        if self._args.write or self._args.check or not self._counts["changed"]:
            return f"files: {numbers}"
        return f"files: {numbers} (nothing is written: give --write)"
