"""How far apart in time two facts may be if one is to explain the other. Seconds; each with its reason."""

from __future__ import annotations

# A lost node is noticed after 40 s (50 s since Kubernetes 1.32), and its pods are deleted after 300 s of toleration
# (node-monitor-grace-period, DefaultTolerationSeconds): the loss is up to 6 minutes before the end of the pod.
LOOK_BACK_SECONDS = 600
# So the other ranks of a gang may fail that long before the loss of one's node is noticed.
NOTICE_OF_LOSS_SECONDS = 90
# Reporters have clocks of their own, and the kubelet reports the end of a container some seconds later.
LOOK_AHEAD_SECONDS = 60
# The checks of the node problem detector run every few minutes, so the fault that ended a job may be reported after
# it; AKS's own tests allow 6 minutes (AgentBaker e2e).
FAULT_REPORT_SECONDS = 360
# The kernel's OOM killer acts at once: a kill and a SystemOOM that belong together have the same minute.
SAME_KILL_SECONDS = 60
# A process that is asked to stop before its spot VM is reclaimed has 30 s (Azure Scheduled Events, Preempt).
NOTICE_TO_END_SECONDS = 120
# A drain may take half an hour, and a VM that is scaled down some time until it is gone. A notice may also be recorded
# after the loss, because several watchers report it.
NOTICE_BEFORE_SECONDS = 3600
NOTICE_AFTER_SECONDS = 900
# A node that is NotReady is deleted some seconds after its VM was (cloud-provider node lifecycle controller); if it
# takes longer, the node was lost first.
DELETION_SECONDS = 300
# After a start the kubelet may admit pods before the device plugin has registered its GPUs.
START_UP_SECONDS = 600
# A fault that was there this long before the pod, and with which the pod then ran this long, did not hinder it.
HARMLESS_SECONDS = 3600
# If the end of an attempt is not known: the last hour before the next attempt, otherwise a day after its start.
BEFORE_RETRY_SECONDS = 3600
OPEN_WINDOW_SECONDS = 86400


def is_within(time: float | None, moment: float | None, before: float, after: float) -> bool:
    """Whether a time is at most so long before or after a moment; both have to be known."""
    return time is not None and moment is not None and -before <= time - moment <= after
