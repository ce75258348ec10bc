"""The few fields of Kubernetes objects that diagnose needs; the others are never stored.

Pod specs contain secrets in environment values, arguments and annotations, so these are lists of
what is kept, not of what is dropped. Of a message only the parts are kept that diagnose reads: the
phrases and figures of the table below. Names, times and figures are checked by their shape.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from arc_toolkit.diagnosis.identities import parent_of_pod
from arc_toolkit.kube.nodes import POOL_LABELS, SIZE_LABELS
from arc_toolkit.kube.pods import RUN_ID_LABEL
from arc_toolkit.kube.raw import Json, mapping, rows
from arc_toolkit.kube.taints import SPOT_KEY, SPOT_LABELS
from arc_toolkit.output.redaction import redact

LONGEST = 1000
_LONGEST_READ = 20_000
MASK = "***"
_AMOUNT = r"\d[\d.]{0,20}[A-Za-z]{0,2}\b"
_LABEL = r"[a-z0-9][a-z0-9.-]{0,62}"  # names of containers, volumes, queues, webhooks
_DEVICE = r"[a-z][a-z0-9.-]{0,40}(?:/[a-z][a-z0-9.-]{0,40})?"  # nvidia.com/gpu, cpu
_KEY = r"[a-z][a-z0-9.-]{0,60}(?:/[a-zA-Z][a-zA-Z0-9.-]{0,40})?"  # of a taint
# The messages that diagnose reads, by who writes them. The patterns that read them are beside their
# meanings, in signals.py, gpu_messages.py and assemble/.
_PHRASES = (
    # kubelet: eviction, admission, device manager
    r"The node was low on resource: \[?[a-z-]{3,30}",
    r"The node had condition: \[?[A-Z][A-Za-z]{3,30}",
    rf"Threshold quantity: {_AMOUNT}, available: {_AMOUNT}\.",
    rf"(?:Container|Pod) {_LABEL} was using {_AMOUNT}, "
    rf"(?:request is|which exceeds its request of) {_AMOUNT}[,.]?",
    r"ephemeral local storage usage exceeds|exceeded its local ephemeral storage limit",
    r"Usage of EmptyDir volume|exceeds the limit|Preempt(?:ed|ing)|preempt(?:ed|ing)",
    r"^Pod was rejected: ",
    rf"enough resource: {_DEVICE}, requested: \d+, used: \d+, capacity: \d+",
    rf"requested number of devices unavailable for {_DEVICE}\. Requested: \d+, Available: \d+",
    r"no healthy devices present|previously allocated devices are no longer healthy"
    r"|can(?:not|'t) allocate unregistered device|maximum request size for shared resources",
    r"(?:Allocate failed due to (?:device plugin GetPreferredAllocation rpc failed with err: )?"
    r"|device plugin PreStartContainer rpc failed with err: )rpc error: code = [A-Z][A-Za-z]{1,20}",
    # kernel, node problem detector, Azure
    r"Memory cgroup out of memory: Kill(?:ed)? process|anon-rss:\d{1,15}kB",
    r"^Node condition [A-Z][A-Za-z0-9]{2,40} is now: (?:True|False|Unknown), reason: ",
    r"\b(?:Preempt|Redeploy|Reboot|Terminate|Freeze)(?: ?Scheduled)?\b|SpotEvictionIncoming",
    r"[Pp]reempt(?:ion)? [Ss]cheduled|will change into status '?Preempt",
    r"FaultCode: NHC\d{1,6}|XID error-codes found: \d[\d, ]{0,60}",
    r"NVRM: |Xid \((?:PCI:)?[0-9a-fA-F:.]{4,20}\): \d{1,4}|GPU has fallen off the bus",
    r"query failed|[Tt]imed out|^Deleting [Nn]ode|^Successfully|^Cancelling|\b(?:Drift|Expir)",
    # CUDA, NVML, NVIDIA's container toolkit
    r"uncorrectable (?:ECC error encountered|NVLink error detected)",
    r"(?:nvml: |: |^)GPU (?:is lost|requires reset)|determine the device handle for G[pP][uU]",
    r"nvidia-container-(?:cli|runtime)|libnvidia-ml|NVML|nvidia-ctk|nvidia\.com/gpu="
    r"|requirement error|unsatisfied condition: (?:cuda|driver|brand)",
    # schedulers: kube-scheduler and Volcano
    r"\d{1,6}/\d{1,6} nodes are (?:un)?available: |\.? preemption: ?",
    rf"\d{{1,6}} (?:Insufficient {_DEVICE}|Too many pods"
    rf"|node\(s\) (?:[A-Za-z'/-]{{1,14}} ?){{1,12}}(?:\{{{_KEY})?)",
    r"pod group is not ready|tasks in gang|Start to execute command [A-Z][a-z]{2,12}[A-Z][a-z]{1,8}",
    r"\d{1,6} (?:Pending|Running|minAvailable|Unschedulable|Schedulable|Releasing|Pipelined)",
    rf"(?:insufficient|overused|Insufficient) {_DEVICE}",
    # quotas, admission
    r"(?i:exceeded quota|quota insufficient|quota exceeded)",
    rf"[Qq]ueue {_LABEL} (?:is overused|has no quota)",
    rf"(?:requested|used|limited): {_DEVICE}={_AMOUNT}(?:,{_DEVICE}={_AMOUNT})*",
    rf'admission webhook "{_LABEL}"|violates PodSecurity|denied by [A-Z][a-z]{{3,20}}',
    # what a pod waits for: images, volumes, network
    rf'for volume "{_LABEL}"|unmounted volumes=\[{_LABEL}(?:[, ]+{_LABEL}){{0,9}}\]',
    rf'plugin type="{_LABEL}"|restarting failed container|failed to (?:create|start)',
    r"^Error: (?:Err?Image[A-Z][a-z]{1,20}|ImagePull[A-Z][a-z]{1,20})?",
    r"(?i:not ?found|manifest unknown|does not exist|no such(?: host)?|\b40[13]\b|unauthori[sz]ed"
    r"|forbidden|authenticat(?:ion|e)|denied|\b429\b|too ?many ?requests|no space left|\bdisk\b"
    r"|timed? ?out|deadline|dial tcp|\bconnection\b)",
    r"(?i:(?:allocate|available|exhaust(?:ed)?|insufficient) (?:ip|address|subnet)"
    r"|no (?:free|available) ip)",
)
_PHRASE = re.compile("|".join(f"(?:{phrase})" for phrase in _PHRASES))
_BETWEEN = re.compile(r"[\s.,;:()\[\]{}\"'=-]{0,4}")  # between two phrases as it is
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_REASON = re.compile(r"[A-Za-z][A-Za-z0-9]{0,63}|OutOf[a-z0-9./-]{1,60}")
# Values of taints that diagnose reads; the autoscaler writes a time.
_TAINT_VALUE = re.compile(r"spot(?:-eviction)?|true|false|\d{9,11}")


def known_parts(text: str) -> str:
    """The parts of a message that diagnose reads, in their order; the others are masked.

    Example: `MountVolume.SetUp failed for volume "data" : mount failed: https://user:pw@host`
    -> `*** for volume "data" ***`
    """
    parts, at = [], 0
    text = text[:_LONGEST_READ]
    for match in _PHRASE.finditer(text):
        parts += [_masked(text[at : match.start()]), match[0]]
        at = match.end()
    return "".join([*parts, _masked(text[at:])]).strip(" ")[:LONGEST]


def _masked(between: str) -> str:
    return between if _BETWEEN.fullmatch(between) else f" {MASK} "


def known_reason(text: str) -> str:
    """A reason in CamelCase as it is, even an unknown one; Azure sometimes writes sentences."""
    return (
        text
        if _REASON.fullmatch(text) and (text.startswith("OutOf") or _is_reason(text))
        else known_parts(text)
    )


def _is_reason(text: str) -> bool:
    """The words of a random string are shorter and its digits more."""
    words = _WORD.findall(text)
    return bool(words) and sum(map(len, words)) >= max(3 * len(words) - 1, len(text) - 4)


VOLCANO_JOBS = "batch.volcano.sh/v1alpha1"
POD_GROUPS = "scheduling.volcano.sh/v1beta1"
PARENT_LABEL = "ml.azure.com/parent-run-id"
VOLCANO_LABELS = tuple(
    f"volcano.sh/{name}"
    for name in (
        "job-name",
        "job-namespace",
        "queue-name",
        "task-spec",
        "task-index",
        "job-retry-count",
        "job-version",
    )
)
POD_LABELS = (
    RUN_ID_LABEL,
    "jobRole",
    "role",
    "jobId",
    "jobScale",
    "jobsource",
    "run",
    "type",
    *VOLCANO_LABELS,
)
POD_ANNOTATIONS = ("scheduling.k8s.io/group-name", *VOLCANO_LABELS)
NODE_LABELS = (*POOL_LABELS, *SPOT_LABELS, SIZE_LABELS[0], "topology.kubernetes.io/zone")
METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp")
STATE = ("reason", "exitCode", "signal", "startedAt", "finishedAt", "message")
CONDITION = ("type", "status", "reason", "message", "lastTransitionTime")
COUNTS = (
    "pending",
    "running",
    "succeeded",
    "failed",
    "terminating",
    "unknown",
    "minAvailable",
    "retryCount",
    "version",
)

_NAME = re.compile(r"[\w./:-]{1,253}", re.ASCII)
_QUANTITY = re.compile(r"[0-9.eE+-]{1,20}[numkKMGTPEi]{0,2}")
_VM = re.compile(r"/virtualMachineScaleSets/[^/]+/virtualMachines/\d+$", re.IGNORECASE)


def pod(raw: Json) -> Json:
    metadata, spec, status = (mapping(raw.get(part)) for part in ("metadata", "spec", "status"))
    trimmed: Json = {
        "metadata": _metadata(raw, POD_LABELS, POD_ANNOTATIONS),
        "spec": _pick(
            spec,
            (
                "nodeName",
                "schedulerName",
                "priorityClassName",
                "restartPolicy",
                "terminationGracePeriodSeconds",
            ),
        ),
        "status": _pick(status, ("phase", "reason", "message", "startTime")),
    }
    if (parent := parent_of_pod(metadata, spec)) and _is_name(parent) and redact(parent) == parent:
        trimmed["metadata"].setdefault("labels", {})[PARENT_LABEL] = parent
    _add(
        trimmed["spec"],
        "tolerations",
        [{"key": SPOT_KEY} for raw in rows(spec.get("tolerations")) if raw.get("key") == SPOT_KEY],
    )
    for part in ("containers", "initContainers"):
        _add(trimmed["spec"], part, [_container(item) for item in rows(spec.get(part))])
    _add(
        trimmed["spec"],
        "volumes",
        [_volume(item) for item in rows(spec.get("volumes")) if item.get("emptyDir")],
    )
    _add(trimmed["status"], "conditions", _conditions(status))
    for part in ("containerStatuses", "initContainerStatuses"):
        _add(
            trimmed["status"],
            part,
            [_container_status(item) for item in rows(status.get(part))],
        )
    return trimmed


def _container(raw: Json) -> Json:
    amounts = mapping(raw.get("resources"))
    resources = {
        part: _quantities(amounts.get(part)) for part in ("requests", "limits") if amounts.get(part)
    }
    return {
        **_pick(raw, ("name", "restartPolicy")),
        **({"resources": resources} if resources else {}),
    }


def _volume(raw: Json) -> Json:
    return {
        **_pick(raw, ("name",)),
        "emptyDir": _quantities(_pick(mapping(raw["emptyDir"]), ("sizeLimit",))),
    }


def _container_status(raw: Json) -> Json:
    trimmed = _pick(raw, ("name", "restartCount"))
    for part in ("state", "lastState"):
        _add(trimmed, part, {
            word: _pick(inner, STATE)
            for word, inner in mapping(raw.get(part)).items()
            if word in ("waiting", "running", "terminated") and isinstance(inner, dict)
        })  # fmt: skip
    return trimmed


def node(raw: Json) -> Json:
    spec, status = mapping(raw.get("spec")), mapping(raw.get("status"))
    trimmed: Json = {
        "metadata": _metadata(raw, NODE_LABELS),
        "spec": _pick(spec, ("unschedulable",)),
        "status": {
            "conditions": _conditions(status)
        },  # without the heartbeat, which changes every few minutes
    }
    for part in ("capacity", "allocatable"):  # of GPUs and other devices
        _add(trimmed["status"], part, _quantities(status.get(part), only_devices=True))
    if machine := _VM.search(str(spec.get("providerID"))):
        trimmed["spec"]["providerID"] = machine[0]
    _add(
        trimmed["spec"],
        "taints",
        [_pick(item, ("key", "value", "effect", "timeAdded")) for item in rows(spec.get("taints"))],
    )
    return trimmed


def event(raw: Json) -> Json:
    """An event of core/v1 or of events.k8s.io/v1."""
    about = mapping(raw.get("involvedObject")) or mapping(raw.get("regarding"))
    trimmed = _pick(raw, ("reason", "message", "note", "type", "count"))
    trimmed |= _pick(
        raw,
        (
            "firstTimestamp",
            "lastTimestamp",
            "eventTime",
            "reportingComponent",
            "reportingController",
        ),
    )
    trimmed |= _pick(raw, ("deprecatedFirstTimestamp", "deprecatedLastTimestamp"))
    trimmed["metadata"] = _metadata(raw)
    trimmed["involvedObject"] = _pick(about, ("apiVersion", "kind", "namespace", "name", "uid"))
    _add(trimmed, "source", _pick(mapping(raw.get("source")), ("component",)))
    _add(trimmed, "series", _pick(mapping(raw.get("series")), ("lastObservedTime",)))
    return trimmed


def pod_group(raw: Json) -> Json:
    spec, status = mapping(raw.get("spec")), mapping(raw.get("status"))
    trimmed: Json = {
        "apiVersion": POD_GROUPS,
        "kind": "PodGroup",
        "metadata": _metadata(raw, POD_LABELS),
        "spec": _pick(spec, ("minMember", "queue", "priorityClassName")),
        "status": _pick(status, ("phase", *COUNTS)),
    }
    _add(trimmed["spec"], "minResources", _quantities(spec.get("minResources")))
    _add(trimmed["status"], "conditions", _conditions(status))
    return trimmed


def volcano_job(raw: Json) -> Json:
    spec, status = mapping(raw.get("spec")), mapping(raw.get("status"))
    trimmed: Json = {
        "apiVersion": VOLCANO_JOBS,
        "kind": "Job",
        "metadata": _metadata(raw, POD_LABELS),
        "spec": _pick(
            spec, ("minAvailable", "maxRetry", "queue", "priorityClassName", "schedulerName")
        ),
        "status": _pick(status, COUNTS),
    }
    _add(
        trimmed["spec"],
        "policies",
        [_pick(item, ("event", "action")) for item in rows(spec.get("policies"))],
    )
    _add(trimmed["spec"], "tasks", [_task(item) for item in rows(spec.get("tasks"))])
    state = ("phase", "reason", "message", "lastTransitionTime")
    _add(trimmed["status"], "state", _pick(mapping(status.get("state")), state))
    return trimmed


def _task(raw: Json) -> Json:
    template = _metadata(mapping(raw.get("template")), POD_LABELS, POD_ANNOTATIONS)
    return {**_pick(raw, ("name", "replicas", "minAvailable")), "template": {"metadata": template}}


def is_relevant_event(raw: Json) -> bool:
    """Every Warning, and what else happens to nodes, to pods, and to the objects of Volcano.

    Of pods that are not of AzureML, the history forgets what is not a Warning: see `about`.
    """
    if raw.get("type") == "Warning":
        return True
    about = mapping(raw.get("involvedObject")) or mapping(raw.get("regarding"))
    if about.get("kind") == "Job":
        return str(about.get("apiVersion")).startswith("batch.volcano.sh/")
    return about.get("kind") in ("Node", "Pod", "PodGroup")


def subject_uid(event: Json) -> str | None:
    """The uid of the pod without which an event has no use; None if it has one in any case."""
    target = mapping(event.get("involvedObject"))
    return (
        str(target.get("uid"))
        if event.get("type") != "Warning" and target.get("kind") == "Pod"
        else None
    )


def _metadata(
    raw: Mapping[str, Any], labels: Iterable[str] = (), annotations: Iterable[str] = ()
) -> Json:
    metadata = mapping(raw.get("metadata"))
    trimmed = _pick(metadata, METADATA)
    _add(trimmed, "labels", _pick_labels(metadata.get("labels"), labels))
    _add(trimmed, "annotations", _pick_labels(metadata.get("annotations"), annotations))
    owners = [
        _pick(item, ("apiVersion", "kind", "name", "uid"))
        for item in rows(metadata.get("ownerReferences"))
    ]
    _add(trimmed, "ownerReferences", owners)
    return trimmed


def _pick_labels(raw: object, keys: Iterable[str]) -> Json:
    values = mapping(raw)
    return {
        key: values[key]
        for key in keys
        if _is_name(values.get(key)) and redact(values[key]) == values[key]
    }


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(_NAME.fullmatch(value))


def _conditions(status: Mapping[str, Any]) -> list[Json]:
    return [_pick(item, CONDITION) for item in rows(status.get("conditions"))]


def _quantities(raw: object, *, only_devices: bool = False) -> Json:
    return {
        key: value
        for key, value in mapping(raw).items()
        if _is_name(key) and _QUANTITY.fullmatch(str(value)) and isinstance(value, str | int)
        if "/" in key or not only_devices
    }


def _add(trimmed: Json, name: str, value: Any) -> None:
    """Only if there is something in it."""
    if value:
        trimmed[name] = value


def _pick(raw: Mapping[str, Any], fields: Iterable[str]) -> Json:
    """Fields by name: numbers, known parts of messages, and names; no lists or objects."""
    trimmed: Json = {}
    for field in fields:
        value = raw.get(field)
        if isinstance(value, str):
            if field in ("message", "note"):
                value = known_parts(value)
            elif field == "reason":
                value = known_reason(value)
            elif field == "value":
                value = value if _TAINT_VALUE.fullmatch(value) else MASK
            elif not _is_name(value):
                continue
        elif not isinstance(value, bool | int | float):
            continue
        trimmed[field] = value
    return trimmed
