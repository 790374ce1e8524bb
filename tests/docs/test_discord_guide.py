"""The configuration examples of the Discord guide are valid, and its messages and numbers are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from core.settings import Settings
from tests.support.code import get_code

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "discord.md").read_text("utf-8")


def test_the_examples_are_valid() -> None:
    examples = re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)
    assert len(examples) == 2
    for example in examples:
        assert Settings.model_validate(yaml.safe_load(example)).discord is not None


def test_the_permissions_add_up() -> None:
    values = [int(item) for item in re.findall(r"^\| [A-Z][A-Za-z ]+ \| (\d+) \|", GUIDE, re.MULTILINE)]
    assert len(values) == 4
    assert f"permissions={sum(values)}\n" in GUIDE


def test_the_messages_it_explains_exist() -> None:
    code = get_code("discord")
    for text in (
        "discord.token was refused",
        "discord.message_content_off",
        "discord.commands_not_registered",
        "the bot cannot see this channel",
        "the bot may not write in this channel",
        "discord.reply_refused",
        "discord.reply_delayed",
        "discord.open",
        "discord.connected",
        "the bot is in more servers (2,500) than one connection may serve",
    ):
        assert text in GUIDE
        assert text in code
    assert "discord.gateway_stopped" in GUIDE
    assert 'self._make_retry_loop("gateway", self.connection)' in code
