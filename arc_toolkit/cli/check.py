"""`check`: the rules for AzureML files and Kubernetes manifests as findings; nothing is changed."""

from __future__ import annotations

import argparse

from arc_toolkit.cli.console import Console
from arc_toolkit.cli.patch import add_common
from arc_toolkit.edit.files.discover import CODE_ENDINGS, ENDINGS
from arc_toolkit.edit.files.edits import SkipCause
from arc_toolkit.findings import FileResult

EPILOG = """\
examples:
  arc-toolkit check .
  arc-toolkit check . --only no-retry-on-spot
  arc-toolkit check components/ --instance-types instance_types/ --format sarif > findings.sarif
  printf 'command: python t.py\\nenvironment: e\\ncompute: azureml:aks\\n' | arc-toolkit check -

exit codes: 0 nothing but notes, 1 an error or a warning, 2 a path that cannot be used
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_common(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    from arc_toolkit.azureml.rules import all_rules
    from arc_toolkit.batch import run as run_over
    from arc_toolkit.cli.reporter import Reporter
    from arc_toolkit.output.run_report import RunReport
    from arc_toolkit.placement.rules import manifest_rules

    rules = {**all_rules(), **manifest_rules()}
    report = RunReport("check", args.format, rules, exit_zero=args.exit_zero)
    reporter = Reporter(report, console)
    for outcome in reporter.reported(run_over(args.paths, CheckedFiles(args), console.progress)):
        if outcome.result is not None:
            reporter.findings(report.file(outcome.result)[1])
    return reporter.finish()


class CheckedFiles:
    """Each file to the rules of what it is: AzureML, or else Kubernetes."""

    subject = "AzureML files or Kubernetes workloads"
    endings = ENDINGS

    def __init__(self, args: argparse.Namespace) -> None:
        from arc_toolkit.azureml.azureml_files import AzureMLFiles
        from arc_toolkit.cli.patch import settings_by_folder, settings_of
        from arc_toolkit.placement.place_files import CheckedManifests
        from arc_toolkit.placement.place_plan import PlaceSettings

        settings = settings_of(args)
        self._azureml = AzureMLFiles(settings, settings_by_folder(args))
        self._manifests = CheckedManifests(PlaceSettings(only=settings.only, skip=settings.skip))
        self.finish = self._azureml.finish

    def prepare(self, path: str, data: bytes) -> None:
        self._azureml.prepare(path, data)
        if not path.lower().endswith(CODE_ENDINGS):
            self._manifests.prepare(path, data)

    def process(self, path: str, data: bytes, *, in_folder: bool, named: bool) -> FileResult:
        result = self._azureml.process(path, data, in_folder=in_folder, named=named)
        if (
            result.skipped is None
            or result.skipped.cause is not SkipCause.FOREIGN
            or path.lower().endswith(CODE_ENDINGS)
        ):
            return result
        checked = self._manifests.process(path, data)
        is_foreign = checked.skipped is not None and checked.skipped.cause is SkipCause.FOREIGN
        return result if is_foreign else checked
