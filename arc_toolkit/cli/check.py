"""`check`: the rules of `patch` as findings; nothing is changed."""

from __future__ import annotations

import argparse

from arc_toolkit.cli.console import Console
from arc_toolkit.cli.patch_options import add_common

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
    from arc_toolkit.azureml.azureml_files import AzureMLFiles
    from arc_toolkit.azureml.rules import all_rules
    from arc_toolkit.batch import run as run_over
    from arc_toolkit.cli.patch_options import settings_by_folder, settings_of
    from arc_toolkit.cli.reporter import Reporter
    from arc_toolkit.output.run_report import RunReport

    engine = AzureMLFiles(settings_of(args), settings_by_folder(args))
    report = RunReport("check", args.format, all_rules(), exit_zero=args.exit_zero)
    reporter = Reporter(report, console, text=args.format == "text")
    for outcome in reporter.reported(run_over(args.paths, engine, console.progress)):
        if outcome.result is not None:
            reporter.findings(outcome.result, report.file(outcome.result)[1])
    return reporter.finish()
