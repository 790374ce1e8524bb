"""The waterfall pictures: there is one for every strategy, the guide shows it, and it says what was measured."""

from __future__ import annotations

import re
from typing import get_args
from xml.etree import ElementTree

import pytest

from core.runtime.budget import Budget
from core.settings import BudgetSettings, Strategy
from tests.lab.benchmarks.drawing import Bar, Waterfall, draw
from tests.lab.benchmarks.waterfall import CASES, PICTURES, Case
from tests.support.deployment import ROOT

SVG = "{http://www.w3.org/2000/svg}"
CALL = Bar("model: plan <&>", 10, 100)
ANSWER = Bar("model: summarizer", 130, 200, 180)
RUN = Waterfall("a <title>", (Bar("search", 111, 9), ANSWER, CALL, Bar("search", 112, 10)), 180)


def test_every_strategy_has_its_picture_and_the_guide_shows_each() -> None:
    matches = re.findall(r"!\[[^\]]+\]\(images/(waterfall-[a-z-]+)\.svg\)", (ROOT / "docs/answering.md").read_text())
    assert sorted(matches) == sorted(path.stem for path in PICTURES.glob("waterfall-*.svg"))
    assert sorted(matches) == sorted(f"waterfall-{case.name}" for case in CASES)
    assert {case.strategy for case in CASES} == set(get_args(Strategy))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_picture_is_small_and_marks_the_first_token(case: Case) -> None:
    path = PICTURES / f"waterfall-{case.name}.svg"
    assert path.stat().st_size < 20_000
    root = ElementTree.parse(path).getroot()  # noqa: S314  our own picture
    texts = [text.text or "" for text in root.iter(f"{SVG}text")]
    assert any(re.fullmatch(r"first token \d+ ms", text) for text in texts)
    assert "model: summarizer" in texts
    assert "prefers-color-scheme:dark" in path.read_text("utf-8")


def test_rows_follow_each_other_as_they_began_and_one_name_has_one_row() -> None:
    assert [(name, len(bars)) for name, bars in RUN.rows()] == [
        ("model: plan <&>", 1),
        ("search", 2),
        ("model: summarizer", 1),
    ]
    assert RUN.without_model_ms() == pytest.approx(10 + 20)
    picture = ElementTree.fromstring(draw(RUN))  # noqa: S314  our own picture
    assert len(list(picture.iter(f"{SVG}rect"))) == 5, "two searches, a call, and a call that spoke in the middle"
    assert picture.attrib["aria-label"] == "a <title>"


def test_a_budget_notes_when_each_run_of_a_stage_began() -> None:
    budget = Budget(BudgetSettings())
    for _ in range(2):
        with budget.timed("search"):
            pass
    first, second = budget.spans
    assert first.stage == second.stage == "search"
    assert 0 <= first.start_ms <= first.start_ms + first.spent_ms <= second.start_ms + 0.02
    assert max(first.spent_ms, second.spent_ms) == budget.timings_ms["search"]
