"""Checkpoints without shared storage: every new one is copied to the head and to one other node.

A copy has the manifest of the original and is compared with it before it counts. Only the newest
copies are kept.
"""

from __future__ import annotations

import json
import os
import socket
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from arc_toolkit.checkpoints.manifest import (
    NAME,
    Checkpoint,
    InvalidCheckpoint,
    read_manifest,
    remove,
    verify,
)

_MAX_COPIES = 2
_LOOK_SECONDS = 0.2
_RETRY_SECONDS = 1.0
_TIMEOUT = 60.0
_PIECE = 1 << 20

Address = tuple[str, int]


class ByteStream(Protocol):
    """A socket as a file, in both directions."""

    def read(self, size: int, /) -> bytes: ...
    def readline(self) -> bytes: ...
    def write(self, data: bytes, /) -> int: ...
    def flush(self) -> None: ...


def copies_folder(run: str, node: str) -> Path:
    """Where the checkpoints of a run are on one node."""
    return Path(tempfile.gettempdir()) / "arc-toolkit-elastic" / run / node


def newest(root: Path) -> Checkpoint | None:
    """The newest committed checkpoint in a folder; its files are not compared."""
    with suppress(FileNotFoundError):
        entries = [
            read_manifest(root / name) for name in os.listdir(root) if name.startswith("step-")
        ]
        checkpoints = [entry for entry in entries if isinstance(entry, Checkpoint)]
        return max(checkpoints, key=lambda entry: entry.order, default=None)
    return None


class CopyServer:
    """Gives and takes checkpoints of one folder."""

    def __init__(self, root: Path, host: str) -> None:
        self._root = root
        self._server = socket.create_server((host, 0), backlog=16)
        self.port: int = self._server.getsockname()[1]
        threading.Thread(target=self._serve, name="copies", daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                sock, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(sock,), daemon=True).start()

    def _answer(self, sock: socket.socket) -> None:
        with suppress(OSError, ValueError, KeyError), sock, sock.makefile("rwb") as stream:
            sock.settimeout(_TIMEOUT)
            request = json.loads(stream.readline())
            if "get" in request:
                _send(stream, self._root / os.path.basename(request["get"]))
            elif "put" in request:
                is_valid = _receive(stream, self._root, os.path.basename(request["put"]))
                stream.write(json.dumps({"valid": is_valid}).encode() + b"\n")

    def close(self) -> None:
        self._server.close()


def put(address: Address, folder: Path) -> bool:
    """Copy a checkpoint to another node; whether it arrived whole."""
    with (
        socket.create_connection(address, timeout=_TIMEOUT) as sock,
        sock.makefile("rwb") as stream,
    ):
        stream.write(json.dumps({"put": folder.name}).encode() + b"\n")
        _send(stream, folder)
        return bool(json.loads(stream.readline() or b"{}").get("valid"))


def get(address: Address, name: str, root: Path) -> bool:
    """Copy a checkpoint from another node, unless it is here already."""
    if not isinstance(read_manifest(root / name), InvalidCheckpoint):
        return True
    with (
        socket.create_connection(address, timeout=_TIMEOUT) as sock,
        sock.makefile("rwb") as stream,
    ):
        stream.write(json.dumps({"get": name}).encode() + b"\n")
        stream.flush()
        return _receive(stream, root, name)


def _send(stream: ByteStream, folder: Path) -> None:
    """Every file with its size before it, the manifest last, and an end."""
    checkpoint = read_manifest(folder)
    names = (
        [entry["path"] for entry in checkpoint.manifest["files"]]
        if isinstance(checkpoint, Checkpoint)
        else []
    )
    for name in [*names, NAME] if names else ():
        with open(folder / name, "rb") as source:
            size = os.fstat(source.fileno()).st_size
            stream.write(json.dumps({"path": name, "size": size}).encode() + b"\n")
            while piece := source.read(_PIECE):
                stream.write(piece)
    stream.write(b'{"end": true}\n')
    stream.flush()


def _receive(stream: ByteStream, root: Path, name: str) -> bool:
    root.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=".loading-", dir=root))
    try:
        while "end" not in (header := json.loads(stream.readline())):
            path = staging / header["path"]
            if not path.resolve().is_relative_to(staging.resolve()):
                return False
            path.parent.mkdir(parents=True, exist_ok=True)
            remaining = header["size"]
            with open(path, "wb") as target:
                while remaining and (piece := stream.read(min(remaining, _PIECE))):
                    target.write(piece)
                    remaining -= len(piece)
            if remaining:
                return False
        checkpoint = read_manifest(staging)
        if isinstance(checkpoint, InvalidCheckpoint) or verify(checkpoint) is not None:
            return False
        if not (root / name).exists():
            os.rename(staging, root / name)
        _keep_newest(root)
        return True
    finally:
        remove(staging if staging.exists() else None)


def _keep_newest(root: Path) -> None:
    entries = [read_manifest(root / name) for name in os.listdir(root) if name.startswith("step-")]
    checkpoints = sorted(
        (entry for entry in entries if isinstance(entry, Checkpoint)), key=lambda entry: entry.order
    )
    for entry in checkpoints[:-_MAX_COPIES]:
        remove(entry.folder)


class CopyKeeper:
    """Copies the commits of one folder to the head and to a peer, in the background."""

    def __init__(self, root: Path, head: Address, report: Callable[[str], None]) -> None:
        self._root, self._head, self._report = root, head, report
        self.peer: Address | None = None
        self._copied: dict[Address, str] = {}  # the newest one by place
        self._received = ""
        self._reported = ("", ("", 0))
        self._stopped = threading.Event()
        threading.Thread(target=self._run, name="copy-keeper", daemon=True).start()

    def note_received(self, name: str) -> None:
        """This one came from the head: it needs no copy."""
        self._received = max(self._received, name)

    def stop(self) -> None:
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(_LOOK_SECONDS):
            checkpoint = newest(self._root)
            if checkpoint is None or checkpoint.folder.name <= self._received:
                continue
            for place in [self._head, *([self.peer] if self.peer else [])]:
                if checkpoint.folder.name > self._copied.get(place, "") and not self._copy(
                    checkpoint, place
                ):
                    self._stopped.wait(_RETRY_SECONDS)

    def _copy(self, checkpoint: Checkpoint, place: Address) -> bool:
        name, problem = checkpoint.folder.name, "it arrived damaged"
        try:
            if put(place, checkpoint.folder):
                self._copied[place] = name
                return True
        except (OSError, ValueError) as error:
            problem = str(error)
        if self._reported != (name, place):
            self._reported = name, place
            self._report(f"{name} is not copied to {place[0]}:{place[1]} yet: {problem}")
        return False
