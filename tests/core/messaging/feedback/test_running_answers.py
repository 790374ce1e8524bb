"""Stopping an answer: who may, what stays, what it costs, and what the journal and other daemons know of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pytest
from sqlalchemy import text as sql

from core.answering.service import AnswerService
from core.catalogue import ENGLISH
from core.catalogue.zh import MESSAGES as CHINESE
from core.errors import AnswerStopped
from core.messaging.claiming import is_bound
from core.messaging.feedback.rating_buttons import get_rating_buttons, read_button
from core.messaging.feedback.running_answers import RunningAnswers
from core.messaging.inbox import Inbox
from core.ports import Adapter
from core.runtime.tasks import ends_when
from core.storage.feedback import FeedbackRepository
from core.storage.messages import Journal
from core.storage.usage import UsageRepository
from core.types import RETRY, STOP, Message, Question, Reply, SkipReason, skip
from core.types.replies import Trace
from tests.support.answering import answering
from tests.support.feedback_chat import MESSAGE, RecordingAdapter, make_press
from tests.support.fixtures import InMemoryLibrary, MemorySink, parts, settings
from tests.support.scripted import ScriptedPeer, models
from tests.support.waiting import until
from tests.support.wiring import make_processor

pytestmark = pytest.mark.usefixtures("time_lapse")
REPLY = "Use pip to install the package [p1]. " + "And then there is more to say of it. " * 20
HANDOFF = {"handoff": {"people": ["test:7"], "when": ["nothing_found", "unsupported"]}}


class Group(RecordingAdapter):
    """A group where Eve administers the chat."""

    async def is_admin(self, message: Message) -> bool:
        return message.author_id == "eve"


@dataclass
class Scene:
    """A bot whose model writes until it is stopped."""

    peer: ScriptedPeer
    journal: Journal
    adapter: Group
    processor: Inbox

    async def press(self, number: str, person: str = "42", choice: str = STOP) -> str:
        await self.processor.handler_for(self.adapter)(make_press(choice, number, person))
        await until(lambda: self.get_reply(number))
        return self.get_reply(number)

    def get_reply(self, number: str) -> str:
        """Return what the bot said in the end to a message, or nothing yet."""
        sink = self.adapter.sinks.get(number)
        return next(iter([*(reply.text for reply in sink.replies), *sink.failures]), "") if sink else ""

    async def writing(self, words: str = "more to say") -> None:
        """Wait until something of the answer is shown."""
        await until(lambda: "1" in self.adapter.sinks and words in "".join(self.adapter.sinks["1"].updates))

    async def row(self, number: str) -> Any:
        async with self.journal.database.connect() as connection:
            return (await connection.execute(sql("SELECT * FROM messages WHERE id = :id"), {"id": number})).one()


@asynccontextmanager
async def scene(journal: Journal, *, message: Message = MESSAGE, **changes: Any) -> AsyncIterator[Scene]:
    """Ask, with a model that stops in the middle of its answer and holds the line."""
    async with ScriptedPeer(write=REPLY) as peer:
        peer.stall_after = 20
        model = models(peer)
        service: AnswerService = answering(journal.database, model, budget={"deadline_s": 60}, **changes)
        adapter = Group()
        processor = make_processor(settings(**changes), journal, service.answer)
        await processor.handler_for(adapter)(message)
        yield Scene(peer, journal, adapter, processor)
        assert await processor.drain(60) == 0
        await model.close()


async def test_what_is_written_stays_and_says_that_it_was_stopped(journal: Journal) -> None:
    async with scene(journal, **HANDOFF) as bot:
        await bot.writing()
        assert bot.peer.active == 1
        assert await bot.press("2") == ENGLISH.stopping
        await until(lambda: bot.get_reply("1"))
        await until(lambda: not bot.peer.active)
        [reply] = bot.adapter.sinks["1"].replies
        assert reply.text.startswith("Use pip to install the package [1].")
        assert reply.text.endswith(f" …\n\n{ENGLISH.answer_stopped}")
        assert [citation.passage_id for citation in reply.citations] == ["install"]
        assert bot.peer.agents == ["write"], "nothing is looked up for what nobody wants to read"
        question = bot.adapter.made_for["1"]
        assert get_rating_buttons(question, reply) == ()
        assert question.reply_options.stop_button
        assert read_button(question.reply_options.stop_button.data) == (STOP, "1")
    answer_row = await bot.row("1")
    press_row = await bot.row("2")
    assert (answer_row.state, answer_row.reply) == ("answered", reply.text)
    assert '"why_cut": {"write": "stopped"}' in answer_row.trace
    assert (press_row.state, press_row.detail, press_row.reason) == ("silent", "stopped", "the answer to 1 is stopped")
    assert list(bot.adapter.sinks) == ["1", "2"], "nobody is called for help"


async def test_what_was_used_until_then_is_counted(journal: Journal) -> None:
    async with scene(journal) as bot:
        await bot.writing()
        await bot.press("2")
        await until(lambda: bot.get_reply("1"))
    usage = await UsageRepository(journal.database).get_agent_usage(datetime.now().astimezone().date())
    assert [(item.agent, item.answers) for item in usage] == [("summarizer", 1)]
    assert usage[0].usage.prompt_tokens > 100
    assert usage[0].usage.completion_tokens == 20


async def test_what_is_stopped_before_its_first_word_says_just_that(journal: Journal) -> None:
    async with scene(journal, message=replace(MESSAGE, text="怎么安装 package?")) as bot:
        bot.peer.hanging = {"write"}
        await until(lambda: bot.peer.active)
        assert await bot.press("2") == CHINESE.stopping
        await until(lambda: bot.get_reply("1"))
        [reply] = bot.adapter.sinks["1"].replies
        assert (reply.text, reply.citations, reply.is_stopped) == (CHINESE.answer_stopped, (), True)
        assert reply.shortfall is None


async def test_a_search_that_is_stopped_ends_at_once(journal: Journal) -> None:
    stop = asyncio.Event()
    sink = MemorySink()
    service = AnswerService(parts(InMemoryLibrary(delay_s={"docs": 1000})))
    answer = asyncio.create_task(service.answer(Question("How do I install it?", stop=stop), sink))
    await asyncio.sleep(0.1)
    stop.set()
    reply = await answer
    assert reply.text == ENGLISH.answer_stopped
    assert (sink.opened, sink.replies) == (1, [reply])
    assert reply.trace.timings_ms["total"] < 5000


async def test_only_who_asked_and_administrators_stop_an_answer(journal: Journal) -> None:
    async with scene(journal, administration={"platform_admins": True}) as bot:
        await bot.writing()
        assert await bot.press("2", "43") == ENGLISH.only_asker_stops
        assert await bot.press("3", "") == ENGLISH.only_asker_stops
        assert not bot.get_reply("1")
        assert bot.peer.active == 1
        assert await bot.press("4", "eve") == ENGLISH.stopping
        await until(lambda: bot.get_reply("1"))
        assert await bot.press("5") == ENGLISH.nothing_to_stop
    assert [(await bot.row(number)).detail for number in "2345"] == ["feedback", "feedback", "stopped", "feedback"]


async def test_a_stop_is_no_rating_and_needs_no_thumbs(journal: Journal) -> None:
    async with scene(journal, feedback={"thumbs": False}) as bot:
        await bot.writing()
        assert await bot.press("2") == ENGLISH.stopping
        await until(lambda: bot.get_reply("1"))
    async with journal.database.connect() as connection:
        assert (await connection.execute(sql("SELECT * FROM feedback"))).all() == []
        assert (await connection.execute(sql("SELECT * FROM replies"))).all() == [], "it is not given to others"


async def test_a_stopped_second_try_does_not_say_the_first_answer_stands(journal: Journal) -> None:
    async with scene(journal, feedback={"strategy": "single"}) as bot:
        await bot.writing()
        await bot.press("2")
        await until(lambda: bot.get_reply("1"))
        assert await bot.press("3", choice=RETRY) == ENGLISH.retrying
        await until(lambda: bot.peer.active == 1)
        await bot.processor.handler_for(bot.adapter)(make_press(STOP, "4", question_id="1~2"))
        await until(lambda: bot.get_reply("1~2"))
        assert bot.get_reply("4") == ENGLISH.stopping
        assert bot.get_reply("1~2").endswith(ENGLISH.answer_stopped)


async def test_a_stop_at_another_daemon_is_found_in_the_journal(journal: Journal) -> None:
    repository = FeedbackRepository(journal.database)
    running_answers = RunningAnswers(repository)
    assert not running_answers.stop(MESSAGE), "alone, what is not made here is not made anywhere"
    journal.database.owner = "a"
    await journal.record_message(MESSAGE, is_bound=True)
    async with running_answers.track(MESSAGE) as stop:
        press = replace(make_press(STOP, "2"), author_id="7")
        await journal.record_message(press, is_bound=True)
        await asyncio.sleep(1)
        assert not stop.is_set()
        assert RunningAnswers(repository).stop(MESSAGE)
        await journal.mark_skipped(press, skip(SkipReason.NOT_STOPPED, question="1"))
        await asyncio.sleep(1)
        assert not stop.is_set()
        await journal.mark_skipped(press, skip(SkipReason.STOPPED, question="1"))
        async with asyncio.timeout(60):
            await stop.wait()
    async with running_answers.track(replace(MESSAGE, id="3")) as stop:
        assert not stop.is_set()


async def test_after_a_restart_what_was_stopped_is_not_begun_again(journal: Journal) -> None:
    press = make_press(STOP, "2")
    await journal.record_message(press)
    await journal.mark_skipped(press, skip(SkipReason.STOPPED, question="1"))
    running_answers = RunningAnswers(FeedbackRepository(journal.database))
    async with running_answers.track(MESSAGE, is_resumed=True) as stop:
        assert stop.is_set()


def test_a_stop_never_waits_for_a_free_worker() -> None:
    adapter: Adapter = RecordingAdapter()
    assert is_bound(adapter, make_press(STOP, "2"))
    assert not is_bound(adapter, make_press("up", "2"))


async def test_a_block_ends_when_its_event_is_set_and_other_errors_pass() -> None:
    event = asyncio.Event()
    async with ends_when(None), ends_when(event):
        pass
    with pytest.raises(TimeoutError):
        async with ends_when(event), asyncio.timeout(0.01):
            await asyncio.Event().wait()
    asyncio.get_running_loop().call_later(0.1, event.set)
    with pytest.raises(AnswerStopped):
        async with ends_when(event), asyncio.timeout(1000), asyncio.TaskGroup() as tasks:
            tasks.create_task(asyncio.sleep(1000))
    with pytest.raises(AnswerStopped):
        async with ends_when(event):
            pytest.fail("what is stopped already does not begin")
    await asyncio.sleep(0)


def test_a_stopped_answer_lacks_nothing() -> None:
    trace = Trace("How?", "single", ("docs",), {}, degraded=("write",), degrade_reasons={"write": "stopped"})
    assert Reply("Half an", trace=trace).shortfall is None
    assert Reply("Half an", trace=replace(trace, degrade_reasons={"write": "late"})).shortfall == "nothing_found"
