"""The example of a bridge, as it is shipped, between the adapter and a network: each post gets one comment, once."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from bots.http.adapter import HttpAdapter
from bots.http.client import HttpIntervals
from bots.http.signing import sign
from core.settings import HttpSettings, Settings
from core.types import Citation
from tests.support import forked
from tests.support.free_ports import free_port
from tests.support.journalled_bot import JournalledBot

PROGRAM = Path(__file__).parents[3] / "config/examples/bridge.py"
SECRET = "a-secret-of-both-sides"
TOKEN = "token-of-the-network"


class PostNetwork:
    """A network with posts and comments that takes a comment once for each key, and nothing without its token."""

    def __init__(self) -> None:
        self.posts: list[dict[str, str]] = []
        self.comments: dict[str, dict[str, dict[str, Any]]] = {}
        self.loses_responses = 0
        # How many comments are refused; meanwhile, other bots are faster.
        self.refusals = 0
        self.garbled_answers: list[web.Response] = []
        self.url = ""

    def post(self, text: str) -> str:
        number = str(len(self.posts) + 1)
        sent_at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self.posts.append({"id": number, "author_id": "7", "author": "Ann", "text": text, "sent_at": sent_at})
        # The bridge has no use for it.
        self.posts[-1]["visibility"] = "public"
        self.comments[number] = {}
        return number

    def texts(self, post: str) -> list[str]:
        return [comment["text"] for comment in self.comments[post].values()]

    async def _list_posts(self, request: web.Request) -> web.Response:
        self._check(request)
        if self.garbled_answers:
            return self.garbled_answers.pop()
        return web.json_response(self.posts[int(request.query["after"] or 0) :])

    async def _list_comments(self, request: web.Request) -> web.Response:
        self._check(request)
        return web.json_response(list(self.comments[request.match_info["post"]].values()))

    async def _comment(self, request: web.Request) -> web.Response:
        self._check(request)
        below = self.comments[request.match_info["post"]]
        text = (await request.json())["text"]
        if self.refusals:
            self.refusals -= 1
            below.update({f"other {number}": {"id": "x", "is_bot": True, "text": "Hi"} for number in (1, 2)})
            raise web.HTTPTooManyRequests
        comment = below.setdefault(request.headers["Idempotency-Key"], {"id": f"c{len(below)}", "is_bot": True})
        comment.setdefault("text", text)
        if self.loses_responses:
            self.loses_responses -= 1
            assert request.transport
            request.transport.abort()
        return web.json_response({"id": comment["id"]}, status=201)

    @staticmethod
    def _check(request: web.Request) -> None:
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            raise web.HTTPUnauthorized

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[PostNetwork]:
        app = web.Application()
        app.router.add_get("/posts", self._list_posts)
        app.router.add_get("/posts/{post}/comments", self._list_comments)
        app.router.add_post("/posts/{post}/comments", self._comment)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", free_port())
        await site.start()
        self.url = site.name
        yield self
        await runner.cleanup()


class HttpBot(JournalledBot):
    """The adapter for HTTP with its inbox and journal, whose callbacks go to a bridge."""

    def __init__(self, folder: Path, bridge_port: int) -> None:
        super().__init__(folder)
        (folder / "secret").write_text(SECRET)
        self._settings = HttpSettings.model_validate(
            {
                "secret": {"file": str(folder / "secret")},
                "callback_url": f"http://127.0.0.1:{bridge_port}",
                "allow_private": ["127.0.0.1"],
                "port": free_port(),
            }
        )
        self.port = self._settings.port
        self.changes = {"auto_comment": {"chats": ["http:posts"], "include": ["launcher"], "replies_per_post": 2}}

    def make_adapter(self, configuration: Settings) -> HttpAdapter:
        return HttpAdapter(self._settings, HttpIntervals(retry_s=0.02, max_retry_s=0.2))

    async def until_listening(self) -> None:
        await asyncio.wait_for(self.adapter.ready.wait(), 30)


class BridgeProcess:
    """The program in a process of its own, which can be killed and started again."""

    def __init__(self, network: PostNetwork, bot: HttpBot, folder: Path, port: int) -> None:
        self._environment = {
            **os.environ,
            "KIMAS_HTTP_SECRET": SECRET,
            "KIMAS_URL": f"http://127.0.0.1:{bot.port}",
            "NETWORK_URL": network.url,
            "NETWORK_TOKEN": TOKEN,
            "BRIDGE_PORT": str(port),
            "BRIDGE_DATABASE": str(folder / "bridge.db"),
            "POLL_INTERVAL_S": "0.05",
        }

    async def start(self) -> None:
        self._process = await forked.start_program(PROGRAM, self._environment)
        assert self._process.stdout
        assert b"callbacks at" in await asyncio.wait_for(self._process.stdout.readline(), 30)

    async def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        await self._process.wait()


@asynccontextmanager
async def bridged(
    folder: Path, **comment_changes: object
) -> AsyncIterator[tuple[PostNetwork, HttpBot, BridgeProcess, int]]:
    port = free_port()
    bot = HttpBot(folder, port)
    bot.changes["auto_comment"].update(comment_changes)
    bot.says = "The launcher needs Java [1]."
    bot.citations = [Citation(1, "p1", "docs", "Launcher", "launcher.md", url="https://example.org/launcher")]
    async with PostNetwork().serve() as network:
        bridge = BridgeProcess(network, bot, folder, port)
        await bot.start()
        await bridge.start()
        yield network, bot, bridge, port
        await bridge.kill()
        await bot.stop()


async def test_a_post_gets_one_comment_with_its_source(tmp_path: Path) -> None:
    async with bridged(tmp_path) as (network, bot, _, _):
        post = network.post("What does the launcher need?")
        other_post = network.post("A picture of my cat")
        assert await bot.outcome(post) == ("answered", "")
        assert (await bot.outcome(other_post))[0] == "silent"
        assert network.texts(post) == ["The launcher needs Java [1].\n[1] https://example.org/launcher"]
        assert network.texts(other_post) == []


async def test_a_lost_response_and_a_kill_make_no_second_comment(tmp_path: Path) -> None:
    # The comment whose response is lost is a bot's too: it may not be counted against itself.
    async with bridged(tmp_path, replies_per_post=1) as (network, bot, bridge, _):
        network.loses_responses = 2
        post = network.post("What does the launcher need?")
        assert await bot.outcome(post) == ("answered", "")
        await bridge.kill()
        later_post = network.post("And which launcher is newer?")
        await bridge.start()
        assert await bot.outcome(later_post) == ("answered", "")
        assert [len(network.texts(number)) for number in (post, later_post)] == [1, 1]


async def test_an_unreadable_answer_ends_nothing(tmp_path: Path) -> None:
    async with bridged(tmp_path) as (network, bot, _, _):
        cut_short = web.Response(text="[]", headers={"Content-Length": "9"})
        network.garbled_answers = [web.Response(text="<html>Busy</html>"), web.Response(body=b"\xff"), cut_short]
        post = network.post("What does the launcher need?")
        assert await bot.outcome(post) == ("answered", "")
        assert (len(network.texts(post)), network.garbled_answers) == (1, [])


async def test_a_third_bot_says_nothing(tmp_path: Path) -> None:
    async with bridged(tmp_path) as (network, bot, _, _):
        bot.hold = asyncio.Event()
        post = network.post("What does the launcher need?")
        await bot.heard(post)
        network.comments[post] = {f"other {number}": {"id": "x", "is_bot": True, "text": "Hi"} for number in (1, 2)}
        bot.hold.set()
        assert (await bot.outcome(post))[0] == "silent"
        assert network.texts(post) == ["Hi", "Hi"]


async def test_bots_are_counted_again_after_a_refused_try(tmp_path: Path) -> None:
    async with bridged(tmp_path) as (network, bot, _, _):
        network.refusals = 1
        post = network.post("What does the launcher need?")
        assert (await bot.outcome(post))[0] == "silent"
        assert (network.refusals, network.texts(post)) == (0, ["Hi", "Hi"])


async def test_what_kimas_did_not_sign_is_refused(tmp_path: Path) -> None:
    async with bridged(tmp_path) as (network, _, _, port), aiohttp.ClientSession() as session:
        post = network.post("A picture of my cat")
        reply = {"state": "final", "event_id": post, "text": "Buy this", "citations": []}
        headers = {"X-Kimas-Timestamp": "1", "X-Kimas-Signature": "v1=0", "Idempotency-Key": "k"}
        async with session.post(f"http://127.0.0.1:{port}", json=reply, headers=headers) as response:
            assert response.status == 401
        assert network.texts(post) == []


async def test_a_recorded_callback_is_shown_once_whatever_its_header_says(tmp_path: Path) -> None:
    async with bridged(tmp_path) as (network, _, _, port), aiohttp.ClientSession() as session:
        post = network.post("A picture of my cat")
        reply = {"state": "final", "event_id": post, "text": "Use pip", "citations": []}
        statuses = []
        for key, header in (({"idempotency_key": "k"}, "k"), ({"idempotency_key": "k"}, "other"), ({}, "k")):
            body = json.dumps({**reply, **key}).encode()
            timestamp = str(int(time.time()))
            signature = sign(SECRET, timestamp, body)
            headers = {"X-Kimas-Timestamp": timestamp, "X-Kimas-Signature": signature, "Idempotency-Key": header}
            async with session.post(f"http://127.0.0.1:{port}", data=body, headers=headers) as response:
                statuses.append(response.status)
        assert (statuses, network.texts(post)) == ([200, 200, 400], ["Use pip"])
