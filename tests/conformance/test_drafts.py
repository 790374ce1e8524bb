"""Drafts: a team reads an answer before it is posted, decides once, and no crash loses or doubles anything."""

from __future__ import annotations

import re

from core.catalogue import ENGLISH
from core.types import DROP, POST
from tests.conformance.bot import Bot
from tests.conformance.buttons import get_feedback_buttons, press
from tests.conformance.commands import owned, run_command
from tests.conformance.platforms import BEN, Channel, until
from tests.conformance.scenarios import NO_BUTTONS, ONE_PUBLIC_CHAT, cannot

NO_TEAM = "nothing can be posted on a forge but below what somebody wrote: tests/core/messaging has its drafts"
TYPED = "what decides about a draft is typed there"
OFFER = "To post other words, reply with them"
QUESTION = "How do I install it?"


async def open_team(bot: Bot) -> Channel:
    """Start the bot anew with drafts for another chat, and return that."""
    team = bot.other_chat()
    if bot.platform == "slack":
        # Its peer knows the channels in which somebody has written.
        await bot.say_and_wait(team, "hello")
    gate = {"mode": "draft", "drafts_to": f"{bot.platform}:{team.chat}"}
    await owned(bot, gate=gate, chats={f"{bot.platform}:{team.chat}": {"mode": "mention"}})
    return team


def get_posts(bot: Bot, channel: Channel) -> list[str]:
    """Return what everybody in a channel reads. Of Slack, responses to commands are listed in all channels."""
    return [message.text for message in bot.messages(channel) if not message.id.startswith("response")]


async def ask(bot: Bot, channel: Channel, team: Channel) -> str:
    """Let Ben ask, and return the number of the draft that the team gets."""
    known_ids = {message.id for message in bot.messages(team)}

    def find_texts() -> list[str]:
        return [message.text for message in bot.messages(team) if message.id not in known_ids]

    await bot.driver.say(channel, bot.to_bot(channel, QUESTION), person=BEN)
    await until(lambda: any(OFFER in text for text in find_texts()), "a whole draft")
    await bot.idle()
    found = re.search(r"Draft (\d+)\W* for", "\n".join(find_texts()))
    assert found
    return found[1]


@cannot(bluesky=ONE_PUBLIC_CHAT, github=NO_TEAM)
async def test_a_team_posts_replaces_and_drops_drafts(bot: Bot) -> None:
    team = await open_team(bot)
    channel = bot.group()
    number = await ask(bot, channel, team)
    await bot.kill()
    await bot.start()
    assert get_posts(bot, channel) == []
    assert await run_command(bot, team, POST, number) == ENGLISH.draft_decisions[POST].format(number=number)
    await until(lambda: get_posts(bot, channel) == [f"Answer to: {QUESTION}"], "the answer")
    await bot.idle()
    await bot.kill()
    await bot.start()
    number = await ask(bot, channel, team)
    if bot.platform == "console":
        # Notices are in threads of their own, to which nobody there can reply.
        return
    notice = next(message for message in bot.messages(team) if re.search(rf"Draft {number}\W* for", message.text))
    await bot.driver.reply(team, notice, bot.to_bot(team, "Ask Carl."))
    await until(lambda: get_posts(bot, channel)[1:] == ["Ask Carl."], "other words")
    number = await ask(bot, channel, team)
    assert await run_command(bot, team, DROP, number) == ENGLISH.draft_decisions[DROP].format(number=number)
    await bot.idle()
    assert get_posts(bot, channel)[1:] == ["Ask Carl."]


@cannot(mastodon=NO_BUTTONS, github=NO_TEAM, console=TYPED)
async def test_buttons_below_a_draft_decide_about_it(bot: Bot) -> None:
    team = await open_team(bot)
    channel = bot.group()
    number = await ask(bot, channel, team)
    buttons = get_feedback_buttons(bot, team)
    assert list(buttons) == list(ENGLISH.draft_buttons.values())
    post = buttons[ENGLISH.draft_buttons[POST]]
    assert (await press(bot, team, post, BEN)).text == ENGLISH.only_admins
    assert (await press(bot, team, post)).text == ENGLISH.draft_decisions[POST].format(number=number)
    assert (await press(bot, team, post)).text == ENGLISH.draft_unknown.format(number=number)
    await until(lambda: get_posts(bot, channel) == [f"Answer to: {QUESTION}"], "the answer")
