"""A workload on spot nodes that does not survive an eviction."""

from __future__ import annotations

from arc_toolkit.edit.edits import Refused
from arc_toolkit.findings import Rule
from arc_toolkit.placement.place_plan import PlacePlan
from arc_toolkit.placement.retries import set_retries
from arc_toolkit.placement.rules._on_spot import is_on_spot


def _check(plan: PlacePlan) -> None:
    for workload in plan.workloads:
        if not any(is_on_spot(spec) for spec in workload.pod_specs):
            continue
        editor = plan.new_editor()
        try:
            set_retries(editor, workload, 3)
        except Refused as refusal:
            plan.report(
                RULE,
                f"{workload.shown} is on spot nodes and does not survive an eviction",
                workload.node,
                str(refusal),
            )
            continue
        if not editor.empty:
            message = f"{workload.shown} is on spot nodes, and an eviction counts as an error or ends it"
            plan.report(RULE, message, workload.node, "`place --retries N` sets what its kind needs")


RULE = Rule(
    id="no-retry-on-spot",
    severity="warning",
    fix="none",
    summary="no retry after an eviction",
    why="""\
An eviction leaves a deleted or a failed pod, and by default many kinds count that as an error or give up: a Job
after its `backoffLimit`, a Volcano job whose policy restarts it at the third eviction, an Argo template always.
[place](../place.md#retries) has the field of each kind.""",
    before="""\
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: train, image: train}]
      nodeSelector: {kubernetes.azure.com/scalesetpriority: spot}
      tolerations:
      - {key: kubernetes.azure.com/scalesetpriority, operator: Equal, value: spot, effect: NoSchedule}
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
