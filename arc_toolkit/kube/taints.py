"""Taints of nodes and tolerations of pods."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from arc_toolkit.errors import ArcError

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
# AKS puts this key, with the value `spot`, on the nodes of a spot pool: as a label and as a taint.
SPOT_KEY = "kubernetes.azure.com/scalesetpriority"


@dataclass(frozen=True, slots=True)
class Taint:
    """`added` is the time as the API server writes it; two taints that differ only in it are equal."""

    key: str
    value: str
    effect: str
    added: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.key}{'=' + self.value if self.value else ''}:{self.effect}"


@dataclass(frozen=True, slots=True)
class Toleration:
    """A value of None is the operator Exists; no effect means every effect, and no key every taint."""

    key: str
    value: str | None = None
    effect: str = ""

    @classmethod
    def parse(cls, text: str) -> Toleration:
        """`KEY=VALUE:EFFECT` or `KEY:EFFECT`, as `kubectl taint` writes it."""
        taint, _, effect = text.rpartition(":")
        key, equals, value = taint.partition("=")
        if not key or effect not in EFFECTS:
            raise ArcError(
                f"{text!r} is not a taint: write KEY=VALUE:EFFECT or KEY:EFFECT, with {', '.join(EFFECTS)}"
            )
        return cls(key, value if equals else None, effect)

    def tolerates(self, taint: Taint) -> bool:
        """https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/"""
        return (
            (self.key == taint.key or (not self.key and self.value is None))
            and (not self.effect or self.effect == taint.effect)
            and (self.value is None or self.value == taint.value)
        )


# What AzureML's pods tolerate: https://learn.microsoft.com/azure/machine-learning/reference-kubernetes
AZUREML_TOLERATIONS = tuple(
    Toleration(f"ml.azure.com/{name}")
    for name in ("amlarc", "amlarc-system", "amlarc-workload", "resource-group", "workspace", "compute")
)


def untolerated(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> Taint | None:
    """The first taint that keeps a pod off a node."""
    known = list(tolerations)
    for taint in taints:
        if taint.effect != "PreferNoSchedule" and not any(row.tolerates(taint) for row in known):
            return taint
    return None
