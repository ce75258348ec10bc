"""The HTTP client of metadata services: one connection, no proxy, one exception."""

from __future__ import annotations

import time

# 169.254.169.254 answers within milliseconds; without a route some machines wait for ever.
_TIMEOUT = 5.0
_LARGEST = 1 << 20  # bytes of an answer
_LONGEST_LINE = 1 << 16
_MOST_FIELDS = 100


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
    """Requests to `http://HOST[:PORT]`, never through a proxy.

    One is sent every second for as long as a training runs: `http.client`, whose headers are those
    of e-mails, takes twice the processor time.
    """

    def __init__(self, endpoint: str, *, first_timeout: float = _TIMEOUT) -> None:
        self.endpoint = endpoint
        self._host = host_of(endpoint)
        self._timeout = first_timeout
        self._connection: _Connection | None = None

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
        for is_last in (False, True):
            fresh = self._connection is None
            try:
                if self._connection is None:
                    self._connection = _Connection(self._host, timeout or self._timeout)
                reply, is_kept = self._connection.exchange(method, path, headers, body)
                if not is_kept:
                    self.close()
                self._timeout = _TIMEOUT
                return reply
            except (OSError, ValueError) as error:
                self.close()
                if fresh or is_last:
                    text = f"{self.endpoint} does not answer ({type(error).__name__}: {error})"
                    raise SourceTrouble(text, retry=30.0, blocked=True) from None
        raise AssertionError("not reached")

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class _Connection:
    """One connection, as much of HTTP/1.1 as a metadata service needs, or a ValueError."""

    def __init__(self, host: str, timeout: float) -> None:
        import socket

        name, colon, port = host.rpartition(":")
        is_named = bool(colon) and "]" not in port  # [::1] has colons of its own
        address = (name if is_named else host).strip("[]"), int(port) if is_named else 80
        self._host = host
        self._socket = socket.create_connection(address, timeout)
        self._reader = self._socket.makefile("rb")

    def close(self) -> None:
        self._reader.close()
        self._socket.close()

    def exchange(
        self, method: str, path: str, headers: dict[str, str], body: bytes | None
    ) -> tuple[Reply, bool]:
        """The answer, and whether the connection can be used again."""
        fields = {"Host": self._host, **headers}
        if body is not None:
            fields["Content-Length"] = str(len(body))
        lines = [
            f"{method} {path} HTTP/1.1",
            *(f"{name}: {value}" for name, value in fields.items()),
        ]
        self._socket.sendall(("\r\n".join(lines) + "\r\n\r\n").encode("ascii") + (body or b""))
        status = 100
        while status < 200:  # 1xx comes before the answer itself
            version, _, status_text = self._line().partition(" ")
            if not version.startswith("HTTP/1.") or not status_text[:3].isdigit():
                raise ValueError("the answer is not HTTP")
            status, answered = int(status_text[:3]), self._fields()
        is_kept = version != "HTTP/1.0" and answered.get("connection", "").lower() != "close"
        if "chunked" in answered.get("transfer-encoding", "").lower():
            content = self._chunks()
        elif (size := answered.get("content-length")) is not None:
            content = self._exactly(int(size))
        elif status in (204, 304):
            content = b""
        else:
            content, is_kept = self._reader.read(_LARGEST), False
        return Reply(
            status, content, _seconds(answered.get("retry-after")), answered.get("date")
        ), is_kept

    def _line(self) -> str:
        line = self._reader.readline(_LONGEST_LINE)
        if not line.endswith(b"\n"):
            raise ConnectionError("the connection was closed")
        return line.decode("latin-1").rstrip("\r\n")

    def _fields(self) -> dict[str, str]:
        fields: dict[str, str] = {}
        while line := self._line():
            name, _, value = line.partition(":")
            fields[name.strip().lower()] = value.strip()
            if len(fields) > _MOST_FIELDS:
                raise ValueError("too many header fields")
        return fields

    def _exactly(self, size: int) -> bytes:
        if not 0 <= size <= _LARGEST:
            raise ValueError(f"an answer of {size} bytes")
        content = self._reader.read(size)
        if len(content) < size:
            raise ConnectionError("the connection was closed in the answer")
        return content

    def _chunks(self) -> bytes:
        content = b""
        while size := int(self._line().partition(";")[0], 16):
            content += self._exactly(size)
            self._line()
            if len(content) > _LARGEST:
                raise ValueError("an answer without an end")
        self._fields()
        return content


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
