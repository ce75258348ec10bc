"""The SQLite file of a history: its lock, who may read it, its version, and what goes wrong with it as a sentence."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from arc_toolkit.errors import ArcError
from arc_toolkit.file_io import reason

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
    """Only the owner may read the file and those that SQLite keeps beside it; True if others could."""
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
            f"{path} is a history of version {version}, and version {VERSION} is needed: use a new file"
        )


def version_of(database: sqlite3.Connection) -> int:
    return int(database.execute("PRAGMA user_version").fetchone()[0])
