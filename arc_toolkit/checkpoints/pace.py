"""When to save: every so many steps, after so much time, or as often as wastes least; and whether a save still fits."""

from __future__ import annotations

import time
from contextlib import suppress

from arc_toolkit.checkpoints.interval import NOTICE_SECONDS, NOTICE_WORKS, best_interval
from arc_toolkit.durations import parse_seconds

# A save is only begun if it fits into the time that is left, with this much to spare.
_MARGIN = 1.5
_SHORTEST = 1.0  # seconds between saves with every="auto"
_FIRST = 60.0  # seconds to the first one, which tells how long a save takes
_REMEMBERED = 10


class Pace:
    """The time of the last saves, and what follows from it. `mean` is the time between evictions; `has_notices`:
    whether most of them leave time for a save."""

    def __init__(self, mean: float, *, has_notices: bool = False) -> None:
        self._mean, self._has_notices = mean, has_notices
        self._every: int | float | str = "auto"
        self._durations: list[float] = []
        self._last_time, self._last_step = time.monotonic(), -1

    def start(self, every: int | float | str, step: int) -> None:
        """Begin to count after this step. An int is a number of steps, a float or "10m" a time, "auto" the optimum."""
        self._every = _parse(every)
        self._last_time, self._last_step = time.monotonic(), step

    def saved(self, step: int, seconds: float) -> None:
        self._durations = [*self._durations[1 - _REMEMBERED :], seconds]
        self._last_time, self._last_step = time.monotonic(), step

    def failed(self, step: int) -> None:
        """Not again at the very next step."""
        self._last_time, self._last_step = time.monotonic(), step

    def due(self, step: int) -> bool:
        """Whether the interval is over."""
        if isinstance(self._every, int):
            return step - self._last_step >= self._every
        passed = time.monotonic() - self._last_time
        if isinstance(self._every, float):
            return passed >= self._every
        if not self._durations:
            return passed >= _FIRST
        return passed >= self.interval

    @property
    def interval(self) -> float:
        """Seconds between saves with "auto", after the first one: what `arc-toolkit cost` computes, with the time that
        saves took here."""
        noticed = NOTICE_WORKS if self._has_notices and self.fits(NOTICE_SECONDS) else 0.0
        return max(best_interval(self.save_seconds, self._mean, noticed), _SHORTEST)

    def fits(self, seconds: float) -> bool:
        """Whether a save takes less than that, by the slowest of the last ten and a margin."""
        return seconds > max(self._durations, default=0.0) * _MARGIN

    @property
    def save_seconds(self) -> float:
        """The mean of the last ten saves; 0 before the first."""
        return sum(self._durations) / len(self._durations) if self._durations else 0.0


def _parse(every: int | float | str) -> int | float | str:
    if every == "auto" or (isinstance(every, int | float) and every > 0):
        return every
    if isinstance(every, str) and not every.isdigit():
        with suppress(ValueError):
            return parse_seconds(every)
    raise ValueError(f'every={every!r}: use a number of steps, a time such as "10m", or "auto"')
