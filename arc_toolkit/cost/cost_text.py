"""The report as a table, as the formulas in numbers (`--explain`), and as JSON."""

from __future__ import annotations

import math
from typing import Any

from arc_toolkit.checkpoints.interval import best_interval, daly_interval
from arc_toolkit.cost.cost_report import CostReport, TierCost
from arc_toolkit.cost.eviction_rates import percent
from arc_toolkit.cost.mix import MixResult
from arc_toolkit.cost.prices import Tier, money
from arc_toolkit.cost.simulation import mean_of, quantile
from arc_toolkit.cost.training_job import TrainingJob
from arc_toolkit.output.table import Style, table
from arc_toolkit.text import plural

BAR = 32
SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)


def span(seconds: float) -> str:
    """`45 s`, `8.6 min`, `2.44 h`."""
    if math.isinf(seconds):
        return "never"
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"


def cost_table(report: CostReport) -> str:
    """The table and the sentence; then shares, simulation and deadline if they were asked for."""
    job = report.job
    headers = ["", f"{report.currency}/H", "HOURS", "PRICE", "90 % OF RUNS", "SAVING"]
    rows = [
        [
            row.tier.value,
            money(row.price.amount if row.price else None),
            f"{row.hours:,.2f}",
            money(row.cost),
            price_range(row),
            "unknown"
            if row.saving is None
            else percent(row.saving)
            if row.tier is not Tier.DEDICATED
            else "",
        ]
        for row in report.rows
    ]
    title = (
        f"{plural(job.nodes, 'node')} {report.size} in {report.region}, "
        f"{job.work_seconds / 3600:g} hours of work"
    )
    parts = [
        f"{title}, evictions {report.rate.text}",
        table(headers, rows, right=(1, 2, 3, 4, 5)),
        report.sentence,
    ]
    parts.append(interval_sentence(report))
    parts += [block for block in (_share(report), _simulation(report), _mix(report)) if block]
    return "\n\n".join(parts) + "\n"


def price_range(row: TierCost) -> str:
    if row.low is None or row.tier is Tier.DEDICATED:
        return ""
    return (
        f"{money(row.low)} or more"
        if row.high is None
        else f"{money(row.low)} to {money(row.high)}"
    )


def interval_sentence(report: CostReport) -> str:
    job = report.job
    if math.isinf(job.mean):
        return "Without evictions no save is needed."
    if job.noticed == 1:
        return "The saves at the notices are enough."
    if job.interval >= job.work_seconds:
        return "One save at the end of the job is enough."
    added = percent(report.row(Tier.SPOT).slower)
    return f"Save every {span(job.interval)}: that and the evictions add {added} to the time."


def _share(report: CostReport) -> str:
    use = report.share
    if use is None:
        return ""
    prices = [(row.tier, use.price(row.price.amount)) for row in report.rows if row.price]
    costs = ", ".join(f"{tier.value} {money(price)} {report.currency}/h" for tier, price in prices)
    text = (
        f"{use.instance_type} ({use.share} of a VM, {use.per_vm} fit): {costs or 'price unknown'}."
    )
    text += f" {plural(use.workers, 'worker')} on {plural(use.vms, 'VM')}"
    text += f", {plural(use.empty, 'share')} empty" if use.empty else ", every share used"
    return f"{text}: {percent(use.wasted)} of the price is for what nothing runs on."


def _simulation(report: CostReport) -> str:
    if report.runs is None:
        return ""
    spot, dedicated = report.row(Tier.SPOT).price, report.row(Tier.DEDICATED).price
    hours = [value / 3600 for value in report.runs.elapsed]
    rows = [
        ["hours", *(f"{quantile(hours, share):,.2f}" for share in SHARES), f"{mean_of(hours):,.2f}"]
    ]
    if spot:
        costs = report.runs.prices(
            spot.amount, dedicated.amount if dedicated else None, report.job.nodes
        )
        rows.append(
            [
                "spot price",
                *(money(quantile(costs, share)) for share in SHARES),
                money(mean_of(costs)),
            ]
        )
    counts = [float(count) for count in report.runs.evictions]
    rows.append(
        [
            "evictions",
            *(f"{quantile(counts, share):.0f}" for share in SHARES),
            f"{mean_of(counts):.1f}",
        ]
    )
    headers = [f"{len(hours):,} RUNS", *(f"{share:.0%}" for share in SHARES), "MEAN"]
    return table(headers, rows, right=(1, 2, 3, 4, 5, 6))


def _mix(report: CostReport) -> str:
    mix = report.mix
    if mix is None:
        return ""
    chosen = [mix.best] if mix.best else []
    pure = [row for row in mix.results if row.policy.ahead is None or row.policy.ahead == math.inf]
    rows = {row.policy.name: row for row in [*chosen, *pure, mix.peer]}
    body = [
        [
            row.policy.name,
            percent(row.met),
            money(row.cost),
            f"{row.hours:.1f}",
            f"{row.late_hours:.1f}",
            percent(row.on_demand),
        ]
        for row in rows.values()
    ]
    headers = ["POLICY", "IN TIME", "PRICE", "HOURS", "95 % WITHIN", "ON DEMAND"]
    return f"{mix_sentence(report)}\n\n" + table(headers, body, right=(1, 2, 3, 4, 5))


def mix_sentence(report: CostReport) -> str:
    mix = report.mix
    assert mix is not None
    hours = f"{mix.deadline / 3600:g} h"
    if mix.best is None:
        return f"Nothing meets {hours} with 95 %: not even on demand."
    return (
        f"For {hours} with 95 %: {mix.best.policy.name}: {money(mix.best.cost)} {report.currency}, "
        f"in time in {percent(mix.best.met)} of the runs."
    )


def explain_cost(report: CostReport, style: Style) -> str:
    """Every figure of the spot line, from the eviction rate to the price."""
    job, result = report.job, report.expected
    if math.isinf(job.mean):
        return "No evictions: spot takes as long as dedicated."
    save, mean, noticed = job.save_seconds, job.mean, job.noticed
    young, daly = best_interval(save, mean, noticed), daly_interval(save, mean, noticed)
    node = mean * job.nodes / job.together
    steps = [
        [
            "node",
            f"M1 = 3600 / -ln(1 - {job.rate:.4g})",
            span(node),
            "between evictions of one node",
        ],
        ["job", _mean_formula(job), span(mean), "of any of its nodes"],
        [
            "notice",
            f"q = {noticed:.0%}",
            span(mean / (1 - noticed) if noticed < 1 else math.inf),
            "M / (1 - q)",
        ],
        [
            "Young",
            f"sqrt(2 x {save:g} x {mean:.0f} / (1 - {noticed:g}))",
            span(young),
            "the interval that is used",
        ],
        ["Daly", "with the next terms", span(daly), "for comparison"],
    ]
    lines = [
        ("work", result.work, "without evictions"),
        (
            "saves",
            result.saves,
            f"{save:g} s each, every {span(job.interval)}{' and at a notice' if noticed else ''}",
        ),
        (
            "done again",
            result.redone,
            f"work since the last save, at {1 - noticed:.0%} of the evictions",
        ),
        (
            "restarts",
            result.restarts,
            f"{result.evictions:.1f} evictions, {job.restart_seconds:g} s each",
        ),
        ("waits", result.waits, f"for capacity, at {job.missing.share:.0%} of the evictions"),
        ("expected", result.elapsed, f"{percent(result.slower)} longer"),
    ]
    top, level, bars = result.elapsed, 0.0, []
    for name, seconds, rule in lines:
        if name == "waits" and not seconds:
            continue
        is_level = name in ("work", "expected")
        start = 0.0 if is_level else level
        level = seconds if is_level else level + seconds
        drawn = round(level * BAR / top) - round(start * BAR / top)
        bar = " " * round(start * BAR / top) + ("█" * drawn if is_level else "▒" * drawn or "▏")
        bars.append(
            [name, f"{seconds / 3600:,.2f}", style(bar, "blue" if is_level else "yellow"), rule]
        )
    parts = [
        style("how often to save", "bold")
        + "\n"
        + table(["", "", "", ""], steps, right=(2,)).lstrip("\n"),
        style("expected time", "bold") + "\n" + table(["", "hours", "", ""], bars, right=(1,)),
    ]
    spot = report.row(Tier.SPOT)
    if spot.price and spot.cost is not None:
        paid = (result.elapsed - result.waits) / 3600
        idle = f" + {result.idle_nodes / 3600:.2f} idle node hours" if result.idle_nodes else ""
        total, source = result.price(spot.price.amount, job.nodes), spot.price
        parts.append(
            f"price: {paid:,.2f} h x {job.nodes} nodes{idle} "
            f"at {money(source.amount)} {report.currency} "
            f"= {money(total)} {report.currency} ({source.source}, {source.day or 'no date'})"
        )
    return "\n\n".join(parts) + "\n"


def _mean_formula(job: TrainingJob) -> str:
    return (
        f"M = M1 / {job.nodes}" if job.together == 1 else f"M = M1 x {job.together:g} / {job.nodes}"
    )


def cost_json(report: CostReport) -> dict[str, Any]:
    """Everything as data; times in seconds unless their name says hours."""
    job, rate, result = report.job, report.rate, report.expected
    young = best_interval(job.save_seconds, job.mean, job.noticed)
    return {
        "size": report.size,
        "region": report.region,
        "currency": report.currency,
        "job": {
            "nodes": job.nodes,
            "work_hours": job.work_seconds / 3600,
            "save_seconds": job.save_seconds,
            "restart_seconds": job.restart_seconds,
            "notice_works": job.noticed,
            "evicted_together": job.together,
            "missing_share": job.missing.share,
            "missing_seconds": job.missing.mean_seconds,
            "fallback_seconds": job.missing.fallback_seconds,
        },
        "eviction_rate": {
            "low": rate.low,
            "used": rate.used,
            "high": rate.high,
            "open_end": rate.open_end,
            "source": rate.source,
        },
        "interval": {
            "mean_between_evictions_seconds": _finite(job.mean),
            "young_seconds": _finite(young),
            "daly_seconds": _finite(daly_interval(job.save_seconds, job.mean, job.noticed)),
            "used_seconds": job.interval,
        },
        "expected": {
            "hours": result.elapsed / 3600,
            "work_hours": result.work / 3600,
            "saves_hours": result.saves / 3600,
            "redone_hours": result.redone / 3600,
            "restarts_hours": result.restarts / 3600,
            "waits_hours": result.waits / 3600,
            "evictions": result.evictions,
        },
        "tiers": [_tier_json(row) for row in report.rows],
        "break_even_rate": report.break_even,
        "break_even_price": report.pays_below,
        "answer": report.sentence,
        "share": _share_json(report),
        "simulation": _simulation_json(report),
        "deadline": _mix_json(report),
        "notes": report.notes,
        "warnings": report.warnings,
    }


def _finite(value: float) -> float | None:
    return None if math.isinf(value) else value


def _tier_json(row: TierCost) -> dict[str, Any]:
    price = row.price
    return {
        "tier": row.tier.value,
        "price_per_hour": price.amount if price else None,
        "price_date": price.day.isoformat() if price and price.day else None,
        "price_source": price.source if price else None,
        "hours": row.hours,
        "slower": row.slower,
        "price": row.cost,
        "price_low": row.low,
        "price_high": row.high,
        "saving": row.saving,
    }


def _share_json(report: CostReport) -> dict[str, Any] | None:
    use = report.share
    if use is None:
        return None
    return {
        "instance_type": use.instance_type,
        "share": use.share,
        "per_vm": use.per_vm,
        "workers": use.workers,
        "vms": use.vms,
        "empty_shares": use.empty,
        "wasted": use.wasted,
        "prices_per_hour": {
            row.tier.value: use.price(row.price.amount) for row in report.rows if row.price
        },
    }


def _simulation_json(report: CostReport) -> dict[str, Any] | None:
    if report.runs is None:
        return None
    hours = [value / 3600 for value in report.runs.elapsed]
    spot, dedicated = report.row(Tier.SPOT).price, report.row(Tier.DEDICATED).price
    costs = (
        report.runs.prices(spot.amount, dedicated.amount if dedicated else None, report.job.nodes)
        if spot
        else None
    )
    return {
        "runs": len(hours),
        "mean_hours": mean_of(hours),
        "mean_evictions": mean_of([float(count) for count in report.runs.evictions]),
        "hours": {f"{share:g}": quantile(hours, share) for share in SHARES},
        "spot_prices": costs and {f"{share:g}": quantile(costs, share) for share in SHARES},
    }


def _mix_json(report: CostReport) -> dict[str, Any] | None:
    mix = report.mix
    if mix is None:
        return None
    return {
        "hours": mix.deadline / 3600,
        "answer": mix_sentence(report),
        "best": mix.best and _policy_json(mix.best),
        "uniform_progress": _policy_json(mix.peer),
        "policies": [_policy_json(row) for row in mix.results],
    }


def _policy_json(row: MixResult) -> dict[str, Any]:
    return {
        "policy": row.policy.name,
        "in_time": row.met,
        "price": row.cost,
        "hours": row.hours,
        "hours_95": row.late_hours,
        "on_demand": row.on_demand,
    }
