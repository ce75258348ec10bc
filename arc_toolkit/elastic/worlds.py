"""Which ranks run where, and whether another worker pays. Pure decisions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# Between the agreement on a step and its arrival at every rank.
_AGREEMENT_SECONDS = 1.0


@dataclass(frozen=True)
class Capacity:
    """What one node offers. `warm` counts standbys that could start now."""

    node: str
    slots: int
    warm: int
    doomed: bool = False
    has_checkpoint: bool = False


@dataclass(frozen=True)
class Placement:
    """The ranks of one generation, in order: the node of each. All ranks of a node are neighbours."""

    nodes: tuple[str, ...]

    @property
    def size(self) -> int:
        return len(self.nodes)

    def ranks_of(self, node: str) -> list[int]:
        return [rank for rank, name in enumerate(self.nodes) if name == node]


def place_ranks(capacities: Sequence[Capacity], most: int, *, warm_only: bool) -> Placement:
    """As many ranks as fit, at most `most`. Rank 0 goes where the newest checkpoint is, if that is known."""
    usable = [item for item in capacities if not item.doomed]
    ordered = sorted(usable, key=lambda item: not item.has_checkpoint)
    nodes: list[str] = []
    for item in ordered:
        room = min(item.warm, item.slots) if warm_only else item.slots
        nodes += [item.node] * min(room, most - len(nodes))
    return Placement(tuple(nodes))


def stop_step(steps: Sequence[int], steps_per_second: float) -> int:
    """The step after which all ranks stop: one that none of them has passed when the agreement reaches it."""
    return max(steps) + 1 + math.ceil(steps_per_second * _AGREEMENT_SECONDS)


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
        gain = rates[wanted] / rates[now] - 1
        base = known[0]
        return gain > least_gain and efficiency(rates, base, wanted) >= threshold
    if len(known) < 2 or now != known[-1]:
        return True
    before, last = known[-2], known[-1]
    slope = (rates[last] - rates[before]) / (last - before)
    expected = rates[last] + slope * (wanted - last)
    gain = expected / rates[last] - 1
    base = known[0]
    return gain > least_gain and (expected / wanted) / (rates[base] / base) >= threshold


def efficiency(rates: Mapping[int, float], base: int, size: int) -> float:
    """Throughput per worker, compared with that of the base size."""
    return (rates[size] / size) / (rates[base] / base)
