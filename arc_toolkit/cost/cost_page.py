"""The report as one HTML page that needs no network, with two plots as inline SVG.

Price against eviction rate shows where spot stops paying; waste against interval shows how much the
interval matters.
"""

from __future__ import annotations

import math
from typing import Any

from arc_toolkit import resources
from arc_toolkit.checkpoints.interval import daly_interval
from arc_toolkit.cost.cost_report import CostReport
from arc_toolkit.cost.cost_text import (
    cost_json,
    explain_cost,
    interval_sentence,
    mix_sentence,
    price_range,
    span,
)
from arc_toolkit.cost.eviction_rates import percent
from arc_toolkit.cost.formulas import expected
from arc_toolkit.cost.plots import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, LinePlot
from arc_toolkit.cost.prices import Tier, money
from arc_toolkit.output.redaction import page_policy

POINTS = 120
TONES = {Tier.DEDICATED: "dedicated", Tier.SPOT: "spot", Tier.LOW_PRIORITY: "low"}


def render_cost(report: CostReport) -> str:
    from markupsafe import Markup

    style = (resources.shipped("templates") / "cost.css").read_text(encoding="utf-8")
    return resources.render(
        "cost.html.j2",
        style=Markup(style),  # noqa: S704 (our own file, not input)
        policy=page_policy(style),
        **cost_values(report),
    )


def cost_values(report: CostReport) -> dict[str, Any]:
    """The values of the template."""
    data = cost_json(report)
    return {
        "report": report,
        "data": data,
        "interval": interval_sentence(report),
        "formulas": explain_cost(report, lambda text, *_: text),
        "price_plot": price_plot(report),
        "waste_plot": waste_plot(report),
        "mix_answer": mix_sentence(report) if report.mix else "",
        "money": money,
        "price_range": price_range,
        "percent": percent,
        "box": {"width": WIDTH, "height": HEIGHT, "left": LEFT, "right": WIDTH - RIGHT, "top": TOP}
        | {"bottom": HEIGHT - BOTTOM},
    }


def price_plot(report: CostReport) -> LinePlot | None:
    """None without any price. If only that of dedicated is known: the price per hour below which spot pays."""
    job, used = report.job, report.rate.used
    known = {row.tier: row.price.amount for row in report.rows if row.price}
    if not known:
        return None
    furthest = min(0.95, max(0.3, 2 * report.rate.high, 1.2 * (report.break_even or 0.0)))
    rates = [furthest * index / POINTS for index in range(POINTS + 1)]
    results = [(rate, result) for rate in rates if (result := expected(job.at(rate)))]
    dedicated = known.get(Tier.DEDICATED)
    total = dedicated * job.nodes * job.work_seconds / 3600 if dedicated else None
    per_hour = list(known) == [Tier.DEDICATED]
    curves: list[tuple[str, str, list[tuple[float, float]]]] = []
    if dedicated and total:
        curves.append(
            (
                Tier.DEDICATED.value,
                "dedicated",
                [(rate, dedicated if per_hour else total) for rate in rates],
            )
        )
    if per_hour and total:
        curves.append(
            (
                "spot pays below",
                "spot",
                [(rate, total / item.price(1.0, job.nodes)) for rate, item in results],
            )
        )
    for tier, amount in known.items():
        if tier is not Tier.DEDICATED:
            curve = [(rate, result.price(amount, job.nodes)) for rate, result in results]
            curves.append((tier.value, TONES[tier], curve))
    highest = (
        1.3 * curves[0][2][0][1] if total else max(y for _, _, curve in curves for _, y in curve)
    )
    plot = LinePlot(
        (0.0, furthest),
        (0.0, highest * 1.05),
        "evictions per node and hour",
        f"price per VM and hour ({report.currency})"
        if per_hour
        else f"expected price ({report.currency})",
        lambda value: f"{value:.0%}".replace("%", " %"),
        lambda value: f"{value:,.0f}" if highest >= 10 else f"{value:.3g}",
    )
    plot.shade(report.rate.low, report.rate.high)
    for name, tone, points in curves:
        plot.draw(name, tone, points)
    plot.mark(f"computed with {percent(used)}", used)
    if report.break_even is not None:
        plot.mark(f"stops paying at {percent(report.break_even)}", report.break_even)
    return plot


def waste_plot(report: CostReport) -> LinePlot | None:
    """None without evictions, or if saves cost nothing."""
    job = report.job
    if math.isinf(job.mean) or not job.save_seconds:
        return None
    low, high = max(1.0, job.interval / 20), min(job.work_seconds, job.interval * 20)
    steps = [low * (high / low) ** (index / POINTS) for index in range(POINTS + 1)]
    results = [(step, expected(job, step)) for step in steps]
    curve = [(step, result.slower) for step, result in results if result]
    least = min(y for _, y in curve)
    highest = min(max(y for _, y in curve), 6 * least)
    plot = LinePlot(
        (low, high),
        (0.0, highest * 1.05),
        "work between two saves",
        "time added to the work",
        span,
        lambda value: percent(value) if value else "0 %",
        log=True,
    )
    plot.draw("waste", "spot", curve)
    plot.mark(f"Young {span(job.interval)}", job.interval)
    plot.mark(f"Daly {span(daly := daly_interval(job.save_seconds, job.mean, job.noticed))}", daly)
    return plot
