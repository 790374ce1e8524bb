"""A file that the configuration names is private at once, though it was a document until then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from core.settings import Settings
from tests.support.recording_bot import Bot, Sender, open_bot

GROUP = Sender("-100")
OWNER = Sender("1", "1", is_private=True)
QUESTION = "When is the release date of the launcher?"
PLAN = "The release date of the launcher is the first of May, numbat."
FILES = {
    "plan.md": f"# Plan\n\n{PLAN}\n",
    "plan.md.bak.md": f"# Plan\n\n{PLAN}\n",
    "start.md": '# Launcher\n\nThe release date of the launcher:\n\n--8<-- "plan.md"\n',
    "button.md": "# Button\n\nThe release date of the launcher is on the button.\n",
}


def configure(folder: Path, path: str, **changes: Any) -> Settings:
    values = {
        "data_dir": folder / "data",
        "sources": {"docs": {"kind": "files", "path": folder / "kb" / path}},
        "telegram": {"token": {"env": "TELEGRAM"}},
        "administration": {"owners": ["telegram:1"]},
        "knowledge": {"routing": {"threshold": 0}, "search": {"min_fit": 0}},
    }
    return Settings.model_validate({**values, **changes})


async def ask(bot: Bot) -> str:
    await bot.deliver(GROUP, QUESTION)
    return bot.output()


@pytest.mark.parametrize("is_reloaded", [False, True], ids=["restarted", "reloaded"])
@pytest.mark.parametrize("path", ["", "plan.md"], ids=["folder", "file"])
async def test_a_document_that_is_named_as_a_secret_is_told_no_more(
    tmp_path: Path, path: str, *, is_reloaded: bool
) -> None:
    (tmp_path / "kb").mkdir()
    (tmp_path / "data").mkdir()
    for name, text in FILES.items():
        (tmp_path / "kb" / name).write_text(text, "utf-8")
    naming = configure(tmp_path, path, telegram={"token": {"file": tmp_path / "kb" / "plan.md"}})
    async with open_bot(configure(tmp_path, path), is_read=True) as bot:
        assert "numbat" in await ask(bot)
        if is_reloaded:
            bot.live.overrides._cache_ttl_s = 0
            bot.dispatcher.context.take_up = bot.take_up
            bot.new_settings = naming
            await bot.deliver(OWNER, "", "reload")
            bot.output()
            told = await ask(bot)
    if not is_reloaded:
        async with open_bot(naming) as bot:
            told = await ask(bot)
    assert "numbat" not in told
    assert ("button" in told) == (not path), "what is no secret stays"
