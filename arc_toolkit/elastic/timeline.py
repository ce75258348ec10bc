"""The events of an elastic run and its costs, for people and programs, and the summary."""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

_SAVE_SECONDS = 2.0


@dataclass
class Totals:
    """Where the time of a run went. What a controller that comes back has to know."""

    began: float
    events: list[dict[str, Any]] = field(default_factory=list)
    lost: dict[str, float] = field(default_factory=dict)
    trained: float = 0.0
    steps_redone: int = 0
    # a node may be there several times, if notices were withdrawn
    evicted: list[str] = field(default_factory=list)
    failures: int = 0
    last_step: int = -1
    last_step_time: float | None = None
    stalled_for: str = "start"
    # Of a script that reports no steps: since when its ranks run or not, how long, and why.
    since: float | None = None
    is_running: bool = False
    ran: float = 0.0
    waits_for: str = "start"
    waited: dict[str, float] = field(default_factory=dict)


class Timeline:
    """The events of a run in order, and where its time went. All times are of one clock."""

    def __init__(
        self, name: str, clock: Callable[[], float] = time.time, path: Path | None = None
    ) -> None:
        """With `path` all of it is also in a file; `restore` reads it again."""
        self.name, self._clock, self._path = name, clock, path
        self.totals = Totals(began=clock())
        self._saved = 0.0
        self._doomed: set[str] = set()

    @property
    def events(self) -> list[dict[str, Any]]:
        return self.totals.events

    @property
    def evictions(self) -> int:
        return len(self.totals.evicted)

    @property
    def failures(self) -> int:
        return self.totals.failures

    @property
    def steps_redone(self) -> int:
        return self.totals.steps_redone

    @property
    def last_generation(self) -> int:
        return max(
            (event["generation"] for event in self.events if event["event"] == "start"), default=0
        )

    def add(self, event: str, **fields: Any) -> None:
        self.events.append({"time": round(self._clock(), 3), "event": event, **fields})
        self._save()

    def progress(self, step: int, first: int) -> None:
        """The run has done this step. `first`, where its processes began, shows repeated work."""
        now, totals = self._clock(), self.totals
        if totals.stalled_for:
            since = totals.last_step_time if totals.last_step_time is not None else totals.began
            seconds = now - since
            totals.lost[totals.stalled_for] = totals.lost.get(totals.stalled_for, 0.0) + seconds
            redone = max(0, totals.last_step - first + 1)
            totals.steps_redone += redone
            cause, totals.stalled_for = totals.stalled_for, ""
            self.add(
                "resumed", step=first, stall=round(seconds, 3), cause=cause, steps_redone=redone
            )
        elif totals.last_step_time is not None:
            totals.trained += now - totals.last_step_time
        totals.last_step, totals.last_step_time = step, now
        if now - self._saved > _SAVE_SECONDS:
            self._save()

    def run(self) -> None:
        """Ranks were started."""
        now, totals = self._clock(), self.totals
        if not totals.is_running:
            since = totals.since if totals.since is not None else totals.began
            totals.waited[totals.waits_for] = totals.waited.get(totals.waits_for, 0.0) + now - since
            totals.since, totals.is_running, totals.waits_for = now, True, ""

    def stall(self, cause: str) -> None:
        """The ranks do not train any more, because of this."""
        totals = self.totals
        if totals.is_running:
            totals.ran, totals.since, totals.is_running = self._ran(), self._clock(), False
        # What looked like the failure of a rank may turn out to be the loss of its peer's node.
        if totals.stalled_for in ("", "failure"):
            totals.stalled_for = cause
        if totals.waits_for in ("", "failure"):
            totals.waits_for = cause

    def _ran(self) -> float:
        totals = self.totals
        return totals.ran + (
            self._clock() - totals.since if totals.is_running and totals.since else 0.0
        )

    def evict(self, node: str) -> None:
        """A node with ranks is evicted. A notice and the loss that follows it are one eviction."""
        if node not in self._doomed:
            self._doomed.add(node)
            self.totals.evicted.append(node)

    def withdraw(self, node: str) -> None:
        """The node stays after all; another notice is another eviction."""
        self._doomed.discard(node)
        self.add("withdrawn", node=node)

    def fail(self, rank: int, code: int) -> None:
        self.totals.failures += 1
        self.add("failed", rank=rank, code=code)

    def excuse(self, node: str) -> None:
        """What was counted as the failure of a rank was the loss of this node."""
        self.totals.failures -= 1
        self.add("excused", node=node)

    def summary(
        self, outcome: str, code: int, rates: Mapping[int, float], unit: str
    ) -> dict[str, Any]:
        totals = self.totals
        trained, lost, cause, since = (
            totals.trained,
            dict(totals.lost),
            totals.stalled_for,
            totals.last_step_time,
        )
        if totals.last_step < 0:
            trained, lost, since = self._ran(), dict(totals.waited), totals.since
            cause = "" if totals.is_running else totals.waits_for
        if cause not in ("", "cancelled"):  # it has not ended
            lost[cause] = (
                lost.get(cause, 0.0) + self._clock() - (totals.began if since is None else since)
            )
        return {
            "name": self.name,
            "outcome": outcome,
            "code": code,
            "seconds": round(self._clock() - totals.began, 3),
            "seconds_trained": round(trained, 3),
            "seconds_lost": {cause: round(value, 3) for cause, value in sorted(lost.items())},
            "steps": totals.last_step + 1,
            "steps_redone": totals.steps_redone,
            "evictions_survived": self.evictions,
            "failures": totals.failures,
            "throughput": {str(size): round(rate, 3) for size, rate in sorted(rates.items())},
            "throughput_unit": f"{unit} per second",
        }

    def restore(self) -> None:
        """Go on after another controller; a missing or incomplete file is a new beginning."""
        try:
            self.totals = Totals(**json.loads((self._path or Path()).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return
        self._doomed = set(self.totals.evicted)

    def _save(self) -> None:
        """A run does not end because its history cannot be written."""
        self._saved = self._clock()
        if self._path is None:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            temporary = self._path.with_suffix(".new")
            temporary.write_text(json.dumps(asdict(self.totals)), encoding="utf-8")
            os.replace(temporary, self._path)
        except OSError:
            return


def status_line(state: dict[str, Any]) -> str:
    """`3 workers on 4 nodes, step 7, 2.0 steps/s, saved 5`"""
    parts = [f"{state['workers']} workers on {state['nodes']} nodes"]
    if state["step"] is not None:
        parts.append(f"step {state['step']}")
    if state["throughput"] and state["throughput_unit"] == "samples":
        parts.append(f"{state['throughput']:.1f} samples/s")
    elif state["steps_per_second"]:
        parts.append(f"{state['steps_per_second']:.1f} steps/s")
    if state["checkpoint"] is not None:
        parts.append(f"saved {state['checkpoint']}")
    if state["doomed"]:
        parts.append(f"{state['doomed']} with a notice")
    if state["stopping"]:
        parts.append(f"stopping: {state['stopping']}")
    return ", ".join(parts)


def summary_line(summary: dict[str, Any]) -> str:
    """Where the time of a run went, in one sentence."""
    lost = ", ".join(
        f"{cause} {seconds:.1f} s" for cause, seconds in summary["seconds_lost"].items()
    )
    verb = "trained" if summary["steps"] else "no steps were reported, its ranks ran"
    return (
        f"{summary['outcome']}: {verb} {summary['seconds_trained']:.1f} s "
        f"of {summary['seconds']:.1f} s "
        f"(lost: {lost or 'nothing'}), {summary['steps_redone']} steps redone, "
        f"{summary['evictions_survived']} evictions survived, {summary['failures']} failures"
    )


_MAX_LINES = 10_000


class OutputLog:
    """The newest lines, each with its rank. A client says how many lines it has read."""

    def __init__(self, max_lines: int = _MAX_LINES) -> None:
        self._lines: deque[tuple[int | None, str]] = deque(maxlen=max_lines)
        self.count = 0

    def add(self, rank: int | None, text: str) -> None:
        self._lines.append((rank, text))
        self.count += 1

    def lines_since(self, count: int) -> list[tuple[int | None, str]]:
        """Lines after the first `count`, as far as they are kept."""
        lines = list(self._lines)
        return lines[max(0, len(lines) - max(0, self.count - count)) :]
