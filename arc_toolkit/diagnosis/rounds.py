"""Rounds: the pods of one run that belong to one attempt, by time.

Counting pods per rank mixes attempts as soon as one pod is gone. Instead: a gang is created within seconds, so pods
that are created together belong together; they are another attempt if a rank among them exists already, if they
belong to another Volcano job, or if everything before them has ended. A rank that is replaced while others go on
(Volcano's RestartPod and RestartTask) stays in its attempt. The API server's creationTimestamp decides the order,
because start and end come from the clocks of many nodes.
"""

from __future__ import annotations

from arc_toolkit.diagnosis.pod_states import PodState

BURST_SECONDS = 60  # Volcano creates the pods of a gang at once
GOES_ON_SECONDS = (
    600  # a rank that still runs so long after another was replaced was not stopped with it
)


def rounds(pods: list[PodState]) -> list[list[PodState]]:
    """The pods of one run as attempts, oldest first."""
    result: list[list[PodState]] = []
    for burst in _bursts(pods):
        if result and _joins(result[-1], burst):
            result[-1] += burst
        else:
            result.append(burst)
    return result


def begin(pod: PodState) -> float:
    """When it came into being; a pod without any time is taken for an old one."""
    return pod.created or pod.start or 0.0


def _bursts(pods: list[PodState]) -> list[list[PodState]]:
    result: list[list[PodState]] = []
    for pod in sorted(pods, key=lambda pod: (begin(pod), pod.start or 0.0, pod.name, pod.uid)):
        burst = result[-1] if result else []
        if (
            burst
            and begin(pod) - begin(burst[-1]) <= BURST_SECONDS
            and pod.rank not in {other.rank for other in burst}
            and _same_gang(burst[0], pod)
        ):
            burst.append(pod)
        else:
            result.append([pod])
    return result


def _joins(former: list[PodState], burst: list[PodState]) -> bool:
    """Ranks of a gang that were created late, for example again after the loss of a node."""
    if not _same_gang(former[0], burst[0]):
        return False
    again = {pod.rank for pod in burst}
    if not {pod.rank for pod in former} & again:
        return not _ended_before(former, begin(burst[0]))
    return _ended_before(
        [pod for pod in former if pod.rank in again], begin(burst[0])
    ) and not _ended_before(
        [pod for pod in former if pod.rank not in again], begin(burst[0]) + GOES_ON_SECONDS
    )


def _same_gang(first: PodState, other: PodState) -> bool:
    return first.gang is None or other.gang is None or first.gang == other.gang


def _ended_before(pods: list[PodState], moment: float) -> bool:
    ends = [end(pod) for pod in pods]
    return all(known is not None and known <= moment for known in ends)


def end(pod: PodState) -> float | None:
    """When it ended; None while it runs or waits. A pod that the kubelet refused has no container that ended."""
    if pod.phase in ("Succeeded", "Failed") or pod.deleted is not None:
        return pod.end if pod.end is not None else begin(pod)
    return None
