"""The button that stops an answer: seen while it is written, pressed by who asked, gone afterwards."""

from __future__ import annotations

from core.catalogue import ENGLISH
from tests.conformance.bot import Bot
from tests.conformance.buttons import get_feedback_buttons, press
from tests.conformance.platforms import BEN, Telegram, until
from tests.conformance.scenarios import POSTED_WHOLE, WHOLE, cannot
from tests.support.sink_helpers import write_until_stopped

NO_DRAFTS = "no other platform has drafts with a button of its own"


@cannot(mastodon=POSTED_WHOLE, github=POSTED_WHOLE, console=WHOLE)
async def test_who_asked_stops_the_answer_and_nobody_else(bot: Bot) -> None:
    bot.answer, channel = write_until_stopped, bot.group()
    message = await bot.driver.say(channel, f"{bot.driver.mention} How do I stop it?")
    await until(
        lambda: bool(bot.messages(channel)) and ENGLISH.stop_button in get_feedback_buttons(bot, channel), "a button"
    )
    data = get_feedback_buttons(bot, channel)[ENGLISH.stop_button]
    assert (await press(bot, channel, data, BEN, idle=False)).text == ENGLISH.only_asker_stops
    assert (await press(bot, channel, data, idle=False)).text == ENGLISH.stopping
    entry = await bot.wait_until_finished(channel, message)
    assert entry.state == "answered"
    assert sum("Stopped on request" in text for text in bot.texts(channel)) == 1
    assert get_feedback_buttons(bot, channel) == {}, "it is neither stopped again nor rated"
    assert (await press(bot, channel, data)).text == ENGLISH.nothing_to_stop


@cannot(mastodon=POSTED_WHOLE, github=POSTED_WHOLE, console=WHOLE)
async def test_an_answer_that_comes_to_its_end_has_thumbs_in_its_place(bot: Bot) -> None:
    bot.answer, channel = write_until_stopped, bot.private()
    await bot.ask(channel, "How do I install it?")
    assert bot.texts(channel)[-1] == "The whole answer"
    assert list(get_feedback_buttons(bot, channel)) == ["👍", "👎"]


@cannot(mastodon=POSTED_WHOLE, github=POSTED_WHOLE, console=WHOLE, discord=NO_DRAFTS, slack=NO_DRAFTS)
async def test_a_draft_is_stopped_by_the_platforms_own_button(bot: Bot) -> None:
    bot.answer, channel = write_until_stopped, bot.private()
    message = await bot.driver.say(channel, "How do I stop it?")
    assert isinstance(bot.driver, Telegram)
    peer = bot.driver.peer
    await until(lambda: bool(peer.drafts), "a draft")
    peer.stop(peer.drafts[-1])
    entry = await bot.wait_until_finished(channel, message)
    assert entry.state == "answered"
    [text] = bot.texts(channel)
    assert "Half an answer" in text
    assert "Stopped on request" in text
