"""What happened to an elastic run, and what it cost: events for people and programs, and the summary at the end."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

SCHEMA = "arc-toolkit/elastic/v1"


@dataclass
class Timeline:
    """The events of a run in order, and where its time went. All times are of one clock."""

    name: str
    clock: Callable[[], float] = time.time
    events: list[dict[str, Any]] = field(default_factory=list)
    lost: dict[str, float] = field(default_factory=dict)
    trained: float = 0.0
    steps_redone: int = 0
    evictions: int = 0
    failures: int = 0
    began: float = 0.0
    _last_step: int = -1
    _last_step_time: float | None = None
    _stalled_for: str = "start"

    def __post_init__(self) -> None:
        self.began = self.clock()

    def add(self, event: str, **fields: Any) -> None:
        self.events.append({"time": round(self.clock(), 3), "event": event, **fields})

    def progress(self, step: int, first: int) -> None:
        """The run has done this step. `first` is the one that its processes began with: it shows what is done again."""
        now = self.clock()
        if self._stalled_for:
            since = self._last_step_time if self._last_step_time is not None else self.began
            seconds = now - since
            self.lost[self._stalled_for] = self.lost.get(self._stalled_for, 0.0) + seconds
            redone = max(0, self._last_step - first + 1)
            self.steps_redone += redone
            self.add("resumed", step=first, stall=round(seconds, 3), cause=self._stalled_for, steps_redone=redone)
            self._stalled_for = ""
        elif self._last_step_time is not None:
            self.trained += now - self._last_step_time
        self._last_step, self._last_step_time = step, now

    def stall(self, cause: str) -> None:
        """The ranks do not train any more, because of this."""
        # What looked like the failure of a rank may turn out to be the loss of its peer's node.
        if self._stalled_for in ("", "failure"):
            self._stalled_for = cause

    def summary(self, outcome: str, code: int) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "name": self.name,
            "outcome": outcome,
            "code": code,
            "seconds": round(self.clock() - self.began, 3),
            "seconds_trained": round(self.trained, 3),
            "seconds_lost": {cause: round(value, 3) for cause, value in sorted(self.lost.items())},
            "steps": self._last_step + 1,
            "steps_redone": self.steps_redone,
            "evictions_survived": self.evictions,
            "failures": self.failures,
        }
