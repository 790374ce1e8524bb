"""`kimas init --browser`: a newcomer sets up a bot in Chromium, and it answers in the group."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
import yaml
from playwright.async_api import Page as Tab

from core.settings.loader import load_settings
from tests.support.chromium import AXE, launched, needs_chromium
from tests.support.newcomer import API_KEY, GROUP, OWNER, init_in_browser, set_up
from tests.support.peers.language_model import LanguageModelPeer
from tests.support.peers.telegram import TelegramPeer
from tests.support.terminal import open_kimas

pytestmark = pytest.mark.slow

TAKEN = """\
data_dir: data
sources: {}
operator_page: {port: %d, owner_token: {env: KIMAS_PAGE_TOKEN}}
"""


async def find_violations(tab: Tab) -> list[str]:
    await tab.add_script_tag(path=AXE)
    report = await tab.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [item["id"] for item in report["violations"] if item["impact"] in ("serious", "critical", "moderate")]


@needs_chromium
async def test_a_newcomer_sets_up_a_bot_in_the_browser_alone(tmp_path: Path) -> None:
    async with (
        TelegramPeer() as telegram,
        LanguageModelPeer() as models,
        init_in_browser(tmp_path, "--api-url", telegram.api_url) as (terminal, address),
        launched() as browser,
    ):
        models.models = ("qwen3:8b", "llama3.2")
        # The checker is a script of its own, which the page's policy would refuse.
        context = await browser.new_context(viewport={"width": 360, "height": 800}, bypass_csp=True)
        tab = await context.new_page()

        async def look(name: str) -> None:
            assert await find_violations(tab) == [], name
            size = "document.documentElement.{0}Width"
            assert await tab.evaluate(f"{size.format('scroll')} <= {size.format('client')}"), f"{name} is too wide"
            for secret in (telegram.token, API_KEY):
                assert secret not in await tab.content()

        await set_up(tab, address, telegram, models, look)
        await telegram.wait_for_reply(GROUP, 60)
        await context.close()
        terminal.type(b"\x03")
        assert await terminal.end() == 0
    for secret in (telegram.token, API_KEY):
        assert secret not in terminal.output
        assert secret not in (tmp_path / "kimas.yaml").read_text("utf-8")
    assert (tmp_path / "kimas.env").stat().st_mode & 0o777 == 0o600
    text = (tmp_path / "kimas.yaml").read_text("utf-8")
    assert "# A git repository: a remote URL" in text, "comments stay"
    data = yaml.safe_load(text)
    assert set(data["sources"]) == {"docs", "learned"}
    environment = dict(
        line.split("=", 1) for line in (tmp_path / "kimas.env").read_text("utf-8").splitlines() if line[0] != "#"
    )
    settings = load_settings([tmp_path / "kimas.yaml"], (), environment)
    assert settings.administration.owners == (OWNER,)
    assert settings.gate.chats == (f"telegram:{GROUP}",)
    assert settings.models.main is not None
    assert settings.models.main.model == "qwen3:8b"


async def test_what_ends_the_command_comes_with_the_way_out(tmp_path: Path) -> None:
    env_file = tmp_path / "kimas.env"
    env_file.write_text("KIMAS_PAGE_TOKEN=a-token-of-the-page\n", "utf-8")
    env_file.chmod(0o600)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        (tmp_path / "kimas.yaml").write_text(TAKEN % listener.getsockname()[1], "utf-8")
        async with open_kimas(["init", "--browser"], tmp_path) as terminal:
            assert await terminal.end() != 0
    assert "operator_page.port cannot be listened on" in terminal.output
    assert "or a secret in kimas.env, and give the command again" in " ".join(terminal.output.split())
