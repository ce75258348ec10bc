"""When to save: by steps, by time, or as often as wastes least; and whether a save still fits.

Saving more often costs saves, saving less often costs work that is done again: to first order the
sum is least at sqrt(2 C M) (Young 1974); Daly (2006) has the next terms. An eviction whose notice
is used for a save loses no work, so only those without one count for the interval.
"""

from __future__ import annotations

import math
import time
from contextlib import suppress

from arc_toolkit.durations import parse_seconds

# The lowest and the highest of Azure's published bands of eviction rates are 0-5 % and 20+ % per
# hour; 10 % is assumed unless the caller knows better.
EVICTIONS_PER_HOUR = 0.10
NOTICE_SECONDS = 30.0  # Azure's Scheduled Events announce Preempt at least 30 s before, best effort
NOTICE_WORKS = 0.9  # assumed: Azure publishes no figure for "best effort"


def mean_seconds(evictions_per_hour: float, nodes: int = 1) -> float:
    """Seconds between evictions of any node of a job. A rate is a probability per hour and node."""
    if not 0 < evictions_per_hour < 1 or nodes < 1:
        raise ValueError(
            f"a rate between 0 and 1 and at least one node, not {evictions_per_hour} and {nodes}"
        )
    return 3600 / (-math.log1p(-evictions_per_hour) * nodes)


def best_interval(save_seconds: float, mean: float, noticed: float = 0.0) -> float:
    """Seconds of work between saves that waste least, by Young; `noticed`: share saved in time.

    Infinite if every eviction leaves time for a save, or if there are none.
    """
    return (
        math.sqrt(2 * max(save_seconds, 0.0) * _mean_between_losses(mean, noticed))
        if save_seconds > 0
        else 0.0
    )


def daly_interval(save_seconds: float, mean: float, noticed: float = 0.0) -> float:
    """The same with Daly's next terms, for a save of more than a few percent of the mean."""
    between = _mean_between_losses(mean, noticed)
    if math.isinf(between):
        return best_interval(save_seconds, mean, noticed)
    if save_seconds >= 2 * between:
        return between
    part = math.sqrt(save_seconds / (2 * between))
    return (
        best_interval(save_seconds, mean, noticed) * (1 + part / 3 + part * part / 9) - save_seconds
    )


def _mean_between_losses(mean: float, noticed: float) -> float:
    return mean / (1 - noticed) if noticed < 1 else math.inf


# A save is only begun if it fits into the time that is left, with this much to spare.
_MARGIN = 1.5
_SHORTEST = 1.0  # seconds between saves with every="auto"
_FIRST = 60.0  # seconds to the first one, which tells how long a save takes
_REMEMBERED = 10


class SaveSchedule:
    """The time of the last saves, and what follows from it. `mean` is the time between evictions;
    `has_notices`: whether most of them leave time for a save."""

    def __init__(self, mean: float, *, has_notices: bool = False) -> None:
        self._mean, self._has_notices = mean, has_notices
        self._every: int | float | str = "auto"
        self._durations: list[float] = []
        self._last_time, self._last_step = time.monotonic(), -1

    def start(self, every: int | float | str, step: int) -> None:
        """Begin to count after this step. An int counts steps, a float or "10m" is a time."""
        self._every = _parse(every)
        self._last_time, self._last_step = time.monotonic(), step

    def note_save(self, step: int, seconds: float) -> None:
        self._durations = [*self._durations[1 - _REMEMBERED :], seconds]
        self._last_time, self._last_step = time.monotonic(), step

    def note_failure(self, step: int) -> None:
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
        """Seconds between saves with "auto", after the first one: what `arc-toolkit cost` computes,
        with the time that saves took here."""
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
