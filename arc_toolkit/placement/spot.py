"""What spot capacity looks like on each cloud, and what a pod spec says about it already. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from arc_toolkit.edit.yaml.nodes import YamlNode, get, items_of, text_of
from arc_toolkit.errors import ArcError
from arc_toolkit.kube.labels import parse_label
from arc_toolkit.kube.nodes import POOL_LABELS
from arc_toolkit.kube.taints import SPOT_KEY, SPOT_LABELS, SPOT_TAINT, Taint, Toleration
from arc_toolkit.placement.manifests import PREFERRED, REQUIRED, PodSpec

# Of 1 to 100: others that a user gave keep their say.
WEIGHT = 100


class SpotPolicy(Enum):
    """Where pods are to run."""

    REQUIRE = "require"  # on spot nodes only
    PREFER = "prefer"  # on spot nodes, else on others
    AVOID = "avoid"  # never on spot nodes


@dataclass(frozen=True, slots=True)
class SpotCapacity:
    """How spot nodes can be known, and what they do before they are gone."""

    label: tuple[str, str]
    taint: Taint | None
    # Seconds between the notice and the end that a pod can count on, with what is lost until it is
    # noticed taken off.
    notice: int

    def toleration(self) -> dict[str, Any] | None:
        """What pods must say to be let onto these nodes; None if there is nothing to tolerate."""
        taint = self.taint
        if taint is None:
            return None
        if not taint.value:
            return {"key": taint.key, "operator": "Exists", "effect": taint.effect}
        return {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect}

    def term(self, operator: str) -> dict[str, Any]:
        """A term of a node affinity: In for these nodes, NotIn for all others."""
        key, value = self.label
        return {"matchExpressions": [{"key": key, "operator": operator, "values": [value]}]}

    def preference(self) -> dict[str, Any]:
        return {"weight": WEIGHT, "preference": self.term("In")}

    def pod_fields(self, spot: SpotPolicy) -> dict[str, Any]:
        """The fields of a pod spec that says nothing about nodes yet."""
        affinity: dict[str, Any] = {PREFERRED[-1]: [self.preference()]}
        if spot is not SpotPolicy.PREFER:
            term = self.term("In" if spot is SpotPolicy.REQUIRE else "NotIn")
            affinity = {REQUIRED[-2]: {REQUIRED[-1]: [term]}}
        row = None if spot is SpotPolicy.AVOID else self.toleration()
        tolerations = {"tolerations": [row]} if row is not None else {}
        return {**tolerations, "affinity": {"nodeAffinity": affinity}}


# The label, taint and notice of each cloud. On GKE the taint exists if it was added (Autopilot
# does).
#   AKS   https://learn.microsoft.com/azure/aks/spot-node-pool: 30 s at best, less the detection
#   NAP   https://learn.microsoft.com/azure/aks/node-autoprovision: no taint of its own
#   EKS   https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html: 2 minutes
#   GKE   https://cloud.google.com/kubernetes-engine/docs/concepts/spot-vms: 30 s, 15 s for pods
CLOUDS = {
    "aks": SpotCapacity((SPOT_KEY, "spot"), SPOT_TAINT, 25),
    "aks-nap": SpotCapacity(("karpenter.sh/capacity-type", "spot"), None, 25),
    "eks": SpotCapacity(("eks.amazonaws.com/capacityType", "SPOT"), None, 120),
    "gke": SpotCapacity(
        ("cloud.google.com/gke-spot", "true"),
        Taint("cloud.google.com/gke-spot", "true", "NoSchedule"),
        15,
    ),
}


def spot_capacity(cloud: str, label: str | None, taint: str | None) -> SpotCapacity:
    """That of a cloud, with another label (`KEY=VALUE`) or taint (`KEY=VALUE:EFFECT`)."""
    capacity = CLOUDS[cloud]
    if label is not None:
        pair = parse_label(label)
        if pair is None:
            raise ArcError(f"--label {label}: write KEY=VALUE, with the characters of a label")
        capacity = replace(capacity, label=pair)
    if taint is not None:
        row = Toleration.parse(taint)
        capacity = replace(capacity, taint=Taint(row.key, row.value or "", row.effect))
    return capacity


# Labels that name one pool or node: a selector with one of them keeps pods there, whatever the pool
# is made of.
PINNING_LABELS = frozenset(
    (*POOL_LABELS, "alpha.eksctl.io/nodegroup-name", "kubernetes.io/hostname")
)
# Labels of nodes that are never spot nodes: https://learn.microsoft.com/azure/aks/use-system-pools
_NEVER_SPOT = ("kubernetes.azure.com/mode", "In", {"system"})
_ON_EVERY_NODE = ("karpenter.sh/capacity-type", "kubernetes.azure.com/priority")
# Prefixes of labels that only nodes of one vendor have.
_VENDORS = {
    "kubernetes.azure.com": "Azure",
    "karpenter.azure.com": "Azure",
    "eks.amazonaws.com": "AWS",
    "karpenter.k8s.aws": "AWS",
    "alpha.eksctl.io": "AWS",
    "cloud.google.com": "Google",
}


class SpotPreference(Enum):
    """What a selector or an expression says about spot nodes."""

    __hash__ = object.__hash__  # it is in many sets, and the hash of Enum is a function of Python

    NONE = "none"
    TOWARDS = "towards spot nodes"
    AWAY = "away from spot nodes"


def tolerations(spec: PodSpec) -> Iterator[Toleration]:
    """What the pods tolerate."""
    for item in items_of(spec.get("tolerations")):
        exists = text_of(get(item, "operator")) == "Exists"
        value = None if exists else text_of(get(item, "value")) or ""
        yield Toleration(text_of(get(item, "key")) or "", value, text_of(get(item, "effect")) or "")


def tolerates(spec: PodSpec, taint: Taint) -> bool:
    return any(row.tolerates(taint) for row in tolerations(spec))


def _label_preference(
    key: str, operator: str, values: set[str | None], label: tuple[str, str]
) -> SpotPreference:
    """What a requirement of a label means; `label` is one of spot nodes, beside the known ones."""
    spot_values = set(SPOT_LABELS.get(key, ())) | ({label[1]} if key == label[0] else set())
    if (key, operator, values) == _NEVER_SPOT:
        return SpotPreference.AWAY
    if not spot_values:
        return SpotPreference.NONE
    # A label of capacity has a value on every node with Karpenter; `regular` is never written by
    # AKS.
    if operator in ("Exists", "DoesNotExist") and key not in _ON_EVERY_NODE:
        return SpotPreference.TOWARDS if operator == "Exists" else SpotPreference.AWAY
    is_spot = bool(values & spot_values)
    if operator == "In" and values:
        if values <= spot_values:
            return SpotPreference.TOWARDS
        return SpotPreference.NONE if is_spot else SpotPreference.AWAY
    return SpotPreference.AWAY if operator == "NotIn" and is_spot else SpotPreference.NONE


def term_preference(term: YamlNode, label: tuple[str, str]) -> SpotPreference:
    """What one of nodeSelectorTerms says: its expressions are ANDed."""
    preferences = set()
    for item in items_of(get(term, "matchExpressions")):
        key, operator = text_of(get(item, "key")) or "", text_of(get(item, "operator")) or ""
        values = {text_of(value) for value in items_of(get(item, "values"))}
        preferences.add(_label_preference(key, operator, values, label))
    order = (SpotPreference.AWAY, SpotPreference.TOWARDS)
    return next((item for item in order if item in preferences), SpotPreference.NONE)


def preferences_and_terms(
    spec: PodSpec, label: tuple[str, str]
) -> tuple[set[SpotPreference], set[SpotPreference]]:
    """What the selector and the required affinity say about spot nodes, and what any of the terms
    of the affinity says."""
    preferences = {
        _label_preference(key, "In", {value}, label) for key, value in spec.selector.items()
    }
    terms = {term_preference(term, label) for term in spec.required_terms.values()}
    # Terms are ORed: only what all of them say holds.
    if len(terms) == 1:
        preferences |= terms
    preferences.discard(SpotPreference.NONE)
    return preferences, terms


def foreign_label(spec: PodSpec, label: tuple[str, str]) -> str:
    """A required label that only nodes of another vendor than that of `label` have; else empty."""
    vendor = _vendor(label[0])
    if vendor is None:
        return ""

    def first(keys: Iterable[str]) -> str:
        return next((key for key in keys if _vendor(key) not in (None, vendor)), "")

    alternatives = [
        first(
            text_of(get(item, "key")) or ""
            for item in items_of(get(term, "matchExpressions"))
            if text_of(get(item, "operator")) in ("In", "Exists")
        )
        for term in spec.required_terms.values()
    ]
    return first(spec.selector) or (next(iter(alternatives), "") if all(alternatives) else "")


def _vendor(key: str) -> str | None:
    return _VENDORS.get(key.partition("/")[0])


def pinned_node(spec: PodSpec) -> str:
    """The node that the pods are bound to by its name; empty if there is none."""
    if (name := spec.text("nodeName")) is not None:
        return name
    for term in spec.required_terms.values():
        field = get(term, "matchFields", 0)
        if text_of(get(field, "operator")) == "In":
            return text_of(get(field, "values", 0)) or ""
    return ""


def prefers(spec: PodSpec, label: tuple[str, str]) -> bool:
    """Whether a preferred term asks for spot nodes."""
    terms = (get(item, "preference") for item in items_of(spec.get(*PREFERRED)))
    return any(
        term is not None and term_preference(term, label) is SpotPreference.TOWARDS
        for term in terms
    )


def requires_spot(spec: PodSpec, label: tuple[str, str] = CLOUDS["aks"].label) -> bool:
    """Whether the pods run on spot nodes only, by the labels of any cloud or by `label`."""
    return SpotPreference.TOWARDS in preferences_and_terms(spec, label)[0]


def is_on_spot(spec: PodSpec, label: tuple[str, str] = CLOUDS["aks"].label) -> bool:
    """Whether the pods are drawn to spot nodes, by force or by preference."""
    required = preferences_and_terms(spec, label)[0]
    is_preferred = SpotPreference.AWAY not in required and prefers(spec, label)
    return SpotPreference.TOWARDS in required or is_preferred
