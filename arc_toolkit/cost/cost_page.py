"""The report as one HTML page that needs no network, with two plots as inline SVG.

Price against eviction rate shows where spot stops paying; waste against interval shows how much the
interval matters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
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
from arc_toolkit.cost.formulas import expected_run
from arc_toolkit.cost.prices import Tier, money
from arc_toolkit.output.redaction import page_policy

WIDTH, HEIGHT = 640, 340
LEFT, RIGHT, TOP, BOTTOM = 76, 120, 44, 44  # the marks have their names above the lines


@dataclass(frozen=True, slots=True)
class PlotLine:
    name: str
    tone: str  # a class of the style sheet
    points: str  # for `<polyline points>`
    label_x: float
    label_y: float


@dataclass(frozen=True, slots=True)
class PlotMark:
    """A vertical line with a label at the top."""

    name: str
    x: float
    anchor: str
    y: float


@dataclass(slots=True)
class LinePlot:
    """`x_range` and `y_range` in the units of the data; `log`: the x axis is logarithmic."""

    x_range: tuple[float, float]
    y_range: tuple[float, float]
    x_title: str
    y_title: str
    x_text: Callable[[float], str]
    y_text: Callable[[float], str]
    log: bool = False
    lines: list[PlotLine] = field(default_factory=list)
    marks: list[PlotMark] = field(default_factory=list)
    band: tuple[float, float] | None = None  # x and width of a shaded range

    def x(self, value: float) -> float:
        low, high = self.x_range
        part = (
            math.log(value / low) / math.log(high / low)
            if self.log
            else (value - low) / (high - low)
        )
        return round(LEFT + part * (WIDTH - LEFT - RIGHT), 1)

    def y(self, value: float) -> float:
        low, high = self.y_range
        return round(HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM), 1)

    def draw(self, name: str, tone: str, values: Sequence[tuple[float, float]]) -> None:
        """A line; what is above the plot is cut off, and labels keep a distance."""
        visible = [(x, y) for x, y in values if self.y_range[0] <= y <= self.y_range[1]]
        if not visible:
            return
        points = " ".join(f"{self.x(x)},{self.y(y)}" for x, y in visible)
        label = max(self.y(visible[-1][1]) + 4, TOP + 10.0)
        label_positions = [line.label_y for line in self.lines]
        step = -4 if label > HEIGHT / 2 else 4
        while any(abs(label - other) < 16 for other in label_positions):
            label += step
        self.lines.append(PlotLine(name, tone, points, self.x(visible[-1][0]) + 6, round(label, 1)))

    def mark(self, name: str, value: float) -> None:
        if self.x_range[0] <= value <= self.x_range[1]:
            x = self.x(value)
            anchor = "end" if x > (LEFT + WIDTH - RIGHT) / 2 else "start"
            self.marks.append(PlotMark(name, x, anchor, 16 + 16 * len(self.marks)))

    def shade(self, low: float, high: float) -> None:
        if high > low:
            start, end = self.x(max(low, self.x_range[0])), self.x(min(high, self.x_range[1]))
            self.band = (start, round(end - start, 1))

    @property
    def x_ticks(self) -> list[tuple[float, str]]:
        steps = log_steps(*self.x_range) if self.log else round_steps(*self.x_range)
        return [(self.x(step), self.x_text(step)) for step in steps]

    @property
    def y_ticks(self) -> list[tuple[float, str]]:
        return [(self.y(step), self.y_text(step)) for step in round_steps(*self.y_range)]


def round_steps(low: float, high: float, count: int = 5) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten within a range."""
    rough = (high - low) / count
    power = 10 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    first = math.ceil(low / step - 1e-9)
    return [round(index * step, 10) for index in range(first, math.floor(high / step + 1e-9) + 1)]


def log_steps(low: float, high: float) -> list[float]:
    """Times that people name, within a range of seconds."""
    times = (
        1,
        2,
        5,
        10,
        30,
        60,
        120,
        300,
        600,
        1800,
        3600,
        7200,
        18000,
        36000,
        86400,
        172800,
        432000,
    )
    return [float(value) for value in times if low <= value <= high]


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
    """None without any price. With dedicated alone: the price per hour below which spot pays."""
    job, used = report.job, report.rate.used
    amounts = {row.tier: row.price.amount for row in report.rows if row.price}
    if not amounts:
        return None
    furthest = min(0.95, max(0.3, 2 * report.rate.high, 1.2 * (report.break_even or 0.0)))
    rates = [furthest * index / POINTS for index in range(POINTS + 1)]
    results = [(rate, result) for rate in rates if (result := expected_run(job.with_rate(rate)))]
    dedicated = amounts.get(Tier.DEDICATED)
    total = dedicated * job.nodes * job.work_seconds / 3600 if dedicated else None
    per_hour = list(amounts) == [Tier.DEDICATED]
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
    for tier, amount in amounts.items():
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
    results = [(step, expected_run(job, step)) for step in steps]
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
