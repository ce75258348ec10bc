"""The counters in a run's metrics, one series per key: where each goes back, and by how much.

Steps are counters, and so are the values of keys such as `epoch`.
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

if TYPE_CHECKING:
    from arc_toolkit.diagnosis.sources.metric_points import Point

# A pause that can be a restart: longer than both.
SHORTEST_GAP_SECONDS = 60.0
GAP_IN_INTERVALS = 5.0  # times the median interval between points of that key

# A drop to the first step by at least this many log intervals is a reset of the counter, with or without a pause.
RESET_DEPTH_INTERVALS = 3
LOOK_AHEAD = 50  # points after a drop that are compared with the points before it
FEWEST_POINTS = 5  # of a key: with fewer, nothing can be seen

# Keys whose values count, for runs that log every step as 0. They may have a prefix: `train/epoch`.
COUNTERS = ("epoch", "step", "global_step", "iteration")
# MLflow's system metrics are written by a thread with a counter of its own, which goes on after a restart.
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
    again: bool  # the points after it repeat the points before it


@dataclass(slots=True)
class CounterSeries:
    """One key in order of time, cut into segments. `by_value`: the values count (epochs), not the steps."""

    key: str
    times: list[float]
    steps: Sequence[float]
    by_value: bool = False
    defined: bool = True  # the counter can be shown as a step
    stride: float = 1  # the usual distance between two logged steps
    limit: float = 0.0  # a longer pause can be a restart
    jitter: float = (
        -1
    )  # the largest step backwards without a pause: several ranks, or batches out of order
    tops: list[float] = field(
        default_factory=list
    )  # highest step of the segment so far, at each point
    drops: list[CounterDrop] = field(default_factory=list)

    def __post_init__(self) -> None:
        times, steps = self.times, self.steps
        rises = [later - sooner for sooner, later in pairwise(steps) if later > sooner]
        self.stride = median(rises) if rises else 1
        self.limit = pause_limit(times)
        known = sorted(set(steps))
        ever, segment = defaultdict[float, int](int), defaultdict[float, int](int)
        top = steps[0]
        prompt: list[float] = []  # depths of drops without a pause
        for index, step in enumerate(steps):
            if index and (step < top or (step == top and not self.by_value)):
                again = self._repeats(index, top, known, ever, segment)
                drop = CounterDrop(index, times[index - 1], times[index], top, step, again)
                depth = top - step
                gapped = drop.after - drop.before > self.limit
                reset = self.near_first(step) and depth >= RESET_DEPTH_INTERVALS * self.stride
                if gapped or again or reset:
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
        # Restarts are rare. Steps back that occur again and again are ranks that lag behind each other.
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
        known: list[float],
        ever: dict[float, int],
        segment: dict[float, int],
    ) -> bool:
        """From here on, the steps since this one are logged again, about as densely as the first time.

        Ranks that lag behind each other, and batches out of order, are soon above the top again, or repeat nothing.
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
            for item in known[bisect_left(known, step) : bisect_right(known, highest)]
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
    # Stores guarantee no order. Of points with the same timestamp (a batch) the lower step is the earlier.
    return {key: sorted(of_key, key=_order) for key, of_key in by_key.items()}


def _order(point: Point) -> tuple[float, int, float]:
    return point.time, point.step, point.value if isfinite(point.value) else 0.0


def series_of(by_key: dict[str, list[Point]]) -> list[CounterSeries]:
    """One series for each key with a step that changes, and for each counter by its values: `epoch` always, the others
    only if their step does not change."""
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
    """Two or more resets to the first step after segments of equal length: a counter that starts with each epoch."""
    resets = [drop for drop in series.drops if series.near_first(drop.step)]
    full = max((drop.top for drop in resets), default=0)
    whole = [
        drop for drop in resets if full - drop.top <= (0 if series.by_value else series.stride)
    ]
    return whole if len(whole) >= 2 else []
