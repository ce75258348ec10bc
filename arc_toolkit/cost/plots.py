"""Line plots as numbers for inline SVG: axes with round ticks, lines as points, marks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

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
        shown = [(x, y) for x, y in values if self.y_range[0] <= y <= self.y_range[1]]
        if not shown:
            return
        points = " ".join(f"{self.x(x)},{self.y(y)}" for x, y in shown)
        label = max(self.y(shown[-1][1]) + 4, TOP + 10.0)
        taken = [line.label_y for line in self.lines]
        step = -4 if label > HEIGHT / 2 else 4
        while any(abs(label - other) < 16 for other in taken):
            label += step
        self.lines.append(PlotLine(name, tone, points, self.x(shown[-1][0]) + 6, round(label, 1)))

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
