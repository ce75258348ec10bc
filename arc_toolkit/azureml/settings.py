"""The options of `patch` and `check` as frozen data, for every editor and rule."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from arc_toolkit.errors import ArcError
from arc_toolkit.inputs import load_all, yaml_files
from arc_toolkit.kube.instance_type_spec import InstanceTypeSpec, manifests_in
from arc_toolkit.kube.labels import name_problem

Threads = Literal["auto", "lightgbm", "faiss", "off"]
SweepForm = Literal["step", "job", "python"]

# What the user asked for on the command line; `--only` and `--skip` take these names beside those
# of the rules, and a finding about a setting that could not be placed carries the setting's name as
# its rule.
_PLACED = ("instance-type", "instance-count", "compute", "expose-parameters", "threads")
SETTING_NAMES = (*_PLACED, "sweep-to-v2", "prs-to-v2")
# Variables that mean something else to the shell, the loader or Python.
_RESERVED = re.compile(
    "PATH|HOME|USER|SHELL|PWD|IFS|TMPDIR|LANG|HOSTNAME|LD_LIBRARY_PATH|LD_PRELOAD|PYTHONPATH|"
    "PYTHONHOME|CONDA_PREFIX|VIRTUAL_ENV|CUDA_VISIBLE_DEVICES|(AMLARC|AZUREML)_.*"
)


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that was asked for on the command line."""

    instance_type: str | None = None
    instance_count: int | None = None
    compute: str | None = None
    expose_parameters: bool = False
    threads: Threads | None = None
    # More variables for AMLARC_PRESTEP (`--export NAME`).
    exports: tuple[str, ...] = ()
    # Literal numbers instead of AMLARC_PRESTEP.
    manual: bool = False
    cores: int | None = None
    dataloader_workers: int | None = None
    # From `--instance-types DIR`, by name. None of the rules that need it runs when it is empty.
    instance_types: Mapping[str, InstanceTypeSpec] = field(default_factory=dict)
    # `--step NAME` and `--kind KIND`: only these steps, or steps of these kinds; empty means all.
    steps: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    # `--assume KIND`: what a step in Python is whose kind cannot be known.
    assume: str | None = None
    sweep_to_v2: bool = False
    sweep_as: SweepForm = "step"
    prs_to_v2: bool = False
    unsafe_fixes: bool = False
    only: frozenset[str] = frozenset()
    skip: frozenset[str] = frozenset()

    def wants(self, rule: str) -> bool:
        """Whether `--only` and `--skip` let this rule (or setting) work."""
        return rule not in self.skip and (not self.only or rule in self.only)

    def selects_kind(self, family: str, distributed: bool) -> bool:
        """Whether `--kind` selects a target of this family; any that has a `distribution` is
        distributed too.
        """
        return family in self.kinds or (distributed and "distributed" in self.kinds)

    @property
    def placed(self) -> list[str]:
        """The settings that are to be written, beside what the rules fix."""
        return [
            rule
            for rule in _PLACED
            if getattr(self, rule.replace("-", "_")) not in (None, False, "off")
        ]


def check_settings(settings: Settings) -> None:
    """Refuse names that cannot be used, and settings that contradict each other."""
    for name in sorted(settings.only & settings.skip):
        raise ArcError(f"--only {name} and --skip {name} leave nothing to do: use one of them")
    type_name = settings.instance_type
    if type_name is not None and (problem := name_problem(type_name)):
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
    if settings.threads in (None, "off"):
        for option, value in (("--export", settings.exports), ("--manual", settings.manual)):
            if value:
                raise ArcError(
                    f"{option} says how threads are set: use --threads auto, lightgbm or faiss too"
                )


def read_instance_types(path: str | None) -> dict[str, InstanceTypeSpec]:
    """The manifests of --instance-types by name; a folder without any is an error."""
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
