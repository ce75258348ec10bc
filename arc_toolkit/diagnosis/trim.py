"""The few fields of pods, nodes and events that diagnose needs. Everything else is dropped before anything is stored.

Pod specs contain secrets in environment values and arguments, and messages of containers contain the ends of logs, so
these are lists of what is kept, not of what is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from arc_toolkit.diagnosis import signals
from arc_toolkit.diagnosis.model import EvidenceSource
from arc_toolkit.kube.nodes import POOL_LABELS, SIZE_LABELS
from arc_toolkit.kube.pods import RUN_ID_LABEL
from arc_toolkit.kube.raw import mapping, rows
from arc_toolkit.kube.taints import SPOT_KEY
from arc_toolkit.output.safe import redact

Json = dict[str, Any]

POD_LABELS = (RUN_ID_LABEL, "jobRole", "role")
NODE_LABELS = (*POOL_LABELS, SPOT_KEY, SIZE_LABELS[0])
METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp")
LONGEST_MESSAGE = 1000


def pod(raw: Json) -> Json:
    spec, status = mapping(raw.get("spec")), mapping(raw.get("status"))
    tolerations = [_pick(item, ("key",)) for item in rows(spec.get("tolerations")) if item.get("key") == SPOT_KEY]
    kept: Json = {
        "metadata": _metadata(raw, POD_LABELS),
        "spec": _pick(spec, ("nodeName",)),
        "status": _pick(status, ("phase", "reason", "message", "startTime")),
    }
    if tolerations:
        kept["spec"]["tolerations"] = tolerations
    disrupted = [item for item in rows(status.get("conditions")) if item.get("type") == "DisruptionTarget"]
    if disrupted:
        kept["status"]["conditions"] = [
            _pick(item, ("type", "status", "reason", "lastTransitionTime")) for item in disrupted
        ]
    for part in ("containerStatuses", "initContainerStatuses"):
        if status.get(part):
            kept["status"][part] = [_container(item) for item in rows(status.get(part))]
    return kept


def _container(raw: Json) -> Json:
    state = {
        word: _pick(inner, ("reason", "exitCode", "startedAt", "finishedAt"))
        for word, inner in mapping(raw.get("state")).items()
        if isinstance(inner, dict)
    }
    return {**_pick(raw, ("name",)), "state": state}


def node(raw: Json) -> Json:
    spec = mapping(raw.get("spec"))
    kept: Json = {
        "metadata": _metadata(raw, NODE_LABELS),
        "spec": _pick(spec, ("unschedulable", "providerID")),
        "status": {
            # Without the heartbeat, which changes every few minutes.
            "conditions": [
                _pick(item, ("type", "status", "reason", "message", "lastTransitionTime"))
                for item in rows(mapping(raw.get("status")).get("conditions"))
            ]
        },
    }
    taints = [_pick(item, ("key", "value", "effect", "timeAdded")) for item in rows(spec.get("taints"))]
    if taints:
        kept["spec"]["taints"] = taints
    return kept


def event(raw: Json) -> Json:
    kept = _pick(raw, ("reason", "message", "type", "count", "firstTimestamp", "lastTimestamp", "eventTime"))
    kept |= _pick(raw, ("reportingComponent",))
    kept["metadata"] = _metadata(raw, ())
    kept["involvedObject"] = _pick(mapping(raw.get("involvedObject")), ("kind", "namespace", "name", "uid"))
    if isinstance(raw.get("source"), dict):
        kept["source"] = _pick(raw["source"], ("component",))
    if isinstance(raw.get("series"), dict):
        kept["series"] = _pick(raw["series"], ("lastObservedTime",))
    return kept


def is_relevant_event(raw: Json) -> bool:
    """Every event of a node, and those of a pod with a known reason (most have none)."""
    target = mapping(raw.get("involvedObject"))
    if target.get("kind") == "Node":
        return True
    reason, message = str(raw.get("reason")), str(raw.get("message"))
    known = reason == "Evicted" or (EvidenceSource.POD_EVENT, reason) in signals.table()
    return target.get("kind") == "Pod" and (known or bool(signals.PREEMPT_MESSAGE.search(message)))


def _metadata(raw: Json, labels: Iterable[str]) -> Json:
    metadata = mapping(raw.get("metadata"))
    kept = _pick(metadata, METADATA)
    named = _pick(mapping(metadata.get("labels")), labels)
    return {**kept, "labels": named} if named else kept


def _pick(raw: Mapping[str, Any], names: Iterable[str]) -> Json:
    kept = {name: raw[name] for name in names if raw.get(name) is not None}
    if isinstance(kept.get("message"), str):
        kept["message"] = redact(kept["message"])[:LONGEST_MESSAGE]
    return kept
