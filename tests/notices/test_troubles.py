"""Sixty troubles of metadata services, each followed by a notice, which is seen within three seconds."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from contextlib import suppress
from email.utils import formatdate

import pytest

from arc_toolkit.notices import Watcher
from arc_toolkit.notices.sources import cloud_source
from tests.notices.metadata_service import azure_event

CLOUDS = ("azure", "aws", "gcp")
MOST_SECONDS = 3.0


def answer(status: int, body: bytes = b"", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


# What is sent to a connection, if it is more than closing or holding it.
TROUBLES: dict[str, bytes] = {
    "refused": b"",
    "closed": b"",
    "reset": b"",
    "silent": b"",
    "half a header, then silent": b"HTTP/1.1 200 OK\r\nContent-",
    "half a body, then silent": b"HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n{",
    "a byte now and then": b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n" + b" " * 900,
    "half a body, then closed": b"HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n{",
    "another protocol": b"SSH-2.0-OpenSSH_9.6\r\n",
    "a page": answer(200, b"<html>welcome</html>", "Content-Type: text/html"),
    "nothing in it": answer(200),
    "another form": answer(200, b"[]"),
    "too long": answer(200, b"x" * 2_000_000),
    "elsewhere": answer(302, b"", "Location: http://127.0.0.1:9/"),
    "forbidden": answer(403),
    "proxy": answer(407, b"", "Proxy-Authenticate: Basic"),
    "gone": answer(410),
    "too often": answer(429, b"", "Retry-After: 120"),
    "fault": answer(500),
    "busy": answer(503, b"", "Retry-After: 3600"),
}


class Service:
    """A metadata service in trouble, and then with a notice."""

    def __init__(self, cloud: str, trouble: str) -> None:
        self._cloud, self._trouble = cloud, trouble
        self.is_in_trouble = False
        self.has_notice = False
        self._server = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self._server.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._server,), daemon=True).start()

    def begin_trouble(self) -> None:
        self.is_in_trouble = True
        if self._trouble == "refused":
            self._server.shutdown(socket.SHUT_RDWR)
            self._server.close()

    def end_trouble(self) -> None:
        self.is_in_trouble, self.has_notice = False, True
        if self._trouble == "refused":
            self._server = socket.create_server(("127.0.0.1", self.port), backlog=64)
            threading.Thread(target=self._accept, args=(self._server,), daemon=True).start()

    def _accept(self, server: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _ = server.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError), connection:
            while request := connection.recv(65536):
                if self.is_in_trouble:
                    self._disturb(connection)
                    return
                connection.sendall(self._proper_answer(request.decode("latin-1")))

    def _disturb(self, connection: socket.socket) -> None:
        content = TROUBLES[self._trouble]
        if self._trouble == "reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif self._trouble == "a byte now and then":
            for byte in content:
                connection.sendall(bytes([byte]))
                time.sleep(0.1)
        else:
            connection.sendall(content)
        if "silent" in self._trouble:
            time.sleep(60)

    def _proper_answer(self, request: str) -> bytes:
        date = f"Date: {formatdate(usegmt=True)}"
        if self._cloud == "azure":
            events = [azure_event(Resources=["vm"])] if self.has_notice else []
            body: object = {"name": "vm"} if "/compute" in request else {"Events": events}
            return answer(200, json.dumps(body).encode(), date)
        if self._cloud == "gcp":
            if "wait_for_change" in request and not self.has_notice:
                time.sleep(1)
            return answer(200, b"TRUE" if self.has_notice else b"FALSE", "ETag: abc", date)
        if request.startswith("PUT"):
            return answer(200, b"token", date)
        if "instance-action" in request and self.has_notice:
            return answer(200, b'{"action": "terminate", "time": "2099-01-01T00:00:00Z"}', date)
        return answer(404, b"", date)


class Case:
    """A watcher of one service; `seconds` from the notice until it is seen."""

    def __init__(self, cloud: str, trouble: str) -> None:
        self.service = Service(cloud, trouble)
        source = cloud_source(cloud, f"http://127.0.0.1:{self.service.port}")
        self._announced = 0.0
        self.seconds: float | None = None
        self.watcher = Watcher([source], report=lambda text: None)
        self.watcher.on_notice(lambda notice: self._see())
        self.watcher.start()

    def announce(self) -> None:
        self._announced = time.monotonic()
        self.service.end_trouble()

    def _see(self) -> None:
        self.seconds = time.monotonic() - self._announced


def test_a_notice_after_any_trouble_is_seen_within_three_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cases = {(cloud, trouble): Case(cloud, trouble) for cloud in CLOUDS for trouble in TROUBLES}
    assert len(cases) == 60
    time.sleep(1.5)
    for case in cases.values():
        case.service.begin_trouble()
    time.sleep(2.0)
    true_time = time.time
    monkeypatch.setattr(time, "time", lambda: true_time() + 3600)  # and the clock is set
    time.sleep(0.5)
    for case in cases.values():
        case.announce()
        time.sleep(0.01)
    time.sleep(MOST_SECONDS + 1.0)
    for case in cases.values():
        case.watcher.stop()
    late = {
        name: case.seconds
        for name, case in cases.items()
        if case.seconds is None or case.seconds > MOST_SECONDS
    }
    assert late == {}
