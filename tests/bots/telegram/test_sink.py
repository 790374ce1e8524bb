"""One reply against a strict server: drafts, edits, limits, and everything that Telegram may refuse."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest

from bots.telegram.adapter import TelegramAdapter
from bots.telegram.sink import TelegramSink
from core.errors import MessageDeleted, PlatformError, StoreError
from core.settings import Secret, TelegramSettings
from core.types import Citation, ConversationKey, Message, Reply
from tests.support.peers.telegram import TelegramPeer
from tests.support.sink_helpers import DeliveryLog, update_until, update_until_stopped
from tests.support.telegram_helpers import GROUP, PERSON, SINK_PACE, Offsets, convert
from tests.support.waiting import until

CITED = (Citation(1, "p1", "docs", "Install", "docs/install.md", "https://example.org/install"),)


@pytest.fixture
def delivery_log() -> DeliveryLog:
    return DeliveryLog()


Ask = Callable[..., TelegramSink]


@pytest.fixture
def ask(peer: TelegramPeer, adapter: TelegramAdapter, delivery_log: DeliveryLog) -> Ask:
    """Have somebody ask and return the sink for the answer."""

    def open_sink(chat: int = GROUP, *, previous: str = "", thread: int | None = None) -> TelegramSink:
        number = peer.say(chat, "@kimas_bot what is it?", thread=thread)
        peer_chat = peer.chat(chat)
        message = convert(peer._message(peer_chat, peer_chat.messages[number]))
        assert isinstance(message, Message)
        return adapter.sink(message, delivery_log, previous)

    return open_sink


async def test_a_group_sees_typing_then_a_reply_that_grows(
    peer: TelegramPeer, ask: Ask, delivery_log: DeliveryLog
) -> None:
    sink = ask()
    await sink.open()
    await peer.wait_until(lambda: len(peer.get_calls("sendChatAction")) >= 2, 30)
    await sink.update("The **first**")
    first = await peer.wait_for_reply(GROUP, 30, containing="first")
    assert ([text for _, text in first.history], first.reply_to) == (["…", "The first"], 1)
    await until(lambda: len(delivery_log.events) == 2)
    assert delivery_log.events == ["posting", str(first.id)]
    await sink.update("The **first** words")
    await peer.wait_for_reply(GROUP, 30, containing="words")
    await sink.finish(Reply("The **first** words are final [1].", CITED))
    (message,) = peer.messages(GROUP)
    assert message.text == "The first words are final [1].\n\nSources\n[1] Install"
    assert message.links() == ["https://example.org/install"] * 2
    assert delivery_log.events == ["posting", str(message.id)]
    assert all(call.status == 200 for call in peer.calls)


async def test_a_state_without_anything_to_see_is_not_shown(peer: TelegramPeer, ask: Ask) -> None:
    sink = ask()
    await sink.open()
    for text in ("", " \n", "```", "```python\n"):
        await sink.update(text)
        await asyncio.sleep(0.03)
    assert peer.messages(GROUP) == []
    await sink.update("```python\nx = 1")
    message = await peer.wait_for_reply(GROUP, 30, containing="x")
    assert (message.text, message.entities[0]["type"]) == ("x = 1", "pre")
    await sink.finish(Reply("```python\nx = 1\n```"))
    assert len(peer.get_calls("editMessageText")) == 1


async def test_edits_are_throttled_and_the_latest_text_wins(peer: TelegramPeer, ask: Ask) -> None:
    sink = ask()
    await sink.open()
    await sink.update("word 0")
    message = await peer.wait_for_reply(GROUP, 30)
    written_text = await update_until(sink, lambda: len(message.history) >= 4)
    await sink.finish(Reply("done"))
    assert peer.messages(GROUP) == [message]
    assert message.history.pop(0)[1] == "…"
    times, states = zip(*message.history, strict=True)
    assert all(later_time - earlier_time >= 0.08 for earlier_time, later_time in pairwise(times[:-1]))
    assert len(states) < written_text
    assert {int(state.removeprefix("word ")) % 10 for state in states[:-1]} == {0}, "the latest"
    assert (states[0], message.text) == ("word 0", "done")


async def test_a_private_chat_sees_drafts_and_then_one_message(
    peer: TelegramPeer, ask: Ask, delivery_log: DeliveryLog
) -> None:
    sink = ask(PERSON)
    await sink.open()
    await sink.update("some")
    await peer.wait_until(lambda: len(peer.drafts) == 1, 30)
    await sink.update("some `words")
    await peer.wait_until(lambda: len(peer.drafts) == 2, 30)
    assert peer.messages(PERSON) == []
    assert delivery_log.events == []
    await sink.finish(Reply("some `words`"))
    (message,) = peer.messages(PERSON)
    assert (message.text, message.reply_to) == ("some words", None)
    assert [draft.text for draft in peer.drafts] == ["some", "some `words"]
    assert len({draft.draft_id for draft in peer.drafts}) == 1
    assert delivery_log.events == ["posting", str(message.id)]


async def test_without_drafts_the_final_message_still_comes(peer: TelegramPeer, ask: Ask) -> None:
    peer.fail("sendMessageDraft", 404, description="Not Found: method not found", times=9)
    sink = ask(PERSON)
    await sink.open()
    await sink.update("some")
    await peer.wait_until(lambda: bool(peer.get_calls("sendMessageDraft")), 30)
    await sink.update("some words")
    await asyncio.sleep(0.15)
    await sink.finish(Reply("some words"))
    assert [message.text for message in peer.messages(PERSON)] == ["some words"]
    assert len(peer.get_calls("sendMessageDraft")) == 1


async def test_a_topic_is_answered_in_the_topic(peer: TelegramPeer, ask: Ask) -> None:
    peer.forum(GROUP, 9)
    sink = ask(thread=9)
    await sink.open()
    await peer.wait_until(lambda: bool(peer.get_calls("sendChatAction")), 30)
    await sink.finish(Reply("x" * 5000))
    assert [message.thread for message in peer.messages(GROUP)] == [9, 9]
    assert all(call.parameters["message_thread_id"] == "9" for call in peer.get_calls("sendChatAction"))


async def test_after_a_crash_the_old_reply_is_edited(peer: TelegramPeer, ask: Ask, delivery_log: DeliveryLog) -> None:
    for chat in (GROUP, PERSON):
        crashed = ask(chat)
        await crashed.finish(Reply("half an"))
        previous = delivery_log.events[-1]
        delivery_log.events.clear()
        sink = ask(chat, previous=previous)
        await sink.open()
        await sink.update("half an answer")
        await peer.wait_for_reply(chat, 30, containing="answer")
        await sink.finish(Reply("a whole answer"))
        assert [message.text for message in peer.messages(chat)] == ["a whole answer"]
        assert delivery_log.events == []
    assert peer.drafts == []


async def test_finishing_an_answer_that_is_there_already_is_fine(peer: TelegramPeer, ask: Ask) -> None:
    await ask().finish(Reply("the answer"))
    await ask(previous=str(peer.messages(GROUP)[0].id)).finish(Reply("the answer"))
    assert [message.text for message in peer.messages(GROUP)] == ["the answer"]
    assert [call.status for call in peer.get_calls("editMessageText")] == [200, 400]


async def test_a_long_answer_goes_on_in_more_messages(peer: TelegramPeer, ask: Ask, delivery_log: DeliveryLog) -> None:
    code = "\n".join(f"line {n}" for n in range(1500))
    sink = ask()
    await sink.open()
    await sink.update(f"```\n{code}")
    await peer.wait_for_reply(GROUP, 30)
    await sink.finish(Reply(f"```\n{code}\n```\n\nThat is it [1].", CITED))
    messages = peer.messages(GROUP)
    assert len(messages) == 4
    assert [message.reply_to for message in messages] == [1, None, None, None]
    assert "\n".join(message.text for message in messages) == f"{code}\n\nThat is it [1].\n\nSources\n[1] Install"
    assert delivery_log.events == ["posting", str(messages[0].id)]


async def test_a_failure_takes_the_place_of_what_was_shown(peer: TelegramPeer, ask: Ask) -> None:
    sink = ask()
    await sink.open()
    await sink.update("half a")
    await peer.wait_for_reply(GROUP, 30)
    await sink.fail("Sorry, <something> failed.")
    assert [message.text for message in peer.messages(GROUP)] == ["Sorry, <something> failed."]
    await ask(PERSON).fail("Too long.")
    assert [message.text for message in peer.messages(PERSON)] == ["Too long."]


async def test_it_waits_as_told_and_then_sends(peer: TelegramPeer, ask: Ask) -> None:
    peer.fail("sendMessage", 429, description="Too Many Requests: retry after 1", retry_after=1)
    await ask().finish(Reply("patience"))
    refused_call, accepted_call = peer.get_calls("sendMessage")
    assert (refused_call.status, accepted_call.status) == (429, 200)
    assert accepted_call.at - refused_call.at >= 1
    assert len(peer.messages(GROUP)) == 1


async def test_too_long_a_wait_is_an_error(peer: TelegramPeer, ask: Ask) -> None:
    peer.fail("sendMessage", 429, description="Too Many Requests: retry after 900", retry_after=900)
    with pytest.raises(PlatformError, match="900"):
        await ask().finish(Reply("patience"))


async def test_states_are_skipped_not_queued_when_it_goes_too_fast(peer: TelegramPeer, ask: Ask) -> None:
    peer.limit_per_chat = (3, 1.2)
    sink = ask()
    await sink.open()
    await update_until(sink, lambda: peer.calls[-1].status == 429)
    call_count = len(peer.calls)
    await update_until(sink, lambda: len(peer.calls) > call_count)
    await sink.finish(Reply("done"))
    (message,) = peer.messages(GROUP)
    assert message.text == "done"
    refused_call, next_call = peer.calls[call_count - 1 : call_count + 1]
    assert refused_call.status == 429
    assert next_call.at - refused_call.at >= 1, "it waits as told, and what was written meanwhile is one edit"
    assert [call.status for call in peer.calls].count(429) <= 1 + (peer.calls[-1].at - refused_call.at)


async def test_rejected_markup_goes_out_as_plain_text(peer: TelegramPeer, ask: Ask) -> None:
    text = "Bad Request: can't parse entities: Unsupported start tag"
    peer.fail("editMessageText", 400, description=text)
    await ask().finish(Reply("a **b** & `<c>`"))
    (message,) = peer.messages(GROUP)
    assert (message.text, message.entities) == ("a b & <c>", [])
    peer.fail("editMessageText", 400, description=text)
    await ask(previous=str(message.id)).finish(Reply("**d**"))
    peer.fail("sendMessageDraft", 400, description=text)
    sink = ask(PERSON)
    await sink.open()
    await sink.update("**e**")
    await peer.wait_until(lambda: len(peer.drafts) == 1, 30)
    await sink.finish(Reply("**f**"))
    assert (peer.messages(GROUP)[0].text, peer.drafts[0].text, peer.messages(PERSON)[0].text) == ("d", "e", "f")


@pytest.mark.parametrize("chat", [GROUP, PERSON])
async def test_a_confirmation_that_is_lost_leaves_a_placeholder_and_one_answer(
    peer: TelegramPeer, ask: Ask, chat: int
) -> None:
    peer.fail("sendMessage", drop="after")
    peer.fail("editMessageText", drop="after")
    await ask(chat).finish(Reply("the answer"))
    assert [message.text for message in peer.messages(chat)] == ["…", "the answer"]


async def test_a_deleted_question_is_told_by_the_next_call(peer: TelegramPeer, ask: Ask) -> None:
    sink = ask()
    await sink.open()
    peer.delete(GROUP, 1)
    await sink.update("some")
    with pytest.raises(MessageDeleted, match="deleted"):
        await update_until_stopped(sink)
    assert peer.get_calls("sendMessage")
    with pytest.raises(MessageDeleted):
        await sink.finish(Reply("some words"))
    assert peer.messages(GROUP) == []
    peer.delete(GROUP, peer.say(GROUP, "later"))
    late_sink = ask()
    peer.delete(GROUP, max(peer.chat(GROUP).messages))
    with pytest.raises(MessageDeleted):
        await late_sink.finish(Reply("words"))


async def test_a_reply_deleted_by_a_moderator_stays_deleted(peer: TelegramPeer, ask: Ask) -> None:
    sink = ask()
    await sink.open()
    await sink.update("some")
    message = await peer.wait_for_reply(GROUP, 30)
    await asyncio.sleep(0.05)
    peer.delete(GROUP, message.id)
    with pytest.raises(MessageDeleted):
        await sink.finish(Reply("some words"))
    assert peer.messages(GROUP) == []


async def test_a_bot_that_was_removed_or_shut_out(peer: TelegramPeer, ask: Ask) -> None:
    peer.forum(GROUP, 9)
    closed_sink = ask(thread=9)
    deleted_sink = ask(thread=9)
    kicked_sink = ask()
    peer.chats[GROUP].topics[9] = False
    with pytest.raises(PlatformError, match="topic is closed"):
        await closed_sink.finish(Reply("x"))
    del peer.chats[GROUP].topics[9]
    with pytest.raises(MessageDeleted, match="topic"):
        await deleted_sink.finish(Reply("x"))
    peer.chats[GROUP].kicked = True
    await kicked_sink.open()
    await peer.wait_until(lambda: bool(peer.get_calls("sendChatAction")), 30)
    with pytest.raises(PlatformError, match="may not write"):
        await kicked_sink.finish(Reply("x"))


async def test_a_group_that_became_a_supergroup_is_followed(peer: TelegramPeer, ask: Ask) -> None:
    sink = ask()
    await sink.open()
    await sink.update("some")
    await peer.wait_for_reply(GROUP, 30)
    peer.upgrade(GROUP, -1009)
    await sink.finish(Reply("some words"))
    assert [message.text for message in peer.messages(-1009)] == ["some words"]


async def test_broken_connections_and_server_errors_are_retried(peer: TelegramPeer, ask: Ask) -> None:
    sink = ask()
    await sink.open()
    peer.fail("sendMessage", 502, body="<html>Bad Gateway</html>")
    peer.fail("sendMessage", drop="before")
    peer.fail("editMessageText", 500, times=2)
    peer.fail("editMessageText", drop="after")
    await sink.update("some")
    await asyncio.sleep(0.3)
    await sink.update("some more")
    await sink.finish(Reply("some words"))
    assert [message.text for message in peer.messages(GROUP)] == ["some words"]


async def test_a_journal_that_fails_before_posting_posts_nothing(
    peer: TelegramPeer, ask: Ask, delivery_log: DeliveryLog
) -> None:
    delivery_log.down = True
    with pytest.raises(StoreError):
        await ask().finish(Reply("x"))
    assert peer.messages(GROUP) == []


async def test_the_stream_ends_with_the_task_that_made_the_sink(peer: TelegramPeer, ask: Ask) -> None:
    tasks_before = asyncio.all_tasks()

    async def fail_while_streaming() -> None:
        sink = ask()
        # As the answer does it: opened by a short-lived task beside the search.
        await asyncio.create_task(sink.open())
        await sink.update("some")
        await peer.wait_for_reply(GROUP, 30)
        raise RuntimeError("cut off")

    with pytest.raises(RuntimeError):
        await asyncio.create_task(fail_while_streaming())
    await until(
        lambda: not [task for task in asyncio.all_tasks() - tasks_before if "telegram reply" in task.get_name()]
    )
    gc.collect()


async def test_a_message_id_is_reported_even_when_finishing_comes_in_between(
    peer: TelegramPeer, ask: Ask, delivery_log: DeliveryLog
) -> None:
    sink = ask()
    await sink.open()
    await sink.update("some")
    await asyncio.sleep(0)
    await sink.finish(Reply("some words"))
    assert [message.text for message in peer.messages(GROUP)] == ["some words"]
    assert delivery_log.events[-1] == str(peer.messages(GROUP)[0].id)


async def test_stopped_while_told_to_wait_nothing_is_in_doubt(
    peer: TelegramPeer, ask: Ask, delivery_log: DeliveryLog
) -> None:
    peer.fail("sendMessage", 429, description="Too Many Requests: retry after 3", retry_after=3)
    finishing = asyncio.create_task(ask().finish(Reply("x")))
    await until(lambda: delivery_log.events == ["posting", "refused"])
    finishing.cancel()
    await asyncio.gather(finishing, return_exceptions=True)
    assert delivery_log.events == ["posting", "refused"]


async def test_stopped_while_posting_the_id_is_still_reported(peer: TelegramPeer, ask: Ask) -> None:
    go_on = asyncio.Event()

    class Slow(DeliveryLog):
        async def mark_posting(self) -> None:
            await super().mark_posting()
            await go_on.wait()

    sink = ask()
    sink._delivery = sink._retry._delivery = slow_delivery = Slow()
    finishing = asyncio.create_task(sink.finish(Reply("x")))
    await until(lambda: slow_delivery.events)
    finishing.cancel()
    # Until the stop has reached it.
    await asyncio.sleep(0)
    go_on.set()
    await asyncio.gather(finishing, return_exceptions=True)
    assert finishing.cancelled()
    assert slow_delivery.events == ["posting", str(peer.messages(GROUP)[0].id)]


async def test_what_the_stream_was_told_holds_for_the_final_reply(peer: TelegramPeer, ask: Ask) -> None:
    peer.fail("sendMessage", 429, description="Too Many Requests: retry after 1", retry_after=1)
    sink = ask()
    await sink.open()
    await sink.update("some")
    await peer.wait_until(lambda: bool(peer.get_calls("sendMessage")), 30)
    await asyncio.sleep(0.05)
    await sink.finish(Reply("some words"))
    refused_call, accepted_call = peer.get_calls("sendMessage")
    assert accepted_call.at - refused_call.at >= 1


def test_a_message_of_the_journal_is_enough(tmp_path: Path) -> None:
    """What a restart gives back is a message whose reference went through JSON."""

    async def main() -> None:
        async with TelegramPeer() as peer:
            (tmp_path / "token").write_text(peer.token)
            telegram_settings = TelegramSettings(token=Secret(file=tmp_path / "token"), api_url=peer.api_url)
            adapter = TelegramAdapter(telegram_settings, Offsets(), SINK_PACE)
            await adapter.open()
            number = peer.say(GROUP, "hm")
            reference = {"chat_id": GROUP, "message_id": number, "thread_id": None, "username": "ann"}
            question = peer.chats[GROUP].messages[number]
            message = Message(
                str(number),
                ConversationKey("telegram", str(GROUP)),
                "1",
                "Ann",
                question.text,
                sent_at=datetime.now(UTC),
                reference=reference,
            )
            await adapter.sink(message, DeliveryLog()).finish(Reply("yes, @ann"))
            assert [output.text for output in peer.messages(GROUP)] == ["yes, @ann"]
            await adapter.close()

    asyncio.run(main())
