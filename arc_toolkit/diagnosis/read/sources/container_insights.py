"""Container Insights: rows of KubePodInventory, KubeNodeInventory and KubeEvents as objects.

A Log Analytics workspace keeps them for a month or longer, a cluster keeps events for an hour. Four
shapes are read: what `az monitor log-analytics query -o json` prints, the response of the REST API,
CSV of the portal, and the JSON lines of a data export. The agent writes a row per container and per
node every minute: an object's history.

Columns: https://learn.microsoft.com/azure/azure-monitor/reference/tables/kubepodinventory (and the
other two tables). How the agent fills them: github.com/microsoft/Docker-Provider,
source/plugins/ruby/in_kube_podinventory.rb, in_kube_nodes.rb and in_kube_events.rb.
The tables have no conditions, messages and tolerations of pods, no exit codes, and no taints. By
default the agent collects no Normal events.
"""

from __future__ import annotations

import csv
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from arc_toolkit.diagnosis import times
from arc_toolkit.diagnosis.model import ClusterFacts
from arc_toolkit.diagnosis.read.history import EVENT_OF_CONDITION
from arc_toolkit.kube.raw import Json, mapping

Row = dict[str, str]

TIME = "TimeGenerated"
# Table -> the columns by which it is recognized, and the others that are used.
TABLES = {
    "KubePodInventory": (
        ("PodUid", "PodStatus"),
        "ClusterId Name Namespace PodLabel PodCreationTimeStamp PodStartTime Computer "
        "ContainerName ContainerStatus "
        "ContainerStatusReason ContainerCreationTimeStamp",
    ),
    "KubeNodeInventory": (
        ("Computer", "Status"),
        "ClusterId CreationTimeStamp Labels LastTransitionTimeReady",
    ),
    "KubeEvents": (
        ("ObjectKind", "Reason"),
        "ClusterId Namespace Name Message KubeEventType FirstSeen LastSeen Count Computer "
        "SourceComponent",
    ),
}
# A pod or node without rows for this long, while others have some, no longer exists: three
# intervals, and the agent collects every 1 to 30 minutes
# (learn.microsoft.com/azure/azure-monitor/containers/container-insights-cost-config).
GONE_INTERVALS = 3
GONE_SECONDS = (600.0, GONE_INTERVALS * 1800.0)  # at least and at most
# rows that are closer are of one collection; the agent collects every minute at most
SHORTEST_INTERVAL = 45.0
STARTUP_SECONDS = 600  # a new node is not ready yet
TERMINATING = "Terminating"  # the agent's word for a pod with a deletionTimestamp
# the table does not distinguish them; AzureML's are called so
INIT_CONTAINER = re.compile(r"(?:.*-)?init")

_COLUMN = re.compile(r"(\w+) \[(.+)\]")  # `TimeGenerated [UTC]`
_US_TIME = re.compile(r"(\d{1,2})/(\d{1,2})/(\d{4}),? (\d{1,2}):(\d\d):(\d\d)(?:\.\d+)? (AM|PM)")


@dataclass
class InsightsTables:
    """The rows of all files; a data export has a file for every five minutes."""

    rows: dict[str, list[tuple[float, Row]]] = field(
        default_factory=lambda: {name: [] for name in TABLES}
    )

    def add(self, data: bytes) -> bool:
        """Add the rows of a file; False if it is not an export, ValueError if it cannot be used."""
        if TIME.encode() not in data:
            return False
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError:
            return False
        rows = _json_rows(text) if text.lstrip()[:1] in ("{", "[") else _csv_rows(text)
        if rows is None:
            return False
        count = sum(map(self._add, rows))
        if not count:
            raise ValueError(f"no rows of {', '.join(TABLES)} with a {TIME}")
        return True

    def _add(self, row: Mapping[str, Any]) -> bool:
        table = next(
            (name for name, (keys, _) in TABLES.items() if all(key in row for key in keys)), None
        )
        if row.get("Type", table) != table:
            return False  # another table with such columns
        moment = _time(row.get(TIME))
        if table is None or moment is None:
            return False
        keys, more_columns = TABLES[table]
        self.rows[table].append(
            (moment, {name: _text(row.get(name)) for name in (*keys, *more_columns.split())})
        )
        return True

    def facts(self) -> ClusterFacts | None:
        """All rows as objects; None if there are none."""
        if not any(self.rows.values()):
            return None
        for rows in self.rows.values():
            rows.sort(key=lambda item: item[0])
        facts = ClusterFacts(
            summarized=True, read_at=max(rows[-1][0] for rows in self.rows.values() if rows)
        )
        facts.pods.extend(_pods(self.rows["KubePodInventory"]))
        for node, events in _nodes(self.rows["KubeNodeInventory"]):
            facts.nodes.append(node)
            facts.events.extend(events)
        facts.events.extend(_events(self.rows["KubeEvents"]))
        return facts


# --- rows -----------------------------------------------------------------------------------------


def is_export(head: bytes) -> bool:
    """Whether a file begins like an export: a list of objects, or CSV with its columns."""
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if start[:1] == b"[":
        return start[1:].lstrip()[:1] == b"{"
    header = start.split(b"\n")[0]
    return TIME.encode() in header and b"," in header and not start.startswith(b"{")


def _json_rows(text: str) -> Iterable[Mapping[str, Any]] | None:
    try:
        document = json.loads(text)
    except RecursionError:
        return None
    except ValueError:
        return _json_lines(text)
    if isinstance(document, dict) and isinstance(document.get("tables"), list):
        return [row for table in document["tables"] for row in _table_rows(mapping(table))]
    if isinstance(document, dict):
        document = document.get("records", [document] if TIME in document else None)
    return (
        [row for row in document if isinstance(row, dict)] if isinstance(document, list) else None
    )


def _json_lines(text: str) -> list[Json] | None:
    rows: list[Json] = []
    for line in text.splitlines():
        if line.strip():
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                return None
            rows += [row] if isinstance(row, dict) else []
    return rows


def _table_rows(table: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    columns, rows = table.get("columns"), table.get("rows")
    if isinstance(columns, list) and isinstance(rows, list):
        names = [str(mapping(column).get("name")) for column in columns]
        for row in rows:
            if isinstance(row, list):
                yield dict(zip(names, row, strict=False))


def _csv_rows(text: str) -> Iterable[Mapping[str, Any]] | None:
    reader = csv.reader(text.splitlines(keepends=True))
    try:
        header = next(reader, [])
        names = []
        for column in header:
            match = _COLUMN.fullmatch(column.strip())
            if match and match[2] != "UTC":
                raise ValueError(
                    f"times in {match[2]}: "
                    "set the time zone of the query to UTC and export it again"
                )
            names.append(match[1] if match else column.strip())
        if TIME not in names:
            return None
        rows = [dict(zip(names, row, strict=False)) for row in reader]
    except csv.Error as error:
        raise ValueError(f"broken CSV: {error}") from None
    if rows and not any(_time(row.get(TIME)) for row in rows):
        raise ValueError(
            "times that are neither ISO 8601 nor US English: save it with `az ... -o json`"
        )
    return rows


def _text(value: object) -> str:
    """`az` prints None for what is empty. Lists and objects may be JSON already."""
    if value is None or value == "None":
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def _time(value: object) -> float | None:
    """ISO 8601, or the portal's `7/1/2026, 10:00:00.000 AM`. The year 1 means no time."""
    moment = times.parse(value)
    if moment is None and isinstance(value, str) and (match := _US_TIME.fullmatch(value.strip())):
        month, day, year, hour, minute, second = map(int, match.groups()[:6])
        try:
            date = datetime(
                year,
                month,
                day,
                hour % 12 + (12 if match[7] == "PM" else 0),
                minute,
                second,
                tzinfo=UTC,
            )
        except ValueError:
            return None
        moment = date.timestamp()
    return moment if moment is not None and moment > 0 else None


def _stamp(value: object) -> str | None:
    return times.iso(_time(value))


def _labels(text: str) -> Mapping[str, Any]:
    """`[{"app": "x"}]`: the agent puts the labels into a list."""
    try:
        value = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return {}
    return mapping(value[0] if isinstance(value, list) and value else value)


# --- objects --------------------------------------------------------------------------------------


def _groups(
    rows: list[tuple[float, Row]], *keys: str
) -> Iterator[tuple[list[tuple[float, Row]], float | None]]:
    """The rows of each object, and when it was last seen if it no longer exists."""
    batches: dict[str, set[float]] = defaultdict(set)
    groups: dict[tuple[str, ...], list[tuple[float, Row]]] = defaultdict(list)
    for moment, row in rows:
        batches[row["ClusterId"]].add(moment)
        groups[tuple(row[key] for key in keys)].append((moment, row))
    limits = {}
    for cluster, moments in batches.items():
        # The documented queries omit most rows, so the shortest gap is the best guess.
        gaps = [
            gap
            for sooner, later in pairwise(sorted(moments))
            if (gap := later - sooner) >= SHORTEST_INTERVAL
        ]
        least, most = GONE_SECONDS
        limits[cluster] = max(moments) - min(
            most, max(least, GONE_INTERVALS * min(gaps, default=0.0))
        )
    for group in groups.values():
        moment, row = group[-1]
        yield group, moment if moment < limits[row["ClusterId"]] else None


def _pods(rows: list[tuple[float, Row]]) -> Iterator[Json]:
    for group, last_seen in _groups(rows, "PodUid"):
        row = group[-1][1]
        phases = [
            item["PodStatus"]
            for _, item in group
            if item["PodStatus"] not in (TERMINATING, "Unknown", "")
        ]
        phase = phases[-1] if phases else "Running" if row["Computer"] else "Pending"
        status: Json = {"phase": phase, "startTime": _stamp(row["PodStartTime"])}
        if row["PodStatus"] == "Unknown":  # the agent's word for a pod whose status says NodeLost
            status["reason"] = "NodeLost"
        containers = [_container(part, phase) for part in _split_by_container(group)]
        status["initContainerStatuses"] = [
            item for item in containers if INIT_CONTAINER.fullmatch(item["name"])
        ]
        status["containerStatuses"] = [
            item for item in containers if item not in status["initContainerStatuses"]
        ]
        deleted = next(
            (moment for moment, item in group if item["PodStatus"] == TERMINATING), last_seen
        )
        yield {
            "metadata": {
                "name": row["Name"],
                "namespace": row["Namespace"],
                "uid": row["PodUid"],
                "labels": _labels(row["PodLabel"]),
                "creationTimestamp": _stamp(row["PodCreationTimeStamp"]),
                "deletionTimestamp": times.iso(deleted),
            },
            "spec": {"nodeName": row["Computer"] or None},
            "status": status,
        }


def _split_by_container(group: list[tuple[float, Row]]) -> Iterable[list[tuple[float, Row]]]:
    parts: dict[str, list[tuple[float, Row]]] = defaultdict(list)
    for moment, row in group:
        if row["ContainerName"]:
            parts[row["ContainerName"]].append((moment, row))
    return parts.values()


def _container(rows: list[tuple[float, Row]], phase: str) -> Json:
    """Its state in the newest row. It ended at most an interval before the first such row."""
    row = rows[-1][1]
    state, reason = row["ContainerStatus"].lower(), row["ContainerStatusReason"]
    ended = next(moment for moment, item in rows if item["ContainerStatus"].lower() == state)
    inner: Json = {"reason": reason} if reason else {}
    if state == "running":
        inner["startedAt"] = _stamp(row["ContainerCreationTimeStamp"])
    elif state == "terminated":
        inner["finishedAt"] = times.iso(ended)
        # The exit code is not in the table, but these two reasons imply it.
        if reason == "Completed" or (reason == "OOMKilled" and phase == "Succeeded"):
            inner["exitCode"] = 0
        elif reason == "OOMKilled":
            inner["exitCode"] = 137
    name = row["ContainerName"].rpartition("/")[2]  # <pod uid>/<name>
    return {
        "name": name,
        "state": {state: inner} if state in ("running", "waiting", "terminated") else {},
    }


def _nodes(rows: list[tuple[float, Row]]) -> Iterator[tuple[Json, list[Json]]]:
    """Each node as it was last seen, and the changes of its conditions as events."""
    for group, last_seen in _groups(rows, "ClusterId", "Computer", "CreationTimeStamp"):
        row = group[-1][1]
        since: dict[str, float] = {}  # of the conditions that are true now
        events: list[Json] = []
        turn = _time(group[0][1]["LastTransitionTimeReady"])
        started = (_time(row["CreationTimeStamp"]) or 0.0) + STARTUP_SECONDS
        for index, (moment, item) in enumerate(group):
            now = set(filter(None, (word.strip() for word in item["Status"].split(","))))
            new_turn = _time(item["LastTransitionTimeReady"]) or turn
            if index and "Ready" in now and "Ready" in since and new_turn != turn:
                # not ready between two rows
                events.append(_event_of(item, "Ready", new_turn or moment))
            elif "Ready" not in now and (not index or "Ready" in since) and moment > started:
                events.append(_event_of(item, "Ready", new_turn or moment))
            elif index and "Ready" in now and "Ready" not in since:
                events.append(_event_of(item, "NodeReady", new_turn or moment))
            events += [_event_of(item, word, moment) for word in now - set(since) - {"Ready"}]
            since = {word: since.get(word, moment) for word in now}
            turn = new_turn
        conditions = [
            {"type": word, "status": "True", "lastTransitionTime": times.iso(moment)}
            for word, moment in since.items()
            if word != "Ready"
        ]
        ready = {
            "type": "Ready",
            "status": str("Ready" in since),
            "lastTransitionTime": times.iso(turn),
        }
        node = {
            "metadata": {
                "name": row["Computer"],
                "uid": f"{row['ClusterId']}/{row['Computer']}/{row['CreationTimeStamp']}",
                "labels": _labels(row["Labels"]),
                "creationTimestamp": _stamp(row["CreationTimeStamp"]),
                "deletionTimestamp": times.iso(last_seen),
            },
            "status": {"conditions": [*conditions, ready]},
        }
        yield node, events


def _event_of(row: Row, condition: str, moment: float) -> Json:
    return {
        "involvedObject": {"kind": "Node", "name": row["Computer"]},
        "reason": EVENT_OF_CONDITION.get(condition, condition),
        "lastTimestamp": times.iso(moment),
        "source": {"component": "KubeNodeInventory"},
    }


def _events(rows: list[tuple[float, Row]]) -> Iterator[Json]:
    """One event for each time at which it was seen; each rise of its count is a row."""
    emitted = set()
    for moment, row in rows:
        first, last = _stamp(row["FirstSeen"]), _stamp(row["LastSeen"]) or times.iso(moment)
        key = (
            row["ClusterId"],
            row["ObjectKind"],
            row["Namespace"],
            row["Name"],
            row["Reason"],
            row["Message"],
        )
        if (key, last) in emitted:
            continue
        yield {
            "type": row["KubeEventType"],
            "reason": row["Reason"],
            "message": row["Message"],
            "firstTimestamp": None if (key, first) in emitted else first,
            "lastTimestamp": last,
            "involvedObject": {
                "kind": row["ObjectKind"],
                "namespace": row["Namespace"],
                "name": row["Name"],
            },
            "source": {"component": row["SourceComponent"], "host": row["Computer"]},
        }
        emitted.update({(key, first), (key, last)})
