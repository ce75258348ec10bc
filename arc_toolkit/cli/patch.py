"""`patch`: settings into AzureML files, and what the rules can fix; a diff by default.

`check` shares the options about the cluster and the rules.
"""

from __future__ import annotations

import argparse
from dataclasses import fields
from typing import Any

from arc_toolkit.azureml.settings import (
    SETTING_NAMES,
    Settings,
    check_settings,
    read_instance_types,
)
from arc_toolkit.cli.console import Console
from arc_toolkit.cli.option_table import WRITE_OR_CHECK, add_options
from arc_toolkit.cli.reporter import add_report_options, change_files, rule_names
from arc_toolkit.errors import ArcError

EPILOG = """\
examples:
  arc-toolkit patch . --instance-type 32cpu128g --instance-count 2 --threads auto
  arc-toolkit patch components/ pipelines/ --expose-parameters --instance-type 32cpu128g --write
  printf 'command: t.sh\\nenvironment: e\\ncompute: c\\n' | arc-toolkit patch - --instance-type gpu

exit codes: 0 done, 1 --check and something would change, 2 a setting could not be set, or a path
or file cannot be used
"""

# Settings whose notes say what was decided.
_DECISIONS = ("threads", "expose-parameters", "sweep-to-v2", "prs-to-v2")

COMMON = """
  paths PATH +              files, or folders of them (files that .gitignore excludes are skipped);
                            - for standard input
what is known about the cluster:
  --instance-types DIR      InstanceType manifests: their cores and GPUs, and which names exist
  --cores N >=1             cores of the instance type, if they are not known otherwise
  --dataloader-workers N >=0    workers of the PyTorch DataLoader, for FAISS
"""
PATCH = """
settings:
  --instance-type NAME      instance type of jobs, steps, sweeps and components
  --instance-count N >=1    instances (nodes) of each of them
  --compute NAME            compute of jobs, and of steps that name one
  --expose-parameters       make instance type and count inputs of the pipeline, bound in its steps
  --step=steps NAME ...     only steps of this name; repeat for more
  --kind=kinds {command,distributed,parallel,sweep,automl} ...
                            only jobs, steps and components of this kind; repeat for more
  --assume {command,parallel}
                            kind to assume for a Python step whose component file is not available
threads:
  --threads {auto,lightgbm,faiss,off}
                            set the threads of a framework; auto decides on evidence
  --export=exports VARIABLE ...
                            export this variable too, such as OPENBLAS_NUM_THREADS
  --manual                  literal numbers instead of AMLARC_PRESTEP
older generations:
  --sweep-to-v2             write the v2 form of v1.5 SweepComponents beside them
  --as=sweep_as {step,job,python}    form of the v2 sweep (default: step)
  --prs-to-v2               write the v2 form of v1 ParallelRunSteps beside them
"""
UNSAFE = "  --unsafe-fixes        also apply fixes that may change how a job behaves"


def add_common(parser: argparse.ArgumentParser) -> None:
    """Paths, what is known about the cluster, the choice of rules, and the format."""
    add_options(parser, COMMON)
    add_report_options(parser, "rule or setting")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_common(parser)
    add_options(parser, PATCH + WRITE_OR_CHECK + UNSAFE, exclusive=("--write", "--check"))


def run(args: argparse.Namespace, console: Console) -> int:
    from arc_toolkit.azureml.azureml_files import AzureMLFiles
    from arc_toolkit.azureml.rules import all_rules

    settings, by_folder = settings_of(args), settings_by_folder(args)
    conversions = None
    if any(item.sweep_to_v2 or item.prs_to_v2 for item in (settings, *by_folder.values())):
        from arc_toolkit.migrate.conversions import V2Conversions

        conversions = V2Conversions()
    engine = AzureMLFiles(settings, by_folder, conversions)
    return change_files("patch", args, console, engine, all_rules(), SETTING_NAMES, _DECISIONS)


def settings_of(args: argparse.Namespace) -> Settings:
    """The settings; options that contradict each other are an error in one sentence."""
    names = {field.name for field in fields(Settings)}
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in vars(args).items()
        if name in names and value is not None
    }
    values["only"], values["skip"] = _rules("--only", args.only), _rules("--skip", args.skip)
    values["instance_types"] = read_instance_types(args.instance_types)
    settings = Settings(**values)
    check_settings(settings)
    if getattr(args, "sweep_as", None) and not settings.sweep_to_v2:
        raise ArcError("--as names the form of a converted sweep: use --sweep-to-v2 too")
    return settings


def settings_by_folder(args: argparse.Namespace) -> dict[str, Settings]:
    """The settings of the folders in the configuration file; each inherits from those above."""
    folders: dict[str, dict[str, Any]] = args.folders
    settings = {}
    for folder in folders:
        values = vars(args).copy()
        for other in sorted(folders, key=len):
            if folder == other or folder.startswith(other + "/"):
                values |= folders[other]
        settings[folder] = settings_of(argparse.Namespace(**values))
    return settings


def _rules(option: str, names: list[str]) -> frozenset[str]:
    if not names:
        return frozenset()
    from arc_toolkit.azureml.rules import all_rules
    from arc_toolkit.placement.rules import manifest_rules

    return rule_names(option, names, {*SETTING_NAMES, *all_rules(), *manifest_rules()})
