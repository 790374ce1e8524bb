"""Who may see what, by real messages of each platform: where one person reads, where others do, and in threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from bots.common.delivery_retry import DeliveryRetry
from core.catalogue import ENGLISH
from core.errors import UsageError
from tests.conformance.bot import Bot, Gate
from tests.conformance.platforms import ANN, BEN, Channel, Person, Step, until
from tests.conformance.scenarios import (
    NO_NETWORK,
    NOTHING_PRIVATE,
    ONE_PUBLIC_CHAT,
    POSTED_WHOLE,
    POSTING_WHOLE,
    cannot,
)
from tests.support.fixtures import settings
from tests.support.peers import bluesky

SEES_ALL = "whoever uses the terminal runs the bot, and sees everything"
# Ann is the owner; on Slack she gives commands under a second id.
OWNERS = {
    "telegram": ("1001",),
    "discord": ("1001",),
    "slack": ("U1001", "U1ANN"),
    "mastodon": ("person1@social.example",),
    "bluesky": (bluesky.make_account(f"person1.{bluesky.HOST}").did,),
    "github": ("Ann",),
    "gitlab": ("Ann",),
}
SECTIONS: Mapping[str, dict[str, Any]] = {
    "telegram": {"token": {"env": "TELEGRAM"}},
    "discord": {"token": {"env": "DISCORD"}},
    "slack": {"bot_token": {"env": "SLACK"}, "app_token": {"env": "SLACK_APP"}},
    "mastodon": {"url": "https://social.example", "token": {"env": "MASTODON"}},
    "bluesky": {"handle": "kimas.bsky.example", "app_password": {"env": "BLUESKY"}},
    "github": {"token": {"env": "GITHUB"}, "repositories": ["example/group-1", "example/group-2", "example/private"]},
    "gitlab": {"token": {"env": "GITLAB"}, "projects": ["example/group-1", "example/group-2", "example/private"]},
}
CLOSED = "quokka"
# What a platform says of a place where others read as well, though it may look private: nobody's role opens anything.
LOOKS_PRIVATE: Mapping[str, dict[str, Any]] = {
    "discord": {"channel_type": 3, "guild_id": None},
    "slack": {"channel_type": "mpim"},
}


async def close_source(bot: Bot, *audience: str) -> None:
    """Start the bot anew, with a source for an audience."""
    await bot.stop()
    bot.changes = make_changes(bot, audience)
    await bot.start()


def make_changes(bot: Bot, audience: Sequence[str]) -> dict[str, object]:
    return {
        bot.platform: SECTIONS[bot.platform],
        "administration": {"owners": [f"{bot.platform}:{owner}" for owner in OWNERS[bot.platform]]},
        "sources": {
            "docs": {"kind": "faq", "path": "faq.yaml"},
            CLOSED: {"kind": "faq", "path": "team.yaml", "audience": [*audience]},
        },
    }


async def is_told(bot: Bot, channel: Channel, person: Person = ANN, **fields: Any) -> bool:
    """Return whether a question is answered from the closed source."""
    entry = await bot.say_and_wait(channel, bot.to_bot(channel, "How do I install it?"), person=person, **fields)
    assert entry.state == "answered", entry.reason
    visible_sources = bot.script.questions[-1].visible_sources
    assert visible_sources is not None
    return CLOSED in visible_sources


@cannot(bluesky=NOTHING_PRIVATE, console=SEES_ALL, github=NOTHING_PRIVATE)
async def test_an_owner_is_told_in_private_and_nobody_else_is(bot: Bot) -> None:
    await close_source(bot, "owners")
    assert await is_told(bot, bot.private(ANN))
    assert not await is_told(bot, bot.private(BEN), BEN)


@cannot(console=SEES_ALL)
async def test_nobody_is_told_where_others_read(bot: Bot) -> None:
    await close_source(bot, "owners")
    group = bot.group()
    assert not await is_told(bot, group)
    assert not await is_told(bot, await bot.driver.thread(group))
    await bot.command(group, "sources")
    assert CLOSED not in "".join(bot.texts(group))
    assert "docs" in "".join(bot.texts(group))


@cannot(console=SEES_ALL, mastodon=ONE_PUBLIC_CHAT)
async def test_a_teams_chat_is_told_with_its_threads_and_no_other_one(bot: Bot) -> None:
    team = bot.group(2)
    await close_source(bot, f"{bot.platform}:{team.chat}")
    for channel in (team, await bot.driver.thread(team)):
        assert await is_told(bot, channel, BEN)
    for channel in (bot.group(), await bot.driver.thread(bot.group()), bot.private(BEN)):
        assert not await is_told(bot, channel, BEN)


@cannot(
    console=SEES_ALL,
    github=NOTHING_PRIVATE,
    mastodon="a post to several people is answered to its author alone there",
    telegram="a private chat there is one with a person: channels' direct messages are not heard",
)
async def test_a_conversation_of_several_is_no_private_one(bot: Bot) -> None:
    await close_source(bot, "owners")
    channel = bot.group(3)
    assert not await is_told(bot, channel, **LOOKS_PRIVATE[bot.platform])


@cannot(console=SEES_ALL)
@pytest.mark.parametrize("place", ["group", "private"])
async def test_a_source_that_was_closed_is_not_told_of_by_what_was_said(bot: Bot, place: str) -> None:
    """The answer was made when the source was open: nobody else's question is completed with it."""
    channel = bot.private(BEN) if place == "private" else bot.group()
    await close_source(bot, "everyone")
    first = await bot.ask(channel, "How do I install it?", person=BEN)
    reply = bot.messages(channel)[-1]
    await close_source(bot, "owners")
    await bot.driver.reply(channel, reply, "and what else?", BEN)
    await bot.ask(channel, "and what about it?", person=BEN)
    await bot.idle()
    assert all(first.reply not in str(question.history) for question in bot.script.questions[1:])
    assert len(bot.script.questions) >= 2


@pytest.mark.parametrize("step", ["post", "finish"])
@pytest.mark.parametrize("is_error", [False, True], ids=["answer", "apology"])
@cannot(console=NO_NETWORK)
async def test_what_is_tried_again_is_judged_again(
    bot: Bot, step: Step, monkeypatch: pytest.MonkeyPatch, *, is_error: bool
) -> None:
    """The source is closed while the platform takes nothing for a moment."""
    if step == "finish" and bot.platform in POSTING_WHOLE:
        pytest.skip(POSTED_WHOLE)
    await close_source(bot, "everyone")
    channel = bot.group()
    bot.script.midway = Gate()
    # What is shown of it before would get the fault that is meant for its first post.
    bot.script.pieces = ["It begins"] if step == "finish" else []
    bot.script.says = lambda _: f"The {CLOSED} is a small animal."
    message = await bot.driver.say(channel, bot.to_bot(channel, "How?"))
    await bot.script.midway.reached.wait()
    if step == "finish":
        await until(lambda: bool(bot.messages(channel)), "the beginning of the answer")
    bot.driver.fail(step, "rate limit")
    pause = DeliveryRetry._pause

    async def close_and_pause(*arguments: Any) -> None:
        await bot.processor._dispatcher.context.reload(settings(**make_changes(bot, ["owners"])))
        await pause(*arguments)

    monkeypatch.setattr(DeliveryRetry, "_pause", close_and_pause)
    if is_error:
        bot.script.fails_with = UsageError(f"The {CLOSED} cannot be asked now.")
    bot.script.midway.open.set()
    assert (await bot.wait_until_finished(channel, message)).state == "failed"
    assert CLOSED not in "".join(bot.texts(channel))
    assert ENGLISH.rights_changed in "".join(bot.texts(channel))
