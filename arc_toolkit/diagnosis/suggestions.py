"""What a person can do about a bad node: words and commands to copy. The toolkit itself does none of it."""

from __future__ import annotations

import re
from dataclasses import replace

from arc_toolkit.diagnosis.model import Verdict

# What to look at, by the reason string that made the node bad.
LOOK = {
    "SystemOOM": "memory: do the requests of all pods plus the system's share fit on the node?",
    "NodeNotReady": "kubelet and network: what stopped the node's heartbeat?",
    "Ready": "kubelet and network: what stopped the node's heartbeat?",
    "Rebooted": "kernel and host: why did it reboot?",
    "ReadonlyFilesystem": "disk: a file system that turned read-only is a failing disk or a damaged file system",
    "FilesystemCorruptionProblem": "disk: the file system is damaged; the machine should be replaced",
    "FilesystemCorruptionDetected": "disk: the file system is damaged; the machine should be replaced",
    "KernelDeadlock": "kernel: processes hang in it; a reboot rarely helps for long",
}
LOOK_AT_ALL = "its events, conditions and other pods: nothing else tells why more fails here than elsewhere"
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")


def add(verdict: Verdict) -> Verdict:
    """The verdict with suggestions."""
    look = LOOK.get(verdict.reason.partition(":")[0], LOOK_AT_ALL)
    if not _NAME.fullmatch(verdict.node):  # nothing goes into a command that is not a node name
        return replace(verdict, suggestions=(f"look at {look}",))
    node = verdict.node
    if verdict.gone:  # nothing to cordon, and nothing for kubectl to describe
        place = (
            f"VM instance {verdict.vm_instance} of its scale set" if verdict.vm_instance is not None else "its VM"
        )
        return replace(
            verdict,
            suggestions=(
                f"look at {look}",
                f"the node no longer exists; what is left is the activity log of {place}",
                f"kubectl get events -A --field-selector involvedObject.kind=Node,involvedObject.name={node}",
            ),
        )
    lines = [
        f"look at {look}",
        f"kubectl describe node {node}",
        f"kubectl get events -A --field-selector involvedObject.kind=Node,involvedObject.name={node}",
        f"kubectl get pods -A -o wide --field-selector spec.nodeName={node}",
        f"kubectl cordon {node}   # keeps new pods away; `kubectl uncordon` undoes it",
    ]
    if verdict.vm_instance is not None:
        lines.append(
            f"it is VM instance {verdict.vm_instance} of its scale set; AKS moves it with a redeploy or reimage"
        )
    return replace(verdict, suggestions=tuple(lines))


def anti_affinity(nodes: list[str]) -> str:
    """Soft, because a hard exclusion strands retries once every node has been tried (Argo Workflows #13969)."""
    names = "\n".join(f"              - {node}" for node in nodes if _NAME.fullmatch(node))
    return f"""\
affinity:
  nodeAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        preference:
          matchExpressions:
            - key: kubernetes.io/hostname
              operator: NotIn
              values:
{names}
"""
