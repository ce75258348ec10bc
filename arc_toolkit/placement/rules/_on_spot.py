"""Which pods of a manifest are on spot capacity, by the labels and taints of every cloud, and what
`place` would do about them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from arc_toolkit.edit.files.edits import Refused
from arc_toolkit.edit.yaml.nodes import get, items_of, text_of, walk
from arc_toolkit.kube.workloads import Shape
from arc_toolkit.placement.decisions import PlacementDecision
from arc_toolkit.placement.field_inheritance import pods_of
from arc_toolkit.placement.manifests import PREFERRED, PodSpec, Workload, makes_pod
from arc_toolkit.placement.place_plan import PlacePlan
from arc_toolkit.placement.spot import CLOUDS, SPOT_LABELS, SpotPolicy, is_on_spot, tolerations
from arc_toolkit.placement.workload_decisions import decide_spot, refuse_duplicate_key


def spot_pods(plan: PlacePlan) -> Iterator[tuple[Workload, PodSpec]]:
    """Every pod spec on spot capacity, with the fields that it inherits."""
    for workload in plan.workloads:
        for spec in pods_of(workload):
            if is_on_spot(spec):
                yield workload, spec


def names_spot_taint(spec: PodSpec) -> bool:
    """Whether a toleration is meant for spot nodes; one for every taint is not."""
    return any(
        row.key in SPOT_LABELS and row.value in (None, *SPOT_LABELS[row.key])
        for row in tolerations(spec)
    )


# Labels on nodes of every pool: https://kubernetes.io/docs/reference/labels-annotations-taints/
_COMMON = frozenset(
    f"{prefix}kubernetes.io/{name}"
    for prefix in ("", "beta.")
    for name in ("os", "arch", "hostname")
)


def chooses_nodes(spec: PodSpec) -> bool:
    """Whether it names nodes by a label of its cluster, such as that of a pool: maybe the spot pool."""
    preferred = (get(item, "preference") for item in items_of(spec.get(*PREFERRED)))
    keys = {
        text_of(get(item, "key"))
        for term in (*spec.required_terms.values(), *preferred)
        for item in items_of(get(term, "matchExpressions"))
    }
    return any(key not in _COMMON for key in keys.union(spec.selector))


def cloud_of(spec: PodSpec) -> str:
    """The cloud whose label or taint the pod spec names."""
    words = {
        text_of(node)
        for name in ("nodeSelector", "affinity", "tolerations")
        for node in walk((spec.get(name),))
    }
    return next((name for name, cloud in CLOUDS.items() if cloud.label[0] in words), "aks")


class Advice(NamedTuple):
    """The `place` command that would help, or why `place` refuses; neither if it changes nothing."""

    command: str = ""
    refusal: str = ""

    def sentence(self, effect: str) -> str:
        return f"{self.command} {effect}" if self.command else self.refusal


def spot_advice(plan: PlacePlan, workload: Workload, spec: PodSpec, policy: SpotPolicy) -> Advice:
    """What `place` would do about the nodes of these pods."""
    cloud = cloud_of(spec)
    settings = replace(plan.settings, spot=policy, capacity=CLOUDS[cloud])
    decisions = [
        decision
        for decision in decide_spot(workload, settings)
        if decision.spec is None
        or decision.spec.path == spec.path
        or decision.spec.shape is Shape.POD_TEMPLATE
        or not makes_pod(decision.spec)
    ]
    option = "" if cloud == "aks" else f" --cloud {cloud}"
    return advise(plan, workload, decisions, f"`place --spot {policy.value}{option}`")


def advise(
    plan: PlacePlan, workload: Workload, decisions: Iterable[PlacementDecision], command: str
) -> Advice:
    """The command if `place` would change something by these decisions, or its refusal."""
    editor = plan.new_editor()
    try:
        for decision in (refuse_duplicate_key(workload), *decisions):
            if decision is not None:
                decision.apply(editor)
        if editor.empty:
            return Advice()
        editor.finish()  # refuses what cannot be proved, such as a change below an anchor
    except Refused as refusal:
        return Advice(refusal=refusal.reason)
    return Advice(command)
