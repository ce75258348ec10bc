"""Fields of a pod spec one level too high or too low."""

from __future__ import annotations

from arc_toolkit.edit.yaml.nodes import YamlNode, items_of, pairs
from arc_toolkit.findings import rule
from arc_toolkit.kube.workloads import EACH_ITEM, EACH_KEY, Shape, SpecPath
from arc_toolkit.placement.manifests import Workload
from arc_toolkit.placement.place_plan import PlacePlan

# Fields of a pod spec that none of the objects above it has.
_FIELDS = ("containers", "tolerations", "affinity", "nodeSelector", "initContainers")
# Those about nodes, which a container cannot have.
_NODE_FIELDS = ("tolerations", "affinity", "nodeSelector")


@rule("error")
def pod_spec_wrong_depth(plan: PlacePlan) -> None:
    for workload in plan.workloads:
        seen: set[int] = set()  # roles share the levels above them
        for entry in workload.kind.specs:
            if entry.shape is Shape.POD_SPEC:
                _check_levels(plan, workload, workload.node, entry.path, (), seen)
        for spec in workload.pod_specs:
            for containers in ("containers", "initContainers"):
                for container in items_of(spec.get(containers)):
                    _check_container(plan, workload, container)


def _check_container(plan: PlacePlan, workload: Workload, container: YamlNode) -> None:
    fields = pairs(container)
    for name in _NODE_FIELDS:
        if name in fields:
            message = f"{workload.shown}: `{name}` is in a container, where nothing reads it"
            reason = "it belongs beside `containers`"
            plan.report(pod_spec_wrong_depth, message, fields[name][0], reason)


def _check_levels(
    plan: PlacePlan,
    workload: Workload,
    node: YamlNode,
    path: SpecPath,
    above: tuple[str, ...],
    seen: set[int],
) -> None:
    """Every level above the pod spec has none of its fields, and no level of the path is
    missing."""
    if not path:
        return
    fields = pairs(node)
    misplaced = [name for name in _FIELDS if name in fields]
    if path[0] not in (EACH_KEY, EACH_ITEM, *fields):
        misplaced += [name for name in dict.fromkeys(path[1:]) if name in fields]
    for name in misplaced:
        key = fields[name][0]
        if id(key) in seen:
            continue
        seen.add(id(key))
        steps = ("..." if step == EACH_KEY else step for step in path if step != EACH_ITEM)
        where = ".".join(above) or "the object"
        message = f"{workload.shown}: `{name}` is in {where}, where nothing reads it"
        reason = f"the pod spec is at {where}.{'.'.join(steps)}"
        plan.report(pod_spec_wrong_depth, message, key, reason)
    step, rest = path[0], path[1:]
    if step == EACH_KEY:
        for name, (_, child) in fields.items():
            _check_levels(plan, workload, child, rest, (*above, name), seen)
    elif step == EACH_ITEM:
        for child in items_of(node):
            _check_levels(plan, workload, child, rest, above, seen)
    elif step in fields:
        _check_levels(plan, workload, fields[step][1], rest, (*above, step), seen)
