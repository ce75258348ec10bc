"""A network that can fail: a TCP proxy in front of the API server which can be cut or made to hang."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit


class FlakyNetwork:
    """Forwards bytes until `cut` (connections are reset, new ones refused) or `hang` (nothing is forwarded)."""

    def __init__(self, target: str) -> None:
        parts = urlsplit(target)
        self._target = (parts.hostname or "", parts.port or 443)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        self._flowing = threading.Event()
        self._flowing.set()
        self._most: int | None = None
        self.url = f"https://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        for one in (self._listener, *self._sockets):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def hang(self) -> None:
        self._flowing.clear()

    def flow(self) -> None:
        self._flowing.set()

    def drop(self, after_bytes: int) -> None:
        """Close every connection as soon as the server has sent so many bytes through it."""
        self._most = after_bytes

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
                self._sockets += [client, server]
                for source, sink in ((client, server), (server, client)):
                    options = {"answers": source is server}
                    threading.Thread(
                        target=self._copy, args=(source, sink), kwargs=options, daemon=True
                    ).start()

    def _copy(self, source: socket.socket, sink: socket.socket, *, answers: bool) -> None:
        count = 0
        with suppress(OSError):
            while data := source.recv(65536):
                self._flowing.wait()
                count += len(data)
                if answers and self._most is not None and count > self._most:
                    sink.sendall(data[: self._most - count])
                    break
                sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)


@contextmanager
def flaky_network(target: str) -> Iterator[FlakyNetwork]:
    network = FlakyNetwork(target)
    try:
        yield network
    finally:
        network.flow()
        network.cut()
