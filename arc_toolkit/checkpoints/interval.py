"""How often to save: the optimum of Young (1974) from the time of a save and the mean time between evictions.

Saving more often costs saves, saving less often costs work that is done again: the sum is least at sqrt(2 C M).
"""

from __future__ import annotations

import math

# The lowest and the highest of Azure's published bands of eviction rates are 0-5 % and 20+ % per hour; 10 % is assumed
# unless the caller knows better.
EVICTIONS_PER_HOUR = 0.10


def mean_seconds(evictions_per_hour: float, nodes: int = 1) -> float:
    """Seconds between evictions of a job: of any of its nodes. A rate is a probability per hour and node."""
    if not 0 < evictions_per_hour < 1 or nodes < 1:
        raise ValueError(f"a rate between 0 and 1 and at least one node, not {evictions_per_hour} and {nodes}")
    return 3600 / (-math.log1p(-evictions_per_hour) * nodes)


def best_interval(save_seconds: float, mean: float) -> float:
    """Seconds between saves that waste least."""
    return math.sqrt(2 * max(save_seconds, 0.0) * mean)
