"""Putting the choice of nodes into one pod spec: what is missing is added, and what contradicts is
refused.

Nothing of the user's is removed: a toleration or term with the same effect counts, whatever its
form.
"""

from __future__ import annotations

import yaml

from arc_toolkit.edit.code.nodes import OpaqueNode
from arc_toolkit.edit.files.edits import Refused
from arc_toolkit.edit.yaml.nodes import get, items_of, text_of, walk
from arc_toolkit.kube.workloads import Shape
from arc_toolkit.placement.manifests import REQUIRED, PodSpec
from arc_toolkit.placement.place_plan import PlacementDecision
from arc_toolkit.placement.spot import (
    PINNING_LABELS,
    WEIGHT,
    SpotCapacity,
    SpotPolicy,
    SpotPreference,
    foreign_label,
    pinned_node,
    preferences_and_terms,
    prefers,
    term_preference,
    tolerates,
)


def choose_nodes(
    decision: PlacementDecision,
    spec: PodSpec,
    spot: SpotPolicy,
    capacity: SpotCapacity,
    *,
    tolerations: bool = True,
    affinity: bool = True,
) -> None:
    """Ask for these nodes; `Refused` if the pod spec says the opposite."""
    preferences = _refuse_contradictions(spec, spot, capacity)
    taint = capacity.taint if tolerations and spot is not SpotPolicy.AVOID else None
    if taint is not None and not tolerates(spec, taint):
        decision.append((*spec.path, "tolerations"), capacity.toleration())
    if not affinity:
        return
    is_executor = spec.shape is Shape.EXECUTOR
    if spec.shape is Shape.KNATIVE:
        if capacity.taint is None or tolerates(spec, capacity.taint):
            raise Refused(
                "Knative takes an affinity only with its flag kubernetes.podspec-affinity: "
                "spot nodes cannot be excluded"
            )
    elif spot is SpotPolicy.PREFER:
        if not prefers(spec, capacity.label):
            weighted = {**capacity.term("In"), "weight": WEIGHT}
            preference = weighted if is_executor else capacity.preference()
            decision.append((*spec.path, *spec.preferred_path), preference)
    elif spot is SpotPolicy.REQUIRE:
        if SpotPreference.TOWARDS in preferences:
            return
        if is_executor:
            # Every release of kfp-kubernetes has the selector, and it holds beside alternatives.
            key, value = capacity.label
            decision.set((*spec.path, "nodeSelector", "labels", key), value)
        else:
            _require(decision, spec, SpotPreference.TOWARDS, capacity)
    elif SpotPreference.AWAY not in preferences:
        _require(decision, spec, SpotPreference.AWAY, capacity)


def _require(
    decision: PlacementDecision, spec: PodSpec, wanted: SpotPreference, capacity: SpotCapacity
) -> None:
    term = capacity.term("In" if wanted is SpotPreference.TOWARDS else "NotIn")
    path = (*spec.path, *spec.required_path)
    if not spec.required_terms:
        if getattr(spec.get(*REQUIRED), "value", None):
            raise Refused("its nodeSelectorTerms are empty, and match no node: take them out first")
        decision.append(path, term)
    # Terms are ORed: a further one would widen the choice, so each of them gets the expression.
    for index, existing in spec.required_terms.items():
        if term_preference(existing, capacity.label) is not wanted:
            decision.append((*path, index, "matchExpressions"), *term["matchExpressions"])


_NODE_FIELDS = ("nodeSelector", "affinity", "tolerations", "nodeName")


def _refuse_contradictions(
    spec: PodSpec, spot: SpotPolicy, capacity: SpotCapacity
) -> set[SpotPreference]:
    """What the pod spec requires about spot nodes; refused if that contradicts `spot`."""
    fields = {name: node for name in _NODE_FIELDS if (node := spec.get(name)) is not None}
    # Only values of code can be opaque, and the marks of the C loader are of another class.
    for name, field in fields.items() if isinstance(spec.node.start_mark, yaml.Mark) else ():
        for node in walk((field,)):
            if isinstance(node, OpaqueNode):
                raise Refused(f"`{name}` {node.reason}")
    if not fields.keys() - {"tolerations"}:
        return set()  # most pod specs say nothing about nodes
    preferences, terms = preferences_and_terms(spec, capacity.label)
    selected = "its nodeSelector or required affinity"
    if spot is SpotPolicy.AVOID:
        if SpotPreference.TOWARDS in preferences | terms:
            raise Refused(f"{selected} asks for spot nodes: take that out first")
        return preferences
    if name := pinned_node(spec):
        raise Refused(f"it is bound to the node {name} by its name")
    if SpotPreference.AWAY in preferences | terms:
        raise Refused(f"{selected} keeps it off spot nodes: take that out first")
    if key := foreign_label(spec, capacity.label):
        raise Refused(
            f"it asks for nodes with {key}, a label of another cloud: name that with --cloud"
        )
    if spot is SpotPolicy.PREFER and SpotPreference.TOWARDS in preferences:
        raise Refused(f"{selected} asks for spot nodes only: it cannot fall back")
    if SpotPreference.TOWARDS not in preferences and (pool := _pool(spec, capacity.label)):
        raise Refused(
            f"pinned to one pool by {pool}; if that is the spot pool, pass --label {pool}"
        )
    return preferences


def _pool(spec: PodSpec, label: tuple[str, str]) -> str:
    """`agentpool=cpu` if the pods are kept in one pool that is not known to be a spot pool."""
    pinning = PINNING_LABELS
    if label[0].startswith("karpenter.sh/"):
        # A pool of Karpenter may have both kinds of nodes; the label of the capacity decides.
        pinning = PINNING_LABELS - {"karpenter.sh/nodepool"}
    expressions = (
        item
        for term in spec.required_terms.values()
        for item in items_of(get(term, "matchExpressions"))
        if text_of(get(item, "operator")) == "In"
    )
    selected = [
        *spec.selector.items(),
        *((text_of(get(item, "key")), text_of(get(item, "values", 0))) for item in expressions),
    ]
    for key, value in selected:
        if key in pinning and (key, value) != label:
            return f"{key}={value or ''}"
    return ""
