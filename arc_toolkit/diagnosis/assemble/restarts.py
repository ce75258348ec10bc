"""Restarts in a run's metrics: a counter that goes back, or values that start over.

AzureML gives a retried job the same run id, so its metrics continue in the same series and the step
counter shows where work was repeated. This finds that a run was restarted, not why. Steps and the
values of `epoch` are counters; if no counter goes back, value_jumps.py looks for values that start
over.

A restart that resumes exactly after the last logged step leaves no trace in a step counter and is
not found.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import isfinite
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from arc_toolkit.diagnosis.assemble import value_jumps
from arc_toolkit.diagnosis.assemble.value_jumps import Trend
from arc_toolkit.diagnosis.model import Confidence, MetricLimit, Restart
from arc_toolkit.output.redaction import show_source

if TYPE_CHECKING:
    from arc_toolkit.diagnosis.read.sources.metric_points import Point


# A pause that can be a restart: longer than both.
SHORTEST_GAP_SECONDS = 60.0
GAP_IN_INTERVALS = 5.0  # times the median interval between points of that key

# A drop to the first step by this many log intervals is a reset, with or without a pause.
RESET_DEPTH_INTERVALS = 3
LOOK_AHEAD = 50  # points after a drop that are compared with the points before it
FEWEST_POINTS = 5  # of a key: with fewer, nothing can be seen

# Keys whose values count, for runs that log every step as 0. They may have a prefix: `train/epoch`.
COUNTERS = ("epoch", "step", "global_step", "iteration")
# MLflow's system metrics have a thread and a counter of their own that survive a restart.
SYSTEM_KEYS = "system/"


def longest_pause(clock: Sequence[float], before: float, after: float) -> float:
    """The longest time without any point of the run between two of its points."""
    times = clock[bisect_left(clock, before) : bisect_right(clock, after)]
    return max((later - sooner for sooner, later in pairwise(times)), default=0.0)


def pause_limit(times: Sequence[float]) -> float:
    """A pause that is longer can be a restart."""
    usual = median([later - sooner for sooner, later in pairwise(times)]) if len(times) > 1 else 0.0
    return max(SHORTEST_GAP_SECONDS, GAP_IN_INTERVALS * usual)


@dataclass(frozen=True, slots=True)
class CounterDrop:
    """Where a series starts again: between the point before `index` and the one at `index`."""

    index: int
    before: float  # time of the last point before
    after: float  # time of the first point after
    top: float  # highest step of the segment that ended
    step: float  # first step of the new segment
    is_repeated: bool  # the points after it repeat the points before it


@dataclass(slots=True)
class CounterSeries:
    """One key in order of time, cut into segments. `by_value`: by values (epochs), not steps."""

    key: str
    times: list[float]
    steps: Sequence[float]
    by_value: bool = False
    defined: bool = True  # the counter can be shown as a step
    stride: float = 1  # the usual distance between two logged steps
    limit: float = 0.0  # a longer pause can be a restart
    # the largest step backwards without a pause: several ranks, or batches out of order
    jitter: float = -1
    # highest step of the segment so far, at each point
    tops: list[float] = field(default_factory=list)
    drops: list[CounterDrop] = field(default_factory=list)

    def __post_init__(self) -> None:
        times, steps = self.times, self.steps
        rises = [later - sooner for sooner, later in pairwise(steps) if later > sooner]
        self.stride = median(rises) if rises else 1
        self.limit = pause_limit(times)
        distinct_steps = sorted(set(steps))
        ever, segment = defaultdict[float, int](int), defaultdict[float, int](int)
        top = steps[0]
        prompt: list[float] = []  # depths of drops without a pause
        for index, step in enumerate(steps):
            if index and (step < top or (step == top and not self.by_value)):
                is_repeated = self._repeats(index, top, distinct_steps, ever, segment)
                drop = CounterDrop(index, times[index - 1], times[index], top, step, is_repeated)
                depth = top - step
                gapped = drop.after - drop.before > self.limit
                reset = self.near_first(step) and depth >= RESET_DEPTH_INTERVALS * self.stride
                if gapped or is_repeated or reset:
                    self.drops.append(drop)
                    prompt += [] if gapped else [depth]
                    top = step
                    segment.clear()
                elif index + 1 < len(steps):
                    self.jitter = max(self.jitter, depth)
            top = max(top, step)
            self.tops.append(top)
            ever[step] += 1
            segment[step] += 1
        # Restarts are rare. Frequent steps back are ranks that lag behind each other.
        frequent = (
            prompt if len(prompt) >= 10 else [item for item in prompt if item <= 2 * self.stride]
        )
        if len(frequent) >= 3:
            self.jitter = max(self.jitter, *frequent)

    def near_first(self, step: float) -> bool:
        return step <= self.steps[0] + (0 if self.by_value else self.stride)

    def _repeats(
        self,
        index: int,
        top: float,
        distinct_steps: list[float],
        ever: dict[float, int],
        segment: dict[float, int],
    ) -> bool:
        """From here on, the steps since this one are logged again, about as densely as before.

        Ranks that lag behind each other, and batches out of order, are soon above the top again, or
        repeat nothing.
        """
        step = self.steps[index]
        following = []
        for later in self.steps[index : index + LOOK_AHEAD]:
            if later > top or (later == top and self.by_value):
                break
            following.append(later)
        regained = index + len(following) < len(self.steps) and len(following) < LOOK_AHEAD
        highest = max(following, default=step)
        new = [later for later in following if later >= step]
        walked = [
            item
            for item in distinct_steps[
                bisect_left(distinct_steps, step) : bisect_right(distinct_steps, highest)
            ]
            if item in ever
        ]
        first_time = sum(segment.get(item, 0) for item in walked)
        distinct = len(set(new))
        if distinct < (1 if self.by_value and regained else 2):
            return False
        return 2 * len(walked) >= distinct and 2 * len(new) >= first_time


def is_system(key: str) -> bool:
    return key.startswith(SYSTEM_KEYS)


def points_by_key(points: Iterable[Point]) -> dict[str, list[Point]]:
    """The points of each key in order of time, each once."""
    by_key: dict[str, dict[Point, None]] = defaultdict(dict)
    for point in points:
        by_key[point.key][point] = None
    # Stores guarantee no order. Of points with one timestamp (a batch) the lower step is first.
    return {key: sorted(of_key, key=_order) for key, of_key in by_key.items()}


def _order(point: Point) -> tuple[float, int, float]:
    return point.time, point.step, point.value if isfinite(point.value) else 0.0


def series_of(by_key: dict[str, list[Point]]) -> list[CounterSeries]:
    """One series for each key with a step that changes, and for each counter by its values: `epoch`
    always, the others only if their step does not change."""
    result = []
    for key, of_key in by_key.items():
        name = key.lower().rpartition("/")[2]
        times, steps = [point.time for point in of_key], [point.step for point in of_key]
        has_steps = len(set(steps)) > 1
        if has_steps:
            result.append(CounterSeries(key, times, steps))
        if name == "epoch" or (name in COUNTERS and not has_steps):
            counted = [(point.time, point.value) for point in of_key if isfinite(point.value)]
            if len({value for _, value in counted}) > 1:
                values = [value for _, value in counted]
                defined = not has_steps and all(value == int(value) for value in values)
                result.append(
                    CounterSeries(key, [time for time, _ in counted], values, True, defined)
                )
    return result


def regular_resets(series: CounterSeries) -> list[CounterDrop]:
    """Resets to the first step after segments of equal length: a counter that each epoch starts."""
    resets = [drop for drop in series.drops if series.near_first(drop.step)]
    full = max((drop.top for drop in resets), default=0)
    full_resets = [
        drop for drop in resets if full - drop.top <= (0 if series.by_value else series.stride)
    ]
    return full_resets if len(full_resets) >= 2 else []


@dataclass(frozen=True, slots=True)
class MetricScan:
    """The restarts in one source of metrics, and how much data it has.

    `limits`: the runs that could not have shown a restart, and why.
    """

    restarts: list[Restart]
    runs: int
    points: int
    limits: dict[str, MetricLimit] = field(default_factory=dict)


def scan_metrics(source: str) -> MetricScan:
    """The restarts in a CSV or JSON file (`-`: stdin) or in `mlflow:URI#RUN`, oldest first."""
    from arc_toolkit.diagnosis.read.sources.metric_points import read_points

    runs = read_points(source)
    label = show_source(source)
    restarts: list[Restart] = []
    limits: dict[str, MetricLimit] = {}
    for run, points in runs.items():
        of_run = restarts_in(run, points, label)
        restarts += of_run
        limit = None if of_run else limit_of(points)
        if limit:
            limits[run] = limit
    restarts.sort(key=lambda item: (item.time, item.run))
    return MetricScan(restarts, len(runs), sum(map(len, runs.values())), limits)


def restarts_in(run: str, points: Iterable[Point], source: str = "") -> list[Restart]:
    """The restarts of one run."""
    by_key = points_by_key(points)
    all_series = series_of(by_key)
    clock = sorted(
        {point.time for key, of_key in by_key.items() if not is_system(key) for point in of_key}
    )
    epochs = _epoch_values(by_key)
    hits: list[_Hit] = []
    for series in all_series:
        for drop, silent in _candidates(series, epochs, clock):
            keys = _witnesses(drop, silent, series, all_series)
            if (
                not (silent or series.by_value)
                and series.near_first(drop.step)
                and epochs.turn(drop) is None
            ):
                keys = keys if _starts_over(drop, series, by_key) else ()
            if keys and _continues(drop, keys, all_series):
                hits.append(_Hit(drop, silent, series, keys))
    result = [_restart(run, group, epochs, source) for group in _group_by_time(hits)]
    answered = [(drop.before, drop.after) for series in all_series for drop in series.drops]
    result += value_jumps.restarts_in(run, by_key, clock, pause_limit(clock), answered, source)
    return sorted(result, key=lambda item: item.time)


def limit_of(points: Iterable[Point]) -> MetricLimit | None:
    """Why a run without a restart could not have shown one; None if it could."""
    all_series = [item for item in series_of(points_by_key(points)) if not is_system(item.key)]
    if not all_series:
        return MetricLimit.NO_COUNTER
    if max(len(series.steps) for series in all_series) < FEWEST_POINTS:
        return MetricLimit.FEW_POINTS
    if all(regular_resets(series) for series in all_series):
        return MetricLimit.EQUAL_PARTS
    return None


class _Hit(NamedTuple):
    """A drop that is a restart, in one series."""

    drop: CounterDrop
    silent: bool  # the whole run was silent before it
    series: CounterSeries
    keys: tuple[str, ...]  # that agree


def _candidates(
    series: CounterSeries, epochs: _Epochs, clock: Sequence[float]
) -> list[tuple[CounterDrop, bool]]:
    """Drops that may be restarts: larger than the usual jumps, and neither the end of an epoch nor
    of a fold; and whether the whole run was silent before."""
    regular = regular_resets(series)
    result = []
    for drop in series.drops:
        silent = longest_pause(clock, drop.before, drop.after) > series.limit
        if drop.top - drop.step <= series.jitter or not (silent or drop.is_repeated):
            continue
        if drop in regular and not silent:
            continue  # epochs, or equally long trainings in one program, such as cross-validation
        if not series.by_value and series.near_first(drop.step):
            turn = epochs.turn(drop)
            if turn == "on" or (drop in regular and turn != "back"):
                continue
        result.append((drop, silent))
    return result


# --- the epoch, if it is logged -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Epochs:
    times: Sequence[float] = ()
    values: Sequence[float] = ()

    def around(self, drop: CounterDrop) -> tuple[float, float] | None:
        """The last epoch that was logged before the drop and the next one; None without any."""
        following = bisect_right(self.times, drop.before)
        if not following and self.times and self.times[0] < drop.after:
            # the first epoch is logged when it ends, between the last step and the next
            following = 1
        if not 0 < following < len(self.times):
            return None
        return self.values[following - 1], self.values[following]

    def lost(self, drop: CounterDrop, first_end: CounterDrop) -> int | None:
        """How many epochs before the one that was cut off the run continued.

        An epoch is logged when it begins, or when it ends: then the one that was cut off is not.
        `first_end`: the end of the first epoch.
        """
        pair = self.around(drop)
        if pair is None:
            return None
        is_logged_at_end = self.times[0] >= first_end.before
        return max(int(pair[0] + is_logged_at_end - pair[1]), 0)

    def turn(self, drop: CounterDrop) -> str | None:
        pair = self.around(drop)
        if pair is None or pair[0] == pair[1]:
            return None
        return "on" if pair[1] > pair[0] else "back"


def _epoch_values(by_key: dict[str, list[Point]]) -> _Epochs:
    epochs = sorted(
        (point.time, point.value)
        for key, of_key in by_key.items()
        if key.lower().rpartition("/")[2] == "epoch"
        for point in of_key
        if isfinite(point.value)
    )
    return _Epochs([time for time, _ in epochs], [value for _, value in epochs])


# --- all keys together ----------------------------------------------------------------------------


def _witnesses(
    drop: CounterDrop, silent: bool, series: CounterSeries, all_series: Sequence[CounterSeries]
) -> tuple[str, ...]:
    """The keys that show this restart; none if it is not one.

    After a pause of the whole run one key is enough, unless another denies it. Without a pause two
    keys must go back, or the epoch, or the only key that there is.
    """
    other_series = [other for other in all_series if other is not series]
    agreeing = [other for other in other_series if _agrees(other, drop, silent)]
    keys = tuple(dict.fromkeys((series.key, *(other.key for other in agreeing))))
    if series.by_value:
        return keys
    if silent:
        denied = any(_has_a_say(other, drop, drop.top + series.stride) for other in other_series)
        return keys if agreeing or not denied else ()
    is_lone = len(keys) < 2 and any(not is_system(other.key) for other in other_series)
    if is_lone or any(_has_a_say(other, drop) for other in other_series if other not in agreeing):
        return ()
    return keys


def _starts_over(drop: CounterDrop, series: CounterSeries, by_key: dict[str, list[Point]]) -> bool:
    """The values start over too, or, if unclear, the counter passes its top, unlike an epoch."""
    trends = value_jumps.trends(by_key, drop.before).values()
    if Trend.GOES_ON in trends:
        return False
    return Trend.STARTS_OVER in trends or max(series.steps[drop.index :]) > drop.top + series.stride


def _agrees(other: CounterSeries, drop: CounterDrop, silent: bool) -> bool:
    """The other key goes back there too, perhaps without a pause of its own."""
    start = bisect_right(other.times, drop.before)
    stop = bisect_left(other.times, drop.after) + 1
    if not silent:
        indexes = {
            item.index
            for item in other.drops
            if item.is_repeated and item.top - item.step > other.jitter
        }
        return any(index in indexes for index in range(start, stop))
    return any(
        other.tops[index - 1] - other.steps[index] > max(other.jitter, 0 if other.by_value else -1)
        for index in range(max(1, start), min(stop, len(other.steps)))
    )


def _has_a_say(other: CounterSeries, drop: CounterDrop, highest: float = float("inf")) -> bool:
    """The other key logged steps that a restart would repeat, and does not repeat them."""
    last = bisect_right(other.times, drop.before) - 1
    if other.by_value or is_system(other.key) or last < 0 or last + 1 >= len(other.steps):
        return False
    return drop.step < other.tops[last] <= highest


def _continues(drop: CounterDrop, keys: Sequence[str], all_series: Sequence[CounterSeries]) -> bool:
    """The training goes on after it: a final test with its own trainer also starts at 0."""
    if len([key for key in keys if key.lower().rpartition("/")[2] != "epoch"]) > 1:
        return True
    return any(
        len(set(series.steps[bisect_left(series.times, drop.after) :])) > 1
        for series in all_series
        if series.key in keys and not is_system(series.key)
    )


def _group_by_time(hits: list[_Hit]) -> list[list[_Hit]]:
    """Drops of different keys whose pauses overlap are one restart."""
    groups: list[list[_Hit]] = []
    end = float("-inf")
    for hit in sorted(hits, key=lambda hit: (hit.drop.before, hit.drop.after)):
        if groups and hit.drop.before < end:
            groups[-1].append(hit)
            end = min(end, hit.drop.after)
        else:
            groups.append([hit])
            end = hit.drop.after
    return groups


def _restart(run: str, group: list[_Hit], epochs: _Epochs, source: str) -> Restart:
    """The figures come from the steps of the key with the most points and most exact times."""
    drop, silent, series, _ = max(
        group, key=lambda hit: (not hit.series.by_value, len(hit.series.steps))
    )
    keys = tuple(sorted({key for hit in group for key in hit.keys}))
    from_scratch = series.near_first(drop.step)
    confidence: Confidence = "high" if len(keys) > 1 and silent else "medium"
    if len(keys) < 2 and not (silent or series.by_value):
        confidence = "low"
    lost_steps: int | None = int(drop.top - drop.step)
    first_reached = _first_reached(series, drop)
    resets = [] if series.by_value else regular_resets(series)
    if from_scratch and resets:
        # The counter starts with each epoch, so only the epoch shows where the run continued.
        pair = epochs.around(drop)
        from_scratch = pair is None or pair[1] <= epochs.values[0]
        confidence = "low"
        lost_epochs = epochs.lost(drop, resets[0])
        if lost_epochs is None:
            lost_steps = None
        else:
            epoch_steps = resets[0].top - series.steps[0] + series.stride
            lost_steps = int(lost_epochs * epoch_steps + drop.top - drop.step)
            starts = [0, *[item.index for item in series.drops if item.index < drop.index]]
            first_reached = series.times[starts[max(len(starts) - 1 - lost_epochs, 0)]]
    return Restart(
        run=run,
        time=drop.after,
        kind="from-scratch" if from_scratch else "resumed",
        last_step=int(drop.top) if series.defined else None,
        first_step=int(drop.step) if series.defined else None,
        lost_steps=lost_steps if series.defined else None,
        lost_seconds=drop.after - first_reached,
        gap_seconds=drop.after - drop.before,
        keys=keys,
        confidence=confidence,
        source=source,
    )


def _first_reached(series: CounterSeries, drop: CounterDrop) -> float:
    """When the run first reached the step of the restart."""
    starts = [0, *[item.index for item in series.drops if item.index < drop.index]]
    for start, stop in zip(reversed(starts), [drop.index, *reversed(starts)], strict=False):
        # A segment that started after that step continued the work of the segment before it.
        if series.steps[start] <= drop.step or start == 0:
            for index in range(start, stop):
                if series.steps[index] >= drop.step:
                    return series.times[index]
    return series.times[0]
