"""What a person can do about a bad node, as sentences and commands to copy."""

from __future__ import annotations

import re

from arc_toolkit.diagnosis.model import Suggestion

# What to look at, by the reason string that made the node bad.
LOOK = {
    "SystemOOM": "memory: do the requests of all pods and the system reservation fit on the node?",
    "NodeNotReady": "kubelet and network: what stopped the node's heartbeat?",
    "Ready": "kubelet and network: what stopped the node's heartbeat?",
    "Rebooted": "kernel and host: why did it reboot?",
    "ReadonlyFilesystem": "disk: a file system becomes read-only if the disk fails or the file system is damaged",
    "FilesystemCorruptionProblem": "disk: the file system is damaged; replace the VM",
    "FilesystemCorruptionDetected": "disk: the file system is damaged; replace the VM",
    "KernelDeadlock": "kernel: processes hang in it; a reboot rarely helps for long",
}
LOOK_AT_ALL = "its events, conditions and other pods: nothing else shows why more fails here than elsewhere"
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")


def for_node(node: str, lead_reason: str | None, vm_instance: int | None, gone: bool) -> tuple[Suggestion, ...]:
    """What to look at and what to run. `lead_reason` is the reason string that made the node bad, if one did."""
    look = Suggestion(f"look at {LOOK.get(lead_reason or '', LOOK_AT_ALL)}")
    if not _NAME.fullmatch(node):  # only a valid node name goes into a command
        return (look,)
    events = f"kubectl get events -A --field-selector involvedObject.kind=Node,involvedObject.name={node}"
    if gone:  # there is nothing to cordon or to describe
        vm = f"VM instance {vm_instance} of its scale set" if vm_instance is not None else "its VM"
        return (
            look,
            Suggestion(f"the node no longer exists; only the activity log of {vm} is left"),
            Suggestion(events, is_command=True),
        )
    commands = (
        f"kubectl describe node {node}",
        events,
        f"kubectl get pods -A -o wide --field-selector spec.nodeName={node}",
        f"kubectl cordon {node}   # keeps new pods away; `kubectl uncordon` reverts it",
    )
    suggestions = [look, *(Suggestion(command, is_command=True) for command in commands)]
    if vm_instance is not None:
        text = f"it is VM instance {vm_instance} of its scale set; a redeploy or reimage in AKS moves it"
        suggestions.append(Suggestion(text))
    return tuple(suggestions)


def anti_affinity(nodes: list[str]) -> str:
    """Soft, because a hard exclusion leaves retries without a node once all were tried (Argo Workflows #13969)."""
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
