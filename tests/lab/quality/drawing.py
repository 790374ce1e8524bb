"""Figures as a bar chart."""

from __future__ import annotations

from tests.lab import svg
from tests.lab.quality.figures import Figure

WIDTH = 760
LABELS = 330
VALUES = 60
ROW = 24
TOP = 40
STYLE = ".value{fill:#2f81f7}.baseline{fill:#8c959f}.goal{stroke:#1a7f37;stroke-width:2}"


def draw(part: str, figures: list[Figure]) -> str:
    """Return a chart: a bar a share (counts have none), BM25 alone as a thin bar below it, the goal as a line."""
    title = f"{part.replace('_', ' ')}: blue is KIMAs, grey BM25 alone, the green line the goal"
    shares = [figure for figure in figures if not figure.is_count]
    height = TOP + ROW * len(shares) + 6
    rows = [_row(figure, TOP + ROW * index) for index, figure in enumerate(shares)]
    body = "\n".join([svg.text(4, 18, title, "title"), *rows])
    return svg.document(title, WIDTH, height, body, STYLE, ".goal{stroke:#3fb950}")


def _row(figure: Figure, top: int) -> str:
    scale = WIDTH - LABELS - VALUES
    marks = [
        svg.text(4, top + 13, figure.name),
        svg.rect("value", LABELS, top + 2, figure.value * scale, 11),
        svg.text(WIDTH - VALUES + 8, top + 13, f"{figure.value:.3f}"),
    ]
    if figure.baseline is not None:
        marks.append(svg.rect("baseline", LABELS, top + 14, figure.baseline * scale, 4))
    if figure.goal is not None:
        x = LABELS + figure.goal * scale
        marks.append(svg.line("goal", (x, top), (x, top + 20)))
    return "\n".join(marks)
