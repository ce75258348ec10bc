"""Fields of a pod spec one level too high or too low."""

from __future__ import annotations

from arc_toolkit.edit.yaml.nodes import YamlNode, items_of, pairs
from arc_toolkit.findings import Rule
from arc_toolkit.kube.workloads import EACH_ITEM, EACH_KEY, Shape, SpecPath
from arc_toolkit.placement.manifests import Workload
from arc_toolkit.placement.place_plan import PlacePlan

# Fields of a pod spec that none of the objects above it has.
_FIELDS = ("containers", "tolerations", "affinity", "nodeSelector", "initContainers")
# Those about nodes, which a container cannot have.
_NODE_FIELDS = ("tolerations", "affinity", "nodeSelector")


def _check(plan: PlacePlan) -> None:
    for workload in plan.workloads:
        seen: set[int] = set()  # roles share the levels above them
        for entry in workload.kind.specs:
            if entry.shape is Shape.POD_SPEC:
                _look(plan, workload, workload.node, entry.path, (), seen)
        for spec in workload.pod_specs:
            for container in (
                *items_of(spec.get("containers")),
                *items_of(spec.get("initContainers")),
            ):
                for name in _NODE_FIELDS:
                    if (field := pairs(container).get(name)) is not None:
                        message = (
                            f"{workload.shown}: `{name}` is in a container, where nothing reads it"
                        )
                        plan.report(RULE, message, field[0], "it belongs beside `containers`")


def _look(
    plan: PlacePlan,
    workload: Workload,
    node: YamlNode,
    path: SpecPath,
    above: tuple[str, ...],
    seen: set[int],
) -> None:
    """Every level above the pod spec has none of its fields, and no level of the path is left out."""
    if not path:
        return
    own = pairs(node)
    misplaced = [name for name in _FIELDS if name in own]
    if path[0] not in (EACH_KEY, EACH_ITEM, *own):
        misplaced += [name for name in dict.fromkeys(path[1:]) if name in own]
    for name in misplaced:
        if id(own[name][0]) in seen:
            continue
        seen.add(id(own[name][0]))
        right = ".".join(
            ("..." if step == EACH_KEY else step) for step in path if step != EACH_ITEM
        )
        where = ".".join(above) or "the object"
        message = f"{workload.shown}: `{name}` is in {where}, where nothing reads it"
        plan.report(RULE, message, own[name][0], f"the pod spec is at {where}.{right}")
    step, rest = path[0], path[1:]
    if step == EACH_KEY:
        for name, (_, child) in own.items():
            _look(plan, workload, child, rest, (*above, name), seen)
    elif step == EACH_ITEM:
        for child in items_of(node):
            _look(plan, workload, child, rest, above, seen)
    elif step in own:
        _look(plan, workload, own[step][1], rest, (*above, step), seen)


RULE = Rule("pod-spec-wrong-depth", "error", check=_check)
