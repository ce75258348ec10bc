"""`patch`: settings into AzureML files, and what the rules can fix; a diff by default.

`check` shares the options about the cluster and the rules.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import fields
from typing import Any

from arc_toolkit.azureml.settings import SETTING_RULES, Settings
from arc_toolkit.cli.console import Console
from arc_toolkit.cli.option_table import WRITE_OR_CHECK, add_options
from arc_toolkit.cli.reporter import add_report_options, change_files, rule_names
from arc_toolkit.errors import ArcError
from arc_toolkit.inputs import load_all, yaml_files
from arc_toolkit.kube.instance_type_spec import InstanceTypeSpec, manifests_in
from arc_toolkit.kube.labels import name_problem

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

# Variables that mean something else to the shell, the loader or Python.
_RESERVED = re.compile(
    "PATH|HOME|USER|SHELL|PWD|IFS|TMPDIR|LANG|HOSTNAME|LD_LIBRARY_PATH|LD_PRELOAD|PYTHONPATH|"
    "PYTHONHOME|CONDA_PREFIX|VIRTUAL_ENV|CUDA_VISIBLE_DEVICES|(AMLARC|AZUREML)_.*"
)
COMMON = """
  paths PATH +              files, or folders of them (files that .gitignore excludes are skipped);
                            - for standard input
what is known about the cluster:
  --instance-types DIR      InstanceType manifests: their cores and GPUs, and which names exist
  --cores N >=1             cores of the instance type, if they are not known otherwise
  --dataloader-workers N >=0    workers of the PyTorch DataLoader, for FAISS
"""
PATCH = f"""
settings:
  --instance-type NAME      instance type of jobs, steps, sweeps and components
  --instance-count N >=1    instances (nodes) of each of them
  --compute NAME            compute of jobs, and of steps that name one
  --expose-parameters       make instance type and count inputs of the pipeline, bound in its steps
  --step=steps NAME ...     only steps of this name; repeat for more
  --kind=kinds {{command,distributed,parallel,sweep,automl}} ...
                            only jobs, steps and components of this kind; repeat for more
  --assume {{command,parallel}}
                            kind to assume for a Python step whose component file is not available
threads:
  --threads {{auto,lightgbm,faiss,off}}
                            set the threads of a framework; auto decides on evidence
  --export=exports VARIABLE ...
                            export this variable too, such as OPENBLAS_NUM_THREADS
  --manual                  literal numbers instead of AMLARC_PRESTEP
older generations:
  --sweep-to-v2             write the v2 form of v1.5 SweepComponents beside them
  --as=sweep_as {{step,job,python}}    form of the v2 sweep (default: step)
  --prs-to-v2               write the v2 form of v1 ParallelRunSteps beside them
{WRITE_OR_CHECK.lstrip()}  --unsafe-fixes            also apply fixes that may change how a job behaves
"""


def add_common(parser: argparse.ArgumentParser) -> None:
    """Paths, what is known about the cluster, the choice of rules, and the format."""
    add_options(parser, COMMON)
    add_report_options(parser, "rule or setting")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_common(parser)
    add_options(parser, PATCH, exclusive=("--write", "--check"))


def run(args: argparse.Namespace, console: Console) -> int:
    from arc_toolkit.azureml.azureml_files import AzureMLFiles
    from arc_toolkit.azureml.rules import all_rules

    settings, by_folder = settings_of(args), settings_by_folder(args)
    conversions = None
    if any(item.sweep_to_v2 or item.prs_to_v2 for item in (settings, *by_folder.values())):
        from arc_toolkit.migrate.conversions import V2Conversions

        conversions = V2Conversions()
    engine = AzureMLFiles(settings, by_folder, conversions)
    return change_files("patch", args, console, engine, all_rules(), SETTING_RULES, _DECISIONS)


def settings_of(args: argparse.Namespace) -> Settings:
    """The settings; options that contradict each other are an error in one sentence."""
    names = {field.name for field in fields(Settings)}
    asked: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in vars(args).items()
        if name in names and value is not None
    }
    asked["only"], asked["skip"] = _rules("--only", args.only), _rules("--skip", args.skip)
    settings = Settings(**{**asked, "instance_types": _types(args.instance_types)})
    for name in sorted(settings.only & settings.skip):
        raise ArcError(f"--only {name} and --skip {name} leave nothing to do: use one of them")
    _check_names(settings)
    if settings.threads in (None, "off"):
        for option, value in (("--export", settings.exports), ("--manual", settings.manual)):
            if value:
                raise ArcError(
                    f"{option} says how threads are set: use --threads auto, lightgbm or faiss too"
                )
    if getattr(args, "sweep_as", None) and not settings.sweep_to_v2:
        raise ArcError("--as names the form of a converted sweep: use --sweep-to-v2 too")
    return settings


def settings_by_folder(args: argparse.Namespace) -> dict[str, Settings]:
    """The settings of the folders that the configuration file names: those of the folders above, and its own."""
    folders: dict[str, dict[str, Any]] = args.folders
    return {
        folder: settings_of(
            argparse.Namespace(
                **vars(args)
                | {
                    dest: value
                    for above in sorted(folders, key=len)
                    if folder == above or folder.startswith(above + "/")
                    for dest, value in folders[above].items()
                }
            )
        )
        for folder in folders
    }


def _check_names(settings: Settings) -> None:
    name = settings.instance_type
    if name is not None and (problem := name_problem(name)):
        raise ArcError(f"--instance-type: {problem}")
    if settings.compute is not None and (
        not settings.compute.strip() or re.search(r"[\s'\"]", settings.compute)
    ):
        raise ArcError(f"`{settings.compute}` cannot be the name of a compute")
    for variable in settings.exports:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", variable):
            raise ArcError(f"--export takes the name of a variable, and `{variable}` cannot be one")
        if _RESERVED.fullmatch(variable):
            raise ArcError(
                f"--export {variable} would put the number of cores in place of what the job needs there"
            )


def _rules(option: str, names: list[str]) -> frozenset[str]:
    if not names:
        return frozenset()
    from arc_toolkit.azureml.rules import all_rules
    from arc_toolkit.placement.rules import manifest_rules

    return rule_names(option, names, {*SETTING_RULES, *all_rules(), *manifest_rules()})


def _types(path: str | None) -> dict[str, InstanceTypeSpec]:
    """The manifests of --instance-types by name. None at all is an error: every type would be unknown."""
    if path is None:
        return {}
    types = {}
    for file in yaml_files(path):
        for document in load_all(file):
            for _, manifest in manifests_in(document):
                try:
                    spec = InstanceTypeSpec.parse(manifest)
                except ArcError:
                    raise ArcError(
                        f"{file}: an InstanceType that cannot be read; `arc-toolkit validate {file}` says why"
                    ) from None
                types[spec.name] = spec
    if not types:
        raise ArcError(
            f"no InstanceType in {path}: `arc-toolkit gen-instance-types -o DIR` writes such a folder"
        )
    return types
