"""What waits to be shown follows what the configuration says by then: who reads it, decides, is called.

An answer waits because its platform was away, and the bot starts again with another configuration.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from bots.daemon.adapters import make_adapters
from bots.daemon.bootstrap import make_dispatcher, make_inbox, make_live_settings
from bots.daemon.posting import start_post
from core.messaging.feedback.handoff import make_handoff
from core.ports import Sink
from core.runtime.leaving import require_leave
from core.settings import Settings
from core.storage.chat_history import ChatHistory
from core.storage.drafts import DraftRepository
from core.storage.messages import Journal
from core.storage.overrides import new_entry
from core.storage.tables import messages
from core.types import ConversationKey, FeedEntry, Message, Origin, Question, Reply
from tests.support.peers.telegram import TelegramPeer
from tests.support.recording_bot import Bot, Sender, open_bot
from tests.support.telegram_helpers import settings as telegram_settings
from tests.support.wiring import running

CHAT = "discord:77"
ASKED = Message(
    "9", ConversationKey("discord", "77"), "42", "Ann", "How does it start?", datetime.now(UTC), addressed=True
)
UNASKED = replace(ASKED, addressed=False)
ANSWER = "It starts by a button."
DRAFTED = {"mode": "draft", "drafts_to": "telegram:-200"}


def configured(folder: Path, chat: Mapping[str, object], **changes: Any) -> Settings:
    values = {
        "data_dir": str(folder / "data"),
        "sources": {"docs": {"kind": "files", "path": str(folder)}},
        "knowledge": {"parsing": {"workers": 1}},
        "telegram": {"token": {"env": "TELEGRAM"}},
        "discord": {"token": {"env": "DISCORD"}},
        "gate": {"wait_s": 0},
        "chats": {CHAT: chat},
        **changes,
    }
    return Settings.model_validate(values)


async def leave_waiting(bot: Bot, message: Message) -> None:
    """Leave a message with a reply that no platform has taken."""
    await bot.journal.record_message(message, visible_sources=[""])
    await bot.journal.begin_answer(message, frozenset({""}))
    await bot.journal.mark_delivery(message, Reply(ANSWER), {})


async def resume(bot: Bot) -> str:
    """Go on with what waits, and return what is shown."""
    await bot.processor.resume(bot.adapter("discord"))
    await bot.processor.join()
    return bot.output()


async def restart(folder: Path, message: Message, chat: Mapping[str, object], **changes: Any) -> str:
    """Start again with another configuration, and return what is shown of the answer to a message."""
    async with open_bot(configured(folder, {})) as bot:
        await leave_waiting(bot, message)
    async with open_bot(configured(folder, chat, **changes)) as bot:
        return await resume(bot)


@pytest.mark.parametrize("answers", ["everyone", "asker"])
async def test_an_answer_that_waits_is_not_public_where_only_askers_read(tmp_path: Path, answers: str) -> None:
    shown_text = await restart(tmp_path, ASKED, {"answers": answers})
    assert [ANSWER in shown_text, "for the asker alone" in shown_text] == [answers == "everyone", answers == "asker"]


@pytest.mark.parametrize("chat", [{"mode": "mention"}, DRAFTED], ids=lambda chat: str(chat["mode"]))
async def test_an_answer_that_waits_is_for_the_team_that_decides_now(tmp_path: Path, chat: Mapping[str, str]) -> None:
    assert (ANSWER in await restart(tmp_path, ASKED, chat)) == (chat != DRAFTED)
    async with open_bot(configured(tmp_path, chat)) as bot:
        drafts = await DraftRepository(bot.journal.database).get_waiting()
        assert [draft.reply.text for draft in drafts] == ([ANSWER] if chat == DRAFTED else [])


async def test_what_a_team_let_be_posted_is_posted(tmp_path: Path) -> None:
    async with open_bot(configured(tmp_path, DRAFTED)) as bot:
        await leave_waiting(bot, ASKED)
        await bot.journal.mark_drafted(ASKED, Reply(ANSWER))
        bot.adapter("discord")
        repository = DraftRepository(bot.journal.database)
        (draft,) = await repository.get_waiting()
        await repository.approve(draft, draft.reply, new_entry(ASKED, "changed", "draft", "waiting", "posted"))
        assert ANSWER in await resume(bot)


@pytest.mark.parametrize("chat", [{"answers": "asker"}, DRAFTED, {"mode": "mention"}], ids=["asker", "draft", "same"])
async def test_an_answer_that_is_being_written_follows_too(tmp_path: Path, chat: Mapping[str, str]) -> None:
    async with open_bot(configured(tmp_path, {})) as bot:

        async def answer(question: Question, sink: Sink) -> Reply:
            await bot.dispatcher.context.reload(configured(tmp_path, chat))
            await sink.finish(Reply(ANSWER))
            return Reply(ANSWER)

        bot.processor = make_inbox(bot.journal, answer, bot.dispatcher, library=bot.app.shared_library)
        await bot.deliver(Sender("77", platform="discord"), ASKED.text)
        assert (ANSWER in bot.output()) == (chat == {"mode": "mention"})


@pytest.mark.parametrize("mode", ["auto", "mention"])
async def test_what_nobody_asked_for_is_not_said_where_only_askers_get_answers(tmp_path: Path, mode: str) -> None:
    assert (ANSWER in await restart(tmp_path, UNASKED, {"mode": mode})) == (mode == "auto")


async def test_a_question_that_was_held_to_be_for_the_bot_is_answered(tmp_path: Path) -> None:
    async with open_bot(configured(tmp_path, {})) as bot:
        await leave_waiting(bot, UNASKED)
        await ChatHistory(bot.journal.database).mark_addressed(UNASKED)
        bot.adapter("discord")
        assert ANSWER in await resume(bot)


@pytest.mark.parametrize("chats", [[CHAT], []], ids=["commented on", "taken out"])
async def test_a_comment_that_waits_is_not_posted_in_a_chat_taken_out(tmp_path: Path, chats: Sequence[str]) -> None:
    comments = {"chats": chats, "deadline_s": 600, "needs_citation": False}
    shown_text = await restart(tmp_path, replace(UNASKED, is_post=True), {}, auto_comment=comments)
    assert (ANSWER in shown_text) == bool(chats)


@pytest.mark.parametrize("chat", [{"models": "own"}, {}], ids=["other models", "same"])
async def test_a_comment_that_is_being_written_is_from_the_models_of_its_chat(
    tmp_path: Path, chat: Mapping[str, str]
) -> None:
    models = {"base_url": "http://127.0.0.1:9/v1", "model": "peer"}
    comments = {"chats": [CHAT], "deadline_s": 600, "needs_citation": False}
    changes = {"models": {"main": models, "sets": {"own": {"main": models}}}, "auto_comment": comments}
    async with open_bot(configured(tmp_path, {}, **changes)) as bot:

        async def answer(question: Question, sink: Sink) -> Reply:
            await bot.dispatcher.context.reload(configured(tmp_path, chat, **changes))
            await require_leave()
            await sink.finish(Reply(ANSWER))
            return Reply(ANSWER)

        bot.processor = make_inbox(bot.journal, answer, bot.dispatcher, library=bot.app.shared_library)
        sender = Sender(ASKED.key.chat, platform="discord")
        await bot.deliver(sender, ASKED.text, addressed=False, is_post=True)
        assert (ANSWER in bot.output()) == (not chat)


@pytest.mark.parametrize("chat", [CHAT, "discord:78"], ids=["same", "another"])
async def test_a_comment_on_an_entry_is_not_posted_in_another_chat(tmp_path: Path, chat: str) -> None:
    entry = replace(UNASKED, is_post=True, feed_entry=FeedEntry("news", "A numbat", "https://example.org/1"))
    feeds = {"news": {"url": "https://example.org/feed.xml", "chat": chat}}
    comments = {"feeds": feeds, "deadline_s": 600, "needs_citation": False}
    assert (ANSWER in await restart(tmp_path, entry, {}, auto_comment=comments)) == (chat == CHAT)


@pytest.mark.parametrize("team", ["discord:78", "discord:79"], ids=["same", "another"])
@pytest.mark.parametrize("is_lost", [False, True], ids=["waiting", "lost"])
async def test_a_note_about_a_draft_is_not_for_a_former_team(tmp_path: Path, team: str, *, is_lost: bool) -> None:
    """It may have the question's new words."""
    key = ConversationKey("discord", "78")
    note = replace(ASKED, id="about-1", key=key, author_id="kimas", origin=Origin(root_id="1", purpose="draft"))
    async with open_bot(configured(tmp_path, DRAFTED)) as bot:
        await leave_waiting(bot, ASKED)
        await bot.journal.mark_drafted(ASKED, Reply(ANSWER))
        if is_lost:
            await bot.journal.mark_failed(ASKED, "no")
        await bot.journal.record_message(note, reply=Reply("Edited"), visible_sources=[""])
    async with open_bot(configured(tmp_path, {**DRAFTED, "drafts_to": team})) as bot:
        bot.processor.drafts.start_post = start_post
        bot.processor.handler_for(bot.adapter("discord"))
        assert ("Edited" in await resume(bot)) == (team == "discord:78")


@pytest.mark.parametrize("people", [["discord:5", "discord:6"], ["discord:6"], []])
async def test_a_call_that_waits_mentions_only_who_is_called_now(tmp_path: Path, people: Sequence[str]) -> None:
    called = list[tuple[str, ...]]()
    async with open_bot(configured(tmp_path, {})) as bot:
        await bot.journal.record_message(ASKED)
        await bot.journal.record_message(make_handoff(ASKED, ["5", "6"]))
        await bot.journal.mark_answered(ASKED, Reply(ANSWER))
    async with open_bot(configured(tmp_path, {}, handoff={"people": people})) as bot:
        adapter = bot.adapter("discord")
        make_sink = adapter.sink

        def watch(message: Message, *arguments: Any) -> Any:
            called.append(message.origin.mentioned_users)
            return make_sink(message, *arguments)

        adapter.sink = watch  # type: ignore[method-assign]
        await resume(bot)
    ids = tuple(person.removeprefix("discord:") for person in people)
    assert called == ([ids] if ids else [])


async def test_a_group_that_telegram_upgraded_stays_closed_under_its_new_id(tmp_path: Path) -> None:
    async def answer(question: Question, sink: Sink) -> Reply:
        await sink.open()
        await sink.finish(Reply(ANSWER))
        return Reply(ANSWER)

    async with TelegramPeer() as peer:
        section = telegram_settings(peer, tmp_path).model_dump(exclude_unset=True)
        chats = {"telegram:-100": {"mode": "off"}}
        live_settings = configured(tmp_path, {}, telegram=section, discord=None, chats=chats)
        journal = await Journal.open(tmp_path / "journal.db")
        live = make_live_settings(live_settings, journal.database)
        (adapter,) = make_adapters(live, journal)
        inbox = make_inbox(journal, answer, make_dispatcher(live, journal))
        for chat in (-100, -200):
            peer.chat(chat)
        async with running(adapter, inbox):
            for chat in (-100, -200):
                peer.upgrade(chat, chat - 1_000_000)
                peer.say(chat - 1_000_000, "@kimas_bot how does it start?")
            rows = select(messages.c.chat, messages.c.state).where(messages.c.state.in_(("answered", "silent")))
            while len(found := await journal.database.fetch_all(rows)) < 2:
                await asyncio.sleep(0.02)
        await journal.close()
    assert {tuple(row) for row in found} == {("-1000100", "silent"), ("-1000200", "answered")}
