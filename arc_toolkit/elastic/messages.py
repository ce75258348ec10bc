"""JSON lines over a socket: how the controller, its agents and clients speak to each other."""

from __future__ import annotations

import json
import socket
import threading
from typing import Any

Message = dict[str, Any]


class LineConnection:
    """One peer. `send` may be called from any thread, `receive` from one."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = sock
        self._lock = threading.Lock()
        self._rest = b""

    def fileno(self) -> int:
        return self.sock.fileno()

    def send(self, kind: str, /, **fields: Any) -> None:
        """`OSError` if the peer is gone or does not read."""
        data = json.dumps({"type": kind, **fields}).encode() + b"\n"
        with self._lock:
            self.sock.sendall(data)

    def receive(self) -> list[Message]:
        """The messages so far; waits for at least one. `ConnectionError` at the end."""
        data = self.sock.recv(1 << 16)
        if not data:
            raise ConnectionResetError("the connection was closed")
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [json.loads(line) for line in lines if line]

    def close(self) -> None:
        self.sock.close()


def connect(address: tuple[str, int], timeout: float = 5.0) -> LineConnection:
    """A connection whose sends give up after `timeout` as well; receiving waits without a limit."""
    sock = socket.create_connection(address, timeout=timeout)
    sock.settimeout(None)
    return LineConnection(sock)


class ReservedPort:
    """A port for ranks to meet at: reserved while it is bound here, free at once afterwards."""

    def __init__(self) -> None:
        self._sock = socket.socket()
        self._sock.bind(("", 0))
        self.port: int = self._sock.getsockname()[1]

    def release(self) -> None:
        self._sock.close()
