"""Kubernetes objects as rows of Container Insights, as its agent writes them.

After github.com/microsoft/Docker-Provider, source/plugins/ruby: in_kube_podinventory.rb (getPodInventoryRecords),
in_kube_nodes.rb (getNodeInventoryRecord) and in_kube_events.rb. The agent runs every minute.
"""

from __future__ import annotations

import csv
import io
import json
import math
from typing import Any

from arc_toolkit.diagnosis import times

Json = dict[str, Any]
Row = dict[str, Any]
CLUSTER = "/subscriptions/s/resourceGroups/g/providers/Microsoft.ContainerService/managedClusters/c"


def tables(case: Json, all_events: bool = False) -> dict[str, list[Row]]:
    """The rows of a case: of each object as it began, when it changed, and at the end of the recording."""
    pods, nodes, events = (_items(case.get(key)) for key in ("pods", "nodes", "events"))
    end = _end(case)
    return {
        "KubePodInventory": [row for pod in pods for row in _of_pod(pod, end)],
        "KubeNodeInventory": [row for node in nodes for row in _of_node(node, end)]
        + _lost_nodes(pods, nodes, end),
        "KubeEvents": [
            _of_event(event) for event in events if all_events or event.get("type") != "Normal"
        ],
    }


def _items(value: Any) -> list[Json]:
    return list(value.get("items", [])) if isinstance(value, dict) else list(value or [])


def _end(case: Json) -> float:
    """The newest time of the case: when the last rows were collected."""
    moments: list[float] = []

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            for item in value.values():
                walk(item)
        elif isinstance(value, list):
            for item in value:
                walk(item)
        elif isinstance(value, str) and len(value) > 15 and (moment := times.parse(value)):
            moments.append(moment)

    for key in ("pods", "nodes", "events"):
        walk(case.get(key))
    return max(moments, default=0.0)


def _batch(moment: float) -> float:
    return math.ceil(moment / 60) * 60.0


def _row(moment: float, table: str, **values: Any) -> Row:
    return {
        "TimeGenerated": times.iso(_batch(moment)),
        "ClusterId": CLUSTER,
        "Type": table,
        **values,
    }


def _of_pod(pod: Json, end: float) -> list[Row]:
    """While it ran, and in its last state; a pod that was deleted has no rows after that."""
    meta, status = pod["metadata"], pod.get("status", {})
    created = (
        times.parse(meta.get("creationTimestamp"))
        or times.parse(status.get("startTime"))
        or end - 600
    )
    deleted = times.parse(meta.get("deletionTimestamp"))
    statuses = [*status.get("containerStatuses", []), *status.get("initContainerStatuses", [])]
    ended = [
        moment
        for item in statuses
        if (moment := times.parse(item.get("state", {}).get("terminated", {}).get("finishedAt")))
    ]
    rows = []
    if ended and created < min(ended):
        before = [
            {**item, "state": {"running": {"startedAt": status.get("startTime")}}}
            for item in statuses
        ]
        rows += _pod_rows(pod, "Running", before, min(created + 60, min(ended)) - 59)
    final = (
        max([*ended, created])
        if status.get("phase") in ("Succeeded", "Failed") or ended
        else created
    )
    phase = str(status.get("phase", ""))
    if status.get("reason") == "NodeLost":
        phase = "Unknown"
    if deleted:
        if final < deleted:
            rows += _pod_rows(pod, phase, statuses, final)
        return rows + _pod_rows(pod, "Terminating", statuses, deleted)
    return (
        rows
        + _pod_rows(pod, phase, statuses, final)
        + _pod_rows(pod, phase, statuses, max(end, final))
    )


def _pod_rows(pod: Json, phase: str, statuses: list[Json], moment: float) -> list[Row]:
    meta, spec, status = pod["metadata"], pod.get("spec", {}), pod.get("status", {})
    values = {
        "Name": meta.get("name"),
        "PodUid": meta.get("uid") or f"uid-{meta.get('name')}",
        "PodLabel": json.dumps([meta.get("labels")]),
        "Namespace": meta.get("namespace", "default"),
        "PodCreationTimeStamp": meta.get("creationTimestamp"),
        "PodStartTime": status.get("startTime") or "",
        "PodStatus": phase,
        "PodIp": status.get("podIP") or "",
        "Computer": spec.get("nodeName") or "",
        "ContainerName": "",
        "ContainerStatus": "",
        "ContainerStatusReason": "",
    }
    rows = []
    for item in statuses:
        state = next(iter(item.get("state", {})), "")
        inner = item.get("state", {}).get(state, {})
        name = f"{values['PodUid']}/{item.get('name')}"
        row = {
            **values,
            "ContainerName": name,
            "ContainerStatus": "Unknown" if phase == "Unknown" else state,
        }
        if state == "running":
            row["ContainerCreationTimeStamp"] = inner.get("startedAt")
        else:
            row["ContainerStatusReason"] = inner.get("reason") or ""
        rows.append(_row(moment, "KubePodInventory", **row))
    return rows or [_row(moment, "KubePodInventory", **values)]


def _is_bad(condition: Json) -> bool:
    """Before that it was good. What a condition that is good now was before is not known."""
    return (condition.get("type") == "Ready") is (condition.get("status") != "True")


def _lost_nodes(pods: list[Json], nodes: list[Json], end: float) -> list[Row]:
    """Nodes that are gone from the list had rows while their pods ran."""
    known = {node["metadata"]["name"] for node in nodes}
    rows = []
    for pod in pods:
        name = pod.get("spec", {}).get("nodeName")
        if not nodes or not name or name in known:
            continue
        spot = any(
            "scalesetpriority" in item.get("key", "") for item in pod["spec"].get("tolerations", [])
        )
        labels = {"kubernetes.azure.com/scalesetpriority": "spot"} if spot else {}
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": times.iso(end - 86400)}
        node = {"metadata": {"name": name, "labels": labels}, "status": {"conditions": [ready]}}
        rows += _of_node(node, times.parse(pod.get("status", {}).get("startTime")) or end - 7200)
    return rows


def _of_node(node: Json, end: float) -> list[Row]:
    """A row before each change of a condition, one after it, and the last."""
    meta, conditions = node["metadata"], node.get("status", {}).get("conditions", [])
    changes = sorted(
        {
            moment
            for item in conditions
            if (moment := times.parse(item.get("lastTransitionTime"))) and _is_bad(item)
        }
    )
    moments = sorted({*(moment - 60 for moment in changes), *changes, end - 120, end - 60, end})
    rows = []
    for moment in moments:
        status, ready_since = [], None
        for item in conditions:
            since = times.parse(item.get("lastTransitionTime"))
            state = item.get("status")
            if since is not None and moment < since and _is_bad(item):
                state = "False" if state == "True" else "True"
            if state == "True":
                status.append(item.get("type"))
            if item.get("type") == "Ready" and since is not None:
                ready_since = since if moment >= since else since - 86400
        rows.append(
            _row(
                moment,
                "KubeNodeInventory",
                Computer=meta.get("name"),
                CreationTimeStamp=meta.get("creationTimestamp"),
                Labels=json.dumps([meta.get("labels", {})]),
                Status=",".join(status),
                LastTransitionTimeReady=times.iso(ready_since),
                KubernetesProviderID="azure",
            )
        )
    return rows


def _of_event(event: Json) -> Row:
    involved = event.get("involvedObject") or event.get("regarding") or {}
    source = event.get("source") or {}
    stamp = (
        event.get("metadata", {}).get("creationTimestamp")
        or event.get("lastTimestamp")
        or event.get("eventTime")
    )
    row = _row(
        times.parse(stamp) or 0.0,
        "KubeEvents",
        ObjectKind=involved.get("kind"),
        Namespace=involved.get("namespace") or "",
        Name=involved.get("name"),
        Reason=event.get("reason"),
        Message=event.get("message") or event.get("note"),
        KubeEventType=event.get("type"),
        FirstSeen=event.get("firstTimestamp"),
        LastSeen=event.get("lastTimestamp"),
        Count=event.get("count"),
        SourceComponent=source.get("component", ""),
        Computer=source.get("host", ""),
    )
    return {**row, "TimeGenerated": stamp}


# --- the four shapes --------------------------------------------------------------------------------------------


def as_az(rows: list[Row]) -> str:
    """`az monitor log-analytics query -o json`: every value is text."""
    return json.dumps(
        [
            {"TableName": "PrimaryResult", **{key: str(value) for key, value in row.items()}}
            for row in rows
        ],
        indent=2,
    )


def as_rest(rows: list[Row]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = [{"name": name, "type": "string"} for name in names]
    table = {
        "name": "PrimaryResult",
        "columns": columns,
        "rows": [[row.get(name) for name in names] for row in rows],
    }
    return json.dumps({"tables": [table]})


def as_lines(rows: list[Row]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def as_csv(rows: list[Row]) -> str:
    """The portal's export: columns of times have their zone, and times are written as in the United States."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    stamps = {"TimeGenerated", "FirstSeen", "LastSeen", "LastTransitionTimeReady"}
    stamps |= {name for name in names if name.endswith(("TimeStamp", "StartTime"))}
    stream = io.StringIO()
    writer = csv.writer(stream, quoting=csv.QUOTE_ALL, lineterminator="\r\n")
    writer.writerow([f"{name} [UTC]" if name in stamps else name for name in names])
    for row in rows:
        writer.writerow([_us(row.get(name)) if name in stamps else row.get(name) for name in names])
    return "\ufeff" + stream.getvalue()


def _us(value: Any) -> str:
    moment = times.parse(value)
    if moment is None:
        return ""
    from datetime import UTC, datetime

    date = datetime.fromtimestamp(moment, UTC)
    half = "AM" if date.hour < 12 else "PM"
    return f"{date.month}/{date.day}/{date.year}, {date.hour % 12 or 12}:{date:%M:%S}.000 {half}"


SHAPES = {
    "az": (as_az, "json"),
    "rest": (as_rest, "json"),
    "lines": (as_lines, "json"),
    "csv": (as_csv, "csv"),
}
