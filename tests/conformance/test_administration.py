"""Commands that look after the bot, the same on every platform."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.conformance.bot import Bot, Gate
from tests.conformance.commands import owned, run_command
from tests.conformance.platforms import ANN, BEN, ROBOT
from tests.conformance.scenarios import ONE_PUBLIC_CHAT, ONLY_MENTIONS, cannot

NO_REPLYING_COMMAND = "a slash command replies to no message"


async def test_a_stranger_changes_nothing_and_is_told_so(bot: Bot) -> None:
    channel = bot.group()
    assert await run_command(bot, channel, "pause") == "Only this bot's admins in this chat can do that."
    assert (await bot.ask(channel, "How do I install it?")).state == "answered"


async def test_a_paused_bot_is_silent_for_everybody_and_says_why(bot: Bot) -> None:
    await owned(bot)
    channel = bot.group()
    assert (await run_command(bot, channel, "pause")).startswith("I am silent in this chat until resumed.")
    entry = await bot.ask(channel, "How do I install it?", person=BEN)
    assert (entry.state, "paused by a command" in entry.reason) == ("silent", True)
    assert "I am KIMAs" in await run_command(bot, channel, "help")
    assert await run_command(bot, channel, "resume") == "I am speaking in this chat again."
    assert (await bot.ask(channel, "How do I install it?", person=BEN)).state == "answered"


@cannot(bluesky=ONE_PUBLIC_CHAT)
async def test_a_pause_outlives_a_kill(bot: Bot) -> None:
    await owned(bot)
    channel = bot.group()
    await run_command(bot, channel, "pause", "30")
    await bot.kill()
    await bot.start()
    assert (await bot.ask(channel, "How do I install it?", person=BEN)).state == "silent"
    assert (await bot.ask(bot.other_chat(BEN), "How do I install it?", person=BEN)).state == "answered"


@cannot(bluesky=ONE_PUBLIC_CHAT)
async def test_a_mode_is_one_chats_own(bot: Bot) -> None:
    await owned(bot)
    channel = bot.group()
    assert await run_command(bot, channel, "mode", "off") in (
        "The mode of this chat is now off; it was mention.",
        "The mode of this chat is now `off`; it was `mention`.",
    )
    assert (await bot.ask(channel, "How do I install it?", person=BEN)).state == "silent"
    assert (await bot.ask(bot.other_chat(BEN), "How do I install it?", person=BEN)).state == "answered"
    await run_command(bot, channel, "mode", "default")
    assert (await bot.ask(channel, "How do I install it?", person=BEN)).state == "answered"


async def test_the_last_answer_is_explained(bot: Bot) -> None:
    channel = bot.group()
    assert await run_command(bot, channel, "why") == "I do not remember answering anything here."
    await bot.ask(channel, "How do I install it?")
    # The scripted answer was made without a search.
    assert await run_command(bot, channel, "why") == "I answered that without a search."


@pytest.mark.parametrize("words", ["/pause", "/mode off", "pause"])
async def test_words_in_a_question_are_no_command(bot: Bot, words: str) -> None:
    await owned(bot)
    channel = bot.group()
    await bot.ask(channel, f"What does the manual say about {words} ?", person=ANN)
    assert bot.script.question_texts == [f"What does the manual say about {words} ?"]
    assert (await bot.ask(channel, "and now?", person=BEN)).state == "answered"


PAUSE = "/pause@kimas_bot"
FROM_A_PERSON = {"forward_origin": {"type": "hidden_user", "sender_user_name": "Eve", "date": 1_700_000_000}}
CHANNEL = {"id": -5, "type": "channel", "title": "News"}
FROM_A_CHANNEL = {"forward_origin": {"type": "channel", "chat": CHANNEL, "message_id": 3, "date": 1_700_000_000}}
OTHER_BOT = {"id": 77, "is_bot": True, "first_name": "Relay", "username": "relay_bot"}
PICTURE = {"photo": [{"file_id": "f", "file_unique_id": "u", "width": 90, "height": 90}]}
CAPTION = {
    "caption": PAUSE,
    "caption_entities": [{"type": "bot_command", "offset": 0, "length": len(PAUSE)}],
    **PICTURE,
}
# How words of somebody else come in a message of the owner's, by platform: what is written, and what the platform adds.
WORDS_OF_OTHERS: dict[str, dict[str, tuple[str, dict[str, Any]]]] = {
    "telegram": {
        "forwarded": (PAUSE, FROM_A_PERSON),
        "forwarded from a channel": (PAUSE, FROM_A_CHANNEL),
        "of the linked channel": (PAUSE, {"is_automatic_forward": True, "sender_chat": CHANNEL}),
        "inline": (PAUSE, {"via_bot": OTHER_BOT}),
        "relayed": (PAUSE, {"sender_business_bot": OTHER_BOT}),
        "a caption": ("", {**CAPTION, **FROM_A_PERSON}),
        "a caption of an inline result": ("", {**CAPTION, "via_bot": OTHER_BOT}),
        "an album": ("", {**CAPTION, **FROM_A_CHANNEL, "media_group_id": "5"}),
        "quoted": ("@kimas_bot why?", {"quote": {"text": PAUSE, "position": 0}}),
    },
    "discord": {
        "forwarded": ("", {"message_snapshots": [{"message": {"content": "/pause", "mentions": []}}]}),
        "forwarded with a mention": ("{mention} /pause", {"message_snapshots": [{"message": {"content": "/pause"}}]}),
        "relayed": ("{mention} /pause", {"webhook_id": "5"}),
        "of a followed channel": ("{mention} /pause", {"webhook_id": "5", "flags": 2}),
        "a preview": ("{mention} why?", {"embeds": [{"type": "link", "description": "/pause"}]}),
    },
    "github": {"quoted": ("> {mention}/pause", {})},
    "gitlab": {"quoted": ("> {mention}/pause", {})},
    "slack": {
        "forwarded": ("{mention}", {"attachments": [{"is_share": True, "text": "/kimas pause", "author_id": "U9"}]}),
        "forwarded with a comment": ("{mention} /pause", {"attachments": [{"is_share": True, "text": "/pause"}]}),
        "relayed": ("{mention} /kimas pause", {"bot_id": "B9", "subtype": "bot_message"}),
        "a preview": ("{mention} why?", {"attachments": [{"is_msg_unfurl": True, "text": "/kimas pause"}]}),
    },
    "bluesky": {
        "quoted": (
            "What does this do?",
            {
                "embed": {
                    "$type": "app.bsky.embed.record#view",
                    "record": {"uri": "at://x", "author": {"did": "did:plc:eve"}, "value": {"text": "/pause"}},
                }
            },
        ),
    },
    "mastodon": {
        "quoted": (
            "What does this do?",
            {"quote": {"state": "accepted", "quoted_status": {"content": "<p>/pause</p>", "visibility": "public"}}},
        ),
    },
}


@cannot(console="nothing is forwarded to the terminal")
async def test_words_of_others_give_no_command(bot: Bot) -> None:
    """They would be given with the rights of whoever passed them on, an owner here."""
    await owned(bot)
    channel = bot.group()
    for way, (text, fields) in WORDS_OF_OTHERS[bot.platform].items():
        await bot.driver.say(channel, text.format(mention=bot.driver.mention), **fields)
        answered = await bot.ask(channel, "How do I install it?", person=BEN)
        assert answered.state == "answered", f"{way}: {bot.texts(channel)}"
    await run_command(bot, channel, "pause")
    assert (await bot.ask(channel, "How do I install it?", person=BEN)).state == "silent", "it was no command at all"


@cannot(discord="Discord offers commands to people alone", slack="a bot cannot use /kimas")
async def test_another_bots_command_is_not_heard(bot: Bot) -> None:
    await owned(bot, administration={"owners": ["telegram:1008", "console:robot"]})
    channel = bot.group()
    await bot.driver.say(channel, "/pause@kimas_bot", person=ROBOT)
    assert (await bot.ask(channel, "How do I install it?", person=BEN)).state == "answered"


@cannot(
    mastodon=ONLY_MENTIONS,
    github="a command needs a mention there",
    discord=NO_REPLYING_COMMAND,
    slack=NO_REPLYING_COMMAND,
)
async def test_a_silence_is_explained_to_who_replies_to_it(bot: Bot) -> None:
    channel = bot.group()
    chatter = await bot.say_and_wait(channel, "nice weather today", person=BEN)
    question = await bot.driver.say(channel, "/why@kimas_bot", person=ANN, reply_to=chatter.id)
    await bot.wait_until_finished(channel, question)
    assert bot.texts(channel) == ["Why I was silent: the bot was not addressed."]


@cannot(bluesky=ONE_PUBLIC_CHAT)
async def test_a_chat_that_is_paused_meanwhile_is_told_nothing_more(bot: Bot) -> None:
    """Nor is the begun answer left there; a second one, in another chat, comes as it would."""
    await owned(bot)
    bot.script.pieces = ["Half of the answer"]
    bot.script.midway = midway = Gate()
    channel = bot.group()
    question = await bot.driver.say(channel, f"{bot.driver.mention} How do I install it?", person=BEN)
    await asyncio.wait_for(midway.reached.wait(), 60)
    await run_command(bot, channel, "pause")
    midway.open.set()
    entry = await bot.wait_until_finished(channel, question)
    assert entry.state in ("silent", "failed")
    shown_text = "\n".join(bot.texts(channel))
    assert "Answer to" not in shown_text
    assert "Half of the answer" not in shown_text
    assert (await bot.ask(bot.other_chat(BEN), "How do I install it?", person=BEN)).state == "answered"
