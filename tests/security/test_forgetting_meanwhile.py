"""Nothing is kept or told of a person who is forgotten while it is being made.

Ann forgets what she said while a model, a platform or an embedding endpoint takes its time: after her words were read,
and before what has them is written into the journal.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from bots.daemon.bootstrap import make_inbox
from bots.daemon.posting import start_post
from core.llm import failover
from core.messaging.feedback import rating_buttons
from core.messaging.gate.second_opinion import Opinion
from core.messaging.journaling import RecordedSink
from core.messaging.policy.permissions import Permissions
from core.ports import Adapter
from core.runtime.leaving import require_leave
from core.settings.messaging import JournalSettings
from core.storage import statements
from core.storage.chat_history import HistoryMessage
from core.storage.tables import messages, replies
from core.types import DOWN, RATING_COMMAND, RETRY, ConversationKey, Message, Passage, Reply
from knowledge.retrieval.library import KnowledgeLibrary
from tests.support.fixtures import MemorySink
from tests.support.forgetting import (
    ANN,
    ANN_ID,
    BOB,
    KEPT_IN_CHAT,
    OWNER_ALONE,
    SAID,
    WORD,
    find_columns,
    forget_ann,
    forget_before_showing,
    opened,
    shows,
    tell,
)
from tests.support.journal import read_history
from tests.support.recording_bot import Bot, RecordingAdapter, Sender

pytestmark = pytest.mark.usefixtures("time_lapse")

QUESTION = f"How does the launcher start with {WORD}?"


@pytest.fixture(params=["sqlite", "postgresql"])
def journal_settings(request: pytest.FixtureRequest) -> Any:
    return JournalSettings() if request.param == "sqlite" else request.getfixturevalue("postgres_journal")


@dataclass
class LateSink(MemorySink):
    """Ann forgets while the platform takes an answer."""

    bot: Any = None

    async def finish(self, reply: Reply) -> None:
        await forget_ann(self.bot)
        self.replies.append(reply)


def show_late(bot: Bot) -> LateSink:
    """Let Ann forget while answers are shown from now on."""
    sink = LateSink(bot=bot)
    bot.adapters["telegram"] = adapter = RecordingAdapter()
    adapter.sink = lambda *_: sink  # type: ignore[method-assign]
    return sink


@pytest.mark.parametrize(
    "asked",
    [
        {"text": "and what about it?"},
        {"text": "what does this mean?", "quoted": SAID},
        {"text": "", "quoted": QUESTION, "quoted_authors": (ANN_ID,)},
    ],
    ids=["follow-up", "quotation", "quotation alone"],
)
async def test_an_answer_to_somebody_else_that_was_shown_meanwhile_is_not_kept(
    tmp_path: Path, journal_settings: JournalSettings, asked: Mapping[str, Any]
) -> None:
    async with opened(tmp_path, journal_settings) as bot:
        said = await bot.deliver(ANN, SAID)
        sink = show_late(bot)
        await bot.deliver(BOB, reply_to=said.id, **asked)
        assert WORD in sink.replies[0].text, "what has begun is shown"
        assert await find_columns(bot.journal.database, *KEPT_IN_CHAT) == set()


def forget_after(monkeypatch: pytest.MonkeyPatch, bot: Bot, name: str) -> None:
    """Let Ann forget as soon as a method of the journal has returned."""
    method = getattr(bot.journal, name)

    async def call_and_forget(*arguments: Any, **options: Any) -> Any:
        result = await method(*arguments, **options)
        monkeypatch.undo()
        await forget_ann(bot)
        return result

    monkeypatch.setattr(bot.journal, name, call_and_forget)


async def test_a_model_is_told_nothing_of_her_once_the_conversation_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whose words are in it is known from the same read."""
    async with opened(tmp_path, JournalSettings()) as bot:
        await bot.deliver(ANN, f"{SAID}. How does the launcher start?")
        bot.get_requests()
        bot.output()
        forget_after(monkeypatch, bot, "get_history")
        await bot.deliver(BOB, "and what about it?")
        assert (WORD in bot.get_requests().lower(), WORD in bot.output()) == (False, False)
        assert await find_columns(bot.journal.database, *KEPT_IN_CHAT) == set()


@dataclass
class LateOpening(MemorySink):
    """Ann forgets as soon as it is shown that an answer is coming."""

    bot: Any = None

    async def open(self) -> None:
        await forget_ann(self.bot)


async def test_an_answer_is_not_shown_however_much_others_have_said_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a busy group her words of an hour ago are beyond the newest messages, and still in the conversation."""
    carl = Sender(ANN.chat, "46")
    monkeypatch.setattr(statements, "MAX_MESSAGES", 2)
    async with opened(tmp_path, JournalSettings()) as bot:
        await bot.deliver(ANN, f"{SAID}. How does the launcher start?")
        await bot.deliver(carl, "What starts the launcher?")
        for _ in range(2):
            await bot.deliver(carl, "Thanks.", addressed=False)
        sink = LateOpening(bot=bot)
        bot.adapters["telegram"] = adapter = RecordingAdapter()
        adapter.sink = lambda *_: sink  # type: ignore[method-assign]
        await bot.deliver(BOB, "and what about it?")
        assert [WORD in reply.text for reply in sink.replies] == []
        assert await find_columns(bot.journal.database, *KEPT_IN_CHAT) == set()


@pytest.mark.parametrize("asked", [{}, {"quoted": SAID, "quoted_authors": (ANN_ID,)}], ids=["follow-up", "quotation"])
async def test_no_draft_has_words_of_a_person_forgotten_before_it_is_kept(
    tmp_path: Path, journal_settings: JournalSettings, monkeypatch: pytest.MonkeyPatch, asked: Mapping[str, Any]
) -> None:
    chats = {f"telegram:{ANN.chat}": {"mode": "draft", "drafts_to": "telegram:-200"}}
    async with opened(tmp_path, journal_settings, chats=chats) as bot:
        drafts = bot.processor.drafts
        drafts.start_post = start_post
        drafts.adapters["telegram"] = bot.adapter("telegram")
        key = ConversationKey("telegram", ANN.chat)
        said = Message("said", key, ANN_ID, "Ann", SAID, datetime.now(UTC), addressed=True)
        await bot.journal.record_message(said)
        await bot.journal.mark_answered(said, Reply(f"I see: {SAID}."))
        mark_drafted = bot.journal.mark_drafted

        async def forget_and_mark(message: Message, reply: Reply, *arguments: Any) -> None:
            assert WORD in reply.text
            await forget_ann(bot)
            await mark_drafted(message, reply, *arguments)

        monkeypatch.setattr(bot.journal, "mark_drafted", forget_and_mark)
        question = await bot.deliver(BOB, "and what about it?", **asked)
        assert WORD not in bot.output()
        assert await find_columns(bot.journal.database, *KEPT_IN_CHAT) == set()
        assert await bot.journal.find_unfinished(question) is None


async def test_an_answer_is_not_shown_that_waited_for_its_platform_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Slack the platform says who reads a channel, before each part of an answer."""
    async with opened(tmp_path, JournalSettings()) as bot:
        await bot.deliver(ANN, f"{SAID}. How does the launcher start?")
        bot.output()
        bot.get_requests()
        as_read_now = Permissions.as_read_now
        finish = RecordedSink.finish
        written = list[str]()

        async def note_and_finish(sink: RecordedSink, reply: Reply) -> None:
            written.append(reply.text)
            await finish(sink, reply)

        async def ask_slowly(permissions: Permissions, adapter: Adapter, message: Message) -> Message:
            if written:
                await forget_ann(bot)
            return await as_read_now(permissions, adapter, message)

        monkeypatch.setattr(RecordedSink, "finish", note_and_finish)
        monkeypatch.setattr(Permissions, "as_read_now", ask_slowly)
        bot.adapters["telegram"] = adapter = RecordingAdapter()
        await bot.deliver(BOB, "and what about it?")
        assert WORD in written[0]
        assert not any(WORD in reply.text for sink in adapter.sinks for reply in sink.replies)


async def test_what_others_were_answered_meanwhile_without_her_words_is_kept(tmp_path: Path) -> None:
    async with opened(tmp_path, JournalSettings()) as bot:
        sink = show_late(bot)
        asked = await bot.deliver(BOB, "How does the launcher start?")
        shown = sink.replies[0].text
        turns = await read_history(bot.journal, asked.key, 2)
        assert [turn.text for turn in turns] == [asked.text, shown]


async def test_a_question_that_was_edited_is_left_in_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer is in the cache with the new words, which the message that came first does not have."""
    async with opened(tmp_path, JournalSettings()) as bot:
        sink = show_late(bot)
        begin_answer = bot.journal.begin_answer

        async def edit_and_begin(message: Message, labels: frozenset[str] | None = None) -> str:
            assert await bot.journal.record_edit(replace(message, text=QUESTION))
            return await begin_answer(message, labels)

        monkeypatch.setattr(bot.journal, "begin_answer", edit_and_begin)
        await bot.deliver(ANN, "How does the launcher start?")
        assert sink.replies[0].citations
        assert not await bot.journal.database.fetch_all(select(replies))


async def test_a_question_without_words_of_its_own_is_left_in_no_cache(tmp_path: Path) -> None:
    """What it replies to is asked."""
    async with opened(tmp_path, JournalSettings()) as bot:
        sink = show_late(bot)
        await bot.deliver(ANN, "", quoted=QUESTION, reply_to="55")
        assert sink.replies[0].citations
        assert not await bot.journal.database.fetch_all(select(replies))


async def test_no_further_part_brings_back_what_was_forgotten(
    tmp_path: Path, journal_settings: JournalSettings
) -> None:
    async with opened(tmp_path, journal_settings) as bot:
        await bot.deliver(ANN, SAID, addressed=False)
        journal = bot.journal
        key = ConversationKey("telegram", ANN.chat)
        asked = Message("9999", key, BOB.author, "Bob", "and it?", datetime.now(UTC), addressed=True)
        await journal.record_message(asked)
        await journal.mark_delivery(asked, Reply(SAID), {})
        await journal.mark_parts(asked, {1: "17"})
        assert (await journal.get_delivery(asked, None))[1:3] == (Reply(SAID), {1: "17"})
        await forget_ann(bot)
        await journal.mark_parts(asked, {1: "17", 2: "18"})
        assert await find_columns(journal.database, *KEPT_IN_CHAT) == set()
        await journal.mark_delivered(asked, Reply(SAID))
        assert await find_columns(journal.database, *KEPT_IN_CHAT) == set()


async def test_a_list_of_questions_has_none_of_a_person_forgotten_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To find out which questions are alike may take an endpoint some seconds."""
    async with opened(tmp_path, JournalSettings()) as bot:
        asked = await bot.deliver(ANN, QUESTION)
        key = ConversationKey("telegram", ANN.chat, rating_buttons.THREAD)
        await bot.deliver(BOB, DOWN, RATING_COMMAND, reply_to=asked.id, key=key)
        group = KnowledgeLibrary.group

        async def group_and_forget(library: KnowledgeLibrary, texts: Sequence[str]) -> Sequence[Sequence[int]]:
            groups = await group(library, texts)
            await forget_ann(bot)
            return groups

        await bot.deliver(OWNER_ALONE, "", "digest")
        assert WORD in bot.output()
        monkeypatch.setattr(KnowledgeLibrary, "group", group_and_forget)
        await bot.deliver(OWNER_ALONE, "", "digest")
        shown_text = bot.output()
        assert ("Reply(text=" in shown_text, WORD in shown_text) == (True, False)


class AskedAdapter(RecordingAdapter):
    """Ann forgets while the platform is asked who is an administrator."""

    forget: Callable[[], Any]

    async def is_admin(self, message: Message) -> bool:
        await self.forget()
        return True


async def test_nothing_is_taught_of_a_person_forgotten_meanwhile(tmp_path: Path) -> None:
    administration = {"owners": ["telegram:1"], "platform_admins": True}
    async with opened(tmp_path, JournalSettings(), administration=administration, handoff={}) as bot:
        asked = await bot.deliver(ANN, f"Where is the {WORD} of the zeppelin kept?", addressed=False)
        bot.adapters["telegram"] = adapter = AskedAdapter()
        adapter.forget = lambda: forget_ann(bot)
        await bot.deliver(BOB, "It is in a box.", reply_to=asked.id, addressed=False)
        assert await find_columns(bot.journal.database, *KEPT_IN_CHAT) == set()


@pytest.mark.parametrize(
    ("asker", "text", "quoted"),
    [(ANN, QUESTION, ""), (Sender(ANN.chat, "44"), "What does this mean?", SAID)],
    ids=["hers", "about her words"],
)
async def test_no_question_is_asked_again_of_a_person_forgotten_meanwhile(
    tmp_path: Path, asker: Sender, text: str, quoted: str
) -> None:
    """An administrator wants a better answer to it."""
    administration = {"owners": ["telegram:1"], "platform_admins": True}
    async with opened(tmp_path, JournalSettings(), administration=administration) as bot:
        said = await bot.deliver(ANN, SAID)
        asked = await bot.deliver(asker, text, reply_to=said.id if quoted else "", quoted=quoted)
        bot.output()
        bot.adapters["telegram"] = adapter = AskedAdapter()
        adapter.forget = lambda: forget_ann(bot)
        key = ConversationKey("telegram", ANN.chat, rating_buttons.THREAD)
        await bot.deliver(BOB, RETRY, RATING_COMMAND, reply_to=asked.id, key=key)
        assert WORD not in bot.output()
        assert await find_columns(bot.journal.database, *KEPT_IN_CHAT) == set()


class LateOpinion:
    """A model that repeats what was written before a message; meanwhile Ann forgets."""

    def __init__(self, bot: Bot, *, should_speak: bool) -> None:
        self._bot = bot
        self._should_speak = should_speak

    async def ask(
        self, message: Message, passages: Sequence[Passage], recent_messages: Sequence[HistoryMessage]
    ) -> Opinion:
        text = " ".join(other.text for other in recent_messages)
        assert WORD in text
        await forget_ann(self._bot)
        return Opinion(self._should_speak, text)


@pytest.mark.parametrize("should_speak", [True, False], ids=["speaks", "silent"])
async def test_no_opinion_has_words_of_a_person_forgotten_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, should_speak: bool
) -> None:
    async with opened(tmp_path, JournalSettings()) as bot:
        gate = bot.processor._handler._gate
        monkeypatch.setattr(gate, "_second_opinion", LateOpinion(bot, should_speak=should_speak))
        await bot.deliver(ANN, f"The {WORD} is done.", addressed=False)
        await bot.deliver(BOB, "How does the launcher start?", addressed=False)
        assert ("Reply(text=" in bot.output()) == should_speak
        assert await find_columns(bot.journal.database, *KEPT_IN_CHAT) == set()


@dataclass
class Repeating:
    """A model that repeats what was written before a message."""

    should_speak: bool = True

    async def ask(
        self, message: Message, passages: Sequence[Passage], recent_messages: Sequence[HistoryMessage]
    ) -> Opinion:
        return Opinion(self.should_speak, " ".join(other.text for other in recent_messages))


@pytest.mark.parametrize("is_forgotten", [False, True], ids=["as it is", "forgotten"])
async def test_no_reason_is_kept_of_a_person_forgotten_before_it_is_written(
    tmp_path: Path, journal_settings: JournalSettings, monkeypatch: pytest.MonkeyPatch, *, is_forgotten: bool
) -> None:
    async with opened(tmp_path, journal_settings) as bot:
        monkeypatch.setattr(bot.processor._handler._gate, "_second_opinion", Repeating(should_speak=False))
        await bot.deliver(ANN, f"The {WORD} is done.", addressed=False)
        mark_skipped = bot.journal.mark_skipped

        async def forget_and_mark(*arguments: Any) -> None:
            if is_forgotten:
                await forget_ann(bot)
            await mark_skipped(*arguments)

        monkeypatch.setattr(bot.journal, "mark_skipped", forget_and_mark)
        asked = await bot.deliver(BOB, "How does the launcher start?", addressed=False)
        [row] = await bot.journal.database.fetch_all(select(messages).filter_by(id=asked.id))
        assert (row.state, row.trace["skip"], WORD in row.reason) == ("silent", "MODEL_DECLINED", not is_forgotten)
        if is_forgotten:
            assert await find_columns(bot.journal.database, *KEPT_IN_CHAT) == set()


@pytest.mark.parametrize("is_shown", [False, True], ids=["before it is shown", "while it is shown"])
async def test_no_opinion_is_kept_of_a_person_forgotten_while_the_answer_is_made(
    tmp_path: Path, journal_settings: JournalSettings, monkeypatch: pytest.MonkeyPatch, *, is_shown: bool
) -> None:
    async with opened(tmp_path, journal_settings) as bot:
        monkeypatch.setattr(bot.processor._handler._gate, "_second_opinion", Repeating())
        await bot.deliver(ANN, f"The {WORD} is done.", addressed=False)
        if is_shown:
            show_late(bot)
        else:
            forget_before_showing(monkeypatch, bot)
        await bot.deliver(BOB, "How does the launcher start?", addressed=False)
        assert await find_columns(bot.journal.database, *KEPT_IN_CHAT) == set()


async def test_words_in_an_earlier_answer_to_somebody_else_are_forgotten_too(
    tmp_path: Path, journal_settings: JournalSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of Ann's is in the conversation itself: Bob has quoted her, and the bot has told him."""
    async with opened(tmp_path, journal_settings) as bot:
        said = await bot.deliver(ANN, SAID, addressed=False)
        await bot.deliver(BOB, "What is it?", reply_to=said.id, quoted=SAID, quoted_authors=(ANN_ID,))
        assert shows(bot, WORD)
        bot.output()
        written = forget_before_showing(monkeypatch, bot)
        await bot.deliver(BOB, "And how do I start it then?")
        assert (WORD in written[0], shows(bot, WORD)) == (True, False)
        assert await find_columns(bot.journal.database, *KEPT_IN_CHAT) == set()


async def test_words_in_an_answer_that_is_to_be_bettered_are_forgotten_too(
    tmp_path: Path, journal_settings: JournalSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others have said so much since that Ann is in the conversation no more."""
    async with opened(tmp_path, journal_settings, answer={"history_turns": 2}) as bot:
        await bot.deliver(ANN, f"{SAID}. How does the launcher start?")
        asked = await bot.deliver(BOB, "and what about it?")
        await bot.deliver(Sender(ANN.chat, "46"), "What starts the launcher?")
        assert shows(bot, WORD)
        bot.output()
        assert bot.model
        bot.model.replies["write"] = lambda body: tell(body).replace("as somebody said", "once more")
        written = forget_before_showing(monkeypatch, bot)
        key = ConversationKey("telegram", ANN.chat, rating_buttons.THREAD)
        await bot.deliver(BOB, RETRY, RATING_COMMAND, reply_to=asked.id, key=key)
        assert (WORD in written[0], shows(bot, WORD)) == (True, False)
        assert await find_columns(bot.journal.database, *KEPT_IN_CHAT) == set()


async def test_no_query_is_kept_of_a_person_forgotten_while_the_answer_is_shown(
    tmp_path: Path, journal_settings: JournalSettings
) -> None:
    """The answer itself has none of her words."""
    async with opened(tmp_path, journal_settings) as bot:
        assert bot.model
        bot.model.replies["write"] = "It starts by a button [p1]."
        bot.model.replies["rewrite"] = f"How do I use the {WORD} key of the launcher?"
        await bot.deliver(ANN, f"{SAID}. How does the launcher start?")
        sink = show_late(bot)
        asked = await bot.deliver(BOB, "and what about it?")
        assert (WORD in str(sink.replies[0].trace), WORD in sink.replies[0].text) == (True, False)
        assert await find_columns(bot.journal.database, *KEPT_IN_CHAT) == set()
        turns = await read_history(bot.journal, asked.key, 2)
        assert [turn.text for turn in turns] == [asked.text, sink.replies[0].text], "what has none of hers stays"


@pytest.mark.parametrize("is_forgotten", [False, True], ids=["as it is", "forgotten"])
async def test_no_answer_is_pointed_to_whose_asker_is_forgotten_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_forgotten: bool
) -> None:
    """People have time to answer first, and Ann uses it."""
    gate = {"mode": "auto", "threshold": 0, "wait_s": 30, "cooldown_s": 0, "repeated": "point"}
    async with opened(tmp_path, JournalSettings(), gate=gate) as bot:
        assert bot.model
        bot.model.replies["write"] = f"{SAID} [p1]."
        await bot.deliver(ANN, "How does the launcher start?")
        bot.output()

        async def wait(_seconds: float) -> bool:
            if is_forgotten:
                await forget_ann(bot)
            return True

        monkeypatch.setattr(bot.processor._handler, "_wait_for_humans", wait)
        await bot.deliver(BOB, "How does the launcher start?", addressed=False)
        assert (WORD in bot.output()) != is_forgotten
        if is_forgotten:
            assert await find_columns(bot.journal.database, *KEPT_IN_CHAT) == set()


class LateLook:
    """A model that is asked after something has happened."""

    def __init__(self, happen: Callable[[], Awaitable[None]]) -> None:
        self._happen = happen

    async def ask(self, *_: object) -> Opinion:
        await self._happen()
        await require_leave()
        return Opinion(True, "It knows.")


async def pause(bot: Bot) -> None:
    """Let an owner pause the bot in the group."""
    command = Message("pause", ConversationKey("telegram", ANN.chat), "1", "Olga", "60", datetime.now(UTC))
    until = (datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)).isoformat()
    await bot.dispatcher.context.overrides.change(command, f"telegram:{ANN.chat}", "pause", until)


@pytest.mark.parametrize(
    ("happen", "reason"), [(pause, "PAUSED"), (forget_ann, "")], ids=["the bot is paused", "its asker is forgotten"]
)
async def test_a_message_that_a_model_may_not_judge_any_more_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, happen: Callable[[Bot], Awaitable[None]], reason: str
) -> None:
    """What is left unfinished is erased by nothing: not with its author, nor after the time for which it is kept."""
    async with opened(tmp_path, JournalSettings()) as bot:
        opinion = LateLook(lambda: happen(bot))
        monkeypatch.setattr(bot.processor._handler._gate, "_second_opinion", opinion)
        asked = await bot.deliver(ANN, QUESTION, addressed=False)
        assert "Reply(text=" not in bot.output()
        [row] = await bot.journal.database.fetch_all(select(messages).filter_by(id=asked.id))
        assert (row.state, (row.trace or {}).get("skip", "")) == ("silent", reason)


async def test_a_model_that_is_asked_again_is_told_nothing_of_a_person_forgotten_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An endpoint is overloaded, and Ann forgets before it is asked again whether to speak."""
    async with opened(tmp_path, JournalSettings()) as bot:
        library, service = bot.app.shared_library, bot.app.answer_service
        bot.processor = make_inbox(bot.journal, bot.app.answer, bot.dispatcher, library=library, service=service)
        await bot.deliver(ANN, f"The key of the launcher is {WORD} today.", addressed=False)
        assert bot.model
        bot.model.requests.clear()
        bot.model.failing.add("second_opinion")

        async def forget_and_recover(*_: object) -> bool:
            await forget_ann(bot)
            bot.model.failing.clear()
            return True

        monkeypatch.setattr(failover, "_wait_before_retry", forget_and_recover)
        await bot.deliver(BOB, "How does the launcher start?", addressed=False)
        assert [WORD in str(body).lower() for body in bot.model.requests] == [True], "the first request alone has it"
