"""Recorded evidence: one SQLite file with the last state of pods, nodes, events and Volcano.

A cluster keeps events for about an hour and deleted pods not at all. The recorder is the only
writer and holds a lock on `FILE.lock`; readers need no lock. Each batch is one transaction together
with its resource versions, so after a kill -9 the next recorder continues exactly where this one
stopped. Times in which a stream was not followed are recorded as gaps. Only the owner can read the
file.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from arc_toolkit.diagnosis import times
from arc_toolkit.diagnosis.model import ClusterFacts, RecordingGap
from arc_toolkit.diagnosis.read import trim
from arc_toolkit.diagnosis.read.trim import known_parts, known_reason
from arc_toolkit.diagnosis.signals import is_bad
from arc_toolkit.errors import ArcError
from arc_toolkit.file_io import reason
from arc_toolkit.kube.raw import Json

if TYPE_CHECKING:
    import sqlite3


APPLICATION_ID = 0x61726374  # "arct"; distinguishes our files from other SQLite files
VERSION = 2


def lock(path: str) -> IO[bytes]:
    """The right to write; the lock ends with the process."""
    import fcntl

    try:
        # Kept open as long as the writer lives.
        handle = open(f"{path}.lock", "ab", opener=_open_private)  # noqa: SIM115
    except OSError as error:
        raise ArcError(f"cannot write {path}: {reason(error)}") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        handle.close()
        raise ArcError(f"another process is recording into {path}: use another file") from None
    return handle


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def make_private(path: str) -> bool:
    """Only the owner may read the file and SQLite's files beside it; True if others could."""
    tightened = False
    try:
        os.close(_open_private(path, os.O_RDWR | os.O_CREAT))
        for name in (path, f"{path}-wal", f"{path}-shm", f"{path}.lock"):
            if os.path.exists(name) and os.stat(name).st_mode & 0o077:
                os.chmod(name, 0o600)
                tightened = True
    except OSError as error:
        raise ArcError(f"cannot make {path} private: {reason(error)}") from None
    return tightened


def connect(path: str, mode: str) -> sqlite3.Connection:
    import sqlite3
    from urllib.parse import quote

    return sqlite3.connect(f"file:{quote(os.path.abspath(path))}?mode={mode}", uri=True, timeout=10)


@contextmanager
def sentences(path: str) -> Iterator[None]:
    import sqlite3

    try:
        yield
    except (sqlite3.Error, ValueError, KeyError, TypeError) as error:
        raise ArcError(f"{path} is not a usable history ({error})") from None


def check_version(database: sqlite3.Connection, path: str) -> None:
    if database.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise ArcError(f"{path} is not a history of diagnose: use another file")
    version = version_of(database)
    if not 1 <= version <= VERSION:
        raise ArcError(
            f"{path} is a history of version {version}, and version {VERSION} is needed: "
            "use a new file"
        )


def version_of(database: sqlite3.Connection) -> int:
    return int(database.execute("PRAGMA user_version").fetchone()[0])


SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE objects (      -- the newest state of each object
  kind TEXT NOT NULL, uid TEXT NOT NULL,
  seen REAL NOT NULL,       -- when that state was recorded
  gone REAL,                -- when it was seen deleted
  body TEXT NOT NULL,       -- JSON, trimmed
  about TEXT,               -- of events: the uid of the pod without which they have no use
  PRIMARY KEY (kind, uid)
) WITHOUT ROWID;
CREATE TABLE conditions (   -- that turned bad; a node shows only the newest
  node TEXT NOT NULL, uid TEXT NOT NULL, type TEXT NOT NULL, since TEXT NOT NULL,
  status TEXT NOT NULL, reason TEXT NOT NULL, message TEXT NOT NULL, seen REAL NOT NULL,
  PRIMARY KEY (uid, type, since)
) WITHOUT ROWID;
"""
GAPS = """
CREATE TABLE gaps (         -- when a stream was not followed
  stream TEXT NOT NULL, start REAL NOT NULL, end REAL NOT NULL,
  complete INTEGER NOT NULL,  -- 1: it continued where it had stopped; 0: it was listed again
  PRIMARY KEY (stream, start)
) WITHOUT ROWID;
"""

TRIM = {"Pod": trim.pod, "Node": trim.node, "Event": trim.event}  # of version 1
UNKNOWN_POD_SECONDS = 600  # an event may be seen before its pod
SHORTEST_GAP_SECONDS = 5.0
ENDED_SECONDS = 300.0  # a recorder that runs hears of every stream about once a minute
_VERSION_KEY, _UNTIL_KEY, _SINCE_KEY = "version ", "until ", "since"

# The event that the kubelet or node controller writes for a condition; others use its reason.
EVENT_OF_CONDITION = {
    "Ready": "NodeNotReady",
    "MemoryPressure": "NodeHasInsufficientMemory",
    "PreemptionScheduled": "PreemptScheduled",
}


def read(path: str, now: float | None = None) -> ClusterFacts:
    """Everything recorded so far; a recorder may be writing."""
    now = time.time() if now is None else now
    if not os.path.isfile(path):
        raise ArcError(
            f"{path} does not exist: record a history with "
            f"`arc-toolkit diagnose --cluster --watch --history {path}`"
        )
    with sentences(path), closing(connect(path, "ro")) as database:
        check_version(database, path)
        query = "SELECT max(CAST(value AS REAL)) FROM meta WHERE key LIKE ?"
        [until] = database.execute(query, (f"{_UNTIL_KEY}%",)).fetchone()
        facts = ClusterFacts(read_at=until)  # the heartbeats of nodes are not recorded
        for kind, deleted_at, body in database.execute("SELECT kind, gone, body FROM objects"):
            item = json.loads(body)
            if deleted_at is not None:
                item["metadata"].setdefault("deletionTimestamp", times.iso(deleted_at))
            facts.add(kind, item)
        rows = database.execute("SELECT node, uid, type, since, reason, message FROM conditions")
        facts.events.extend(_condition_event(*row) for row in rows)
        if version_of(database) > 1:
            facts.gaps.extend(_gaps(database, now))
    return facts


def _gaps(database: sqlite3.Connection, now: float) -> Iterator[RecordingGap]:
    """Before the recording, the gaps of all streams merged, and after its end if it stopped."""
    meta = dict(database.execute("SELECT key, value FROM meta").fetchall())
    if _SINCE_KEY in meta:
        yield RecordingGap(None, float(meta[_SINCE_KEY]))
    for complete in (0, 1):
        rows = database.execute(
            "SELECT start, end FROM gaps WHERE complete = ? ORDER BY start", (complete,)
        )
        start = end = None
        for row in rows:
            if end is not None and row[0] <= end:
                end = max(end, row[1])
                continue
            if end is not None:
                yield RecordingGap(start, end, bool(complete))
            start, end = row
        if end is not None:
            yield RecordingGap(start, end, bool(complete))
    until = [float(value) for key, value in meta.items() if key.startswith(_UNTIL_KEY)]
    if until and now - max(until) > ENDED_SECONDS:
        yield RecordingGap(max(until), None)


class History:
    """The writer. Use it as a context manager."""

    def __init__(self, path: str, server: str) -> None:
        self.path = path
        with ExitStack() as stack:  # closes what is open already if anything fails
            stack.enter_context(lock(path))
            fresh = not os.path.exists(path) or os.path.getsize(path) == 0
            # SQLite gives -wal and -shm the mode of the file
            self.tightened = fresh and make_private(path)
            with sentences(path):
                self._database = stack.enter_context(closing(connect(path, "rwc")))
                self._prepare(server, fresh)
            self._open = stack.pop_all()

    def _prepare(self, server: str, fresh: bool) -> None:
        database = self._database
        if fresh:
            database.execute("PRAGMA journal_mode = WAL")
            database.executescript(
                f"BEGIN; PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION};"
                f"{SCHEMA} {GAPS} COMMIT;"
            )
        check_version(database, self.path)
        self.tightened |= make_private(self.path)
        database.execute("PRAGMA synchronous = FULL")
        database.execute("PRAGMA secure_delete = ON")  # what is deleted is also gone from the file
        recorded = self._meta("server")
        if recorded and recorded != server:
            raise ArcError(
                f"{self.path} is the history of {recorded}: use another file for {server}"
            )
        if version_of(database) == 1:
            self._upgrade()
        with database:
            self._set("server", server)

    def _upgrade(self) -> None:
        """From version 1, whose messages were only searched for secrets: trim everything again."""
        database = self._database
        with database:
            database.execute("BEGIN")
            database.execute("ALTER TABLE objects ADD COLUMN about TEXT")
            database.execute(GAPS)
            for kind, uid, body in database.execute(
                "SELECT kind, uid, body FROM objects"
            ).fetchall():
                item = TRIM[kind](json.loads(body))
                values = (
                    _dump(item),
                    trim.subject_uid(item) if kind == "Event" else None,
                    kind,
                    uid,
                )
                database.execute(
                    "UPDATE objects SET body = ?, about = ? WHERE kind = ? AND uid = ?", values
                )
            for reason, message in database.execute(
                "SELECT DISTINCT reason, message FROM conditions"
            ).fetchall():
                values = (known_reason(reason), known_parts(message), reason, message)
                database.execute(
                    "UPDATE conditions SET reason = ?, message = ? "
                    "WHERE reason = ? AND message = ?",
                    values,
                )
            first, last = database.execute("SELECT min(seen), max(seen) FROM objects").fetchone()
            if first is not None:
                self._set(_SINCE_KEY, str(first))
                for stream in ("pods", "nodes", "events"):
                    self._set(_UNTIL_KEY + stream, str(last))
            database.execute(f"PRAGMA user_version = {VERSION}")
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def __enter__(self) -> History:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def resource_version(self, stream: str) -> str | None:
        """The version up to which a stream is recorded; None: list it."""
        return self._meta(_VERSION_KEY + stream)

    def write(self, changes: Iterable[RecordedChange], now: float | None = None) -> int:
        """One transaction; returns the number of objects that were new or changed."""
        now = time.time() if now is None else now
        written = 0
        versions: dict[str, str] = {}
        with sentences(self.path), self._database:
            for change in changes:
                if change.listed is not None:
                    self._mark_gone(change.kind, change.listed, now)
                elif change.item is not None:
                    written += self._put(change, now)
                if change.listed is not None or change.resumed:
                    self._record_gap(change, now if change.stream in versions else None, now)
                if change.version:
                    versions[change.stream] = change.version
            for stream, version in versions.items():
                self._set(_VERSION_KEY + stream, version)
                self._set(_UNTIL_KEY + stream, str(now))
            if versions and self._meta(_SINCE_KEY) is None:
                self._set(_SINCE_KEY, str(now))
        return written

    def _record_gap(self, change: RecordedChange, until: float | None, now: float) -> None:
        complete = change.listed is None
        recorded = self._meta(_UNTIL_KEY + change.stream)
        until = until or (float(recorded) if recorded else now)
        if now - until >= SHORTEST_GAP_SECONDS or (now > until and not complete):
            row = (change.stream, until, now, int(complete))
            self._database.execute("INSERT OR REPLACE INTO gaps VALUES (?, ?, ?, ?)", row)

    def expire(self, days: float, now: float | None = None) -> int:
        """Delete older records; what still exists is kept."""
        now = time.time() if now is None else now
        before = now - days * 86400
        with sentences(self.path), self._database:
            removed = self._database.execute(
                "DELETE FROM objects WHERE (kind = 'Event' AND seen < ?) OR gone < ?",
                (before, before),
            ).rowcount
            # Only Warnings are kept of pods that do not belong to AzureML.
            removed += self._database.execute(
                "DELETE FROM objects WHERE kind = 'Event' AND seen < ? AND about IS NOT NULL "
                "AND about NOT IN (SELECT uid FROM objects WHERE kind = 'Pod')",
                (now - UNKNOWN_POD_SECONDS,),
            ).rowcount
            removed += self._database.execute(
                "DELETE FROM conditions WHERE seen < ?", (before,)
            ).rowcount
            self._database.execute("DELETE FROM gaps WHERE end < ?", (before,))
            since = self._meta(_SINCE_KEY)
            if since is not None and float(since) < before:
                self._set(_SINCE_KEY, str(before))
        return int(removed)

    def _put(self, change: RecordedChange, now: float) -> bool:
        item, kind = change.item or {}, change.kind
        uid = str(item["metadata"]["uid"])
        body = _dump(item)
        row = self._database.execute(
            "SELECT body, gone FROM objects WHERE kind = ? AND uid = ?", (kind, uid)
        ).fetchone()
        if (
            row
            and (row[1] is not None or not _news(json.loads(row[0]), item))
            and not change.deleted
        ):
            return False  # the same or an older state, repeated by a list
        if kind == "Event" and change.deleted:
            return False  # it has expired in the cluster; the history keeps it
        if kind == "Node" and row:
            self._record_conditions(json.loads(row[0]), item, uid, now)
        self._database.execute(
            "INSERT INTO objects VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (kind, uid) DO UPDATE SET "
            "seen = excluded.seen, gone = coalesce(gone, excluded.gone), body = excluded.body",
            (
                kind,
                uid,
                now,
                now if change.deleted else None,
                body,
                trim.subject_uid(item) if kind == "Event" else None,
            ),
        )
        return True

    def _record_conditions(self, old: Json, new: Json, uid: str, now: float) -> None:
        """Record conditions that were good and are bad now."""
        was_bad = {item.get("type"): _is_bad(item) for item in old["status"]["conditions"]}
        for item in new["status"]["conditions"]:
            kind = item.get("type")
            if _is_bad(item) and was_bad.get(kind) is False:
                values = [str(item.get(name, "")) for name in ("status", "reason", "message")]
                since = str(item.get("lastTransitionTime") or times.iso(now))
                self._database.execute(
                    "INSERT OR REPLACE INTO conditions VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    (new["metadata"]["name"], uid, kind, since, *values, now),
                )

    def _mark_gone(self, kind: str, listed: frozenset[str], now: float) -> None:
        """Objects missing from a whole list were deleted unrecorded; events have expired."""
        if kind == "Event":
            return
        rows = self._database.execute(
            "SELECT uid FROM objects WHERE kind = ? AND gone IS NULL", (kind,)
        ).fetchall()
        missing = [(now, kind, uid) for (uid,) in rows if uid not in listed]
        self._database.executemany(
            "UPDATE objects SET gone = ? WHERE kind = ? AND uid = ?", missing
        )

    def _meta(self, key: str) -> str | None:
        row = self._database.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return str(row[0]) if row else None

    def _set(self, key: str, value: str) -> None:
        self._database.execute(
            "INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            (key, value),
        )


@dataclass(slots=True)
class RecordedChange:
    """One change in a stream: an object, its deletion, or a list of uids; and the version after it.

    `resumed`: the first after an interruption, from the version where it had stopped.
    """

    stream: str
    kind: str
    item: Json | None = None
    deleted: bool = False
    version: str = ""
    listed: frozenset[str] | None = None
    resumed: bool = False


def _dump(item: Json) -> str:
    return json.dumps(item, separators=(",", ":"), sort_keys=True)


def _is_bad(condition: Json) -> bool:
    return is_bad(str(condition.get("type")), condition.get("status"))


def _news(old: Json, new: Json) -> bool:
    """Whether the state is newer and differs in more than its resource version."""
    versions = [str(item["metadata"].get("resourceVersion", "")) for item in (old, new)]
    if all(version.isdigit() for version in versions) and int(versions[1]) <= int(versions[0]):
        return False
    return _strip_version(old) != _strip_version(new)


def _strip_version(item: Json) -> Json:
    return {**item, "metadata": {**item["metadata"], "resourceVersion": None}}


def _condition_event(node: str, uid: str, kind: str, since: str, reason: str, message: str) -> Json:
    """A past condition as the event that reported it."""
    return {
        "metadata": {"name": f"{node}.{kind}", "uid": f"{uid}/{kind}/{since}"},
        "involvedObject": {"kind": "Node", "name": node, "uid": uid},
        "reason": EVENT_OF_CONDITION.get(kind, reason),
        "message": message,
        "lastTimestamp": since,
        "source": {"component": "history"},
    }
