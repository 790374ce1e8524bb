"""The configuration examples of the Telegram guide are valid, and its messages are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from core.settings import Settings
from tests.support.code import get_code

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "telegram.md").read_text("utf-8")


def test_the_examples_are_valid() -> None:
    examples = re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)
    assert len(examples) == 3
    for example in examples:
        assert Settings.model_validate(yaml.safe_load(example)).telegram is not None


def test_the_messages_it_explains_exist() -> None:
    code = get_code("telegram")
    for text in (
        "telegram.token was refused",
        "another program takes this bot's updates",
        "telegram.webhook_removed",
        "the bot may not write",
        "the topic is closed",
        "telegram.reply_delayed",
        "telegram.open",
    ):
        assert text in GUIDE
        assert text in code
