"""Times as seconds since the epoch: from Kubernetes, from logs, and back to text for people."""

from __future__ import annotations

import re
from datetime import UTC, datetime

# `Tue Jul 13 16:02:22 UTC 2021`, as `date` prints it in the C locale.
DATE_LINE = re.compile(
    rb"[A-Z][a-z]{2} ([A-Z][a-z]{2}) {1,2}(\d{1,2}) (\d\d):(\d\d):(\d\d) (?:UTC|GMT) (\d{4})"
)
# `2021-07-13 16:03:07`, `2021-07-13T16:03:07.123Z`, `2021-07-13T16:03:07+00:00`
STAMP = re.compile(rb"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,]\d{1,9})?(Z|[+-]\d\d:?\d\d)?")
_MONTHS = {
    name: number
    for number, name in enumerate(
        b"Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(), start=1
    )
}


def parse(text: object) -> float | None:
    """A Kubernetes time (RFC 3339). Anything else is an unknown time, never an error."""
    if not isinstance(text, str):
        return None
    try:
        value = datetime.fromisoformat(text)
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def from_stamp(match: re.Match[bytes]) -> float | None:
    """A match of STAMP; without a zone it is UTC, which containers use."""
    date, clock, zone = match.groups()
    return parse(f"{date.decode()}T{clock.decode()}{(zone or b'Z').decode()}")


def from_date_line(match: re.Match[bytes]) -> float | None:
    """A match of DATE_LINE."""
    month, day, hour, minute, second, year = match.groups()
    try:
        moment = datetime(
            int(year), _MONTHS[month], int(day), int(hour), int(minute), int(second), tzinfo=UTC
        )
    except (KeyError, ValueError):
        return None
    return moment.timestamp()


def iso(value: float | None) -> str | None:
    """`2026-07-01T10:00:00Z`, for machines."""
    if value is None:
        return None
    try:
        return datetime.fromtimestamp(value, UTC).isoformat()[:19] + "Z"
    except (ValueError, OverflowError, OSError):
        return None


def short(value: float | None) -> str:
    """`2026-07-01 10:00`, for people; `-` when unknown."""
    text = iso(value)
    return text[:16].replace("T", " ") if text else "-"


def duration(seconds: float) -> str:
    """`3h 05m`, `2m 10s`, `4.2 s`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes:02d}m" if hours else f"{minutes}m {rest:02d}s"
