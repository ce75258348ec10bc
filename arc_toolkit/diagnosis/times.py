"""Times in seconds since the epoch, from Kubernetes and logs, and the windows of `diagnose`."""

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


def parse_stamp(match: re.Match[bytes]) -> float | None:
    """A match of STAMP; without a zone it is UTC, which containers use."""
    date, clock, zone = match.groups()
    return parse(f"{date.decode()}T{clock.decode()}{(zone or b'Z').decode()}")


def parse_date_line(match: re.Match[bytes]) -> float | None:
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
    minutes, remainder = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes:02d}m" if hours else f"{minutes}m {remainder:02d}s"


# How far apart two facts may be if one explains the other, in seconds.

# A lost node is noticed after 40 s (50 s since Kubernetes 1.32), and its pods are deleted after 300
# s of toleration (node-monitor-grace-period, DefaultTolerationSeconds): the loss is up to 6 minutes
# before the end of the pod.
LOOK_BACK_SECONDS = 600
# So the other ranks of a gang may fail that long before the loss of one's node is noticed.
NOTICE_OF_LOSS_SECONDS = 90
# Reporters have their own clocks, and the kubelet reports a container's end seconds later.
LOOK_AHEAD_SECONDS = 60
# The checks of the node problem detector run every few minutes, so the fault that ended a job may
# be reported after it; AKS's own tests allow 6 minutes (AgentBaker e2e).
FAULT_REPORT_SECONDS = 360
# The OOM killer acts at once: a kill and its SystemOOM are in the same minute.
SAME_KILL_SECONDS = 60
# A process is asked to stop 30 s before its spot VM goes (Azure Scheduled Events, Preempt).
NOTICE_TO_END_SECONDS = 120
# A drain may take half an hour, and a VM that is scaled down some time until it is gone. A notice
# may also be recorded after the loss, because several watchers report it.
NOTICE_BEFORE_SECONDS = 3600
NOTICE_AFTER_SECONDS = 900
# A node that is NotReady is deleted some seconds after its VM was (cloud-provider node lifecycle
# controller); if it takes longer, the node was lost first.
DELETION_SECONDS = 300
# After a start the kubelet may admit pods before the device plugin has registered its GPUs.
START_UP_SECONDS = 600
# A fault this long before the pod, with which the pod then ran this long, is harmless.
HARMLESS_SECONDS = 3600
# Without a known end: the last hour before the next attempt, or a day after its start.
BEFORE_RETRY_SECONDS = 3600
OPEN_WINDOW_SECONDS = 86400


def is_within(time: float | None, moment: float | None, before: float, after: float) -> bool:
    """Whether a time is at most so long before or after a moment; both have to be known."""
    return time is not None and moment is not None and -before <= time - moment <= after
