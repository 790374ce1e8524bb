"""The way from an empty folder to the first answer in a group is as short as the guide shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.lab.first_answer import BEGIN, END, PAGE, QUESTION, Record, record
from tests.support.deployment import ROOT

MAX_STEPS = 6
MAX_SECONDS = 300


def commands(steps: list[str]) -> list[str]:
    return [step.splitlines()[0] for step in steps]


@pytest.mark.timeout(900)
async def test_the_record_in_the_guide_can_be_repeated(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    folder = tmp_path / "bot"
    docs.mkdir()
    folder.mkdir()
    (docs / "telegram.md").write_text((ROOT / "docs" / "telegram.md").read_text("utf-8").partition(BEGIN)[0], "utf-8")
    result = await record([], docs, folder, {"HOME": str(tmp_path)}, Record())
    assert "Telegram then delivers only what is meant for the bot" in result.answer
    page_part = PAGE.read_text("utf-8").partition(BEGIN)[2].partition(END)[0]
    starts = re.findall(r"^# Step (\d+), after (\d+) s\n(.*)$", page_part, re.MULTILINE)
    assert [line for _, _, line in starts[1:]] == commands(result.steps)
    assert starts[0][2].startswith("$ pip install kimas-")
    assert len(starts) <= MAX_STEPS
    assert int(starts[-1][1]) < MAX_SECONDS
    assert QUESTION in starts[-1][2]
