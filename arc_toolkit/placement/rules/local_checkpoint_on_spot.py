"""Checkpoints on a disk that is gone with the spot node."""

from __future__ import annotations

import re
from collections.abc import Iterator

from arc_toolkit.edit.yaml_nodes import Node, get, items_of, pairs, text_of
from arc_toolkit.findings import Rule
from arc_toolkit.placement.manifests import PodSpec
from arc_toolkit.placement.place_plan import PlacePlan
from arc_toolkit.placement.rules._on_spot import shown, spot_specs

_NAMES_CHECKPOINTS = re.compile(r"(?i)check-?_?point|ckpt")
_OPTION = re.compile(r"(?i)--?[\w-]*(?:check[-_]?point|ckpt)[\w-]*[= ]+([\"']?)(/[^\s\"']+)")
# Volumes that go with the pod or with its node.
_LOCAL = ("emptyDir", "hostPath", "ephemeral")


def _check(plan: PlacePlan) -> None:
    for workload, spec in spot_specs(plan):
        lasting = _lasting(spec)
        for container in items_of(spec.get("containers")):
            for node, path in _paths(container):
                mounts = [
                    text_of(get(mount, "mountPath")) or "" for mount in items_of(get(container, "volumeMounts"))
                ]
                names = [text_of(get(mount, "name")) or "" for mount in items_of(get(container, "volumeMounts"))]
                kept = [place for place, name in zip(mounts, names, strict=True) if name in lasting]
                if not any(path == place or path.startswith(place.rstrip("/") + "/") for place in kept):
                    message = f"{shown(workload, spec)}: checkpoints go to {path}, which is gone with the node"
                    plan.report(
                        RULE, message, node, "mount a PersistentVolumeClaim there, or use a URL of a bucket"
                    )


def _paths(container: Node) -> Iterator[tuple[Node, str]]:
    """Absolute paths that a variable or an argument about checkpoints has."""
    for variable in items_of(get(container, "env")):
        value = text_of(get(variable, "value")) or ""
        if _NAMES_CHECKPOINTS.search(text_of(get(variable, "name")) or "") and value.startswith("/"):
            yield variable, value
    words = [*items_of(get(container, "command")), *items_of(get(container, "args"))]
    text = " ".join(text_of(word) or "" for word in words)
    for match in _OPTION.finditer(text):
        yield words[0], match[2]


def _lasting(spec: PodSpec) -> set[str]:
    """The names of volumes that outlive the node."""
    return {
        text_of(get(volume, "name")) or ""
        for volume in items_of(spec.get("volumes"))
        if not any(kind in pairs(volume) for kind in _LOCAL)
    }


RULE = Rule(
    id="local-checkpoint-on-spot",
    severity="warning",
    fix="none",
    summary="checkpoints only on a local disk of a spot node",
    why="""\
An evicted VM takes its disks along (eviction policy Delete), and a pod its `emptyDir`. A job that starts again
elsewhere then starts from the beginning. The path is taken from variables and arguments whose names are about
checkpoints.""",
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
      containers:
      - name: train
        image: train
        args: [--checkpoint-dir, /tmp/checkpoints]
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
      containers:
      - name: train
        image: train
        args: [--checkpoint-dir, /mnt/checkpoints]
        volumeMounts: [{name: data, mountPath: /mnt}]
      volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
      nodeSelector: {kubernetes.azure.com/scalesetpriority: spot}
      tolerations:
      - {key: kubernetes.azure.com/scalesetpriority, operator: Equal, value: spot, effect: NoSchedule}
""",
    check=_check,
)
