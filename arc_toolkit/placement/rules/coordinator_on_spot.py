"""A role whose loss ends or restarts everything, on spot nodes."""

from __future__ import annotations

from arc_toolkit.findings import Rule
from arc_toolkit.placement.place_plan import PlacePlan
from arc_toolkit.placement.rules._on_spot import spot_specs


def _check(plan: PlacePlan) -> None:
    for workload, spec in spot_specs(plan):
        if spec.coordinator:
            message = f"{workload.shown}: {spec.role} is on spot nodes, and its eviction ends or restarts everything"
            plan.report(
                RULE,
                message,
                spec.node,
                "`place --spot require` keeps it off and leaves the workers there",
            )


RULE = Rule(
    id="coordinator-on-spot",
    severity="warning",
    fix="none",
    summary="a coordinator on spot nodes",
    why="""\
Workers can be lost; what coordinates them cannot: the head of a RayJob is not made again, the launcher of an
MPIJob is mpirun itself, a TFJob ends with its chief, parameter servers hold the parameters, and a Spark
application is its driver.""",
    before="""\
apiVersion: ray.io/v1
kind: RayCluster
metadata: {name: train}
spec:
  headGroupSpec:
    template:
      spec:
        nodeSelector: {kubernetes.azure.com/scalesetpriority: spot}
        tolerations: [{key: kubernetes.azure.com/scalesetpriority, operator: Exists}]
        containers: [{name: head, image: rayproject/ray}]
""",
    after="""\
apiVersion: ray.io/v1
kind: RayCluster
metadata: {name: train}
spec:
  headGroupSpec:
    template:
      spec:
        containers: [{name: head, image: rayproject/ray}]
""",
    check=_check,
)
