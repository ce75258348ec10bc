"""A live cluster: reading it once, and recording what happens in it.

Each stream (pods of AzureML jobs, nodes, events, and the PodGroups and jobs of Volcano) is listed
and then watched by a thread of its own; only the main thread writes to the history. After an
interruption a stream continues from the last resource version, and lists again if the cluster no
longer has the changes since then, which leaves a gap. The client of the cluster and the meaning of
its errors are arguments, so nothing here depends on a Kubernetes library.
"""

from __future__ import annotations

import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from arc_toolkit.diagnosis.model import ClusterFacts
from arc_toolkit.diagnosis.read import trim
from arc_toolkit.diagnosis.read.history import History, RecordedChange
from arc_toolkit.kube.pods import RUN_ID_LABEL
from arc_toolkit.kube.raw import Json

BATCH_SECONDS = 0.5  # changes seen within this time are one transaction
EXPIRE_EVERY_SECONDS = 3600
LONGEST_PAUSE_SECONDS = 30.0
_QUEUE_SIZE = 10_000  # changes that wait to be written; if there are more, the streams wait


class Recovery(Enum):
    """What to do about an error of the cluster's API."""

    LIST_AGAIN = "list again"  # the changes since the last resource version are lost
    RETRY = "retry"
    ABSENT = "absent"  # the cluster does not have this kind of object
    FORBIDDEN = "forbidden"
    STOP = "stop"


class ResourceList(Protocol):
    """The items of a collection; `resource_version` is known after they were read."""

    resource_version: str

    def __iter__(self) -> Iterator[Json]: ...


class ClusterReader(Protocol):
    """What is needed of a client of the Kubernetes API."""

    server: str
    title: str

    def list(self, path: str, params: dict[str, str]) -> ResourceList: ...

    def watch(
        self, path: str, resource_version: str, params: dict[str, str], *, bookmarks: bool
    ) -> Iterator[Json]: ...


@dataclass(frozen=True)
class ApiStream:
    """One collection of the API, and which fields of its objects are kept."""

    name: str
    kind: str
    path: str
    params: dict[str, str]
    trim: Callable[[Json], Json]
    is_relevant: Callable[[Json], bool] = lambda item: True
    optional: bool = False  # not every cluster has it, and not every user may read it


STREAMS = (
    # The run id ties a pod to its job; pods without it do not belong to AzureML jobs.
    ApiStream("pods", "Pod", "/api/v1/pods", {"labelSelector": RUN_ID_LABEL}, trim.pod),
    ApiStream("nodes", "Node", "/api/v1/nodes", {}, trim.node),
    ApiStream("events", "Event", "/api/v1/events", {}, trim.event, trim.is_relevant_event),
    ApiStream(
        "pod groups",
        "PodGroup",
        f"/apis/{trim.POD_GROUPS}/podgroups",
        {},
        trim.pod_group,
        optional=True,
    ),
    ApiStream(
        "volcano jobs",
        "Job",
        f"/apis/{trim.VOLCANO_JOBS}/jobs",
        {},
        trim.volcano_job,
        optional=True,
    ),
)  # fmt: skip


def read_cluster(
    client: ClusterReader, recovery: Callable[[Exception], Recovery], note: Callable[[str], None]
) -> ClusterFacts:
    """The objects of the cluster. Of pods outside AzureML only Warnings are kept."""
    facts = ClusterFacts(nodes_complete=True, read_at=time.time())
    for stream in STREAMS:
        try:
            for item in client.list(stream.path, stream.params):
                if stream.is_relevant(item):
                    facts.add(stream.kind, stream.trim(item))
        except Exception as error:
            reason = recovery(error)
            if not stream.optional or reason not in (Recovery.ABSENT, Recovery.FORBIDDEN):
                raise
            if reason is Recovery.FORBIDDEN:
                note(f"{error}; without it, less is known about why jobs wait")
    pod_uids = {None, *(item["metadata"].get("uid") for item in facts.pods)}
    facts.events[:] = [item for item in facts.events if trim.subject_uid(item) in pod_uids]
    return facts


def watch(
    client: ClusterReader,
    path: str,
    retention_days: float,
    recovery: Callable[[Exception], Recovery],
    note: Callable[[str], None],
    detail: Callable[[str], None],
) -> None:
    """Record into the history at `path` until Ctrl-C or SIGTERM."""
    with History(path, client.server) as history:
        if history.tightened:
            note(f"other users could read {path}: its mode is now 0600")
        note(f"recording {client.title} into {path}; press Ctrl-C to stop")
        recorder = Recorder(client, history, retention_days, recovery, note, detail)
        with _sigterm_as_interrupt():
            recorder.run()
        note(f"stopped; {recorder.written} changes recorded into {path}")


@dataclass
class Recorder:
    """Reads the streams in threads and writes their changes in transactions."""

    client: ClusterReader
    history: History
    retention_days: float
    recovery: Callable[[Exception], Recovery]
    note: Callable[[str], None]
    detail: Callable[[str], None]
    written: int = 0
    _pending: list[RecordedChange] = field(default_factory=list)
    _changes: queue.Queue[RecordedChange | Exception | str] = field(
        default_factory=lambda: queue.Queue(_QUEUE_SIZE)
    )

    def run(self) -> None:
        """Until KeyboardInterrupt, or an error that a retry cannot fix."""
        versions = {stream.name: self.history.resource_version(stream.name) for stream in STREAMS}
        for stream in STREAMS:
            threading.Thread(
                target=self._follow, args=(stream, versions[stream.name]), daemon=True
            ).start()
        expired = float("-inf")
        try:
            while True:
                if time.monotonic() - expired > EXPIRE_EVERY_SECONDS:
                    self.history.expire(self.retention_days)
                    expired = time.monotonic()
                self._collect()
                self._write()
        except KeyboardInterrupt:
            self._write()

    def _collect(self) -> None:
        """The changes of the next half second."""
        end = time.monotonic() + BATCH_SECONDS
        while len(self._pending) < _QUEUE_SIZE:
            try:
                change = self._changes.get(timeout=max(0.01, end - time.monotonic()))
            except queue.Empty:
                return
            if isinstance(change, Exception):
                self._write()
                raise change
            if isinstance(change, str):
                self.note(change)
            else:
                self._pending.append(change)

    def _write(self) -> None:
        if self._pending:
            self.written += self.history.write(self._pending)
            self._pending = []
            self.detail(f"{self.written} changes recorded")

    def _follow(self, stream: ApiStream, version: str | None) -> None:
        """One endless stream. Only an error before the first change ends the recording."""
        pause, started, noted, interrupted = 0.5, False, False, True
        while True:
            try:
                for change in _changes(self.client, stream, version):
                    change.resumed, interrupted = interrupted and version is not None, False
                    self._changes.put(change)
                    version = change.version or version
                    pause, started = 0.5, True
            except Exception as error:
                # what is not retried, the main thread raises: no stream ends unnoticed
                recovery, interrupted = self.recovery(error), True
                if recovery is Recovery.LIST_AGAIN:
                    version = None
                elif stream.optional and recovery in (Recovery.ABSENT, Recovery.FORBIDDEN):
                    # it may come later, with Volcano or a role
                    version, pause = None, LONGEST_PAUSE_SECONDS
                    if recovery is Recovery.FORBIDDEN and not noted:
                        noted = True
                        self._changes.put(f"{error}; {stream.name} are not recorded")
                elif recovery is not Recovery.STOP and started:
                    self._changes.put(f"{error}; trying again")
                else:
                    self._changes.put(error)
                    return
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)


def _changes(
    client: ClusterReader, stream: ApiStream, version: str | None
) -> Iterator[RecordedChange]:
    """A whole list if no version is known, then the changes after it."""
    if version is None:
        listing = client.list(stream.path, stream.params)
        uids = []
        for item in listing:
            uids.append(str(item["metadata"]["uid"]))
            if stream.is_relevant(item):
                yield RecordedChange(stream.name, stream.kind, stream.trim(item))
        version = listing.resource_version
        # The version comes last: a recorder that stops before the list is whole lists again.
        yield RecordedChange(stream.name, stream.kind, listed=frozenset(uids), version=version)
    # A bookmark has a version but no object: it says that nothing was missed up to now.
    for event in client.watch(stream.path, version, stream.params, bookmarks=True):
        item = event["object"]
        version = str(item["metadata"]["resourceVersion"])
        if event["type"] != "BOOKMARK" and stream.is_relevant(item):
            deleted = event["type"] == "DELETED"
            yield RecordedChange(
                stream.name, stream.kind, stream.trim(item), deleted=deleted, version=version
            )
        else:
            yield RecordedChange(stream.name, stream.kind, version=version)


@contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """SIGTERM ends a recording as Ctrl-C does: pods and services are stopped like that."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
