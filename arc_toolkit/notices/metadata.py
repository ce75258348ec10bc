"""The HTTP client of metadata services: one connection, no proxy, one exception."""

from __future__ import annotations

import time

TYPE_CHECKING = False  # `typing` alone takes as long to import as all the rest
if TYPE_CHECKING:
    from http.client import HTTPConnection, HTTPResponse
    from typing import Any

# For a whole answer. 169.254.169.254 gives one within milliseconds; a notice leaves 30 seconds, so
# that a request which hangs is given up and made again.
_TIMEOUT = 1.5
_LARGEST = 1 << 20  # bytes of an answer


class SourceTrouble(Exception):
    """A source failed, and is asked again in its next period. `blocked`: nothing answered."""

    def __init__(self, message: str, *, blocked: bool = False) -> None:
        super().__init__(message)
        self.blocked = blocked


class Reply:
    """Status and body of an answer."""

    __slots__ = ("_came", "_date", "body", "etag", "status")

    def __init__(self, status: int, body: bytes, etag: str, date: str | None) -> None:
        self.status, self.body, self.etag = status, body, etag
        self._date, self._came = date, time.time()

    @property
    def clock_lead(self) -> float:
        """How far the server's clock is ahead of ours. Deadlines are in its time."""
        server = parse_http_date(self._date or "")
        # Less than 2 s may as well be the rounding of the header and the way.
        lead = 0.0 if server is None else server - self._came
        return lead if abs(lead) > 2.0 else 0.0


def host_of(endpoint: str) -> str:
    """HOST or HOST:PORT of an address; `ValueError` for anything else, which could never answer."""
    host = endpoint.removeprefix("http://").rstrip("/")
    _, colon, port = host.rpartition("]")[2].rpartition(":")
    is_port = not colon or (port.isascii() and port.isdigit() and int(port) < 1 << 16)
    is_host = (
        host.isascii()
        and host.isprintable()
        and not set(host) & set("/?#@ ")
        and not host.startswith(":")
    )
    if endpoint.startswith("http://") and host and is_host and is_port:
        return host
    raise ValueError(f"{endpoint}: use http://HOST or http://HOST:PORT")


class MetadataClient:
    """Requests to `http://HOST[:PORT]`, never through a proxy."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self._host = host_of(endpoint)
        self._connection: HTTPConnection | None = None

    def request(
        self,
        method: str,
        path: str,
        headers: dict[str, str],
        body: bytes | None = None,
        wait: float = 0.0,
    ) -> Reply:
        """The answer, whatever its status; SourceTrouble if there is none.

        A kept connection that was closed is opened again once. `wait`: how long the server may
        take longer than usual.
        """
        from http.client import HTTPConnection, HTTPException

        end = time.monotonic() + _TIMEOUT + wait
        while True:
            is_kept = self._connection is not None and self._connection.sock is not None
            try:
                if self._connection is None or not is_kept:
                    self._connection = HTTPConnection(self._host, timeout=_TIMEOUT)
                    self._connection.connect()
                    self._connection.sock = _deadline_socket(self._connection.sock)
                sock: Any = self._connection.sock
                sock.end = end
                sock.settimeout(_TIMEOUT)
                self._connection.request(method, path, body, headers)
                return _read(self._connection.getresponse())
            except (OSError, ValueError, HTTPException) as error:
                self.close()
                if not is_kept or isinstance(error, TimeoutError):
                    text = f"{self.endpoint} does not answer ({type(error).__name__}: {error})"
                    raise SourceTrouble(text, blocked=True) from None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _read(answer: HTTPResponse) -> Reply:
    size = answer.getheader("content-length", "0")
    if not size.isdigit():
        raise ValueError(f"an answer of {size} bytes")
    content = answer.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise ValueError("response too large")
    if answer.length:
        raise ConnectionError("the connection was closed in the answer")
    etag = answer.getheader("etag", "")
    return Reply(answer.status, content, etag, answer.getheader("date"))


def _deadline_socket(connected: Any) -> Any:
    """A socket whose time is limited for all reads together: a server that sends a byte per second
    would otherwise never be too slow."""
    import socket

    class DeadlineSocket(socket.socket):
        end = 0.0

        def recv_into(self, *words: Any, **options: Any) -> int:
            self.settimeout(max(0.001, self.end - time.monotonic()))
            return super().recv_into(*words, **options)

    return DeadlineSocket(fileno=connected.detach())


def parse_http_date(text: str) -> float | None:
    """`Mon, 19 Sep 2016 18:29:47 GMT` as a Unix time; None for anything else."""
    from email.utils import parsedate_tz

    try:
        fields = parsedate_tz(text)
        if fields is None:
            return None
        from email.utils import mktime_tz

        return float(mktime_tz(fields))
    except (ValueError, OverflowError, TypeError):
        return None


def parse_iso_time(text: object) -> float | None:
    """`2017-09-18T08:22:00Z` as a Unix time; None for anything else."""
    from datetime import UTC, datetime

    try:
        time_of = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return (time_of if time_of.tzinfo else time_of.replace(tzinfo=UTC)).timestamp()
