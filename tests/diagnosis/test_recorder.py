"""How the recorder follows a stream: list, watch, 410, API server down. test_recorder_cluster.py uses a real one."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from arc_toolkit.cli.diagnose import recovery
from arc_toolkit.cluster.failures import (
    ApiError,
    Forbidden,
    Gone,
    NotFound,
    Unreachable,
    response_error,
)
from arc_toolkit.diagnosis.read import history
from arc_toolkit.diagnosis.read.history import History
from arc_toolkit.diagnosis.read.recorder import Recorder, read_cluster
from arc_toolkit.errors import ArcError

SERVER = "https://127.0.0.1:6443"


def pod(name: str, version: int) -> dict[str, Any]:
    labels = {"ml.azure.com/run-id": name}
    metadata = {
        "name": name,
        "namespace": "azureml",
        "uid": name,
        "resourceVersion": str(version),
        "labels": labels,
    }
    return {"metadata": metadata, "spec": {}, "status": {"phase": "Running"}}


class Listing:
    def __init__(self, items: list[dict[str, Any]], version: str) -> None:
        self._items, self.resource_version = items, version

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._items)


class Script:
    """A client that plays the pods' stream: each list and watch is the next of the script, the last one waits.

    `refused` is what lists of Volcano's objects raise.
    """

    server, name, title = SERVER, "script", "the cluster script"

    def __init__(self, *acts: Any, refused: Exception | None = None) -> None:
        self._acts, self._refused = list(acts), refused
        self.asked: list[str] = []
        self.over = threading.Event()

    def list(self, path: str, params: dict[str, str]) -> Listing:
        if self._refused and "volcano" in path:
            raise self._refused
        if path != "/api/v1/pods":
            return Listing([], "1")
        self.asked.append("list")
        act = self._next()
        return act if isinstance(act, Listing) else Listing([], "1")

    def watch(
        self, path: str, resource_version: str, params: dict[str, str], *, bookmarks: bool
    ) -> Iterator[dict[str, Any]]:
        if path == "/api/v1/pods":
            self.asked.append(f"watch {resource_version}")
            for event in self._next() or ():
                if isinstance(event, Exception):
                    raise event
                yield event
            if not self._acts:
                self.over.set()
        threading.Event().wait()

    def _next(self) -> Any:
        if not self._acts:
            self.over.set()
            return None
        act = self._acts.pop(0)
        if isinstance(act, Exception):
            raise act
        return act


def record(path: Path, client: Script, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Run the recorder until the script is over; then Ctrl-C. The notes that it gave."""
    notes: list[str] = []
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    monkeypatch.setattr("arc_toolkit.diagnosis.read.recorder.BATCH_SECONDS", 0.05)
    with History(str(path), SERVER) as store:
        recorder = Recorder(client, store, 30, recovery, notes.append, lambda text: None)
        collect = recorder._collect

        def collect_until_over() -> None:
            over = client.over.is_set()
            collect()
            if over:
                raise KeyboardInterrupt

        monkeypatch.setattr(recorder, "_collect", collect_until_over)
        recorder.run()
    return notes


def names(path: Path) -> dict[str, bool]:
    """Recorded pods, and whether they are gone."""
    return {
        item["metadata"]["name"]: "deletionTimestamp" in item["metadata"]
        for item in history.read(str(path)).pods
    }


def event(kind: str, item: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "object": item}


def test_after_410_the_stream_is_listed_again_and_what_is_missing_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = Gone("too old", 410, {})
    client = Script(
        Listing([pod("a", 1), pod("b", 2)], "5"),
        [event("ADDED", pod("c", 6)), gone],
        Listing([pod("b", 2), pod("d", 8)], "9"),
    )
    record(tmp_path / "h.db", client, monkeypatch)
    assert client.asked == ["list", "watch 5", "list", "watch 9"]
    assert names(tmp_path / "h.db") == {"a": True, "b": False, "c": True, "d": False}


def test_recorder_continues_from_the_version_it_stopped_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(
        tmp_path / "h.db",
        Script(Listing([pod("a", 1)], "5"), [event("MODIFIED", pod("a", 7))]),
        monkeypatch,
    )
    again = Script([event("DELETED", pod("a", 9))])
    record(tmp_path / "h.db", again, monkeypatch)
    assert again.asked[0] == "watch 7"
    assert names(tmp_path / "h.db") == {"a": True}


def test_recorder_lists_again_if_the_version_it_stopped_at_has_expired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(
        tmp_path / "h.db",
        Script(Listing([pod("a", 1)], "5"), [event("MODIFIED", pod("a", 7))]),
        monkeypatch,
    )
    again = Script([Gone("too old", 410, {})], Listing([pod("b", 9)], "9"))
    record(tmp_path / "h.db", again, monkeypatch)
    assert again.asked == ["watch 7", "list", "watch 9"]
    assert names(tmp_path / "h.db") == {"a": True, "b": False}


def test_unreachable_api_server_is_retried_and_the_stream_continues_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starting = ApiError("the server is starting", 503, {})
    client = Script(
        Listing([pod("a", 1)], "5"),
        [event("MODIFIED", pod("a", 6)), Unreachable("away")],
        [starting],
        [Forbidden("not yet", 403, {})],
        [event("DELETED", pod("a", 8))],
    )
    notes = record(tmp_path / "h.db", client, monkeypatch)
    assert notes == [
        "away; trying again",
        "the server is starting; trying again",
        "not yet; trying again",
    ]
    assert client.asked[:5] == ["list", "watch 5", "watch 6", "watch 6", "watch 6"]
    assert names(tmp_path / "h.db") == {"a": True}


def test_cluster_that_was_restored_from_a_backup_is_listed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As the API server answers (storage.NewTooLargeResourceVersionError); the wording is not what counts.
    body = {
        "message": "Timeout",
        "details": {"causes": [{"reason": "ResourceVersionTooLarge", "message": "x"}]},
    }
    ahead = response_error(504, body, method="WATCH", path="/api/v1/pods", server="the cluster")
    client = Script(
        Listing([], "99"), [event("ADDED", pod("a", 100)), ahead], Listing([pod("a", 3)], "3")
    )
    record(tmp_path / "h.db", client, monkeypatch)
    assert client.asked[-2:] == ["list", "watch 3"]


@pytest.mark.parametrize("error", [Unreachable("away"), Forbidden("may not list pods", 403, {})])
def test_an_error_of_the_first_request_ends_the_recorder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: ArcError
) -> None:
    with pytest.raises(ArcError, match=str(error)):
        record(tmp_path / "h.db", Script(error), monkeypatch)


def test_list_that_breaks_off_is_read_again_from_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Breaking(Listing):
        def __iter__(self) -> Iterator[dict[str, Any]]:
            yield pod("a", 1)
            raise Unreachable("away")

    client = Script(Breaking([], "5"), Listing([pod("a", 1), pod("b", 2)], "6"))
    record(tmp_path / "h.db", client, monkeypatch)
    assert client.asked == ["list", "list", "watch 6"]
    assert set(names(tmp_path / "h.db")) == {"a", "b"}


def test_stream_that_breaks_by_a_fault_does_not_end_unnoticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Script(
        Listing([pod("a", 1)], "5"), [event("ADDED", pod("b", 6)), ZeroDivisionError("a fault")]
    )
    with pytest.raises(ZeroDivisionError):
        record(tmp_path / "h.db", client, monkeypatch)
    assert set(names(tmp_path / "h.db")) == {"a", "b"}  # what was seen before is kept


def gaps(path: Path) -> list[bool]:
    """Of the gaps between the start and the end of the recording: whether nothing is missing."""
    return [gap.complete for gap in history.read(str(path)).gaps if gap.start and gap.end]


def earlier(path: Path, seconds: float) -> None:
    """As if all of it had been recorded that long ago."""
    with sqlite3.connect(path) as database:
        database.execute(
            "UPDATE meta SET value = value - ? WHERE key LIKE 'until %' OR key = 'since'",
            (seconds,),
        )


def test_time_that_the_cluster_no_longer_knows_is_a_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(tmp_path / "h.db", Script(Listing([pod("a", 1)], "5")), monkeypatch)
    assert gaps(tmp_path / "h.db") == []
    earlier(tmp_path / "h.db", 7200)
    record(
        tmp_path / "h.db",
        Script([Gone("too old", 410, {})], Listing([pod("b", 9)], "9")),
        monkeypatch,
    )
    [gap] = [gap for gap in history.read(str(tmp_path / "h.db")).gaps if gap.start and gap.end]
    assert not gap.complete
    assert gap.start is not None
    assert gap.end is not None
    assert gap.end - gap.start == pytest.approx(7200, abs=60)


def test_time_without_a_recorder_that_is_read_afterwards_is_a_complete_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(tmp_path / "h.db", Script(Listing([pod("a", 1)], "5")), monkeypatch)
    earlier(tmp_path / "h.db", 60)
    record(
        tmp_path / "h.db",
        Script([event("MODIFIED", pod("a", 7)), event("MODIFIED", pod("a", 8))]),
        monkeypatch,
    )
    assert gaps(tmp_path / "h.db") == [True]


def test_bookmark_moves_the_version_and_the_time_until_which_nothing_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "42"}}}
    record(tmp_path / "h.db", Script(Listing([pod("a", 1)], "5")), monkeypatch)
    earlier(tmp_path / "h.db", 60)
    record(tmp_path / "h.db", Script([bookmark]), monkeypatch)
    assert gaps(tmp_path / "h.db") == [True]
    again = Script()
    record(tmp_path / "h.db", again, monkeypatch)
    assert again.asked == ["watch 42"]
    assert names(tmp_path / "h.db") == {"a": False}


@pytest.mark.parametrize(
    ("refused", "says"),
    [
        (NotFound("no podgroups", 404, {}), []),
        (Forbidden("may not list podgroups", 403, {}), ["may not list"] * 2),
    ],
)
def test_cluster_without_volcano_or_without_the_right_to_read_it_is_recorded_and_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Exception, says: list[str]
) -> None:
    notes = record(
        tmp_path / "h.db", Script(Listing([pod("a", 1)], "5"), refused=refused), monkeypatch
    )
    assert [note[:12] for note in notes] == says  # once for each kind
    assert names(tmp_path / "h.db") == {"a": False}
    live: list[str] = []
    facts = read_cluster(
        Script(Listing([pod("a", 1)], "5"), refused=refused), recovery, live.append
    )
    assert (len(facts.pods), facts.pod_groups, [note[:12] for note in live]) == (1, [], says)


def test_other_refusals_are_not_taken_for_a_cluster_without_volcano() -> None:
    with pytest.raises(Unreachable):
        read_cluster(
            Script(Listing([], "5"), refused=Unreachable("away")), recovery, lambda text: None
        )
    with pytest.raises(Forbidden):
        read_cluster(Script(Forbidden("may not list pods", 403, {})), recovery, lambda text: None)
