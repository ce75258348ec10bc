"""The options that `patch` and `check` share, and the way from the command line to `Settings`."""

from __future__ import annotations

import argparse
import re
from dataclasses import fields
from typing import Any

from arc_toolkit.azureml.settings import SETTING_RULES, Settings
from arc_toolkit.cli.main import REPEATED
from arc_toolkit.cli.reporter import add_report_options, rule_names
from arc_toolkit.errors import ArcError
from arc_toolkit.inputs import load_all, yaml_files
from arc_toolkit.kube.instance_type_spec import InstanceTypeSpec, manifests_in
from arc_toolkit.kube.labels import name_problem

# Variables that mean something else to the shell, the loader or Python.
_RESERVED = frozenset(
    {
        "PATH",
        "HOME",
        "USER",
        "SHELL",
        "PWD",
        "IFS",
        "TMPDIR",
        "LANG",
        "HOSTNAME",
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
    }
    | {"PYTHONPATH", "PYTHONHOME", "CONDA_PREFIX", "VIRTUAL_ENV", "CUDA_VISIBLE_DEVICES"}
)
ASSUMED_KINDS = ("command", "parallel")
KIND_NAMES = ("command", "distributed", "parallel", "sweep", "automl")


def add_common(parser: argparse.ArgumentParser) -> None:
    """Paths, what is known about the cluster, the choice of rules, and the format."""
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="files, or folders of them (.gitignore is obeyed), - for standard input",
    )
    known = parser.add_argument_group("what is known about the cluster")
    known.add_argument(
        "--instance-types",
        metavar="DIR",
        help="InstanceType manifests: their cores and GPUs, and which names exist",
    )
    known.add_argument(
        "--cores",
        type=int,
        metavar="N",
        help="cores of the instance type, if they are not known otherwise",
    )
    known.add_argument(
        "--dataloader-workers",
        type=int,
        metavar="N",
        help="workers of the PyTorch DataLoader, for FAISS",
    )
    add_report_options(parser, "rule or setting")


def add_patch(parser: argparse.ArgumentParser) -> None:
    """What `patch` sets, converts and writes."""
    what = parser.add_argument_group("what to set")
    what.add_argument(
        "--instance-type",
        metavar="NAME",
        help="instance type of jobs, steps, sweeps and components",
    )
    what.add_argument(
        "--instance-count", type=int, metavar="N", help="instances (nodes) of each of them"
    )
    what.add_argument(
        "--compute", metavar="NAME", help="compute of jobs, and of steps that name one"
    )
    what.add_argument(
        "--expose-parameters",
        action="store_true",
        help="instance type and count as inputs of the pipeline, bound in its steps",
    )
    what.add_argument(
        "--step",
        dest="steps",
        **REPEATED,
        metavar="NAME",
        help="only steps of this name; repeat for more",
    )
    what.add_argument(
        "--kind",
        dest="kinds",
        **REPEATED,
        choices=KIND_NAMES,
        metavar="KIND",
        help=f"only jobs, steps and components of this kind ({', '.join(KIND_NAMES)}); repeat for more",
    )
    what.add_argument(
        "--assume",
        choices=ASSUMED_KINDS,
        metavar="KIND",
        help="what a step in Python is if its component is not here, such as one of a registry"
        f" ({', '.join(ASSUMED_KINDS)})",
    )
    threads = parser.add_argument_group("threads")
    threads.add_argument(
        "--threads",
        choices=["auto", "lightgbm", "faiss", "off"],
        help="set the threads of a framework; auto decides on evidence",
    )
    threads.add_argument(
        "--export",
        dest="exports",
        **REPEATED,
        metavar="VARIABLE",
        help="export this variable too, such as OPENBLAS_NUM_THREADS",
    )
    threads.add_argument(
        "--manual", action="store_true", help="literal numbers instead of AMLARC_PRESTEP"
    )
    convert = parser.add_argument_group("older generations")
    convert.add_argument(
        "--sweep-to-v2",
        action="store_true",
        help="write the v2 form of v1.5 SweepComponents beside them",
    )
    convert.add_argument(
        "--as",
        dest="sweep_as",
        choices=["step", "job", "python"],
        help="form of the v2 sweep (default: step)",
    )
    convert.add_argument(
        "--prs-to-v2",
        action="store_true",
        help="write the v2 form of v1 ParallelRunSteps beside them",
    )
    how = parser.add_argument_group("how")
    mode = how.add_mutually_exclusive_group()
    mode.add_argument(
        "--write", action="store_true", help="write the files; the default shows a diff"
    )
    mode.add_argument(
        "--check", action="store_true", help="write nothing, and exit 1 if something would change"
    )
    how.add_argument(
        "--unsafe-fixes",
        action="store_true",
        help="also fixes after which a job may behave otherwise",
    )


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
    _check_numbers(settings)
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


def _check_numbers(settings: Settings) -> None:
    for option, value, least in (
        ("--cores", settings.cores, 1),
        ("--instance-count", settings.instance_count, 1),
        ("--dataloader-workers", settings.dataloader_workers, 0),
    ):
        if value is not None and value < least:
            raise ArcError(f"{option} must be at least {least}, not {value}")


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
        if variable in _RESERVED or variable.startswith(("AMLARC_", "AZUREML_")):
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
