"""The answer as data: dedicated, spot and low priority, and the answer in a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from arc_toolkit.cost.eviction_rates import EvictionRate, percent
from arc_toolkit.cost.formulas import Expected, break_even, expected_run
from arc_toolkit.cost.mix import MixReport
from arc_toolkit.cost.prices import ShareUse, Tier, VmPrice, money
from arc_toolkit.cost.simulation import MOST_EVICTIONS, Runs, mean_of, quantile, simulate
from arc_toolkit.cost.training_job import TrainingJob
from arc_toolkit.errors import ArcError
from arc_toolkit.text import plural

RANGE = (0.05, 0.95)
RANGE_RUNS = 1000  # for the range without --simulate
RANGE_EVICTIONS = 300_000  # fewer runs where each has many evictions: about a second in all


@dataclass(frozen=True, slots=True)
class TierCost:
    """One line of the table; what depends on an unknown price is None."""

    tier: Tier
    price: VmPrice | None
    hours: float
    slower: float
    cost: float | None = None
    low: float | None = None
    # None with `low`: no end, because the rate has none or the job would hardly get on
    high: float | None = None
    saving: float | None = None


@dataclass
class CostReport:
    size: str
    region: str
    job: TrainingJob
    rate: EvictionRate
    rows: list[TierCost]
    expected: Expected
    # None: it pays at any rate, a price is unknown, or there is no formula
    break_even: float | None
    pays_below: float | None = None  # the spot price at which both cost the same; None: unknown
    fallback: bool = False  # time and price come from the simulation
    runs: Runs | None = None  # with --simulate
    share: ShareUse | None = None
    mix: MixReport | None = None
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def row(self, tier: Tier) -> TierCost:
        return next(row for row in self.rows if row.tier is tier)

    @property
    def currency(self) -> str:
        return next((row.price.currency for row in self.rows if row.price), "USD")

    @property
    def sentence(self) -> str:
        return answer(self)


def build_cost(
    size: str,
    region: str,
    job: TrainingJob,
    rate: EvictionRate,
    prices: Mapping[Tier, VmPrice],
    *,
    runs: int = 0,
    seed: int = 0,
) -> CostReport:
    """Everything but the deadline; `runs` as with --simulate."""
    job = job.with_rate(rate.used)
    result = expected_run(job)
    simulated = _simulate_job(job, runs, seed)
    if result is None or simulated is None:
        raise ArcError(
            f"at {percent(rate.used)} evictions per hour and {plural(job.nodes, 'node')} "
            "the job is "
            "evicted every "
            f"{job.mean:.0f} s and hardly makes progress: "
            "use fewer nodes, a faster save or a shorter restart"
        )
    low, high = (
        simulated if end == job.rate else _simulate_job(job.with_rate(end), runs, seed)
        for end in (rate.low, rate.high)
    )
    assert low, "fewer evictions than what can be computed with"
    high = None if rate.open_end else high
    fallback = job.missing.fallback_seconds is not None and job.missing.share > 0
    elapsed = mean_of(simulated.elapsed) if fallback else result.elapsed
    dedicated = prices.get(Tier.DEDICATED)
    rows = [_dedicated_cost(job, dedicated)]
    for tier in (Tier.SPOT, Tier.LOW_PRIORITY):
        price = prices.get(tier)
        row = TierCost(tier, price, elapsed / 3600, elapsed / job.work_seconds - 1)
        if price and not (fallback and dedicated is None):
            dear = dedicated.amount if dedicated else None
            cost = (
                mean_of(simulated.prices(price.amount, dear, job.nodes))
                if fallback
                else result.price(price.amount, job.nodes)
            )
            row = TierCost(
                tier,
                price,
                row.hours,
                row.slower,
                cost,
                quantile(low.prices(price.amount, dear, job.nodes), RANGE[0]),
                quantile(high.prices(price.amount, dear, job.nodes), RANGE[1]) if high else None,
                1 - cost / rows[0].cost if rows[0].cost else None,
            )
        rows.append(row)
    spot = prices.get(Tier.SPOT)
    even = (
        break_even(job, dedicated.amount, spot.amount)
        if dedicated and spot and not fallback
        else None
    )
    below = (
        _pays_below(job, result, simulated if fallback else None, dedicated.amount)
        if dedicated
        else None
    )
    report = CostReport(
        size, region, job, rate, rows, result, even, below, fallback, simulated if runs else None
    )
    if rate.open_end:
        report.warnings.append(f"{rate.text}: the band has no upper bound; its lower bound is used")
    if rate.together > 1 and job.together == 1 and job.nodes > 1:
        report.notes.append(
            f"recorded evictions took {rate.together:.2g} nodes at once: if those are nodes of one "
            f"job, use --together {min(rate.together, job.nodes):.2g}"
        )
    if fallback:
        report.notes.append(
            f"time and price with a fallback come from {len(simulated.elapsed):,} simulated runs: "
            "there is no formula"
        )
    return report


def _simulate_job(job: TrainingJob, runs: int, seed: int) -> Runs | None:
    """None if the job hardly gets on."""
    result = expected_run(job)
    if result is None or result.evictions > MOST_EVICTIONS / 2:
        return None
    count = runs or max(100, min(RANGE_RUNS, int(RANGE_EVICTIONS / (1 + result.evictions))))
    return simulate(job, count, seed)


def _pays_below(
    job: TrainingJob, result: Expected, simulated: Runs | None, dedicated: float
) -> float:
    """Both prices are sums of hours times prices: equal at dedicated's rest for the spot hours."""
    limit = dedicated * job.nodes * job.work_seconds / 3600
    if simulated is None:
        return limit / result.price(1.0, job.nodes)
    spot = mean_of(simulated.prices(1.0, 0.0, job.nodes))
    on_demand = mean_of(simulated.prices(0.0, dedicated, job.nodes))
    return max(0.0, limit - on_demand) / spot


def _dedicated_cost(job: TrainingJob, price: VmPrice | None) -> TierCost:
    hours = job.work_seconds / 3600
    cost = price.amount * job.nodes * hours if price else None
    return TierCost(Tier.DEDICATED, price, hours, 0.0, cost, cost, cost, 0.0 if price else None)


def _dearer(spot: VmPrice, dedicated: VmPrice | None) -> bool:
    return dedicated is not None and spot.amount >= dedicated.amount


def answer(report: CostReport) -> str:
    """`Spot is 71 % cheaper and takes 6 % longer; it stops paying above 31 % per hour.`"""
    spot, dedicated = report.row(Tier.SPOT), report.row(Tier.DEDICATED)
    longer = f"takes {percent(spot.slower)} longer" if spot.slower > 1e-6 else "takes no longer"
    if spot.cost is None or dedicated.cost is None:
        place = f"{report.size} in {report.region}"
        if dedicated.price is None or report.pays_below is None:
            unknown = "price" if spot.price is None else "dedicated price"
            return f"The {unknown} of {place} is unknown, and so is the saving; spot {longer}."
        if not report.pays_below:
            return f"The spot price of {place} is unknown: spot pays at no price, and {longer}."
        part = percent(report.pays_below / dedicated.price.amount)
        return (
            f"The spot price of {place} is unknown: spot pays below {money(report.pays_below)} "
            f"{report.currency} per "
            f"hour ({part} of dedicated), and {longer}."
        )
    even = (
        f"; it stops paying above {percent(report.break_even)} evictions per hour"
        if report.break_even is not None
        else "; it pays at any eviction rate up to 99.9 % per hour"
    )
    even = (
        "; it pays at no eviction rate"
        if spot.price and _dearer(spot.price, dedicated.price)
        else even
    )
    even = "" if report.fallback else even
    if spot.cost <= dedicated.cost:
        return f"Spot is {percent(1 - spot.cost / dedicated.cost)} cheaper and {longer}{even}."
    return f"Spot is {percent(spot.cost / dedicated.cost - 1)} more expensive and {longer}{even}."
