"""Taints of nodes and tolerations of pods, and the annotation that gives a namespace tolerations.

The annotation is read by the admission plugin PodTolerationRestriction, which AKS has on:
https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#podtolerationrestriction
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from arc_toolkit.errors import ArcError
from arc_toolkit.kube.labels import is_namespace

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
# AKS puts this key, with the value `spot`, on the nodes of a spot pool: as a label and as a taint.
SPOT_KEY = "kubernetes.azure.com/scalesetpriority"
# Labels that tell spot nodes from others, with the values that mean spot.
SPOT_LABELS: dict[str, frozenset[str]] = {
    SPOT_KEY: frozenset(["spot"]),
    "kubernetes.azure.com/priority": frozenset(["spot"]),
    "karpenter.sh/capacity-type": frozenset(["spot"]),
    "eks.amazonaws.com/capacityType": frozenset(["SPOT"]),
    "cloud.google.com/gke-spot": frozenset(["true"]),
    "cloud.google.com/gke-preemptible": frozenset(["true"]),
    "cloud.google.com/gke-provisioning": frozenset(["spot", "preemptible"]),
}
# How the keys of taints begin that Kubernetes, its cloud providers and autoscalers set and take
# away themselves:
# https://kubernetes.io/docs/reference/labels-annotations-taints/
_PASSING = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
    "karpenter.sh/",
    "node.cilium.io/",
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
    "disk.csi.azure.com/agent-not-ready",
    "file.csi.azure.com/agent-not-ready",
)


@dataclass(frozen=True, slots=True)
class Taint:
    """`added` is the API server's time; taints that differ only in it are equal."""

    key: str
    value: str
    effect: str
    added: str = field(default="", compare=False)

    @property
    def passes(self) -> bool:
        """Whether it is there for a while, and not because of what the node is for."""
        return self.key.startswith(_PASSING)

    def __str__(self) -> str:
        return f"{self.key}{'=' + self.value if self.value else ''}:{self.effect}"


@dataclass(frozen=True, slots=True)
class Toleration:
    """A value of None is the operator Exists; no effect is every effect, no key every taint."""

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
                f"{text!r} is not a taint: "
                f"write KEY=VALUE:EFFECT or KEY:EFFECT, with {', '.join(EFFECTS)}"
            )
        return cls(key, value if equals else None, effect)

    @classmethod
    def parse_option(cls, text: str) -> Toleration:
        """`KEY`, `KEY=VALUE`, and both with `:EFFECT`."""
        if text.rpartition(":")[2] in EFFECTS:
            toleration = cls.parse(text)
        else:
            key, equals, value = text.partition("=")
            toleration = cls(key, value if equals else None)
        if not toleration.key or ":" in toleration.key:
            raise ArcError(
                f"{text!r} is not a taint: "
                "write KEY or KEY=VALUE, and :EFFECT if only one is tolerated"
            )
        if toleration.key in OWNER_KEYS and not toleration.value:
            raise ArcError(
                f"{text}: jobs tolerate it with one value only: write {toleration.key}=NAME"
            )
        return toleration

    def tolerates(self, taint: Taint) -> bool:
        """https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/"""
        return (
            (self.key == taint.key or (not self.key and self.value is None))
            and (not self.effect or self.effect == taint.effect)
            and (self.value is None or self.value == taint.value)
        )


SPOT_TAINT = Taint(SPOT_KEY, "spot", "NoSchedule")
# What the pods of AzureML's jobs tolerate:
# https://learn.microsoft.com/azure/machine-learning/reference-kubernetes Not
# `ml.azure.com/amlarc-system`, which only the services of the extension tolerate.
AZUREML_TOLERATIONS = (
    Toleration("ml.azure.com/amlarc", "true"),
    Toleration("ml.azure.com/amlarc-workload", "true"),
)
# Tolerated with the name of the job's own resource group, workspace or compute as the value.
OWNER_KEYS = ("ml.azure.com/resource-group", "ml.azure.com/workspace", "ml.azure.com/compute")


def untolerated_taint(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> Taint | None:
    """The first taint that keeps a pod off a node."""
    tolerated = list(tolerations)
    for taint in taints:
        if taint.effect != "PreferNoSchedule" and not any(
            row.tolerates(taint) for row in tolerated
        ):
            return taint
    return None


ANNOTATION = "scheduler.alpha.kubernetes.io/defaultTolerations"


def annotation_text() -> str:
    """The toleration of AKS's spot pools as the plugin reads it: JSON on one line."""
    taint = SPOT_TAINT
    row = {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect}
    return json.dumps([row], separators=(",", ":"))


def annotate_command(namespace: str) -> str:
    """kubectl refuses it where another text is there: nobody's tolerations are lost."""
    return f"kubectl annotate namespace {namespace} {ANNOTATION}={shlex.quote(annotation_text())}"


def namespace_manifest(namespace: str) -> dict[str, Any]:
    """The same for `kubectl apply`, which makes the namespace where it is missing."""
    if not is_namespace(namespace):
        raise ArcError(
            f"{namespace!r} cannot be a namespace: use lower-case letters, digits and - (RFC 1123)"
        )
    metadata = {"name": namespace, "annotations": {ANNOTATION: annotation_text()}}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def annotated_tolerations(annotations: Mapping[str, str]) -> list[Toleration]:
    """What pods of a namespace with these annotations tolerate; ArcError if none is admitted."""
    text = annotations.get(ANNOTATION)
    if not text:
        return []
    try:
        rows = json.loads(text) or []
    except ValueError:
        raise ArcError(f"its annotation {ANNOTATION} is not valid JSON") from None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ArcError(f"its annotation {ANNOTATION} is not a list of tolerations")
    if invalid := [row for row in rows if row.get("effect") not in (None, "", *EFFECTS)]:
        raise ArcError(f"its annotation {ANNOTATION} has the effect {invalid[0]['effect']!r}")
    return [
        Toleration(
            str(row.get("key") or ""),
            None if row.get("operator") == "Exists" else str(row.get("value") or ""),
            str(row.get("effect") or ""),
        )
        for row in rows
    ]
