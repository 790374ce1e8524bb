"""Pictures of the suites that measure the same at several sizes or rates: a panel for each measure.

`docs/quality.md` shows them. They are drawn from the committed figures alone.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.lab import svg

# "1,000 passages: search p50": the figure of one point of a curve.
POINT = re.compile(r"(?:.*, )?(?P<x>[\d,]+) (?P<axis>passages|questions a second): (?P<measure>.+)")
MIN_POINTS = 3
# An axis over more than two powers of ten is drawn by powers.
LOG_FROM = 100
WIDTH = 760
PANEL = 190
LEFT = 54
RIGHT = 26
TOP = 34
BOTTOM = 40
STYLE = (
    ".about{font-size:11px}.curve{fill:none;stroke:#2f81f7;stroke-width:2}.point{fill:#2f81f7}"
    ".axis{stroke:#8c959f;stroke-opacity:.5}.ideal{stroke:#8c959f;stroke-dasharray:4 3}"
)


@dataclass(slots=True)
class Curve:
    """One measure over the sizes or rates. With `has_ideal`, the best possible is as high as the axis says."""

    measure: str
    unit: str
    axis: str
    points: list[tuple[float, float]] = field(default_factory=list)

    @property
    def has_ideal(self) -> bool:
        return self.unit == "answers/s" and self.axis == "questions a second"

    @property
    def title(self) -> str:
        return f"{self.measure}, {self.unit}" if self.unit else self.measure


def curves(figures: Sequence[Mapping[str, Any]]) -> list[Curve]:
    """Return the curves that the figures of a suite make, in their order."""
    curves_by_name: dict[tuple[str, str], Curve] = {}
    for figure in figures:
        if match := POINT.fullmatch(figure["what"]):
            key = match["measure"], match["axis"]
            curve = curves_by_name.setdefault(key, Curve(match["measure"], figure["unit"], match["axis"]))
            curve.points.append((float(match["x"].replace(",", "")), figure["value"]))
    return [curve for curve in curves_by_name.values() if len(curve.points) >= MIN_POINTS]


def pictures(values: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return a picture for each suite that has curves, by the name of the suite."""
    curves_by_suite = {suite: curves(result["figures"]) for suite, result in values.items()}
    return {
        suite: draw(suite, curves_by_suite[suite], result["machine"])
        for suite, result in values.items()
        if curves_by_suite[suite]
    }


def save(values: Mapping[str, Mapping[str, Any]], folder: Path) -> None:
    """Write the pictures into a folder."""
    for suite, picture in pictures(values).items():
        (folder / f"{suite}.svg").write_text(picture, "utf-8")


def draw(suite: str, curves: Sequence[Curve], machine: Mapping[str, str]) -> str:
    """Return the panels of a suite, with the machine below them."""
    rows = (len(curves) + 1) // 2
    height = TOP + rows * PANEL + 16
    title = f"make bench, suite {suite}: over {curves[0].axis}"
    machine_text = f"{machine['date']}, commit {machine['commit']}, {machine['processor']}, {machine['memory']}"
    marks = [svg.text(4, 18, title, "title")]
    for number, curve in enumerate(curves):
        marks += _panel(curve, number % 2 * WIDTH / 2, TOP + number // 2 * PANEL)
    marks.append(svg.text(4, height - 6, machine_text, "about"))
    return svg.document(title, WIDTH, height, "\n".join(marks), STYLE)


def _panel(curve: Curve, left: float, top: float) -> Iterator[str]:
    points = sorted(curve.points)
    xs = [x for x, _ in points]
    largest = max(value for _, value in points) or 1.0
    bottom = top + PANEL - BOTTOM
    right = left + WIDTH / 2 - RIGHT
    is_log = min(xs) > 0 and max(xs) / min(xs) >= LOG_FROM

    def to_x(x: float) -> float:
        low, at, high = (math.log(value) if is_log else value for value in (min(xs), x, max(xs)))
        return left + LEFT + (at - low) / (high - low) * (right - left - LEFT)

    def to_y(value: float) -> float:
        return bottom - value / largest * (PANEL - BOTTOM - 34)

    yield svg.text(left + 8, top + 14, curve.title, "title")
    yield svg.line("axis", (left + LEFT, bottom), (right, bottom))
    if curve.has_ideal:
        start = min(xs)
        end = min(max(xs), largest)
        yield svg.line("ideal", (to_x(start), to_y(start)), (to_x(end), to_y(end)))
    line = " ".join(f"{to_x(x):.1f},{to_y(value):.1f}" for x, value in points)
    yield f'<polyline class="curve" points="{line}"/>'
    for x, value in points:
        yield f'<circle class="point" cx="{to_x(x):.1f}" cy="{to_y(value):.1f}" r="3"/>'
        yield svg.text(to_x(x), to_y(value) - 8, format_number(value), anchor="middle")
        yield svg.text(to_x(x), bottom + 16, format_number(x), anchor="middle")


def format_number(value: float) -> str:
    """Return a number as short as it can be read.

    >>> [format_number(value) for value in (0.123, 4.56, 78.9, 1000, 12345, 500_000)]
    ['0.12', '4.6', '79', '1k', '12k', '500k']
    """
    if value >= 1000:
        return f"{value / 1000:.3g}k" if value < 10_000 else f"{value / 1000:.0f}k"
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def read(file: Path) -> dict[str, Any]:
    """Return the committed figures by suite; none where there is no file yet."""
    values: dict[str, Any] = json.loads(file.read_text("utf-8")) if file.exists() else {}
    return values
