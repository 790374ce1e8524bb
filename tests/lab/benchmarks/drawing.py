"""Waterfalls as small SVG pictures that can be read on light and on dark pages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

WIDTH = 760
LABELS = 130
RIGHT = 20
ROW = 20
TOP = 46
BOTTOM = 26
NARROWEST = 2.0
STYLE = """
text{font:12px system-ui,sans-serif;fill:#424a53}.title{font-weight:600;fill:#1f2328}
.grid{stroke:#8c959f;stroke-opacity:.3}.stage{fill:#1a7f37}.wait{fill:#a5c8f5}.model{fill:#2f81f7}
.first{stroke:#cf222e;stroke-width:1.5}.said{fill:#cf222e}
@media(prefers-color-scheme:dark){text{fill:#9da7b1}.title{fill:#e6edf3}.stage{fill:#3fb950}.wait{fill:#1f4a80}
.first{stroke:#ff7b72}.said{fill:#ff7b72}}"""


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
    body = "\n".join([*_grid(longest, scale, height), *_bars(rows, scale), *_first_token(waterfall, scale, height)])
    title = escape(waterfall.title)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" role="img" '
        f'aria-label="{title}">\n<title>{title}</title>\n<style>{STYLE}</style>\n'
        f'<text class="title" x="4" y="16">{title}</text>\n{body}\n</svg>\n'
    )


def _grid(longest: float, scale: float, height: int) -> Iterator[str]:
    step = next(step for step in (100, 200, 500, 1000, 2000, 5000, 10_000) if longest / step <= 10)
    for at in range(0, int(longest) + 1, step):
        x = LABELS + at * scale
        yield f'<line class="grid" x1="{x:.1f}" y1="{TOP - 4}" x2="{x:.1f}" y2="{height - BOTTOM + 4}"/>'
        yield f'<text x="{x:.1f}" y="{height - 8}" text-anchor="middle">{at}{" ms" if not at else ""}</text>'


def _bars(rows: list[tuple[str, list[Bar]]], scale: float) -> Iterator[str]:
    for number, (name, bars) in enumerate(rows):
        y = TOP + number * ROW
        yield f'<text x="{LABELS - 8}" y="{y + 13}" text-anchor="end">{escape(name)}</text>'
        for bar in bars:
            tooltip = f"<title>{escape(name)}: from {bar.start_ms:.0f} ms, {bar.spent_ms:.1f} ms</title>"
            spoke = bar.first_ms or bar.end_ms
            if bar.of_model:
                yield _box("wait", bar.start_ms, spoke, y, scale, tooltip)
            if not bar.of_model or bar.first_ms:
                start = bar.first_ms if bar.of_model else bar.start_ms
                yield _box("model" if bar.of_model else "stage", start, bar.end_ms, y, scale, tooltip)


def _box(kind: str, start: float, end: float, y: int, scale: float, tooltip: str) -> str:
    x = LABELS + start * scale
    width = max(NARROWEST, (end - start) * scale)
    return f'<rect class="{kind}" x="{x:.1f}" y="{y + 3}" width="{width:.1f}" height="{ROW - 7}">{tooltip}</rect>'


def _first_token(waterfall: Waterfall, scale: float, height: int) -> Iterator[str]:
    x = LABELS + waterfall.first_token_ms * scale
    anchor = "end" if x > WIDTH * 0.75 else "middle"
    yield f'<line class="first" x1="{x:.1f}" y1="{TOP - 8}" x2="{x:.1f}" y2="{height - BOTTOM + 4}"/>'
    text = f"first token {waterfall.first_token_ms:.0f} ms"
    yield f'<text class="said" x="{x:.1f}" y="{TOP - 12}" text-anchor="{anchor}">{text}</text>'
