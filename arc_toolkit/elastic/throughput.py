"""What a number of workers achieves, and whether another worker pays."""

from __future__ import annotations

from collections.abc import Mapping

from arc_toolkit.notices.sources.notice_file import ProgressRecord

MEASURE_SECONDS = 5.0
# Two reports a moment apart show no speed: ranks would stop thousands of steps later.
_SPEED_SECONDS = 0.5


class Throughput:
    """Samples per second for every number of workers that was tried.

    A script that reports steps only is taken to process one batch per worker in each of them; of
    one that reports nothing, nothing is known.
    """

    def __init__(self) -> None:
        self.rates: dict[int, float] = {}
        self.unit = "steps"
        self.steps_per_second = 0.0
        self.size = 0  # of the generation that runs now, or ran last
        self._began: tuple[float, int, int] | None = None
        self._last: tuple[float, int, int] = (0.0, -1, 0)  # the newest step

    def begin(self, size: int) -> None:
        """Other workers from now on."""
        self.size, self._began, self.steps_per_second = size, None, 0.0

    def update(self, progress: Mapping[int, ProgressRecord], now: float) -> None:
        """Measured from when every worker has done a step: the first one is not like the others.

        A measurement ends with a step: in the middle of a long one it would be too low.
        """
        if len(progress) < self.size or 0 not in progress:
            return
        step, samples = progress[0].step, sum(record.samples for record in progress.values())
        if self._began is None:
            self._began = self._last = now, step, samples
            return
        if (step, samples) == self._last[1:]:
            return
        self._last = now, step, samples
        seconds = now - self._began[0]
        if seconds < _SPEED_SECONDS:
            return
        self.steps_per_second = (step - self._began[1]) / seconds
        if seconds < MEASURE_SECONDS:
            return
        if samples:
            if self.unit == "steps":
                self.unit, self.rates = "samples", {}
            self.rates[self.size] = (samples - self._began[2]) / seconds
        else:
            self.rates[self.size] = self.steps_per_second * self.size

    @property
    def measured_seconds(self) -> float:
        """How long these workers have trained, up to their newest step; 0 before all did one."""
        return self._last[0] - self._began[0] if self._began is not None else 0.0


def worth_growing(
    rates: Mapping[int, float],
    now: int,
    target: int,
    *,
    threshold: float = 0.5,
    least_gain: float = 0.05,
) -> bool:
    """Whether `target` workers instead of `now` are expected to pay.

    `rates` has the throughput that was measured per number of workers. As in AdaptDL, the
    efficiency against the smallest measured size must stay above the threshold, and small gains are
    ignored. With a threshold of 0 every worker pays.
    """
    measured = {size: rate for size, rate in sorted(rates.items()) if rate > 0}
    if target <= now or threshold == 0 or not measured:
        return target > now
    base, expected = min(measured), _expected_rate(measured, target)
    efficiency = (expected / target) / (measured[base] / base)
    return expected > (1 + least_gain) * _expected_rate(measured, now) and efficiency >= threshold


def _expected_rate(measured: Mapping[int, float], size: int) -> float:
    """The throughput of a size, on the line through the two nearest measured ones.

    Without two, nothing speaks against one that grows with the number of workers.
    """
    sizes = list(measured)
    place = sum(item <= size for item in sizes)
    if len(sizes) == 1 or place == 0:
        return measured[sizes[0]] * size / sizes[0]
    before, after = sizes[place - 1 : place + 1] if place < len(sizes) else sizes[-2:]
    return measured[before] + (measured[after] - measured[before]) / (after - before) * (
        size - before
    )


def size_that_pays(rates: Mapping[int, float], now: int, most: int, threshold: float) -> int:
    """How many workers to have: more if that should pay, fewer if the last ones did not."""
    sizes = range(most, now, -1)
    larger = (size for size in sizes if worth_growing(rates, now, size, threshold=threshold))
    return next(larger, _smaller_size(rates, now, threshold))


def _smaller_size(rates: Mapping[int, float], now: int, threshold: float) -> int:
    """The next smaller measured size, if these workers achieve no more, or too little each.

    Not as strict as for growing, so that a run does not go back and forth.
    """
    smaller = max((size for size, rate in rates.items() if size < now and rate > 0), default=now)
    if smaller == now or rates.get(now, 0.0) <= 0:
        return now
    pays = worth_growing(rates, smaller, now, threshold=0.9 * threshold, least_gain=0.0)
    return now if pays else smaller
