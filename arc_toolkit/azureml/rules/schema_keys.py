"""The keys that azure-ai-ml accepts at each place of each kind.

The table is data/azureml_keys.csv, made from its schemas. Any other key is a `ForeignKey`. It has
one explanation, and one rule reports it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache

from arc_toolkit.azureml.documents import Target
from arc_toolkit.azureml.kinds import KINDS, Family, Role, Slot, TargetKind
from arc_toolkit.azureml.plan import Plan
from arc_toolkit.edit.yaml.nodes import KeyPath, YamlNode, pairs
from arc_toolkit.resources import data_rows
from arc_toolkit.text import nearest

# The mappings of a target with a list of keys in the table.
MAPPINGS = (
    "resources",
    "distribution",
    "limits",
    "task",
    "retry_settings",
    "queue_settings",
    "settings",
)

# A v1.5 spec has no schema in azure-ai-ml, which takes every key; these are of its specification.
_SPEC = frozenset(
    re.findall(
        r"\S+",
        """
        $schema type name version display_name description tags is_deterministic is_archived
        successful_return_code inputs outputs code command environment environment_variables
        launcher parallel hemera scope hdinsight starlite datatransfer sweep trial algorithm
        objective search_space limits early_termination runsettings annotations category contact
        author intellectual_property additional_includes
        """,
    )
)


def known_keys(kind: TargetKind, below: str = "") -> frozenset[str] | None:
    """The keys at the top of a kind, or below one of its mappings; None where any key may be."""
    if kind.role == Role.SPEC:
        return None if below else _SPEC
    return _table().get((kind.family, kind.role, below))


@cache
def _table() -> dict[tuple[str, str, str], frozenset[str]]:
    return {
        (row["family"], row["role"], row["below"]): frozenset(row["keys"].split())
        for row in data_rows("azureml_keys.csv")
    }


# Names of the SDK v1, and where they are in v2.
LEGACY_NAMES = {
    "node_count": "resources.instance_count",
    "process_count_per_node": "distribution.process_count_per_instance",
    "compute_target": "compute",
    "source_directory": "code",
    "arguments": "command",
    "run_invocation_timeout": "retry_settings.timeout",
    "run_max_try": "retry_settings.max_retries",
    "vm_size": "resources.instance_type",
}
_LEGACY_PLACES = ("", "resources", "distribution")
# What a container of Kubernetes asks for; here the instance type has it.
CONTAINER_KEYS = frozenset({"limits", "requests", "cpu", "cpus", "memory", "gpu", "gpus"})
# azure-ai-ml takes these on a step that names a component, and they win over `resources`.
_TAKEN_BY_STEPS = frozenset({Slot.INSTANCE_TYPE.path[-1], Slot.INSTANCE_COUNT.path[-1]})
_ALIKE = 0.85  # `source` and `resources` are 0.8 alike and mean different things
# Mappings in which azure-ai-ml rejects an unknown key of a job, trial or step, and drops one of a
# component.
_STRICT_MAPPINGS = frozenset({"resources", "distribution", "limits", "queue_settings"})
_STRICT_STEPS = (Family.COMMAND, Family.PARALLEL, Family.SPARK)


class Explanation(Enum):
    """Why azure-ai-ml does not accept a key at its place, the most certain reason first."""

    # A name of the SDK v1; the right name is that of v2.
    LEGACY = "legacy"
    # It belongs below another mapping, beside its mapping, or (without a right place) on the step.
    MISPLACED = "misplaced"
    # A letter or two away from a key of the place.
    MISSPELT = "misspelt"
    UNKNOWN = "unknown"
    # azure-ai-ml accepts any key there, or another rule reports this one.
    TAKEN = "taken"


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """A key of a target, or below one of its mappings, that azure-ai-ml does not accept."""

    target: Target
    below: str
    name: str
    key: YamlNode
    value: YamlNode
    explanation: Explanation
    # The right name or mapping; empty if the key belongs beside the mapping, or on the step.
    right: str = ""

    @property
    def path(self) -> KeyPath:
        return (*self.target.path, *((self.below,) if self.below else ()), self.name)

    def sibling(self, name: str) -> YamlNode | None:
        """The value of another key of the same mapping."""
        return self.target.get(self.below, name) if self.below else self.target.get(name)


def foreign_keys(plan: Plan) -> Sequence[ForeignKey]:
    """The keys of the targets of a file that azure-ai-ml does not know where they are."""
    facts = plan.rule_facts
    if ("foreign keys",) not in facts:
        facts["foreign keys",] = list(_find_keys(plan.known_targets()))
    keys: Sequence[ForeignKey] = facts["foreign keys",]
    return keys


def _find_keys(targets: Iterable[Target]) -> Iterator[ForeignKey]:
    for target in targets:
        fields = target.fields
        accepted = known_keys(target.kind)
        if accepted is not None and not accepted.issuperset(fields):
            yield from _explained(target, "", fields, accepted)
        for mapping in MAPPINGS:
            if mapping in fields and (accepted := known_keys(target.kind, mapping)) is not None:
                inner = pairs(fields[mapping][1])
                if not accepted.issuperset(inner):
                    yield from _explained(target, mapping, inner, accepted)


def _explained(
    target: Target,
    below: str,
    fields: dict[str, tuple[YamlNode, YamlNode]],
    accepted: frozenset[str],
) -> Iterator[ForeignKey]:
    for name, (key, value) in fields.items():
        if name not in accepted and name != "<<":
            yield ForeignKey(
                target, below, name, key, value, *_explain(target, below, name, accepted)
            )


def _explain(
    target: Target, below: str, name: str, accepted: frozenset[str]
) -> tuple[Explanation, str]:
    kind = target.kind
    near = nearest(name.lower(), accepted, cutoff=_ALIKE)
    if kind.role == Role.SPEC:  # azure-ai-ml takes any key
        return (Explanation.MISSPELT, near) if near else (Explanation.TAKEN, "")
    if (
        below == "distribution" and target.text(below, "type") == "ray"
    ):  # a preview, whose keys come and go
        return Explanation.TAKEN, ""
    if name in LEGACY_NAMES and below in _LEGACY_PLACES:
        parallel = name == "process_count_per_node" and kind.family == Family.PARALLEL
        return Explanation.LEGACY, "max_concurrency_per_instance" if parallel else LEGACY_NAMES[
            name
        ]
    if name == "environment_variables" and not below:  # dropped-environment-variables
        return Explanation.TAKEN, ""
    if not below and name in _TAKEN_BY_STEPS and target.overrides_resources:
        return Explanation.TAKEN, ""
    if (right := _right_place(kind, below, name)) is not None:
        return Explanation.MISPLACED, right
    if near:
        return Explanation.MISSPELT, near
    is_strict = below in _STRICT_MAPPINGS if below else _is_strict(target)
    return (Explanation.UNKNOWN if is_strict else Explanation.TAKEN), ""


def _right_place(kind: TargetKind, below: str, name: str) -> str | None:
    """The mapping of a key; empty for the target or its step; None if no place has the key."""
    if below == "resources" and name in CONTAINER_KEYS:
        return None
    if below and (
        name in (known_keys(kind) or ()) or (below == "task" and name == "environment_variables")
    ):
        return ""
    mappings = [mapping for mapping in MAPPINGS if name in (known_keys(kind, mapping) or ())]
    if len(mappings) == 1:
        return mappings[0]
    # Components have no `compute`, and pipelines and AutoML components no `resources`: steps do.
    if name == Slot.COMPUTE.path[0] and kind.role == Role.COMPONENT:
        return ""
    if (
        kind.role == Role.TRIAL
        and not below
        and name in (known_keys(KINDS[Family.SWEEP, Role.JOB]) or ())
    ):
        return ""
    return (
        ""
        if name == "resources" and not below and not kind.resources and _has_steps(kind)
        else None
    )


def _has_steps(kind: TargetKind) -> bool:
    return kind.role == Role.COMPONENT or (kind.family == Family.PIPELINE and kind.role == Role.JOB)


def _is_strict(target: Target) -> bool:
    """Whether azure-ai-ml 1.35 rejects a key that it does not know at the top of a target.

    It does for jobs, the trials of sweep jobs and inline steps, not for other steps and components.
    """
    kind = target.kind
    if kind.role == Role.STEP:
        return kind.family in _STRICT_STEPS and "component" not in target.fields
    return kind.role in (Role.JOB, Role.TRIAL)
