"""A channel of Slack that another organization shares: its people are not those of the workspace."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from bots.daemon.alerts import AlertSender
from bots.daemon.posting import make_post
from bots.slack import channel_directory
from core.catalogue import ENGLISH
from core.settings import Settings
from core.storage.overrides import LiveSettings, RuntimeOverrides
from core.storage.tables import DRAFTED, messages
from core.types import FeedEntry, Origin, Reply
from tests.conformance.bot import Bot, Gate
from tests.conformance.commands import OWNERS, run_command
from tests.conformance.platforms import Channel, Slack, until
from tests.support.deployment import Deployment
from tests.support.peers.slack import SlackPeer

READY_S = 60
QUESTION = "<@UBOT> What is the release date of the launcher?"
CLOSED_WORDS = ("numbat", "quokka", "dunnart", "bilby")
OWN, SHARED, NAMED = "C1", "C2", "C3"


@pytest.fixture
async def peer() -> AsyncIterator[SlackPeer]:
    async with SlackPeer() as peer:
        peer.shared_channels = {SHARED, NAMED}
        yield peer


@pytest.fixture
def deployment(peer: SlackPeer, tmp_path: Path) -> Deployment:
    texts = {
        "docs/start.md": "# Launcher\n\nThe release date of the launcher is announced on the site.\n",
        "team/dunnart.md": "# bilby\n\nThe release date of the launcher is the first of May, numbat.\n",
    }
    for path, text in texts.items():
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).write_text(text, "utf-8")
    audience = ["slack", f"slack:{NAMED}"]
    return Deployment(
        tmp_path,
        {
            "sources": {
                "docs": {"kind": "files", "path": str(tmp_path / "docs")},
                "quokka": {"kind": "files", "path": str(tmp_path / "team"), "audience": audience},
            },
            "slack": {
                "bot_token": {"env": "SLACK_BOT"},
                "app_token": {"env": "SLACK_APP"},
                "api_url": peer.api_url,
            },
            "administration": {"owners": ["slack:UANN"]},
        },
        {"SLACK_BOT": peer.bot_token, "SLACK_APP": peer.app_token},
    )


def find_words(peer: SlackPeer, channel: str) -> set[str]:
    """Return the closed words that were posted in a channel, or shown to whoever gave a command."""
    posted = [message.history for message in peer.messages(channel)]
    text = json.dumps([str(posted), peer.responses]).lower()
    return {word for word in CLOSED_WORDS if word in text}


async def test_guests_of_a_shared_channel_are_not_of_the_workspace(deployment: Deployment, peer: SlackPeer) -> None:
    await asyncio.to_thread(deployment.json, "ingest")
    async with deployment.daemon():
        for channel in (SHARED, OWN, NAMED):
            root = peer.say(channel, QUESTION)
            await peer.wait_for_reply(channel, READY_S)
            peer.say(channel, "<@UBOT> and the dunnart?", thread=root)
            await peer.wait_for_reply(channel, READY_S, count=2)
        assert find_words(peer, OWN), "its own people see it"
        assert find_words(peer, NAMED), "a channel that is named sees it, whoever shares it"
        assert not find_words(peer, SHARED)
        for command in ("ask What is the release date of the launcher?", "sources", "status", "help", "digest"):
            count = len(peer.responses)
            peer.command(command, channel=SHARED)
            await peer.wait_until(lambda count=count: len(peer.responses) > count, READY_S)  # type: ignore[misc]
        assert not find_words(peer, SHARED)
        # Shared from now on: what was told before is not repeated to those who came.
        peer.shared_channels.add(OWN)
        peer.responses.clear()
        known = len(peer.messages(OWN))
        peer.say(OWN, QUESTION)
        await peer.wait_for_reply(OWN, READY_S, count=known + 1)
        told = str(peer.messages(OWN)[-1].history).lower()
        assert not [word for word in CLOSED_WORDS if word in told]


async def test_where_slack_does_not_say_who_shares_a_channel_guests_may(
    deployment: Deployment, peer: SlackPeer
) -> None:
    peer.lacking.add("conversations.info")
    await asyncio.to_thread(deployment.json, "ingest")
    async with deployment.daemon():
        peer.command("ask What is the release date of the launcher?", channel=SHARED)
        await peer.wait_until(lambda: bool(peer.responses), READY_S)
        assert not find_words(peer, SHARED)
        # An event of a channel says it, too.
        peer.say(OWN, QUESTION)
        await peer.wait_for_reply(OWN, READY_S)
        assert find_words(peer, OWN)


CLOSED = {"docs": {"kind": "faq", "path": "a.yaml"}, "quokka": {"kind": "faq", "path": "b.yaml", "audience": "slack"}}
TOKENS = {"bot_token": {"env": "SLACK_BOT"}, "app_token": {"env": "SLACK_APP"}}
TEAM, ASKED = Channel("C7", "C7"), Channel("C1", "C1")


@pytest.fixture
async def bot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bot]:
    """Return a bot whose answers tell of all sources that it may tell of, as drafts to a team."""
    monkeypatch.setattr(channel_directory, "GUESTS_TTL_S", 0.0)
    async with AsyncExitStack() as stack:
        driver = Slack()
        await driver.open(stack)
        bot = Bot(driver, tmp_path)
        bot.script.says = lambda question: f"From {sorted(question.visible_sources or ())}"
        gate = {"mode": "mention", "drafts_to": "slack:C7"}
        bot.changes = {"sources": CLOSED, "slack": TOKENS, "gate": gate, "administration": {"owners": OWNERS}}
        bot.changes |= {"chats": {"slack:C1": {"mode": "draft"}}, "alerts": {"chats": ["slack:C7"]}}
        stack.push_async_callback(bot.stop)
        await bot.start()
        # The platform knows the channels in which somebody has written.
        for channel in (TEAM, ASKED):
            await bot.say_and_wait(channel, "hi all")
        yield bot


def share(bot: Bot, channel: Channel) -> None:
    """Share a channel from now on, in which nobody writes anything then."""
    bot.driver.peer.shared_channels.add(channel.id)  # type: ignore[attr-defined]


async def draft(bot: Bot) -> str:
    """Ask in a channel, and return the number of the draft."""
    question = await bot.driver.say(ASKED, bot.to_bot(ASKED, "How do I install it?"))
    row = None
    async with asyncio.timeout(READY_S):
        while row is None:
            await bot.idle()
            row = await bot.journal.database.fetch_first(
                select(messages).filter_by(id=question).where(messages.c.state.in_((DRAFTED, "silent")))
            )
    return str(row.number)


async def test_a_draft_is_not_told_to_guests_of_the_team(bot: Bot) -> None:
    await draft(bot)
    assert "quokka" in str(bot.texts(TEAM)), "its own people read it"
    share(bot, TEAM)
    known = len(bot.texts(TEAM))
    await draft(bot)
    assert bot.texts(TEAM)[known:] == []
    # Drafts without closed sources are told.
    share(bot, ASKED)
    bot.driver.peer.event(  # type: ignore[attr-defined]
        {"type": "message", "channel": "C1", "user": "U9", "text": "x", "ts": "1800000000.000100"}
    )
    await draft(bot)
    await until(lambda: "From ['docs']" in str(bot.texts(TEAM)[known:]), "a draft that guests may read")
    assert "quokka" not in str(bot.texts(TEAM)[known:])


async def test_a_draft_is_not_posted_to_guests_who_came_since(bot: Bot) -> None:
    number = await draft(bot)
    share(bot, ASKED)
    assert "cannot be posted: who may see what has changed" in await run_command(bot, TEAM, "post", number)
    await bot.idle()
    assert "quokka" not in str(bot.texts(ASKED))


@pytest.mark.parametrize("is_shared", [False, True])
@pytest.mark.parametrize("purpose", ["draft", "report"])
async def test_guests_read_no_note_that_was_waiting(bot: Bot, purpose: Any, is_shared: bool) -> None:
    """It was made for the team alone, and Slack did not take it until guests had come."""
    permissions = bot.processor._dispatcher.context.permissions
    labels = permissions.visible_labels_of("slack:C7", has_guests=False)
    number = await draft(bot)
    note = make_post(bot.adapter, "slack:C7", "about-this")
    note = replace(note, text="the quokka", origin=Origin(purpose=purpose, root_id=number))
    await bot.journal.record_message(note, reply=Reply("the quokka"), visible_sources=sorted(labels))
    if is_shared:
        share(bot, TEAM)
    await bot.stop()
    await bot.start()
    await bot.wait_until_finished(TEAM, note.id)
    assert ("the quokka" in str(bot.texts(TEAM))) != is_shared


async def test_an_answer_is_not_shown_to_guests_who_came_since(bot: Bot) -> None:
    bot.script.before = Gate()
    question = await bot.driver.say(TEAM, bot.to_bot(TEAM, "What is it?"))
    await bot.script.before.reached.wait()
    share(bot, TEAM)
    bot.script.before.open.set()
    await bot.wait_until_finished(TEAM, question)
    assert bot.texts(TEAM) == [ENGLISH.rights_changed]


@pytest.mark.parametrize("is_shared_later", [False, True])
async def test_guests_are_told_of_no_fault_of_a_closed_source(bot: Bot, is_shared_later: bool) -> None:
    opening = asyncio.create_task(asyncio.sleep(0))
    await opening
    values = {"sources": CLOSED, "slack": TOKENS, "alerts": {"chats": ["slack:C7"]}}
    live = LiveSettings(Settings.model_validate(values), RuntimeOverrides(bot.journal.database))
    sender = AlertSender(live, bot.processor.handler_for, {bot.adapter: opening})
    now = datetime.now(UTC)
    problems = {"source docs": "docs is away", "source quokka": "quokka is away"}
    if is_shared_later:
        await sender.report(problems, now)
        await bot.processor.join()
        assert "quokka" in str(bot.texts(TEAM)), "its own people are told"
    share(bot, TEAM)
    known = len(bot.texts(TEAM))
    await sender.report({} if is_shared_later else problems, now)
    await bot.processor.join()
    assert "docs" in str(bot.texts(TEAM)[known:])
    assert "quokka" not in str(bot.texts(TEAM)[known:])
    assert not (await sender.make_asker("slack:C7")).network, "the gap report asks it, too"


@pytest.mark.parametrize("is_shared", [False, True])
async def test_an_entry_of_a_feed_is_commented_on_for_those_who_read_there(bot: Bot, is_shared: bool) -> None:
    """No event of Slack says of an entry whether guests read the channel."""
    feed = {"url": "https://example.org/feed.xml", "chat": "slack:C7"}
    bot.changes["auto_comment"] = {"feeds": {"news": feed}, "needs_citation": False}
    await bot.stop()
    if is_shared:
        share(bot, TEAM)
    await bot.start()
    post = make_post(bot.adapter, "slack:C7", "feed-1")
    entry = FeedEntry("news", "A release", "https://example.org/1")
    post = replace(post, text="A release of it", addressed=False, is_post=True, feed_entry=entry)
    await bot.processor.handler_for(bot.adapter)(post)
    await bot.wait_until_finished(TEAM, post.id)
    assert "From ['docs'" in str(bot.texts(TEAM))
    assert ("quokka" in str(bot.texts(TEAM))) != is_shared
