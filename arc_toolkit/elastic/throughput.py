"""What a number of workers achieves, and whether another worker pays."""

from __future__ import annotations

from collections.abc import Mapping

from arc_toolkit.notices.sources.notice_file import ProgressRecord

_MEASURE_SECONDS = 5.0
# Two reports a moment apart do not show a speed: ranks would be asked to stop thousands of steps later.
_SPEED_SECONDS = 0.5


class Throughput:
    """Samples per second for every number of workers that was tried.

    A script that reports steps only is taken to process one batch per worker in each of them; of one that reports
    nothing, nothing is known.
    """

    def __init__(self) -> None:
        self.rates: dict[int, float] = {}
        self.unit = "steps"
        self.steps_per_second = 0.0
        self._size = 0
        self._began: tuple[float, int, int] | None = None

    def begin(self, size: int) -> None:
        """Other workers from now on."""
        self._size, self._began, self.steps_per_second = size, None, 0.0

    def update(self, progress: Mapping[int, ProgressRecord], now: float) -> None:
        """Measured from the moment on at which every worker has done a step: the first one is not like the others."""
        if len(progress) < self._size or 0 not in progress:
            return
        step, samples = progress[0].step, sum(record.samples for record in progress.values())
        if self._began is None:
            self._began = now, step, samples
            return
        seconds = now - self._began[0]
        if seconds < _SPEED_SECONDS:
            return
        self.steps_per_second = (step - self._began[1]) / seconds
        if seconds < _MEASURE_SECONDS:
            return
        if samples:
            if self.unit == "steps":
                self.unit, self.rates = "samples", {}
            self.rates[self._size] = (samples - self._began[2]) / seconds
        else:
            self.rates[self._size] = self.steps_per_second * self._size

    def measured_seconds(self, now: float) -> float:
        """How long these workers have been training; 0 before all have done a step."""
        return now - self._began[0] if self._began is not None else 0.0


def worth_growing(
    rates: Mapping[int, float], now: int, wanted: int, *, threshold: float = 0.5, least_gain: float = 0.05
) -> bool:
    """Whether `wanted` workers instead of `now` are expected to pay.

    `rates` has the throughput that was measured per number of workers. Without measurements of two sizes nothing speaks
    against growing. The expected rate of a larger size follows from the last measured gain per worker. As in AdaptDL,
    the efficiency against the smallest measured size must stay above the threshold, and small gains are ignored.
    """
    if wanted <= now:
        return False
    known = sorted(size for size, rate in rates.items() if rate > 0)
    if wanted in known and now in known:
        expected, last = rates[wanted], now
    elif len(known) < 2 or now != known[-1]:
        return True
    else:
        before, last = known[-2], known[-1]
        slope = (rates[last] - rates[before]) / (last - before)
        expected = rates[last] + slope * (wanted - last)
    base = known[0]
    efficiency = (expected / wanted) / (rates[base] / base)
    return expected / rates[last] - 1 > least_gain and efficiency >= threshold


def largest_that_pays(rates: Mapping[int, float], now: int, most: int, threshold: float) -> int:
    """For how many workers to ask."""
    sizes = range(most, now, -1)
    return next((size for size in sizes if worth_growing(rates, now, size, threshold=threshold)), now)
