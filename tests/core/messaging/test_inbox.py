from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import select, text, update

from core.errors import MessageDeleted, PlatformError, QuotaExceeded, ServiceError, UsageError
from core.messaging.quotations import MAX_QUOTED_CHARS
from core.ports import AnswerFunction, Sink
from core.storage.messages import Journal
from core.storage.tables import messages
from core.types import Attachment, Message, Question, Reply, Turn
from core.types.messages import MAX_QUESTION_CHARS
from tests.support.fixtures import settings
from tests.support.journal import read_history
from tests.support.processing import (
    CHAT,
    MESSAGE,
    UNADDRESSED,
    RecordingAdapter,
    automatic,
    echo,
    get_state,
    make_unaddressed,
    wait_until_finished,
)
from tests.support.wiring import make_processor

pytestmark = pytest.mark.usefixtures("time_lapse")


async def deliver(
    journal: Journal, answer: AnswerFunction, /, *messages: Message, **changes: object
) -> RecordingAdapter:
    adapter = RecordingAdapter()
    processor = make_processor(settings(**changes), journal, answer)
    for message in messages:
        await processor.handler_for(adapter)(message)
    assert await processor.drain(60) == 0
    return adapter


async def test_a_question_is_answered_once_though_delivered_twice(journal: Journal) -> None:
    adapter = await deliver(journal, echo, MESSAGE, MESSAGE)
    assert [reply.text for reply in adapter.sinks["1"].replies] == ["0: How?"]
    assert await get_state(journal, MESSAGE) == ("answered", "")


async def test_a_question_is_taken_up_after_its_delivery_was_cut_off(journal: Journal) -> None:
    adapter = RecordingAdapter()
    processor = make_processor(settings(), journal, echo)
    async with journal.database.transaction():
        delivering = asyncio.create_task(processor.handler_for(adapter)(MESSAGE))
        # It waits for its turn to write by now.
        await asyncio.sleep(0.05)
        delivering.cancel()
    await asyncio.gather(delivering, return_exceptions=True)
    await processor.handler_for(adapter)(MESSAGE)
    assert await processor.drain(60) == 0
    assert [reply.text for reply in adapter.sinks["1"].replies] == ["0: How?"]


async def test_order_is_kept_within_a_conversation_and_history_grows(journal: Journal) -> None:
    async def slow_first(question: Question, sink: Sink) -> Reply:
        await asyncio.sleep(0.05 if question.text == "0" else 0)
        return await echo(question, sink)

    adapter = await deliver(journal, slow_first, *(replace(MESSAGE, id=str(n), text=str(n)) for n in range(3)))
    assert [adapter.sinks[str(n)].replies[0].text for n in range(3)] == ["0: 0", "2: 1", "4: 2"]


async def test_conversations_do_not_wait_for_each_other(journal: Journal) -> None:
    barrier = asyncio.Barrier(2)

    async def meet(question: Question, sink: Sink) -> Reply:
        await asyncio.wait_for(barrier.wait(), 60)
        return await echo(question, sink)

    other_thread_message = replace(MESSAGE, id="2", key=replace(CHAT, thread="side"))
    adapter = await deliver(journal, meet, MESSAGE, other_thread_message)
    assert all(sink.replies for sink in adapter.sinks.values())


@pytest.mark.parametrize(
    ("changes", "configuration", "reason"),
    [
        ({"addressed": False}, {}, "not addressed"),
        ({"private": True}, {"gate": {"private": False}}, "gate.private"),
        ({}, {"gate": {"chats": ["test:other"]}}, "not among gate.chats"),
    ],
)
async def test_silence_has_a_recorded_reason(
    journal: Journal, changes: dict[str, bool], configuration: dict[str, object], reason: str
) -> None:
    message = replace(MESSAGE, **changes)  # type: ignore[arg-type]
    adapter = await deliver(journal, echo, message, **configuration)
    assert adapter.sinks == {}
    state, reason_text = await get_state(journal, message)
    assert state == "silent"
    assert reason in reason_text


@pytest.mark.parametrize(
    ("command", "text", "expected_text"),
    [
        ("help", "", "I answer questions from these sources"),
        ("start", "", "- **docs**"),
        ("ask", "  ", "I answer questions"),
        ("ask", "How?", "0: How?"),
        ("frobnicate", "", "I do not know `/frobnicate`"),
        ("hlep", "", "Did you mean `/help`?"),
    ],
)
async def test_commands(journal: Journal, command: str, text: str, expected_text: str) -> None:
    adapter = await deliver(journal, echo, replace(MESSAGE, command=command, text=text))
    assert expected_text in adapter.sinks["1"].replies[0].text


@pytest.mark.parametrize(
    ("error", "apology"),
    [
        (UsageError("The question is empty."), "The question is empty."),
        (ServiceError("http://secret-host is down"), "ask again in a few minutes"),
        (ValueError("a bug with details"), "The people who run me can find the reason in the log"),
    ],
)
async def test_a_failure_is_told_plainly_without_internals(journal: Journal, error: Exception, apology: str) -> None:
    async def fail(question: Question, sink: Sink) -> Reply:
        raise error

    adapter = await deliver(journal, fail, MESSAGE)
    assert apology in adapter.sinks["1"].failures[0]
    assert "secret-host" not in adapter.sinks["1"].failures[0]
    assert (await get_state(journal, MESSAGE))[0] == "failed"


@pytest.mark.parametrize(
    ("is_repeated", "command", "failures"),
    [(False, "", ["Used up."]), (True, "", []), (True, "ask", ["Used up."])],
)
async def test_who_knows_of_a_limit_is_not_told_again_except_after_a_command(
    journal: Journal, is_repeated: bool, command: str, failures: list[str]
) -> None:
    async def refuse(question: Question, sink: Sink) -> Reply:
        raise QuotaExceeded("Used up.", is_repeated=is_repeated)

    adapter = await deliver(journal, refuse, replace(MESSAGE, command=command))
    assert adapter.sinks["1"].failures == failures
    assert await get_state(journal, MESSAGE) == ("failed", "Used up.")


@pytest.mark.parametrize(
    ("error", "state"), [(MessageDeleted("gone"), "silent"), (PlatformError("kicked out"), "failed")]
)
async def test_a_reply_that_cannot_be_posted_is_closed_with_its_reason(
    journal: Journal, error: Exception, state: str
) -> None:
    async def refuse(question: Question, sink: Sink) -> Reply:
        raise error

    adapter = await deliver(journal, refuse, MESSAGE)
    assert adapter.sinks["1"].failures == []
    assert (await get_state(journal, MESSAGE))[0] == state


async def test_what_shutdown_interrupts_is_answered_at_the_next_start(journal: Journal) -> None:
    async def hang(question: Question, sink: Sink) -> Reply:
        await asyncio.Event().wait()
        raise AssertionError("never reached")

    adapter = RecordingAdapter()
    processor = make_processor(settings(), journal, hang)
    await processor.handler_for(adapter)(MESSAGE)
    assert await processor.drain(0.05) == 1
    second_processor = make_processor(settings(), journal, echo)
    await second_processor.resume(adapter)
    assert await second_processor.drain(60) == 0
    assert [reply.text for reply in adapter.sinks["1"].replies] == ["0: How?"]


async def test_a_reply_begun_before_a_crash_is_continued(journal: Journal) -> None:
    start_event = asyncio.Event()

    async def begin(question: Question, sink: Sink) -> Reply:
        await adapter.deliveries["1"].mark_posting()
        await adapter.deliveries["1"].mark_posted("77")
        start_event.set()
        await asyncio.Event().wait()
        raise AssertionError("never reached")

    adapter = RecordingAdapter()
    processor = make_processor(settings(), journal, begin)
    await processor.handler_for(adapter)(MESSAGE)
    await asyncio.wait_for(start_event.wait(), 60)
    assert await processor.drain(0) == 1
    second_processor = make_processor(settings(), journal, echo)
    await second_processor.resume(adapter)
    assert await second_processor.drain(60) == 0
    assert adapter.previous["1"] == "77"


async def test_an_edit_before_the_answer_is_taken_over(journal: Journal) -> None:
    turn = asyncio.Event()

    async def wait(question: Question, sink: Sink) -> Reply:
        await asyncio.wait_for(turn.wait(), 60)
        return await echo(question, sink)

    adapter = RecordingAdapter()
    processor = make_processor(settings(), journal, wait)
    await processor.handler_for(adapter)(MESSAGE)
    second = replace(MESSAGE, id="2", text="Wat?")
    await processor.handler_for(adapter)(second)
    await processor.handler_for(adapter)(replace(second, text="What?", is_edit=True))
    turn.set()
    assert await processor.drain(60) == 0
    assert adapter.sinks["2"].replies[0].text == "2: What?"


async def test_an_edit_during_the_answer_comes_too_late_for_the_history(journal: Journal) -> None:
    edited_message = replace(MESSAGE, text="What else?", is_edit=True)

    async def meanwhile(question: Question, sink: Sink) -> Reply:
        assert not await journal.record_edit(edited_message)
        return await echo(question, sink)

    await deliver(journal, meanwhile, MESSAGE)
    assert (await read_history(journal, CHAT, 2))[0].text == "How?"


@pytest.mark.parametrize(("posted", "pending_id"), [("77", "77"), ("", "")])
async def test_a_stop_waits_for_what_is_being_posted(journal: Journal, posted: str, pending_id: str) -> None:
    posting: list[asyncio.Task[None]] = []
    start_event = asyncio.Event()

    async def post() -> None:
        delivery = adapter.deliveries["1"]
        await delivery.mark_posting()
        start_event.set()
        await asyncio.sleep(0.2)
        await (delivery.mark_posted(posted) if posted else delivery.mark_rejected())

    async def begin(question: Question, sink: Sink) -> Reply:
        posting.append(asyncio.create_task(post()))
        await asyncio.Event().wait()
        raise AssertionError("never reached")

    adapter = RecordingAdapter()
    processor = make_processor(settings(), journal, begin)
    await processor.handler_for(adapter)(MESSAGE)
    await asyncio.wait_for(start_event.wait(), 60)
    assert await processor.drain(0) == 1
    assert await journal.fail_uncertain("test") == 0
    assert await journal.get_pending("test") == [(MESSAGE, pending_id)]
    await asyncio.gather(*posting)


async def ask_in_reply(journal: Journal, message: Message, **changes: object) -> Question:
    questions: list[Question] = []

    async def note(question: Question, sink: Sink) -> Reply:
        questions.append(question)
        return await echo(question, sink)

    await deliver(journal, note, message, **changes)
    return questions[0]


async def test_a_long_message_replied_to_is_conversation_not_question(journal: Journal) -> None:
    question = await ask_in_reply(journal, replace(MESSAGE, text="Why?", reply_to="9", quoted="x" * 4096))
    assert question.text == "Why?"
    assert question.history == (Turn("user", "x" * MAX_QUOTED_CHARS + " …"),)


@pytest.mark.parametrize("command", ["", "ask"])
async def test_a_message_replied_to_without_a_word_is_the_question(journal: Journal, command: str) -> None:
    message = replace(MESSAGE, text="", command=command, quoted="How? " + "x" * 5000)
    question = await ask_in_reply(journal, message)
    assert question.text.startswith("How? x")
    assert len(question.text) == MAX_QUESTION_CHARS


@pytest.mark.parametrize("quoted", ["So.", ""])
@pytest.mark.parametrize(
    ("author", "turns", "expected"),
    [
        ("Ann", 6, (Turn("user", "How?", "Ann", "42"), Turn("assistant", "So."))),
        ("Ann", 0, (Turn("user", "How?"), Turn("assistant", "So."))),
        ("Bob", 0, (Turn("user", "How?"), Turn("assistant", "So."))),
    ],
)
async def test_an_answer_replied_to_is_in_the_conversation_once(
    journal: Journal, author: str, turns: int, expected: tuple[Turn, ...], quoted: str
) -> None:
    """A platform may tell none of the answer's words."""
    await journal.record_message(MESSAGE)
    await journal.mark_posted(MESSAGE, "9")
    await journal.mark_answered(MESSAGE, Reply("So."))
    message = replace(MESSAGE, id="2", author=author, text="Why?", reply_to="9", quoted=quoted)
    question = await ask_in_reply(journal, message, answer={"history_turns": turns})
    assert question.history == expected


async def test_old_messages_are_no_conversation_any_more(journal: Journal) -> None:
    await journal.record_message(MESSAGE)
    await journal.mark_answered(MESSAGE, Reply("So."))
    message = replace(MESSAGE, id="2", text="Why?")
    assert len((await ask_in_reply(journal, message)).history) == 2
    async with journal.database.transaction() as connection:
        await connection.execute(update(messages).values(settled_at=datetime.now(UTC) - timedelta(hours=7)))
    assert (await ask_in_reply(journal, replace(message, id="3"))).history == ()
    older = await ask_in_reply(journal, replace(message, id="4"), answer={"history_hours": 8})
    assert [turn.text for turn in older.history][:2] == ["How?", "So."]


async def test_a_question_to_everybody_is_answered_when_nobody_else_does(journal: Journal) -> None:
    adapter, processor = automatic(journal, echo)
    message = make_unaddressed(1)
    await processor.handler_for(adapter)(message)
    assert await wait_until_finished(journal, message) == [("answered", "")]
    assert adapter.sinks["1"].replies[0].text == f"0: {message.text}"
    assert await processor.drain(60) == 0


async def test_an_answer_knows_whether_anybody_asked_the_bot(journal: Journal) -> None:
    questions: list[Question] = []

    async def note(question: Question, sink: Sink) -> Reply:
        questions.append(question)
        return await echo(question, sink)

    adapter, processor = automatic(journal, note)
    unprompted_message = make_unaddressed(1)
    addressed_message = make_unaddressed(2, "What is memory?", addressed=True, author_id="43", author="Bob")
    for message in (unprompted_message, addressed_message):
        await processor.handler_for(adapter)(message)
        await wait_until_finished(journal, message)
    assert [question.is_unprompted for question in questions] == [True, False]
    assert await processor.drain(60) == 0


async def test_while_it_leaves_a_question_to_people_others_are_answered(journal: Journal) -> None:
    waiting_message = make_unaddressed(1)
    states: list[str] = []

    async def note(question: Question, sink: Sink) -> Reply:
        # Seen here, or a machine whose disk takes seconds for the answer has done with waiting.
        states.append((await get_state(journal, waiting_message))[0])
        return await echo(question, sink)

    adapter, processor = automatic(journal, note, wait_s=20)
    addressed_message = make_unaddressed(2, "What is memory?", addressed=True, author_id="43", author="Bob")
    human = make_unaddressed(3, "Just use pip, it is on the index", author_id="44", author="Eve")
    for message in (waiting_message, addressed_message, human):
        await processor.handler_for(adapter)(message)
    assert await wait_until_finished(journal, addressed_message) == [("answered", "")]
    assert states == ["received"]
    waiting_state, human_state = await wait_until_finished(journal, waiting_message, human)
    assert waiting_state == ("silent", "a human replied")
    assert human_state[0] == "silent"
    assert human_state[1].startswith("it asks nothing")
    assert set(adapter.sinks) == {"2"}
    assert await processor.drain(60) == 0


async def test_a_stop_leaves_waiting_questions_to_the_next_start(journal: Journal) -> None:
    adapter, processor = automatic(journal, echo, wait_s=60)
    message = make_unaddressed(1)
    await processor.handler_for(adapter)(message)
    await asyncio.sleep(0.2)
    async with asyncio.timeout(30):
        assert await processor.drain(60) == 0
    assert (await get_state(journal, message))[0] == "received"
    _, next_processor = automatic(journal, echo, wait_s=0)
    await next_processor.resume(adapter)
    assert await wait_until_finished(journal, message) == [("answered", "")]
    assert await next_processor.drain(60) == 0


@pytest.mark.parametrize("is_addressed", [True, False])
@pytest.mark.parametrize("is_begun", [True, False])
async def test_who_did_not_ask_is_not_told_of_a_failure(journal: Journal, is_addressed: bool, is_begun: bool) -> None:
    async def fail(question: Question, sink: Sink) -> Reply:
        if is_begun:
            await adapter.deliveries["1"].mark_posting()
            await adapter.deliveries["1"].mark_posted("77")
        raise UsageError("Today's limit is used up.")

    adapter, processor = automatic(journal, fail, wait_s=0)
    message = make_unaddressed(1, addressed=is_addressed)
    await processor.handler_for(adapter)(message)
    assert await wait_until_finished(journal, message) == [("failed", "Today's limit is used up.")]
    assert adapter.sinks["1"].failures == (["Today's limit is used up."] if is_addressed or is_begun else [])
    assert await processor.drain(60) == 0


@pytest.mark.parametrize("error", [MessageDeleted("gone"), UsageError("Today's limit is used up."), None])
async def test_only_what_was_said_unasked_is_followed_by_quiet(journal: Journal, error: Exception | None) -> None:
    async def answer(question: Question, sink: Sink) -> Reply:
        if error and question.author_id == UNADDRESSED.author_id:
            raise error
        return await echo(question, sink)

    adapter, processor = automatic(journal, answer, wait_s=0, cooldown_s=600)
    first = make_unaddressed(1)
    other = make_unaddressed(2, "Does the memory module need a vector database?", author_id="43", author="Bob")
    for message in (first, other):
        await processor.handler_for(adapter)(message)
        await wait_until_finished(journal, message)
    [(state, reason)] = await wait_until_finished(journal, other)
    assert (state, "gate.cooldown_s" in reason) == (("answered", False) if error else ("silent", True))
    assert await processor.drain(60) == 0


async def test_an_offer_is_taken_up_by_replying_to_it(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.messaging.gate.gate.GREY_WIDTH", 0.5)
    questions: list[Question] = []

    async def note(question: Question, sink: Sink) -> Reply:
        questions.append(question)
        return await echo(question, sink)

    adapter, processor = automatic(journal, note, wait_s=0, threshold=0.999, grey="suggest")
    message = make_unaddressed(1)
    await processor.handler_for(adapter)(message)
    await wait_until_finished(journal, message)
    offer_text = adapter.sinks["1"].replies[0].text
    assert "Reply to this message" in offer_text
    acceptance = make_unaddressed(2, "yes please", addressed=True, reply_to="9", quoted=offer_text)
    await processor.handler_for(adapter)(acceptance)
    await wait_until_finished(journal, acceptance)
    assert questions[0].text == "yes please"
    assert message.text in [turn.text for turn in questions[0].history], "what it is about is in the conversation"
    assert await processor.drain(60) == 0


async def test_forget_empties_what_its_sender_said_here(journal: Journal) -> None:
    other_chat = replace(MESSAGE, id="5", key=replace(CHAT, chat="elsewhere"))
    in_a_thread = replace(MESSAGE, id="2", key=replace(CHAT, thread="side"), addressed=False)
    somebody_else = replace(MESSAGE, id="3", author_id="43", author="Bob", text="Why?")
    await deliver(journal, echo, MESSAGE, in_a_thread, somebody_else, other_chat)
    forget = replace(MESSAGE, id="9", text="", command="forget")
    adapter = await deliver(journal, echo, forget)
    assert "2 messages of yours" in adapter.sinks["9"].replies[0].text
    assert [turn.text for turn in await read_history(journal, CHAT, 10)] == [
        "Why?",
        "2: Why?",
    ]
    assert len(await read_history(journal, other_chat.key, 10)) == 2
    async with journal.database.connect() as connection:
        query = text("SELECT author, author_id, text FROM messages WHERE chat = 'room'")
        values = {value for row in await connection.execute(query) for value in row}
    assert values == {"", "Bob", "43", "Why?"}
    second_outcome = await deliver(journal, echo, replace(forget, id="10"))
    assert "Nothing to forget" in second_outcome.sinks["10"].replies[0].text
    assert not await journal.record_message(MESSAGE), "still known, so that it is not answered again"


@pytest.fixture
async def lockable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Journal, sqlite3.Connection]]:
    """A journal, and a foreign connection that can lock it."""
    monkeypatch.setattr("core.storage.journal_file.BUSY_TIMEOUT_MS", 20)
    journal = await Journal.open(tmp_path / "locked.db")
    with closing(sqlite3.connect(tmp_path / "locked.db", isolation_level=None)) as other:
        yield journal, other
    await journal.close()


@pytest.mark.parametrize("moment", ["before the answer", "after the answer"])
async def test_what_a_locked_journal_holds_up_is_answered_once_it_is_free(
    lockable: tuple[Journal, sqlite3.Connection], moment: str
) -> None:
    journal, other = lockable
    answered_ids = []

    async def answer(question: Question, sink: Sink) -> Reply:
        answered_ids.append(question.text)
        reply = await echo(question, sink)
        if moment == "after the answer" and len(answered_ids) == 1:
            other.execute("BEGIN IMMEDIATE")
        return reply

    processor = make_processor(settings(), journal, answer)
    adapter = RecordingAdapter()
    await processor.handler_for(adapter)(MESSAGE)
    if moment == "before the answer":
        other.execute("BEGIN IMMEDIATE")
    for _ in range(50):
        await asyncio.sleep(0.2)
    assert processor.in_flight == 1
    assert bool(answered_ids) == (moment == "after the answer")
    other.execute("ROLLBACK")
    async with asyncio.timeout(600):
        await processor.join()
    assert len(answered_ids) == 1
    assert [reply.text for reply in adapter.sinks["1"].replies] == ["0: How?"]
    assert await get_state(journal, MESSAGE) == ("answered", "")
    later_message = replace(MESSAGE, id="2")
    await processor.handler_for(adapter)(later_message)
    await processor.join()
    assert await get_state(journal, later_message) == ("answered", "")


async def test_a_stop_does_not_wait_for_a_locked_journal(lockable: tuple[Journal, sqlite3.Connection]) -> None:
    journal, other = lockable
    processor = make_processor(settings(), journal, echo)
    adapter = RecordingAdapter()
    await processor.handler_for(adapter)(MESSAGE)
    other.execute("BEGIN IMMEDIATE")
    await asyncio.sleep(1)
    assert await processor.drain(60) == 0
    other.execute("ROLLBACK")
    assert [message.id for message, _ in await journal.get_pending("test")] == ["1"]


async def test_half_a_character_blocks_no_message(journal: Journal) -> None:
    surrogate_message = replace(MESSAGE, author="A\ud83d", text="How\udc00?", quoted="\ud800", chat_title="\ud83d")
    adapter = await deliver(journal, echo, surrogate_message)
    assert [reply.text for reply in adapter.sinks["1"].replies] == ["1: How\ufffd?"]
    assert await get_state(journal, MESSAGE) == ("answered", "")


async def test_what_is_said_in_place_of_an_answer_is_in_the_chats_language(journal: Journal) -> None:
    async def fail(question: Question, sink: Sink) -> Reply:
        raise ServiceError("the endpoint is away")

    changes = {"chats": {"test:room": {"language": "Chinese"}}, "gate": {"answers_in_10_min": 1}}
    adapter = await deliver(journal, fail, MESSAGE, **changes)
    assert "抱歉" in adapter.sinks["1"].failures[0]
    sound = replace(MESSAGE, id="2", author_id="43", text="", attachments=(Attachment("voice", "a.ogg"),))
    adapter = await deliver(journal, echo, sound, replace(MESSAGE, id="3"), **changes)
    assert "语音" in adapter.sinks["2"].replies[0].text
    assert "先到这里" in adapter.sinks["3"].replies[0].text


@pytest.mark.parametrize("is_quoted", [True, False])
@pytest.mark.parametrize("is_forgotten", [True, False])
async def test_forgotten_words_are_not_in_an_answer_that_is_on_its_way(
    journal: Journal, is_forgotten: bool, is_quoted: bool
) -> None:
    begun = asyncio.Event()
    going_on = asyncio.Event()

    async def repeat(question: Question, sink: Sink) -> Reply:
        if question.history:
            begun.set()
            await going_on.wait()
        reply = Reply(" ".join([*(turn.text for turn in question.history), question.text]))
        await sink.finish(reply)
        return reply

    adapter = RecordingAdapter()
    processor = make_processor(settings(), journal, repeat)
    receive = processor.handler_for(adapter)
    now = datetime.now(UTC)
    said = "Where is the numbat?"
    # What was not answered is part of a conversation only where somebody quotes it.
    await receive(replace(MESSAGE, text=said, author_id="ann", sent_at=now, addressed=not is_quoted))
    await processor.join()
    quotation = {"reply_to": MESSAGE.id, "quoted": said} if is_quoted else {}
    await receive(replace(MESSAGE, id="2", text="And now?", author_id="bob", sent_at=now, **quotation))
    async with asyncio.timeout(20):
        await begun.wait()
    if is_forgotten:
        await journal.erase_author(replace(MESSAGE, author_id="ann"))
    going_on.set()
    await processor.join()
    sink = adapter.sinks["2"]
    [shown] = [*(reply.text for reply in sink.replies), *sink.failures]
    assert ("numbat" in shown) != is_forgotten
    rows = await journal.database.fetch_all(select(messages))
    assert any("numbat" in repr(row) for row in rows) != is_forgotten
