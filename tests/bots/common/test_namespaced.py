"""Several bots of one platform in one daemon: each answers who addresses it, and together they speak once."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bots.cli.check import check
from bots.cli.probes import make_probes
from bots.common.connection import EXIT_REFUSED
from bots.common.dry_run import DryRunAdapter
from bots.common.namespaced import NamespacedAdapter
from bots.daemon.adapters import find_port_conflicts, find_token_conflicts, make_adapters
from bots.daemon.bootstrap import make_live_settings
from core.errors import PlatformError, UsageError
from core.messaging.gate.follow_up import is_follow_up, other_bot_reason
from core.messaging.journaling import recover_pending
from core.ports import Adapter
from core.settings import Settings
from core.storage.chat_history import ChatHistory
from core.storage.messages import Journal
from core.types import ConversationKey, Message, Origin, Reply, ThreadState
from tests.support.deployment import ROOT, Deployment, make_repository
from tests.support.free_ports import free_port
from tests.support.peers.callback import SECRET, CallbackPeer
from tests.support.peers.discord import PRIVATE, DiscordPeer
from tests.support.peers.language_model import LanguageModelPeer
from tests.support.peers.slack import SlackPeer
from tests.support.peers.telegram import TelegramPeer
from tests.support.plain_bot import QUESTION, Plain, message
from tests.support.waiting import until

pytestmark = pytest.mark.slow

GROUP = -1001
ANN = 5
READY_S = 60.0


@pytest.fixture
def deployment(tmp_path: Path, model: LanguageModelPeer) -> Deployment:
    sources = {"rocket": {"kind": "git", "url": str(make_repository(tmp_path / "rocket"))}}
    settings = {
        "sources": sources,
        "gate": {"mode": "auto", "wait_s": 0, "cooldown_s": 0, "threshold": 0.05},
        "models": {"main": {"base_url": model.base_url, "model": "peer"}},
    }
    result = Deployment(tmp_path, settings)
    assert result.json("ingest")["sources"][0]["added"] == 2
    return result


@pytest.fixture
async def first() -> AsyncIterator[TelegramPeer]:
    async with TelegramPeer() as peer:
        yield peer


@pytest.fixture
def second(first: TelegramPeer) -> TelegramPeer:
    return first.add_bot("43:another-token-for-tests", "second_bot")


@pytest.fixture
def telegram(deployment: Deployment, first: TelegramPeer, second: TelegramPeer) -> Deployment:
    deployment.settings["telegram"] = {"token": {"env": "FIRST"}, "api_url": first.api_url}
    deployment.settings["bots"] = {"second": {"telegram": {"token": {"env": "SECOND"}, "api_url": first.api_url}}}
    deployment.environment.update(FIRST=first.token, SECOND=second.token)
    return deployment


def rows(deployment: Deployment, columns: str, where: str = "1") -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(deployment.folder / "data" / "journal.db")) as database:
        return database.execute(f"select {columns} from messages where {where} order by number").fetchall()  # noqa: S608


async def wait_until_finished(deployment: Deployment, count: int) -> None:
    def all_finished() -> bool:
        states = [state for (state,) in rows(deployment, "state")]
        return len(states) >= count and not set(states) & {"received", "answering", "sending"}

    await until(lambda: (deployment.folder / "data" / "journal.db").exists() and all_finished())


async def stopped(process: asyncio.subprocess.Process) -> None:
    process.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(process.wait(), 60) == 0


async def test_two_telegram_bots_in_one_group_speak_once(
    telegram: Deployment, first: TelegramPeer, second: TelegramPeer
) -> None:
    async with telegram.daemon() as process:
        question_id = first.say(GROUP, "How do I change the signing key of sessions?")
        await until(lambda: bool(first.messages(GROUP) or second.messages(GROUP)))
        await wait_until_finished(telegram, 2)
        to_first = first.say(GROUP, f"@{first.username} {QUESTION}")
        to_second = first.say(GROUP, f"@{second.username} {QUESTION}")
        to_both = first.say(GROUP, f"@{first.username} @{second.username} {QUESTION}")
        command = first.say(GROUP, "/help")
        await wait_until_finished(telegram, 10)
        await stopped(process)
    (speaker, silent), reasons = (
        rows(telegram, "bot", f"id='{question_id}'"),
        rows(telegram, "reason", f"id='{question_id}'"),
    )
    assert speaker != silent
    assert reasons == [("",), ("another bot of ours took it first",)]
    by_bot = {"42": first, "43": second}
    assert [item.reply_to for item in by_bot[speaker[0]].messages(GROUP)].count(question_id) == 1
    replies = [(item.reply_to, peer) for peer in (first, second) for item in peer.messages(GROUP)]
    counts = {
        request_count: [peer for to, peer in replies if to == request_count]
        for request_count in (to_first, to_second, to_both)
    }
    assert counts == {to_first: [first], to_second: [second], to_both: [first, second]}
    assert len([peer for to, peer in replies if to == command]) == 1
    assert len(first.messages(GROUP)) + len(second.messages(GROUP)) == 6
    assert {offset for (offset,) in positions(telegram)} == {"telegram:42", "telegram:43"}
    log = telegram.log()
    assert '"bot_name": "second"' in log
    assert first.token not in log
    assert second.token not in log


def positions(deployment: Deployment) -> list[tuple[str]]:
    with closing(sqlite3.connect(deployment.folder / "data" / "journal.db")) as database:
        return database.execute("select name from cursors where name like 'telegram%'").fetchall()


async def test_private_chats_of_one_person_with_two_telegram_bots_share_nothing(
    telegram: Deployment, first: TelegramPeer, second: TelegramPeer, model: LanguageModelPeer
) -> None:
    async with telegram.daemon() as process:
        first.say(ANN, "My secret project is called Bluebird. How do I install rocket?")
        await first.wait_for_reply(ANN, READY_S, containing="Sources")
        second.say(ANN, f"{QUESTION} And what did I say before?")
        reply = await second.wait_for_reply(ANN, READY_S, containing="Sources")
        messages = [str(body["messages"]) for body in model.requests if "what did I say before" in str(body)]
        assert messages
        assert not any("Bluebird" in text for text in messages)
        button = reply.buttons[0][0]["callback_data"]
        press = second.press(ANN, reply.id, button)
        await until(lambda: press in second.notices)
        await wait_until_finished(telegram, 3)
        second.say(ANN, "/forget")
        await second.wait_for_reply(ANN, READY_S, count=2)
        await wait_until_finished(telegram, 4)
        await stopped(process)
    assert rows(telegram, "distinct chat", "bot='42'") == [("5",)]
    assert rows(telegram, "distinct chat", "bot='43'") == [("5@second",)]
    assert first.notices == {}, "the press went to the bot whose button it was"
    assert "Bluebird" in str(rows(telegram, "text", "bot='42'")), "the other bot's chat was not forgotten with it"


async def test_after_a_kill_each_telegram_bot_answers_its_own_question_once(
    telegram: Deployment, first: TelegramPeer, second: TelegramPeer, model: LanguageModelPeer
) -> None:
    model.hang = True
    async with telegram.daemon() as process:
        first.say(GROUP, f"@{first.username} {QUESTION}")
        second.say(ANN, "How do I install rocket?")
        for bot in (first, second):
            await bot.wait_until(lambda bot=bot: bool(bot.get_calls("sendChatAction")), READY_S)
        process.kill()
        await process.wait()
    model.hang = False
    async with telegram.daemon() as process:
        await first.wait_for_reply(GROUP, READY_S, containing="Sources")
        await second.wait_for_reply(ANN, READY_S, containing="Sources")
        await wait_until_finished(telegram, 3)
        await stopped(process)
    assert (len(first.messages(GROUP)), len(second.messages(GROUP))) == (1, 0)
    assert (ANN in first.chats, len(second.messages(ANN))) == (False, 1)
    states = rows(telegram, "bot, chat, state", "state='answered'")
    assert sorted(states) == [("42", "-1001", "answered"), ("43", "5@second", "answered")]


async def test_two_discord_bots_in_one_server_speak_once(deployment: Deployment) -> None:
    async with (
        DiscordPeer() as first,
        DiscordPeer("MTAwMDE.tests.another-token", "other", number="5101", other_peer=first) as second,
    ):
        for peer in (first, second):
            peer.gateway.beat_ms = 5000
            peer.acknowledge_s = 30
        deployment.settings["bots"] = {
            name: {"discord": {"token": {"env": name.upper()}, "api_url": peer.api_url}}
            for name, peer in (("left", first), ("right", second))
        }
        deployment.environment.update(LEFT=first.token, RIGHT=second.token)
        channel_id = first.channel()
        direct = second.channel(private=True)
        async with deployment.daemon() as process:
            await first.connected(READY_S)
            await second.connected(READY_S)
            question_id = await first.say(channel_id, "How do I change the signing key of sessions?")
            await wait_until_finished(deployment, 2)
            question = await first.say(channel_id, f"{second.mention} {QUESTION}")
            await wait_until_finished(deployment, 4)
            process.kill()
            await process.wait()
        missed = await first.say(channel_id, f"{first.mention} {QUESTION}")
        async with deployment.daemon() as process:
            await second.connected(READY_S)
            await second.say(direct, "How do I install rocket?")
            await second.wait_for_reply(direct, READY_S)
            await wait_until_finished(deployment, 7)
            await stopped(process)
        messages = [(item.reply_to, peer) for peer in (first, second) for item in peer.messages(channel_id)]
        assert len([peer for to, peer in messages if to == question_id]) == 1
        assert [peer for to, peer in messages if to == question] == [second]
        assert [peer for to, peer in messages if to == missed] == [first]
        assert len(messages) == 3, "neither answered the other"
        assert first.channels[direct].kind == PRIVATE
        assert ("another bot of ours took it first",) in rows(deployment, "reason", f"id='{question_id}'")
        assert "Traceback" not in deployment.log()


async def test_two_slack_apps_in_one_channel_speak_once(deployment: Deployment) -> None:
    async with SlackPeer() as first, SlackPeer("UTWO", other_peer=first) as second:
        # How old a message is counts from its timestamp.
        first._clock = int(time.time() * 1e6)
        names = (("left", first), ("right", second))
        deployment.settings["bots"] = {
            name: {
                "slack": {
                    "bot_token": {"env": f"{name}_BOT".upper()},
                    "app_token": {"env": f"{name}_APP".upper()},
                    "api_url": peer.api_url,
                }
            }
            for name, peer in names
        }
        for name, peer in names:
            deployment.environment[f"{name}_BOT".upper()] = peer.bot_token
            deployment.environment[f"{name}_APP".upper()] = peer.app_token
        async with deployment.daemon() as process:
            await until(lambda: all(peer.deliveries.connections for peer in (first, second)))
            question_id = first.say("C1", "How do I change the signing key of sessions?")
            await wait_until_finished(deployment, 2)
            question = first.say("C1", f"<@{second.bot}> {QUESTION}")
            await wait_until_finished(deployment, 4)
            first.say("C1", "and how do I install rocket?", thread=question)
            await wait_until_finished(deployment, 6)
            first.say("C1", "thanks, see you at lunch", user="U2BEN", thread=question)
            await wait_until_finished(deployment, 8)
            first.say("D1", "How do I install rocket?")
            await wait_until_finished(deployment, 9)
            await stopped(process)
        messages = [(item.thread_ts, peer.bot) for peer in (first, second) for item in peer.messages("C1")]
        assert len([bot for thread, bot in messages if thread == question_id]) == 1
        assert [bot for thread, bot in messages if thread == question] == [second.bot] * 2
        assert len(messages) == 3, "neither answered the other, nor the chatter"
        assert (len(first.messages("D1")), len(second.messages("D1"))) == (1, 0)
        assert ("another bot of ours took it first",) in rows(deployment, "reason", f"id='{question_id}'")
        log = deployment.log()
        assert "Traceback" not in log
        assert not any(token in log for peer in (first, second) for token in (peer.bot_token, peer.app_token))


async def test_two_http_networks_answer_each_their_own(deployment: Deployment) -> None:
    async with CallbackPeer() as first, CallbackPeer(f"{SECRET}, another one") as second:
        names = (("left", first, free_port()), ("right", second, free_port()))
        deployment.environment.update({name.upper(): peer.secret for name, peer, _ in names})
        deployment.settings["bots"] = {
            name: {
                "http": {
                    "secret": {"env": name.upper()},
                    "callback_url": peer.url,
                    "port": port,
                    "allow_private": ["127.0.0.1"],
                }
            }
            for name, peer, port in names
        }
        deployment.settings["handoff"] = {"people": ["http:7@left", "http:8@right"]}
        # The same chat and number on both: they are two messages in two chats.
        person = {"author": {"id": "42", "name": "Ann"}, "chat": "room", "kind": "message"}
        async with deployment.daemon() as process:
            for _, peer, port in names:
                await accepted(peer, port, {**person, "id": "1", "text": QUESTION, "addressed": True})
            await wait_until_finished(deployment, 2)
            for _, peer, port in names:
                await accepted(peer, port, {**person, "id": "2", "text": "thanks, see you at lunch"})
            await wait_until_finished(deployment, 4)
            for _, peer, port in names:
                await accepted(peer, port, {**person, "id": "3", "text": f"/escalate {QUESTION}"})
            await wait_until_finished(deployment, 8)
            await stopped(process)
        assert sorted(rows(deployment, "chat, id, state")) == [
            (f"room@{name}", number, state)
            for name, _, _ in names
            for number, state in (("1", "answered"), ("2", "silent"), ("3", "answered"), ("3~h", "answered"))
        ]
        for called, (_, peer, _) in zip(("7", "8"), names, strict=True):
            assert {(event["event_id"], event["chat"]) for event in peer.of("final")} == {("1", "room"), ("3", "room")}
            assert [event["mentions"] for event in peer.of("final") if "mentions" in event] == [[called]]
            assert peer.violations == []
            assert peer.secret not in deployment.log()


async def test_the_unnamed_network_cannot_speak_for_a_named_one(deployment: Deployment) -> None:
    async with CallbackPeer() as public, CallbackPeer(f"{SECRET}, another one") as support:
        ports = {"public": free_port(), "support": free_port()}
        deployment.environment.update(PUBLIC=public.secret, SUPPORT=support.secret)

        def section(name: str, peer: CallbackPeer) -> dict[str, Any]:
            http_settings = {"callback_url": peer.url, "port": ports[name], "allow_private": ["127.0.0.1"]}
            return {"secret": {"env": name.upper()}, **http_settings}

        deployment.settings["http"] = section("public", public)
        deployment.settings["bots"] = {"support": {"http": section("support", support)}}
        owner = {"id": "9", "name": "Olga"}
        question = {"id": "1", "chat": "dm9", "kind": "message", "author": owner, "private": True, "text": QUESTION}
        async with deployment.daemon() as process:
            await accepted(support, ports["support"], question)
            await wait_until_finished(deployment, 1)
            for forged in (
                {**question, "id": "2", "chat": "dm9@support", "author": {"id": "9@support", "name": "Olga"}},
                {**question, "id": "3", "author": {"id": "9@support", "name": "Olga"}},
                {"id": "4", "chat": "dm9@support", "kind": "delete", "changes": "1"},
            ):
                status, body, *_ = await public.send(ports["public"], forged)
                assert status == 422
                assert "@support" in str(body)
            # Another address in an id means nothing.
            await accepted(public, ports["public"], {**question, "id": "5", "chat": "ann@example.org"})
            await wait_until_finished(deployment, 2)
            await stopped(process)
        # Nor where the named one was removed: what it said is in the journal.
        deployment.settings["bots"] = {}
        async with deployment.daemon() as process:
            await accepted(public, ports["public"], {**question, "id": "6", "chat": "ann@example.org"})
            status, body, *_ = await public.send(ports["public"], {**question, "id": "7", "chat": "dm9@support"})
            assert (status, "bots.support.http" in str(body)) == (422, True)
            await stopped(process)
        expected_rows = [("ann@example.org", "5"), ("ann@example.org", "6"), ("dm9@support", "1")]
        assert sorted(rows(deployment, "chat, id")) == expected_rows


async def test_a_platform_that_is_away_at_the_start_keeps_no_other_down(deployment: Deployment) -> None:
    telegram_port = free_port()
    http_port = free_port()
    async with CallbackPeer() as network:
        deployment.environment.update(HTTP=network.secret, FIRST=TelegramPeer().token)
        http_settings = {"callback_url": network.url, "port": http_port, "allow_private": ["127.0.0.1"]}
        deployment.settings["http"] = {"secret": {"env": "HTTP"}, **http_settings}
        api_url = f"http://127.0.0.1:{telegram_port}"
        deployment.settings["telegram"] = {"token": {"env": "FIRST"}, "api_url": api_url}
        question = {"id": "1", "chat": "room", "kind": "message", "author": {"id": "9", "name": "Olga"}}
        async with deployment.daemon() as process:
            await accepted(network, http_port, {**question, "text": QUESTION, "addressed": True})
            await wait_until_finished(deployment, 1)
            assert "daemon.platforms_unreachable" in deployment.log()
            async with TelegramPeer(port=telegram_port) as telegram:
                telegram.say(ANN, QUESTION)
                await wait_until_finished(deployment, 2)
            await stopped(process)
        assert sorted(rows(deployment, "platform, state")) == [("http", "answered"), ("telegram", "answered")]


async def accepted(peer: CallbackPeer, port: int, event: dict[str, Any]) -> None:
    """Send an event as soon as the daemon listens."""
    async with asyncio.timeout(READY_S):
        while True:
            try:
                status, *_ = await peer.send(port, event)
            except aiohttp.ClientError:
                await asyncio.sleep(0.1)
            else:
                assert status in (200, 202), status
                return


def pair(**extra_fields: Any) -> Settings:
    bots = {name: {"telegram": {"token": {"env": name.upper()}}} for name in ("one", "two")}
    return Settings.model_validate({"bots": bots, **extra_fields})


def discord_pair() -> Settings:
    return Settings.model_validate({"bots": {name: {"discord": {"token": {"env": name.upper()}}} for name in "ab"}})


async def list_pending(journal: Journal, *messages: Message, settings: Settings | None = None) -> list[str]:
    """Journal the messages in this order and return why each is left to another bot."""
    for item in messages:
        assert await journal.record_message(item)
    history = ChatHistory(journal.database)
    reasons = [await other_bot_reason(entry, history, settings or pair()) for entry in messages]
    return [reason.text if reason else "" for reason in reasons]


class TestWhoSpeaks:
    async def test_the_first_to_have_it_unless_the_other_was_addressed(self, journal: Journal) -> None:
        first = ["", "another bot of ours took it first"]
        assert await list_pending(journal, message("1", "42"), message("1", "43")) == first
        pending_ids = await list_pending(journal, message("2", "42"), message("2", "43", addressed=True))
        assert pending_ids == ["another bot of ours was addressed", ""]

    async def test_where_bots_count_for_themselves_words_and_moment_tell(self, journal: Journal) -> None:
        reasons = await list_pending(journal, message("10", "42"), message("77", "43"))
        assert reasons == ["", "another bot of ours took it first"]

    async def test_the_same_words_at_the_same_moment_to_each_are_two_messages(self, journal: Journal) -> None:
        a = [message("1", "42", addressed=True), message("1", "43", text=f"@one {QUESTION}")]
        b = [message("2", "42", text=f"@two {QUESTION}"), message("2", "43", addressed=True)]
        assert await list_pending(journal, *a, *b) == ["", *["another bot of ours was addressed"] * 2, ""]

    async def test_both_where_both_are_named_and_one_where_none_is(self, journal: Journal) -> None:
        messages = [
            message("1", bot, addressed=True, text=f"@{other} why?") for bot, other in (("42", "two"), ("43", "one"))
        ]
        assert await list_pending(journal, *messages) == ["", ""]
        command = [message("2", bot, addressed=True, text="", command="status") for bot in ("42", "43")]
        assert await list_pending(journal, *command) == ["", "another bot of ours took it first"]
        # In a thread where both have answered, both are meant by what names nobody, and one by what names it.
        named_messages = [
            message("3", "42", addressed=True, text="@two why?"),
            message("3", "43", addressed=True, text="why?"),
        ]
        assert await list_pending(journal, *named_messages) == ["another bot of ours was named", ""]

    async def test_a_reply_is_for_the_bot_that_is_replied_to(self, journal: Journal) -> None:
        request = message("1", "43", addressed=True)
        await journal.record_message(request)
        await journal.mark_posted(request, "99")
        command = [message("2", bot, addressed=True, text="", command="why", reply_to="99") for bot in ("42", "43")]
        assert await list_pending(journal, *command) == ["a reply to another bot of ours", ""]

    async def test_a_follow_up_is_for_the_bot_that_answered(self, journal: Journal) -> None:
        thread = ConversationKey("telegram", "-1001", "5")
        request = message("1", "43", addressed=True, key=thread)
        await journal.record_message(request)
        await journal.mark_answered(request, Reply("Call it."))
        further = [message("2", bot, key=thread, text="and how often?") for bot in ("42", "43")]
        assert await list_pending(journal, *further) == ["it continues a conversation with another bot of ours", ""]
        history = ChatHistory(journal.database)
        assert [await is_follow_up(item, history, pair()) for item in further] == [False, True]
        assert [await history.has_answered(thread, bot) for bot in ("42", "43")] == [False, True]

    async def test_where_both_answered_it_is_for_the_one_that_answered_its_author(self, journal: Journal) -> None:
        thread = ConversationKey("discord", "30", "40")
        history = ChatHistory(journal.database)
        for number, (bot, person) in enumerate((("42", "7"), ("43", "8"))):
            request = message(str(number), bot, addressed=True, key=thread, author_id=person)
            await journal.record_message(request)
            await journal.mark_answered(request, Reply("Call it."))
        whose = {}
        for number, person in (("5", "7"), ("6", "8"), ("7", "9")):
            copies = [
                message(
                    number,
                    bot,
                    key=thread,
                    text="and how often?",
                    author_id=person,
                    thread_state=ThreadState(is_shared=True),
                )
                for bot in ("42", "43")
            ]
            reasons = await list_pending(journal, *copies, settings=discord_pair())
            whose[person] = reasons.index("")
            assert sorted(reasons) == ["", "it continues a conversation with another bot of ours"]
            assert [await is_follow_up(copy, history, discord_pair()) for copy in copies] == [
                not reason for reason in reasons
            ]
        assert whose == {"7": 0, "8": 1, "9": 1}, "who was not answered goes on with the last that did"

    async def test_a_bot_alone_or_in_a_private_chat_is_never_held_back(self, journal: Journal) -> None:
        single_bot = Settings.model_validate({"telegram": {"token": {"env": "ONE"}}})
        assert await list_pending(journal, message("1", "42"), message("1", "43"), settings=single_bot) == ["", ""]
        assert await list_pending(journal, *(message("2", bot, private=True) for bot in ("42", "43"))) == ["", ""]


class NoDelivery:
    is_in_doubt = False
    parts: Mapping[int, str] = {}

    async def require_claim(self) -> None: ...

    async def require_rights(self) -> None: ...

    async def mark_part(self, number: int, part_id: str) -> None: ...

    async def mark_posting(self) -> None: ...

    async def mark_rejected(self) -> None: ...

    async def mark_posted(self, reply_id: str) -> None: ...


async def read_message(adapter: Adapter) -> Message:
    messages: list[Message] = []

    async def take(item: Message) -> None:
        messages.append(item)

    await adapter.listen(take)
    return messages[0]


class TestNamed:
    @pytest.mark.parametrize(
        ("platform", "private", "chat", "author"),
        [
            ("telegram", True, "5@two", "7"),
            ("telegram", False, "5", "7"),
            ("discord", True, "5", "7"),
            ("slack", True, "5", "7"),
            ("mastodon", False, "5@two", "7"),
            ("mastodon", True, "5@two", "7"),
            ("bluesky", False, "5@two", "7"),
            ("http", False, "5@two", "7@two"),
        ],
    )
    async def test_only_what_may_mean_something_else_is_kept_apart(
        self, platform: str, private: bool, chat: str, author: str
    ) -> None:
        plain_adapter = Plain(platform)
        original = message("1", "", key=ConversationKey(platform, "5", "t"), private=private)
        plain_adapter.inbox.append(original)
        bot = NamespacedAdapter("two", plain_adapter)
        first_message = await read_message(bot)
        assert (first_message.key, first_message.author_id, first_message.bot) == (
            ConversationKey(platform, chat, "t"),
            author,
            "two",
        )
        bot.sink(first_message, NoDelivery())
        assert [(item.key, item.author_id) for item in plain_adapter.messages] == [(original.key, original.author_id)]
        assert bot.label == f"{platform}:two"

    async def test_only_people_of_its_own_network_are_called(self) -> None:
        plain_adapter = Plain("http")
        bot = NamespacedAdapter("two", plain_adapter)
        people = ("ann", "bob@two", "cy@three")
        key = ConversationKey("http", "5@two")
        bot.sink(message("1", "two", key=key, command="handoff", origin=Origin(mentioned_users=people)), NoDelivery())
        assert plain_adapter.messages[0].origin.mentioned_users == ("bob",)

    async def test_a_failure_says_which_bot(self) -> None:
        with pytest.raises(PlatformError, match=r"bots\.two: the token is refused") as error_info:
            await NamespacedAdapter("two", Plain("telegram")).open()
        assert error_info.value.exit_code == EXIT_REFUSED


class TestLeftover:
    async def test_each_takes_its_own_and_the_first_the_rest(self, journal: Journal) -> None:
        for bot in ("43", "42", "41"):
            await journal.record_message(message("1", bot))
        first = Plain("telegram", "42")
        second = NamespacedAdapter("two", Plain("telegram", "43"))
        results = [(adapter, item.bot) for adapter, item, _ in await recover_pending(journal, [first, second])]
        assert results == [(second, "43"), (first, "42"), (first, "41")]

    async def test_what_is_not_for_another_network_is_closed(self, journal: Journal) -> None:
        orphan_message = message("1", "gone", key=ConversationKey("http", "5@gone"))
        await journal.record_message(orphan_message)
        assert await recover_pending(journal, [Plain("http", can_take_over=False)]) == []
        assert await journal.get_pending("http") == []


class TestConfiguration:
    def test_two_bots_with_one_token_are_refused(self, monkeypatch: pytest.MonkeyPatch, journal: Journal) -> None:
        monkeypatch.setenv("ONE", "42:x")
        monkeypatch.setenv("TWO", "42:x")
        clash = "bots.two.telegram.token is the same as bots.one.telegram.token: give each its own"
        assert find_token_conflicts(pair()) == [clash]
        with pytest.raises(UsageError, match="give each its own"):
            make_adapters(make_live_settings(pair(), journal.database), journal)

    def test_one_secret_lets_in_neither_two_networks_nor_a_reader_as_an_owner(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("ONE", "a-secret-of-two-networks")
        network = {"http": {"secret": {"env": "ONE"}, "callback_url": "https://example.org"}}
        settings = Settings.model_validate({"data_dir": tmp_path, "bots": {"a": network, "b": network}})
        clash = "bots.b.http.secret is the same as bots.a.http.secret: give each its own"
        assert find_token_conflicts(settings) == [clash]
        page = {"port": 8000, "token": {"env": "ONE"}, "owner_token": {"env": "ONE"}}
        settings = Settings.model_validate({"data_dir": tmp_path, "operator_page": page})
        clash = "operator_page.owner_token is the same as operator_page.token: give each its own"
        assert find_token_conflicts(settings) == [clash]

    async def test_two_clients_of_the_api_with_one_token_are_no_bots(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("ONE", "a-token-of-the-api")
        clients = {name: {"token": {"env": "ONE"}} for name in ("a", "b")}
        settings = Settings.model_validate({"data_dir": tmp_path, "api": {"port": 8000, "clients": clients}})
        clash = "api.clients.b.token is the same as api.clients.a.token: give each its own"
        assert find_token_conflicts(settings) == [clash]
        findings = await check(settings, live=False)
        assert [finding.subject for finding in findings if finding.text == clash] == ["configuration"]

    def test_adapters_come_with_their_names_and_cursors(
        self, monkeypatch: pytest.MonkeyPatch, journal: Journal
    ) -> None:
        for name, token in (("ZERO", "41:x"), ("ONE", "42:x"), ("TWO", "43:x")):
            monkeypatch.setenv(name, token)
        live = make_live_settings(pair(telegram={"token": {"env": "ZERO"}}), journal.database)
        adapters = make_adapters(live, journal, read_only=True)
        assert [adapter.label for adapter in adapters] == ["telegram", "telegram:one", "telegram:two"]
        assert [DryRunAdapter(adapter).label for adapter in adapters] == ["telegram", "telegram:one", "telegram:two"]

    def test_ports_that_are_used_twice_are_named(self) -> None:
        http = {"secret": {"env": "S"}, "callback_url": "https://example.org", "port": 8088}
        slack = {"bot_token": {"env": "A"}, "signing_secret": {"env": "B"}, "host": "::", "port": 8088}
        other_host = {**http, "host": "127.0.0.2"}
        configuration = Settings.model_validate(
            {"http": http, "bots": {"a": {"http": other_host}, "b": {"http": {**http, "port": 1}}}}
        )
        assert find_port_conflicts(configuration) == []
        clashing = Settings.model_validate({"http": http, "bots": {"a": {"http": http}, "b": {"slack": slack}}})
        assert [
            port_conflict.split(" listens on port 8088 as ")[0] for port_conflict in find_port_conflicts(clashing)
        ] == ["bots.a.http", "bots.b.slack", "bots.b.slack"]

    async def test_the_check_names_every_bot(
        self, tmp_path: Path, first: TelegramPeer, second: TelegramPeer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("ONE", first.token)
        monkeypatch.setenv("TWO", second.token)
        bots = {
            name: {"telegram": {"token": {"env": name.upper()}, "api_url": first.api_url}} for name in ("one", "two")
        }
        settings = Settings.model_validate({"data_dir": tmp_path, "bots": bots})
        texts = {
            finding.subject: finding.text for finding in await check(settings, live=True, probes=make_probes(settings))
        }
        assert texts["bots.one.telegram"] == "the token belongs to @kimas_bot"
        assert texts["bots.two.telegram"] == "the token belongs to @second_bot"
        assert "configuration" not in texts
        monkeypatch.setenv("TWO", first.token)
        texts = {finding.subject: finding.text for finding in await check(settings, live=False)}
        assert "give each its own" in texts["configuration"]
        assert first.token not in str(texts)


LOADING = """
from concurrent.futures import ThreadPoolExecutor
from bots.{platform}.adapter import load_client
with ThreadPoolExecutor(4) as threads:
    clients = list(threads.map(lambda _: load_client(), range(4)))
assert len(set(clients)) == 1
"""


@pytest.mark.parametrize("platform", ["telegram", "discord"])
def test_several_bots_load_one_library_at_once(platform: str) -> None:
    command = [sys.executable, "-W", "error", "-c", LOADING.format(platform=platform)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert result.returncode == 0, result.stderr[-2000:]
