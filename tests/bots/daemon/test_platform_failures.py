"""A platform that refuses a bot where the operator's page can set it up: it is told there, and costs no other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from lxml import html

from bots.cli.browser_setup import BrowserSetup
from bots.daemon.runner import run
from core.settings import Settings
from core.settings.loader import load_settings
from tests.support.free_ports import free_port
from tests.support.newcomer import DOCUMENT
from tests.support.peers.slack import SlackPeer
from tests.support.peers.telegram import TelegramPeer

pytestmark = pytest.mark.slow

OWNER = "an-owner-token-of-the-page"
ANN = 7
SOON_S = 90


@pytest.fixture
async def slack() -> AsyncIterator[SlackPeer]:
    async with SlackPeer() as peer:
        yield peer


@pytest.fixture
def config(tmp_path: Path, telegram: TelegramPeer, slack: SlackPeer, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration with a wrong token of Telegram, in the file of secrets, and right ones of Slack."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "rocket.md").write_text(DOCUMENT, "utf-8")
    secrets = {
        "PAGE_OWNER_TOKEN": OWNER,
        "A_TELEGRAM_TOKEN": "1:wrong",
        "A_SLACK_BOT_TOKEN": slack.bot_token,
        "A_SLACK_APP_TOKEN": slack.app_token,
    }
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "kimas.env").write_text(f"A_TELEGRAM_TOKEN={secrets['A_TELEGRAM_TOKEN']}\n", "utf-8")
    (tmp_path / "kimas.env").chmod(0o600)
    (tmp_path / "kimas.yaml").write_text(
        f"""\
data_dir: data
sources: {{docs: {{kind: files, path: docs}}}}
telegram: {{api_url: "{telegram.api_url}", token: {{env: A_TELEGRAM_TOKEN}}}}
slack:
  api_url: {slack.api_url}
  bot_token: {{env: A_SLACK_BOT_TOKEN}}
  app_token: {{env: A_SLACK_APP_TOKEN}}
operator_page: {{port: {free_port()}, owner_token: {{env: PAGE_OWNER_TOKEN}}}}
""",
        "utf-8",
    )
    return tmp_path / "kimas.yaml"


class Visitor:
    """An owner with a browser that runs no scripts."""

    def __init__(self, client: aiohttp.ClientSession) -> None:
        self.client = client

    async def wait_for(self, text: str, timeout: float = SOON_S) -> str:
        """Look at the page until it says something, and return its words."""
        words = ""
        async with asyncio.timeout(timeout):
            while text not in words:
                await asyncio.sleep(0.1)
                words = get_words(await self._look())
        return words

    async def send(self, kind: str, fields: Mapping[str, str]) -> str:
        """Fill in a form, and return the words of the page that follows."""
        form = (await self._look()).xpath(f"//form[@action='/setup/{kind}']")[0]
        hidden = {item.get("name"): item.get("value") for item in form.xpath(".//input[@type='hidden']")}
        async with self.client.post(f"/setup/{kind}", data={**hidden, **fields}) as response:
            return get_words(html.fromstring(await response.text()))

    async def _look(self) -> html.HtmlElement:
        async with self.client.get("/setup") as response:
            return html.fromstring(await response.text())


def get_words(page: html.HtmlElement) -> str:
    return " ".join(page.text_content().split())


@asynccontextmanager
async def running(config: Path) -> AsyncIterator[tuple[asyncio.Task[int], Visitor, Settings]]:
    """Run the daemon with the page for setting up, and sign in."""
    settings = load_settings([config])

    async def reload() -> Settings:
        return load_settings([config])

    setup = BrowserSetup(config, can_restart=True)
    task = asyncio.create_task(run(settings, reload_settings=reload, make_setup=lambda: setup))
    base = f"http://127.0.0.1:{settings.operator_page.port}"
    try:
        async with aiohttp.ClientSession(base, cookie_jar=aiohttp.CookieJar(unsafe=True)) as client:
            async with asyncio.timeout(SOON_S):
                while not await _sign_in(client):
                    assert not task.done(), task.exception()
                    await asyncio.sleep(0.1)
            yield task, Visitor(client), settings
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _sign_in(client: aiohttp.ClientSession) -> bool:
    try:
        async with client.post("/sign-in", data={"token": OWNER}) as response:
            return response.status == 200
    except aiohttp.ClientError:
        return False


async def test_a_refused_token_is_typed_anew_on_the_page(
    config: Path, telegram: TelegramPeer, slack: SlackPeer
) -> None:
    secrets_file = config.with_suffix(".env")
    async with running(config) as (task, visitor, _):
        words = await visitor.wait_for("Telegram has stopped: telegram.token was refused")
        assert "Give Telegram another token" in words
        assert "Connect Slack" not in words
        # The other platform works on.
        await visitor.wait_for("1 passage of 1 document")
        slack.say("D1", "Where is the launch key?")
        await slack.wait_for_reply("D1", SOON_S, containing="blue safe")
        words = await visitor.send("platform", {"platform": "telegram", "token": "2:wrong-as-well"})
        assert "telegram.token was refused" in words
        assert "wrong-as-well" not in words + secrets_file.read_text("utf-8")
        text = config.read_text("utf-8")
        words = await visitor.send("platform", {"platform": "telegram", "token": telegram.token})
        assert "Added: another token for @kimas_bot" in words, words
        assert "A restart is needed for: telegram." in words, words
        assert secrets_file.read_text("utf-8") == f"A_TELEGRAM_TOKEN={telegram.token}\n"
        assert config.read_text("utf-8") == text
        await visitor.send("restart", {})
        assert await asyncio.wait_for(task, SOON_S) == 0
    async with running(config) as (_, visitor, _):
        telegram.say(ANN, "Where is the launch key?")
        await telegram.wait_for_reply(ANN, SOON_S, containing="blue safe")
        assert "has stopped" not in await visitor.wait_for("Set up")


async def test_a_token_from_elsewhere_is_changed_there(config: Path, telegram: TelegramPeer, slack: SlackPeer) -> None:
    config.with_suffix(".env").write_text("OTHER=1\n", "utf-8")
    async with running(config) as (_, visitor, _):
        await visitor.wait_for("Telegram has stopped")
        words = await visitor.send("platform", {"platform": "telegram", "token": telegram.token})
        assert "telegram.token does not come from" in words
        assert config.with_suffix(".env").read_text("utf-8") == "OTHER=1\n"
        assert "has stopped" in await visitor.wait_for("Set up")
