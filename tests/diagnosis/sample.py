"""A made-up fleet with a bit of everything, as Kubernetes would report it."""

from __future__ import annotations

import time
from typing import Any

from arc_toolkit.diagnosis.model import ClusterFacts
from tests.diagnosis.page_sample import GPU, NOON, SPOT


def moment(minutes: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(NOON + minutes * 60))


def node(name: str, pool: str, *, spot: bool = False) -> dict[str, Any]:
    labels = {
        "agentpool": pool,
        **({"kubernetes.azure.com/scalesetpriority": "spot"} if spot else {}),
    }
    metadata = {
        "name": name,
        "uid": f"uid-{name}",
        "creationTimestamp": moment(-9000),
        "labels": labels,
    }
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "lastTransitionTime": moment(-9000),
    }
    return {"metadata": metadata, "spec": {}, "status": {"conditions": [ready]}}


def pod(
    job: str,
    where: str,
    start: float,
    minutes: float,
    *,
    end: str = "OOMKilled",
    code: int = 137,
    rank: int = 0,
    disruption: str = "",
    message: str = "",
) -> dict[str, Any]:
    """One attempt: `end` is how the main container ended; Completed and Running are the good ones."""
    metadata = {
        "name": f"azureml-{job}-worker-{rank}",
        "namespace": "azureml",
        "uid": f"{job}-{start}-{rank}",
        "creationTimestamp": moment(start),
        "labels": {"ml.azure.com/run-id": job},
    }
    state: dict[str, Any] = {"running": {"startedAt": moment(start)}}
    phase = "Running"
    if end != "Running":
        phase = "Succeeded" if end == "Completed" else "Failed"
        state = {
            "terminated": {"reason": end, "exitCode": code, "finishedAt": moment(start + minutes)}
        }
    status: dict[str, Any] = {
        "phase": phase,
        "startTime": moment(start),
        "containerStatuses": [{"name": "x-execution-wrapper", "state": state}],
    }
    if message:
        status |= {"reason": "Evicted", "message": message}
    if disruption:
        condition = {"type": "DisruptionTarget", "status": "True", "reason": disruption}
        status["conditions"] = [{**condition, "lastTransitionTime": moment(start + minutes)}]
    return {"metadata": metadata, "spec": {"nodeName": where}, "status": status}


def event(where: str, reason: str, minutes: float, message: str = "") -> dict[str, Any]:
    about = {"kind": "Node", "name": where}
    metadata = {"uid": f"{where}{reason}{minutes}"}
    return {
        "metadata": metadata,
        "involvedObject": about,
        "reason": reason,
        "message": message,
        "lastTimestamp": moment(minutes),
    }


def good(job: str, where: str, start: float, minutes: float, rank: int = 0) -> dict[str, Any]:
    return pod(job, where, start, minutes, end="Completed", code=0, rank=rank)


def fleet() -> ClusterFacts:
    """Twelve nodes, one of them bad, and jobs with most of the causes there are."""
    nodes = [node(f"{GPU}{number:02}", "gpu") for number in range(8)]
    nodes += [node(f"{SPOT}{number:02}", "spot", spot=True) for number in range(4)]
    lost = {"end": "ContainerStatusUnknown", "disruption": "DeletionByTaintManager"}
    pods = [
        pod("brave_fig_4k2", f"{GPU}03", 0, 42, code=137),
        pod(
            "brave_fig_4k2",
            f"{GPU}05",
            47,
            38,
            end="Error",
            code=1,
            disruption="PreemptionByScheduler",
        ),
        good("brave_fig_4k2", f"{GPU}01", 90, 95),
        pod("calm_pear_9x1", f"{SPOT}01", 12, 61, **lost),  # type: ignore[arg-type]
        pod("calm_pear_9x1", f"{SPOT}02", 78, 50, **lost),  # type: ignore[arg-type]
        good("calm_pear_9x1", f"{GPU}02", 133, 40),
        pod("dull_plum_7r3", f"{GPU}00", 5, 9),
        pod("dull_plum_7r3", f"{GPU}01", 16, 9),
        pod("dull_plum_7r3", f"{GPU}06", 27, 9),
        pod(
            "quick_lime_1b8",
            f"{GPU}03",
            60,
            33,
            end="Error",
            code=137,
            message="The node was low on resource: memory.",
        ),
        good("quick_lime_1b8", f"{GPU}04", 97, 60),
        pod("red_elm_5f0", f"{GPU}06", 150, 3, end="Error", code=2),
        pod("keen_oak_2d6", f"{GPU}05", 160, 0, end="Running"),
        pod(
            "slow_ash_8c4",
            f"{GPU}07",
            20,
            30,
            end="Error",
            code=143,
            disruption="EvictionByEvictionAPI",
        ),
        good("slow_ash_8c4", f"{GPU}00", 55, 70),
    ]
    for rank in range(4):
        ended = {"end": "Error", "code": 1} if rank != 2 else lost
        pods.append(pod("wide_yew_3a9", f"{GPU}0{rank}", 30, 25 + rank, rank=rank, **ended))
        pods.append(good("wide_yew_3a9", f"{GPU}0{(rank + 4) % 8}", 65, 80, rank))
    pods += [
        good(f"calm_fir_{number}", f"{GPU}0{number % 8}", 200 + number, 30) for number in range(4)
    ]
    events = [
        event(
            f"{GPU}03", "SystemOOM", 41.8, "System OOM encountered, victim process: python, pid: 42"
        ),
        event(f"{GPU}03", "NodeNotReady", 43),
        event(f"{SPOT}01", "PreemptScheduled", 71),
        event(f"{SPOT}02", "PreemptScheduled", 126),
    ]
    return ClusterFacts(pods, nodes, events, nodes_complete=True)
