"""Something that serves requests, keeps data or is used by people, on spot nodes."""

from __future__ import annotations

from arc_toolkit.findings import Rule
from arc_toolkit.placement.place_plan import PlacePlan
from arc_toolkit.placement.place_workloads import refusal_of
from arc_toolkit.placement.rules._on_spot import is_on_spot


def _check(plan: PlacePlan) -> None:
    for workload in plan.workloads:
        reason = refusal_of(workload) or ("it serves requests" if workload.kind.serves else "")
        if reason and any(is_on_spot(spec) for spec in workload.pod_specs):
            plan.report(RULE, f"{workload.shown} is on spot nodes", workload.node, reason)


RULE = Rule(
    id="serving-on-spot",
    severity="warning",
    fix="none",
    summary="serving, data or a person's session on spot nodes",
    why="""\
Spot nodes are for work that can be done again. Online inference, databases, dashboards, notebooks and the
control plane are not: an eviction is an outage, lost data or a lost session.""",
    before="""\
apiVersion: apps/v1
kind: Deployment
metadata: {name: db}
spec:
  template:
    spec:
      nodeSelector: {kubernetes.azure.com/scalesetpriority: spot}
      tolerations: [{key: kubernetes.azure.com/scalesetpriority, operator: Exists}]
      containers: [{name: db, image: postgres:17}]
""",
    after="""\
apiVersion: apps/v1
kind: Deployment
metadata: {name: db}
spec:
  template:
    spec:
      containers: [{name: db, image: postgres:17}]
""",
    check=_check,
)
