"""Putting the choice of nodes into one pod spec: what is missing is added, and what contradicts is refused.

Nothing of the user's is removed: a toleration or term that already does it counts, whatever its form.
"""

from __future__ import annotations

import yaml

from arc_toolkit.edit.code.nodes import OpaqueNode
from arc_toolkit.edit.files.edits import Refused
from arc_toolkit.edit.yaml.nodes import get, text_of, walk
from arc_toolkit.placement.manifests import PREFERRED, REQUIRED, PodSpec
from arc_toolkit.placement.spec_editor import SpecEditor
from arc_toolkit.placement.spot import (
    PINNING_LABELS,
    Pull,
    SpotCapacity,
    SpotPolicy,
    foreign_label,
    pinned_node,
    prefers,
    pulls_and_terms,
    term_pull,
    tolerates,
)


def place_pods(
    editor: SpecEditor,
    spec: PodSpec,
    spot: SpotPolicy,
    capacity: SpotCapacity,
    *,
    tolerations: bool = True,
    affinity: bool = True,
) -> None:
    """Ask for these nodes; `Refused` with the reason if the pod spec says the opposite."""
    directions = refuse_contradictions(spec, spot, capacity)
    if tolerations and spot is not SpotPolicy.AVOID:
        add_toleration(editor, spec, capacity)
    if not affinity:
        return
    if not spec.shape.has_affinity:
        _place_by_selector(editor, spec, spot, capacity)
    elif spot is SpotPolicy.PREFER:
        if not prefers(spec, capacity.label):
            editor.append((*spec.path, *PREFERRED), capacity.preference())
    else:
        pull = Pull.TO if spot is SpotPolicy.REQUIRE else Pull.AWAY
        if pull not in directions:
            _require(editor, spec, pull, capacity)


def add_toleration(editor: SpecEditor, spec: PodSpec, capacity: SpotCapacity) -> None:
    row = capacity.toleration()
    if row is not None and capacity.taint is not None and not tolerates(spec, capacity.taint):
        editor.append((*spec.path, "tolerations"), row)


def _require(editor: SpecEditor, spec: PodSpec, pull: Pull, capacity: SpotCapacity) -> None:
    added = capacity.term("In" if pull is Pull.TO else "NotIn")
    terms = spec.required_terms
    if not terms:
        if getattr(spec.get(*REQUIRED), "value", None):
            raise Refused("its nodeSelectorTerms are empty, and match no node: take them out first")
        editor.append((*spec.path, *REQUIRED), added)
    # Terms are ORed: a further one would widen the choice, so each of them gets the expression.
    for index, term in terms.items():
        if term_pull(term, capacity.label) is not pull:
            editor.append(
                (*spec.path, *REQUIRED, index, "matchExpressions"), *added["matchExpressions"]
            )


def _place_by_selector(
    editor: SpecEditor, spec: PodSpec, spot: SpotPolicy, capacity: SpotCapacity
) -> None:
    """A kind without an affinity, such as a TrainJob of Kubeflow Trainer 2.0, which only has the other two."""
    if spot is SpotPolicy.PREFER:
        raise Refused(f"{spec.shape.lack}, so that spot nodes can only be required")
    if spot is SpotPolicy.REQUIRE:
        key, value = capacity.label
        editor.set((*spec.path, "nodeSelector", key), value)
    elif capacity.taint is None or tolerates(spec, capacity.taint):
        raise Refused(f"{spec.shape.lack}, so that spot nodes cannot be excluded")


_READ = ("nodeSelector", "affinity", "tolerations", "nodeName")


def refuse_contradictions(spec: PodSpec, spot: SpotPolicy, capacity: SpotCapacity) -> set[Pull]:
    """What the pod spec says about spot nodes; `Refused` if that is the opposite of what is asked for."""
    fields = {name: node for name in _READ if (node := spec.get(name)) is not None}
    # Only values of code can be opaque, and the marks of the C loader are of another class.
    for name, field in fields.items() if isinstance(spec.node.start_mark, yaml.Mark) else ():
        for node in walk((field,)):
            if isinstance(node, OpaqueNode):
                raise Refused(f"`{name}` {node.reason}")
    if not fields.keys() - {"tolerations"}:
        return set()  # most pod specs say nothing about nodes
    directions, terms = pulls_and_terms(spec, capacity.label)
    if spot is SpotPolicy.AVOID:
        if Pull.TO in directions | terms:
            raise Refused(
                "its nodeSelector or required affinity asks for spot nodes: take that out first"
            )
        return directions
    if name := pinned_node(spec):
        raise Refused(f"it is bound to the node {name} by its name")
    if Pull.AWAY in directions | terms:
        raise Refused(
            "its nodeSelector or required affinity keeps it off spot nodes: take that out first"
        )
    if key := foreign_label(spec, capacity.label):
        raise Refused(
            f"it asks for nodes with {key}, which is a label of another cloud: name that with --cloud"
        )
    if spot is SpotPolicy.PREFER and Pull.TO in directions:
        raise Refused(
            "its nodeSelector or required affinity asks for spot nodes only, so that it cannot fall back"
        )
    if Pull.TO not in directions and (pool := _pool(spec, capacity.label)):
        raise Refused(
            f"{pool} keeps it in one pool; if that is the spot pool, name it with --label {pool}"
        )
    return directions


def _pool(spec: PodSpec, label: tuple[str, str]) -> str:
    """`agentpool=cpu` if the pods are kept in one pool that is not known to be a spot pool."""
    # A pool of Karpenter may have nodes of both sorts, which the label of the capacity then tells apart.
    labels = (
        PINNING_LABELS - {"karpenter.sh/nodepool"}
        if label[0].startswith("karpenter.sh/")
        else PINNING_LABELS
    )
    for key, value in spec.selector.items():
        if key in labels and (key, value) != label:
            return f"{key}={value}"
    for term in spec.required_terms.values():
        for expression in getattr(get(term, "matchExpressions"), "value", ()):
            key, value = (
                text_of(get(expression, "key")) or "",
                text_of(get(expression, "values", 0)) or "",
            )
            is_in = text_of(get(expression, "operator")) == "In"
            if key in labels and is_in and (key, value) != label:
                return f"{key}={value}"
    return ""
