"""The charts of the tests: SVG that can be read on light and on dark pages."""

from __future__ import annotations

from html import escape

STYLE = "text{font:12px system-ui,sans-serif;fill:#424a53}.title{font-weight:600;fill:#1f2328}"
DARK_STYLE = "text{fill:#9da7b1}.title{fill:#e6edf3}"


def document(title: str, width: int, height: int, body: str, style: str, dark_style: str = "") -> str:
    """Return a picture of this size in pixels; `style` is the CSS of its own classes, `dark_style` on a dark page."""
    label = escape(title)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img" '
        f'aria-label="{label}">\n<title>{label}</title>\n<style>\n{STYLE}\n{style}\n'
        f"@media(prefers-color-scheme:dark){{{DARK_STYLE}{dark_style}}}</style>\n{body}\n</svg>\n"
    )


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "") -> str:
    """Return words at a place; `anchor` is their middle or end, `kind` their class."""
    kind_attribute = f' class="{kind}"' if kind else ""
    anchor_attribute = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text{kind_attribute} x="{_number(x)}" y="{_number(y)}"{anchor_attribute}>{escape(words)}</text>'


def rect(kind: str, x: float, y: float, width: float, height: float, tooltip: str = "") -> str:
    """Return a bar; a tooltip is shown where a pointer stops on it."""
    title = f"<title>{escape(tooltip)}</title>" if tooltip else ""
    size = f'width="{_number(width)}" height="{_number(height)}"'
    return f'<rect class="{kind}" x="{_number(x)}" y="{_number(y)}" {size}>{title}</rect>'


def line(kind: str, start: tuple[float, float], end: tuple[float, float]) -> str:
    """Return a line between two places."""
    (x1, y1), (x2, y2) = start, end
    return f'<line class="{kind}" x1="{_number(x1)}" y1="{_number(y1)}" x2="{_number(x2)}" y2="{_number(y2)}"/>'


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
