"""The HTTP client of metadata services: one connection, no proxy, one exception."""

from __future__ import annotations

import time

TYPE_CHECKING = False  # `typing` alone takes as long to import as all the rest
if TYPE_CHECKING:
    from http.client import HTTPConnection, HTTPResponse

# 169.254.169.254 answers within milliseconds; without a route some machines wait for ever.
_TIMEOUT = 5.0
_LARGEST = 1 << 20  # bytes of an answer


class SourceTrouble(Exception):
    """A source failed. `retry`: seconds until the next try; `blocked`: nothing answered."""

    def __init__(self, message: str, *, retry: float = 5.0, blocked: bool = False) -> None:
        super().__init__(message)
        self.retry, self.blocked = retry, blocked


class Reply:
    """Status and body of an answer."""

    __slots__ = ("_came", "_date", "body", "retry_after", "status")

    def __init__(
        self, status: int, body: bytes, retry_after: float | None, date: str | None
    ) -> None:
        self.status, self.body, self.retry_after = status, body, retry_after
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

    def __init__(self, endpoint: str, *, first_timeout: float = _TIMEOUT) -> None:
        self.endpoint = endpoint
        self._host = host_of(endpoint)
        self._timeout = first_timeout
        self._connection: HTTPConnection | None = None

    def request(
        self,
        method: str,
        path: str,
        headers: dict[str, str],
        body: bytes | None = None,
        timeout: float | None = None,
    ) -> Reply:
        """The answer, whatever its status; SourceTrouble if there is none. A kept connection that
        was closed is opened again once."""
        from http.client import HTTPConnection, HTTPException

        for is_last in (False, True):
            fresh = self._connection is None
            try:
                if self._connection is None:
                    self._connection = HTTPConnection(self._host, timeout=timeout or self._timeout)
                self._connection.request(method, path, body, headers)
                reply = _read(self._connection.getresponse())
                self._timeout = _TIMEOUT
                return reply
            except (OSError, ValueError, HTTPException) as error:
                self.close()
                if fresh or is_last:
                    text = f"{self.endpoint} does not answer ({type(error).__name__}: {error})"
                    raise SourceTrouble(text, retry=30.0, blocked=True) from None
        raise AssertionError("not reached")

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
    retry_after = _seconds(answer.getheader("retry-after"))
    return Reply(answer.status, content, retry_after, answer.getheader("date"))


def _seconds(header: str | None) -> float | None:
    return (
        min(float(header), 300.0)
        if header is not None and header.isascii() and header.isdigit()
        else None
    )


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
