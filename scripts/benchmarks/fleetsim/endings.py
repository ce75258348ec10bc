"""What each kind of failure leaves behind: the pod's status and the events around it.

Each function takes the diary, the pod and the second of the fault, writes events, and gives the ending and the second
at which the pod is seen to end. The strings are those of kubelet, taint-eviction-controller, node-controller, node
problem detector of AKS, cluster-autoscaler, Volcano and pod GC.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from scripts.benchmarks.fleetsim import objects
from scripts.benchmarks.fleetsim.objects import Ending, Object, PodFacts

TAINT = ("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")
POD_GC = ("DeletionByPodGC", "PodGC: node no longer exists")
EVICTION_API = ("EvictionByEvictionAPI", "Eviction API: evicting")
NO_DEVICES = (
    "Allocate failed due to no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu, "
    "which is unexpected"
)
HOOK = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: "
    "unable to start container process: error during container init: error running hook #0: error running hook: "
    "exit status 1, stdout: , stderr: Auto-detected mode as 'legacy'\nnvidia-container-cli: device error: "
    "GPU-3d7408b2-d525-643f-5bfc-45a761045e14: unknown device: unknown"
)
XIDS = (48, 56, 62, 63, 64, 74, 79, 92, 119)  # among those that the check of AKS looks for
XID_STANDS = 2 * 3600  # AKS's check looks two hours back


@dataclass(slots=True)
class Diary:
    """Events in the order in which they were written, and the one source of chance."""

    rng: Random
    events: list[Object] = field(default_factory=list)

    def on_node(self, node: str, reason: str, message: str, at: float, **more: object) -> None:
        self._write(objects.node_ref(node), reason, message, at, more)

    def on_pod(self, pod: PodFacts, reason: str, message: str, at: float, **more: object) -> None:
        self._write(objects.pod_ref(pod), reason, message, at, more)

    def _write(
        self, involved: Object, reason: str, message: str, at: float, more: dict[str, object]
    ) -> None:
        number = len(self.events)
        self.events.append(objects.event(number, involved, reason, message, at, **more))  # type: ignore[arg-type]

    def not_ready(self, node: str, at: float) -> None:
        text = f"Node {node} status is now: NodeNotReady"
        self.on_node(node, "NodeNotReady", text, at, component="node-controller")

    def ready(self, node: str, at: float) -> None:
        self.on_node(node, "NodeReady", f"Node {node} status is now: NodeReady", at, host=node)

    def rebooted(self, node: str, at: float) -> None:
        text = f"Node {node} has been rebooted, boot id: {objects.guid('boot', node, at)}"
        self.on_node(node, "Rebooted", text, at, warning=True, host=node)


Leaving = Callable[[Diary, PodFacts, float], tuple[Ending, float]]


def _code(code: int, reason: str = "Error") -> Leaving:
    def leave(diary: Diary, pod: PodFacts, at: float) -> tuple[Ending, float]:
        return Ending(exit_code=code, reason=reason), at

    return leave


def lost_container(diary: Diary, pod: PodFacts, at: float) -> tuple[Ending, float]:
    """The machine restarted or the runtime lost the container; nobody evicted the pod."""
    end = at + diary.rng.uniform(60, 180)
    if diary.rng.random() < 0.5:
        return Ending(
            exit_code=137, reason="ContainerStatusUnknown", message=objects.GONE_CONTAINER
        ), end
    return Ending(exit_code=diary.rng.choice((137, 255))), end


def taint_evicted(diary: Diary, pod: PodFacts, at: float) -> tuple[Ending, float]:
    """NotReady for longer than the toleration of 300 seconds; `at` is when the kubelet fell silent."""
    marked = at + 45 + 300
    diary.on_pod(
        pod, "NodeNotReady", "Node is not ready", at + 46, warning=True, component="node-controller"
    )
    text = f"Marking for deletion Pod {objects.NAMESPACE}/{pod.name}"
    diary.on_pod(pod, "TaintManagerEviction", text, marked, component="taint-eviction-controller")
    if (
        diary.rng.random() < 0.4
    ):  # the kubelet was never heard again: the last picture still says Running
        return (
            Ending(phase="Running", disruption=TAINT, disrupted_at=marked, deleted_at=marked + 30),
            marked + 30,
        )
    return Ending(exit_code=137, disruption=TAINT, disrupted_at=marked), marked + diary.rng.uniform(
        5, 120
    )


def system_oom(diary: Diary, pod: PodFacts, at: float) -> tuple[Ending, float]:
    text = f"System OOM encountered, victim process: python, pid: {diary.rng.randint(2000, 90000)}"
    diary.on_node(pod.node, "SystemOOM", text, at, warning=True, host=pod.node)
    return Ending(exit_code=137), at + 1


def gpu_refused(diary: Diary, pod: PodFacts, at: float) -> tuple[Ending, float]:
    diary.on_pod(
        pod, "UnexpectedAdmissionError", NO_DEVICES, pod.start, warning=True, host=pod.node
    )
    text = f"Pod was rejected: {NO_DEVICES}"
    return Ending(pod_reason="UnexpectedAdmissionError", pod_message=text), pod.start + 1


def gpu_hook(diary: Diary, pod: PodFacts, at: float) -> tuple[Ending, float]:
    diary.on_pod(pod, "Failed", f"Error: {HOOK}", pod.start + 25, warning=True, host=pod.node)
    return Ending(exit_code=128, reason="StartError", message=HOOK), pod.start + 26


def xid(diary: Diary, pod: PodFacts, at: float) -> tuple[Ending, float]:
    text = f"XID error-codes found: {diary.rng.choice(XIDS)}. FaultCode: NHC2001"
    said = f'Node condition XIDErrors is now: True, reason: XIDErrorIsPresent, message: "{text}"'
    monitor = "xid-custom-plugin-monitor"
    diary.on_node(
        pod.node,
        "XIDErrorIsPresent",
        said,
        at + diary.rng.uniform(-30, 50),
        warning=True,
        component=monitor,
    )
    return Ending(exit_code=1), at


def own_memory(diary: Diary, pod: PodFacts, at: float) -> tuple[Ending, float]:
    text = "Memory cgroup out of memory: Killed process 41022 (python) total-vm:71203344kB, anon-rss:33512204kB"
    diary.on_node(
        pod.node, "OOMKilling", text, at, warning=True, component="kernel-monitor", host=pod.node
    )
    return Ending(exit_code=137, reason="OOMKilled"), at


def pressure(diary: Diary, pod: PodFacts, at: float) -> tuple[Ending, float]:
    """The job writes or allocates more than it asked for, and the kubelet evicts it to save the node."""
    container = f"{pod.job_id}-execution-wrapper"
    if diary.rng.random() < 0.5:
        text = (
            "The node was low on resource: memory. Threshold quantity: 750Mi, available: 512Mi. "
            f"Container {container} was using 61Gi, request is 32Gi, has larger consumption of memory. "
        )
        diary.on_node(
            pod.node, "EvictionThresholdMet", "Attempting to reclaim memory", at - 10, warning=True
        )
    else:
        text = (
            "The node was low on resource: ephemeral-storage. Threshold quantity: 13417728000, available: "
            f"9218004Ki. Container {container} was using 81234Mi, request is 0, has larger consumption of "
            "ephemeral-storage. "
        )
        threshold = "Attempting to reclaim ephemeral-storage"
        diary.on_node(pod.node, "EvictionThresholdMet", threshold, at - 10, warning=True)
    diary.on_pod(pod, "Evicted", text, at, warning=True, host=pod.node)
    ending = Ending(
        exit_code=137,
        pod_reason="Evicted",
        pod_message=text,
        disruption=("TerminationByKubelet", text),
    )
    return ending, at


def cancelled(diary: Diary, pod: PodFacts, at: float) -> tuple[Ending, float]:
    diary.on_pod(
        pod, "Killing", f"Stopping container {pod.job_id}-execution-wrapper", at, host=pod.node
    )
    return Ending(exit_code=143, deleted_at=at + 30), at + 5


def preempted(diary: Diary, pod: PodFacts, at: float) -> tuple[Ending, float]:
    """Volcano takes the place for a job of higher priority."""
    why = diary.rng.choice(("preempt", "reclaim"))
    text = f"Pod is evicted, because of {why}"
    diary.on_pod(pod, "Evict", text, at, warning=True, component="volcano")
    return Ending(
        exit_code=143, extra_condition=("Ready", "False", "Evict", text), deleted_at=at + 30
    ), at + 5


def drained(diary: Diary, pod: PodFacts, at: float) -> tuple[Ending, float]:
    return Ending(exit_code=143, disruption=EVICTION_API, disrupted_at=at), at + diary.rng.uniform(
        3, 30
    )


def scaled_down(diary: Diary, pod: PodFacts, at: float) -> tuple[Ending, float]:
    text = "deleting pod for node scale down"
    diary.on_pod(pod, "ScaleDown", text, at, component="cluster-autoscaler")
    return drained(diary, pod, at)


def garbage_collected(diary: Diary, pod: PodFacts, at: float) -> tuple[Ending, float]:
    """The machine is gone, the Node object too; pod GC removes the pod about a minute later."""
    end = at + 62
    return (
        Ending(
            exit_code=137,
            reason="ContainerStatusUnknown",
            message=objects.GONE_CONTAINER,
            disruption=POD_GC,
            disrupted_at=end,
        ),
        end,
    )


def taken_silently(diary: Diary, pod: PodFacts, at: float) -> tuple[Ending, float]:
    """A machine was taken back and nothing tells: no event, no condition, only a dead container."""
    if diary.rng.random() < 0.5:
        return Ending(exit_code=137), at
    return Ending(
        exit_code=137, reason="ContainerStatusUnknown", message=objects.GONE_CONTAINER
    ), at + 62


LEAVINGS: dict[str, Leaving] = {
    "exit1": _code(1),
    "killed": _code(137),
    "terminated": _code(143),
    "aborted": _code(134),
    "segfault": _code(139),
    "unknown255": _code(255),
    "lost-container": lost_container,
    "taint-evicted": taint_evicted,
    "system-oom": system_oom,
    "gpu-refused": gpu_refused,
    "gpu-hook": gpu_hook,
    "xid": xid,
    "own-memory": own_memory,
    "pressure": pressure,
    "cancelled": cancelled,
    "preempted": preempted,
    "drained": drained,
    "scaled-down": scaled_down,
    "garbage-collected": garbage_collected,
    "taken-silently": taken_silently,
}
SUCCEEDED = Ending(phase="Succeeded", exit_code=0, reason="Completed")
