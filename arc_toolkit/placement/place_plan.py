"""What `place` was asked for, and the plan of one file: its operations, findings and refusals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from arc_toolkit.edit.files.ignores import Ignores
from arc_toolkit.edit.files.plan import FailedGroups, FilePlan
from arc_toolkit.edit.yaml.nodes import YamlNode
from arc_toolkit.edit.yaml.writer import YamlStyle
from arc_toolkit.findings import Rule
from arc_toolkit.placement.manifests import UnknownObject, Workload
from arc_toolkit.placement.spot import CLOUDS, SpotCapacity, SpotPolicy

# What `--only` and `--skip` take beside the rules, and what findings about a setting carry as their
# rule.
SPOT, GRACE, RETRIES = "spot", "grace", "retries"
PLACE_SETTINGS = (SPOT, GRACE, RETRIES)
# Rules of `check`.
COORDINATOR, LONG_GRACE = "coordinator-on-spot", "grace-longer-than-notice"

_SCALARS = (
    "restartPolicy",
    "schedulerName",
    "priorityClassName",
    "serviceAccountName",
    "hostNetwork",
)
STYLE = YamlStyle(
    neighbours={
        "terminationGracePeriodSeconds": _SCALARS,
        "tolerations": ("terminationGracePeriodSeconds", *_SCALARS),
        "affinity": ("terminationGracePeriodSeconds", *_SCALARS),
    }
)


@dataclass(frozen=True, slots=True)
class PlaceSettings:
    """What was asked for on the command line."""

    spot: SpotPolicy | None = None
    capacity: SpotCapacity = CLOUDS["aks"]
    grace: int | None = None
    retries: int | None = None
    # The release of Kubeflow Trainer, for TrainJobs that do not show it.
    trainer: str | None = None
    # Only these; empty means all. Kinds and roles are compared without case.
    kinds: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()
    only: frozenset[str] = frozenset()
    skip: frozenset[str] = frozenset()

    def wants(self, rule: str) -> bool:
        return rule not in self.skip and (not self.only or rule in self.only)


class PlacePlan(FilePlan[Any]):
    """The operations on the workloads of one file, and what was found.

    Only the editor knows whether the objects are written in YAML or in Python.
    """

    def __init__(
        self,
        path: str,
        settings: PlaceSettings,
        objects: tuple[Workload | UnknownObject, ...],
        ignored_lines: Ignores,
        failed_groups: FailedGroups | None = None,
        *,
        is_proved: bool = False,
    ) -> None:
        super().__init__(path, ignored_lines, failed_groups)
        self.settings = settings
        self.objects = objects
        # What the file has, for options that name something which is not there.
        self.kinds: set[str] = set()
        self.names: set[str] = set()
        self.roles: set[str] = set()
        # Of the second run, after a proof that only what was asked for is new: no key can be there
        # twice.
        self.is_proved = is_proved

    @property
    def is_empty(self) -> bool:
        return bool(self.editor.empty)

    @property
    def workloads(self) -> Iterator[Workload]:
        return (entry for entry in self.objects if isinstance(entry, Workload))

    def report(self, rule: Rule, message: str, at: YamlNode, reason: str = "") -> None:
        """What a rule found."""
        self.add_finding(rule.id, rule.severity, message, at, reason)
