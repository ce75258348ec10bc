"""The lines that `arc-toolkit run` writes about what it saw. `diagnose` reads them as evidence.

    arc-toolkit-run 2026-03-03T09:38:17Z notice kind=preempt source=azure deadline=2026-03-03T09:38:47Z

One line per event: a prefix to search for, a time, a word, and fields without spaces.
"""

from __future__ import annotations

import time

TYPE_CHECKING = False  # `typing` alone takes as long to import as all the rest
if TYPE_CHECKING:
    from typing import Any

PREFIX = "arc-toolkit-run "


def utc(seconds: float) -> str:
    """A Unix time as text."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def run_line(event: str, /, **fields: Any) -> str:
    """One line. Fields that are None are left out; spaces in a value become `_`."""
    words = [f"{name}={'_'.join(str(value).split())}" for name, value in fields.items() if value is not None]
    return " ".join([f"{PREFIX}{utc(time.time())} {event}", *words])
