"""Putting the choice of nodes into one pod spec: what is missing is added, and what contradicts is
refused.

Nothing of the user's is removed: a toleration or term with the same effect counts, whatever its
form.
"""

from __future__ import annotations

import yaml

from arc_toolkit.edit.code.nodes import OpaqueNode
from arc_toolkit.edit.yaml.nodes import get, items_of, text_of, walk
from arc_toolkit.placement.decisions import Obstacle, PlacementRefused, SpecEditor
from arc_toolkit.placement.manifests import PREFERRED, REQUIRED, PodSpec
from arc_toolkit.placement.spot import (
    PINNING_LABELS,
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
    editor: SpecEditor,
    spec: PodSpec,
    spot: SpotPolicy,
    capacity: SpotCapacity,
    *,
    tolerations: bool = True,
    affinity: bool = True,
) -> None:
    """Ask for these nodes; `PlacementRefused` if the pod spec says the opposite."""
    preferences = refuse_contradictions(spec, spot, capacity)
    if tolerations and spot is not SpotPolicy.AVOID:
        add_toleration(editor, spec, capacity)
    if not affinity:
        return
    if not spec.shape.has_affinity:
        _choose_by_selector(editor, spec, spot, capacity)
    elif spot is SpotPolicy.PREFER:
        if not prefers(spec, capacity.label):
            editor.append((*spec.path, *PREFERRED), capacity.preference())
    else:
        is_required = spot is SpotPolicy.REQUIRE
        wanted = SpotPreference.TOWARDS if is_required else SpotPreference.AWAY
        if wanted not in preferences:
            _require(editor, spec, wanted, capacity)


def add_toleration(editor: SpecEditor, spec: PodSpec, capacity: SpotCapacity) -> None:
    row = capacity.toleration()
    if row is not None and capacity.taint is not None and not tolerates(spec, capacity.taint):
        editor.append((*spec.path, "tolerations"), row)


def _require(
    editor: SpecEditor, spec: PodSpec, wanted: SpotPreference, capacity: SpotCapacity
) -> None:
    added = capacity.term("In" if wanted is SpotPreference.TOWARDS else "NotIn")
    terms = spec.required_terms
    if not terms:
        if getattr(spec.get(*REQUIRED), "value", None):
            raise _contradiction(
                "its nodeSelectorTerms are empty, and match no node: take them out first"
            )
        editor.append((*spec.path, *REQUIRED), added)
    # Terms are ORed: a further one would widen the choice, so each of them gets the expression.
    for index, term in terms.items():
        if term_preference(term, capacity.label) is not wanted:
            path = (*spec.path, *REQUIRED, index, "matchExpressions")
            editor.append(path, *added["matchExpressions"])


def _choose_by_selector(
    editor: SpecEditor, spec: PodSpec, spot: SpotPolicy, capacity: SpotCapacity
) -> None:
    """A kind without an affinity, such as a TrainJob of Kubeflow Trainer 2.0."""
    if spot is SpotPolicy.PREFER:
        reason = f"{spec.shape.lack}: spot nodes can only be required"
        raise PlacementRefused(Obstacle.NO_FIELD, reason)
    if spot is SpotPolicy.REQUIRE:
        key, value = capacity.label
        editor.set((*spec.path, "nodeSelector", key), value)
    elif capacity.taint is None or tolerates(spec, capacity.taint):
        reason = f"{spec.shape.lack}: spot nodes cannot be excluded"
        raise PlacementRefused(Obstacle.NO_FIELD, reason)


_NODE_FIELDS = ("nodeSelector", "affinity", "tolerations", "nodeName")


def refuse_contradictions(
    spec: PodSpec, spot: SpotPolicy, capacity: SpotCapacity
) -> set[SpotPreference]:
    """What the pod spec requires about spot nodes; refused if that contradicts `spot`."""
    fields = {name: node for name in _NODE_FIELDS if (node := spec.get(name)) is not None}
    # Only values of code can be opaque, and the marks of the C loader are of another class.
    for name, field in fields.items() if isinstance(spec.node.start_mark, yaml.Mark) else ():
        for node in walk((field,)):
            if isinstance(node, OpaqueNode):
                raise PlacementRefused(Obstacle.NOT_PLAIN, f"`{name}` {node.reason}")
    if not fields.keys() - {"tolerations"}:
        return set()  # most pod specs say nothing about nodes
    preferences, terms = preferences_and_terms(spec, capacity.label)
    selected = "its nodeSelector or required affinity"
    if spot is SpotPolicy.AVOID:
        if SpotPreference.TOWARDS in preferences | terms:
            raise _contradiction(f"{selected} asks for spot nodes: take that out first")
        return preferences
    if name := pinned_node(spec):
        raise _contradiction(f"it is bound to the node {name} by its name")
    if SpotPreference.AWAY in preferences | terms:
        raise _contradiction(f"{selected} keeps it off spot nodes: take that out first")
    if key := foreign_label(spec, capacity.label):
        raise _contradiction(
            f"it asks for nodes with {key}, a label of another cloud: name that with --cloud"
        )
    if spot is SpotPolicy.PREFER and SpotPreference.TOWARDS in preferences:
        raise _contradiction(f"{selected} asks for spot nodes only: it cannot fall back")
    if SpotPreference.TOWARDS not in preferences and (pool := _pool(spec, capacity.label)):
        raise _contradiction(
            f"pinned to one pool by {pool}; if that is the spot pool, pass --label {pool}"
        )
    return preferences


def _contradiction(reason: str) -> PlacementRefused:
    return PlacementRefused(Obstacle.CONTRADICTION, reason)


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
