"""Values that start over: a jump, after which metrics repeat the shape of the run's start.

That is all that a restart leaves if the step is a row number, as with AzureML's `Run.log`: the
index goes on, and the learning rate and the loss begin again. A jump alone proves nothing (spikes,
cycles, divergence), so every metric that has moved since the start must be back there, at the same
time, and take the same way again.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum, auto
from itertools import pairwise
from math import isfinite
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from arc_toolkit.diagnosis.model import Restart

if TYPE_CHECKING:
    from arc_toolkit.diagnosis.read.sources.metric_points import Point

FEWEST_BEFORE, FEWEST_AFTER = 4, 3  # points of a key
FEWEST_REPEATED = 10  # points of the only key of a run
WINDOW = 30  # points that are compared, at most
MOST_JUMPS = 5  # of a key that are looked at: the largest
MOST_PAUSES = 20
NOISES = 4  # a metric has moved if its level changed by more than this many times its noise

# Set by a schedule, not measured: they can repeat themselves exactly without a restart.
_SCHEDULED = re.compile(
    r"(?:^|[/_.-])(?:lr|learning_?rate|momentum|beta\d?|weight_decay|temperature)(?:$|[/_.-])", re.I
)
_RATE = re.compile(r"(?:^|[/_.-])(?:lr|learning_?rate)(?:$|[/_.-])", re.I)


class Trend(Enum):
    """What a metric does at a moment where the run may have restarted."""

    STARTS_OVER = auto()
    GOES_ON = auto()
    UNCLEAR = auto()  # it has not moved since the start, or has too few points


class Jump(NamedTuple):
    """A moment at which values start over."""

    before: float
    after: float
    height: float
    row: int  # in the points of `key`
    key: str  # with the most points
    keys: tuple[str, ...]
    silent: bool  # nothing was logged for longer than usual


def restarts_in(
    run: str,
    by_key: Mapping[str, Sequence[Point]],
    clock: Sequence[float],
    limit: float,
    answered: Sequence[tuple[float, float]],
    source: str = "",
) -> list[Restart]:
    """The restarts of a run. `limit`: a longer pause can be a restart. `answered`: where counters
    went back, from when to when: those moments have their answer already."""
    finite = {
        key: [point for point in points if isfinite(point.value)] for key, points in by_key.items()
    }
    possible = []
    for before, after in set(_moments(finite, clock, limit)):
        if not any(before < end and after > start for start, end in answered):
            jump = _jump(finite, before, after, limit)
            possible += [jump] if jump else []
    jumps: list[Jump] = []
    for jump in sorted(
        possible, key=lambda jump: (jump.silent, jump.height, jump.after), reverse=True
    ):
        # The points right after a restart look like one too.
        if not any(
            abs(bisect_right(clock, jump.after) - bisect_right(clock, item.after)) < FEWEST_BEFORE
            for item in jumps
        ):
            jumps.append(jump)
    jumps.sort()
    if len(jumps) > 1 and not any(jump.silent for jump in jumps):
        lengths = [
            later - sooner
            for sooner, later in pairwise([clock[0], *(jump.after for jump in jumps)])
        ]
        if max(lengths) - min(lengths) <= max(lengths) / 10:
            return []  # equally long trainings in one program, such as cross-validation
    began = clock[0] if clock else 0.0
    result = []
    for jump in jumps:
        began = max([began, *(end for _, end in answered if end < jump.after)])
        result.append(_restart(run, jump, finite[jump.key], began, source))
        began = jump.after
    return result


def trend(values: Sequence[float], index: int) -> Trend:
    """What the values do from an index on, compared with their start and the values before."""
    size = min(index // 2, len(values) - index, WINDOW)
    if index < FEWEST_BEFORE or len(values) - index < FEWEST_AFTER or size < 2:
        return Trend.UNCLEAR
    first, old, new = values[:size], values[index - size : index], values[index : index + size]
    moved = abs(median(old) - median(first))
    noise = max(_noise(first), _noise(old))
    if moved <= NOISES * noise or not moved:
        return Trend.UNCLEAR
    if abs(median(new) - median(old)) < moved / 2:
        return Trend.GOES_ON
    distance = median([abs(a - b) for a, b in zip(new, first, strict=True)])
    sudden = abs(new[0] - old[-1]) >= moved / 2
    way, way_again = first[-1] - first[0], new[-1] - new[0]
    same_way = abs(way) <= NOISES * noise or abs(way_again - way) <= abs(way) / 2 + noise
    return Trend.STARTS_OVER if sudden and distance <= moved / 4 and same_way else Trend.UNCLEAR


def trends(by_key: Mapping[str, Sequence[Point]], before: float) -> dict[str, Trend]:
    """What each metric does after a moment."""
    return {
        key: trend([point.value for point in points], _index(points, before))
        for key, points in by_key.items()
        if points and _measures(key)
    }


def _measures(key: str) -> bool:
    """Neither a counter nor about the machine."""
    return not key.startswith("system/") and key.lower().rpartition("/")[2] not in (
        "epoch",
        "step",
        "global_step",
    )


def _index(points: Sequence[Point], before: float) -> int:
    return bisect_right(points, before, key=lambda point: point.time)


def _noise(values: Sequence[float]) -> float:
    """How far a value is from the middle of its neighbours: 0 for a straight line."""
    bends = [
        abs(a - 2 * b + c) / 2 for a, b, c in zip(values, values[1:], values[2:], strict=False)
    ]
    return median(bends) if bends else 0.0


def _moments(
    by_key: Mapping[str, Sequence[Point]], clock: Sequence[float], limit: float
) -> Iterator[tuple[float, float]]:
    """Where values may start over: pauses, and the largest jumps of each metric."""
    pauses = [(sooner, later) for sooner, later in pairwise(clock) if later - sooner > limit]
    yield from sorted(pauses, key=lambda pause: pause[0] - pause[1])[:MOST_PAUSES]
    for key, points in by_key.items():
        if _measures(key):
            jumps = [
                (abs(b.value - a.value), a.time, b.time)
                for a, b in pairwise(points)
                if b.time > a.time
            ]
            yield from (
                (before, after) for size, before, after in sorted(jumps)[-MOST_JUMPS:] if size
            )


def _jump(
    by_key: Mapping[str, Sequence[Point]], before: float, after: float, limit: float
) -> Jump | None:
    """After a pause one metric is enough, otherwise two, or the only one if it takes exactly the
    same way again; a schedule alone only if its warm-up is repeated."""
    trend_of = trends(by_key, before)
    keys = [key for key, trend in trend_of.items() if trend is Trend.STARTS_OVER]
    if not keys or Trend.GOES_ON in trend_of.values():
        return None
    silent = after - before > limit
    rows = {key: _index(by_key[key], before) for key in keys}
    rises = {key: by_key[key][row].value - by_key[key][row - 1].value for key, row in rows.items()}
    # Cycles of the learning rate jump up. Only a repeated warm-up jumps down to the first rate.
    warm_up = any(_RATE.search(key) and rises[key] < 0 for key in keys)
    measured = [key for key in keys if not _SCHEDULED.search(key)]
    is_lone = len(keys) == 1
    certain = silent or (len(trend_of) == 1 and _repeats(by_key[keys[0]], rows[keys[0]]))
    if not warm_up and (
        not measured
        or (is_lone and (not certain or _has_cycles(by_key[keys[0]], rows[keys[0]], limit)))
    ):
        return None
    key = max(keys, key=lambda key: (len(by_key[key]), key))
    return Jump(before, after, abs(rises[key]), rows[key], key, tuple(sorted(keys)), silent)


def _repeats(points: Sequence[Point], row: int) -> bool:
    """The values are those of the start once more, within a twentieth of the jump."""
    first, later = (
        [point.value for point in points[:WINDOW]],
        [point.value for point in points[row : row + WINDOW]],
    )
    most = abs(points[row].value - points[row - 1].value) / 20
    pairs = list(zip(first[:row], later, strict=False))
    return len(pairs) >= FEWEST_REPEATED and all(abs(a - b) <= most for a, b in pairs)


def _has_cycles(points: Sequence[Point], row: int, limit: float) -> bool:
    """It makes such jumps elsewhere too, without a pause, or has too few points to know."""
    rise = points[row].value - points[row - 1].value
    return row < 2 * FEWEST_BEFORE or any(
        (b.value - a.value) / rise > 0.7 and b.time - a.time <= limit and index != row
        for index, (a, b) in enumerate(pairwise(points), start=1)
    )


def _restart(run: str, jump: Jump, points: Sequence[Point], began: float, source: str) -> Restart:
    last, new = points[jump.row - 1], points[jump.row]
    counts = last.step != new.step
    return Restart(
        run=run,
        time=new.time,
        kind="from-scratch",
        last_step=last.step if counts else None,
        first_step=new.step if counts else None,
        lost_steps=max(0, last.step - points[0].step) if counts else None,
        lost_seconds=new.time - began,
        gap_seconds=new.time - last.time,
        keys=jump.keys,
        confidence="medium" if jump.silent and len(jump.keys) > 1 else "low",
        source=source,
    )
