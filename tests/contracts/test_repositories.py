"""The contract of the repositories, run over every database that can hold them: SQLite and a real PostgreSQL server.

What runs over SQLite also has to be portable.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import ClauseElement, event, select, update
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateIndex, CreateTable
from sqlalchemy.sql import visitors
from sqlalchemy.sql.functions import FunctionElement

from core.errors import StoreError, UsageError
from core.formatting import today
from core.settings import CacheSettings, Settings
from core.storage.answer_cache import AnswerCache, CacheKey, delete_replies, to_scope
from core.storage.auto_comments import AutoCommentRepository, FeedState, FeedStateRepository
from core.storage.chat_history import ChatHistory
from core.storage.closed_threads import close_thread
from core.storage.engine import Database
from core.storage.erasure import PersonalRecords, count_on_platform, erase_on_platform
from core.storage.feedback import FeedbackRepository, LabelledQuestion, Rating
from core.storage.lessons import TaughtAnswerRepository
from core.storage.message_lookup import MessageLookup
from core.storage.messages import MAX_TITLE_CHARS, Journal
from core.storage.overrides import Audit, LiveSettings, RuntimeOverrides, new_entry, override_key
from core.storage.refresh_state import RefreshState, RefreshStateRepository
from core.storage.reports import OUTCOMES, QuestionFilter, ReportRepository
from core.storage.retention import erase_expired
from core.storage.tables import cursors, messages, metadata
from core.storage.usage import AgentUsage, SourceHits, StatisticsRepository, TokenUsage, UsageRepository
from core.types import (
    DOWN,
    HANDOFF_COMMAND,
    RATING_COMMAND,
    UP,
    Attachment,
    Citation,
    ConversationKey,
    Message,
    Origin,
    Question,
    Reply,
    SkipReason,
    ThreadState,
    Turn,
    skip,
)
from core.types.replies import Trace, TracedPassage, trace_from_json
from tests.support.journal import read_history

# What SQLite and PostgreSQL both have, with one meaning.
PORTABLE_FUNCTIONS = {"now", "avg", "coalesce", "count", "lower", "max", "replace", "substr", "sum"}

POSTGRESQL = postgresql.dialect()  # type: ignore[no-untyped-call]
CHAT = ConversationKey("telegram", "-100", "7")
EAST = timezone(timedelta(hours=8))
MESSAGE = Message(
    "1",
    CHAT,
    "42",
    "Ann",
    "How is it installed? 怎么装？",
    datetime(2026, 1, 2, 8, 0, 0, 5, tzinfo=EAST),
    addressed=True,
    bot="9",
    reference={"chat_id": -100},
    attachments=(Attachment("picture", "error.png", 1200, {"file_id": "f"}),),
)
REPLY = Reply(
    "With pip [1].",
    (Citation(1, "docs/a.md#0", "docs", "Install", "a.md", ""),),
    trace=Trace("install", "single", ("docs",), {"total": 12.5}, tokens={"docs.prompt": 3}, cost={"docs": 0.5}),
)


def check_portable(_connection: object, statement: ClauseElement, *_rest: object) -> None:
    """Fail for a statement that PostgreSQL does not have."""
    if not isinstance(statement, ClauseElement) or not statement.supports_execution:
        return
    statement.compile(dialect=POSTGRESQL)
    names = {element.name for element in visitors.iterate(statement) if isinstance(element, FunctionElement)}
    assert names <= PORTABLE_FUNCTIONS, statement


@pytest.fixture(params=["sqlite", "postgresql"])
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    if request.param == "sqlite":
        database = await Database.open(tmp_path / "journal.db")
        event.listen(database._engine.sync_engine, "before_execute", check_portable)
    else:
        database = await Database.open_server(request.getfixturevalue("postgres_journal"))
    yield database
    await database.close()


@pytest.fixture
def journal(database: Database) -> Journal:
    return Journal(database)


def later(days: float = 1) -> datetime:
    return datetime.now(UTC) + timedelta(days=days)


async def record_answer(
    journal: Journal, message: Message = MESSAGE, reply: Reply = REPLY, reply_id: str = "2"
) -> Message:
    """Journal a message with its answer."""
    await journal.record_message(message)
    await journal.begin_answer(message, None)
    await journal.mark_posting(message)
    await journal.mark_posted(message, reply_id)
    await journal.mark_answered(message, reply)
    return message


def test_the_tables_can_be_made_in_postgresql() -> None:
    for table in metadata.sorted_tables:
        assert str(CreateTable(table).compile(dialect=POSTGRESQL))
        for index in table.indexes:
            assert str(CreateIndex(index).compile(dialect=POSTGRESQL))


async def test_a_transaction_is_kept_as_a_whole_or_not_at_all(database: Database, journal: Journal) -> None:
    async def write(names: str, error: Exception | None = None) -> None:
        async with database.transaction() as connection:
            for name in names:
                await connection.execute(cursors.insert().values(name=name, position=1))
            if error:
                raise error

    with pytest.raises(ValueError, match="broken"):
        await write("ab", ValueError("broken"))
    with pytest.raises(StoreError, match="refuses to be written"):
        await write("aa")
    assert await journal.get_cursor("a") is None
    await write("a")
    assert await journal.get_cursor("a") == 1


class TestMessages:
    async def test_a_message_comes_back_as_it_was_recorded_once(self, journal: Journal) -> None:
        assert await journal.record_message(MESSAGE)
        assert not await journal.record_message(MESSAGE)
        assert await journal.record_message(replace(MESSAGE, bot="10"))
        ((message, reply_id), _) = await journal.get_pending("telegram")
        assert (message, reply_id, message.sent_at.utcoffset()) == (MESSAGE, "", timedelta(0))

    async def test_an_edit_counts_until_the_answer_begins(self, journal: Journal) -> None:
        await journal.record_message(MESSAGE)
        assert await journal.record_edit(replace(MESSAGE, text="Why?"))
        assert not await journal.record_edit(replace(MESSAGE, text="Mine?", author_id="somebody else"))
        assert await journal.begin_answer(MESSAGE, None) == "Why?"
        assert not await journal.record_edit(replace(MESSAGE, text="Who?"))

    async def test_a_crash_while_posting_closes_the_message(self, journal: Journal) -> None:
        await journal.record_message(MESSAGE)
        await journal.mark_posting(MESSAGE)
        assert await journal.fail_uncertain("telegram") == 1
        assert await journal.get_pending("telegram") == []

    async def test_answers_become_history(self, journal: Journal) -> None:
        await record_answer(journal)
        turns = (Turn("user", MESSAGE.text, "Ann", "42"), Turn("assistant", REPLY.text))
        assert tuple(await read_history(journal, CHAT, 9)) == turns
        assert await read_history(journal, replace(CHAT, thread="8"), 9) == []
        answer = await journal.get_answer_by_reply(replace(MESSAGE, id="3", reply_to="2"), None)
        assert answer is not None
        assert tuple(answer.turns) == turns
        assert len(answer.numbers) == 1

    async def test_a_cursor_moves(self, journal: Journal) -> None:
        assert await journal.get_cursor("telegram:9") is None
        for position in (77, 2**40):
            await journal.set_cursor("telegram:9", position)
            assert await journal.get_cursor("telegram:9") == position

    async def test_what_is_too_old_loses_its_words(self, journal: Journal) -> None:
        await record_answer(journal)
        silent_message = replace(MESSAGE, id="3")
        await journal.record_message(silent_message)
        await journal.mark_skipped(silent_message, skip(SkipReason.NOT_ADDRESSED))
        await journal.record_message(replace(MESSAGE, id="4"))
        assert await journal.erase_expired(None, later()) == 1
        assert await journal.erase_expired(later(), later()) == 1
        assert await read_history(journal, CHAT, 9) == []
        assert [message.id for message, _ in await journal.get_pending("telegram")] == ["4"]

    async def test_an_author_is_forgotten_with_all_that_was_kept(self, journal: Journal, database: Database) -> None:
        await record_answer(journal)
        cache = AnswerCache(database, CacheSettings(), "x")
        key = CacheKey(to_scope(CHAT), MESSAGE.text, "how", "", None)
        await cache.store(key, REPLY, {})
        feedback = FeedbackRepository(database)
        taught_answers = TaughtAnswerRepository(database)
        await feedback.rate(replace(MESSAGE, id="p"), "1", UP)
        await taught_answers.submit(MESSAGE, "42", "Who?", "Me.", (), words_of=())
        forget = replace(MESSAGE, id="5", command="forget")
        await journal.record_message(forget)
        assert await journal.erase_author(forget) == 1
        assert await read_history(journal, CHAT, 9) == []
        assert await cache.find_replies(key) == []
        assert (await feedback.get_rating(MESSAGE, "1")).up == 0
        assert await taught_answers.list_answers(reader=None) == []

    async def test_lessons_of_a_private_chat_are_for_who_it_belonged_to(
        self, journal: Journal, database: Database
    ) -> None:
        taught_answers = TaughtAnswerRepository(database)
        ann, bob = (replace(MESSAGE, author_id=author, private=True) for author in ("42", "43"))
        lessons = [replace(ann, id="1"), replace(ann, id="2", private=False), replace(bob, id="3")]
        for lesson in lessons:
            await journal.record_message(lesson)
            await taught_answers.submit(lesson, lesson.author_id, f"Who {lesson.id}?", "Me.", (), words_of=())
        # A message that the bot has not received: nobody knows whose the chat was then.
        await taught_answers.submit(replace(ann, id="9"), "42", "Who 9?", "Me.", (), words_of=())

        async def list_told(reader: Message) -> list[str]:
            return [answer.question for answer in await taught_answers.list_answers(reader=replace(reader, id="10"))]

        assert await list_told(ann) == ["Who 1?", "Who 2?"]
        assert await list_told(bob) == ["Who 2?", "Who 3?"]
        assert await list_told(replace(bob, private=False)) == ["Who 2?"]
        own_key = replace(CHAT, chat="-2")
        await taught_answers.submit(replace(ann, id="9", key=own_key), "42", "Who?", "Me.", (), words_of=())
        await journal.record_message(replace(ann, key=own_key))
        assert await list_told(replace(ann, key=own_key)) == ["Who?"]

    async def test_an_edit_tells_that_others_read_a_chat_that_was_private(
        self, journal: Journal, database: Database
    ) -> None:
        question = replace(MESSAGE, key=replace(CHAT, platform="http"), private=True)
        await journal.record_message(question)
        edit = replace(question, text="Why?", is_edit=True, edit_id="5")
        for is_private in (True, False):
            assert await journal.record_edit(replace(edit, private=is_private, edit_id=f"5 {is_private}"))
            assert await journal.record_edit(replace(edit, private=is_private, edit_id=f"5 {is_private}")), "repeated"
            assert await ChatHistory(database).is_read_by_others(question) != is_private
        assert [message.id for message, _ in await journal.get_pending("http")] == [question.id]

    async def test_a_notice_is_whole_until_its_words_are_erased(self, journal: Journal, database: Database) -> None:
        """It has no author: what is made from it is shown as long as the one whom it tells of was not forgotten."""
        await record_answer(journal)
        own_number = await database.fetch_value(select(messages.c.number).filter_by(id=MESSAGE.id))
        team = replace(MESSAGE, key=replace(CHAT, chat="-2"), author_id="43")
        notice = replace(
            team, id="n", author_id="", author="", text="", origin=Origin(purpose="draft", root_id=str(own_number))
        )
        await record_answer(journal, notice, Reply(f"Ann asks: {MESSAGE.text}"), "n1")
        question = replace(team, id="q", text="Who asks?", reply_to="n1")
        await journal.record_message(question)
        others = [await database.fetch_value(select(messages.c.number).filter_by(id="n"))]
        assert await journal.find_forgotten(question, (), others, is_final=False) == ""
        assert await ChatHistory(database).are_remembered(others)
        await journal.erase_author(replace(MESSAGE, id="9"))
        assert await journal.find_forgotten(question, (), others, is_final=False) == "others"
        assert not await ChatHistory(database).are_remembered(others)

    async def test_answers_to_others_lose_the_traces_that_hold_the_words(
        self, journal: Journal, database: Database
    ) -> None:
        await record_answer(journal, replace(MESSAGE, text="My key is zanzibar77."))
        other = replace(MESSAGE, author_id="43", text="And what about it?")
        await record_answer(journal, replace(other, id="2"), reply_id="r2")
        await record_answer(journal, replace(other, id="3", text="Which port?"), reply_id="r3")
        await record_answer(journal, replace(other, id="4", key=replace(CHAT, chat="-2")), reply_id="r4")
        columns = messages.c
        async with database.transaction() as connection:
            for message_id, query in (("2", "what about it? zanzibar77"), ("3", "which port?"), ("4", "zanzibar77")):
                trace = {"query": query, "rounds": [{"queries": [query], "quality": "", "reason": ""}]}
                await connection.execute(update(messages).where(columns.id == message_id).values(trace=trace))
        await journal.erase_author(replace(MESSAGE, id="9"))
        rows = await database.fetch_all(select(columns.id, columns.reply, columns.trace).order_by(columns.number))
        assert [(row.id, bool(row.reply), row.trace is None) for row in rows] == [
            (MESSAGE.id, False, True),
            ("2", True, True),
            ("3", True, False),
            ("4", True, False),
        ]

    async def test_who_quotes_a_later_part_of_a_forgotten_answer_loses_it(
        self, journal: Journal, database: Database
    ) -> None:
        """Of an answer in several messages the journal knows the first one's id alone."""
        parts = "First, install the **quokka** with pip.", "Then restart the numbat, as `numbat --restart` does."
        await journal.record_message(MESSAGE)
        await journal.mark_answered(MESSAGE, Reply("\n\n".join(parts)))
        quotes = {
            "2": parts[1],
            "3": "Then restart the numbat, as numbat --restart does.",
            "4": "Install the wombat with pip, as the guide says.",
        }
        for number, quoted in quotes.items():
            other = replace(MESSAGE, id=number, author_id="43", text="Why?", reply_to=f"r{number}")
            await journal.record_message(replace(other, quoted=quoted, quotes_bot=True))
        await journal.erase_author(replace(MESSAGE, id="9"))
        rows = await database.fetch_all(select(messages.c.quoted).order_by(messages.c.number))
        assert [row.quoted for row in rows] == ["", "", "", quotes["4"]]

    async def test_a_press_and_a_word_of_everybody_take_nothing_from_others(
        self, journal: Journal, database: Database
    ) -> None:
        await record_answer(journal, replace(MESSAGE, text="up", command=RATING_COMMAND))
        await record_answer(journal, replace(MESSAGE, id="2", text="set"), reply_id="r2")
        other = replace(MESSAGE, id="3", author_id="43", text="And?", quoted="How do I set up the server?")
        await record_answer(journal, other, reply_id="r3")
        await journal.erase_author(replace(MESSAGE, id="9"))
        rows = await database.fetch_all(select(messages.c.quoted).filter_by(id="3"))
        assert [row.quoted for row in rows] == [other.quoted]

    async def test_who_bears_a_reviewers_name_elsewhere_erases_nothing(
        self, journal: Journal, database: Database
    ) -> None:
        taught_answers = TaughtAnswerRepository(database)
        namesake = replace(MESSAGE, key=replace(CHAT, chat="-2"), author_id="66")
        await record_answer(journal, namesake)
        await taught_answers.submit(replace(MESSAGE, author_id="43"), "44", "Who?", "Me.", (), words_of=())
        await taught_answers.decide(1, "approved", namesake.author)
        await journal.erase_author(replace(namesake, id="9"))
        assert (await taught_answers.list_answers(reader=None))[0].reviewer == namesake.author

    @pytest.mark.parametrize("reviewer", ["telegram:42", "Ann"])
    async def test_who_reviewed_an_answer_is_forgotten(
        self, journal: Journal, database: Database, reviewer: str
    ) -> None:
        taught_answers = TaughtAnswerRepository(database)
        await record_answer(journal)
        await taught_answers.submit(replace(MESSAGE, author_id="43"), "44", "Who?", "Me.", (), words_of=())
        await taught_answers.decide(1, "approved", reviewer)
        await journal.erase_author(replace(MESSAGE, id="9", author_id="45"))
        assert (await taught_answers.list_answers(reader=None))[0].reviewer == reviewer
        await journal.erase_author(replace(MESSAGE, id="9"))
        assert (await taught_answers.list_answers(reader=None))[0].reviewer == ""

    async def test_a_person_is_erased_in_all_chats_of_a_platform(self, journal: Journal, database: Database) -> None:
        other_chat = replace(CHAT, chat="-2")
        other_platform = replace(CHAT, platform="slack")
        for number, key in enumerate((CHAT, other_chat, other_platform), 10):
            await record_answer(journal, replace(MESSAGE, id=str(number), key=key), reply_id=f"r{number}")
        await record_answer(journal, replace(MESSAGE, id="20", author_id="43", text="Why?"), reply_id="r20")
        await journal.record_message(replace(MESSAGE, id="21"))
        cache = AnswerCache(database, CacheSettings(), "x")
        keys = [CacheKey(to_scope(key), MESSAGE.text, "how", "", None) for key in (CHAT, other_chat, other_platform)]
        for cache_key in (*keys, replace(keys[0], text="Why?", normalized="why")):
            await cache.store(cache_key, REPLY, {})
        feedback = FeedbackRepository(database)
        usage = UsageRepository(database)
        await feedback.rate(replace(MESSAGE, id="p"), "20", UP)
        question = Question("?", id="10", key=CHAT, author_id="42")
        for day in (today() - timedelta(days=1), today()):
            await usage.record(question, "answered", {"docs": TokenUsage(3, 1)}, day)
        expected = PersonalRecords(2, 1)
        assert await count_on_platform(database, "telegram", "42") == expected
        assert await erase_on_platform(database, "telegram", "42", today()) == expected
        assert await erase_on_platform(database, "telegram", "42", today()) == PersonalRecords(0, 1)
        assert [turn.text for turn in await read_history(journal, CHAT, 9)] == [
            "Why?",
            REPLY.text,
        ]
        assert await read_history(journal, other_chat, 9) == []
        assert len(await read_history(journal, other_platform, 9)) == 2
        assert [len(await cache.find_replies(cache_key)) for cache_key in keys] == [0, 0, 1]
        assert len(await cache.find_replies(replace(keys[0], text="Why?", normalized="why"))) == 1
        assert (await feedback.get_rating(replace(MESSAGE, author_id="43"), "20")).up == 0
        shares = await usage.get_usage_by_chat(today() - timedelta(days=1))
        assert [share.values[2] for share in shares] == ["", "-100"], "the limits of today count the person"

    async def test_opinions_go_with_what_nobody_asked(self, database: Database) -> None:
        """They may have what others said a day before."""
        journal = Journal(database)
        settings = Settings.model_validate({"journal": {"keep_unanswered_days": 7}})
        trace = replace(REPLY.trace, opinion="Ben asked how it starts")
        await journal.record_message(MESSAGE)
        await journal.mark_answered(MESSAGE, replace(REPLY, trace=trace))
        traces = list[Trace]()
        for days in (5.9, 6.1):
            settled_at = datetime.now(UTC) - timedelta(days=days)
            await database.write(update(messages).values(settled_at=settled_at))
            await erase_expired(settings, journal)
            traces.append(trace_from_json(await database.fetch_value(select(messages.c.trace))))
        assert traces == [trace, REPLY.trace]


class TestChatHistory:
    async def test_what_people_wrote_lately(self, journal: Journal, database: Database) -> None:
        history = ChatHistory(database)
        second = replace(MESSAGE, id="2", author_id="43", author="Ben", addressed=False)
        await journal.record_message(MESSAGE)
        await journal.record_message(second)
        await journal.record_message(replace(second, id="3", is_by_bot=True))
        await journal.begin_answer(second, None)
        (first,) = await history.get_recent_messages(second, 600)
        assert (first.id, first.author, first.text, first.is_later) == ("1", "Ann", MESSAGE.text, False)
        (other,) = await history.get_recent_messages(MESSAGE, 600)
        hidden = replace(second, private=True)
        assert [item.id for item in await history.get_recent_messages(hidden, 600)] == [MESSAGE.id]
        assert (other.id, other.has_unprompted_answer, other.is_later) == ("2", True, True)
        assert 0 <= other.age_s < 600
        assert await history.get_recent_messages(second, -1) == []
        assert await history.count_answers_to(replace(second, id="4"), 600) == 1
        assert await history.count_answers_to(replace(second, id="4", command="help"), 600) == 0
        # The clock was set back since: what is dated ahead does not count for as long as it takes to catch up.
        clock_update = update(messages).values(received_at=datetime.now(UTC) + timedelta(hours=2))
        await journal.database.write(clock_update)
        assert await history.count_answers_to(replace(second, id="4"), 600) == 0
        assert await history.get_replied_author(replace(MESSAGE, id="4", reply_to="2")) == "43"

    async def test_what_was_answered(self, journal: Journal, database: Database) -> None:
        history = ChatHistory(database)
        next_message = replace(MESSAGE, id="3", reply_to="2")
        assert not await history.has_answered(CHAT, "9")
        await record_answer(journal)
        assert await history.has_answered(CHAT, "9")
        (earlier_answer,) = await history.get_earlier_answers(next_message, 600, None)
        assert (earlier_answer.question, earlier_answer.reply) == (MESSAGE.text, REPLY.text)
        assert await history.get_posting_bot(next_message) == "9"
        (answer,) = await history.get_bot_answers(next_message, 600)
        assert (answer.bot, answer.is_unprompted, answer.is_offer) == ("9", False, False)
        assert await history.was_told(next_message, REPLY.text, 600)
        assert not await history.was_told(next_message, "No.", 600)

    async def test_a_message_that_several_bots_received(self, journal: Journal, database: Database) -> None:
        other = replace(MESSAGE, bot="10", id="77", addressed=False)
        await journal.record_message(other)
        await journal.record_message(MESSAGE)
        (duplicate,) = await ChatHistory(database).get_duplicates(MESSAGE)
        assert (duplicate.text, duplicate.is_first, duplicate.is_addressed) == (MESSAGE.text, True, False)
        await ChatHistory(database).mark_addressed(other)
        assert (await ChatHistory(database).get_duplicates(MESSAGE))[0].is_addressed


class TestMessageLookup:
    async def test_what_a_message_is_about(self, journal: Journal, database: Database) -> None:
        lookup = MessageLookup(database)
        command = replace(MESSAGE, id="5", text="", reply_to="2")
        await record_answer(journal)
        assert (stored_message := await lookup.get_message(command, "1"))
        assert (stored_message.message, stored_message.is_unanswered) == (MESSAGE, False)
        assert [match.message for match in await lookup.find_replied_to(command)] == [MESSAGE]
        assert await lookup.find_question(command) == MESSAGE
        assert await lookup.find_question(replace(command, reply_to="")) == MESSAGE
        assert await lookup.find_question(replace(command, reply_to="", author_id="43")) is None
        assert await lookup.is_own_answer(command)
        assert await lookup.get_message(replace(command, bot="10"), "1") is None

    async def test_a_restricted_thread_is_not_told_of_elsewhere(self, journal: Journal, database: Database) -> None:
        lookup = MessageLookup(database)
        await record_answer(journal, replace(MESSAGE, thread_state=ThreadState(is_restricted=True)))
        other_thread_message = replace(MESSAGE, id="5", key=replace(CHAT, thread="8"), reply_to="2")
        assert await lookup.get_readable_message(other_thread_message, "1") is None
        there = replace(other_thread_message, key=CHAT, thread_state=ThreadState(is_restricted=True))
        assert await lookup.get_readable_message(there, "1") is not None
        assert not await lookup.is_own_answer(other_thread_message)
        assert await lookup.get_last_outcome(other_thread_message) is None

    async def test_outcomes(self, journal: Journal, database: Database) -> None:
        lookup = MessageLookup(database)
        command = replace(MESSAGE, id="5", text="", command="why")
        assert await lookup.get_last_outcome(command) is None
        await record_answer(journal)
        failed_message = replace(MESSAGE, id="3")
        await journal.record_message(failed_message)
        await journal.mark_failed(failed_message, "the model is down")
        assert (last := await lookup.get_last_outcome(command))
        assert (last.state, last.reply, last.trace["query"]) == ("answered", REPLY.text, "install")
        assert [citation["source"] for citation in last.citations] == ["docs"]
        assert await lookup.get_outcome(command, "2") == last, "by the id of the answer"
        assert (outcome := await lookup.get_outcome(command, "3"))
        assert (outcome.state, outcome.reason) == ("failed", "the model is down")

    async def test_handoffs(self, journal: Journal, database: Database) -> None:
        lookup = MessageLookup(database)
        assert not await lookup.has_recent_handoff(MESSAGE, 300)
        await journal.record_message(
            replace(MESSAGE, id="call", origin=Origin(root_id="1", purpose="escalation"), command=HANDOFF_COMMAND)
        )
        assert await lookup.has_recent_handoff(MESSAGE, 300)
        assert not await lookup.has_recent_handoff(MESSAGE, 0), "it is longer ago"
        await database.write(update(messages).values(received_at=datetime.now(UTC) + timedelta(hours=1)))
        assert not await lookup.has_recent_handoff(MESSAGE, 300), "the clock was ahead"


class TestAnswerCache:
    KEY = CacheKey(to_scope(CHAT), "How?", "how", "install", None)

    async def test_a_reply_is_found_by_its_words_and_by_its_sense(self, database: Database) -> None:
        cache = AnswerCache(database, CacheSettings(similarity=0.9), "x")
        await cache.store(self.KEY, REPLY, {"docs": "v1"})
        (entry,) = await cache.find_replies(self.KEY)
        assert (entry.question, entry.is_exact_match, entry.versions) == ("How?", True, {"docs": "v1"})
        assert (entry.reply.text, entry.reply.citations, entry.reply.trace.cached) == (
            REPLY.text,
            REPLY.citations,
            True,
        )
        (alike,) = await cache.find_replies(replace(self.KEY, normalized="how then"))
        assert not alike.is_exact_match
        assert await cache.find_replies(replace(self.KEY, scope=to_scope(replace(CHAT, chat="-2")))) == []
        assert await AnswerCache(database, CacheSettings(), "y").find_replies(self.KEY) == []

    async def test_replies_leave(self, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("core.storage.answer_cache.MAX_ENTRIES", 2)
        cache = AnswerCache(database, CacheSettings(), "x")
        keys = [replace(self.KEY, normalized=name, canonical_form=name) for name in ("a", "b", "c")]
        for key in keys:
            await cache.store(key, REPLY, {})
        assert [len(await cache.find_replies(key)) for key in keys] == [0, 1, 1]
        await cache.evict([entry.number for entry in await cache.find_replies(keys[1])])
        assert await cache.find_replies(keys[1]) == []
        assert await delete_replies(database, later().timestamp()) == 1


class TestFeedback:
    async def test_ratings(self, journal: Journal, database: Database) -> None:
        repository = FeedbackRepository(database)
        await record_answer(journal)
        press = replace(MESSAGE, id="p1", author_id="43", reply_to="2")
        answer = await repository.find_answer(press)
        assert answer is not None
        assert (answer.question, answer.reply, answer.passages) == (MESSAGE, REPLY.text, ("docs/a.md#0",))
        assert await repository.rate(press, "1", UP) == Rating(UP, "", 1, 0)
        assert await repository.rate(press, "1", UP) == Rating(UP, "", 1, 0), "the same press again"
        other = replace(press, id="p2", author_id="44")
        assert await repository.rate(other, "1", DOWN, "wrong") == Rating(DOWN, "wrong", 1, 1)
        assert await repository.rate(replace(press, id="p3"), "1", UP) == Rating("", "", 0, 1)
        assert await repository.get_rating(other, "1") == Rating(DOWN, "wrong", 0, 1)
        (day,) = await repository.get_daily_ratings(later(-1))
        assert (day.day, day.up, day.down, day.reasons) == (today(), 0, 1, {"wrong": 1})
        labelled = [LabelledQuestion("telegram", "-100", "1", MESSAGE.text, False)]
        assert await repository.get_labelled_questions(("telegram", "-100")) == labelled
        assert await repository.get_labelled_questions(("telegram", "-2")) == []
        assert await repository.erase_before(later()) == 2

    @pytest.mark.parametrize("message", [MESSAGE, replace(MESSAGE, text=" ", quoted=MESSAGE.text)])
    async def test_a_bad_answer_is_not_given_again(self, database: Database, message: Message) -> None:
        cache = AnswerCache(database, CacheSettings(), "x")
        key = CacheKey(to_scope(CHAT), MESSAGE.text, "how", "", None)
        await cache.store(key, REPLY, {})
        await FeedbackRepository(database).evict_cached_reply(message)
        assert await cache.find_replies(key) == []


class TestTaughtAnswers:
    async def test_an_answer_is_reviewed(self, database: Database) -> None:
        repository = TaughtAnswerRepository(database)
        number = await repository.submit(MESSAGE, "43", " Who\nmade it? ", " We did. ", (), words_of=())
        assert number == 1
        assert await repository.submit(MESSAGE, "43", "Who?", "Others.", (), words_of=()) is None
        (answer,) = await repository.list_answers("pending", reader=None)
        assert (answer.question, answer.answer, answer.teacher, answer.at.tzinfo) == (
            "Who made it?",
            "We did.",
            "Ann",
            UTC,
        )
        decided = await repository.decide(1, "approved", "Boss")
        assert (decided.state, decided.reviewer, decided.reviewed_at is None) == ("approved", "Boss", False)
        assert await repository.list_answers("pending", reader=None) == []
        assert await repository.erase_before(later()) == 0, "what is approved stays"
        assert (await repository.edit(MESSAGE, 1, "Nobody.", ())).state == "pending"
        assert await repository.erase_before(later()) == 1
        with pytest.raises(UsageError, match="no answer 1"):
            await repository.decide(1, "rejected", "Boss")

    async def test_what_was_taught_in_a_closed_thread_is_read_in_it_alone(self, database: Database) -> None:
        repository = TaughtAnswerRepository(database)
        closed = replace(
            MESSAGE, id="2", key=replace(CHAT, thread="closed"), thread_state=ThreadState(is_restricted=True)
        )
        for message in (MESSAGE, closed):
            await repository.submit(message, "", f"In {message.key.thread}?", "We.", (), words_of=())
        open_question, closed_question = (f"In {message.key.thread}?" for message in (MESSAGE, closed))
        for reader in (MESSAGE, replace(MESSAGE, key=replace(CHAT, thread="")), replace(closed, key=CHAT)):
            assert [answer.question for answer in await repository.list_answers(reader=reader)] == [open_question]
        questions = [answer.question for answer in await repository.list_answers(reader=closed)]
        assert questions == [open_question, closed_question]
        assert await repository.list_answers(reader=replace(MESSAGE, key=replace(CHAT, chat="-2"))) == []

    async def test_a_number_is_never_used_again(self, database: Database) -> None:
        repository = TaughtAnswerRepository(database)
        await repository.submit(MESSAGE, "", "Who?", "We.", (), words_of=())
        await repository.erase_before(later())
        assert await repository.submit(replace(MESSAGE, id="2"), "", "Who?", "We.", (), words_of=()) == 2


class TestUsage:
    QUESTION = Question("How?", id="1", author_id="42", key=CHAT)

    async def test_what_answers_consumed(self, database: Database) -> None:
        repository = UsageRepository(database)
        day = date(2026, 1, 2)
        assert await repository.get_average() is None
        agents = {"docs": TokenUsage(10, 4, 0.5), "writer": TokenUsage(30, 6, 1.0)}
        await repository.record(self.QUESTION, "answered", agents, day)
        await repository.record(replace(self.QUESTION, author_id="43"), "cached", {}, day)
        total = TokenUsage(40, 10, 1.5)
        totals = await repository.get_totals(day, replace(self.QUESTION, author_id="43"))
        assert (totals.overall, totals.chat, totals.user) == (total, total, TokenUsage())
        assert await repository.get_average() == total
        (usage,) = await repository.get_daily_usage(day)
        assert (usage.day, usage.answers, usage.cached, usage.failed, usage.usage) == ("2026-01-02", 2, 1, 0, total)
        assert await repository.get_daily_usage(day + timedelta(days=1)) == []
        assert await repository.get_agent_usage(day) == [
            AgentUsage(name, 1, agents[name]) for name in ("writer", "docs")
        ]
        assert await repository.anonymize(day + timedelta(days=9), 3) == 2
        assert (await repository.get_totals(day, self.QUESTION)).user == TokenUsage()
        assert (await repository.get_totals(day, self.QUESTION)).overall == total

    async def test_the_hits_of_sources_by_chat(self, journal: Journal, database: Database) -> None:
        repository = StatisticsRepository(database)
        passages = tuple(
            TracedPassage(source, source, "a.md", "", "", 1, 2, 0.5, 0.5, 0.5, "text") for source in ("docs", "news")
        )
        trace = replace(REPLY.trace, passages=passages)
        citation = Citation(1, "docs", "docs", "", "a.md", "")
        await record_answer(journal, reply=replace(REPLY, citations=(citation, citation), trace=trace))
        uncited_message = replace(MESSAGE, id="9", key=replace(CHAT, chat="-2"))
        await record_answer(journal, uncited_message, replace(REPLY, citations=(), trace=trace), "10")
        assert await repository.count_source_hits(today()) == {"docs": SourceHits(2, 1), "news": SourceHits(2, 0)}
        assert (await repository.count_source_hits(today(), ("telegram", "-2")))["docs"] == SourceHits(1, 0)

    async def test_statistics_by_day_and_chat(self, journal: Journal, database: Database) -> None:
        repository = StatisticsRepository(database)
        await record_answer(journal)
        await journal.record_message(replace(MESSAGE, id="3", key=replace(CHAT, chat="-2")))
        await UsageRepository(database).record(self.QUESTION, "answered", {"docs": TokenUsage(3, 1, 0.5)}, today())
        (day_statistics,) = (await repository.get_daily_statistics(today())).values()
        assert (day_statistics.states, day_statistics.tokens, day_statistics.cost) == (
            {"answered": 1, "received": 1},
            4,
            0.5,
        )
        (other,) = (await repository.get_daily_statistics(today(), ("telegram", "-2"))).values()
        assert (other.states, other.tokens) == ({"received": 1}, 0)
        assert (await repository.count_pending(), await repository.count_pending(("telegram", "-100"))) == (1, 0)
        assert await repository.count_pending(besides=replace(MESSAGE, id="3", key=replace(CHAT, chat="-2"))) == 0
        assert await repository.count_pending(besides=MESSAGE) == 1
        received = await repository.get_last_received(["telegram", "slack"])
        assert list(received) == ["telegram"]
        assert abs(datetime.now(UTC) - received["telegram"]) < timedelta(minutes=10)


class TestOverrides:
    async def test_a_change_is_in_force_everywhere_and_written_down(self, database: Database) -> None:
        overrides, other_overrides = (RuntimeOverrides(database, cache_ttl_s=0) for _ in range(2))
        command = replace(MESSAGE, command="mode", text="mention")
        await overrides.change(command, "telegram:-100", "mode", "mention", before="auto")
        await overrides.change(command, "", override_key("off", "docs"), "1")
        await other_overrides.load()
        assert (
            other_overrides.mode("telegram:-100"),
            other_overrides.mode("telegram:-2"),
            other_overrides.is_off("docs"),
        ) == (
            "mention",
            None,
            True,
        )
        await other_overrides.change(command, "telegram:-100", "mode", None)
        await overrides.load()
        assert overrides.mode("telegram:-100") is None
        entries = await Audit(database).get_newest(9, chat=("telegram", "-100"))
        assert [(entry.subject, entry.before, entry.after) for entry in entries] == [
            ("telegram:-100 mode", "mention", "as configured"),
            ("off.docs", "", "1"),
            ("telegram:-100 mode", "auto", "mention"),
        ]
        assert all(entry.at.tzinfo and entry.outcome == "changed" for entry in entries)

    async def test_what_one_daemon_closes_is_closed_for_the_others(self, database: Database) -> None:
        source = {"kind": "faq", "path": "a.yaml"}
        telegram = {"token": {"env": "TELEGRAM"}}
        opened, closed = (
            Settings.model_validate({"sources": {"a": {**source, "audience": audience}}, "telegram": telegram})
            for audience in ("everyone", "owners")
        )
        old, new = (LiveSettings(settings, RuntimeOverrides(database, 0)) for settings in (opened, closed))
        await old.publish_audiences(opened)
        assert (old.audiences.has_closed_sources, new.audiences.has_closed_sources) == (False, True)
        await new.publish_audiences(closed)
        await old.load()
        assert old.audiences.by_source == new.audiences.by_source == {"a": {frozenset({"owners"})}}
        await old.publish_audiences(opened)
        await new.load()
        assert (old.audiences.has_closed_sources, new.audiences.has_closed_sources) == (False, True)

    async def test_the_audit_forgets_what_is_too_old(self, database: Database) -> None:
        entry = replace(new_entry(MESSAGE, "refused", "no right to"), at=later(-5))
        await Audit(database).record(entry)
        assert await Audit(database).get_newest(9, chat=None) == [entry]
        assert await Audit(database).get_newest(9, chat=("telegram", "-2")) == []
        fresh = new_entry(MESSAGE, "failed", "the disk is full")
        await Audit(database, lambda: 3).record(fresh)
        assert await Audit(database).get_newest(9, chat=None) == [fresh]


class TestChatTitles:
    async def test_a_chat_is_called_as_its_last_message_says(self, database: Database) -> None:
        journal = Journal(database)
        reports = ReportRepository(database)
        chat = (MESSAGE.key.platform, MESSAGE.key.chat)
        for number, title in enumerate(("", "Team", "Team", "Team of two", "")):
            await journal.record_message(replace(MESSAGE, id=f"title {number}", chat_title=title))
        assert await reports.get_chat_titles() == {chat: "Team of two"}
        # Another daemon does not know what is written.
        other_journal = Journal(database)
        await other_journal.record_message(replace(MESSAGE, id="other", chat_title="Team of two"))
        await other_journal.record_message(replace(MESSAGE, id="long", chat_title="x" * 500))
        assert await reports.get_chat_titles() == {chat: "x" * MAX_TITLE_CHARS}

    async def test_the_name_of_a_chat_goes_with_its_last_text(self, database: Database) -> None:
        journal = Journal(database)
        reports = ReportRepository(database)
        other_key = replace(MESSAGE.key, chat="-7")
        for number, key in enumerate((MESSAGE.key, other_key)):
            message = replace(MESSAGE, id=f"{number}", key=key, chat_title="Team")
            await journal.record_message(message)
        await journal.mark_skipped(message, skip(SkipReason.NOT_ADDRESSED))
        chat = (MESSAGE.key.platform, MESSAGE.key.chat)
        other_chat = (other_key.platform, other_key.chat)
        await journal.erase_expired(None, None)
        assert await reports.get_chat_titles() == dict.fromkeys((chat, other_chat), "Team")
        await journal.erase_expired(None, later())
        assert await reports.get_chat_titles() == {chat: "Team"}
        await journal.record_message(replace(message, id="again"))
        assert await reports.get_chat_titles() == dict.fromkeys((chat, other_chat), "Team")


class TestRefreshState:
    async def test_a_refresh_from_request_to_end(self, database: Database) -> None:
        repository = RefreshStateRepository(database)
        assert await repository.get_state("docs") == RefreshState()
        await repository.request_refresh(["docs"])
        assert (await repository.get_state("docs")).is_requested
        await repository.mark_started("docs", "abc")
        started_state = await repository.get_state("docs")
        assert (
            started_state.unfinished,
            started_state.failures,
            started_state.is_requested,
            started_state.is_pending,
        ) == (
            True,
            1,
            False,
            True,
        )
        await repository.mark_succeeded("docs", passages=5, documents=2, counts={"added": 2}, changed=True)
        refresh_state = await repository.get_state("docs")
        assert (refresh_state.passages, refresh_state.documents, refresh_state.counts, refresh_state.failures) == (
            5,
            2,
            {"added": 2},
            0,
        )
        assert refresh_state.changed_at == refresh_state.last_success == refresh_state.ended_at
        assert not refresh_state.is_pending
        assert refresh_state.ended_at is not None
        assert refresh_state.ended_at.tzinfo is UTC

    async def test_failures_pauses_and_ends(self, database: Database) -> None:
        repository = RefreshStateRepository(database)
        for _ in range(2):
            await repository.mark_started("docs", "abc")
            await repository.mark_failed("docs", "no network", passages=0, documents=0, changed=False)
        await repository.mark_started("docs", "abc")
        await repository.mark_aborted("docs")
        await repository.set_paused("notes", True)
        await repository.mark_invalidated(["docs"])
        states = await repository.get_states()
        assert (states["docs"].failures, states["docs"].error, states["docs"].fingerprint) == (2, "no network", "")
        assert states["notes"] == RefreshState(paused=True)
        await repository.delete_state("docs")
        assert set(await repository.get_states()) == {"notes"}

    async def test_what_was_public_once_is_known_for_good(self, database: Database) -> None:
        repository = RefreshStateRepository(database)
        assert await repository.list_public_marks() == frozenset()
        for marks in (["a1"], ["a1", "b2"]):
            await asyncio.gather(*(repository.add_public_marks(marks) for _ in range(2)))
        await repository.delete_state("docs")
        assert await repository.list_public_marks() == {"a1", "b2"}


class TestClosedThreads:
    async def test_a_thread_is_closed_with_those_within_it(self, journal: Journal) -> None:
        for number, thread in enumerate(("issues/1", "issues/1/n", "issues/11")):
            await journal.record_message(replace(MESSAGE, id=str(number), key=replace(MESSAGE.key, thread=thread)))
        place = (MESSAGE.key.platform, MESSAGE.key.chat, "issues/1")
        assert await close_thread(journal.database, *place) == 2
        assert await close_thread(journal.database, *place) == 0


class TestReports:
    async def ask(self, journal: Journal, number: int, text: str, **changes: Any) -> Message:
        message = replace(MESSAGE, id=str(number), text=text, **changes)
        await journal.record_message(message)
        return message

    async def fill(self, journal: Journal) -> None:
        empty_reply = Reply("I found nothing.", trace=replace(REPLY.trace, query="redis"))
        await journal.mark_answered(await self.ask(journal, 1, "How is it installed?"), REPLY)
        await journal.mark_answered(await self.ask(journal, 2, "Does it use Redis?"), empty_reply)
        unsure = skip(SkipReason.UNSURE, probability=0.2, threshold=0.5, explanation="-")
        await journal.mark_skipped(await self.ask(journal, 3, "Redis or not, 100%?"), unsure)
        await journal.mark_skipped(await self.ask(journal, 4, "I like it"), skip(SkipReason.NOT_ADDRESSED))
        await journal.mark_failed(await self.ask(journal, 5, "Why?", key=replace(CHAT, chat="-7")), "the model is down")
        await self.ask(journal, 6, "And then?")
        await journal.mark_answered(await self.ask(journal, 7, "", command="status"), REPLY)
        await self.ask(journal, 8, "Does it use Redis?", origin=Origin(root_id="2", purpose="retry"))

    async def test_questions_by_outcome(self, journal: Journal, database: Database) -> None:
        await self.fill(journal)
        reports = ReportRepository(database)
        rows_by_id = {
            outcome: [row.number for row in await reports.list_questions(QuestionFilter(later(-1), None, outcome), 9)]
            for outcome in OUTCOMES
        }
        assert rows_by_id == {
            "questions": [6, 5, 3, 2, 1],
            "answered": [2, 1],
            "unanswered": [5, 3, 2],
            "failed": [5],
            "waiting": [6],
            "silent": [4, 3],
            "all": [7, 6, 5, 4, 3, 2, 1],
        }
        newest = await reports.list_questions(QuestionFilter(later(-1), None, "unanswered"), 2)
        assert [row.number for row in newest] == [5, 3]
        assert await reports.list_questions(QuestionFilter(later(1), None), 9) == []
        counts = await reports.count_states(later(-1))
        assert counts == {"answered": 2, "weak": 1, "silent": 2, "failed": 1, "received": 1}

    async def test_a_disliked_answer_is_unanswered(self, journal: Journal, database: Database) -> None:
        await self.fill(journal)
        feedback = FeedbackRepository(database)
        await feedback.rate(replace(MESSAGE, id="p1", author_id="43"), "1", DOWN, "wrong")
        unanswered = QuestionFilter(later(-1), None, "unanswered")
        assert [row.number for row in await ReportRepository(database).list_questions(unanswered, 9)] == [5, 3, 2, 1]
        await feedback.rate(replace(MESSAGE, id="p2", author_id="43"), "1", UP, "")
        assert [row.number for row in await ReportRepository(database).list_questions(unanswered, 9)] == [5, 3, 2]

    async def test_questions_by_chat_and_text_in_pages(self, journal: Journal, database: Database) -> None:
        await self.fill(journal)
        reports = ReportRepository(database)
        since = later(-1)
        numbers = [
            [row.number for row in await reports.list_questions(QuestionFilter(since, None, **expected), 9)]
            for expected in (
                {"text": "redis"},
                {"text": "0%"},
                {"text": "%"},
                {"chats": ["-7"]},
                {"platform": "slack"},
                {"platform": "telegram", "chats": ["-7", CHAT.chat], "outcome": "failed"},
            )
        ]
        assert numbers == [[3, 2], [3], [3], [5], [], [5]]
        first = await reports.list_questions(QuestionFilter(since, None), 2)
        assert [row.number for row in first] == [6, 5]
        assert [row.number for row in await reports.list_questions(QuestionFilter(since, None), 2, before=5)] == [3, 2]
        (row,) = await reports.list_questions(QuestionFilter(since, None), 1, before=2)
        assert (row.author, row.text, row.state, row.detail) == ("Ann", "How is it installed?", "answered", "")

    async def test_one_question_with_all_that_is_known(self, journal: Journal, database: Database) -> None:
        await self.fill(journal)
        reports = ReportRepository(database)
        feedback = FeedbackRepository(database)
        await feedback.rate(replace(MESSAGE, id="p1", author_id="43"), "2", DOWN, "wrong")
        report = await reports.get_question(2)
        assert report is not None
        assert (report.message.text, report.state, report.detail) == ("Does it use Redis?", "answered", "nothing_found")
        assert (report.reply, report.trace["query"], report.attempts) == ("I found nothing.", "redis", [8])
        assert (report.verdicts, report.reasons) == ({DOWN: 1}, {"wrong": 1})
        retried = await reports.get_question(8)
        assert retried is not None
        assert retried.verdicts == {DOWN: 1}, "the ratings are those of the question that it belongs to"
        assert await reports.get_question(99) is None

    async def test_ratings_with_their_questions(self, journal: Journal, database: Database) -> None:
        await self.fill(journal)
        reports = ReportRepository(database)
        feedback = FeedbackRepository(database)
        await feedback.rate(replace(MESSAGE, id="p1", author_id="43"), "1", UP)
        await feedback.rate(replace(MESSAGE, id="p2", author_id="44"), "2", DOWN, "wrong")
        await feedback.rate(replace(MESSAGE, id="p3", author_id="45"), "gone", DOWN)
        ratings = await reports.list_ratings(later(-1), 9)
        assert [(rating.verdict, rating.question, rating.text) for rating in ratings] == [
            (DOWN, None, ""),
            (DOWN, 2, "Does it use Redis?"),
            (UP, 1, "How is it installed?"),
        ]
        assert [rating.verdict for rating in await reports.list_ratings(later(-1), 9, "up")] == [UP]
        assert await reports.list_ratings(later(), 9) == []
        assert await reports.count_ratings(later(-1)) == {(UP, ""): 1, (DOWN, "wrong"): 1, (DOWN, ""): 1}

    async def test_usage_by_chat_and_model(self, database: Database) -> None:
        usage = UsageRepository(database)
        shares = {"answer": TokenUsage(90, 10, 0.5), "rewrite": TokenUsage(20, 2)}
        models = {"answer": "qwen3:32b", "rewrite": "x" * 200}
        for question_id in ("1", "2"):
            await usage.record(Question("?", id=question_id, key=CHAT), "answered", shares, today(), models=models)
        await usage.record(Question("?"), "cached", {}, today())
        by_chat = await usage.get_usage_by_chat(today())
        day = today().isoformat()
        assert [(share.values, share.answers, share.usage.total_tokens) for share in by_chat] == [
            ((day, "telegram", "-100", "answered"), 2, 244),
            ((day, "terminal", "", "cached"), 1, 0),
        ]
        by_model = await usage.get_usage_by_model(today())
        assert [(share.values, share.answers, share.usage) for share in by_model] == [
            ((day, "answer", "qwen3:32b"), 2, TokenUsage(180, 20, 1.0)),
            ((day, "rewrite", "x" * 128), 2, TokenUsage(40, 4)),
        ]
        assert await usage.get_usage_by_chat(today() + timedelta(days=1)) == []


async def test_feed_state(database: Database) -> None:
    repository = FeedStateRepository(database)
    assert await repository.load("news") is None
    for state in (FeedState(1.5), FeedState(1767340800.25, ("a", "新"), '"etag"', "Fri")):
        await repository.save("news", state)
        assert await repository.load("news") == state


async def test_comments_below_a_post(journal: Journal, database: Database) -> None:
    repository = AutoCommentRepository(database)
    post = replace(MESSAGE, id="50", addressed=False)
    competitor = replace(post, id="51", reply_to="50", is_by_bot=True)
    for message in (competitor, replace(competitor, id="52", is_by_bot=False), replace(competitor, id="53", bot="10")):
        await journal.record_message(message)
    assert await repository.count_competitor_replies(post) == 1
    assert await repository.count_recent_comments(post, []) == 0
    await record_answer(journal, post)
    await repository.set_thread(post, "60")
    assert await read_history(journal, replace(CHAT, thread="60"), 9)
    assert await repository.count_recent_comments(post, []) == 1
    assert await repository.count_recent_comments(post, ["50"]) == 0
