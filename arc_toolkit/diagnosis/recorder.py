"""A live cluster: reading it once, and recording what happens in it.

Four streams (pods of AzureML jobs, nodes, events of nodes, events of pods) are each listed and then watched by a
thread of their own; the main thread alone writes what they see. A stream goes on where it stopped, also over an
apiserver that is away, and lists again where the cluster no longer has what was in between (410).
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from arc_toolkit.diagnosis import signals, trim
from arc_toolkit.diagnosis.history import History, RecordedChange
from arc_toolkit.diagnosis.model import ClusterFacts
from arc_toolkit.errors import OK

if TYPE_CHECKING:
    import argparse

    from arc_toolkit.cluster.client import Client
    from arc_toolkit.console import Console

Json = dict[str, Any]

BATCH_SECONDS = 0.5  # what is seen within this time is one transaction
EXPIRE_EVERY_SECONDS = 3600
LONGEST_PAUSE_SECONDS = 30.0
_QUEUED = 10_000  # changes that wait to be written; more, and the streams wait


@dataclass(frozen=True)
class ApiStream:
    """One collection of the API, and what is kept of its objects."""

    name: str
    kind: str
    path: str
    params: dict[str, str]
    trim: Callable[[Json], Json]
    wanted: Callable[[Json], bool] = lambda item: True


STREAMS = (
    # The run id ties a pod to its job; pods without it are not of AzureML jobs.
    ApiStream("pods", "Pod", "/api/v1/pods", {"labelSelector": signals.RUN_ID_LABEL}, trim.pod),
    ApiStream("nodes", "Node", "/api/v1/nodes", {}, trim.node),
    # core/v1, because events.k8s.io rejects these selectors.
    ApiStream(
        "node events", "Event", "/api/v1/events", {"fieldSelector": "involvedObject.kind=Node"}, trim.event
    ),
    ApiStream(
        "pod events", "Event", "/api/v1/events", {"fieldSelector": "involvedObject.kind=Pod"}, trim.event,
        trim.wanted_event,
    ),
)  # fmt: skip


def read_cluster(args: argparse.Namespace) -> ClusterFacts:
    """What the cluster says now."""
    client = _connect(args)
    found: dict[str, list[Json]] = {"Pod": [], "Node": [], "Event": []}
    for stream in STREAMS:
        items = client.list(stream.path, stream.params)
        found[stream.kind] += [stream.trim(item) for item in items if stream.wanted(item)]
    return ClusterFacts(
        found["Pod"], found["Node"], found["Event"], nodes_complete=True, origin=f"cluster {client.name}"
    )


def watch(args: argparse.Namespace, console: Console) -> int:
    """Record until interrupted."""
    client = _connect(args)
    with History(args.history, client.server) as history:
        console.note(f"recording {client.where} into {args.history}; Ctrl-C ends it")
        recorder = Recorder(client, history, args.retention, console)
        with _interruptible():
            recorder.run()
        console.note(f"stopped; {recorder.written} changes recorded into {args.history}")
    return OK


def _connect(args: argparse.Namespace) -> Client:
    from arc_toolkit.cluster.client import connect

    return connect(args.kubeconfig, args.context, args.as_user)


class Recorder:
    """Streams in, transactions out."""

    def __init__(self, client: Client, history: History, retention_days: float, console: Console) -> None:
        self._client, self._history, self._console = client, history, console
        self._retention_days = retention_days
        self._changes: queue.Queue[RecordedChange | Exception | str] = queue.Queue(_QUEUED)
        self._pending: list[RecordedChange] = []
        self.written = 0

    def run(self) -> None:
        """Until KeyboardInterrupt, or an error that no waiting mends."""
        versions = {stream.name: self._history.resource_version(stream.name) for stream in STREAMS}
        for stream in STREAMS:
            threading.Thread(target=self._follow, args=(stream, versions[stream.name]), daemon=True).start()
        expired = float("-inf")
        try:
            while True:
                if time.monotonic() - expired > EXPIRE_EVERY_SECONDS:
                    self._history.expire(self._retention_days)
                    expired = time.monotonic()
                self._collect()
                self._write()
        except KeyboardInterrupt:
            self._write()

    def _collect(self) -> None:
        """What comes within a moment."""
        end = time.monotonic() + BATCH_SECONDS
        while len(self._pending) < _QUEUED:
            try:
                found = self._changes.get(timeout=max(0.01, end - time.monotonic()))
            except queue.Empty:
                return
            if isinstance(found, Exception):
                self._write()
                raise found
            if isinstance(found, str):
                self._console.note(found)
            else:
                self._pending.append(found)

    def _write(self) -> None:
        if self._pending:
            self.written += self._history.write(self._pending)
            self._pending = []
            self._console.detail(f"{self.written} changes recorded")

    def _follow(self, stream: ApiStream, version: str | None) -> None:
        """One stream for ever. What a first try is refused is an error; later it may be an apiserver that starts."""
        from arc_toolkit.cluster.client import ApiError, Gone, Unreachable

        pause, lived = 0.5, False
        while True:
            try:
                for change in _changes(self._client, stream, version):
                    self._changes.put(change)
                    version = change.version or version
                    pause, lived = 0.5, True
            except Gone:
                version = None  # what happened in between is lost; the list has what is left
            except (Unreachable, ApiError) as error:
                if not lived:
                    self._changes.put(error)
                    return
                self._changes.put(f"{error}; trying again")
                if "resource version" in str(error):  # newer than the server's: it was restored from a backup
                    version = None
            except Exception as error:  # a stream must not end unnoticed; the main thread raises it
                self._changes.put(error)
                return
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)


def _changes(client: Client, stream: ApiStream, version: str | None) -> Iterator[RecordedChange]:
    """A whole list if no version is known, then what happens after it."""
    if version is None:
        listing = client.list(stream.path, stream.params)
        uids = []
        for item in listing:
            uids.append(str(item["metadata"]["uid"]))
            if stream.wanted(item):
                yield RecordedChange(stream.name, stream.kind, stream.trim(item))
        version = listing.resource_version
        # Only now is the list whole: a stop before this lists again.
        yield RecordedChange(stream.name, stream.kind, listed=frozenset(uids), version=version)
    for event in client.watch(stream.path, version, stream.params):
        item = event["object"]
        version = str(item["metadata"]["resourceVersion"])
        if stream.wanted(item):
            deleted = event["type"] == "DELETED"
            yield RecordedChange(stream.name, stream.kind, stream.trim(item), deleted=deleted, version=version)
        else:
            yield RecordedChange(stream.name, stream.kind, version=version)


class _interruptible:
    """SIGTERM ends a recording like Ctrl-C does: a pod or a service is stopped so."""

    def __enter__(self) -> None:
        import signal

        self._old: Any = None
        if threading.current_thread() is threading.main_thread():
            self._old = signal.signal(signal.SIGTERM, self._interrupt)

    def __exit__(self, *_: object) -> None:
        import signal

        if self._old is not None:
            signal.signal(signal.SIGTERM, self._old)

    @staticmethod
    def _interrupt(*_: object) -> None:
        raise KeyboardInterrupt
