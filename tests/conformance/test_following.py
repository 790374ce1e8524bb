"""Threads where the bot answered: questions go on without a mention, and everything else that people say is theirs."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import update

from core.storage.tables import messages
from tests.conformance.bot import Bot
from tests.conformance.platforms import ANN, BEN, Channel, Person
from tests.conformance.scenarios import NO_POSTS, NO_POSTS_THERE, ONLY_MENTIONS, ONLY_TEXT, cannot

NOT_ADDRESSED = ("silent", "the bot was not addressed")
CLEO = Person(4, "Cleo")
TOPICS = "a topic is a whole chat there: only who was answered goes on without a mention"


async def _answered_thread(bot: Bot, **gate: object) -> Channel:
    if gate:
        await bot.stop()
        bot.changes = {"gate": gate}
        await bot.start()
    thread = await bot.driver.thread(bot.group())
    assert (await bot.ask(thread, "How do I install it?", person=ANN)).state == "answered"
    return thread


async def _earlier(bot: Bot, minutes: float) -> None:
    """Let everything have been answered so long ago."""
    then = datetime.now(UTC) - timedelta(minutes=minutes)
    async with bot.journal.database.transaction() as connection:
        await connection.execute(update(messages).values(settled_at=then, received_at=then))


@cannot(mastodon=ONLY_MENTIONS)
async def test_who_was_answered_in_a_thread_asks_on_without_a_mention(bot: Bot) -> None:
    thread = await _answered_thread(bot)
    for text in ("and on Windows?", "How do I remove it?", "why?", "it fails with an error now"):
        assert (await bot.say_and_wait(thread, text, person=ANN)).state == "answered", text
    assert len(bot.messages(thread)) == 5


@cannot(mastodon=ONLY_MENTIONS, telegram=TOPICS)
async def test_anybody_asks_on_in_a_thread_that_the_bot_answered_in(bot: Bot) -> None:
    thread = await _answered_thread(bot)
    assert (await bot.say_and_wait(thread, "thanks, that works!", person=ANN)).state == "silent"
    assert (await bot.say_and_wait(thread, "How do I remove it?", person=BEN)).state == "answered"
    assert (await bot.say_and_wait(thread, "what does it need", person=CLEO)).state == "answered"
    assert len(bot.messages(thread)) == 3


@pytest.mark.parametrize("minutes", [0, 30])
@cannot(mastodon=ONLY_MENTIONS)
async def test_what_people_say_to_each_other_in_an_answered_thread_is_theirs(bot: Bot, minutes: int) -> None:
    thread = await _answered_thread(bot, follow_up_minutes=minutes)
    signs = bot.driver.signs()
    texts = [
        (ANN, "thanks, that works!"),
        (BEN, "I am off to lunch"),
        (BEN, "Ann, are you coming to lunch?"),
        (ANN, "yes"),
        (BEN, "lol nice one"),
        (ANN, "I will try that tomorrow"),
        (ANN, "then I'll do it at home"),
        (BEN, "Ann, where do the logs go?"),
        (BEN, "when I tried it, it was slow"),
        (ANN, "can confirm, same here"),
        (BEN, f"{bot.driver.get_mention(CLEO)}how do I remove it?"),
    ]
    for person, text in texts:
        entry = await bot.say_and_wait(thread, text, person=person)
        assert (entry.state, entry.reason) == NOT_ADDRESSED, text
    assert len(bot.messages(thread)) == len(bot.script.questions) == 1
    assert bot.driver.signs() == signs, "nobody sees it typing for chatter"


@cannot(mastodon=ONLY_MENTIONS)
async def test_in_auto_chatter_in_an_answered_thread_says_why_it_was_left_alone(bot: Bot) -> None:
    thread = await _answered_thread(bot, mode="auto", wait_s=0)
    reasons = [
        (await bot.say_and_wait(thread, text, person=BEN)).reason
        for text in ("thanks!", "I am off to lunch", "Ann, where do the logs go?", "are you coming to lunch?")
    ]
    assert reasons == [
        "a courtesy",
        # These two are no certain chatter by their words, and this bot has no documents.
        "there is no knowledge to judge by",
        "somebody else is called by name",
        "there is no knowledge to judge by",
    ]
    assert len(bot.script.questions) == 1


@cannot(mastodon=ONLY_MENTIONS)
async def test_follow_ups_can_be_switched_off(bot: Bot) -> None:
    thread = await _answered_thread(bot, follow_up_minutes=0)
    for person in (ANN, BEN):
        entry = await bot.say_and_wait(thread, "How do I remove it?", person=person)
        assert (entry.state, entry.reason) == NOT_ADDRESSED
    assert (await bot.ask(thread, "How do I remove it?", person=ANN)).state == "answered"


@cannot(mastodon=ONLY_MENTIONS)
async def test_follow_ups_end_in_time(bot: Bot) -> None:
    thread = await _answered_thread(bot, follow_up_minutes=10)
    await _earlier(bot, 9)
    assert (await bot.say_and_wait(thread, "How do I remove it?", person=ANN)).state == "answered"
    await _earlier(bot, 11)
    for person in (ANN, BEN):
        entry = await bot.say_and_wait(thread, "How do I move it?", person=person)
        assert (entry.state, entry.reason) == NOT_ADDRESSED


@cannot(mastodon=ONLY_MENTIONS)
async def test_after_a_restart_threads_go_on(bot: Bot) -> None:
    thread = await _answered_thread(bot)
    await bot.stop()
    await bot.start()
    assert (await bot.say_and_wait(thread, "thanks a lot", person=ANN)).state == "silent"
    assert (await bot.say_and_wait(thread, "and on Windows?", person=ANN)).state == "answered"


@cannot(mastodon=ONLY_MENTIONS, console=ONLY_TEXT)
async def test_a_picture_in_an_answered_thread_is_not_for_the_bot(bot: Bot) -> None:
    thread = await _answered_thread(bot)
    entry_count = len(await bot.entries(thread))
    await bot.driver.attach(thread)
    async with asyncio.timeout(60):
        while len(entries := await bot.entries(thread)) == entry_count:
            await asyncio.sleep(0.02)
    entry = await bot.wait_until_finished(thread, entries[-1].id)
    assert (entry.state, entry.reason) == ("silent", "a picture without text, and the bot was not addressed")


@cannot(github=NO_POSTS_THERE, mastodon=ONLY_MENTIONS, console=NO_POSTS)
async def test_below_a_comment_of_its_own_accord_nothing_is_followed(bot: Bot) -> None:
    await bot.stop()
    board = bot.driver.board()
    bot.changes = {"auto_comment": {"chats": [f"{bot.platform}:{board.chat}"], "needs_citation": False}}
    await bot.start()
    post, below = await bot.driver.post(board, "We released version 2 of Rocket today")
    assert (await bot.wait_until_finished(board, post)).state == "answered"
    for person, text in (
        (BEN, "lol nice one"),
        (ANN, "see you at lunch"),
        (ANN, "thanks Ben!"),
        (BEN, "When was that?"),
    ):
        extra_sources = {"reply_to": post} if below == board else {}
        entry = await bot.say_and_wait(below, text, person=person, **extra_sources)
        assert (entry.state, entry.reason) == NOT_ADDRESSED, text
    assert bot.script.question_texts == ["We released version 2 of Rocket today"]
    if below != board:
        assert (await bot.ask(below, "When was version 1?", person=BEN)).state == "answered"
        assert (await bot.say_and_wait(below, "and what is new in it?", person=BEN)).state == "answered"
        assert (await bot.say_and_wait(below, "see you at lunch", person=BEN)).state == "silent"
