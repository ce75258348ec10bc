"""Pods that ask for spot nodes of AKS and do not tolerate their taint."""

from __future__ import annotations

from arc_toolkit.findings import Rule
from arc_toolkit.placement.place_plan import PlacePlan
from arc_toolkit.placement.rules._on_spot import TAINT, cloud_of, is_on_spot, requires_spot, shown
from arc_toolkit.placement.spot import CLOUDS, tolerates


def _check(plan: PlacePlan) -> None:
    for workload in plan.workloads:
        for spec in workload.pod_specs:
            if is_on_spot(spec) and cloud_of(spec) is CLOUDS["aks"] and not tolerates(spec, TAINT):
                asks, policy = (
                    ("asks for", "require") if requires_spot(spec) else ("prefers", "prefer")
                )
                message = (
                    f"{shown(workload, spec)} {asks} spot nodes and does not tolerate their taint"
                )
                plan.report(
                    RULE, message, spec.node, f"`place --spot {policy}` adds the toleration"
                )


RULE = Rule(
    id="spot-without-toleration",
    severity="error",
    fix="none",
    summary="a selector of spot nodes without a toleration",
    why="""\
AKS puts the taint `kubernetes.azure.com/scalesetpriority=spot:NoSchedule` on every spot node, and it cannot be
removed ([AKS](https://learn.microsoft.com/azure/aks/spot-node-pool)). A pod that selects these nodes and does
not tolerate it stays Pending; one that prefers them never runs there.""",
    before="""\
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  backoffLimit: 3
  podFailurePolicy:
    rules:
    - action: Ignore
      onPodConditions: [{type: DisruptionTarget}]
  template:
    spec:
      restartPolicy: Never
      containers: [{name: train, image: train}]
      nodeSelector: {kubernetes.azure.com/scalesetpriority: spot}
""",
    after="""\
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  backoffLimit: 3
  podFailurePolicy:
    rules:
    - action: Ignore
      onPodConditions: [{type: DisruptionTarget}]
  template:
    spec:
      restartPolicy: Never
      containers: [{name: train, image: train}]
      nodeSelector: {kubernetes.azure.com/scalesetpriority: spot}
      tolerations:
      - {key: kubernetes.azure.com/scalesetpriority, operator: Equal, value: spot, effect: NoSchedule}
""",
    check=_check,
)
