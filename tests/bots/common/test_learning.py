"""Teaching the bot with any message: from its menu on Discord and Slack, by its link, and by those only who may."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text as sql

from bots.common.events import IgnoredEvent
from bots.discord.adapter import DiscordAdapter
from bots.discord.application_commands import MANAGE_GUILD
from bots.discord.convert import Identity
from bots.discord.interactions import from_message_command
from bots.slack.adapter import SlackAdapter
from bots.slack.commands import from_message_shortcut
from bots.slack.convert import Identity as SlackIdentity, parse_subcommand
from core.catalogue import ENGLISH
from core.catalogue.command_spelling import spell_texts
from core.messaging.feedback.handoff import (
    ASK_ABOUT_THIS,
    ASK_SHORTCUT_ID,
    LEARN_FROM_THIS,
    SHORTCUT_ID,
    resolve_target,
)
from core.ports import Adapter
from core.storage.lessons import TaughtAnswerRepository
from core.storage.messages import Journal
from core.types import ConversationKey
from tests.conformance.bot import Script
from tests.support import discord_helpers, slack_helpers
from tests.support.feedback_chat import MESSAGE
from tests.support.fixtures import settings
from tests.support.peers.discord import Author, DiscordPeer
from tests.support.peers.slack import SlackPeer
from tests.support.wiring import make_processor, running

pytestmark = pytest.mark.usefixtures("time_lapse")

BEN = Author("2002", "ben", "Ben")
CLEO = Author("3003", "cleo", "Cleo")
TRUSTED = {"trusted": [f"discord:{CLEO.id}", "slack:U3CLEO"]}
QUESTION = "Which port does the server use?"
ANSWER = "It listens on 8000."
PAIRS = [(QUESTION, ANSWER)]
SLACK_TEXTS = spell_texts(ENGLISH, "`/kimas {}`".format)
# Discord shows a command as a link, with what is written behind it.
_LINKED_COMMAND = re.compile(r"</(\w+):\d+>(?: `([^`]*)`)?")


@pytest.fixture
async def discord(journal: Journal, tmp_path: Path) -> AsyncIterator[DiscordPeer]:
    async with DiscordPeer() as peer, AsyncExitStack() as stack:
        # A busy machine is late with its acknowledgements; other tests look at those.
        peer.acknowledge_s = 30
        adapter = DiscordAdapter(
            discord_helpers.settings(peer, tmp_path), discord_helpers.Positions(), discord_helpers.PACE
        )
        await start_listening(adapter, journal, stack)
        await peer.connected()
        yield peer


@pytest.fixture(params=[False, True], ids=["socket", "http"])
async def slack(journal: Journal, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[SlackPeer]:
    async with SlackPeer() as peer, AsyncExitStack() as stack:
        slack_settings = slack_helpers.settings(peer, tmp_path, http=request.param)
        adapter = SlackAdapter(slack_settings, slack_helpers.Threads().answered_in, slack_helpers.PACE)
        await start_listening(adapter, journal, stack)
        if request.param:
            await peer.wait_until(lambda: adapter.port > 0, 30)
            peer.deliveries.target = f"http://127.0.0.1:{adapter.port}/slack/events"
        yield peer


async def start_listening(adapter: Adapter, journal: Journal, stack: AsyncExitStack) -> None:
    configuration = settings(handoff=TRUSTED, administration={"platform_admins": True})
    await stack.enter_async_context(running(adapter, make_processor(configuration, journal, Script())))


async def list_taught_answers(journal: Journal) -> list[tuple[str, str]]:
    return [
        (answer.question, answer.answer)
        for answer in await TaughtAnswerRepository(journal.database).list_answers(reader=None)
    ]


async def choose_entry(
    peer: DiscordPeer,
    channel_id: str,
    message: str,
    person: Author = CLEO,
    name: str = LEARN_FROM_THIS,
    **extra_fields: int,
) -> str:
    """Choose the entry in the menu of a message; return what is said to that, to who chose alone."""
    command = await peer.choose(channel_id, message, name, person, **extra_fields)
    await peer.wait_until(lambda: command.response_message is not None and bool(command.response_message.content), 30)
    assert command.response_message is not None
    assert command.hidden
    return _LINKED_COMMAND.sub(_to_text, command.response_message.content)


def _to_text(match: re.Match[str]) -> str:
    return f"`/{' '.join(filter(None, match.groups()))}`"


async def next_response(peer: SlackPeer) -> str:
    """Return what is said to the next command or shortcut, to who gave it alone."""
    response_count = len(peer.responses)
    await peer.wait_until(lambda: len(peer.responses) > response_count, 30)
    assert peer.responses[-1]["response_type"] == "ephemeral"
    return str(peer.responses[-1]["text"])


async def test_discord_learns_from_the_menu_of_a_message(discord: DiscordPeer, journal: Journal) -> None:
    channel_id = discord.channel()
    question = await discord.say(channel_id, QUESTION)
    answer = await discord.say(channel_id, ANSWER, author=BEN, reply_to=question)
    await wait_until_journaled(journal, answer)
    assert await choose_entry(discord, channel_id, answer, BEN) == ENGLISH.not_trusted
    assert await list_taught_answers(journal) == []
    assert await choose_entry(discord, channel_id, answer) == ENGLISH.answer_submitted.format(number=1)
    assert await choose_entry(discord, channel_id, answer) == ENGLISH.answer_known
    assert await list_taught_answers(journal) == PAIRS


async def test_who_manages_the_server_is_trusted_with_the_menu_too(discord: DiscordPeer, journal: Journal) -> None:
    channel_id = discord.channel()
    answer = await discord.say(channel_id, ANSWER, author=BEN, reply_to=await discord.say(channel_id, QUESTION))
    await wait_until_journaled(journal, answer)
    message = await choose_entry(discord, channel_id, answer, BEN, permissions=MANAGE_GUILD)
    assert message == ENGLISH.answer_submitted.format(number=1)
    assert await list_taught_answers(journal) == PAIRS


async def test_a_message_that_answers_nothing_on_discord_is_learned_by_its_link(
    discord: DiscordPeer, journal: Journal
) -> None:
    channel_id = discord.channel()
    answer = await discord.say(channel_id, ANSWER, author=BEN)
    await wait_until_journaled(journal, answer)
    assert await choose_entry(discord, channel_id, answer) == ENGLISH.learn_question_missing
    link = f"https://discord.com/channels/{discord.guild}/{channel_id}/{answer}"
    command = await discord.command(channel_id, "learn", CLEO, question=f"{link} {QUESTION}")
    await discord.wait_until(
        lambda: command.response_message is not None and bool(command.response_message.content), 30
    )
    assert command.response_message is not None
    assert command.response_message.content == ENGLISH.answer_submitted.format(number=1)
    assert await list_taught_answers(journal) == PAIRS


async def test_our_own_answer_on_discord_is_not_learned(discord: DiscordPeer, journal: Journal) -> None:
    channel_id = discord.channel()
    await discord.say(channel_id, f"<@{discord.me.id}> {QUESTION}")
    reply = await discord.wait_for_reply(channel_id, 30, containing=QUESTION)
    await wait_until_journaled(journal, reply.id, "reply_id = :id AND state = 'answered'")
    assert await choose_entry(discord, channel_id, reply.id) == ENGLISH.learn_own_words
    assert await list_taught_answers(journal) == []


def test_what_is_chosen_elsewhere_on_discord_is_not_ours() -> None:
    me = Identity("5001", "kimas", "5002")
    member = {"user": {"id": "1001", "username": "ann"}, "permissions": "0"}
    message = {"id": "30", "content": "Hi.", "author": {"id": "5", "username": "b", "bot": True}}
    event: dict[str, Any] = {
        "id": "175928847299117063",
        "type": 2,
        "token": "t",
        "guild_id": "7",
        "member": member,
        "channel": {"id": "20", "type": 0},
        "data": {"type": 3, "name": "Report", "target_id": "30", "resolved": {"messages": {"30": message}}},
    }
    assert isinstance(from_message_command(event, me), IgnoredEvent)
    event["data"]["name"] = LEARN_FROM_THIS
    learn_command = from_message_command(event, me)
    assert not isinstance(learn_command, IgnoredEvent)
    assert (learn_command.reply_to, learn_command.quoted, learn_command.command) == ("30", "Hi.", "learn"), (
        "another bot may be right, too"
    )
    with pytest.raises(KeyError):
        from_message_command({**event, "data": {**event["data"], "resolved": {"messages": {}}}}, me)


async def test_slack_learns_from_the_shortcut_of_a_message(slack: SlackPeer, journal: Journal) -> None:
    question = slack.say("C1", QUESTION)
    answer = slack.say("C1", ANSWER, user="U2BEN", thread=question)
    await wait_until_journaled(journal, answer)
    for user, message in (("U2BEN", ENGLISH.not_trusted), ("U3CLEO", ENGLISH.answer_submitted.format(number=1))):
        slack.choose("C1", answer, SHORTCUT_ID, user=user)
        assert await next_response(slack) == message
    slack.choose("C1", answer, "somebody-elses", user="U3CLEO")
    slack.choose("C1", answer, SHORTCUT_ID, user="U3CLEO")
    assert await next_response(slack) == SLACK_TEXTS.answer_known
    assert await list_taught_answers(journal) == PAIRS


async def test_slack_learns_by_the_link_of_a_message(slack: SlackPeer, journal: Journal) -> None:
    answer_message = slack.say("C1", ANSWER, user="U2BEN")
    await wait_until_journaled(journal, answer_message)
    for words, message in (
        (f"learn {QUESTION}", SLACK_TEXTS.learn_usage),
        (f"learn {slack.link('C1', answer_message)}", SLACK_TEXTS.learn_question_missing),
        (f"learn {slack.link('C1', answer_message)} {QUESTION}", SLACK_TEXTS.answer_submitted.format(number=1)),
    ):
        slack.command(words, user="U3CLEO")
        assert await next_response(slack) == message
    assert await list_taught_answers(journal) == PAIRS


async def wait_until_journaled(journal: Journal, number: str, condition: str = "id = :id") -> None:
    """Wait until the bot has seen a message, or has said it and written that down."""
    async with asyncio.timeout(30):
        while not await is_journaled(journal, number, condition):
            await asyncio.sleep(0.01)


async def is_journaled(journal: Journal, number: str, condition: str) -> bool:
    async with journal.database.connect() as connection:
        result = await connection.scalar(sql(f"SELECT count(*) FROM messages WHERE {condition}"), {"id": number})  # noqa: S608
        return bool(result)


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        ("learn Which port?", "Which port?"),
        ("learn https://x.slack.com/archives/C1/p1700000000000100?thread_ts=17.1 Which?", "1700000000.000100 Which?"),
        ("learn <https://x.slack.com/archives/C1/p1700000000000100> Which?", "1700000000.000100 Which?"),
        ("learn", ""),
    ],
)
def test_learn_is_the_command_on_slack_whatever_follows(words: str, arguments: str) -> None:
    assert parse_subcommand(words) == ("learn", arguments)


@pytest.mark.parametrize(
    ("text", "number", "rest"),
    [
        ("https://discord.com/channels/1/2/175928847299117063 Why?", "175928847299117063", "Why?"),
        ("https://t.me/c/100/42 Why?", "", "https://t.me/c/100/42 Why?"),
        ("1700000000.000100 Why?", "1700000000.000100", "Why?"),
        ("42 ports or 43?", "", "42 ports or 43?"),
        ("https://example.org/ports is right?", "", "https://example.org/ports is right?"),
        ("", "", ""),
    ],
)
def test_a_command_points_at_a_message_by_its_link_alone(text: str, number: str, rest: str) -> None:
    command = replace(MESSAGE, key=ConversationKey("test", "room"), command="learn", text=text)
    assert (resolve_target(command).reply_to, resolve_target(command).text) == (number, rest)
    assert resolve_target(replace(command, reply_to="7")) == replace(command, reply_to="7")


def test_what_was_forwarded_teaches_nothing() -> None:
    shares = [{"is_share": True, "text": "Use port 1."}]
    target = {"user": "U2", "text": "look", "ts": "1.5", "attachments": shares}
    payload = {
        "channel": {"id": "C1"},
        "user": {"id": "U1"},
        "message": target,
        "message_ts": "1.5",
        "trigger_id": "t",
        "response_url": "http://127.0.0.1/r",
    }
    event: dict[str, Any] = {
        "id": "175928847299117063",
        "type": 2,
        "token": "t",
        "guild_id": "7",
        "member": {"user": {"id": "1001", "username": "ann"}, "permissions": "0"},
        "channel": {"id": "20", "type": 0},
    }
    snapshots = [{"message": {"content": "Use port 1."}}]
    forward = {"id": "30", "content": "", "author": {"id": "5", "username": "b"}, "message_snapshots": snapshots}
    data = {"type": 3, "target_id": "30", "resolved": {"messages": {"30": forward}}}
    quoted_texts = []
    for shortcut, entry in ((SHORTCUT_ID, LEARN_FROM_THIS), (ASK_SHORTCUT_ID, ASK_ABOUT_THIS)):
        on_slack = from_message_shortcut({**payload, "callback_id": shortcut}, SlackIdentity("U9"))
        on_discord = from_message_command({**event, "data": {**data, "name": entry}}, Identity("5001", "kimas", "5002"))
        assert not isinstance(on_slack, IgnoredEvent)
        assert not isinstance(on_discord, IgnoredEvent)
        quoted_texts.append((on_slack.quoted, on_discord.quoted))
    assert quoted_texts == [("look", ""), ("look\nUse port 1.", "Use port 1.")]
