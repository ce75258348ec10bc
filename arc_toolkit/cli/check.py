"""`check`: the rules of `patch` as findings; nothing is changed."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from arc_toolkit.cli.patch_options import add_common
from arc_toolkit.console import Console
from arc_toolkit.errors import FOUND, OK, USAGE

if TYPE_CHECKING:
    from arc_toolkit.azureml.batch import Outcome
    from arc_toolkit.edit.discover import Problem, Skipped
    from arc_toolkit.findings import Finding

EPILOG = """\
examples:
  arc-toolkit check .
  arc-toolkit check pipelines/ components/ --instance-types instance_types/ --format sarif > findings.sarif
  printf 'command: python t.py\\nenvironment: e\\ncompute: azureml:aks\\n' | arc-toolkit check -

exit codes: 0 nothing but notes, 1 an error or a warning, 2 a path that cannot be used
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_common(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    from arc_toolkit.azureml.batch import run as run_over
    from arc_toolkit.cli.patch_options import settings_of
    from arc_toolkit.output.findings_text import finding_data, finding_text, skipped_data

    settings = settings_of(args)
    counts: Counter[str] = Counter()
    findings: list[Finding] = []
    skipped: list[dict[str, object]] = []
    problems: list[str] = []
    lost: list[Problem] = []
    for outcome in run_over(args.paths, settings, console.progress):
        if (problem := unusable(outcome)) is not None:
            lost.append(problem)
        if outcome.problem is not None:
            problems.append(outcome.problem.message)
            console.warn(outcome.problem.message)
        elif outcome.skipped is not None:
            counts["skipped"] += 1
            left = outcome.skipped
            skipped.append(skipped_data(left))
            tell_skipped(console, left, outcome.named)
        elif outcome.result is not None:
            counts["files"] += 1
            for finding in sorted(outcome.result.findings, key=lambda one: (one.line, one.column, one.rule)):
                findings.append(finding)
                counts[finding.severity] += 1
                if args.format == "text":
                    console.clear_progress()
                    source = outcome.result.before if finding.path == outcome.result.path else b""
                    console.out(finding_text(finding, source, console.style, check=True))
    if args.format == "json":
        from arc_toolkit.output.jsonout import document

        payload = {
            "files": counts["files"],
            "findings": [finding_data(finding, written=False) for finding in findings],
            "skipped": skipped,
            "problems": problems,
        }
        console.out(document("check", payload))
    else:
        show_machine(args.format, findings, console, lost)
    parts = [_number(counts[name], name) for name in ("error", "warning", "note")]
    console.note(f"checked {_number(counts['files'], 'file')}: {', '.join(parts)}, {counts['skipped']} skipped")
    if problems:
        return USAGE
    return FOUND if (counts["error"] or counts["warning"]) and not args.exit_zero else OK


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def unusable(outcome: Outcome) -> Problem | None:
    """What SARIF and GitHub are to know about a file that could not be looked at."""
    from arc_toolkit.edit.discover import Problem

    left = outcome.skipped
    if left is not None and left.cause.damaged:
        return Problem(left.path, f"skipped: {left.reason}", left.line)
    return outcome.problem


def show_machine(form: str, findings: list[Finding], console: Console, problems: Sequence[Problem] = ()) -> None:
    """SARIF and GitHub annotations, for `check` and `patch` alike."""
    if form == "sarif":
        from arc_toolkit.azureml.rules import all_rules
        from arc_toolkit.output.sarif import sarif

        console.out(sarif(findings, list(all_rules().values()), problems))
    elif form == "github" and (findings or problems):
        from arc_toolkit.output.github import workflow_commands

        console.out(workflow_commands(findings, problems))


def tell_skipped(console: Console, left: Skipped, named: bool) -> None:
    """What is broken or was named is said aloud; what is just none of ours only with --verbose."""
    tell = console.note if named or left.cause.damaged else console.detail
    tell(f"skipped {left.place}: {left.reason}")
