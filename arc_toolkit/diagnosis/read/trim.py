"""The few fields of Kubernetes objects that diagnose needs; the others are never stored.

Pod specs contain secrets in environment values, arguments and annotations, so these are lists of
what is kept, not of what is dropped. Texts that a program wrote pass `allowed_text`; names, times
and figures are checked by their shape.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from arc_toolkit.diagnosis.identities import parent_of_pod
from arc_toolkit.kube.nodes import POOL_LABELS, SIZE_LABELS
from arc_toolkit.kube.pods import RUN_ID_LABEL
from arc_toolkit.kube.raw import Json, mapping, rows
from arc_toolkit.kube.taints import SPOT_LABELS
from arc_toolkit.output.redaction import redact
from arc_toolkit.resources import data_file

LONGEST = 1000
_LONGEST_READ = 20_000
MASK = "***"

# Shapes that are kept whole, each with an example.
_SHAPES = (
    r"(?:aks|ask|k8s)-[a-z0-9]{1,12}-\d{8}-vmss[0-9a-zA-Z]{0,6}",  # aks-gpu-12345678-vmss000001
    # 2026-07-01T10:00:00Z
    r"\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d)?",
    r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",  # the UUID of a GPU
    r"PCI:[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}",  # NVRM: Xid (PCI:0000:3b:00): 79
    # 61Gi 500m 120s 16000
    r"\d{1,12}(?:\.\d{1,9})?(?:[numkMGTPE]|[KMGTPE]i|[num]?s|min|h|d|B|[kKMG]B)?",
    r"(?:\d{1,4}h)?\d{1,4}m(?:\d{1,4}(?:\.\d{1,9})?s)?",  # 3m12s
    r"[A-Z]{1,4}\d{1,5}",  # codes of AKS and AzureML: NHC2009, E45004
    r"(?:eth|sd[a-z]|nvme|nvidia|md|v|k8s|ipv|tty)\d{0,2}",  # devices and versions
    r"[A-Za-z]",
)
# Names that messages of Kubernetes and the node problem detector have in a fixed place.
_TEXT_NAME = r"([a-z0-9][a-z0-9.-]{0,62})"
_NAMED = [
    re.compile(
        r"(?:exceeded quota: |for volume \"|webhook \"|plugin type=\"|queue \")"
        rf"{_TEXT_NAME}(?![\w./+=-])"
    ),
    re.compile(rf"Container {_TEXT_NAME} (?:was using|exceeded its local)"),
]
_CONDITION = re.compile(r"Node condition ([A-Z][A-Za-z0-9]{2,63}) is now: ")
# Figures after a word for a secret, up to six words or figures later: `password is 839201746512`,
# `--pin 4829104756`, `otp 4 digits: 48291047`. A short one with a unit is an amount: `a container
# with token in its name was using 3104Ki`.
_SECRET_WORD = re.compile(
    r"(?:passw(?:or)?[dt]|passphrase|(?:pass|pin)code|pwd|pin|secret|token|key|credential|otp)s?\b",
    re.IGNORECASE,
)
_AFTER_IT = re.compile(
    r"(?:[^\w\n]{1,8}(?:[A-Za-z_]{1,20}\b|\d+(?![A-Za-z\d])|\d{8,}[A-Za-z]{1,2}\b)){0,7}"
)
_FIGURE = re.compile(r"(?<!\w)\d(?:[\d .,-]*\d)?(?:(?![A-Za-z\d])|(?<=\d{8})[A-Za-z]{1,2}\b)")
_SHAPE = re.compile("|".join(f"(?:{shape})" for shape in _SHAPES))
_PIECE = re.compile(
    rf"(?<![^\W_])(?:{_SHAPES[0]}|{_SHAPES[1]}|{_SHAPES[2]}|{_SHAPES[3]})(?![^\W_])|[^\W_]+"
)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_REASON = re.compile(r"[A-Za-z][A-Za-z0-9]{0,63}|OutOf[a-z0-9./-]{1,60}")


def allowed_text(text: str, names: Iterable[str] = ()) -> str:
    """The allowed parts of a text. `names`, from other fields of the object, are allowed too."""
    text = _without_secret_figures(redact(text[:_LONGEST_READ]))
    keep = {name for name in names if name and name in text}
    keep.update(name for pattern in _NAMED for name in pattern.findall(text))
    keep.update(filter(_is_reason, _CONDITION.findall(text)))
    named = re.compile(
        "|".join(rf"(?<![\w-]){re.escape(name)}(?![\w-])" for name in sorted(keep, reverse=True))
    )
    parts, at = [], 0
    for match in named.finditer(text) if keep else ():
        parts += [_masked(text[at : match.start()]), match[0]]
        at = match.end()
    return "".join([*parts, _masked(text[at:])])[:LONGEST]


def _without_secret_figures(text: str) -> str:
    for word in reversed(list(_SECRET_WORD.finditer(text))):
        after = _AFTER_IT.match(text, word.end())
        if after and after[0]:
            text = text[: word.end()] + _FIGURE.sub(MASK, after[0]) + text[after.end() :]
    return text


def allowed_reason(text: str) -> str:
    """A reason in CamelCase as it is, even an unknown one; Azure sometimes writes sentences."""
    return (
        text
        if _REASON.fullmatch(text) and (text.startswith("OutOf") or _is_reason(text))
        else allowed_text(text)
    )


def _is_reason(text: str) -> bool:
    """The words of a random string are shorter and its digits more."""
    words = _WORD.findall(text)
    return bool(words) and sum(map(len, words)) >= max(3 * len(words) - 1, len(text) - 4)


def _masked(text: str) -> str:
    """Mask from the first to the last word of each token that is not allowed."""
    return re.sub(r"\S+", _mask_token, text)


def _mask_token(match: re.Match[str]) -> str:
    token = match[0]
    bad = [piece.span() for piece in _PIECE.finditer(token) if not _is_plain(piece[0])]
    return token if not bad else token[: bad[0][0]] + MASK + token[bad[-1][1] :]


def _is_plain(piece: str) -> bool:
    if _SHAPE.fullmatch(piece) or piece.lower() in _words():
        return True
    parts = _WORD.findall(piece)
    return sum(map(len, parts)) == len(piece) and all(part.lower() in _words() for part in parts)


@cache
def _words() -> frozenset[str]:
    lines = data_file("message_words.txt").read_text(encoding="utf-8").split("\n")
    return frozenset(line for line in lines if line and not line.startswith("#"))


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
    names = _names(raw)
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
            names,
        ),
        "status": _pick(status, ("phase", "reason", "message", "startTime"), names),
    }
    if (parent := parent_of_pod(metadata, spec)) and _is_name(parent) and redact(parent) == parent:
        trimmed["metadata"].setdefault("labels", {})[PARENT_LABEL] = parent
    _add(
        trimmed["spec"],
        "tolerations",
        [item for raw in rows(spec.get("tolerations")) if (item := _toleration(raw))],
    )
    for part in ("containers", "initContainers"):
        _add(trimmed["spec"], part, [_container(item) for item in rows(spec.get(part))])
    _add(
        trimmed["spec"],
        "volumes",
        [_volume(item) for item in rows(spec.get("volumes")) if item.get("emptyDir")],
    )
    _add(trimmed["status"], "conditions", _conditions(status, names))
    for part in ("containerStatuses", "initContainerStatuses"):
        _add(
            trimmed["status"],
            part,
            [_container_status(item, names) for item in rows(status.get(part))],
        )
    return trimmed


def _toleration(raw: Json) -> Json:
    """With a key that Kubernetes or Azure uses; others may contain anything."""
    key = str(raw.get("key", ""))
    return (
        _pick(raw, ("key", "operator", "value", "effect", "tolerationSeconds"))
        if allowed_text(key) == key
        else {}
    )


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


def _container_status(raw: Json, names: Iterable[str]) -> Json:
    trimmed = _pick(raw, ("name", "restartCount"))
    for part in ("state", "lastState"):
        _add(trimmed, part, {
            word: _pick(inner, STATE, names)
            for word, inner in mapping(raw.get(part)).items()
            if word in ("waiting", "running", "terminated") and isinstance(inner, dict)
        })  # fmt: skip
    return trimmed


def node(raw: Json) -> Json:
    spec, status = mapping(raw.get("spec")), mapping(raw.get("status"))
    names = _names(raw)
    trimmed: Json = {
        "metadata": _metadata(raw, NODE_LABELS),
        "spec": _pick(spec, ("unschedulable",)),
        "status": {
            "conditions": _conditions(status, names)
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
    names = _names({"metadata": about})
    trimmed = _pick(raw, ("reason", "message", "note", "type", "count"), names)
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
    names = _names(raw)
    trimmed: Json = {
        "apiVersion": POD_GROUPS,
        "kind": "PodGroup",
        "metadata": _metadata(raw, POD_LABELS),
        "spec": _pick(spec, ("minMember", "queue", "priorityClassName")),
        "status": _pick(status, ("phase", *COUNTS)),
    }
    _add(trimmed["spec"], "minResources", _quantities(spec.get("minResources")))
    _add(trimmed["status"], "conditions", _conditions(status, names))
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
    _add(trimmed["status"], "state", _pick(mapping(status.get("state")), state, _names(raw)))
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


def _names(raw: Json) -> tuple[str, ...]:
    """The names that an object has anyway, which its messages may therefore contain."""
    metadata, spec = mapping(raw.get("metadata")), mapping(raw.get("spec"))
    values = [metadata.get("name"), metadata.get("namespace"), spec.get("nodeName")]
    for part in ("containers", "initContainers"):
        values += [item.get("name") for item in rows(spec.get(part))]
    return tuple(str(value) for value in values if _is_name(value))


def _conditions(status: Mapping[str, Any], names: Iterable[str]) -> list[Json]:
    return [_pick(item, CONDITION, names) for item in rows(status.get("conditions"))]


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


def _pick(raw: Mapping[str, Any], fields: Iterable[str], names: Iterable[str] = ()) -> Json:
    """Fields by name: numbers, allowed texts and names; no lists or objects."""
    trimmed: Json = {}
    for field in fields:
        value = raw.get(field)
        if isinstance(value, str):
            if field in ("message", "note", "value"):
                value = allowed_text(value, names)
            elif field == "reason":
                value = allowed_reason(value)
            elif not _is_name(value):
                continue
        elif not isinstance(value, bool | int | float):
            continue
        trimmed[field] = value
    return trimmed
