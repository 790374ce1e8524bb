"""Figures as a small SVG bar chart that can be read on light and on dark pages."""

from __future__ import annotations

from html import escape

from tests.lab.quality.figures import Figure

WIDTH = 760
LABELS = 330
VALUES = 60
ROW = 24
TOP = 40
STYLE = """
text{font:12px system-ui,sans-serif;fill:#424a53}.title{font-weight:600;fill:#1f2328}
.value{fill:#2f81f7}.baseline{fill:#8c959f}.goal{stroke:#1a7f37;stroke-width:2}
@media(prefers-color-scheme:dark){text{fill:#9da7b1}.title{fill:#e6edf3}.goal{stroke:#3fb950}}"""


def draw(part: str, figures: list[Figure]) -> str:
    """Return a chart: a bar a figure, BM25 alone as a thin bar below it, the goal as a line."""
    title = escape(f"{part.replace('_', ' ')}: blue is KIMAs, grey BM25 alone, the green line the goal")
    height = TOP + ROW * len(figures) + 6
    rows = "\n".join(_row(figure, TOP + ROW * index) for index, figure in enumerate(figures))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" role="img" '
        f'aria-label="{title}">\n<title>{title}</title>\n<style>{STYLE}</style>\n'
        f'<text class="title" x="4" y="18">{title}</text>\n{rows}\n</svg>\n'
    )


def _row(figure: Figure, top: int) -> str:
    scale = WIDTH - LABELS - VALUES
    marks = [
        f'<text x="4" y="{top + 13}">{escape(figure.name)}</text>',
        f'<rect class="value" x="{LABELS}" y="{top + 2}" width="{figure.value * scale:.1f}" height="11"/>',
        f'<text x="{WIDTH - VALUES + 8}" y="{top + 13}">{figure.value:.3f}</text>',
    ]
    if figure.baseline is not None:
        width = figure.baseline * scale
        marks.append(f'<rect class="baseline" x="{LABELS}" y="{top + 14}" width="{width:.1f}" height="4"/>')
    if figure.goal is not None:
        x = LABELS + figure.goal * scale
        marks.append(f'<line class="goal" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{top + 20}"/>')
    return "\n".join(marks)
