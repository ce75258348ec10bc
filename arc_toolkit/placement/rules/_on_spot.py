"""Which workloads and roles of a manifest are on spot capacity, by the labels and taints of every cloud."""

from __future__ import annotations

from collections.abc import Iterator

from arc_toolkit.edit.yaml.nodes import get, items_of, text_of, walk
from arc_toolkit.kube.taints import SPOT_KEY, Taint
from arc_toolkit.placement.manifests import PREFERRED, PodSpec, Workload
from arc_toolkit.placement.place_plan import PlacePlan
from arc_toolkit.placement.spot import (
    CLOUDS,
    SPOT_LABELS,
    Pull,
    SpotCapacity,
    prefers,
    pulls,
    tolerations,
)

# Any label of a cloud will do here: `pulls` and `prefers` know all of them.
_LABEL = CLOUDS["aks"].label
TAINT = Taint(SPOT_KEY, "spot", "NoSchedule")


def requires_spot(spec: PodSpec) -> bool:
    return Pull.TO in pulls(spec, _LABEL)


def is_on_spot(spec: PodSpec) -> bool:
    """Whether the pods are pulled to spot nodes, by force or by preference."""
    return requires_spot(spec) or prefers(spec, _LABEL)


def names_spot_taint(spec: PodSpec) -> bool:
    """Whether a toleration is meant for spot nodes; one for every taint is not."""
    return any(
        row.key in SPOT_LABELS and row.value in (None, *SPOT_LABELS[row.key])
        for row in tolerations(spec)
    )


# Labels that nodes of every pool have: https://kubernetes.io/docs/reference/labels-annotations-taints/
_COMMON = frozenset(
    f"{prefix}kubernetes.io/{name}"
    for prefix in ("", "beta.")
    for name in ("os", "arch", "hostname")
)


def chooses_nodes(spec: PodSpec) -> bool:
    """Whether it names nodes by a label of someone's own, such as that of a pool, which may be the spot pool."""
    preferred = (get(item, "preference") for item in items_of(spec.get(*PREFERRED)))
    terms = (*spec.required_terms.values(), *preferred)
    expressions = (
        text_of(get(item, "key"))
        for term in terms
        for item in items_of(get(term, "matchExpressions"))
    )
    return any(key not in _COMMON for key in (*spec.selector, *expressions))


def spot_specs(plan: PlacePlan) -> Iterator[tuple[Workload, PodSpec]]:
    """Every pod spec that is on spot capacity."""
    for workload in plan.workloads:
        for spec in workload.pod_specs:
            if is_on_spot(spec):
                yield workload, spec


def shown(workload: Workload, spec: PodSpec) -> str:
    return f"{workload.shown}, {spec.role}" if len(workload.pod_specs) > 1 else workload.shown


def cloud_of(spec: PodSpec) -> SpotCapacity:
    """The cloud whose label the pod spec names."""
    for capacity in CLOUDS.values():
        key = capacity.label[0]
        if any(key in str(text) for text in _words(spec)):
            return capacity
    return CLOUDS["aks"]


def _words(spec: PodSpec) -> Iterator[str]:
    for name in ("nodeSelector", "affinity", "tolerations"):
        yield from (text for node in walk((spec.get(name),)) if (text := text_of(node)) is not None)
