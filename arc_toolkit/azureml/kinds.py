"""Which settings each kind of AzureML job, step and component keeps: the one table to change.

Facts: loading every kind with azure-ai-ml 1.35 and looking at the REST body it would send. A field
that is accepted and then dropped is not a slot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from functools import cached_property


class Family(StrEnum):
    """What a target does; the names are those of `--kind`."""

    COMMAND = "command"
    DISTRIBUTED = "distributed"
    PARALLEL = "parallel"
    SWEEP = "sweep"
    AUTOML = "automl"
    PIPELINE = "pipeline"
    SPARK = "spark"
    IMPORT = "import"
    DATA_TRANSFER = "data_transfer"
    # Branches and loops around steps.
    CONTROL = "control"
    FINETUNING = "finetuning"
    OTHER = "other"


class Role(StrEnum):
    """What a target is a part of."""

    JOB = "job"
    COMPONENT = "component"
    STEP = "step"
    TRIAL = "trial"
    # The trial of a sweep step that is written in place.
    STEP_TRIAL = "step trial"
    # Component SDK v1.5: a component file, and a step in Python code, which has its settings in
    # `runsettings`.
    SPEC = "spec"
    V15_STEP = "v1.5 step"


TRIALS = (Role.TRIAL, Role.STEP_TRIAL)


class Slot(Enum):
    """A setting that a target may keep, and where: the path below the target."""

    INSTANCE_TYPE = ("resources", "instance_type")
    INSTANCE_COUNT = ("resources", "instance_count")
    COMPUTE = ("compute",)
    VARIABLES = ("environment_variables",)

    def __init__(self, *path: str) -> None:
        self.path = path
        # The name of the setting: `instance-type`.
        self.rule = path[-1].replace("_", "-")

    # Slots are in many sets; the hash of `Enum` is a function in Python.
    __hash__ = object.__hash__


_RESOURCES = frozenset({Slot.INSTANCE_TYPE, Slot.INSTANCE_COUNT})
_COMPUTE = frozenset({Slot.COMPUTE})
_VARIABLES = frozenset({Slot.VARIABLES})
_ALL = frozenset(Slot)
_NONE: frozenset[Slot] = frozenset()


@dataclass(frozen=True, eq=False)
class TargetKind:
    """One row: what a target is, and which slots it keeps."""

    family: Family
    role: Role
    slots: frozenset[Slot]
    # Why it does not keep the others.
    why: str = ""

    @cached_property
    def name(self) -> str:
        """`command job`, `sweep step trial`: for messages."""
        return f"{self.family} {self.role}"

    @cached_property
    def resources(self) -> bool:
        return Slot.INSTANCE_TYPE in self.slots

    @cached_property
    def variables(self) -> bool:
        return Slot.VARIABLES in self.slots


_DROPS = "a v2 component loads `environment_variables` and drops them"
_LOSES = "a sweep in a pipeline loses environment variables"
_SPEC = "a v1.5 spec has no place for resources: they are run settings of the pipeline's step"
_SPARK = "Spark takes a fixed list of VM sizes, not an instance type"
_PIPELINE = "a pipeline has no resources of its own: its steps have"
_FOREIGN = "this kind does not run on Kubernetes"
_CONTROL = "a branch or loop has no resources of its own: its steps have"
_TRIAL = "a sweep job has its environment variables in its trial"
_V2_ROLES = (Role.JOB, Role.COMPONENT, Role.STEP)

_ROWS: tuple[tuple[Family, tuple[Role, ...], frozenset[Slot], str], ...] = (
    (Family.COMMAND, (Role.JOB, Role.STEP, Role.V15_STEP), _ALL, ""),
    (Family.COMMAND, (Role.COMPONENT,), _RESOURCES, _DROPS),
    (Family.COMMAND, (Role.SPEC,), _VARIABLES, _SPEC),
    (Family.DISTRIBUTED, (Role.V15_STEP,), _ALL, ""),
    (Family.DISTRIBUTED, (Role.SPEC,), _VARIABLES, _SPEC),
    (Family.PARALLEL, (Role.STEP, Role.V15_STEP), _ALL, ""),
    (Family.PARALLEL, (Role.COMPONENT,), _RESOURCES, _DROPS),
    (Family.PARALLEL, (Role.SPEC,), _VARIABLES, _SPEC),
    (Family.SWEEP, (Role.JOB,), _RESOURCES | _COMPUTE, _TRIAL),
    (Family.SWEEP, (Role.TRIAL,), _RESOURCES | _VARIABLES, ""),
    (Family.SWEEP, (Role.STEP,), _RESOURCES | _COMPUTE, _LOSES),
    # Kept in the dict, absent in the REST body.
    (Family.SWEEP, (Role.STEP_TRIAL,), _RESOURCES, _LOSES),
    (Family.SWEEP, (Role.SPEC,), _VARIABLES, _SPEC),
    (Family.SWEEP, (Role.V15_STEP,), _NONE, "a SweepComponent takes no instance type"),
    (Family.AUTOML, (Role.JOB, Role.STEP), _ALL, ""),
    (Family.AUTOML, (Role.COMPONENT,), _NONE, "an AutoML component has no resources: its step has"),
    (Family.PIPELINE, (Role.JOB,), _COMPUTE, _PIPELINE),
    (Family.PIPELINE, (Role.COMPONENT, Role.STEP), _NONE, _PIPELINE),
    (Family.SPARK, _V2_ROLES, _NONE, _SPARK),
    (Family.IMPORT, _V2_ROLES, _NONE, _FOREIGN),
    (Family.DATA_TRANSFER, _V2_ROLES, _NONE, _FOREIGN),
    (Family.CONTROL, (Role.STEP,), _NONE, _CONTROL),
    (Family.FINETUNING, (Role.JOB, Role.STEP), _NONE, _FOREIGN),
    (Family.OTHER, (Role.STEP,), _NONE, "the kind of this step is not known"),
    (Family.OTHER, (Role.SPEC,), _NONE, _SPEC),
)
KINDS: Mapping[tuple[Family, Role], TargetKind] = {
    (family, role): TargetKind(family, role, slots, why)
    for family, roles, slots, why in _ROWS
    for role in roles
}

_NO_TYPES = (Family.DISTRIBUTED, Family.CONTROL, Family.OTHER)
# `type` of a v2 file.
V2_TYPES: Mapping[str, Family] = {
    str(family): family for family in Family if family not in _NO_TYPES
}
# `type` of a v1.5 spec, in lower case.
SPEC_TYPES = {
    f"{family}component": family
    for family in (Family.COMMAND, Family.DISTRIBUTED, Family.PARALLEL, Family.SWEEP)
}
# `type` of a step that is a branch or loop.
CONTROL_TYPES = ("if_else", "do_while", "parallel_for")
