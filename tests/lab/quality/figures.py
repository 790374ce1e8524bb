"""What a part of the quality sets reports, and the figures that were committed last."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

COMMITTED = Path(__file__).with_name("figures.json")


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value between 0 and 1, or, with `is_count`, a number of cases.

    `goal` is what the project wants to reach (at least, or at most when `lower_is_better`), `baseline` what plain BM25
    reaches on the same data; both are None where there is no such thing.
    """

    name: str
    value: float
    goal: float | None = None
    baseline: float | None = None
    lower_is_better: bool = False
    is_count: bool = False

    def reaches_goal(self) -> bool:
        """Return whether the value is at least as good as the goal; True where there is none."""
        if self.goal is None:
            return True
        return self.value <= self.goal if self.lower_is_better else self.value >= self.goal


def committed() -> dict[str, dict[str, float]]:
    """Return the values of the last commit: part -> figure's name -> value."""
    values: dict[str, dict[str, float]] = json.loads(COMMITTED.read_text("utf-8")) if COMMITTED.exists() else {}
    return values


def commit(measured: dict[str, list[Figure]]) -> None:
    """Write the values of the parts that ran; those of other parts stay as they are."""
    values = committed() | {
        part: {figure.name: round(figure.value, 4) for figure in figures} for part, figures in measured.items()
    }
    COMMITTED.write_text(json.dumps(dict(sorted(values.items())), indent=2, ensure_ascii=False) + "\n", "utf-8")
