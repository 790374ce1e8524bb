"""One reply against a strict server: signs, streams, edits, limits, and everything that Slack may refuse."""

from __future__ import annotations

import asyncio
import gc
import re
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext

import pytest

from bots.slack.adapter import SlackAdapter
from bots.slack.render import MAX_CHARS
from core.errors import MessageDeleted, PlatformError, UsageError
from core.ports import Sink
from core.types import Citation, Reply
from tests.support.peers.slack import BOT, SlackPeer
from tests.support.sink_helpers import DeliveryLog
from tests.support.slack_helpers import PACE, Inbox
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("time_lapse")

CITED = (Citation(1, "p1", "docs", "Install", "docs/install.md", "https://example.org/install?a=1&b=2"),)
STREAMS = {"chat.startStream", "chat.appendStream", "chat.stopStream"}
STATUS = "assistant.threads.setStatus"

Ask = Callable[..., Awaitable[Sink]]


@pytest.fixture
def delivery_log() -> DeliveryLog:
    return DeliveryLog()


@pytest.fixture
def ask(peer: SlackPeer, adapter: SlackAdapter, inbox: Inbox, delivery_log: DeliveryLog) -> Ask:
    """Have somebody ask and return the sink for the answer."""

    async def open_sink(channel: str = "C1", *, previous: str = "", command: str = "") -> Sink:
        count = len(inbox.messages) + 1
        if command:
            peer.command(command, channel=channel)
        else:
            peer.say(channel, f"<@{BOT}> what is it?")
        return adapter.sink(await inbox.until(count), delivery_log, previous)

    return open_sink


async def test_a_channel_sees_a_status_then_a_stream_then_the_cited_answer(
    peer: SlackPeer, ask: Ask, delivery_log: DeliveryLog, inbox: Inbox
) -> None:
    sink = await ask()
    await sink.open()
    await peer.wait_until(lambda: bool(peer.statuses), 30)
    assert peer.statuses == {inbox.messages[0].id: "is looking it up…"}
    await sink.update("The **first**")
    first = await peer.wait_for_reply("C1", 30)
    assert (first.text, first.thread_ts, first.streaming) == ("The **first**", inbox.messages[0].id, True)
    await peer.wait_until(lambda: len(delivery_log.events) == 2, 30)
    assert delivery_log.events == ["posting", first.ts]
    await sink.update("The **first** words <!chan")
    await sink.update("The **first** words <!channel> <@U1ANN> @here")
    await peer.wait_for_reply("C1", 30, containing="words")
    await sink.finish(Reply("The **first** words are *final* [1]. <!channel> @everyone", CITED))
    (message,) = peer.messages("C1")
    link = "<https://example.org/install?a=1&amp;b=2|"
    assert message.text == (
        f"The *first* words are _final_ {link}[1]>. &lt;!channel&gt; @\u2060everyone\n\n*Sources*\n[1] {link}Install>"
    )
    assert message.links() == [CITED[0].url] * 2
    assert (message.ts, message.streaming, message.notifies()) == (first.ts, False, [])
    assert peer.statuses == {}
    assert delivery_log.events == ["posting", message.ts]
    assert {call.error for call in peer.calls} == {""}
    (start,) = peer.get_calls("chat.startStream")
    assert (start.parameters["recipient_user_id"], start.parameters["recipient_team_id"]) == ("U1ANN", "T1")


async def test_without_streams_and_statuses_there_is_a_reaction_and_edits(
    peer: SlackPeer, ask: Ask, delivery_log: DeliveryLog, inbox: Inbox
) -> None:
    peer.lacking = {*STREAMS, STATUS}
    sink = await ask()
    await sink.open()
    question = peer.message("C1", inbox.messages[0].id)
    await peer.wait_until(lambda: question.reactions == {"eyes"}, 30)
    await sink.update("The **first**")
    first = await peer.wait_for_reply("C1", 30, containing="*first*")
    await until(lambda: len(delivery_log.events) == 4)
    assert delivery_log.events == ["posting", "refused", "posting", first.ts]
    await sink.update("The **first** words")
    await peer.wait_for_reply("C1", 30, containing="words")
    await sink.finish(Reply("Done."))
    assert [message.text for message in peer.messages("C1")] == ["Done."]
    assert question.reactions == set()
    second = await ask()
    await second.open()
    await second.finish(Reply("Again."))
    assert len(peer.get_calls("chat.startStream")) == 1, "what is lacking is tried once"
    assert len(peer.get_calls(STATUS)) == 1


async def test_names_stay_words_in_what_is_edited_as_in_what_is_posted(peer: SlackPeer, ask: Ask) -> None:
    peer.lacking = {*STREAMS, STATUS}
    sink = await ask()
    await sink.open()
    await sink.update("Ask @bea in #general")
    await peer.wait_for_reply("C1", 30, containing="#general")
    await sink.finish(Reply("Ask @bea in #general, not @here or @channel."))
    [message] = peer.messages("C1")
    assert len(message.history) > 1, "it was edited"
    assert (message.notifies(), [text for _, text in message.history if "<" in text]) == ([], [])
    assert "@bea in #general" in message.text


async def test_with_nothing_to_show_a_sign_with_a_placeholder_stands_in(
    peer: SlackPeer, ask: Ask, delivery_log: DeliveryLog
) -> None:
    peer.lacking = {STATUS, "reactions.add", "reactions.remove"}
    sink = await ask()
    await sink.open()
    message = await peer.wait_for_reply("C1", 30)
    assert message.text == "_Looking it up…_"
    await sink.finish(Reply("Here."))
    assert [item.text for item in peer.messages("C1")] == ["Here."]
    assert delivery_log.events == ["posting", message.ts]


async def test_a_direct_conversation_is_answered_outside_threads(peer: SlackPeer, ask: Ask) -> None:
    sink = await ask("D1")
    await sink.open()
    await sink.update("One")
    assert (await peer.wait_for_reply("D1", 30)).thread_ts == ""
    await sink.finish(Reply("One two."))
    assert [message.text for message in peer.messages("D1")] == ["One two."]
    assert peer.get_calls("chat.startStream") == []


async def test_a_stream_that_slack_closed_is_continued_by_edits(
    peer: SlackPeer, ask: Ask, delivery_log: DeliveryLog
) -> None:
    sink = await ask()
    await sink.open()
    await sink.update("One")
    await peer.wait_for_reply("C1", 30)
    peer.end_streams()
    await sink.update("One two")
    await peer.wait_until(lambda: bool(peer.get_calls("chat.update")), 30)
    await sink.update("One two three")
    await sink.finish(Reply("One two three."))
    assert [message.text for message in peer.messages("C1")] == ["One two three."]
    assert len(delivery_log.events) == 2


async def test_a_stream_that_closes_just_before_the_end_is_no_failure(peer: SlackPeer, ask: Ask) -> None:
    sink = await ask()
    await sink.open()
    await sink.update("One")
    await peer.wait_for_reply("C1", 30)
    peer.end_streams()
    await sink.finish(Reply("One two."))
    assert [message.text for message in peer.messages("C1")] == ["One two."]


async def test_a_text_that_was_rewritten_is_shown_by_edits(peer: SlackPeer, ask: Ask) -> None:
    sink = await ask()
    await sink.open()
    await sink.update("One")
    await peer.wait_for_reply("C1", 30)
    await sink.update("Two")
    assert (await peer.wait_for_reply("C1", 30, containing="Two")).text == "Two"
    await sink.finish(Reply("Two."))
    assert [message.text for message in peer.messages("C1")] == ["Two."]


async def test_a_piece_that_may_have_arrived_is_not_sent_twice(peer: SlackPeer, ask: Ask) -> None:
    peer.fail("chat.appendStream", drop="after")
    sink = await ask()
    await sink.open()
    await sink.update("One")
    await peer.wait_for_reply("C1", 30)
    await sink.update("One two")
    await peer.wait_until(lambda: bool(peer.get_calls("chat.appendStream")), 30)
    await sink.update("One two three")
    message = await peer.wait_for_reply("C1", 30, containing="three")
    await sink.finish(Reply("One two three."))
    assert not any("two two" in text for _, text in message.history)


async def test_an_answer_that_is_never_streamed_is_one_post(
    peer: SlackPeer, ask: Ask, delivery_log: DeliveryLog
) -> None:
    sink = await ask()
    await sink.finish(Reply("Short."))
    (message,) = peer.messages("C1")
    assert (message.text, message.unfurls) == ("Short.", False)
    assert delivery_log.events == ["posting", message.ts]


async def test_long_answers_go_on_in_the_thread(peer: SlackPeer, ask: Ask, inbox: Inbox) -> None:
    code = "\n".join(f"line_{number} = '<{number}>'" for number in range(300))
    text = "\n\n".join([*(f"Paragraph {number} " + "word " * 60 for number in range(30)), f"```\n{code}\n```", "End."])
    sink = await ask()
    await sink.open()
    await sink.update(text)
    await sink.finish(Reply(text))
    messages = peer.messages("C1")
    assert len(messages) > 3
    assert all(len(message.text) <= MAX_CHARS and message.text.count("```") % 2 == 0 for message in messages)
    assert {message.thread_ts for message in messages} == {inbox.messages[0].id}
    whole_text = "\n".join(message.text for message in messages)
    assert all(f"Paragraph {number} " in whole_text for number in range(30))
    assert re.findall(r"line_(\d+) ", whole_text) == [str(number) for number in range(300)]
    assert messages[-1].text.endswith("End.")


async def test_states_come_no_faster_than_the_pace_for_all_replies_together(peer: SlackPeer, ask: Ask) -> None:
    def times() -> list[float]:
        return sorted(call.at for call in peer.calls if call.method in ("chat.startStream", "chat.appendStream"))

    sinks = [await ask() for _ in range(4)]
    started_at = time.monotonic()
    number = 0
    for sink in sinks:
        await sink.open()
    async with asyncio.timeout(30):
        while len(times()) < 8:
            number += 1
            for sink in sinks:
                await sink.update("word " * number)
            await asyncio.sleep(0.01)
    for sink in sinks:
        await sink.finish(Reply("Done."))
    # No call comes before its turn; a busy machine may make it late, and the next one seem early.
    for count, at in enumerate(times(), 1):
        assert count <= 1 + (at - started_at) / PACE.append_s
    assert [message.text for message in peer.messages("C1")] == ["Done."] * 4


@pytest.mark.parametrize("method", ["chat.postMessage", "chat.startStream", "chat.update"])
async def test_a_limit_is_waited_out_and_said_to_be_a_refusal(
    peer: SlackPeer, ask: Ask, delivery_log: DeliveryLog, method: str
) -> None:
    if method == "chat.postMessage":
        peer.lacking = set(STREAMS)
    peer.fail(method, "ratelimited", status=429, retry_after=1)
    sink = await ask()
    await sink.open()
    started_at = asyncio.get_running_loop().time()
    await sink.update("One")
    await peer.wait_until(lambda: bool(peer.get_calls(method) or (method == "chat.update" and peer.messages("C1"))), 30)
    await sink.finish(Reply("One two."))
    assert asyncio.get_running_loop().time() - started_at >= 0.9
    assert [message.text for message in peer.messages("C1")] == ["One two."]
    assert delivery_log.events[-2:] == ["posting", peer.messages("C1")[0].ts]
    assert delivery_log.events.count("posting") == delivery_log.events.count("refused") + 1


async def test_a_patience_that_ends_is_raised(peer: SlackPeer, ask: Ask, delivery_log: DeliveryLog) -> None:
    peer.fail("chat.postMessage", "ratelimited", status=429, retry_after=30)
    sink = await ask()
    with pytest.raises(PlatformError, match="wait 30 s"):
        await sink.finish(Reply("One."))
    assert delivery_log.events == ["posting", "refused"]


async def test_a_broken_connection_leaves_doubt_and_is_tried_again(
    peer: SlackPeer, ask: Ask, delivery_log: DeliveryLog
) -> None:
    peer.fail("chat.postMessage", drop="before")
    sink = await ask()
    await sink.finish(Reply("One."))
    assert delivery_log.events == ["posting", "posting", peer.messages("C1")[0].ts]
    assert len(peer.messages("C1")) == 1


@pytest.mark.parametrize("streaming", [True, False])
async def test_a_reply_begun_before_a_crash_is_edited_to_its_end(
    peer: SlackPeer, ask: Ask, delivery_log: DeliveryLog, adapter: SlackAdapter, inbox: Inbox, streaming: bool
) -> None:
    peer.lacking = set() if streaming else set(STREAMS)
    sink = await ask()
    await sink.open()
    await sink.update("One")
    first_reply = await peer.wait_for_reply("C1", 30)
    assert first_reply.streaming == streaming
    second_sink = adapter.sink(inbox.messages[0], delivery_log, first_reply.ts)
    await second_sink.open()
    await second_sink.update("One two")
    await peer.wait_for_reply("C1", 30, containing="One two")
    await second_sink.finish(Reply("One two three."))
    assert [(message.ts, message.text) for message in peer.messages("C1")] == [(first_reply.ts, "One two three.")]
    assert delivery_log.events.count("posting") <= 2
    assert peer.statuses == {}
    await sink.finish(Reply("One two three."))


async def test_a_deleted_question_gets_no_answer(
    peer: SlackPeer, ask: Ask, delivery_log: DeliveryLog, inbox: Inbox
) -> None:
    sink = await ask()
    question = inbox.messages[0]
    peer.delete("C1", question.id)
    await peer.wait_until(lambda: all(envelope.acknowledged.is_set() for envelope in peer.deliveries.envelopes), 30)
    with pytest.raises(MessageDeleted, match="question was deleted"):
        await sink.finish(Reply("One."))
    assert peer.messages("C1") == []
    assert delivery_log.events == []


async def test_a_reply_that_was_deleted_is_not_written_again(peer: SlackPeer, ask: Ask) -> None:
    sink = await ask("D1")
    await sink.open()
    await sink.update("One")
    message = await peer.wait_for_reply("D1", 30)
    peer.delete("D1", message.ts)
    with pytest.raises(MessageDeleted):
        await sink.finish(Reply("One two."))
    assert peer.messages("D1") == []


async def test_a_channel_the_bot_is_not_in_is_named(peer: SlackPeer, ask: Ask, delivery_log: DeliveryLog) -> None:
    sink = await ask()
    peer.not_in.add("C1")
    with pytest.raises(PlatformError, match="not in the channel; /invite it"):
        await sink.finish(Reply("One."))
    assert delivery_log.events == ["posting", "refused"]


async def test_a_reply_that_can_no_longer_be_edited_is_posted_anew(peer: SlackPeer, ask: Ask) -> None:
    peer.fail("chat.update", "edit_window_closed")
    sink = await ask("D1")
    await sink.open()
    await sink.update("One")
    await peer.wait_for_reply("D1", 30)
    await sink.finish(Reply("Two."))
    assert peer.messages("D1")[-1].text == "Two."


async def test_a_failure_is_told_in_place_of_the_reply(peer: SlackPeer, ask: Ask) -> None:
    sink = await ask()
    await sink.open()
    await sink.update("One")
    await peer.wait_for_reply("C1", 30)
    await sink.fail("Sorry, I could not answer this.")
    assert [message.text for message in peer.messages("C1")] == ["Sorry, I could not answer this."]


async def test_a_cancelled_answer_leaves_no_task_behind(peer: SlackPeer, ask: Ask) -> None:
    async def answer() -> None:
        sink = await ask()
        await sink.open()
        await sink.update("One")
        await asyncio.Event().wait()

    def list_tasks() -> list[str]:
        return [item.get_name() for item in asyncio.all_tasks() if item.get_name().startswith("slack reply")]

    task = asyncio.create_task(answer())
    await peer.wait_for_reply("C1", 30)
    assert list_tasks(), "it shows the reply in a task of its own"
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await until(lambda: not list_tasks())
    gc.collect()
    assert list_tasks() == []


async def test_a_command_is_answered_for_everybody_and_help_for_the_asker(
    peer: SlackPeer, ask: Ask, delivery_log: DeliveryLog
) -> None:
    for command in ("ask What is it?", "help"):
        sink = await ask(command=command)
        await sink.open()
        await sink.update("It")
        await sink.finish(Reply("It **is** [1].", CITED))
    assert [response["response_type"] for response in peer.responses] == ["in_channel", "ephemeral"]
    assert peer.responses[0]["text"].startswith("> ann: What is it?\n\nIt *is* <https://example.org/install")
    assert delivery_log.events == ["posting", "response_url"] * 2
    failed_reply = await ask(command="ask What?")
    await failed_reply.fail("Sorry.")
    assert peer.responses[-1]["response_type"] == "ephemeral"


async def test_the_answer_to_a_command_is_cut_and_not_posted_twice(
    peer: SlackPeer, ask: Ask, delivery_log: DeliveryLog
) -> None:
    sink = await ask(command="ask everything")
    await sink.finish(Reply("\n\n".join("word " * 600 for _ in range(9))))
    assert len(peer.responses) == 4
    assert "too long to show in full" in peer.responses[-1]["text"]
    resumed_reply = await ask(command="ask everything", previous="response_url")
    await resumed_reply.finish(Reply("Again."))
    assert len(peer.responses) == 4


async def test_a_channel_without_threads_is_answered_in_the_channel(peer: SlackPeer, ask: Ask) -> None:
    peer.lacking = set(STREAMS)
    peer.fail("chat.postMessage", "restricted_action_non_threadable_channel")
    sink = await ask()
    await sink.finish(Reply("The **answer**."))
    assert [(message.text, message.thread_ts) for message in peer.messages("C1")] == [("The *answer*.", "")]


@pytest.mark.parametrize(("command", "is_public"), [("ask What is it?", True), ("help", False)])
async def test_a_command_whose_answer_slack_refuses_is_answered_by_a_message(
    peer: SlackPeer, ask: Ask, command: str, is_public: bool
) -> None:
    sink = await ask(command=command)
    peer.say("C1", "hello")
    peer.refused_responses = 2
    await sink.finish(Reply("It **is** [here](https://example.org/a)."))
    text = "It *is* here (https://example.org/a)."
    assert peer.responses == []
    assert [message.text for message in peer.messages("C1")] == ([f"> ann: What is it?\n\n{text}"] if is_public else [])
    assert peer.hidden == ([] if is_public else [("U1ANN", text)])


@pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "open"])
async def test_a_part_that_waited_for_its_turn_is_judged_again(
    peer: SlackPeer, ask: Ask, delivery_log: DeliveryLog, monkeypatch: pytest.MonkeyPatch, *, is_closed: bool
) -> None:
    """Other answers were posted in the channel before it, and a source was closed."""
    text = "\n\n".join(f"Paragraph {number} " + "word " * 60 for number in range(60))
    sink = await ask()
    wait = sink._wait_for_slot  # type: ignore[attr-defined]

    async def wait_longer() -> None:
        await wait()
        delivery_log.are_rights_lost = is_closed and bool(peer.messages("C1"))

    monkeypatch.setattr(sink, "_wait_for_slot", wait_longer)
    await sink.open()
    with pytest.raises(UsageError) if is_closed else nullcontext():
        await sink.finish(Reply(text))
    assert (len(peer.messages("C1")) == 1) == is_closed


async def test_the_end_of_an_answer_is_judged_when_it_is_shown(
    peer: SlackPeer, ask: Ask, delivery_log: DeliveryLog
) -> None:
    """A state of it was being posted for a while, and a source was closed."""
    sink = await ask()
    await sink.open()
    await sink.update("The **first**")
    await peer.wait_for_reply("C1", 30)
    delivery_log.are_rights_lost = True
    with pytest.raises(UsageError):
        await sink.finish(Reply("The **first** secret"))
    assert "secret" not in peer.messages("C1")[0].text
