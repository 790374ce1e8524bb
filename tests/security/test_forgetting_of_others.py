"""What the rows of others have of a person goes with them, whenever it was asked; and what was typed as a command."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import select, update

from core.catalogue import ENGLISH
from core.errors import PlatformError
from core.messaging.feedback.rating_buttons import to_press
from core.messaging.policy.command_table import COMMANDS
from core.settings.messaging import JournalSettings
from core.storage.feedback import FeedbackRepository
from core.storage.lessons import TaughtAnswerRepository
from core.storage.tables import messages
from core.types import UP, ConversationKey, Message, Reply, SkipReason, skip
from core.types.replies import SearchRound, Trace
from tests.support.forgetting import ANN, ANN_ID, BOB, KEPT_IN_CHAT, OWNER_ALONE, SAID, WORD, find_columns, opened
from tests.support.recording_bot import Sender

pytestmark = pytest.mark.usefixtures("time_lapse")

ASKED = Message("asked first", ConversationKey("telegram", "-100"), "43", "Bob", "And what?", datetime.now(UTC))


async def test_an_answer_that_was_asked_for_before_somebody_wrote_goes(tmp_path: Path) -> None:
    """It waited for people, and was told what they said meanwhile."""
    async with opened(tmp_path, JournalSettings()) as bot:
        completed = replace(ASKED, id="completed")
        alone = replace(ASKED, id="alone", key=ConversationKey("telegram", OWNER_ALONE.chat), private=True)
        for message in (ASKED, completed, alone):
            await bot.journal.record_message(message)
        await bot.deliver(ANN, SAID, addressed=False)
        await bot.deliver(OWNER_ALONE, "", "why")
        await bot.deliver(OWNER_ALONE, "What is this?", quoted=SAID)
        search_round = SearchRound((f"key {WORD}",), "good", "")
        trace = Trace("key", "react", (), {}, rounds=(search_round,))
        await bot.journal.mark_answered(ASKED, Reply(f"I see: {SAID}."))
        await bot.journal.mark_answered(completed, Reply("By a button.", trace=trace))
        await bot.journal.mark_answered(alone, Reply(f"I see: {SAID}."))
        await bot.deliver(ANN, "", "forget")
        assert await find_columns(bot.journal.database, *KEPT_IN_CHAT) == set()
        replies = select(messages.c.reply).filter_by(id=completed.id)
        assert await bot.journal.database.fetch_value(replies) == "By a button."


async def test_a_question_that_was_completed_days_later_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A conversation may be remembered for longer than single words of it are looked for."""
    monkeypatch.setattr("tests.support.forgetting.tell", lambda _body: "It starts by a button [p1].")
    async with opened(tmp_path, JournalSettings(), answer={"history_hours": 72}) as bot:
        await bot.deliver(ANN, SAID)
        then = datetime.now(UTC) - timedelta(hours=30)
        await bot.journal.database.write(update(messages).values(received_at=then, settled_at=then, sent_at=then))
        await bot.deliver(BOB, "and what about it?")
        assert "messages.trace" in await find_columns(bot.journal.database)
        await bot.deliver(ANN, "", "forget")
        assert await find_columns(bot.journal.database, *KEPT_IN_CHAT) == set()


async def test_a_command_that_was_running_is_nobodys(tmp_path: Path) -> None:
    async with opened(tmp_path, JournalSettings()) as bot:
        running = replace(ASKED, id="running", text=WORD, author_id=ANN_ID, author=f"Ann {WORD}", command="why")
        await bot.journal.record_message(running)
        await bot.deliver(ANN, "", "forget")
        await bot.journal.mark_answered(running, Reply("Because."))
        assert await find_columns(bot.journal.database, *KEPT_IN_CHAT) == set()


@pytest.mark.parametrize("choice", ["up", "up on"], ids=["press", "reaction"])
async def test_a_rating_of_somebody_forgotten_meanwhile_is_not_kept(tmp_path: Path, choice: str) -> None:
    """It waited for another one, and the id of a reaction has its author in it."""
    async with opened(tmp_path, JournalSettings()) as bot:
        asked = await bot.deliver(BOB, "How does the launcher start?")
        message = replace(ASKED, id=f"reaction 99 {ANN_ID} 2", author_id=ANN_ID, author="Ann")
        press = to_press(message, choice, asked.id)
        await bot.journal.record_message(press)
        await bot.deliver(ANN, "", "forget")
        rating = await FeedbackRepository(bot.journal.database).rate(press, asked.id, UP)
        assert (rating.verdict, rating.up) == ("", 0)
        await bot.journal.mark_skipped(press, skip(SkipReason.RATED, question=asked.id, rating="up"))
        assert await find_columns(bot.journal.database, *KEPT_IN_CHAT) == set()


async def test_a_word_that_was_typed_as_a_command_goes(tmp_path: Path) -> None:
    """A command that there is stays, for the statistics; an unknown one must not become a question."""
    async with opened(tmp_path, JournalSettings()) as bot:
        database = bot.journal.database
        await bot.deliver(ANN, "", WORD)
        await bot.deliver(ANN, "", "status")
        await bot.deliver(ANN, "", "forget")
        assert await find_columns(database, *KEPT_IN_CHAT) == set()
        commands = [row.command for row in await database.fetch_all(select(messages.c.command))]
        assert commands == ["unknown", "status", "forget"]


@pytest.mark.parametrize("is_of_earlier_version", [False, True])
async def test_a_word_that_was_typed_as_a_command_expires(tmp_path: Path, *, is_of_earlier_version: bool) -> None:
    async with opened(tmp_path, JournalSettings()) as bot:
        await bot.deliver(ANN, "", WORD)
        later = datetime.now(UTC) + timedelta(days=1)
        if is_of_earlier_version:
            await bot.journal.erase_expired(later, later)
            await bot.journal.database.write(update(messages).values(command=WORD))
        assert await bot.journal.erase_expired(later, later) == 1
        assert await bot.journal.erase_expired(later, later) == 0
        assert await find_columns(bot.journal.database) == set()


def test_the_commands_that_stay_are_all_that_there_are() -> None:
    assert {command.name for command in COMMANDS} == set(ENGLISH.command_summaries)


@pytest.mark.parametrize("is_question", [False, True], ids=["the answer", "the question"])
@pytest.mark.parametrize("authors", [(ANN_ID,), (ANN_ID, "47")], ids=["hers", "of several"])
async def test_a_lesson_from_a_forward_is_whose_words_it_has(
    tmp_path: Path, authors: tuple[str, ...], *, is_question: bool
) -> None:
    """The bot has seen the forward, and the platform says from whom it is."""
    async with opened(tmp_path, JournalSettings()) as bot:
        values = {"addressed": False, "is_forwarded": True, "quoted_authors": authors}
        forward = await bot.deliver(Sender("-100", "45"), f"Who has the key, {WORD}?", **values)
        answer = await bot.deliver(Sender("-100", "46"), "Carl has it.", addressed=False, reply_to=forward.id)
        learned = answer if is_question else forward
        await bot.deliver(BOB, "" if is_question else "Who has it?", "learn", reply_to=learned.id, quoted=learned.text)
        repository = TaughtAnswerRepository(bot.journal.database)
        assert len(await repository.list_answers(reader=None)) == 1
        await bot.deliver(ANN, "", "forget")
        assert len(await repository.list_answers(reader=None)) == len(authors) - 1


async def test_the_answer_of_an_expert_to_a_forwarded_question_goes_with_who_asked(tmp_path: Path) -> None:
    async with opened(tmp_path, JournalSettings()) as bot:
        values = {"addressed": False, "is_forwarded": True, "quoted_authors": (ANN_ID,)}
        forward = await bot.deliver(Sender("-100", "45"), f"Who has the key, {WORD}?", **values)
        await bot.deliver(Sender("-100", "46"), "", "escalate", reply_to=forward.id)
        await bot.deliver(BOB, "Carl has it.", addressed=False, reply_to=forward.id)
        repository = TaughtAnswerRepository(bot.journal.database)
        assert len(await repository.list_answers(reader=None)) == 1
        await bot.deliver(ANN, "", "forget")
        assert not await repository.list_answers(reader=None)


@pytest.mark.parametrize("others", [(), ("47",)], ids=["alone", "with others"])
async def test_who_was_called_to_a_question_is_erased_and_it_can_still_be_answered(
    tmp_path: Path, others: tuple[str, ...]
) -> None:
    people = {"people": [f"telegram:{person}" for person in (ANN_ID, *others)], "trusted": ["telegram:43"]}
    async with opened(tmp_path, JournalSettings(), handoff=people) as bot:
        database = bot.journal.database
        await bot.deliver(Sender("-100", "45"), "Who has the key?", "escalate")
        call = select(messages.c.mentioned_users).filter_by(purpose="escalation")
        assert await database.fetch_value(call) == [ANN_ID, *others]
        await database.write(update(messages).filter_by(purpose="escalation").values(reply_id="the call"))
        await bot.deliver(ANN, "", "forget")
        assert await find_columns(database, *KEPT_IN_CHAT) == set()
        assert tuple(await database.fetch_value(call) or ()) == others
        await bot.deliver(BOB, "Carl has it.", reply_to="the call")
        assert len(await TaughtAnswerRepository(database).list_answers(reader=None)) == 1


async def test_an_answer_about_a_thread_of_several_people_goes(tmp_path: Path) -> None:
    """Who reads a thread for the first time brings the words of all who wrote in it; what others say they keep."""
    async with opened(tmp_path, JournalSettings()) as bot:
        other = "Dora has put it into a box"
        await bot.deliver(replace(ANN, author="44"), f"{other}.", addressed=False)
        thread = {"quoted": f"Where is it?\n\n{SAID}\n\n{other}.", "quoted_authors": ("44", ANN_ID)}
        await bot.deliver(BOB, "What is this?", **thread)
        await bot.deliver(replace(ANN, author="45"), "and what about it?")
        kept = await bot.deliver(BOB, "What starts the launcher?", key=ConversationKey("telegram", "-100", "9"))
        database = bot.journal.database
        await database.write(update(messages).filter_by(id=kept.id).values(reply=f"I heard that {other}."))
        await bot.deliver(ANN, command="forget")
        assert await find_columns(database, *KEPT_IN_CHAT) == set()
        assert other in await database.fetch_value(select(messages.c.reply).filter_by(id=kept.id))


@pytest.mark.parametrize("sender", [ANN, BOB], ids=["hers", "another's"])
async def test_why_an_answer_failed_does_not_repeat_her_words(tmp_path: Path, sender: Sender) -> None:
    """What a platform or a service says of an answer may be any part of it."""
    async with opened(tmp_path, JournalSettings()) as bot:
        await bot.deliver(ANN, SAID)
        bot.adapter("telegram").sink_error = PlatformError(f"an unknown tag: {SAID}")
        await bot.deliver(sender, "and what about it?")
        database = bot.journal.database
        assert "messages.reason" in await find_columns(database)
        bot.adapter("telegram").sink_error = None
        await bot.deliver(ANN, command="forget")
        assert await find_columns(database, *KEPT_IN_CHAT) == set()
