"""The example of a bridge to Matrix, as it is shipped, between the adapter and a server: each message once."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, web
from sqlalchemy import select

from bots.http.adapter import HttpAdapter
from bots.http.client import HttpIntervals
from bots.http.signing import sign
from core.settings import HttpSettings, Settings
from core.storage.tables import messages
from core.types import Citation
from tests.support import forked
from tests.support.free_ports import free_port
from tests.support.journalled_bot import JournalledBot
from tests.support.peers.matrix import BOT, SERVER, TOKEN, MatrixPeer, Room

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).parents[3] / "config/examples/matrix.py"
SECRET = "a-secret-of-both-sides"
ANN = f"@ann:{SERVER}"
BEN = f"@ben:{SERVER}"
MEANT = {"m.mentions": {"user_ids": [BOT]}}
QUESTION = "How do I install it?"


class HttpBot(JournalledBot):
    """The adapter for HTTP with its inbox and journal, whose callbacks go to a bridge."""

    def __init__(self, folder: Path, bridge_port: int) -> None:
        super().__init__(folder)
        (folder / "secret").write_text(SECRET)
        self.port = free_port()
        self._settings = HttpSettings.model_validate(
            {
                "secret": {"file": str(folder / "secret")},
                "callback_url": f"http://127.0.0.1:{bridge_port}",
                "allow_private": ["127.0.0.1"],
                "port": self.port,
            }
        )

    def make_adapter(self, configuration: Settings) -> HttpAdapter:
        return HttpAdapter(self._settings, HttpIntervals(retry_s=0.02, max_retry_s=0.2))

    async def until_listening(self) -> None:
        await asyncio.wait_for(self.adapter.ready.wait(), 30)


class BridgeProcess:
    """The program in a process of its own, which can be killed and started again."""

    def __init__(self, peer: MatrixPeer, bot: HttpBot, folder: Path, port: int) -> None:
        self.environment = {
            **os.environ,
            "KIMAS_HTTP_SECRET": SECRET,
            "KIMAS_URL": f"http://127.0.0.1:{bot.port}",
            "MATRIX_URL": peer.url,
            "MATRIX_TOKEN": TOKEN,
            "BRIDGE_PORT": str(port),
            "BRIDGE_DATABASE": str(folder / "matrix.db"),
        }

    async def start(self) -> None:
        self.process = await forked.start_program(PROGRAM, self.environment)
        await self.until_said("callbacks at")

    async def until_said(self, text: str) -> None:
        assert self.process.stdout
        async with asyncio.timeout(30):
            while text not in (line := (await self.process.stdout.readline()).decode()):
                assert line, f"it ended without saying {text}"

    async def kill(self) -> None:
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGKILL)
        await self.process.wait()


@asynccontextmanager
async def bridged(
    folder: Path, changes: dict[str, object] | None = None, **environment: str
) -> AsyncIterator[tuple[MatrixPeer, HttpBot, BridgeProcess]]:
    port = free_port()
    bot = HttpBot(folder, port)
    bot.changes = changes or {}
    bot.says = "Use `pip` [1]."
    bot.citations = [Citation(1, "p1", "docs", "Install <it>", "install.md", url="https://example.org/install")]
    async with MatrixPeer() as peer:
        bridge = BridgeProcess(peer, bot, folder, port)
        bridge.environment |= environment
        await bot.start()
        await bridge.start()
        try:
            # What is said before the first sync is old.
            await peer.until_synced()
            yield peer, bot, bridge
        finally:
            await bridge.kill()
            await bot.stop()
    assert peer.violations == []


def relation(content: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = content["m.relates_to"]
    return result


async def ask(peer: MatrixPeer, bot: HttpBot, room: Room, text: str = QUESTION, **content: Any) -> dict[str, Any]:
    """Let somebody mention the bot, and return its answer."""
    question = peer.say(room, ANN, text, **MEANT, **content)
    assert await bot.outcome(question) == ("answered", "")
    return next(post for post in peer.posts(room) if relation(post)["m.in_reply_to"]["event_id"] == question)


async def test_a_mention_is_answered_as_html_with_its_source(tmp_path: Path) -> None:
    async with bridged(tmp_path) as (peer, bot, _):
        room = peer.make_room(ANN, BEN, title="Help")
        answer = await ask(peer, bot, room, f"Kim As: {QUESTION}")
        assert bot.questions[0].text == QUESTION
        assert answer["body"] == "Use `pip` [1].\n\n[1] Install <it> https://example.org/install"
        link = '<a href="https://example.org/install">Install &lt;it&gt;</a>'
        assert answer["formatted_body"] == f"<p>Use <code>pip</code> [1].</p>\n<p>[1] {link}</p>"
        assert answer["m.mentions"] == {"user_ids": [ANN]}
        assert peer.typing == [room.id]


@pytest.mark.parametrize(
    ("text", "content", "is_meant"),
    [
        ("How does it work?", MEANT, True),
        ("Kim As, how does it work?", {}, True),
        ("how does it work, @kimas?", {}, True),
        (f"{BOT} how does it work?", {}, True),
        ("kimas: how does it work?", {"m.mentions": {}}, True),
        ("how does kimas work?", {"m.mentions": {}}, False),
        ("kimas: how does it work?", {"m.mentions": {"user_ids": [BEN]}}, False),
        ("How does skimas work, me@kimas.example?", {}, False),
        ("How does it work?", {"m.mentions": {"room": True}}, False),
        ("How does it work, kimas?", {"msgtype": "m.notice"}, None),
        ("How does it work, kimas?", {"msgtype": 7}, None),
    ],
)
async def test_who_mentions_the_bot_means_it(
    tmp_path: Path, text: str, content: dict[str, Any], is_meant: bool | None
) -> None:
    async with bridged(tmp_path) as (peer, bot, _):
        room = peer.make_room(ANN, BEN)
        event = peer.say(room, ANN, text, **content)
        last = peer.say(room, ANN, QUESTION, **MEANT)
        await bot.outcome(last)
        assert (event in await bot.list_messages()) == (is_meant is not None)
        assert (event in [question.id for question in bot.questions]) == bool(is_meant)


async def test_a_reply_to_an_answer_needs_no_mention(tmp_path: Path) -> None:
    async with bridged(tmp_path) as (peer, bot, _):
        room = peer.make_room(ANN, BEN)
        await ask(peer, bot, room)
        own = next(event["event_id"] for event in room.events if event["sender"] == BOT and "body" in event["content"])
        follow_up = peer.say(room, BEN, f"> <{BOT}> Use pip\n\nAnd how do I remove it?", reply_to=own)
        assert await bot.outcome(follow_up) == ("answered", "")
        assert bot.questions[-1].text == "And how do I remove it?"
        other = peer.say(room, BEN, "It is hot today")
        about_it = peer.say(room, ANN, "What do you say to that, @kimas?", reply_to=other)
        assert await bot.outcome(about_it) == ("answered", "")
        assert "It is hot today" in str(bot.questions[-1])


async def test_a_question_in_a_thread_is_answered_there(tmp_path: Path) -> None:
    async with bridged(tmp_path) as (peer, bot, _):
        room = peer.make_room(ANN, BEN)
        top = peer.say(room, BEN, "Releases")
        answer = await ask(peer, bot, room, thread=top)
        assert (relation(answer)["rel_type"], relation(answer)["event_id"]) == ("m.thread", top)
        # Old clients are shown the last message of a thread as what is answered.
        fallback = {"rel_type": "m.thread", "event_id": top, "is_falling_back": True}
        own = next(event["event_id"] for event in room.events if event["sender"] == BOT and "body" in event["content"])
        aside = peer.say(room, BEN, "Thanks!", **{"m.relates_to": {**fallback, "m.in_reply_to": {"event_id": own}}})
        assert (await bot.outcome(aside))[0] == "silent"


async def test_who_is_alone_with_the_bot_needs_no_mention(tmp_path: Path) -> None:
    async with bridged(tmp_path, MATRIX_INVITERS="friends.example") as (peer, bot, _):
        room = peer.make_room("@eve:friends.example", has_bot=False)
        peer.say(room, "@eve:friends.example", "Said before the bot came, kimas?")
        peer.invite(room, "@eve:friends.example")
        await peer.until_synced()
        assert BOT in room.members
        question = peer.say(room, "@eve:friends.example", QUESTION)
        assert await bot.outcome(question) == ("answered", "")
        stranger_room = peer.make_room(ANN, has_bot=False)
        peer.invite(stranger_room, ANN)
        await peer.until_synced()
        assert (stranger_room.members, stranger_room.invited) == ([ANN], {})
        # Anybody may come into this one.
        open_room = peer.make_room(ANN, join_rule="public")
        aside = peer.say(open_room, ANN, "It is hot today")
        assert (await bot.outcome(aside))[0] == "silent"
        assert len(bot.questions) == 1


async def test_what_was_asked_in_private_is_not_shown_to_who_came_meanwhile(tmp_path: Path) -> None:
    async with bridged(tmp_path) as (peer, bot, _):
        room = peer.make_room(ANN)
        bot.hold = asyncio.Event()
        question = peer.say(room, ANN, QUESTION)
        await bot.heard(question)
        # He only looks: KIMAs hears nothing of him.
        peer.enter(room, BEN)
        await peer.until_synced()
        bot.hold.set()
        assert (await bot.outcome(question))[0] == "silent"
        assert peer.posts(room) == []


async def test_what_was_asked_in_private_is_not_shown_to_whom_its_asker_left(tmp_path: Path) -> None:
    async with bridged(tmp_path) as (peer, bot, _):
        room = peer.make_room(ANN)
        bot.hold = asyncio.Event()
        question = peer.say(room, ANN, QUESTION)
        await bot.heard(question)
        # They are two again.
        peer.enter(room, BEN)
        peer.leave(room, ANN)
        await peer.until_synced()
        bot.hold.set()
        assert (await bot.outcome(question))[0] == "silent"
        assert peer.posts(room) == []


async def test_who_wrote_what_is_asked_about_is_said(tmp_path: Path) -> None:
    """Who is forgotten is forgotten in what others quote, too."""
    async with bridged(tmp_path) as (peer, bot, _):
        room = peer.make_room(ANN, BEN)
        quoted = peer.say(room, BEN, "The launcher is out")
        question = peer.say(room, ANN, "Is it?", reply_to=quoted, **MEANT)
        assert await bot.outcome(question) == ("answered", "")
        async with bot.journal.database.connect() as connection:
            query = select(messages.c.quoted, messages.c.quoted_authors).filter_by(id=question)
            assert tuple((await connection.execute(query)).one()) == ("The launcher is out", [BEN])


async def test_an_answer_that_the_bridge_does_not_remember_is_the_bots(tmp_path: Path) -> None:
    async with bridged(tmp_path) as (peer, bot, _):
        room = peer.make_room(ANN, BEN)
        answer = peer.say(room, BOT, "The launcher is out")
        question = peer.say(room, ANN, "Is it?", reply_to=answer, **MEANT)
        assert await bot.outcome(question) == ("answered", "")
        async with bot.journal.database.connect() as connection:
            query = select(messages.c.quotes_bot, messages.c.quoted, messages.c.quoted_authors).filter_by(id=question)
            assert tuple((await connection.execute(query)).one()) == (True, "The launcher is out", None)


async def test_an_edit_counts_and_what_was_redacted_is_not_answered(tmp_path: Path) -> None:
    async with bridged(tmp_path) as (peer, bot, _):
        room = peer.make_room(ANN, BEN)
        bot.hold = asyncio.Event()
        first = peer.say(room, ANN, QUESTION, **MEANT)
        await bot.heard(first)
        second = peer.say(room, ANN, "How do I instal it?", **MEANT)
        # The server did not take this one for a redaction.
        peer.add(room, BEN, "m.room.redaction", {"redacts": second})
        third = peer.say(room, ANN, "And what is gone?", **MEANT)
        await bot.heard(third)
        peer.edit(room, ANN, second, "kimas: How do I remove it?")
        peer.redact(room, ANN, third)
        await peer.until_synced()
        peer.redact(room, ANN, first)
        bot.hold.set()
        assert await bot.outcome(second) == ("answered", "")
        assert [(await bot.outcome(event))[0] for event in (first, third)] == ["silent", "silent"]
        assert [question.text for question in bot.questions][1] == "How do I remove it?"
        assert len(peer.posts(room)) == 1


async def test_a_page_of_a_proxy_shows_nobody_the_token(tmp_path: Path) -> None:
    async with bridged(tmp_path) as (peer, _, bridge):
        room = peer.make_room(ANN, BEN)
        post = peer.say(room, ANN, "The launcher is out")
        await peer.until_synced()

        async def show_a_page(name: str, phase: str) -> None:
            if (name, phase) == ("GET relations", "before"):
                raise web.HTTPOk(text="<p>Please sign in</p>", content_type="text/html")

        peer.watch = show_a_page
        reply = {"chat": room.id, "event_id": post, "state": "final", "bot_replies_below": 2, "idempotency_key": "1"}
        body = json.dumps(reply).encode()
        timestamp = str(int(time.time()))
        headers = {
            "X-Kimas-Timestamp": timestamp,
            "X-Kimas-Signature": sign(SECRET, timestamp, body),
        }
        url = f"http://127.0.0.1:{bridge.environment['BRIDGE_PORT']}/"
        async with ClientSession() as session, session.post(url, data=body, headers=headers) as response:
            text = await response.text()
        assert (response.status, "text/html" in text) == (503, True), text
        assert TOKEN not in text


async def test_a_lost_response_and_kills_make_no_second_answer(tmp_path: Path) -> None:
    async with bridged(tmp_path) as (peer, bot, bridge):
        room = peer.make_room(ANN, BEN)
        peer.fail("PUT send", drop="after")
        await ask(peer, bot, room)
        await bridge.kill()
        # So much is said meanwhile that the server does not send all of it by itself.
        missed = peer.say(room, ANN, QUESTION, **MEANT)
        for number in range(180):
            peer.say(room, BEN, f"Message {number}")
        await bridge.start()
        assert await bot.outcome(missed) == ("answered", "")
        await bridge.kill()
        await bridge.start()
        await ask(peer, bot, room)
        assert len(peer.posts(room)) == 3


@pytest.mark.parametrize("phase", ["before", "after"])
async def test_killed_at_a_post_there_is_one_answer(tmp_path: Path, phase: str) -> None:
    async with bridged(tmp_path) as (peer, bot, bridge):
        room = peer.make_room(ANN, BEN)
        is_killed = asyncio.Event()

        async def hang(name: str, current_phase: str) -> None:
            if (name, current_phase) == ("PUT send", phase) and not is_killed.is_set():
                is_killed.set()
                await asyncio.Event().wait()
            if (name, current_phase) == ("GET sync", "before") and is_killed.is_set():
                # What is to be shown comes before the rooms are known again.
                await asyncio.sleep(2)

        peer.watch = hang
        question = peer.say(room, ANN, QUESTION, **MEANT)
        await asyncio.wait_for(is_killed.wait(), 30)
        await bridge.kill()
        await bridge.start()
        assert await bot.outcome(question) == ("answered", "")
        assert len(peer.posts(room)) == 1


async def test_a_rate_limit_is_waited_out(tmp_path: Path) -> None:
    async with bridged(tmp_path) as (peer, bot, _):
        room = peer.make_room(ANN, BEN)
        peer.fail("PUT send", 429, error="M_LIMIT_EXCEEDED", Retry_After="1")
        peer.fail("PUT send", 503)
        await ask(peer, bot, room)
        assert peer.calls.count("PUT send") == 3


async def test_what_the_server_refuses_is_given_up(tmp_path: Path) -> None:
    async with bridged(tmp_path) as (peer, bot, _):
        room = peer.make_room(ANN, BEN)
        peer.fail("PUT send", 403, error="M_FORBIDDEN", times=9)
        question = peer.say(room, ANN, QUESTION, **MEANT)
        assert (await bot.outcome(question))[0] == "failed"
        assert peer.calls.count("PUT send") <= 2


async def test_in_an_encrypted_room_it_says_so_and_leaves(tmp_path: Path) -> None:
    async with bridged(tmp_path) as (peer, bot, _):
        room = peer.make_room(ANN, BEN)
        await ask(peer, bot, room)
        peer.encrypt(room, ANN)
        await peer.until_synced()
        assert "encrypted" in peer.posts(room)[1]["body"]
        assert BOT not in room.members
        invited_room = peer.make_room(ANN, has_bot=False)
        peer.encrypt(invited_room, ANN)
        peer.invite(invited_room, ANN)
        await peer.until_synced(4)
        assert ["encrypted" in post["body"] for post in peer.posts(invited_room)] == [True]
        assert BOT not in invited_room.members


async def test_a_long_answer_is_cut_into_events_that_the_server_takes(tmp_path: Path) -> None:
    async with bridged(tmp_path) as (peer, bot, _):
        room = peer.make_room(ANN, BEN)
        words = [f"Step {number}: <b>&&&</b> ![x](https://evil.example/a.png) 你好 @room" for number in range(1200)]
        bot.says = "```\n" + "\n".join(words[:600]) + "\n```\n\n" + "\n\n".join(words[600:])
        await ask(peer, bot, room)
        posts = peer.posts(room)
        text = "\n".join(post["body"] for post in posts)
        assert len(posts) > 1
        assert [text.count(f"Step {number}:") for number in range(1200)] == [1] * 1200
        assert not any("<b>" in post["formatted_body"] or "<img" in post["formatted_body"] for post in posts)
        assert [post["m.mentions"] for post in posts[1:]] == [{}] * (len(posts) - 1)


async def test_a_post_gets_a_comment_in_its_thread_unless_two_bots_have(tmp_path: Path) -> None:
    chats = ["http:!room1:hs.example"]
    changes: dict[str, object] = {"auto_comment": {"chats": chats, "include": ["launcher"], "replies_per_post": 2}}
    async with bridged(tmp_path, changes, MATRIX_POST_ROOMS="!room1:hs.example") as (peer, bot, _):
        peer._number = 0
        room = peer.make_room(ANN, BEN)
        assert room.id == "!room1:hs.example"
        peer._number = 1000
        post = peer.say(room, ANN, "The launcher is out")
        assert await bot.outcome(post) == ("answered", "")
        assert relation(peer.posts(room)[0])["event_id"] == post
        bot.hold = asyncio.Event()
        other_post = peer.say(room, ANN, "A second launcher")
        await bot.heard(other_post)
        for robot in ("one", "two"):
            peer.say(room, f"@{robot}:{SERVER}", "Nice!", thread=other_post, msgtype="m.notice")
        bot.hold.set()
        assert (await bot.outcome(other_post))[0] == "silent"
        assert len(peer.posts(room)) == 1


async def test_malformed_events_hold_up_nothing(tmp_path: Path) -> None:
    async with bridged(tmp_path) as (peer, bot, _):
        room = peer.make_room(ANN, BEN)
        for content in (
            {"m.relates_to": "x"},
            {"m.relates_to": {"rel_type": "m.replace"}},
            {"m.relates_to": {"rel_type": "m.replace", "event_id": "$gone"}, "m.new_content": 3},
            {"m.relates_to": {"m.in_reply_to": []}},
            {"m.mentions": []},
            {"body": None},
        ):
            peer.say(room, ANN, "Hm", **content)
        peer.add(room, ANN, "m.room.message", {}, origin_server_ts=10**19)
        peer.say(room, ANN, "Too late", **MEANT)
        room.events[-1]["origin_server_ts"] = 10**19
        await ask(peer, bot, room)


async def test_a_revoked_token_ends_the_bridge(tmp_path: Path) -> None:
    async with bridged(tmp_path) as (peer, _, bridge):
        peer.token = "another"
        peer._number += 1
        assert await asyncio.wait_for(bridge.process.wait(), 60) == 1
