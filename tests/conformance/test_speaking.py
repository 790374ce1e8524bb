"""Who is answered and who is not, where, and by what it remembers."""

from __future__ import annotations

import asyncio

import pytest

from core.catalogue import messages_for
from tests.conformance.bot import Bot, Entry, Gate
from tests.conformance.platforms import ANN, BEN, OTHER_ANN, ROBOT, Channel, Person, until
from tests.conformance.scenarios import (
    EDITS_UNSEEN,
    NO_EDITS,
    NO_REDELIVERY,
    NOTHING_PRIVATE,
    ONE_GROUP,
    ONE_PUBLIC_CHAT,
    ONLY_LOGINS,
    ONLY_MENTIONS,
    ONLY_TEXT,
    POSTED_WHOLE,
    QUOTED_REPLY,
    WHOLE,
    cannot,
    runs_in_terminal,
)

DISCORD_CHECKS_COMMANDS = "Discord offers and takes registered commands only"


# The second one ends as what the bot notes of an emoji below an answer.
@pytest.mark.parametrize("question", ["How do I install it?", "Sign on"])
@runs_in_terminal
async def test_a_private_question_is_answered(bot: Bot, question: str) -> None:
    channel = bot.private()
    entry = await bot.ask(channel, question)
    assert entry.state == "answered"
    assert bot.texts(channel) == [f"Answer to: {question}"]
    assert bot.script.question_texts == [question]


@cannot(console="what is printed replies to nothing: it stands below")
async def test_a_mention_is_answered_as_a_reply_to_the_question(bot: Bot) -> None:
    channel = bot.group()
    entry = await bot.say_and_wait(channel, f"{bot.driver.mention}how do I install it?")
    assert entry.state == "answered"
    [message] = bot.messages(channel)
    assert message.text == "Answer to: how do I install it?"
    assert message.reply_to == entry.id


async def test_the_mention_is_no_part_of_the_question(bot: Bot) -> None:
    channel = bot.group()
    mention = bot.driver.mention.strip()
    await bot.say_and_wait(channel, f"{mention}, how do I install it?")
    await bot.say_and_wait(channel, f"tell me {mention} how do I install it?")
    assert bot.script.question_texts == ["how do I install it?", "tell me how do I install it?"]


async def test_a_reply_to_the_bot_needs_no_mention(bot: Bot) -> None:
    channel = bot.group()
    await bot.ask(channel, "How do I install it?")
    message = await bot.driver.reply(channel, bot.messages(channel)[0], "and on Windows?")
    assert (await bot.wait_until_finished(channel, message)).state == "answered"
    assert bot.script.question_texts == ["How do I install it?", "and on Windows?"]
    texts = [turn.text for turn in bot.script.questions[1].history]
    assert texts == ["How do I install it?", "Answer to: How do I install it?"]


async def test_somebody_else_may_reply_to_an_answer(bot: Bot) -> None:
    channel = bot.group()
    await bot.ask(channel, "How do I install it?", person=ANN)
    message = await bot.driver.reply(channel, bot.messages(channel)[0], "and on Windows?", BEN)
    assert (await bot.wait_until_finished(channel, message)).state == "answered"
    history = bot.script.questions[1].history
    assert "Answer to: How do I install it?" in [turn.text for turn in history]
    assert bot.script.questions[1].author_id != bot.script.questions[0].author_id


@cannot(
    mastodon=ONLY_MENTIONS,
    telegram="a topic is a whole chat there: only replies and mentions are follow-ups",
)
async def test_a_follow_up_in_a_thread_that_the_bot_answered_in_needs_no_mention(bot: Bot) -> None:
    thread = await bot.driver.thread(bot.group())
    await bot.ask(thread, "How do I install it?")
    entry = await bot.say_and_wait(thread, "and on Windows?", person=BEN)
    assert entry.state == "answered"
    assert len(bot.messages(thread)) == 2


@cannot(
    mastodon=ONLY_MENTIONS,
    telegram="a topic is a whole chat there: only replies and mentions are follow-ups",
)
async def test_a_follow_up_that_is_for_somebody_else_is_left_alone(bot: Bot) -> None:
    thread = await bot.driver.thread(bot.group())
    await bot.ask(thread, "How do I install it?")
    somebody = bot.driver.get_mention(BEN)
    entry = await bot.say_and_wait(thread, f"{somebody}can you help with Windows?", person=ANN)
    assert (entry.state, entry.reason) == ("silent", "the bot was not addressed")
    assert len(bot.script.questions) == 1


@runs_in_terminal
async def test_the_ask_command_is_answered_in_private(bot: Bot) -> None:
    channel = bot.private()
    assert (await bot.command(channel, "ask", "How do I install it?")).state == "answered"
    [text] = bot.texts(channel)
    assert text.endswith("Answer to: How do I install it?")
    # Discord shows nobody what a command asked, Slack its author, who alone sees the answer.
    assert text.count("How do I install it?") == (2 if bot.platform == "discord" else 1)


async def test_the_ask_command_is_answered_in_a_group(bot: Bot) -> None:
    channel = bot.group()
    assert (await bot.command(channel, "ask", "How do I install it?")).state == "answered"
    [text] = bot.texts(channel)
    assert text.endswith("Answer to: How do I install it?")
    # Slack and Discord show nobody what a command asked.
    assert text.count("How do I install it?") == (2 if bot.platform in ("slack", "discord") else 1)


@runs_in_terminal
async def test_the_help_command_tells_what_is_known(bot: Bot) -> None:
    channel = bot.anywhere()
    assert (await bot.command(channel, "help")).state == "answered"
    text = "\n".join(bot.texts(channel))
    assert "I answer questions from these sources" in text
    assert "docs" in text
    assert bot.script.questions == []


@runs_in_terminal
@cannot(
    discord="Discord does not let /ask go without its question",
    github="a command is a comment, which asks about the issue that it stands below",
)
async def test_the_ask_command_without_a_question_helps(bot: Bot) -> None:
    channel = bot.anywhere()
    assert (await bot.command(channel, "ask")).state == "answered"
    assert "I answer questions from these sources" in bot.texts(channel)[0]
    assert bot.script.questions == []


@cannot(
    discord=DISCORD_CHECKS_COMMANDS,
    slack="there is one command, /kimas, and what follows it is a question unless it is known",
)
async def test_an_unknown_command_is_told_what_there_is(bot: Bot) -> None:
    channel = bot.private()
    assert (await bot.command(channel, "dance")).state == "answered"
    assert "I do not know /dance" in bot.texts(channel)[0]
    assert "/ask" in bot.texts(channel)[0]


@cannot(mastodon=ONLY_MENTIONS)
async def test_chatter_is_silent_for_a_recorded_reason(bot: Bot) -> None:
    channel = bot.group()
    entry = await bot.say_and_wait(channel, "nice weather today")
    assert (entry.state, entry.reason) == ("silent", "the bot was not addressed")
    assert bot.messages(channel) == []
    assert bot.script.questions == []
    assert bot.driver.signs() == 0, "nobody sees it typing for chatter"


@cannot(mastodon=ONLY_MENTIONS)
async def test_a_reply_to_another_person_is_chatter(bot: Bot) -> None:
    channel = bot.group()
    first = await bot.say_and_wait(channel, "who knows how this works?", person=BEN)
    entry = await bot.say_and_wait(channel, "I think so", reply_to=first.id)
    assert entry.state == "silent"
    assert bot.messages(channel) == []


async def test_another_bot_is_ignored_though_it_mentions_us(bot: Bot) -> None:
    channel = bot.group()
    await bot.driver.say(channel, f"{bot.driver.mention}how do I install it?", person=ROBOT)
    await bot.skipped("written by a bot")
    assert await bot.entries(channel) == []
    assert bot.messages(channel) == []


@cannot(console="what the bot prints is not read again")
async def test_its_own_messages_are_ignored(bot: Bot) -> None:
    channel = bot.group()
    await bot.driver.say_as_bot(channel, f"{bot.driver.mention}how do I install it?")
    await bot.skipped("written by")
    assert await bot.entries(channel) == []
    assert bot.script.questions == []


@cannot(mastodon=ONE_PUBLIC_CHAT, console=ONE_GROUP)
async def test_a_group_that_is_not_allowed_gets_silence(bot: Bot) -> None:
    bot.changes = {"gate": {"chats": [f"{bot.driver.name}:{bot.group(1).chat}"]}}
    await bot.stop()
    await bot.start()
    entry = await bot.ask(bot.group(2), "How?")
    assert entry.state == "silent"
    assert "not among gate.chats" in entry.reason
    assert (await bot.ask(bot.group(1), "How?")).state == "answered"
    assert bot.messages(bot.group(2)) == []


@cannot(bluesky=NOTHING_PRIVATE, github=NOTHING_PRIVATE)
async def test_private_chats_can_be_switched_off(bot: Bot) -> None:
    bot.changes = {"gate": {"private": False}}
    await bot.stop()
    await bot.start()
    entry = await bot.ask(bot.private(), "How?")
    assert entry.state == "silent"
    assert "gate.private" in entry.reason
    assert bot.messages(bot.private()) == []


@runs_in_terminal
async def test_a_conversation_is_remembered(bot: Bot) -> None:
    channel = bot.private()
    await bot.ask(channel, "What is it?")
    await bot.ask(channel, "And how old is it?")
    messages = [(turn.role, turn.text) for turn in bot.script.questions[1].history]
    assert messages == [("user", "What is it?"), ("assistant", "Answer to: What is it?")]


async def test_two_questions_in_one_conversation_keep_their_order(bot: Bot) -> None:
    channel = bot.private()
    bot.script.before = Gate()
    bot.script.waiting_text = "first"
    first = await bot.driver.say(channel, "the first question")
    await asyncio.wait_for(bot.script.before.reached.wait(), 60)
    second = await bot.driver.say(channel, "the second question")
    await until(lambda: len(bot.processor._tasks) == 2, "the second question in the processor")
    assert bot.script.question_texts == ["the first question"]
    bot.script.before.open.set()
    assert [(await bot.wait_until_finished(channel, text)).state for text in (first, second)] == [
        "answered",
        "answered",
    ]
    assert bot.texts(channel) == ["Answer to: the first question", "Answer to: the second question"]
    assert [turn.text for turn in bot.script.questions[1].history][:1] == ["the first question"]


async def test_two_conversations_do_not_wait_for_each_other(bot: Bot) -> None:
    slow, fast = await bot.driver.separate_chats(2)
    bot.script.before = Gate()
    bot.script.waiting_text = "slow"
    waiting = await bot.driver.say(slow, f"{bot.driver.mention}the slow question")
    await asyncio.wait_for(bot.script.before.reached.wait(), 60)
    assert (await bot.ask(fast, "the fast question")).state == "answered"
    assert bot.messages(slow) == []
    bot.script.before.open.set()
    assert (await bot.wait_until_finished(slow, waiting)).state == "answered"


async def test_threads_keep_their_memories_apart(bot: Bot) -> None:
    group = bot.group()
    thread, second_thread = await bot.driver.thread(group), await bot.driver.thread(group)
    await bot.ask(thread, "about the first")
    await bot.ask(second_thread, "about the second")
    await bot.ask(thread, "once more about the first")
    first, second, third = ([turn.text for turn in question.history] for question in bot.script.questions)
    assert not any("about the" in text for text in [*first, *second])
    assert third == ["about the first", "Answer to: about the first"]


async def test_an_answer_appears_in_the_thread_of_its_question(bot: Bot) -> None:
    group = bot.group()
    thread, second_thread = await bot.driver.thread(group), await bot.driver.thread(group)
    await bot.ask(thread, "about the first")
    assert bot.texts(thread) == ["Answer to: about the first"]
    assert bot.texts(second_thread) == []


async def test_private_and_group_memories_never_mix(bot: Bot) -> None:
    await bot.ask(bot.private(), "my secret plan")
    await bot.ask(bot.group(), "what is public?")
    await bot.ask(bot.private(), "and my plan?")
    assert bot.script.questions[1].history == ()
    assert "public" not in str(bot.script.questions[2].history)


async def test_two_private_chats_never_mix(bot: Bot) -> None:
    await bot.ask(bot.private(ANN), "the plan of Ann", person=ANN)
    await bot.ask(bot.private(BEN), "what did she ask?", person=BEN)
    assert bot.script.questions[1].history == ()


@cannot(github=ONLY_LOGINS, console="a name is all that tells people apart there")
async def test_two_people_with_one_name_are_two_people(bot: Bot) -> None:
    thread = await bot.driver.thread(bot.group())
    await bot.ask(thread, "I am the first", person=ANN)
    await bot.ask(thread, "I am the second", person=OTHER_ANN)
    first, second = bot.script.questions
    assert first.author == second.author
    assert first.author_id != second.author_id
    assert second.history[0].author_id == first.author_id


@cannot(console=NO_REDELIVERY)
async def test_the_same_event_twice_is_answered_once(bot: Bot) -> None:
    channel = bot.group()
    entry = await bot.ask(channel, "How?")
    await bot.driver.redeliver(channel, entry.id)
    await bot.ask(bot.group(2), "And this?")
    await bot.idle()
    assert bot.script.question_texts == ["How?", "And this?"]
    assert len(bot.messages(channel)) == 1


@cannot(console=NO_REDELIVERY)
async def test_the_same_event_twice_at_once_is_answered_once(bot: Bot) -> None:
    channel = bot.private()
    bot.script.before = Gate()
    bot.script.waiting_text = "How"
    message = await bot.driver.say(channel, "How?")
    await asyncio.wait_for(bot.script.before.reached.wait(), 60)
    await bot.driver.redeliver(channel, message)
    await bot.ask(bot.private(BEN), "And this?", person=BEN)
    bot.script.before.open.set()
    assert (await bot.wait_until_finished(channel, message)).state == "answered"
    await bot.idle()
    assert bot.script.question_texts == ["How?", "And this?"]
    assert len(bot.messages(channel)) == 1


@cannot(bluesky=NO_EDITS, github=EDITS_UNSEEN)
async def test_an_edit_before_the_answer_counts(bot: Bot) -> None:
    channel = bot.private()
    bot.script.before = Gate()
    bot.script.waiting_text = "first"
    await bot.driver.say(channel, "the first question")
    await asyncio.wait_for(bot.script.before.reached.wait(), 60)
    second = await bot.driver.say(channel, "the sceond question")
    await until(lambda: len(bot.processor._tasks) == 2, "the second question in the processor")
    await bot.driver.edit(channel, second, "the second question")
    async with asyncio.timeout(60):
        while [entry.text for entry in await bot.entries(channel)][-1] != "the second question":
            await asyncio.sleep(0.01)
    bot.script.before.open.set()
    assert (await bot.wait_until_finished(channel, second)).state == "answered"
    assert bot.script.question_texts == ["the first question", "the second question"]


@cannot(bluesky=NO_EDITS, github=EDITS_UNSEEN)
async def test_an_edit_after_the_answer_changes_nothing(bot: Bot) -> None:
    channel = bot.group()
    entry = await bot.ask(channel, "How?")
    await bot.driver.edit(channel, entry.id, f"{bot.driver.mention}Why?")
    await bot.ask(bot.other_chat(), "And this?")
    assert bot.script.question_texts == ["How?", "And this?"]
    assert bot.texts(channel) == ["Answer to: How?"]
    assert (await bot.wait_until_finished(channel, entry.id)).text == "How?"


@cannot(github=EDITS_UNSEEN, mastodon=ONLY_MENTIONS)
async def test_chatter_that_an_edit_turns_into_a_question_stays_silent(bot: Bot) -> None:
    channel = bot.group()
    entry = await bot.say_and_wait(channel, "how does it work?")
    assert entry.state == "silent"
    await bot.driver.edit(channel, entry.id, f"{bot.driver.mention}how does it work?")
    await bot.ask(bot.other_chat(), "And this?")
    assert bot.messages(channel) == []


@cannot(
    telegram="its Bot API tells nobody of a deletion, and a private answer is no reply that could be refused",
)
async def test_a_private_question_deleted_before_its_answer_gets_none(bot: Bot) -> None:
    channel = bot.private()
    entry = await _deleted_before_its_answer(bot, channel, "How?")
    assert (entry.state, entry.reason) == ("silent", "the question was deleted before it was answered")
    assert bot.messages(channel) == []


async def test_a_question_deleted_before_its_answer_gets_none(bot: Bot) -> None:
    channel = bot.group()
    entry = await _deleted_before_its_answer(bot, channel, f"{bot.driver.mention}How?")
    assert (entry.state, entry.reason) == ("silent", "the question was deleted before it was answered")
    assert bot.messages(channel) == []


@cannot(mastodon=POSTED_WHOLE, github=POSTED_WHOLE, console=WHOLE)
async def test_a_question_deleted_while_its_answer_is_written_keeps_the_answer(bot: Bot) -> None:
    channel = bot.group()
    bot.script.pieces = ["It begins"]
    bot.script.midway = Gate()
    message = await bot.driver.say(channel, f"{bot.driver.mention}How?")
    await until(lambda: bool(bot.messages(channel)), "the beginning of the answer")
    await bot.driver.delete(channel, message)
    bot.script.midway.open.set()
    entry = await bot.wait_until_finished(channel, message)
    assert entry.state == "answered"
    assert bot.texts(channel) == ["Answer to: How?"]


@cannot(bluesky=QUOTED_REPLY, console=ONLY_TEXT)
async def test_who_sends_only_a_picture_is_told_that_it_cannot_be_looked_at(bot: Bot) -> None:
    channel = bot.private()
    await bot.ask(channel, "hello")
    await bot.driver.attach(channel)
    await until(lambda: bot.texts(channel)[1:] == [messages_for("").picture], "the second answer")
    assert bot.script.question_texts == ["hello"]


@cannot(mastodon=ONLY_MENTIONS, console=ONLY_TEXT)
async def test_a_picture_in_a_group_is_none_of_the_bots_business(bot: Bot) -> None:
    channel = bot.group()
    await bot.ask(channel, "hello")
    await bot.driver.attach(channel)
    async with asyncio.timeout(60):
        while len(entries := await bot.entries(channel)) < 2:
            await asyncio.sleep(0.02)
    entry = await bot.wait_until_finished(channel, entries[1].id)
    assert (entry.state, entry.reason) == ("silent", "a picture without text, and the bot was not addressed")
    assert len(bot.messages(channel)) == 1


@cannot(console=ONLY_TEXT)
async def test_the_text_of_an_attachment_is_the_question(bot: Bot) -> None:
    channel = bot.private()
    await bot.ask(channel, "hello")
    await bot.driver.attach(channel, "what does this error mean?")
    await until(lambda: len(bot.messages(channel)) == 2, "the second answer")
    assert bot.script.question_texts == ["hello", "what does this error mean?"]


@cannot(github=ONLY_LOGINS, console="a name is a word, or the line has none")
async def test_names_that_look_like_markup_or_mentions_stay_names(bot: Bot) -> None:
    names = ["@everyone", "<!channel>", "<b>Bold</b>", "@here <@5001>"]
    bot.script.says = lambda question: f"{question.author} wants to know"
    for number, name in enumerate(names):
        await bot.ask(bot.group(number + 1), "How?", person=Person(number + 20, name))
    assert [question.author for question in bot.script.questions] == names
    for number in range(len(names)):
        channel = bot.group(number + 1)
        assert bot.driver.get_notified(channel) == []
        assert "wants to know" in bot.texts(channel)[0]
        assert number != 2 or "<b>Bold</b>" in bot.texts(channel)[0]


async def _deleted_before_its_answer(bot: Bot, channel: Channel, question: str) -> Entry:
    """Delete a question while its answer is held back, and return what became of it."""
    bot.script.before = Gate()
    message = await bot.driver.say(channel, question)
    await asyncio.wait_for(bot.script.before.reached.wait(), 60)
    await bot.driver.delete(channel, message)
    await bot.ask_while_waiting()
    bot.script.before.open.set()
    return await bot.wait_until_finished(channel, message)
