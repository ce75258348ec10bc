"""Restarts in a run's metrics: a step that goes backwards after a pause.

AzureML gives a retried job the same run id, so its metrics continue in the same series and the step counter shows where
work was repeated. This finds that a run was restarted, not why. It uses steps and times only: the *values* of metrics
(loss spikes, cyclic learning rates) are ignored, except those of `epoch`, which is a counter.

A restart that resumes exactly after the last logged step leaves no trace in a step counter and is not found.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import isfinite
from statistics import median
from typing import TYPE_CHECKING

from arc_toolkit.diagnosis.model import Confidence, Restart
from arc_toolkit.errors import ArcError
from arc_toolkit.output.safe import show_source

if TYPE_CHECKING:
    from arc_toolkit.diagnosis.sources.metric_points import Point

# The rule: a new segment starts if the step is not above the highest so far and the pause before is longer than this.
SHORTEST_GAP_SECONDS = 60.0
GAP_IN_INTERVALS = 5.0  # times the median interval between points of that key

# A drop to the first step by at least this many log intervals is a reset of the counter, with or without a pause.
RESET_DEPTH_INTERVALS = 3

# Keys whose values count, for runs that log every step as 0.
COUNTERS = ("epoch", "step", "global_step", "iteration", "trainer/global_step")


@dataclass(frozen=True, slots=True)
class MetricScan:
    """The restarts in one source of metrics, and how much data it has: to find no restart is a result too."""

    restarts: list[Restart]
    runs: int
    points: int


def scan_metrics(source: str) -> MetricScan:
    """The restarts in a CSV or JSON file (`-`: standard input) or in `mlflow:URI#RUN`, oldest first."""
    from arc_toolkit.diagnosis.sources.metric_points import read_points

    runs = read_points(source)
    source = show_source(source)
    restarts = [item for run, points in runs.items() for item in restarts_in(run, points, source=source)]
    if not restarts and not any(_all_series(points) for points in runs.values()):
        raise ArcError(
            f"{source}: every metric has the same step at all points and no metric is called epoch, "
            "so restarts cannot be found: log with step=..."
        )
    restarts.sort(key=lambda item: (item.time, item.run))
    return MetricScan(restarts, len(runs), sum(map(len, runs.values())))


def restarts_in(run: str, points: Iterable[Point], source: str = "") -> list[Restart]:
    """The restarts of one run."""
    points = list(points)
    all_series = _all_series(points)
    epochs = _epoch_values(points)
    result: list[_Hit] = []
    for series in all_series:
        for drop in _candidates(series, epochs):
            witnesses = [other for other in all_series if other is not series]
            agreeing = [other.key for other in witnesses if _agrees(other, drop)]
            if agreeing or not any(_has_a_say(other, drop, series) for other in witnesses):
                result.append((drop, series, (series.key, *agreeing)))
    return [_restart(run, group, epochs, source) for group in _same_time(result)]


# --- one key ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Drop:
    """Where a series starts again: between the point before `index` and the one at `index`."""

    index: int
    before: float  # time of the last point before
    after: float  # time of the first point after
    top: int  # highest step of the segment that ended
    step: int  # first step of the new segment
    gapped: bool  # the pause was long enough for a restart


@dataclass(slots=True)
class _Series:
    """One key in order of time, cut into segments."""

    key: str
    times: list[float]
    steps: list[int]
    stride: int = 1  # the usual distance between two logged steps
    interval: float = 0.0  # the usual time between two points
    jitter: int = -1  # the largest step backwards without a pause: several ranks, or batches out of order
    tops: list[int] = field(default_factory=list)  # highest step of the segment so far, at each point
    drops: list[_Drop] = field(default_factory=list)

    def __post_init__(self) -> None:
        times, steps = self.times, self.steps
        rises = [later - sooner for sooner, later in pairwise(steps) if later > sooner]
        self.stride = max(1, int(median(rises))) if rises else 1
        self.interval = median(b - a for a, b in pairwise(times))
        limit = max(SHORTEST_GAP_SECONDS, GAP_IN_INTERVALS * self.interval)
        top = steps[0]
        self.tops.append(top)
        for index in range(1, len(steps)):
            step, gap = steps[index], times[index] - times[index - 1]
            if step <= top:
                depth = top - step
                reset = self.near_first(step) and depth >= RESET_DEPTH_INTERVALS * self.stride
                if gap > limit or reset:
                    self.drops.append(_Drop(index, times[index - 1], times[index], top, step, gap > limit))
                    top = step
                else:
                    self.jitter = max(self.jitter, depth)
            top = max(top, step)
            self.tops.append(top)

    def near_first(self, step: int) -> bool:
        return step <= self.steps[0] + self.stride


_Hit = tuple[_Drop, _Series, tuple[str, ...]]  # and the keys that agree


def _all_series(points: Iterable[Point]) -> list[_Series]:
    """One series for each key with a step that changes; without any, the values of a counter such as `epoch`."""
    by_key: dict[str, list[Point]] = defaultdict(list)
    for point in points:
        by_key[point.key].append(point)
    usable, counters = [], []
    for key, of_key in by_key.items():
        # Stores guarantee no order. Of points with the same timestamp (a batch) the lower step is the earlier.
        of_key.sort(key=lambda point: (point.time, point.step))
        if len({point.step for point in of_key}) > 1:
            usable.append(_Series(key, [point.time for point in of_key], [point.step for point in of_key]))
        elif key.lower() in COUNTERS:
            counted = [(point.time, int(point.value)) for point in of_key if isfinite(point.value)]
            if len({value for _, value in counted}) > 1:
                counters.append(_Series(key, [time for time, _ in counted], [value for _, value in counted]))
    return usable or counters


def _candidates(series: _Series, epochs: _Epochs) -> list[_Drop]:
    """Drops that may be restarts: after a pause, larger than the usual jumps, and not at the end of an epoch."""
    regular = _regular_resets(series)
    result = []
    for drop in series.drops:
        if not drop.gapped or drop.top - drop.step <= series.jitter:
            continue
        turn = epochs.turn(drop, within=2 * series.interval) if series.near_first(drop.step) else None
        if turn == "on" or (drop in regular and turn != "back"):
            continue
        result.append(drop)
    return result


def _regular_resets(series: _Series) -> list[_Drop]:
    """Two or more resets to the first step after segments of equal length: a counter that starts with each epoch."""
    resets = [drop for drop in series.drops if series.near_first(drop.step)]
    full = max((drop.top for drop in resets), default=0)
    whole = [drop for drop in resets if full - drop.top <= series.stride]
    return whole if len(whole) >= 2 else []


# --- the epoch, if it is logged ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Epochs:
    times: Sequence[float] = ()
    values: Sequence[float] = ()

    def around(self, drop: _Drop, within: float) -> tuple[float, float] | None:
        """The epoch just before the drop and the first after it; None if it was not logged near enough."""
        last = bisect_right(self.times, drop.before) - 1
        first = bisect_left(self.times, drop.after)
        if last < 0 or first >= len(self.times) or drop.before - self.times[last] > within:
            return None
        return self.values[last], self.values[first]

    def turn(self, drop: _Drop, within: float) -> str | None:
        pair = self.around(drop, within)
        if pair is None or pair[0] == pair[1]:
            return None
        return "on" if pair[1] > pair[0] else "back"


def _epoch_values(points: Iterable[Point]) -> _Epochs:
    epochs = sorted(
        (point.time, point.value) for point in points if point.key.lower() == "epoch" and isfinite(point.value)
    )
    return _Epochs([time for time, _ in epochs], [value for _, value in epochs])


# --- all keys together ------------------------------------------------------------------------------------------


def _agrees(other: _Series, drop: _Drop) -> bool:
    """The other key goes backwards there too (it may be logged too rarely for a pause of its own)."""
    start = bisect_right(other.times, drop.before)
    stop = bisect_left(other.times, drop.after) + 1
    indexes = range(max(1, start), min(stop, len(other.steps)))
    return any(other.tops[index - 1] - other.steps[index] > other.jitter for index in indexes)


def _has_a_say(other: _Series, drop: _Drop, series: _Series) -> bool:
    """The other key counts the same steps, had logged some that a restart would repeat, and continues after it."""
    last = bisect_right(other.times, drop.before) - 1
    if last < 0 or last + 1 >= len(other.steps):
        return False
    return drop.step < other.tops[last] <= drop.top + series.stride


def _same_time(result: list[_Hit]) -> list[list[_Hit]]:
    """Drops of different keys whose pauses overlap are one restart."""
    groups: list[list[_Hit]] = []
    end = float("-inf")
    for item in sorted(result, key=lambda item: (item[0].before, item[0].after)):
        if groups and item[0].before < end:
            groups[-1].append(item)
            end = min(end, item[0].after)
        else:
            groups.append([item])
            end = item[0].after
    return groups


def _restart(run: str, group: list[_Hit], epochs: _Epochs, source: str) -> Restart:
    """The figures come from the key with the most points, which has the most exact times."""
    drop, series, _ = max(group, key=lambda item: len(item[1].steps))
    keys = tuple(sorted({key for _, _, keys in group for key in keys}))
    from_scratch = series.near_first(drop.step)
    confidence: Confidence = "high" if len(keys) > 1 else "medium"
    if from_scratch and _regular_resets(series):
        # The counter starts with each epoch, so only the epoch shows where the run continued.
        pair = epochs.around(drop, within=2 * series.interval)
        from_scratch = pair is None or pair[1] <= epochs.values[0]
        confidence = "low"
    return Restart(
        run=run,
        time=drop.after,
        kind="from-scratch" if from_scratch else "resumed",
        last_step=drop.top,
        first_step=drop.step,
        lost_steps=drop.top - drop.step,
        lost_seconds=drop.after - _first_reached(series, drop),
        gap_seconds=drop.after - drop.before,
        keys=keys,
        confidence=confidence,
        source=source,
    )


def _first_reached(series: _Series, drop: _Drop) -> float:
    """When the run first reached the step of the restart."""
    starts = [0, *[item.index for item in series.drops if item.index < drop.index]]
    for start, stop in zip(reversed(starts), [drop.index, *reversed(starts)], strict=False):
        # A segment that started after that step continued the work of the segment before it.
        if series.steps[start] <= drop.step or start == 0:
            for index in range(start, stop):
                if series.steps[index] >= drop.step:
                    return series.times[index]
    return series.times[0]
