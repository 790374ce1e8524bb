"""Waterfalls as small pictures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.lab import svg

WIDTH = 760
LABELS = 130
RIGHT = 20
ROW = 20
TOP = 46
BOTTOM = 26
NARROWEST = 2.0
STYLE = (
    ".grid{stroke:#8c959f;stroke-opacity:.3}.stage{fill:#1a7f37}.wait{fill:#a5c8f5}.model{fill:#2f81f7}"
    ".first{stroke:#cf222e;stroke-width:1.5}.said{fill:#cf222e}"
)
DARK_STYLE = ".stage{fill:#3fb950}.wait{fill:#1f4a80}.first{stroke:#ff7b72}.said{fill:#ff7b72}"


@dataclass(frozen=True, slots=True)
class Bar:
    """A stage or a model call: when it began and how long it took, in milliseconds, and when a call spoke first."""

    name: str
    start_ms: float
    spent_ms: float
    first_ms: float = 0.0

    @property
    def end_ms(self) -> float:
        return self.start_ms + self.spent_ms

    @property
    def of_model(self) -> bool:
        return self.name.startswith("model: ")


@dataclass(frozen=True, slots=True)
class Waterfall:
    """What ran for one answer, and when its first token came."""

    title: str
    bars: tuple[Bar, ...]
    first_token_ms: float

    def without_model_ms(self) -> float:
        """Return how long, before the first token, no model call was under way."""
        covered = 0.0
        reached = 0.0
        for bar in sorted((bar for bar in self.bars if bar.of_model), key=lambda bar: bar.start_ms):
            start = max(bar.start_ms, reached)
            end = min(bar.end_ms, self.first_token_ms)
            covered += max(0.0, end - start)
            reached = max(reached, end)
        return self.first_token_ms - covered

    def rows(self) -> list[tuple[str, list[Bar]]]:
        """Return the bars by name, in the order in which each name began."""
        ordered = sorted(self.bars, key=lambda bar: bar.start_ms)
        names = dict.fromkeys(bar.name for bar in ordered)
        return [(name, [bar for bar in ordered if bar.name == name]) for name in names]


def draw(waterfall: Waterfall) -> str:
    """Return the picture as an SVG document."""
    rows = waterfall.rows()
    height = TOP + ROW * len(rows) + BOTTOM
    longest = max(bar.end_ms for bar in waterfall.bars) * 1.02
    scale = (WIDTH - LABELS - RIGHT) / longest
    marks = [svg.text(4, 16, waterfall.title, "title")]
    marks += [*_grid(longest, scale, height), *_bars(rows, scale), *_first_token(waterfall, scale, height)]
    return svg.document(waterfall.title, WIDTH, height, "\n".join(marks), STYLE, DARK_STYLE)


def _grid(longest: float, scale: float, height: int) -> Iterator[str]:
    step = next(step for step in (100, 200, 500, 1000, 2000, 5000, 10_000) if longest / step <= 10)
    for at in range(0, int(longest) + 1, step):
        x = LABELS + at * scale
        yield svg.line("grid", (x, TOP - 4), (x, height - BOTTOM + 4))
        yield svg.text(x, height - 8, f"{at}{'' if at else ' ms'}", anchor="middle")


def _bars(rows: list[tuple[str, list[Bar]]], scale: float) -> Iterator[str]:
    for number, (name, bars) in enumerate(rows):
        y = TOP + number * ROW
        yield svg.text(LABELS - 8, y + 13, name, anchor="end")
        for bar in bars:
            tooltip = f"{name}: from {bar.start_ms:.0f} ms, {bar.spent_ms:.1f} ms"
            spoke = bar.first_ms or bar.end_ms
            if bar.of_model:
                yield _box("wait", bar.start_ms, spoke, y, scale, tooltip)
            if not bar.of_model or bar.first_ms:
                start = bar.first_ms if bar.of_model else bar.start_ms
                yield _box("model" if bar.of_model else "stage", start, bar.end_ms, y, scale, tooltip)


def _box(kind: str, start: float, end: float, y: int, scale: float, tooltip: str) -> str:
    x = LABELS + start * scale
    width = max(NARROWEST, (end - start) * scale)
    return svg.rect(kind, x, y + 3, width, ROW - 7, tooltip)


def _first_token(waterfall: Waterfall, scale: float, height: int) -> Iterator[str]:
    x = LABELS + waterfall.first_token_ms * scale
    anchor = "end" if x > WIDTH * 0.75 else "middle"
    yield svg.line("first", (x, TOP - 8), (x, height - BOTTOM + 4))
    yield svg.text(x, TOP - 12, f"first token {waterfall.first_token_ms:.0f} ms", "said", anchor)
