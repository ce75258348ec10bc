"""What was asked for on the command line, for every editor and rule of `patch` and `check`. Frozen data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from arc_toolkit.kube.instance_type_spec import InstanceTypeSpec

Threads = Literal["auto", "lightgbm", "faiss", "off"]
SweepForm = Literal["step", "job", "python"]

# What the user asked for on the command line; `--only` and `--skip` take these names beside those of the rules,
# and a finding about a setting that could not be placed carries the setting's name as its rule.
_PLACED = ("instance-type", "instance-count", "compute", "expose-parameters", "threads")
SETTING_RULES = (*_PLACED, "sweep-to-v2", "prs-to-v2")


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

    def kinds_of(self, family: str, distributed: bool) -> bool:
        """Whether `--kind` selects a target of this family; any that has a `distribution` is distributed too."""
        return family in self.kinds or (distributed and "distributed" in self.kinds)

    @property
    def placed(self) -> list[str]:
        """The settings that are to be written, beside what the rules fix."""
        return [
            rule
            for rule in _PLACED
            if getattr(self, rule.replace("-", "_")) not in (None, False, "off")
        ]
