"""Fields of a pod spec one level too high or too low."""

from __future__ import annotations

from arc_toolkit.edit.yaml_nodes import Node, items_of, pairs
from arc_toolkit.findings import Rule
from arc_toolkit.kube.workloads import EACH_ITEM, EACH_KEY, Shape, SpecPath
from arc_toolkit.placement.manifests import Workload
from arc_toolkit.placement.place_plan import PlacePlan

# Fields of a pod spec that none of the objects above it has.
_FIELDS = ("containers", "tolerations", "affinity", "nodeSelector", "initContainers")


def _check(plan: PlacePlan) -> None:
    for workload in plan.workloads:
        for entry in workload.kind.specs:
            if entry.shape is Shape.POD_SPEC and len(entry.path) > 1:
                _look(plan, workload, workload.node, entry.path, ())


def _look(plan: PlacePlan, workload: Workload, node: Node, path: SpecPath, above: tuple[str, ...]) -> None:
    """Every level above the pod spec has none of its fields; and there is a template where a replica has a spec."""
    if not path:
        return
    own = pairs(node)
    misplaced = [name for name in _FIELDS if name in own]
    if path[0] == "template" and "template" not in own and "spec" in own:
        misplaced.append("spec")
    for name in misplaced:
        right = ".".join(("..." if step == EACH_KEY else step) for step in path if step != EACH_ITEM)
        where = ".".join(above) or "the object"
        message = f"{workload.shown}: `{name}` is in {where}, where nothing reads it"
        plan.report(RULE, message, own[name][0], f"the pod spec is at {where}.{right}")
    step, rest = path[0], path[1:]
    if step == EACH_KEY:
        for name, (_, child) in own.items():
            _look(plan, workload, child, rest, (*above, name))
    elif step == EACH_ITEM:
        for child in items_of(node):
            _look(plan, workload, child, rest, above)
    elif step in own:
        _look(plan, workload, own[step][1], rest, (*above, step))


RULE = Rule(
    id="pod-spec-wrong-depth",
    severity="error",
    fix="none",
    summary="fields of a pod spec at the wrong depth",
    why="""\
A TFJob has its pod specs at `spec.tfReplicaSpecs.Worker.template.spec`, and a Job at `spec.template.spec`.
Snippets that leave `template` out are on many pages. The API server drops such fields or refuses the object,
and the pods run elsewhere.""",
    before="""\
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: train}
spec:
  tfReplicaSpecs:
    Worker:
      spec:
        nodeSelector: {pool: gpu}
        containers: [{name: tensorflow, image: train}]
""",
    after="""\
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: train}
spec:
  tfReplicaSpecs:
    Worker:
      template:
        spec:
          nodeSelector: {pool: gpu}
          containers: [{name: tensorflow, image: train}]
""",
    check=_check,
)
