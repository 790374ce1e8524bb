"""`kimas feedback --calibrate` and `/threshold auto`, on real knowledge: by the command line and by the daemon."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bots.daemon.runner import run
from core.settings import Settings
from core.settings.loader import load_settings
from core.storage.messages import Journal
from core.types import ConversationKey
from tests.support.deployment import README, Deployment
from tests.support.peers.telegram import Author, TelegramPeer
from tests.support.ratings import rate

SOON_S = 60
OWNER = Author(1001, "Ann")
GROUP = -100_200
CHAT = f"telegram:{GROUP}"
KEY = ConversationKey("telegram", str(GROUP))
QUESTIONS = [
    "How do I install Rocket?",
    "Which Python does Rocket need?",
    "How do I change the signing key?",
    "How can I rotate keys for sessions?",
    "How do I install the web framework with pip?",
    "Where are sessions kept in Rocket?",
    "Are Rocket sessions kept in signed cookies?",
    "How do I call rotate_keys?",
    "Which Python version does the framework need?",
    "How to change the signing key without logging anybody out?",
]
FOREIGN = [
    "How do I tune the strings of a guitar?",
    "What is the best way to paint a fence?",
    "How do I grow tomatoes in winter?",
    "How to fold a paper crane?",
    "Which wood burns longest in a stove?",
    "How do I repair a bicycle chain?",
    "How can I sharpen kitchen knives?",
    "What is the capital of Mongolia?",
    "How do I train a puppy?",
    "Which planet has the most moons?",
]


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "rocket.md").write_text(README, "utf-8")
    sources = {"rocket": {"kind": "files", "path": "docs"}}
    return Deployment(tmp_path, {"sources": sources, "gate": {"threshold": 0.02}})


async def rate_answers(deployment: Deployment, up_texts: list[str], down_texts: list[str]) -> None:
    journal = await Journal.open(deployment.folder / "data" / "journal.db")
    await rate(journal, KEY, up_texts, "up")
    await rate(journal, KEY, down_texts, "down")
    await journal.close()


@asynccontextmanager
async def daemon(settings: Settings) -> AsyncIterator[None]:
    """Run the daemon for the length of the block, and end it as systemd does."""
    daemon_task = asyncio.create_task(run(settings))
    try:
        yield
    finally:
        # One that ended by itself takes no signal any more: it would end the tests.
        if not daemon_task.done():
            os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(SOON_S):
            assert await daemon_task == 0


async def test_the_command_line_proposes_and_sets_on_request(deployment: Deployment) -> None:
    def call(*extra_arguments: str, code: int = 0) -> str:
        return deployment.call("feedback", "--calibrate", "--chat", CHAT, *extra_arguments, code=code).output

    assert "nobody has rated anything yet" in await asyncio.to_thread(call, code=2)
    assert not (deployment.folder / "data").exists()
    await asyncio.to_thread(deployment.call, "ingest")
    await rate_answers(deployment, QUESTIONS, FOREIGN[1:])
    assert "there are 10 and 9." in await asyncio.to_thread(call, code=2)
    await rate_answers(deployment, [], FOREIGN[:1])

    proposed = await asyncio.to_thread(deployment.json, "feedback", "--calibrate", "--chat", CHAT)
    keys = ("chat", "answer", "leave", "by_words", "before", "applied")
    assert [proposed[key] for key in keys] == [CHAT, 10, 10, 0, 0.02, False]
    assert proposed["after"] == proposed["fitted"] > 0.1
    assert proposed["present"]["precision"]["value"] < 0.75 < 0.8 < proposed["crossed"]["precision"]["value"]
    thread = await asyncio.to_thread(call)
    assert f"{CHAT}: The threshold of this chat would be {proposed['fitted']:g}; it is 0.02." in thread
    assert "Nothing was changed; --apply sets it." in thread
    assert (await asyncio.to_thread(deployment.json, "audit"))["entries"] == []

    assert f"is now {proposed['fitted']:g}; it was 0.02." in await asyncio.to_thread(call, "--apply")
    [entry] = (await asyncio.to_thread(deployment.json, "audit"))["entries"]
    expected = {"platform": "telegram", "chat": str(GROUP), "author_id": "command line", "outcome": "changed"}
    expected |= {"command": "threshold auto", "before": "0.02", "after": f"{proposed['fitted']:g}"}
    assert entry.items() >= expected.items()
    second_output = await asyncio.to_thread(deployment.json, "feedback", "--calibrate", "--apply", "--chat", CHAT)
    assert (second_output["before"], second_output["applied"]) == (proposed["fitted"], False), "it is that already"


def test_options_that_make_no_sense_are_refused(deployment: Deployment) -> None:
    def run_command(*options: str) -> str:
        return deployment.call("feedback", *options, code=2).output

    assert "PLATFORM:CHAT" in run_command("--calibrate")
    assert "PLATFORM:CHAT" in run_command("--calibrate", "--chat", "telegram")
    assert "--calibrate" in run_command("--apply")
    assert "give one of them" in run_command("--labels", "--calibrate", "--chat", CHAT)
    assert "--labels or --calibrate" in run_command("--chat", CHAT)
    assert not (deployment.folder / "data").exists()


async def test_an_owner_has_the_daemon_fit_it(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    await asyncio.to_thread(deployment.call, "ingest")
    await rate_answers(deployment, QUESTIONS, FOREIGN[1:])
    async with TelegramPeer() as telegram:
        monkeypatch.setenv("BOT_TOKEN", telegram.token)
        deployment.settings["telegram"] = {"token": {"env": "BOT_TOKEN"}, "api_url": telegram.api_url}
        deployment.settings["administration"] = {"owners": [f"telegram:{OWNER.id}"]}
        settings = await asyncio.to_thread(load_settings, [deployment.config])

        async def send_command(text: str) -> str:
            message_count = len(telegram.messages(GROUP))
            telegram.say(GROUP, text, author=OWNER)
            return (await telegram.wait_for_reply(GROUP, SOON_S, count=message_count + 1)).text

        async with daemon(settings):
            assert "there are 10 and 9." in await send_command("/threshold auto")
            await rate_answers(deployment, [], FOREIGN[:1])
            reply = await send_command("/threshold auto")
        assert "The threshold of this chat is now 0." in reply
        assert "it was 0.02." in reply
        value = reply.split(" is now ")[1].split(";")[0]
        async with daemon(settings):
            assert f"is {value}; in the configuration it is 0.02" in await send_command("/threshold")
    [entry] = (await asyncio.to_thread(deployment.json, "audit"))["entries"]
    assert (entry["author_id"], entry["before"], entry["after"]) == (str(OWNER.id), "0.02", value)
