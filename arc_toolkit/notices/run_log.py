"""The lines that `arc-toolkit run` writes about what it saw. `diagnose` reads them as evidence.

    arc-toolkit-run 2026-03-03T09:38:17Z notice kind=preempt source=azure deadline=2026-...

One line per event: a prefix to search for, a time, a word, and fields without spaces.
"""

from __future__ import annotations

import calendar
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
    words = [
        f"{name}={'_'.join(str(value).split())}"
        for name, value in fields.items()
        if value is not None
    ]
    return " ".join([f"{PREFIX}{utc(time.time())} {event}", *words])


class RunRecord:
    """The lines of one process: where it started, its notice, if any, and its end."""

    __slots__ = (
        "code",
        "end",
        "node",
        "notice",
        "notice_source",
        "notice_time",
        "reason",
        "saved",
        "start",
        "step",
    )

    def __init__(self) -> None:
        self.node: str | None = None
        self.start: float | None = None
        self.notice = self.notice_source = self.reason = ""
        self.notice_time: float | None = None
        self.end: float | None = None
        self.code: int | None = None
        self.step: int | None = None
        self.saved: int | None = None

    @property
    def is_evicted(self) -> bool:
        """Ended for a notice; or the log ends after one, because the machine was faster."""
        return self.reason == "evicted" or (bool(self.notice) and self.end is None)

    @property
    def steps_lost(self) -> int | None:
        """Between the last step and the newest checkpoint; None if one of them is not known."""
        return None if self.step is None or self.saved is None else max(0, self.step - self.saved)


def read_runs(text: str) -> dict[str, list[RunRecord]]:
    """The records of each writer, in order; "" has no prefix. Unreadable lines are skipped."""
    writers: dict[str, list[RunRecord]] = {}
    for line in text.split("\n"):  # a progress bar before it ends with a carriage return
        at = line.find(PREFIX)
        words = line[at + len(PREFIX) :].split() if at >= 0 else []
        moment = _seconds(words[0]) if len(words) > 1 else None
        if moment is not None:
            fields = dict(word.partition("=")[::2] for word in words[2:])
            _add(writers.setdefault(_writer(line[:at]), []), words[1], moment, fields)
    return writers


def read_run(text: str) -> RunRecord | None:
    """The record of the last process in a log; None if there is no line of it."""
    writers = list(read_runs(text).values())
    return writers[-1][-1] if writers else None


def _add(records: list[RunRecord], event: str, moment: float, fields: dict[str, str]) -> None:
    if not records or (event == "start" and "generation" not in fields):
        records.append(RunRecord())
    record = records[-1]
    if event == "start":
        record.node, record.start = fields.get("node", record.node), record.start or moment
        record.notice = ""  # the next generation of `elastic`: the notice before it was not the end
    elif event == "notice":
        record.notice, record.notice_source = fields.get("kind", ""), fields.get("source", "")
        record.notice_time = moment
    elif event == "withdrawn":
        record.notice = ""
    elif event == "end" and record.end is None:  # a second one is that of the pause after a crash
        record.reason, record.end = fields.get("reason", ""), moment
        record.code = _number(fields.get("code"))
    record.step = _number(fields.get("step")) if "step" in fields else record.step
    record.saved = _number(fields.get("saved")) if "saved" in fields else record.saved
    if event == "saved":
        record.saved = _number(fields.get("step"))


def _writer(before: str) -> str:
    """The pod in `[pod/NAME/CONTAINER] ` of `kubectl logs --prefix`."""
    at = before.find("[pod/")
    end = before.find("]", at)
    return before[at + len("[pod/") : end].partition("/")[0] if 0 <= at < end else ""


def _seconds(text: str) -> float | None:
    try:
        return float(calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ")))
    except ValueError:
        return None


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.lstrip("-").isdigit() else None
