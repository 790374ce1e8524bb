"""Slack's agent view and App Home: what is suggested and shown to whom, and a conversation in threads of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from bots.slack.adapter import SlackAdapter
from core.answering.introduction import suggest_questions
from core.catalogue import ENGLISH
from core.catalogue.zh import MESSAGES as CHINESE
from core.language.courtesies import find_courtesy
from core.messaging.event_limit import MAX_EVENTS
from core.messaging.feedback.rating_buttons import with_answer_buttons
from core.messaging.inbox import Inbox as BotInbox
from core.ports import Sink
from core.storage.erasure import erase_on_platform
from core.storage.messages import Journal
from core.storage.tables import messages
from core.types import Question, Reply
from tests.support.fixtures import settings
from tests.support.peers.slack import ANN, SlackPeer
from tests.support.sink_helpers import DeliveryLog, write_until_stopped
from tests.support.slack_helpers import PACE, Inbox, Threads, listening, settings as slack_settings
from tests.support.wiring import make_processor

pytestmark = pytest.mark.usefixtures("time_lapse")
BEN = "U2BEN"
AGENTS = {
    "manual": {"sources": ["docs"], "examples": ["How do I install it?", "Installing means running pip."]},
    "team": {"sources": ["internal"], "examples": ["When is the release?", "How do I install it?"]},
}
SOURCES = {
    "docs": {"kind": "faq", "path": "faq.yaml"},
    "internal": {"kind": "faq", "path": "internal.yaml", "audience": ["slack:C7"]},
}


@pytest.fixture
def agent(peer: SlackPeer) -> SlackPeer:
    peer.scopes.add("assistant:write")
    return peer


async def answer(question: Question, sink: Sink) -> Reply:
    await sink.open()
    reply = Reply(f"Answer to: {question.text}")
    await sink.finish(reply)
    return reply


@asynccontextmanager
async def run_bot(
    peer: SlackPeer, journal: Journal, folder: Path, answers: Any = answer, **changes: Any
) -> AsyncIterator[BotInbox]:
    """Run a bot as the daemon does, with two sources of which one is for a channel only."""
    adapter = SlackAdapter(slack_settings(peer, folder), Threads().answered_in, PACE)
    configuration = settings(
        sources=changes.pop("sources", SOURCES),
        agents=AGENTS,
        slack={"bot_token": {"env": "A"}, "app_token": {"env": "B"}},
        **changes,
    )
    processor = make_processor(configuration, journal, answers)
    await adapter.open()
    adapter.open = do_nothing  # type: ignore[method-assign]
    inbox = Inbox()
    inbox.receive = processor.handler_for(adapter)  # type: ignore[method-assign]
    async with listening(adapter, inbox):
        yield processor
        await processor.join()


async def do_nothing() -> None:
    """The adapter is open already: a processor is made of it."""


def home(peer: SlackPeer, user: str = ANN) -> str:
    view: Mapping[str, Any] = peer.views.homes.get(user, {"blocks": []})
    return "\n".join(block["text"]["text"] for block in view["blocks"])


async def test_app_home_says_what_the_bot_is_and_knows(peer: SlackPeer, journal: Journal, tmp_path: Path) -> None:
    async with run_bot(peer, journal, tmp_path):
        peer.open_home()
        await peer.wait_until(lambda: ANN in peer.views.homes, 30)
    assert "I answer questions" in home(peer)
    assert "*manual*" in home(peer)
    assert "team" not in home(peer), "its source is for a channel only"
    assert "`/kimas ask QUESTION`" in home(peer)
    assert "/kimas pause" not in home(peer), "only who looks after the bot may give it"
    assert peer.messages("D1") == [], "nothing is written into the conversation"


async def test_who_opened_app_home_is_forgotten(peer: SlackPeer, journal: Journal, tmp_path: Path) -> None:
    async with run_bot(peer, journal, tmp_path):
        peer.open_home()
        await peer.wait_until(lambda: ANN in peer.views.homes, 30)
    rows = await journal.database.fetch_all(select(messages))
    assert ANN in rows[0].thread
    await erase_on_platform(journal.database, "slack", ANN, date.today())
    assert ANN not in str(await journal.database.fetch_all(select(messages)))


async def test_opening_app_home_again_and_again_leaves_the_journal_alone(
    peer: SlackPeer, journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine this takes so long that the limit admits one more.
    monkeypatch.setattr("core.messaging.event_limit.EVENTS_PER_MINUTE", 0)
    async with run_bot(peer, journal, tmp_path):
        envelopes = [peer.open_home() for _ in range(3 * MAX_EVENTS)]
        await peer.wait_until(envelopes[-1].acknowledged.is_set, 60)
    assert await journal.database.fetch_value(select(func.count()).select_from(messages)) == MAX_EVENTS
    assert len(peer.get_calls("views.publish")) == MAX_EVENTS, "they do not count as answers to somebody who loops"


async def test_nobody_else_has_an_app_home(peer: SlackPeer, journal: Journal, tmp_path: Path) -> None:
    peer.guests = {BEN}
    async with run_bot(peer, journal, tmp_path) as processor:
        for user in (BEN, "W-unknown"):
            peer.open_home(user)
            await peer.wait_until(lambda: len(peer.get_calls("users.info")) > 0, 30)
        await processor.join()
        peer.open_home()
        await peer.wait_until(lambda: ANN in peer.views.homes, 30)
    assert list(peer.views.homes) == [ANN]
    assert peer.get_calls("views.publish")[0].parameters["user_id"] == ANN


async def test_without_the_right_to_look_people_up_app_home_stays_empty(
    peer: SlackPeer, journal: Journal, tmp_path: Path
) -> None:
    peer.lacking = {"users.info"}
    async with run_bot(peer, journal, tmp_path):
        peer.open_home()
        await peer.wait_until(lambda: bool(peer.get_calls("users.info")), 30)
    assert peer.get_calls("views.publish") == []


async def test_where_private_chats_are_off_app_home_stays_empty(
    peer: SlackPeer, journal: Journal, tmp_path: Path
) -> None:
    async with run_bot(peer, journal, tmp_path, gate={"private": False}):
        envelope = peer.open_home()
        await peer.wait_until(envelope.acknowledged.is_set, 30)
    assert peer.get_calls("views.publish") == []


async def test_a_home_that_slack_refuses_is_published_as_plain_text(
    peer: SlackPeer, journal: Journal, tmp_path: Path
) -> None:
    peer.fail("views.publish", "invalid_blocks")
    async with run_bot(peer, journal, tmp_path):
        peer.open_home()
        await peer.wait_until(lambda: ANN in peer.views.homes, 30)
    assert {block["text"]["type"] for block in peer.views.homes[ANN]["blocks"]} == {"plain_text"}
    assert "I answer questions" in home(peer)


@pytest.mark.parametrize("is_shared", [False, True])
@pytest.mark.parametrize("has_agent_view", [True, False])
async def test_who_opens_a_conversation_reads_questions_to_ask(
    agent: SlackPeer, journal: Journal, tmp_path: Path, has_agent_view: bool, is_shared: bool
) -> None:
    """Somebody of another organization reads none of those about what the workspace alone may see."""
    agent.has_agent_view = has_agent_view
    agent.shared_channels = {"D1"} if is_shared else set()
    sources = {**SOURCES, "docs": {**SOURCES["docs"], "audience": ["slack"]}}
    async with run_bot(agent, journal, tmp_path, sources=sources):
        if has_agent_view:
            agent.open_home(tab="messages")
        else:
            agent.start_thread(kind="assistant_thread_context_changed")
            agent.start_thread()
        await agent.wait_until(lambda: bool(agent.suggested), 30)
    [(title, questions)] = agent.suggested.values()
    assert title == ENGLISH.prompts_title
    assert questions == ([] if is_shared else ["How do I install it?"]) + [ENGLISH.what_can_you_do]
    assert agent.messages("D1")[2:] == []


async def test_an_app_that_is_no_agent_suggests_nothing(peer: SlackPeer, journal: Journal, tmp_path: Path) -> None:
    async with run_bot(peer, journal, tmp_path):
        envelope = peer.open_home(tab="messages")
        await peer.wait_until(envelope.acknowledged.is_set, 30)
    assert peer.get_calls("assistant.threads.setSuggestedPrompts") == []


def test_questions_are_suggested_of_each_agent_in_turn() -> None:
    sources = {
        "a": {"sources": ["docs"], "examples": ["One?", "A passage.", "Two?", f"{'long' * 40}?"]},
        "b": {"sources": ["docs"], "examples": ["一？", "One?", "Three?"]},
    }
    assert suggest_questions(settings(agents=sources).retrieval_agents(), ENGLISH) == [
        "One?",
        "一？",
        "Two?",
        ENGLISH.what_can_you_do,
    ]
    assert suggest_questions(settings().retrieval_agents(), CHINESE) == [CHINESE.what_can_you_do]
    assert [find_courtesy(texts.what_can_you_do) for texts in (ENGLISH, CHINESE)] == ["help", "help"]


Ask = Callable[..., Awaitable[Sink]]


async def test_an_agent_view_conversation_has_a_title_a_status_and_a_stream(agent: SlackPeer, tmp_path: Path) -> None:
    inbox = Inbox()
    adapter = SlackAdapter(slack_settings(agent, tmp_path), Threads().answered_in, PACE)
    async with listening(adapter, inbox):
        question = agent.say("D1", "How do I install it?")
        sink = adapter.sink(with_answer_buttons(await inbox.until(1), "", has_ratings=True), DeliveryLog())
        await sink.open()
        await agent.wait_until(lambda: agent.sessions == {("D1", question): "processing"}, 30)
        assert agent.titles == {("D1", question): "How do I install it?"}
        assert question in agent.statuses
        await sink.update("With pip")
        message = await agent.wait_for_reply("D1", 30, containing="pip")
        assert (message.thread_ts, message.streaming) == (question, True)
        await sink.finish(Reply("With pip."))
        assert agent.sessions == {("D1", question): "active"}
        agent.say("D1", "And then?", thread=question)
        follow_up = await inbox.until(2)
        assert follow_up.key == inbox.messages[0].key, "one thread is one conversation"


async def test_a_conversation_of_the_older_view_gets_its_title_once(agent: SlackPeer, tmp_path: Path) -> None:
    agent.has_agent_view = False
    inbox = Inbox()
    adapter = SlackAdapter(slack_settings(agent, tmp_path), Threads().answered_in, PACE)
    async with listening(adapter, inbox):
        thread = agent.start_thread()
        await inbox.until(1)
        for number, text in enumerate(("How do I install it?", "And then?"), 2):
            agent.say("D1", text, thread=thread)
            sink = adapter.sink(await inbox.until(number), DeliveryLog())
            await sink.open()
            await agent.wait_until(lambda: ("D1", thread) in agent.titles and thread in agent.statuses, 30)
            await sink.finish(Reply("With pip."))
        assert agent.titles == {("D1", thread): "How do I install it?"}
        assert [call.error for call in agent.get_calls("agents.sessions.setStatus")] == ["feature_not_enabled"]
        assert len(agent.get_calls("assistant.threads.setTitle")) == 1


@pytest.mark.parametrize("streams", [True, False])
async def test_slacks_own_button_stops_the_answer_of_who_asked(
    agent: SlackPeer, journal: Journal, tmp_path: Path, streams: bool
) -> None:
    agent.lacking = set() if streams else {"chat.startStream"}
    async with run_bot(agent, journal, tmp_path, write_until_stopped):
        question = agent.say("D1", "How do I stop it?")
        await agent.wait_for_reply("D1", 30, containing="Half an answer")
        agent.stop_session("D1", question, user=BEN)
        await agent.wait_until(lambda: bool(agent.hidden), 30)
        assert agent.hidden == [(BEN, ENGLISH.only_asker_stops)]
        agent.stop_session("D1", question)
        await agent.wait_for_reply("D1", 30, containing="Stopped on request")
        await agent.wait_until(lambda: agent.sessions == {("D1", question): "active"}, 30)
    assert len(agent.messages("D1")) == 1
    assert len(agent.hidden) == 1, "who stopped it sees that it stopped"
