"""Where long messages are cut, alike on every platform whose markup can be cut as it is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bots.discord import render as discord
from bots.slack import render as slack


@pytest.mark.parametrize("split", [discord.split_message, slack.split_message], ids=["discord", "slack"])
@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("Aaaa bbb. Cccc dddd eeee", ["Aaaa bbb.", "Cccc dddd eeee"]),
        ("第一句话。第二句话是这样的，还没完呢", ["第一句话。", "第二句话是这样的，还没完呢"]),
        ("先用 `a。b c` 然后再等一会儿吧", ["先用 `a。b c`", "然后再等一会儿吧"]),
        ("A. bbbb cccc dddd eeee", ["A. bbbb cccc", "dddd eeee"]),
    ],
)
def test_a_line_is_split_after_a_sentence_unless_that_wastes_too_much(
    split: Callable[[str, int], list[str]], line: str, parts: list[str]
) -> None:
    assert [part.strip() for part in split(line, 16)] == parts
