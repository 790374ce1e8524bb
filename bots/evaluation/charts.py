"""Charts as PNG: measured figures with their intervals."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bots.common.terminal import make_console
from core.errors import UsageError
from core.formatting import strip_control_characters
from core.messaging.gate.classification_metrics import CONFIDENCE_LEVEL, Estimate, Scores

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont, ImageFont

WIDTH = 720
HEIGHT = 520
LEFT = 78
RIGHT = 24
TOP = 58
BOTTOM = 68
# Told apart by people who see few colours, and by their marks.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
INK = "#222222"
GRID = "#dddddd"
PAPER = "#ffffff"
TEXT_SIZE = 15
HEADING_SIZE = 18
TICK_COUNT = 5
INTERVALS_NOTE = f"bars hold {CONFIDENCE_LEVEL:.0%} of the resamples"
_SCORE_NAMES = ("precision", "recall", "F1")


@dataclass(frozen=True, slots=True)
class Point:
    """A value `y` at `x`, with its interval where it has one."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """Points of one name. They are joined by a line unless `is_joined` is off; `label` stands beside the last one."""

    name: str
    points: Sequence[Point]
    is_joined: bool = True
    label: str = ""


@dataclass(frozen=True, slots=True)
class Chart:
    """One panel. Both axes go from 0 to 1, but for an x axis with `names`: its points are at 0, 1, 2 and so on."""

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    names: Sequence[str] = ()


def check_plot(path: Path | None) -> None:
    """Raise `UsageError` for a path that no PNG can be written to, before anything is measured for it."""
    if path is None:
        return
    if path.suffix.lower() != ".png":
        raise UsageError(f"--plot writes PNG: let {path.name or path} end in .png")
    if path.is_dir() or not path.parent.is_dir():
        raise UsageError(f"--plot {path}: " + ("it is a folder" if path.is_dir() else f"no folder {path.parent}"))


def draw(charts: Sequence[Chart], path: Path) -> None:
    """Write the charts side by side. Raises `UsageError` when the file cannot be written. Blocking."""
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", (WIDTH * len(charts), HEIGHT), PAPER)
    for index, chart in enumerate(charts):
        _Panel(
            ImageDraw.Draw(image),
            index * WIDTH,
            chart,
            ImageFont.load_default(TEXT_SIZE),
            ImageFont.load_default(HEADING_SIZE),
        ).draw()
    try:
        image.save(path, "PNG")
    except OSError as error:
        raise UsageError(f"--plot {path} cannot be written: {error.strerror or error}") from error


@dataclass(frozen=True, slots=True)
class _Panel:
    """Where on the image one chart is drawn, and with what."""

    pen: ImageDraw
    left: int
    chart: Chart
    font: FreeTypeFont | ImageFont
    heading_font: FreeTypeFont | ImageFont

    def draw(self) -> None:
        self._draw_axes()
        for index, series in enumerate(self.chart.series):
            self._draw_series(series, index)
        self._draw_legend()

    def _to_x(self, value: float) -> float:
        max_x = max(1, len(self.chart.names) - 1)
        inset = 24 if self.chart.names else 0
        return self.left + LEFT + inset + value / max_x * (WIDTH - LEFT - RIGHT - 2 * inset)

    def _to_y(self, value: float) -> float:
        return HEIGHT - BOTTOM - value * (HEIGHT - TOP - BOTTOM)

    def _draw_axes(self) -> None:
        chart = self.chart
        pen = self.pen
        left, right = self.left + LEFT, self.left + WIDTH - RIGHT
        for tick in range(TICK_COUNT + 1):
            value = tick / TICK_COUNT
            pen.line([(left, self._to_y(value)), (right, self._to_y(value))], GRID)
            pen.text((left - 8, self._to_y(value)), f"{value:g}", INK, self.font, "rm")
            if not chart.names:
                pen.line([(self._to_x(value), self._to_y(0)), (self._to_x(value), self._to_y(1))], GRID)
                pen.text((self._to_x(value), self._to_y(0) + 8), f"{value:g}", INK, self.font, "mt")
        for index, name in enumerate(chart.names):
            pen.text((self._to_x(index), self._to_y(0) + 8), name, INK, self.font, "mt")
        pen.line([(left, self._to_y(1)), (left, self._to_y(0)), (right, self._to_y(0))], INK)
        pen.text((left, 18), chart.title, INK, self.heading_font, "lt")
        pen.text(((left + right) / 2, HEIGHT - 24), chart.x_label, INK, self.font, "mm")
        pen.text((left - 48, TOP - 8), chart.y_label, INK, self.font, "lb")

    def _draw_series(self, series: Series, index: int) -> None:
        colour = COLOURS[index % len(COLOURS)]
        # Side by side, or series that measured the same would hide each other.
        offset = 6 * (index - (len(self.chart.series) - 1) / 2) if self.chart.names else 0
        positions = [(self._to_x(point.x) + offset, self._to_y(point.y)) for point in series.points]
        if series.is_joined and len(positions) > 1:
            self.pen.line(positions, colour, 2)
        for point, (x, y) in zip(series.points, positions, strict=True):
            if point.low is not None and point.high is not None:
                low = self._to_y(point.low)
                high = self._to_y(point.high)
                self.pen.line([(x, low), (x, high)], colour, 1)
                for end in (low, high):
                    self.pen.line([(x - 3, end), (x + 3, end)], colour, 1)
            self._draw_marker(x, y, colour, is_large=not series.is_joined)
        if series.label and positions:
            self.pen.text((positions[-1][0] - 10, positions[-1][1] - 8), series.label, INK, self.font, "rb")

    def _draw_marker(self, x: float, y: float, colour: str, *, is_large: bool) -> None:
        size = 6 if is_large else 3
        self.pen.ellipse([(x - size, y - size), (x + size, y + size)], PAPER if is_large else colour, colour, 2)

    def _draw_legend(self) -> None:
        top = self._to_y(0) - 12 - 22 * len(self.chart.series)
        for index, series in enumerate(self.chart.series):
            colour = COLOURS[index % len(COLOURS)]
            y = top + 22 * index
            # Where curves seldom are: over ranks they rise, over thresholds they fall.
            x = self.left + (WIDTH - RIGHT - 220 if self.chart.names else LEFT + 22)
            if series.is_joined:
                self.pen.line([(x - 10, y), (x + 10, y)], colour, 2)
            self._draw_marker(x, y, colour, is_large=not series.is_joined)
            self.pen.text((x + 18, y), series.name, INK, self.font, "lm")


def score_charts(rows: Mapping[str, Scores]) -> Sequence[Chart]:
    """Return precision, recall and F1 of every measured thing, with intervals."""
    series = []
    for name, scores in rows.items():
        figures = (scores.precision, scores.recall, scores.f1)
        series.append(Series(name, interval_points(figures), is_joined=False))
    return [Chart(f"Citations; {INTERVALS_NOTE}", "", "share", series, _SCORE_NAMES)]


def interval_points(figures: Sequence[Estimate]) -> Sequence[Point]:
    """Return estimates as points with their intervals, at 0, 1, 2 and so on."""
    return [
        Point(index, figure.value, figure.low, figure.high)
        for index, figure in enumerate(figures)
        if figure.value is not None
    ]


async def save_charts(charts: Sequence[Chart], path: Path) -> None:
    """Write a picture and say where, on standard error: what is measured goes to standard output.

    Raises `UsageError` when the file cannot be written.
    """
    await asyncio.to_thread(draw, charts, path)
    message = strip_control_characters(f"the picture is in {path}")
    make_console(stderr=True).print(message, markup=False, soft_wrap=True)
