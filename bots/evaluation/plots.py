"""What `kimas eval --plot` draws: a measurement as charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import UsageError
from core.messaging.gate.scores import LEVEL, Figure, Scores

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont, ImageFont


WIDTH, HEIGHT = 720, 520
LEFT, RIGHT, TOP, BOTTOM = 78, 24, 58, 68
# Told apart by people who see few colours, and by their marks.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
INK, GRID, PAPER = "#222222", "#dddddd", "#ffffff"
TEXT, HEADING = 15, 18
TICKS = 5


@dataclass(frozen=True, slots=True)
class Point:
    """A value `y` at `x`, with its interval where it has one."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """Points of one name. They are joined by a line unless `joined` is off; `label` stands beside the last one."""

    name: str
    points: Sequence[Point]
    joined: bool = True
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
    for at, chart in enumerate(charts):
        _Panel(
            ImageDraw.Draw(image),
            at * WIDTH,
            chart,
            ImageFont.load_default(TEXT),
            ImageFont.load_default(HEADING),
        ).draw()
    try:
        image.save(path, "PNG")
    except OSError as fault:
        raise UsageError(f"--plot {path} cannot be written: {fault.strerror or fault}") from fault


@dataclass(frozen=True, slots=True)
class _Panel:
    """Where on the image one chart is drawn, and with what."""

    pen: ImageDraw
    left: int
    chart: Chart
    font: FreeTypeFont | ImageFont
    heading: FreeTypeFont | ImageFont

    def draw(self) -> None:
        self._axes()
        for number, series in enumerate(self.chart.series):
            self._series(series, number)
        self._legend()

    def _x(self, value: float) -> float:
        most = max(1, len(self.chart.names) - 1)
        inset = 24 if self.chart.names else 0
        return self.left + LEFT + inset + value / most * (WIDTH - LEFT - RIGHT - 2 * inset)

    def _y(self, value: float) -> float:
        return HEIGHT - BOTTOM - value * (HEIGHT - TOP - BOTTOM)

    def _axes(self) -> None:
        chart, pen = self.chart, self.pen
        left, right = self.left + LEFT, self.left + WIDTH - RIGHT
        for number in range(TICKS + 1):
            value = number / TICKS
            pen.line([(left, self._y(value)), (right, self._y(value))], GRID)
            pen.text((left - 8, self._y(value)), f"{value:g}", INK, self.font, "rm")
            if not chart.names:
                pen.line([(self._x(value), self._y(0)), (self._x(value), self._y(1))], GRID)
                pen.text((self._x(value), self._y(0) + 8), f"{value:g}", INK, self.font, "mt")
        for place, name in enumerate(chart.names):
            pen.text((self._x(place), self._y(0) + 8), name, INK, self.font, "mt")
        pen.line([(left, self._y(1)), (left, self._y(0)), (right, self._y(0))], INK)
        pen.text((left, 18), chart.title, INK, self.heading, "lt")
        pen.text(((left + right) / 2, HEIGHT - 24), chart.x_label, INK, self.font, "mm")
        pen.text((left - 48, TOP - 8), chart.y_label, INK, self.font, "lb")

    def _series(self, series: Series, number: int) -> None:
        colour = COLOURS[number % len(COLOURS)]
        # Side by side, or series that measured the same would hide each other.
        aside = 6 * (number - (len(self.chart.series) - 1) / 2) if self.chart.names else 0
        places = [(self._x(point.x) + aside, self._y(point.y)) for point in series.points]
        if series.joined and len(places) > 1:
            self.pen.line(places, colour, 2)
        for point, (x, y) in zip(series.points, places, strict=True):
            if point.low is not None and point.high is not None:
                low, high = self._y(point.low), self._y(point.high)
                self.pen.line([(x, low), (x, high)], colour, 1)
                for end in (low, high):
                    self.pen.line([(x - 3, end), (x + 3, end)], colour, 1)
            self._mark(x, y, colour, large=not series.joined)
        if series.label and places:
            self.pen.text((places[-1][0] - 10, places[-1][1] - 8), series.label, INK, self.font, "rb")

    def _mark(self, x: float, y: float, colour: str, *, large: bool) -> None:
        size = 6 if large else 3
        self.pen.ellipse([(x - size, y - size), (x + size, y + size)], PAPER if large else colour, colour, 2)

    def _legend(self) -> None:
        at = self._y(0) - 12 - 22 * len(self.chart.series)
        for number, series in enumerate(self.chart.series):
            colour, y = COLOURS[number % len(COLOURS)], at + 22 * number
            # Where curves seldom are: over places they rise, over thresholds they fall.
            x = self.left + (WIDTH - RIGHT - 220 if self.chart.names else LEFT + 22)
            if series.joined:
                self.pen.line([(x - 10, y), (x + 10, y)], colour, 2)
            self._mark(x, y, colour, large=not series.joined)
            self.pen.text((x + 18, y), series.name, INK, self.font, "lm")


INTERVALS = f"bars hold {LEVEL:.0%} of the resamples"
_SCORES = ("precision", "recall", "F1")


def score_charts(rows: Mapping[str, Scores]) -> Sequence[Chart]:
    """Return precision, recall and F1 of every measured thing, with intervals."""
    series = []
    for name, scores in rows.items():
        figures = (scores.precision, scores.recall, scores.f1)
        points = [Point(at, one.value, one.low, one.high) for at, one in enumerate(figures) if one.value is not None]
        series.append(Series(name, points, joined=False))
    return [Chart(f"Citations; {INTERVALS}", "", "share", series, _SCORES)]


def interval_points(figures: Sequence[Figure]) -> Sequence[Point]:
    return [Point(at, one.value, one.low, one.high) for at, one in enumerate(figures) if one.value is not None]
