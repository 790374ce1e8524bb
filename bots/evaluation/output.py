"""What all measurements share: the knowledge that they run on, tables, JSON, YAML sections and charts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bots.common.terminal import format_table, ingest_progress, make_console
from bots.daemon.bootstrap import NOTHING_INGESTED, App, open_app
from bots.evaluation.datasets import (
    CORPUS_LINE_FORMAT,
    CorpusDocument,
    corpus_store,
    read_cases,
    read_corpus_document,
    with_corpus,
)
from bots.evaluation.metrics import TuningComparison
from core.errors import UsageError
from core.messaging.gate.classification_metrics import CONFIDENCE_LEVEL, Estimate, Scores
from core.runtime.locks import make_data_dir
from core.settings import LiveSource, Settings
from core.text.formatting import strip_control_characters
from knowledge.embedding import open_embedder

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont, ImageFont

_KEEP_CONFIGURED_NOTE = "On questions not fitted to, the fitted values do worse than the configured ones: keep those."
_HEADINGS = ("precision", "recall", "F1", "right", "wrong", "missed")
WIDTH, HEIGHT = 720, 520
LEFT, RIGHT, TOP, BOTTOM = 78, 24, 58, 68
# Told apart by people who see few colours, and by their marks.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
INK, GRID, PAPER = "#222222", "#dddddd", "#ffffff"
TEXT_SIZE, HEADING_SIZE = 15, 18
TICK_COUNT = 5
INTERVALS_NOTE = f"bars hold {CONFIDENCE_LEVEL:.0%} of the resamples"
_SCORE_NAMES = ("precision", "recall", "F1")


def print_lines(lines: Sequence[str]) -> None:
    """Print lines; what a server says in them does not steer the terminal."""
    make_console().print("\n".join(map(strip_control_characters, lines)), markup=False, soft_wrap=True)


async def save_charts(charts: Sequence[Chart], path: Path) -> None:
    """Write a picture and say where, on standard error: what is measured goes to standard output.

    Raises `UsageError` when the file cannot be written.
    """
    await asyncio.to_thread(draw, charts, path)
    message = strip_control_characters(f"the picture is in {path}")
    make_console(stderr=True).print(message, markup=False, soft_wrap=True)


def format_title(cases: int) -> str:
    """Return how many cases were measured, and what the intervals are."""
    return f"{cases} cases; intervals hold {CONFIDENCE_LEVEL:.0%} of the resamples"


def format_figure(figure: Estimate) -> str:
    """Return a figure with its interval as tables show it."""
    if figure.value is None:
        return "-"
    interval = "" if figure.low is None or figure.high is None else f" ({figure.low:.3f}-{figure.high:.3f})"
    return f"{figure.value:.3f}{interval}"


def format_difference(figure: Estimate) -> str:
    """Return a difference with its interval."""
    if figure.value is None or figure.low is None or figure.high is None:
        return "-"
    return f"{figure.value:+.3f} ({figure.low:+.3f} to {figure.high:+.3f})"


def figure_as_json(figure: Estimate) -> Mapping[str, float | None]:
    """Return a figure as every `eval --json` prints it."""
    values = {"value": figure.value, "low": figure.low, "high": figure.high}
    return {name: None if value is None else round(value, 4) for name, value in values.items()}


def figures_as_json(figures: Mapping[str, Estimate]) -> Mapping[str, Any]:
    """Return figures by name."""
    return {name: figure_as_json(figure) for name, figure in figures.items()}


def scores_as_json(scores: Scores) -> Mapping[str, Any]:
    """Return scores as every `eval --json` prints them; a figure that is not defined is null."""
    figures = {"precision": scores.precision, "recall": scores.recall, "f1": scores.f1}
    counts = {
        "right": scores.counts.true_positives,
        "wrong": scores.counts.false_positives,
        "missed": scores.counts.false_negatives,
    }
    return {**figures_as_json(figures), **counts}


def score_table(rows: Mapping[str, Scores]) -> Sequence[str]:
    """Return the lines of a table, a row per measured thing."""
    cells = [
        (name, *map(format_figure, (scores.precision, scores.recall, scores.f1)), *_format_counts(scores))
        for name, scores in rows.items()
    ]
    return format_table([("", *_HEADINGS), *cells])


def format_fit_lines(
    comparisons: Mapping[str, TuningComparison], section: Mapping[str, Any], *, keep_configured: bool
) -> list[str]:
    """Return what fitting brings on questions that it had not seen, and its section; `keep_configured` advises against
    it.
    """
    rows = [("fitted, on questions not fitted to", "configured", "fitted", "difference")]
    rows += [
        (
            name,
            format_figure(comparison.configured),
            format_figure(comparison.tuned),
            format_difference(comparison.difference),
        )
        for name, comparison in comparisons.items()
    ]
    return [
        "",
        *format_table(rows),
        "",
        *([_KEEP_CONFIGURED_NOTE] if keep_configured else []),
        "# Fitted to all questions:",
        *to_yaml_lines(section),
    ]


def comparison_as_json(comparison: TuningComparison) -> Mapping[str, Any]:
    """Return a measure as configured and as fitted, and what they differ by."""
    figures = {"configured": comparison.configured, "fitted": comparison.tuned, "difference": comparison.difference}
    return figures_as_json(figures)


def to_yaml_lines(values: Mapping[str, Any], indent: int = 0) -> list[str]:
    """Return the lines of a section to be copied into the configuration: mappings, numbers, names and lists of them."""
    lines = []
    for key, value in values.items():
        if isinstance(value, Mapping):
            lines += [f"{' ' * indent}{key}:", *to_yaml_lines(value, indent + 2)]
        else:
            scalar = f"[{', '.join(value)}]" if isinstance(value, list) else value
            text = f"{scalar:g}" if isinstance(scalar, float | int) else scalar
            lines.append(f"{' ' * indent}{key}: {text}")
    return lines


def _format_counts(scores: Scores) -> tuple[str, str, str]:
    return str(scores.counts.true_positives), str(scores.counts.false_positives), str(scores.counts.false_negatives)


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
        chart, pen = self.chart, self.pen
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
                low, high = self._to_y(point.low), self._to_y(point.high)
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
            colour, y = COLOURS[index % len(COLOURS)], top + 22 * index
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


async def read_corpus_entries(corpus: Path | None) -> Sequence[CorpusDocument]:
    """Return the documents of a corpus file, none without one. Raises `UsageError` for unusable lines."""
    return await asyncio.to_thread(read_cases, corpus, read_corpus_document, CORPUS_LINE_FORMAT) if corpus else ()


@asynccontextmanager
async def open_knowledge(settings: Settings, corpus_entries: Sequence[CorpusDocument]) -> AsyncIterator[App]:
    """Open the configured knowledge, or that of a corpus, which is deleted at the end.

    Raises `UsageError` where nothing was ingested, `StoreError`, `EmbeddingError`.
    """
    if not corpus_entries:
        async with open_app(settings, with_answers=False) as app:
            if app.library.is_empty:
                raise UsageError(NOTHING_INGESTED)
            yield app
        return
    await asyncio.to_thread(make_data_dir, settings.data_dir)
    async with AsyncExitStack() as stack:
        embedder = await open_embedder(settings.knowledge.embedding, settings.data_dir / "models")
        stack.push_async_callback(embedder.close)
        chunk_tokens = settings.knowledge.chunking.tokens
        with ingest_progress(make_console(stderr=True)) as progress:
            corpus_context = corpus_store(corpus_entries, embedder, chunk_tokens=chunk_tokens, on_progress=progress)
            store = await stack.enter_async_context(corpus_context)
        corpus_settings = with_corpus(settings, corpus_entries)
        yield await stack.enter_async_context(
            open_app(corpus_settings, embedder=embedder, store=store, with_answers=False)
        )


def without_live_sources(settings: Settings) -> Settings:
    """Return the settings without the sources that are asked at question time: they cost, and differ every time."""
    live_sources = {name for name, source in settings.sources.items() if isinstance(source, LiveSource)}
    agents = {}
    for name, agent in settings.agents.items():
        stored_sources = tuple(source for source in agent.sources if source not in live_sources)
        if stored_sources:
            agents[name] = agent.model_copy(update={"sources": stored_sources})
    sources = {name: source for name, source in settings.sources.items() if name not in live_sources}
    return settings.model_copy(update={"sources": sources, "agents": agents})
