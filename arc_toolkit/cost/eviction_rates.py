"""How often a spot node is evicted per hour: a probability, one of Azure's bands, or measured.

Measured rates come from recorded Node and Event objects: how long nodes lived, how they ended.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from itertools import pairwise
from typing import Any

from arc_toolkit.errors import ArcError
from arc_toolkit.kube.nodes import Node, read_node
from arc_toolkit.kube.raw import mapping, text
from arc_toolkit.resources import data_rows
from arc_toolkit.text import plural

_RATE = re.compile(
    r"(?P<low>\d+(?:\.\d+)?)\s*%?\s*(?:(?P<plus>\+)\s*%?|-\s*(?P<high>\d+(?:\.\d+)?)\s*%?)?"
)
CONFIDENCE = 0.95
WAVE_SECONDS = 300.0  # nodes that Azure takes for one need for capacity go within minutes
HIGHEST_MEASURED = 0.999


@dataclass(frozen=True, slots=True)
class EvictionRate:
    """Per node and hour. Results are computed with `used`; their range covers `low` to `high`."""

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
        band = f"{percent(self.low)} to {percent(self.high)} per hour"
        return f"{band}, computed with {percent(self.used)}"


def percent(share: float) -> str:
    """`5 %`, `7.5 %`, `0.25 %`: two digits, whole above ten; below 100 is never shown as 100."""
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
            f"{source} {text}: a rate is less than 100% per hour, "
            "and a band begins with its lower end"
        )
    return EvictionRate(low, (low + high) / 2, high, source, bool(match["plus"]))


@dataclass(frozen=True, slots=True)
class NodeLife:
    """One watched spot node: its hours, and whether and how sure its end was an eviction."""

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
    hours_text = f"{hours:,.0f}" if hours >= 10 else f"{hours:.2g}"
    counts = (
        f"{plural(len(sure), 'eviction')} of {plural(len(rows), 'spot node')} "
        f"in {hours_text} node hours"
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
    """The mean with which so many events or fewer (`upper`), or fewer, have this probability."""
    if not upper and events == 0:
        return 0.0
    most = events if upper else events - 1
    low, high = 0.0, 10.0 + 2 * events + 10 * math.sqrt(events + 1)
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _poisson_cdf(most, middle) > probability else (low, middle)
    return high


def _poisson_cdf(events: int, mean: float) -> float:
    """The probability of so many or fewer, by logarithms: e^-mean is 0 for a thousand events."""
    first = max(0, int(mean - 12 * math.sqrt(mean + 1)))
    scale = math.log(mean)
    return math.fsum(
        math.exp(count * scale - mean - math.lgamma(count + 1))
        for count in range(first, events + 1)
    )


AFTER_SECONDS = 3600.0  # an event about a node may be written after the node is gone


def node_lives(
    nodes: Iterable[Mapping[str, Any]],
    events: Iterable[Mapping[str, Any]],
    *,
    since: float | None,
    until: float,
    pool: str | None = None,
) -> Iterator[NodeLife]:
    """The watched spot nodes, from `since` on: before that nobody saw evicted ones."""
    reasons = _reasons_by_node(events)
    for item in nodes:
        node = read_node(item)
        created, deleted = _moment(node.created), _moment(node.deleted)
        if not node.spot or created is None or (pool and node.pool != pool):
            continue
        start = created if since is None else max(created, since)
        end = until if deleted is None else min(deleted, until)
        if end <= start:
            continue
        hours = (end - start) / 3600
        if deleted is None or deleted > until:
            yield NodeLife(hours)
            continue
        event_reasons = {
            reason
            for reason, moment in reasons.get(node.name, ())
            if moment is None or created <= moment <= deleted + AFTER_SECONDS
        }
        causes = _causes(node, event_reasons)
        evicted = "spot-preemption" in causes
        yield NodeLife(hours, evicted, not evicted and "scale-down" not in causes, deleted)


@cache
def _signals() -> dict[tuple[str, str], str]:
    """What the reasons of a node prove, from the table that `diagnose` uses."""
    return {(row["where"], row["reason"]): row["kind"] for row in data_rows("signals.csv")}


def _causes(node: Node, reasons: Iterable[str]) -> set[str | None]:
    """Events and the node's last marks: autoscaler and Karpenter mark a node before its end."""
    signs = [("node event", reason) for reason in reasons]
    signs += [("node taint", taint.key) for taint in node.taints]
    signs += [("node condition", item.type) for item in node.conditions if item.status == "True"]
    return {_signals().get(sign) for sign in signs}


def _reasons_by_node(
    events: Iterable[Mapping[str, Any]],
) -> dict[str, list[tuple[str, float | None]]]:
    rows: dict[str, list[tuple[str, float | None]]] = {}
    for event in events:
        about = mapping(event.get("involvedObject")) or mapping(event.get("regarding"))
        if about.get("kind") == "Node":
            moment = _moment(event.get("lastTimestamp")) or _moment(event.get("eventTime"))
            rows.setdefault(text(about.get("name")), []).append((text(event.get("reason")), moment))
    return rows


def _moment(value: object) -> float | None:
    if not isinstance(value, str) or not value:
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
