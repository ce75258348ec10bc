"""The metadata services of the clouds, as their documentation describes them, on loopback."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

EVENTS = "/metadata/scheduledevents"
COMPUTE = "/metadata/instance/compute"


class MetadataService:
    """What it answers is changed by the test; what it was asked is kept."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        self.answer: Callable[
            [str, str, dict[str, str]], tuple[int, bytes] | tuple[int, bytes, dict[str, str]]
        ]
        self.answer = lambda method, path, headers: (404, b"")
        self.clock_lead = 0.0

    def paths(self, method: str) -> list[str]:
        return [path for sent, path, _, _ in self.requests if sent == method]


@contextmanager
def metadata_service() -> Iterator[MetadataService]:
    service = MetadataService()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            service.requests.append((self.command, self.path, headers, body))
            status, content, *more = service.answer(self.command, self.path, headers)
            self.send_response_only(status)
            self.send_header("Date", formatdate(time.time() + service.clock_lead, usegmt=True))
            self.send_header("Content-Length", str(len(content)))
            for name, value in (more[0] if more else {}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_PUT = do_POST = _serve

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    service.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
    )
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()


def azure_event(kind: str = "Preempt", seconds: float | None = 30, **fields: Any) -> dict[str, Any]:
    """An event as in Microsoft's page; NotBefore is empty once it has started (`seconds=None`)."""
    begins = "" if seconds is None else formatdate(time.time() + seconds, usegmt=True)
    return {
        "EventId": "602d9444-d2cd-49c7-8624-8643e7171297",
        "EventStatus": "Scheduled" if seconds is not None else "Started",
        "EventType": kind,
        "ResourceType": "VirtualMachine",
        "Resources": ["aks-spot-12345678-vmss_4"],
        "NotBefore": begins,
        "Description": "Virtual machine is going to be preempted",
        "EventSource": "Platform",
        "DurationInSeconds": -1,
        **fields,
    }


def azure_answers(
    service: MetadataService, events: list[dict[str, Any]], name: str = "aks-spot-12345678-vmss_4"
) -> None:
    """Let the service answer as IMDS does: 400 without the header, the events, and the machine's own name."""

    def answer(method: str, path: str, headers: dict[str, str]) -> tuple[int, bytes]:
        if headers.get("metadata") != "true" or "api-version=" not in path:
            return 400, b'{"error": "Bad request"}'
        if path.startswith(EVENTS) and method == "GET":
            return 200, json.dumps({"DocumentIncarnation": 1, "Events": events}).encode()
        if path.startswith(EVENTS):
            return 200, b""
        if path.startswith(COMPUTE):
            return 200, json.dumps(
                {"name": name, "osProfile": {"computerName": "aks-spot-12345678-vmss000004"}}
            ).encode()
        return 404, b""

    service.answer = answer
