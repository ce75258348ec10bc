"""What a pod that has not started waits for, and what is missing.

The state of the pod decides: its condition PodScheduled and its containers; then its newest event,
because a trouble that was overcome leaves its events behind; then its gang, which Volcano may not
have admitted. Messages are the only source for what is missing. The patterns for them are in this
module; only matched parts are shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from arc_toolkit.diagnosis import signals
from arc_toolkit.diagnosis.model import Evidence, EvidenceSource, Waiting, WaitingFor
from arc_toolkit.diagnosis.read.cluster_index import ClusterIndex
from arc_toolkit.diagnosis.read.pod_states import ClusterEvent, ContainerState, PodState
from arc_toolkit.diagnosis.read.volcano import GangState
from arc_toolkit.diagnosis.times import START_UP_SECONDS

# Reasons of waiting containers (kubernetes: pkg/kubelet/images/types.go, .../sync_result.go).
CONTAINER_REASONS = {
    "ErrImagePull": WaitingFor.IMAGE,
    "ImagePullBackOff": WaitingFor.IMAGE,
    "ErrImageNeverPull": WaitingFor.IMAGE,
    "InvalidImageName": WaitingFor.IMAGE,
    "ImageInspectError": WaitingFor.IMAGE,
    "RegistryUnavailable": WaitingFor.IMAGE,
    "SignatureValidationFailed": WaitingFor.IMAGE,
    "CreateContainerConfigError": WaitingFor.CONTAINER,
    "CreateContainerError": WaitingFor.CONTAINER,
    "PreCreateHookError": WaitingFor.CONTAINER,
    "PreStartHookError": WaitingFor.CONTAINER,
    "PostStartHookError": WaitingFor.CONTAINER,
    "RunContainerError": WaitingFor.CONTAINER,
    "CrashLoopBackOff": WaitingFor.CONTAINER,
}
# Events before a pod's start (kubernetes: pkg/kubelet/events/event.go). None: trouble is over.
POD_EVENTS: dict[str, WaitingFor | None] = {
    "Scheduled": None,
    "FailedAttachVolume": WaitingFor.MOUNT,
    "FailedMount": WaitingFor.MOUNT,
    "FailedMapVolume": WaitingFor.MOUNT,
    "VolumeResizeFailed": WaitingFor.MOUNT,
    "FileSystemResizeFailed": WaitingFor.MOUNT,
    "FailedPrepareDynamicResources": WaitingFor.CONTAINER,
    "NetworkNotReady": WaitingFor.SANDBOX,
    "FailedCreatePodSandBox": WaitingFor.SANDBOX,
    "FailedPodSandBoxStatus": WaitingFor.SANDBOX,
    "FailedCreatePodContainer": WaitingFor.SANDBOX,
    "Pulling": WaitingFor.IMAGE,
    "BackOff": WaitingFor.IMAGE,  # of an image unless it restarts a container
    "Failed": WaitingFor.IMAGE,  # the same
    "InspectFailed": WaitingFor.IMAGE,
    "ErrImageNeverPull": WaitingFor.IMAGE,
    "Pulled": None,
    "Created": None,
    "Started": None,
}
OF_A_CONTAINER = re.compile(
    r"restarting failed container|^Error: (?!Err?Image|ImagePull)|failed to (?:create|start)"
)
SCHEDULER_EVENTS = ("FailedScheduling", "Unschedulable")
# kube-scheduler (framework/types.go FitError) and Volcano (api/unschedule_info.go).
FIT = re.compile(
    r"\d+/(\d+) nodes are (?:un)?available: (.*?)(?:\. |\.?$|\.? preemption:)", re.DOTALL
)
MISSING = re.compile(
    r"(\d+) (Insufficient [\w./-]{1,80}|Too many pods"
    r"|node\(s\) [A-Za-z' /-]{1,80}(?:\{[\w./-]{1,120})?)"
)
# Volcano: plugins/gang, cache.go; plugins/capacity, proportion, resourcequota, overcommit.
GANG_NOT_READY = re.compile(r"pod group is not ready|tasks in gang")
GANG_COUNTS = re.compile(
    r"\d{1,6} (?:Pending|Running|minAvailable|Unschedulable|Schedulable|Releasing|Pipelined)"
)
QUOTA = re.compile(
    r"exceeded quota|quota insufficient|quota exceeded|[Qq]ueue \S+ (?:is overused|has no quota)",
    re.I,
)
LACKING = re.compile(r"(?:insufficient|overused|Insufficient) ([\w./-]{1,80})")
# apiserver resourcequota: `requested: requests.cpu=8, used: requests.cpu=60, limited: ...`
AMOUNT = re.compile(
    r"(requested|used|limited): ([\w./-]{1,60}=\w{1,20}(?:,[\w./-]{1,60}=\w{1,20})*)"
)
VOLUME = re.compile(r"for volume \"([\w.-]{1,120})\"|unmounted volumes=\[([\w., -]{1,200})\]")
PLUGIN = re.compile(r"plugin type=\"([\w.-]{1,40})\"")
WEBHOOK = re.compile(
    r"admission webhook \"([\w.-]{1,120})\"|violates (PodSecurity)|denied by (\w{1,60})"
)
# Why an image or a volume is refused: words of registry, storage account or kernel.
REFUSALS = (
    (re.compile(r"not ?found|manifest unknown|does not exist|no such", re.I), "not found"),
    (
        re.compile(r"\b40[13]\b|unauthori[sz]ed|forbidden|authenticat|denied", re.I),
        "access refused",
    ),
    (re.compile(r"\b429\b|toomanyrequests|too many requests", re.I), "too many requests"),
    (re.compile(r"no space left|disk", re.I), "no space left on the disk"),
    (re.compile(r"timed? ?out|deadline|no such host|dial tcp|connection", re.I), "not reachable"),
)
NO_ADDRESS = re.compile(
    r"(?:allocate|available|exhaust|insufficient)\w* (?:ip|address|subnet)"
    r"|no (?:free|available) ip",
    re.I,
)


def pod_waiting(pod: PodState, gang: GangState | None, cluster: ClusterIndex) -> Waiting | None:
    """What a pod that has not started waits for; None if nothing is known."""
    events = [
        event
        for event in cluster.events_of_pod(pod)
        if event.reason in (*POD_EVENTS, *SCHEDULER_EVENTS)
    ]
    if pod.node is None:
        return _unscheduled_waiting(pod, gang, events)
    for item in pod.containers:
        if item.state == "waiting" and (kind := CONTAINER_REASONS.get(item.reason)):
            return Waiting(kind, (_container_evidence(item, kind), *_evidence_of(events, kind)))
    for event in reversed(events):
        kind = POD_EVENTS.get(event.reason)
        if event.reason in ("Failed", "BackOff") and OF_A_CONTAINER.search(event.message):
            kind = WaitingFor.CONTAINER
        if kind is not None:
            return Waiting(kind, (_event_evidence(event, kind),))
        if event.reason in POD_EVENTS:
            break
    # A running init container is normal; it is what a pod waits for if it takes long.
    slow = (
        pod.start is not None
        and cluster.newest is not None
        and cluster.newest - pod.start > START_UP_SECONDS
    )
    for item in pod.containers if slow else ():
        if item.init and item.state == "running":
            message = f"the init container {_short(item.name)} has not ended"
            return Waiting(
                WaitingFor.CONTAINER,
                (Evidence(EvidenceSource.CONTAINER, "PodInitializing", message),),
            )
    node = cluster.nodes.get(pod.node)
    if node is not None and node.ready is False:
        message = "the node does not respond, so nothing starts the pod"
        return Waiting(
            WaitingFor.SANDBOX, (Evidence(EvidenceSource.NODE_CONDITION, "Ready", message),)
        )
    return None


def gang_waiting(gang: GangState) -> Waiting | None:
    """What a gang waits for that has no pods yet, or whose pods no scheduler has looked at."""
    for event in reversed(gang.job_events):
        if event.reason == "FailedCreate":
            kind = WaitingFor.QUOTA if QUOTA.search(event.message) else WaitingFor.ADMISSION
            message = (
                _amounts(event.message) if kind is WaitingFor.QUOTA else _refusal(event.message)
            )
            return Waiting(
                kind, (Evidence(EvidenceSource.VOLCANO_JOB, event.reason, message, event.time),)
            )
    events = [event for event in gang.group_events if event.reason in SCHEDULER_EVENTS]
    if not events and not gang.unschedulable:
        events = [event for event in gang.job_events if event.reason == "PodGroupPending"]
    for event in (*reversed(events), *gang.unschedulable):
        return _message_waiting(EvidenceSource.POD_GROUP, event, WaitingFor.POD_GROUP)
    if gang.group_phase or gang.job_phase:
        phase = signals.reason_text(gang.group_phase or gang.job_phase)
        message = "Volcano has not admitted the gang"
        return Waiting(
            WaitingFor.POD_GROUP,
            (Evidence(EvidenceSource.POD_GROUP, phase, message, gang.changed),),
        )
    return None


def _unscheduled_waiting(
    pod: PodState, gang: GangState | None, events: list[ClusterEvent]
) -> Waiting | None:
    condition = pod.unscheduled
    if condition is None or not condition.message:
        messages = [event for event in events if event.reason in SCHEDULER_EVENTS]
        if messages:
            return _message_waiting(
                EvidenceSource.POD_EVENT, messages[-1], WaitingFor.UNSCHEDULABLE
            )
    if condition is None:
        return gang_waiting(gang) if gang else None
    # Volcano calls a pod Schedulable or Undetermined that only waits for the rest of its gang.
    is_own = condition.reason not in ("Schedulable", "Undetermined")
    return _message_waiting(
        EvidenceSource.POD_CONDITION,
        condition,
        WaitingFor.UNSCHEDULABLE if is_own else WaitingFor.POD_GROUP,
    )


def _message_waiting(source: EvidenceSource, event: ClusterEvent, kind: WaitingFor) -> Waiting:
    """From what a scheduler says: quota, nodes that do not fit, or a gang that is not complete."""
    text = event.message
    if QUOTA.search(text):
        kind, message = WaitingFor.QUOTA, _amounts(text)
    elif fit := FIT.search(text):
        missing = ", ".join(
            f"{count} {reason.replace('{', '')}".strip()
            for count, reason in MISSING.findall(fit[2])
        )
        kind = WaitingFor.UNSCHEDULABLE if kind is not WaitingFor.POD_GROUP else kind
        message = f"no node of {fit[1]} fits: {missing}" if missing else f"no node of {fit[1]} fits"
    elif GANG_NOT_READY.search(text):
        kind, counts = WaitingFor.POD_GROUP, ", ".join(GANG_COUNTS.findall(text))
        message = f"the gang is not complete: {counts}" if counts else "the gang is not complete"
    elif lacking := LACKING.findall(text):
        message = f"not enough {', '.join(dict.fromkeys(lacking))}"
    elif event.reason == "SchedulingGated":
        message = "a scheduling gate holds it back"
    else:
        message = "not scheduled yet"
    return Waiting(
        kind, (Evidence(source, signals.reason_text(event.reason), message, event.time),)
    )


def _amounts(text: str) -> str:
    """Which quota is used up."""
    amounts = [f"{word} {values}" for word, values in AMOUNT.findall(text)]
    lacking = (
        [] if amounts else [f"not enough {name}" for name in dict.fromkeys(LACKING.findall(text))]
    )
    return "; ".join(["the quota is used up", *amounts, *lacking])


def _refusal(text: str) -> str:
    match = WEBHOOK.search(text)
    by = next((part for part in match.groups() if part), "") if match else ""
    return f"the pod was refused by {by}" if by else "the API server refused the pod"


def _container_evidence(item: ContainerState, kind: WaitingFor) -> Evidence:
    problem = "the image cannot be pulled" if kind is WaitingFor.IMAGE else "it cannot be created"
    message = f"{'init ' if item.init else ''}container {_short(item.name)}: {problem}"
    return Evidence(
        EvidenceSource.CONTAINER,
        signals.reason_text(item.reason),
        message + _refusal_reason(item.message),
    )


def _evidence_of(events: Iterable[ClusterEvent], kind: WaitingFor) -> tuple[Evidence, ...]:
    last = [event for event in events if POD_EVENTS.get(event.reason) is kind][-1:]
    return tuple(_event_evidence(event, kind) for event in last)


def _event_evidence(event: ClusterEvent, kind: WaitingFor) -> Evidence:
    detail = _refusal_reason(event.message)
    if kind is WaitingFor.MOUNT:
        match = VOLUME.search(event.message)
        name = next((part for part in match.groups() if part), "") if match else ""
        message = f"the volume {name} cannot be mounted" if name else "a volume cannot be mounted"
    elif kind is WaitingFor.SANDBOX:
        match = PLUGIN.search(event.message)
        message = (
            f"the network plugin {match[1]} failed"
            if match
            else "the sandbox of the pod cannot be created"
        )
        detail = ": no address left" if NO_ADDRESS.search(event.message) else ""
    elif event.reason == "Pulling":
        message, detail = "the image is being pulled", ""
    elif kind is WaitingFor.IMAGE:
        message = "the image cannot be pulled"
    else:
        message = "a container cannot be created"
    return Evidence(
        EvidenceSource.POD_EVENT, signals.reason_text(event.reason), message + detail, event.time
    )


def _refusal_reason(text: str) -> str:
    return next((f": {meaning}" for pattern, meaning in REFUSALS if pattern.search(text)), "")


def _short(name: str) -> str:
    """The name of a container without the id of its job."""
    return re.sub(r"^[0-9a-f]{32}-", "", name) if re.fullmatch(r"[a-z0-9.-]{1,253}", name) else "?"
