"""The history file: what it keeps and what it survives. What is never kept is in test_trim.py."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from arc_toolkit.diagnosis.model import RecordingGap
from arc_toolkit.diagnosis.read import history, trim
from arc_toolkit.diagnosis.read.history import APPLICATION_ID, History, RecordedChange
from arc_toolkit.errors import ArcError

SERVER = "https://127.0.0.1:6443"
DAY = 86400.0


def pod(uid: str = "p1", version: int = 1, **status: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": f"pod-{uid}",
            "namespace": "azureml",
            "uid": uid,
            "resourceVersion": str(version),
            "labels": {"ml.azure.com/run-id": "brave_sky"},
        },
        "spec": {"nodeName": "aks-1"},
        "status": {"phase": "Running", **status},
    }


def node(version: int, *conditions: tuple[str, str, str]) -> dict[str, Any]:
    listed = [
        {"type": kind, "status": status, "reason": f"{kind}Reason", "lastTransitionTime": since}
        for kind, status, since in conditions
    ]
    metadata = {"name": "aks-1", "uid": "n1", "resourceVersion": str(version)}
    return {"metadata": metadata, "spec": {}, "status": {"conditions": listed}}


def event(uid: str = "e1", version: int = 1, reason: str = "SystemOOM") -> dict[str, Any]:
    about = {"kind": "Node", "name": "aks-1"}
    metadata = {"name": uid, "uid": uid, "resourceVersion": str(version)}
    return {"metadata": metadata, "involvedObject": about, "reason": reason}


def put(
    store: History, *items: dict[str, Any], deleted: bool = False, now: float | None = None
) -> int:
    kinds = {"p": "Pod", "n": "Node", "e": "Event"}
    streams = {"p": "pods", "n": "nodes", "e": "events"}
    changes = []
    for item in items:
        letter = item["metadata"]["uid"][0]
        version = item["metadata"]["resourceVersion"]
        changes.append(
            RecordedChange(streams[letter], kinds[letter], item, deleted=deleted, version=version)
        )
    return store.write(changes, now)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "history.db")


def test_newest_state_of_each_object_is_read_back(path: str) -> None:
    with History(path, SERVER) as store:
        assert put(store, pod("p1", 1), pod("p2", 2), event("e1", 3), node(4)) == 4
        assert put(store, pod("p1", 5, reason="Evicted")) == 1
    facts = history.read(path)
    assert [item["status"].get("reason") for item in facts.pods] == ["Evicted", None]
    assert (len(facts.nodes), len(facts.events), facts.nodes_complete) == (1, 1, False)


def test_same_or_older_state_is_written_once(path: str) -> None:
    with History(path, SERVER) as store:
        assert put(store, pod("p1", 5, reason="Evicted")) == 1
        assert put(store, pod("p1", 5, reason="Evicted")) == 0
        assert put(store, pod("p1", 6, reason="Evicted")) == 0  # another version that says the same
        assert put(store, pod("p1", 2)) == 0  # a list that was read before
    assert history.read(path).pods[0]["status"]["reason"] == "Evicted"


def test_deleted_pod_stays_with_its_last_state_and_the_time_it_went(path: str) -> None:
    with History(path, SERVER) as store:
        put(store, pod("p1", 1))
        put(store, pod("p1", 2, reason="Evicted"), deleted=True, now=1_800_000_000)
        put(store, pod("p1", 2))  # heard again, late
    [kept] = history.read(path).pods
    assert (kept["status"]["reason"], kept["metadata"]["deletionTimestamp"]) == (
        "Evicted",
        "2027-01-15T08:00:00Z",
    )


def test_event_that_expires_in_the_cluster_stays(path: str) -> None:
    with History(path, SERVER) as store:
        put(store, event("e1", 1))
        put(store, event("e1", 2), deleted=True)
    assert [item["reason"] for item in history.read(path).events] == ["SystemOOM"]


def test_pods_that_a_new_list_does_not_have_are_gone(path: str) -> None:
    with History(path, SERVER) as store:
        put(store, pod("p1", 1), pod("p2", 2), event("e1", 3))
        store.write(
            [RecordedChange("pods", "Pod", listed=frozenset({"p2"}), version="9")],
            now=1_800_000_000,
        )
        assert store.resource_version("pods") == "9"
    gone = {
        item["metadata"]["uid"]: "deletionTimestamp" in item["metadata"]
        for item in history.read(path).pods
    }
    assert gone == {"p1": True, "p2": False}
    assert len(history.read(path).events) == 1


def test_condition_that_was_bad_for_a_while_is_remembered_as_its_event(path: str) -> None:
    good, later = "2026-07-01T10:00:00Z", "2026-07-01T11:00:00Z"
    with History(path, SERVER) as store:
        put(store, node(1, ("Ready", "True", good), ("MemoryPressure", "False", good)))
        put(store, node(2, ("Ready", "Unknown", later), ("MemoryPressure", "True", later)))
        put(
            store,
            node(3, ("Ready", "True", "2026-07-01T12:00:00Z"), ("MemoryPressure", "False", good)),
        )
    facts = history.read(path)
    assert {(item["reason"], item["lastTimestamp"]) for item in facts.events} == {
        ("NodeNotReady", later),
        ("NodeHasInsufficientMemory", later),
    }
    assert facts.nodes[0]["status"]["conditions"][0]["status"] == "True"


def test_node_that_is_not_ready_yet_when_it_is_first_seen_has_no_past_fault(path: str) -> None:
    with History(path, SERVER) as store:
        put(store, node(1, ("Ready", "False", "2026-07-01T10:00:00Z")))
        put(store, node(2, ("Ready", "True", "2026-07-01T10:01:00Z")))
    assert not history.read(path).events


def test_retention_forgets_old_events_and_gone_pods_but_nothing_that_exists(path: str) -> None:
    now = 1_800_000_000.0
    with History(path, SERVER) as store:
        put(store, pod("p1", 1), node(2), event("e1", 3), now=now - 40 * DAY)
        put(store, pod("p2", 4), deleted=True, now=now - 31 * DAY)
        put(store, pod("p3", 5), deleted=True, now=now - DAY)
        assert store.expire(30, now) == 2
    facts = history.read(path)
    assert {item["metadata"]["uid"] for item in facts.pods} == {"p1", "p3"}
    assert (len(facts.nodes), len(facts.events)) == (1, 0)


def test_second_writer_is_refused_in_one_sentence_and_may_write_later(path: str) -> None:
    with History(path, SERVER) as first:
        put(first, pod())
        with pytest.raises(ArcError, match="another process is recording"):
            History(path, SERVER)
        assert history.read(path).pods  # readers are not refused
    with History(path, SERVER) as second:
        assert second.resource_version("pods") == "1"


def test_history_of_another_cluster_is_refused(path: str) -> None:
    with History(path, SERVER):
        pass
    with pytest.raises(ArcError, match=r"is the history of https://127\.0\.0\.1:6443"):
        History(path, "https://elsewhere")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"plain text, longer than a page header" * 20, "not a usable history"),
        (b"SQLite format 3\x00" + b"\x00" * 200, "not a"),
    ],
)
def test_file_that_is_not_a_history_is_refused_and_not_changed(
    path: str, content: bytes, says: str
) -> None:
    Path(path).write_bytes(content)
    for use in (history.read, lambda name: History(name, SERVER)):
        with pytest.raises(ArcError, match=says):
            use(path)
    assert Path(path).read_bytes() == content


def test_database_of_another_program_is_refused_and_not_changed(path: str) -> None:
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE theirs (x)")
    before = Path(path).read_bytes()
    for use in (history.read, lambda name: History(name, SERVER)):
        with pytest.raises(ArcError, match="not a history of diagnose"):
            use(path)
    assert Path(path).read_bytes() == before


def test_history_of_a_later_version_is_refused(path: str) -> None:
    with History(path, SERVER):
        pass
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 99")
    with pytest.raises(ArcError, match="version 99"):
        history.read(path)


def test_history_that_does_not_exist_tells_how_to_record_one(path: str) -> None:
    with pytest.raises(ArcError, match="--watch --history"):
        history.read(path)
    assert not os.path.exists(path)


def test_folder_that_does_not_exist_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ArcError, match="cannot write"):
        History(str(tmp_path / "no" / "history.db"), SERVER)


WRITER = """
import sys
from tests.diagnosis.test_history import History, SERVER, pod, put
with History(sys.argv[1], SERVER) as store:
    number = 0
    while True:
        number += 1
        put(store, pod(f"p{number}", number), pod(f"p{number}b", number))
        print(number, flush=True)
"""


def test_kill_9_in_the_middle_of_writing_loses_nothing_that_was_written(path: str) -> None:
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE, text=True, cwd=root
    ) as process:
        assert process.stdout
        while int(process.stdout.readline()) < 50:
            pass
        process.send_signal(signal.SIGKILL)
        last = max([50, *[int(line) for line in process.stdout.read().split()]])
        process.wait()
    with History(path, SERVER) as store:  # the lock went with the process
        version = int(store.resource_version("pods") or 0)
    assert version >= last
    uids = {item["metadata"]["uid"] for item in history.read(path).pods}
    # Each transaction is there whole, with the version that belongs to it, or not at all.
    assert uids == {
        f"p{number}{letter}" for number in range(1, version + 1) for letter in ("", "b")
    }


def test_reading_while_recording_sees_whole_transactions(path: str) -> None:
    with History(path, SERVER) as store:
        for number in range(1, 30):
            put(store, pod(f"p{number}", number), pod(f"p{number}b", number))
            assert len(history.read(path).pods) == 2 * number


def test_recording_does_not_depend_on_the_clock(path: str) -> None:
    before = time.time()
    with History(path, SERVER) as store:
        put(store, pod("p1", 1), now=before + 3600)
        assert put(store, pod("p1", 2, reason="Evicted"), now=before) == 1
    assert history.read(path).pods[0]["status"]["reason"] == "Evicted"


@pytest.mark.parametrize("mode", [0o644, 0o666, 0o640])
def test_only_the_owner_can_read_what_is_recorded(path: str, mode: int) -> None:
    before = os.umask(0)
    try:
        with History(path, SERVER) as store:
            put(store, pod())
            assert not store.tightened
            assert modes(path) == {0o600}
        os.chmod(path, mode)
        os.chmod(f"{path}.lock", mode)
        with History(path, SERVER) as store:
            put(store, pod("p2", 2))
            assert store.tightened
            assert modes(path) == {0o600}
    finally:
        os.umask(before)


def modes(path: str) -> set[int]:
    """Of all files beside each other: the history, its WAL and its lock."""
    files = list(Path(path).parent.iterdir())
    assert len(files) == 4
    return {file.stat().st_mode & 0o777 for file in files}


def test_mode_of_a_file_that_is_not_a_history_is_not_changed(path: str) -> None:
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE theirs (x)")
    os.chmod(path, 0o644)
    with pytest.raises(ArcError):
        History(path, SERVER)
    assert os.stat(path).st_mode & 0o777 == 0o644


def test_events_of_pods_that_are_not_of_azureml_are_forgotten_unless_they_warn(path: str) -> None:
    def about(uid: str, name: str, kind: str) -> dict[str, Any]:
        raw = {
            **event(uid),
            "type": kind,
            "involvedObject": {"kind": "Pod", "name": name, "uid": name},
        }
        return trim.event(raw)

    with History(path, SERVER) as store:
        put(store, pod("p1", 1), now=1000)
        items = [
            about("e1", "p1", "Normal"),
            about("e2", "other", "Normal"),
            about("e3", "other", "Warning"),
        ]
        put(store, *items, event("e4"), now=1000)
        assert store.expire(30, now=1100) == 0  # its pod may be seen later than the event
        assert store.expire(30, now=2000) == 1
    assert {item["metadata"]["uid"] for item in history.read(path).events} == {"e1", "e3", "e4"}


def test_gaps_of_all_streams_are_merged_and_the_ends_of_the_recording_are_known(path: str) -> None:
    with History(path, SERVER) as store:
        for stream, kind in (("pods", "Pod"), ("nodes", "Node")):
            store.write([RecordedChange(stream, kind, listed=frozenset(), version="1")], now=1000)
        store.write([RecordedChange("pods", "Pod", version="2")], now=2000)
        store.write([RecordedChange("nodes", "Node", version="2", resumed=True)], now=1600)
        store.write([RecordedChange("pods", "Pod", listed=frozenset(), version="3")], now=5000)
        store.write([RecordedChange("nodes", "Node", listed=frozenset(), version="3")], now=5500)
    assert history.read(path, now=5600).gaps == [
        RecordingGap(None, 1000),
        RecordingGap(1600, 5500),
        RecordingGap(1000, 1600, complete=True),
    ]
    late = history.read(path, now=9000)
    assert late.gaps[-1] == RecordingGap(5500, None)
    assert late.read_at == 5500


VERSION_1 = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE objects (kind TEXT NOT NULL, uid TEXT NOT NULL, seen REAL NOT NULL, gone REAL, body TEXT NOT NULL,
  PRIMARY KEY (kind, uid)) WITHOUT ROWID;
CREATE TABLE conditions (node TEXT NOT NULL, uid TEXT NOT NULL, type TEXT NOT NULL, since TEXT NOT NULL,
  status TEXT NOT NULL, reason TEXT NOT NULL, message TEXT NOT NULL, seen REAL NOT NULL,
  PRIMARY KEY (uid, type, since)) WITHOUT ROWID;
"""


def test_history_of_version_1_is_read_and_upgraded_without_its_secrets(path: str) -> None:
    kept = {**event("e1"), "message": "login failed with swordfish", "type": "Warning"}
    database = sqlite3.connect(path)
    database.execute("PRAGMA journal_mode = WAL")
    database.executescript(
        f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = 1; {VERSION_1}"
    )
    with database:
        database.execute("INSERT INTO meta VALUES ('server', ?)", (SERVER,))
        database.execute("INSERT INTO meta VALUES ('version pods', '7')")
        for kind, item in (
            ("Event", kept),
            ("Pod", pod("p1", 1)),
            ("Node", node(1, ("Ready", "True", ""))),
        ):
            row = (kind, item["metadata"]["uid"], 1000.0, None, json.dumps(item))
            database.execute("INSERT INTO objects VALUES (?, ?, ?, ?, ?)", row)
        past = (
            "aks-1",
            "n1",
            "Ready",
            "2026-07-01T10:00:00Z",
            "False",
            "NotReady",
            "swordfish again",
            1000.0,
        )
        database.execute("INSERT INTO conditions VALUES (?, ?, ?, ?, ?, ?, ?, ?)", past)
    database.close()
    assert len(history.read(path).events) == 2
    with History(path, SERVER) as store:
        assert store.resource_version("pods") == "7"
        everything = b"".join(file.read_bytes() for file in Path(path).parent.iterdir())
    assert b"swordfish" not in everything
    facts = history.read(path)
    assert (len(facts.pods), len(facts.nodes)) == (1, 1)
    assert facts.events[0]["message"] == "***"
    assert facts.gaps[0] == RecordingGap(None, 1000.0)
