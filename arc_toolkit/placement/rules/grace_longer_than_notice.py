"""A grace period that is longer than the notice of an eviction."""

from __future__ import annotations

from arc_toolkit.findings import Rule
from arc_toolkit.placement.place_plan import PlacePlan
from arc_toolkit.placement.rules._on_spot import cloud_of, shown, spot_specs


def _check(plan: PlacePlan) -> None:
    for workload, spec in spot_specs(plan):
        grace, notice = spec.text("terminationGracePeriodSeconds"), cloud_of(spec).notice
        if grace is not None and grace.isdigit() and int(grace) > notice:
            message = f"{shown(workload, spec)}: a grace period of {grace} s, with a notice of at most {notice} s"
            at = spec.get("terminationGracePeriodSeconds") or spec.node
            plan.report(
                RULE,
                message,
                at,
                "the pod is killed in the middle of what it does then; `place --grace` sets it",
            )


RULE = Rule(
    id="grace-longer-than-notice",
    severity="warning",
    fix="none",
    summary="a grace period longer than the notice",
    why="""\
Azure announces an eviction 30 seconds before at best, some of which go to noticing it; Google leaves 15 seconds
to pods, AWS two minutes. A process that plans with more is killed in the middle of its last save.""",
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
      tolerations:
      - {key: kubernetes.azure.com/scalesetpriority, operator: Equal, value: spot, effect: NoSchedule}
      terminationGracePeriodSeconds: 300
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
      terminationGracePeriodSeconds: 25
""",
    check=_check,
)
