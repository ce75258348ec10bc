"""`patch`: settings into AzureML files, and what the rules can fix; a diff by default."""

from __future__ import annotations

import argparse

from arc_toolkit.azureml.settings import SETTING_RULES
from arc_toolkit.cli.console import Console
from arc_toolkit.cli.patch_options import add_common, add_patch

EPILOG = """\
examples:
  arc-toolkit patch . --instance-type 32cpu128g --instance-count 2 --threads auto
  arc-toolkit patch components/ pipelines/ --expose-parameters --instance-type 32cpu128g --write
  printf 'command: python t.py\\nenvironment: e\\ncompute: azureml:aks\\n' | arc-toolkit patch - --instance-type 8cpu32g

exit codes: 0 done, 1 --check and something would change, 2 something that was asked for could not be set, or a path
or file cannot be used
"""

# Settings whose notes say what was decided.
_DECISIONS = ("threads", "expose-parameters", "sweep-to-v2", "prs-to-v2")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_common(parser)
    add_patch(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    from arc_toolkit.azureml.azureml_files import AzureMLFiles
    from arc_toolkit.azureml.rules import all_rules
    from arc_toolkit.cli.changed_files import ChangedFiles
    from arc_toolkit.cli.patch_options import settings_by_folder, settings_of
    from arc_toolkit.output.run_report import Mode, RunReport

    settings, by_folder = settings_of(args), settings_by_folder(args)
    conversions = None
    if any(item.sweep_to_v2 or item.prs_to_v2 for item in (settings, *by_folder.values())):
        from arc_toolkit.migrate.conversions import V2Conversions

        conversions = V2Conversions()
    engine = AzureMLFiles(settings, by_folder, conversions)
    mode = Mode.WRITE if args.write else Mode.CHECK if args.check else Mode.DIFF
    report = RunReport(
        "patch", args.format, all_rules(), mode, exit_zero=args.exit_zero, settings=SETTING_RULES
    )
    return ChangedFiles(report, console, mode, SETTING_RULES, _DECISIONS).run(args.paths, engine)
