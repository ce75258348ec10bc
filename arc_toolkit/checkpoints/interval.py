"""How often to save, from the time of a save and the mean time between evictions.

Saving more often costs saves, saving less often costs work that is done again: to first order the sum is least at
sqrt(2 C M) (Young 1974); Daly (2006) has the next terms. An eviction whose notice is used for a save loses no work, so
only those without one count for the interval.
"""

from __future__ import annotations

import math

# The lowest and the highest of Azure's published bands of eviction rates are 0-5 % and 20+ % per hour; 10 % is assumed
# unless the caller knows better.
EVICTIONS_PER_HOUR = 0.10
NOTICE_SECONDS = 30.0  # Azure's Scheduled Events announce Preempt at least 30 s before, best effort
NOTICE_WORKS = 0.9  # assumed: Azure publishes no figure for "best effort"


def mean_seconds(evictions_per_hour: float, nodes: int = 1) -> float:
    """Seconds between evictions of a job: of any of its nodes. A rate is a probability per hour and node."""
    if not 0 < evictions_per_hour < 1 or nodes < 1:
        raise ValueError(
            f"a rate between 0 and 1 and at least one node, not {evictions_per_hour} and {nodes}"
        )
    return 3600 / (-math.log1p(-evictions_per_hour) * nodes)


def best_interval(save_seconds: float, mean: float, noticed: float = 0.0) -> float:
    """Seconds of work between saves that waste least, by Young; `noticed`: the share of evictions with a save in time.

    Infinite if every eviction leaves time for a save, or if there are none.
    """
    return (
        math.sqrt(2 * max(save_seconds, 0.0) * _unnoticed(mean, noticed))
        if save_seconds > 0
        else 0.0
    )


def daly_interval(save_seconds: float, mean: float, noticed: float = 0.0) -> float:
    """The same with Daly's next terms, which matter if a save takes more than a few percent of the mean."""
    between = _unnoticed(mean, noticed)
    if math.isinf(between):
        return best_interval(save_seconds, mean, noticed)
    if save_seconds >= 2 * between:
        return between
    part = math.sqrt(save_seconds / (2 * between))
    return (
        best_interval(save_seconds, mean, noticed) * (1 + part / 3 + part * part / 9) - save_seconds
    )


def first_order_waste(
    save_seconds: float, interval: float, restart_seconds: float, mean: float, noticed: float = 0.0
) -> float:
    """Wasted time per unit of work, to first order: saves, work done again, and restarts."""
    saves = save_seconds / interval
    redone = 0.0 if noticed == 1 else (1 - noticed) * interval / 2 / mean
    return saves + redone + (restart_seconds + noticed * save_seconds) / mean


def _unnoticed(mean: float, noticed: float) -> float:
    return mean / (1 - noticed) if noticed < 1 else math.inf
