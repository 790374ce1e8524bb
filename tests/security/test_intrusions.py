"""Who tries to read, to change or to call more than they may: by commands, by what was taught, and by races."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from sqlalchemy import Connection, text as sql

from core.catalogue import ENGLISH
from core.llm.images import MAX_BYTES, detect_format
from core.messaging.feedback.handoff import format_name, make_handoff
from core.ports import Sink
from core.storage.chat_history import ChatHistory
from core.storage.engine import Database, Result
from core.storage.lessons import TaughtAnswerRepository
from core.storage.message_lookup import MessageLookup
from core.storage.messages import Journal
from core.storage.overrides import Audit, RuntimeOverrides
from core.types import HANDOFF_COMMAND, ConversationKey, Message, Origin, Question, Reply, SkipReason, ThreadState, skip
from core.types.replies import Trace
from tests.support import command_bot
from tests.support.command_bot import ADMIN, ANN, BOSS, Bot, says
from tests.support.feedback_chat import HELPER, MESSAGE, TRUSTED, RecordingAdapter, deliver, make_escalate_command
from tests.support.fixtures import settings
from tests.support.waiting import until
from tests.support.wiring import make_processor

HALL = ConversationKey("test", "hall")


# --- what was taught ------------------------------------------------------------------------------------------------


async def test_an_owner_in_a_group_is_not_read_what_was_taught_elsewhere(journal: Journal) -> None:
    bot = Bot.of(journal)
    taught_answers = TaughtAnswerRepository(journal.database)
    own_message = says("learn", person=ANN)
    hall_message = replace(says("learn", person=ANN), key=HALL)
    await taught_answers.submit(own_message, "", "What is said here?", "This.", (), words_of=())
    await taught_answers.submit(hall_message, "", "What is said in the hall?", "A secret.", (), words_of=())
    output = await bot.deliver(says("faq"))
    assert "said here" in output
    assert "secret" not in output
    assert "hall" not in output
    private_reply = await bot.deliver(says("faq", private=True))
    assert "said here" in private_reply
    assert "secret" in private_reply


async def test_lessons_of_a_closed_thread_are_reviewed_there_or_by_an_owner(journal: Journal) -> None:
    bot = Bot.of(journal)
    thread = replace(command_bot.GROUP, thread="t")
    message = replace(says("", person=ANN), key=thread, text="A secret.", thread_state=ThreadState(is_restricted=True))
    await journal.record_message(message)
    number = await TaughtAnswerRepository(journal.database).submit(
        message, "", "Whom do we lay off?", message.text, (), words_of=()
    )
    inside = replace(
        says("faq", f"list {number}", person=ADMIN), key=thread, thread_state=ThreadState(is_restricted=True)
    )
    await bot.deliver(says("admins", f"add {ADMIN}"))
    for outside in (says("faq", person=ADMIN), says("faq"), says("faq", f"list {number}", person=ADMIN)):
        assert re.findall("secret|lay off", await bot.deliver(outside)) == []
    assert "There is no answer" in await bot.deliver(says("faq", f"approve {number}", person=ADMIN))
    assert "A secret." in await bot.deliver(inside)
    assert "lay off" in await bot.deliver(says("faq", private=True))


async def test_lessons_from_a_lost_message_of_a_closed_thread_are_listed_there(
    journal: Journal,
) -> None:
    bot = Bot.of(journal)
    thread = replace(command_bot.GROUP, thread="t")
    inside = replace(says("faq", person=ADMIN), key=thread, thread_state=ThreadState(is_restricted=True))
    learn = replace(inside, id="learn", command="learn", text="Whom do we lay off?", reply_to="777", quoted="A secret.")
    await bot.deliver(says("admins", f"add {ADMIN}"))
    await bot.deliver(learn)
    [taught_answer] = await TaughtAnswerRepository(journal.database).list_answers(reader=None)
    for outside in (says("faq", person=ADMIN), says("faq"), says("faq", f"list {taught_answer.number}", person=ADMIN)):
        assert re.findall("secret|lay off", await bot.deliver(outside)) == []
    assert "A secret." in await bot.deliver(inside)
    assert "lay off" in await bot.deliver(says("faq", private=True))


async def test_a_question_typed_in_a_closed_thread_stays_there(
    journal: Journal,
) -> None:
    bot = Bot.of(journal)
    thread = replace(command_bot.GROUP, thread="t")
    answer = replace(says("", person=ANN), id="open", text="The whole hall.")
    await journal.record_message(answer)
    await bot.deliver(says("admins", f"add {ADMIN}"))
    learn = replace(
        says("learn", "Whom do we lay off?", person=ADMIN),
        key=thread,
        thread_state=ThreadState(is_restricted=True),
        reply_to="open",
    )
    await bot.deliver(learn)
    assert "lay off" not in await bot.deliver(says("faq", person=ADMIN))
    assert "lay off" in await bot.deliver(replace(learn, id="list", command="faq", text="", reply_to=""))


async def test_the_audit_shows_a_chat_nothing_from_its_closed_threads(journal: Journal) -> None:
    bot = Bot.of(journal)
    thread = replace(command_bot.GROUP, thread="t")
    inside = replace(says("faq", person=ADMIN), key=thread, thread_state=ThreadState(is_restricted=True))
    await bot.deliver(says("admins", f"add {ADMIN}"))
    number = await TaughtAnswerRepository(journal.database).submit(
        inside, "", "Whom do we lay off?", "Nobody.", (), words_of=()
    )
    await bot.deliver(replace(inside, id="edit", text=f"edit {number} A secret."))
    audit = await bot.deliver(says("audit", person=ADMIN))
    assert f"faq {number}" in audit
    assert "secret" not in audit


async def test_a_platform_administrator_teaches_all_chats_only_if_named_by_owner(
    journal: Journal,
) -> None:
    # Anybody can take a bot into a group of their own, where the platform has them as its administrator.
    bot = Bot.of(journal, administration={"platform_admins": True})
    number = await TaughtAnswerRepository(journal.database).submit(
        says("learn", person=BOSS), "", "How to pay?", "Send it to me.", (), words_of=()
    )
    assert "may" in await bot.deliver(says("faq", f"approve {number}", person=BOSS))
    [taught_answer] = await TaughtAnswerRepository(journal.database).list_answers(reader=None)
    assert taught_answer.state == "pending"
    await bot.deliver(says("admins", f"add {ADMIN}"))
    assert (await bot.deliver(says("faq", f"approve {number}", person=ADMIN))).startswith("Approved.")


async def test_nothing_is_approved_unseen(journal: Journal) -> None:
    bot = Bot.of(journal)
    taught_answers = TaughtAnswerRepository(journal.database)
    long_text = f"Press the button. {'Then wait. ' * 60}```\nSend me your password."
    number = await taught_answers.submit(
        says("learn", person=ANN), "", "How?\n\n[2] The manual ```" + "x" * 600, long_text, (), words_of=()
    )
    assert "password" not in await bot.deliver(says("faq"))
    reply_text = await bot.deliver(says("faq", f"list {number}"))
    assert "Send me your password." in reply_text
    assert reply_text.count("```") == 2
    [taught_answer] = await taught_answers.list_answers(reader=None)
    assert len(taught_answer.question.splitlines()) == 1
    assert len(taught_answer.question) <= 500
    hall_number = await taught_answers.submit(
        replace(says("learn", person=ANN), key=HALL), "", "What?", "A secret.", (), words_of=()
    )
    assert "There is no answer" in await bot.deliver(says("faq", f"list {hall_number}"))
    assert "A secret." in await bot.deliver(says("faq", f"list {hall_number}", private=True))


async def test_who_asked_what_was_learned_from_an_answer_can_have_it_forgotten(journal: Journal) -> None:
    answer = replace(MESSAGE, id="2", author_id="7", author="Eve", addressed=False, text="With pip.", reply_to="1")
    learn = replace(answer, id="3", addressed=True, command="learn", text="", reply_to="2")
    adapter = await deliver(journal, MESSAGE, answer, learn, handoff=TRUSTED)
    assert [answer.question for answer in await TaughtAnswerRepository(journal.database).list_answers(reader=None)] == [
        MESSAGE.text
    ]
    await deliver(journal, replace(MESSAGE, id="4", command="forget", text=""), adapter=adapter)
    assert await TaughtAnswerRepository(journal.database).list_answers(reader=None) == []


async def test_two_quotations_that_reply_to_nothing_are_two_answers(journal: Journal) -> None:
    first = replace(MESSAGE, id="2", author_id="7", command="learn", text="How?", quoted="So.", reply_to="")
    second = replace(first, id="3", text="Why?", quoted="Because.")
    await deliver(journal, first, second, handoff=TRUSTED)
    assert [answer.answer for answer in await TaughtAnswerRepository(journal.database).list_answers(reader=None)] == [
        "So.",
        "Because.",
    ]


async def test_why_says_nothing_more_of_what_was_forgotten(journal: Journal) -> None:
    bot = Bot.of(journal)
    message = replace(says("", "I am ill, may I go home?", person=ANN), addressed=False)
    await journal.record_message(message)
    values = {"probability": 0.4, "threshold": 0.5, "opinion": "she is ill"}
    await journal.mark_skipped(message, skip(SkipReason.MODEL_DECLINED, **values), frozenset())
    assert "she is ill" in await bot.deliver(says("why", message.id))
    await bot.deliver(says("forget", person=ANN))
    assert "ill" not in (await bot.deliver(says("why", message.id))).split()
    assert "ill" not in (await bot.state(message))[1].split()


async def test_who_has_all_forgotten_is_not_named_by_that_very_message(journal: Journal) -> None:
    command = replace(MESSAGE, id="2", command="forget", text="all of Ann Smith", quoted="Ann Smith asked")
    adapter = await deliver(journal, MESSAGE, replace(command, reference={"username": "ann_smith"}))
    assert adapter.get_reply("2").startswith("Forgotten: 1 message")
    async with journal.database.connect() as connection:
        rows = (await connection.execute(sql("SELECT * FROM messages"))).all()
    assert len(rows) == 2
    assert "ann" not in str(rows).lower()
    assert "42" not in [row.author_id for row in rows]


# --- calls ----------------------------------------------------------------------------------------------------------


async def test_two_handoffs_at_once_in_two_threads_call_people_once(journal: Journal) -> None:
    processor = make_processor(settings(handoff={**HELPER, "cooldown_minutes": 10}), journal, answered)
    adapter = RecordingAdapter()
    threads = [replace(MESSAGE.key, thread=name) for name in "abcdef"]
    commands = [make_escalate_command(str(n), "Help?", "", key=key) for n, key in enumerate(threads)]
    await asyncio.gather(*(processor.handler_for(adapter)(command) for command in commands))
    while processor._tasks:
        await asyncio.gather(*processor._tasks)
    assert len([number for number in adapter.sinks if number.endswith("~h")]) == 1


async def test_nobody_can_write_a_call_of_their_own_to_keep_others_from_calling(journal: Journal) -> None:
    # Telegram hands over whatever begins with a slash.
    typed_message = replace(MESSAGE, id="2", author_id="66", command=HANDOFF_COMMAND, text="")
    adapter = await deliver(
        journal, MESSAGE, typed_message, make_escalate_command("3"), handoff={**HELPER, "cooldown_minutes": 10}
    )
    assert adapter.get_reply("2").startswith(f"I do not know `/{HANDOFF_COMMAND}`")
    assert adapter.get_reply("3") == ENGLISH.calling_people
    assert "1~h" in adapter.sinks


async def test_what_an_answer_begins_while_the_daemon_stops_ends_with_it(journal: Journal) -> None:
    async def nothing_found(question: Question, sink: Sink) -> Reply:
        reply = Reply("I found nothing.", trace=Trace("install", "single", ("docs",), {}))
        await asyncio.sleep(0.1)
        await sink.finish(reply)
        return reply

    adapter = RecordingAdapter()
    processor = make_processor(settings(handoff={**HELPER, "when": ["nothing_found"]}), journal, nothing_found)
    await processor.handler_for(adapter)(MESSAGE)
    assert await processor.drain(60) == 0
    assert processor.in_flight == 0
    assert adapter.get_reply("1~h") == ENGLISH.handoff.format(author="Ann")


async def test_a_name_in_a_call_is_no_markup(journal: Journal) -> None:
    author = "[win a prize](https://evil.example) **now**\n# @everyone"
    message = replace(MESSAGE, author=author)
    adapter = await deliver(journal, message, make_escalate_command("2", author=author), handoff=HELPER)
    text = adapter.get_reply("1~h")
    assert text.startswith("`[win a prize](https://evil.example) **now** # @everyone` ")
    assert "\n" not in text
    for name in ("Ann", "Ann O'Neil", "Jean-Luc Müller", "李小龙"):
        assert format_name(name) == name
    for name in ("evil.example", "a_b_", "@ann", "<b>", "# Ann", "", "x `y` z"):
        assert format_name(name).count("`") in (0, 2)
        assert format_name(name) != name


def test_a_call_for_a_question_is_named_after_all_of_its_id() -> None:
    # Networks over HTTP name their messages as they like.
    first, second = (make_handoff(replace(MESSAGE, id=number), ("helper",)).id for number in ("a~1", "a~3"))
    assert first != second
    assert (
        make_handoff(
            replace(
                MESSAGE,
                id="a~2",
                origin=Origin(root_id="a", purpose="retry"),
            ),
            (),
        ).id
        == make_handoff(replace(MESSAGE, id="a"), ()).id
    )


# --- commands -------------------------------------------------------------------------------------------------------


@dataclass
class SlowAdapter(command_bot.RecordingAdapter):
    """An adapter whose platform takes its time for the first question who administers a chat."""

    has_asked: bool = False

    async def is_admin(self, message: Message) -> bool:
        first = not self.has_asked
        self.has_asked = True
        await asyncio.sleep(0.2 if first else 0)
        return await super().is_admin(message)


async def test_commands_of_a_chat_count_in_the_order_they_were_given(journal: Journal) -> None:
    bot = Bot.of(journal, SlowAdapter(), administration={"platform_admins": True})
    for message in (says("mode", "auto", person=BOSS), says("mode", "off", person=BOSS)):
        await bot.processor.handler_for(bot.adapter)(message)
    await until(lambda: not bot.processor._tasks)
    assert bot.dispatcher.context.overrides.mode("test:room") == "off"


async def test_a_command_waits_for_no_answer(journal: Journal) -> None:
    hold = asyncio.Event()

    async def wait_and_answer(question: Question, sink: object) -> Reply:
        await hold.wait()
        return Reply("late")

    bot = Bot.of(journal)
    processor = make_processor(command_bot.configured(), journal, wait_and_answer, dispatcher=bot.dispatcher)
    question = replace(says(""), text="How?")
    await processor.handler_for(bot.adapter)(question)
    pause = says("pause")
    await processor.handler_for(bot.adapter)(pause)
    sinks = bot.adapter.sinks
    await until(lambda: pause.id in sinks and sinks[pause.id].replies)
    assert "until resumed" in sinks[pause.id].replies[0].text
    assert bot.dispatcher.context.overrides.paused_until("test:room")
    assert not sinks[question.id].replies
    hold.set()
    assert await processor.drain(60) == 0
    assert bot.dispatcher.context.overrides.paused_until("test:room")
    assert (await bot.state(question))[0] == "answered"


class LateDatabase(Database):
    """A database whose first answer arrives late, as from a busy disk."""

    late = asyncio.Event()
    waiting = 0

    async def read(self, read: Callable[[Connection], Result]) -> Result:
        result = await super().read(read)
        LateDatabase.waiting += 1
        if LateDatabase.waiting == 1:
            await LateDatabase.late.wait()
        return result


async def test_what_a_command_sets_is_not_undone_by_an_older_reading(tmp_path: Path) -> None:
    LateDatabase.late = asyncio.Event()
    LateDatabase.waiting = -1_000
    database = await LateDatabase.open(tmp_path / "journal.db")
    try:
        overrides = RuntimeOverrides(database)
        LateDatabase.waiting = 0
        older = asyncio.create_task(overrides.load())
        await until(lambda: LateDatabase.waiting >= 1)
        change = asyncio.create_task(overrides.change(says("pause"), "test:room", "pause", "until /resume"))
        await asyncio.sleep(0.2)
        LateDatabase.late.set()
        await asyncio.gather(older, change)
        assert overrides.paused_until("test:room")
    finally:
        await database.close()


async def test_the_audit_tells_every_change_from_the_one_before(journal: Journal) -> None:
    overrides = RuntimeOverrides(journal.database)
    command = says("threshold")
    values = [str(number) for number in range(12)]
    await asyncio.gather(
        *(overrides.change(command, "test:room", "threshold", value, before="start") for value in values)
    )
    entries = list(await Audit(journal.database).get_newest(100, chat=None))[::-1]
    assert [entry.before for entry in entries] == ["start", *(entry.after for entry in entries[:-1])]


# --- explanations ---------------------------------------------------------------------------------------------------


async def test_the_question_of_a_closed_thread_is_not_explained_outside_of_it(journal: Journal) -> None:
    bot = Bot.of(journal)
    thread = replace(command_bot.GROUP, thread="t")
    message = replace(
        says("", person=BOSS), key=thread, text="Whom do we lay off?", thread_state=ThreadState(is_restricted=True)
    )
    assert "Answer to" in await bot.deliver(message)
    outside = await bot.deliver(says("why", person=ANN))
    assert "install package" not in outside
    assert "install package" not in await bot.deliver(says("why", message.id, person=ANN))
    assert "install package" in await bot.deliver(replace(says("why", person=BOSS), key=thread))
    open_one = replace(says("", person=BOSS), key=replace(thread, thread="open"), text="How?")
    await bot.deliver(open_one)
    assert "install package" in await bot.deliver(says("why", person=ANN))


async def test_the_digest_tells_a_chat_nothing_of_its_closed_threads(journal: Journal) -> None:
    bot = Bot.of(journal)
    thread = replace(command_bot.GROUP, thread="t")
    message = replace(
        says("", person=BOSS), key=thread, text="Whom do we lay off?", thread_state=ThreadState(is_restricted=True)
    )
    await journal.record_message(message)
    await journal.mark_failed(message, "the model failed")
    assert "lay off" not in await bot.deliver(says("digest"))
    assert "lay off" in await bot.deliver(
        replace(says("digest"), key=thread, thread_state=ThreadState(is_restricted=True))
    )
    assert "lay off" in await bot.deliver(replace(says("digest"), key=HALL, private=True)), "an owner sees all chats"


async def test_an_answer_in_a_closed_thread_is_quoted_to_nobody_outside(journal: Journal) -> None:
    bot = Bot.of(journal)
    history = ChatHistory(journal.database)
    thread = replace(command_bot.GROUP, thread="t")
    await bot.deliver(
        replace(says("", person=BOSS), key=thread, text="How?", thread_state=ThreadState(is_restricted=True))
    )
    assert list(await history.get_earlier_answers(says("", person=ANN), 3600, None)) == []
    inside = replace(says("", person=ANN), key=thread, thread_state=ThreadState(is_restricted=True))
    assert len(await history.get_earlier_answers(inside, 3600, None)) == 1
    before_others = replace(inside, thread_state=ThreadState())
    assert list(await history.get_earlier_answers(before_others, 3600, None)) == [], "others read the place by now"


@pytest.mark.parametrize("was_private", [False, True])
async def test_who_replies_to_an_answer_from_elsewhere_has_it_taken_up_by_nobody(
    journal: Journal, *, was_private: bool
) -> None:
    """A network, or a server of another one, names as what it replies to whatever id it likes."""
    state = ThreadState(is_restricted=not was_private)
    asked = replace(says("", person=BOSS), text="Whom do we lay off?", thread_state=state, private=was_private)
    asked = replace(asked, key=replace(asked.key, thread="" if was_private else "t"))
    await journal.record_message(asked)
    await journal.mark_posted(asked, "77")
    await journal.mark_answered(asked, Reply("Dan."))
    inside = replace(asked, id="inside", reply_to="77")
    answer = await journal.get_answer_by_reply(inside, None)
    assert answer is not None
    assert [turn.text for turn in answer.turns] == ["Whom do we lay off?", "Dan."]
    outside = replace(says("", person=ANN), id="outside", reply_to="77")
    hidden = await journal.get_answer_by_reply(outside, None)
    assert hidden is not None
    assert not hidden.turns


async def test_no_command_takes_up_a_question_of_a_closed_thread_elsewhere(journal: Journal) -> None:
    """People would be called to it, or somebody's reply taught as its answer, in the open."""
    state = ThreadState(is_restricted=True)
    asked = replace(says("", person=ANN), text="Whom do we lay off?", thread_state=state)
    asked = replace(asked, key=replace(asked.key, thread="t"))
    await journal.record_message(asked)
    lookup = MessageLookup(journal.database)
    outside = says("escalate", person=ANN)
    inside = replace(outside, key=asked.key)
    for reply_to in ("", asked.id):
        found = await lookup.find_question(replace(inside, reply_to=reply_to))
        assert found is not None
        assert found.id == asked.id
        assert await lookup.find_question(replace(outside, reply_to=reply_to)) is None
    assert len(await lookup.find_replied_to(replace(inside, reply_to=asked.id))) == 1
    assert not await lookup.find_replied_to(replace(outside, reply_to=asked.id))


async def test_refusals_come_to_an_end_as_answers_do(journal: Journal) -> None:
    bot = Bot.of(journal, gate={"answers_in_10_min": 3})
    messages = [await bot.deliver(says("status", person=ANN)) for _ in range(6)]
    assert [bool(message) for message in messages] == [True, True, True, True, False, False]
    assert len(await bot.entries()) == 3


# --- pictures -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("filling", [b"\xff", b"\xff\x01", b"\xff\xe0\x00\x02"])
def test_a_picture_made_of_filling_is_given_up_at_once(filling: bytes) -> None:
    data = b"\xff\xd8\xff" + filling * ((MAX_BYTES - 3) // len(filling))
    started_at = time.thread_time()
    assert detect_format(data) is None
    assert time.thread_time() - started_at < 0.5


async def answered(question: Question, sink: object) -> Reply:
    return Reply("Answer")
