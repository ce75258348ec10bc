"""How often a spot node is evicted, as a probability per hour: a figure, one of Azure's bands, or measured."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from arc_toolkit.errors import ArcError
from arc_toolkit.text import plural

_RATE = re.compile(
    r"(?P<low>\d+(?:\.\d+)?)\s*%?\s*(?:(?P<plus>\+)\s*%?|-\s*(?P<high>\d+(?:\.\d+)?)\s*%?)?"
)
CONFIDENCE = 0.95
WAVE_SECONDS = 300.0  # nodes that Azure takes for one need for capacity go within minutes
HIGHEST_MEASURED = 0.999


@dataclass(frozen=True, slots=True)
class EvictionRate:
    """Per node and hour. `used` is what is computed with; the range of prices covers `low` to `high`."""

    low: float
    used: float
    high: float
    source: str
    open_end: bool = False  # `20+%` has no upper end
    together: float = 1.0  # measured: nodes that were evicted at once, on average

    @property
    def text(self) -> str:
        if self.open_end:
            return f"{percent(self.low)} or more per hour"
        if self.low == self.high:
            return f"{percent(self.used)} per hour"
        return f"{percent(self.low)} to {percent(self.high)} per hour, computed with {percent(self.used)}"


def percent(share: float) -> str:
    """`5 %`, `7.5 %`, `0.25 %`: two digits that matter, whole above ten; below 100 is never shown as 100."""
    value = 100 * share
    if 0 < abs(value) < 1e-4:
        return "less than 0.0001 %"
    if 99 < value < 100:
        return f"{math.floor(10 * value) / 10:g} %"
    return f"{value:,.0f} %" if abs(value) >= 9.95 or value == round(value) else f"{value:.2g} %"


def parse_rate(text: str, source: str = "--eviction-rate") -> EvictionRate:
    """`5%`, `5-10%`, `20+%`, as Azure's portal and Resource Graph write them."""
    match = _RATE.fullmatch(text.strip())
    if match is None or "%" not in text:
        raise ArcError(f"{source} {text}: write a rate per hour such as 5%, 5-10% or 20+%")
    low = float(match["low"]) / 100
    high = float(match["high"]) / 100 if match["high"] else low
    if not low <= high < 1:
        raise ArcError(
            f"{source} {text}: a rate is less than 100% per hour, and a band begins with its lower end"
        )
    return EvictionRate(low, (low + high) / 2, high, source, bool(match["plus"]))


@dataclass(frozen=True, slots=True)
class NodeLife:
    """One spot node while it was watched: its hours, and whether and how sure its end was an eviction."""

    hours: float
    evicted: bool = False
    unclear: bool = False  # it vanished, and nothing says why
    ended: float | None = None  # when, in seconds since 1970


def measured_rate(lives: Iterable[NodeLife], source: str) -> EvictionRate:
    """The rate from node lifetimes with the exact 95 % interval for few events (Garwood 1936).

    Nodes that go together are one event: ten nodes of one wave say as little about the next as one
    does. Nodes that vanished without a reason may have been evicted or scaled down: the upper end
    counts them, the lower does not. Without any eviction half of one is assumed, because a rate of
    0 would be a promise.
    """
    rows = list(lives)
    hours = math.fsum(row.hours for row in rows)
    sure = [row for row in rows if row.evicted]
    unclear = [row for row in rows if row.unclear]
    if hours <= 0:
        raise ArcError(f"{source}: no spot node was recorded")
    (low, _), (_, high) = _mean_evictions(sure), _mean_evictions([*sure, *unclear])
    middle = len(sure) + len(unclear) / 2 or 0.5
    per_hour = [-math.expm1(-value / hours) for value in (low, middle, high)]
    waves = _waves(sure)
    shown = f"{hours:,.0f}" if hours >= 10 else f"{hours:.2g}"
    counts = (
        f"{plural(len(sure), 'eviction')} of {plural(len(rows), 'spot node')} in {shown} node hours"
    )
    counts += f", {plural(waves, 'wave')}" if waves < len(sure) else ""
    counts += f", {len(unclear)} more vanished without a reason" if unclear else ""
    if per_hour[1] > HIGHEST_MEASURED:
        raise ArcError(f"{source}: {counts}: that is too little to compute with: record for longer")
    together = len(sure) / waves if waves else 1.0
    high_rate = min(per_hour[2], HIGHEST_MEASURED)
    return EvictionRate(
        per_hour[0], per_hour[1], high_rate, f"{source}: {counts}", together=together
    )


def _mean_evictions(rows: Sequence[NodeLife]) -> tuple[float, float]:
    """The exact interval of the mean number of evictions: that of the waves, times their size."""
    waves, tail = _waves(rows), (1 - CONFIDENCE) / 2
    size = len(rows) / waves if waves else 1.0
    return size * _poisson_mean(waves, 1 - tail, upper=False), size * _poisson_mean(
        waves, tail, upper=True
    )


def _waves(rows: Sequence[NodeLife]) -> int:
    """How often nodes were evicted, those within minutes of each other counted once."""
    ends = sorted(row.ended for row in rows if row.ended is not None)
    gaps = sum(later - earlier > WAVE_SECONDS for earlier, later in pairwise(ends))
    return gaps + bool(ends) + sum(row.ended is None for row in rows)


def _poisson_mean(events: int, probability: float, *, upper: bool) -> float:
    """The mean with which that many events or fewer (`upper`), or fewer than that, have this probability."""
    if not upper and events == 0:
        return 0.0
    most = events if upper else events - 1
    low, high = 0.0, 10.0 + 2 * events + 10 * math.sqrt(events + 1)
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _at_most(most, middle) > probability else (low, middle)
    return high


def _at_most(events: int, mean: float) -> float:
    """The probability of that many or fewer. By logarithms: e^-mean is 0 for a thousand events; far terms are 0."""
    first = max(0, int(mean - 12 * math.sqrt(mean + 1)))
    scale = math.log(mean)
    return math.fsum(
        math.exp(count * scale - mean - math.lgamma(count + 1))
        for count in range(first, events + 1)
    )
